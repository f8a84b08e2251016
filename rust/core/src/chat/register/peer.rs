//! The peer's tables: brought level behind our own, for nobody waits for them but the peer.
//!
//! A session that is not told there is not in `session_meta` either, so that the peer reads its file.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::disk::Disk;
use super::read::hash_of;
use crate::chat::document::Document;
use crate::chat::proof;
use crate::chat::search::turns;
use crate::db::chat_index::has_full_text;
use crate::db::fault::translate;
use crate::{Error, Result};

/// Bytes of text that one transaction writes: a writer of a session may have to wait for it.
const MOST: usize = 512 << 10;

const UNTOLD: &str = "\
SELECT id, file, hash, session_id, updated, gateway, agent FROM amber_session \
WHERE told = 0 AND reason IS NULL AND id > ?1 ORDER BY id LIMIT 64";
const STILL: &str = "SELECT text_row FROM amber_session WHERE id = ?1 AND hash = ?2 AND told = 0";
const META: &str = "INSERT OR REPLACE INTO session_meta (session_id, updated_at) VALUES (?1, ?2)";
const ROUTE: &str = "INSERT OR REPLACE INTO session_route (session_id, gateway_session_id, agent_id) \
                     VALUES (?1, ?2, ?3)";
const UNROUTE: &str = "DELETE FROM session_route WHERE session_id = ?1";
const TOLD: &str = "UPDATE amber_session SET told = 1, text_row = ?2 WHERE id = ?1";
const UNMETA: &str = "DELETE FROM session_meta WHERE session_id = ?1";

/// A session that the peer is to be told of.
struct Untold {
    id: i64,
    file: String,
    hash: i64,
    session_id: String,
    updated: String,
    route: [Option<String>; 2],
    text: String,
}

/// Tells the peer of some sessions behind the one numbered `after`, and returns the last of them;
/// `None` when there are no more. Files in `written` are left for later: they change just now.
pub(super) fn tell(
    disk: &Disk,
    directory: &Path,
    after: i64,
    is_written: impl Fn(&str) -> bool,
) -> Result<Option<i64>> {
    let fault = |source: rusqlite::Error| translate(disk.path(), "write", &source);
    let (waiting, is_ours) = disk.read(|connection| {
        let mut untold = connection.prepare_cached(UNTOLD)?;
        let rows = untold.query_map([after], |row| {
            Ok(Untold {
                id: row.get(0)?,
                file: row.get(1)?,
                hash: row.get(2)?,
                session_id: row.get(3)?,
                updated: row.get(4)?,
                route: [row.get(5)?, row.get(6)?],
                text: String::new(),
            })
        })?;
        let rows: Vec<Untold> = rows.collect::<rusqlite::Result<_>>()?;
        // A full-text table is nothing to a build without full text.
        Ok((rows, disk.has_full_text() || !has_full_text(connection)?))
    })?;
    let Some(mut last) = waiting.last().map(|one| one.id) else { return Ok(None) };
    if !is_ours {
        return Ok(Some(last));
    }
    let mut ready = Vec::new();
    let mut bytes = 0;
    for one in waiting {
        if bytes > MOST {
            break;
        }
        last = one.id;
        if let Some(text) = text_of(&directory.join(&one.file), one.hash)? {
            bytes += text.len();
            ready.push(Untold { text, ..one });
        }
    }
    disk.write(|connection| {
        for one in ready.iter().filter(|one| !is_written(&one.file)) {
            tell_one(connection, one, disk.has_full_text()).map_err(fault)?;
        }
        Ok(())
    })?;
    Ok(Some(last))
}

/// The text of a file under the peer's rules; `None` where it is not what the index has.
fn text_of(path: &Path, hash: i64) -> Result<Option<String>> {
    let found = proof::read(path).map_err(|error| Error::io(path, "read", &error))?;
    let Some((bytes, _)) = found.filter(|(bytes, _)| hash_of(bytes) == hash) else { return Ok(None) };
    let Ok(document) = Document::parse(&bytes) else { return Ok(None) };
    let turns = turns(&document);
    let texts: Vec<&str> = turns.iter().map(|turn| &*turn.text).filter(|text| !text.is_empty()).collect();
    Ok(Some(texts.join("\n")))
}

