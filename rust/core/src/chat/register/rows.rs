//! What the index says of each session, and the statements that write it.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::build::Segment;
use super::pages;
use crate::chat::entry::Entry;
use crate::codec::json::Json;

/// What one file is, as far as the index is asked.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) file: String,
    /// What the file was when it was read; like no other where that is not sure.
    pub(super) print: Vec<u8>,
    /// A hash of its bytes.
    pub(super) hash: i64,
    /// The session, or why there is none.
    pub(super) session: Result<Session, String>,
}

/// What a file says that is a session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) entry: Entry,
    pub(super) shown: String,
    pub(super) is_automated: bool,
    pub(super) lineage: Option<String>,
    /// Its place in the segment.
    pub(super) place: u32,
}

const PUT: &str = "\
INSERT INTO amber_session (file, print, hash, reason, session_id, updated, row, agent_name, gateway, agent, \
shown, automated, lineage, segment, place, told) \
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 0) \
ON CONFLICT (file) DO UPDATE SET told = told AND hash = excluded.hash, print = excluded.print, \
hash = excluded.hash, reason = excluded.reason, session_id = excluded.session_id, \
updated = excluded.updated, row = excluded.row, agent_name = excluded.agent_name, \
gateway = excluded.gateway, agent = excluded.agent, shown = excluded.shown, \
automated = excluded.automated, lineage = excluded.lineage, segment = excluded.segment, \
place = excluded.place";
const OLD: &str = "SELECT session_id, hash, text_row FROM amber_session WHERE file = ?1";
const UNMETA: &str = "DELETE FROM session_meta WHERE session_id = ?1";
const UNROUTE: &str = "DELETE FROM session_route WHERE session_id = ?1";
const UNTEXT: &str = "UPDATE amber_session SET text_row = NULL WHERE file = ?1";
const DROP: &str = "DELETE FROM amber_session WHERE file = ?1";
const SEAL: &str = "UPDATE amber_session SET print = ?2 WHERE file = ?1 AND hash = ?3";
const NEXT: &str = "UPDATE amber_meta SET value = value + 1 WHERE name = ?1 RETURNING value";
const VALUE: &str = "SELECT value FROM amber_meta WHERE name = ?1";

/// What the generations of one making of the tables have in common.
pub(super) fn birth(generation: i64) -> i64 {
    generation >> 20
}

/// A number that grows with each change of the index.
pub(super) fn generation(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(VALUE)?.query_row(["generation"], |row| row.get(0))
}

/// Counts a change, or a segment.
pub(super) fn next(connection: &Connection, what: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(NEXT)?.query_row([what], |row| row.get(0))
}

/// Writes what files say, and the segment of their words.
pub(super) fn put(
    connection: &Connection,
    cards: &[Card],
    segment: &Segment,
    full_text: bool,
) -> rusqlite::Result<()> {
    let number = next(connection, "segment")?;
    put_segment(connection, number, segment)?;
    for card in cards {
        let old: Option<(String, i64, Option<i64>)> = connection
            .prepare_cached(OLD)?
            .query_row([&card.file], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        put_card(connection, card, number)?;
        let Some((id, hash, text_row)) = old else { continue };
        if hash != card.hash {
            // What the peer may believe is no more than what is true.
            connection.prepare_cached(UNMETA)?.execute([&id])?;
        }
        if card.session.as_ref().ok().map(|session| text(&session.entry.session_id)).as_ref() != Some(&id) {
            super::peer::drop_text(connection, &id, text_row, full_text)?;
            connection.prepare_cached(UNROUTE)?.execute([&id])?;
            connection.prepare_cached(UNTEXT)?.execute([&card.file])?;
        }
    }
    Ok(())
}

fn put_segment(connection: &Connection, number: i64, segment: &Segment) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO amber_page (id, body) VALUES (?1, ?2)")?;
    let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    for (at, page) in segment.records.chunks(super::build::PAGE).enumerate() {
        insert.execute(params![pages::id(number, false, narrow(at)), page])?;
    }
    for (at, page) in segment.dictionary.iter().enumerate() {
        insert.execute(params![pages::id(number, true, narrow(at)), page])?;
    }
    let mut messages = Vec::new();
    for count in &segment.messages {
        super::build::put(*count, &mut messages);
    }
    connection
        .prepare_cached("INSERT INTO amber_segment (id, size, messages, dictionary) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![number, segment.size, messages, narrow(segment.dictionary.len())])?;
    Ok(())
}

fn put_card(connection: &Connection, card: &Card, segment: i64) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(PUT)?;
    match &card.session {
        Ok(session) => {
            let entry = &session.entry;
            put.execute(params![
                card.file,
                card.print,
                card.hash,
                None::<String>,
                text(&entry.session_id),
                entry.updated,
                entry.row,
                named(&entry.agent_name),
                named(&entry.gateway_session_id),
                named(&entry.agent_id),
                session.shown,
                session.is_automated,
                session.lineage,
                segment,
                session.place,
            ])?;
        }
        Err(reason) => {
            let nothing = None::<String>;
            put.execute(params![
                card.file, card.print, card.hash, reason, "", "", "", nothing, nothing, nothing, "", false,
                nothing, 0, 0,
            ])?;
        }
    }
    Ok(())
}

/// Notes that files are what they were, and whether that is sure now.
pub(super) fn seal(connection: &Connection, cards: &[Card]) -> rusqlite::Result<()> {
    let mut seal = connection.prepare_cached(SEAL)?;
    for card in cards {
        seal.execute(params![card.file, card.print, card.hash])?;
    }
    Ok(())
}

/// Forgets files that are gone, in the peer's tables too.
pub(super) fn forget(connection: &Connection, files: &[String], full_text: bool) -> rusqlite::Result<()> {
    for file in files {
        let old: Option<(String, Option<i64>)> = connection
            .prepare_cached(OLD)?
            .query_row([file], |row| Ok((row.get(0)?, row.get(2)?)))
            .optional()?;
        let Some((id, text_row)) = old else { continue };
        connection.prepare_cached(DROP)?.execute([file])?;
        super::peer::drop_text(connection, &id, text_row, full_text)?;
        connection.prepare_cached(UNMETA)?.execute([&id])?;
        connection.prepare_cached(UNROUTE)?.execute([&id])?;
    }
    Ok(())
}

/// Removes segments of which no session is left.
pub(super) fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let dead: Vec<i64> = connection
        .prepare_cached(
            "SELECT id FROM amber_segment AS s \
             WHERE NOT EXISTS (SELECT 1 FROM amber_session WHERE segment = s.id)",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for segment in dead {
        let (first, end) = pages::ids(segment);
        connection
            .prepare_cached("DELETE FROM amber_page WHERE id >= ?1 AND id < ?2")?
            .execute([first, end])?;
        connection.prepare_cached("DELETE FROM amber_segment WHERE id = ?1")?.execute([segment])?;
    }
    Ok(())
}

/// An id as text, whatever the document has for one.
fn text(id: &Json) -> String {
    id.as_str().map_or_else(|| id.to_text(), str::to_owned)
}

/// What somebody can be asked for by.
fn named(value: &Json) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