fn tell_one(connection: &Connection, one: &Untold, full_text: bool) -> rusqlite::Result<()> {
    let still: Option<Option<i64>> = connection
        .prepare_cached(STILL)?
        .query_row(params![one.id, one.hash], |row| row.get(0))
        .optional()?;
    let Some(text_row) = still else { return Ok(()) };
    drop_text(connection, &one.session_id, text_row, full_text)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO session_fts (session_id, content) VALUES (?1, ?2)")?
        .execute([&one.session_id, &one.text])?;
    let row = connection.last_insert_rowid();
    connection.prepare_cached(META)?.execute([&one.session_id, &one.updated])?;
    match &one.route {
        [None, None] => connection.prepare_cached(UNROUTE)?.execute([&one.session_id])?,
        [gateway, agent] => {
            connection.prepare_cached(ROUTE)?.execute(params![one.session_id, gateway, agent])?
        }
    };
    connection.prepare_cached("DELETE FROM amber_peer WHERE session_id = ?1")?.execute([&one.session_id])?;
    connection.prepare_cached(TOLD)?.execute([one.id, row])?;
    Ok(())
}

/// Removes a session's row from the text table, where the row is that session's still.
pub(super) fn drop_text(
    connection: &Connection,
    session_id: &str,
    row: Option<i64>,
    full_text: bool,
) -> rusqlite::Result<()> {
    if !full_text {
        if !has_full_text(connection)? {
            connection
                .prepare_cached("DELETE FROM session_fts WHERE session_id = ?1")?
                .execute([session_id])?;
        }
        return Ok(());
    }
    let Some(row) = row else { return Ok(()) };
    let owner: Option<String> = if has_full_text(connection)? {
        connection
            .prepare_cached("SELECT c0 FROM session_fts_content WHERE id = ?1")?
            .query_row([row], |found| found.get(0))
            .optional()?
    } else {
        Some(session_id.to_owned())
    };
    if owner.as_deref() == Some(session_id) {
        connection.prepare_cached("DELETE FROM session_fts WHERE rowid = ?1")?.execute([row])?;
    }
    Ok(())
}

/// Takes over what the peer wrote: its rows of a session are right where it read what the index has
/// of the file, and go where not.
pub(super) fn take_over(disk: &Disk) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(disk.path(), "write", &source);
    let is_any = disk.read(|connection| {
        connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM amber_peer)")?
            .query_row([], |row| row.get::<_, bool>(0))
    })?;
    if !is_any {
        return Ok(());
    }
    disk.write(|connection| take_over_rows(connection, disk.has_full_text()).map_err(fault))
}

fn take_over_rows(connection: &Connection, full_text: bool) -> rusqlite::Result<()> {
    let strings = |sql: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let mut waiting: HashSet<String> = strings("SELECT session_id FROM amber_peer")?.into_iter().collect();
    if full_text && has_full_text(connection)? {
        // The peer finds its rows by a look at all of them; so must whoever looks for them.
        let rows: Vec<(i64, String)> = connection
            .prepare_cached(
                "SELECT id, c0 FROM session_fts_content WHERE c0 IN (SELECT session_id FROM amber_peer)",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (row, session_id) in rows {
            let is_right: Option<i64> = connection
                .prepare_cached(
                    "SELECT s.id FROM amber_session AS s JOIN session_meta AS m ON m.session_id = s.session_id \
                     WHERE s.session_id = ?1 AND m.updated_at IS s.updated",
                )?
                .query_row([&session_id], |row| row.get(0))
                .optional()?;
            match is_right {
                Some(id) if waiting.remove(&session_id) => {
                    connection.prepare_cached(TOLD)?.execute([id, row])?;
                }
                _ => {
                    connection.prepare_cached("DELETE FROM session_fts WHERE rowid = ?1")?.execute([row])?;
                }
            }
        }
    }
    for session_id in waiting {
        connection.prepare_cached(UNMETA)?.execute([&session_id])?;
        connection
            .prepare_cached("UPDATE amber_session SET told = 0, text_row = NULL WHERE session_id = ?1")?
            .execute([&session_id])?;
    }
    connection.execute_batch("DELETE FROM amber_peer")
}
