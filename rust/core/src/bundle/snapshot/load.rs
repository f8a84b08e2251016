//! Reading snapshots back: the newest list, the list of a turn, what turns there are.

use rusqlite::{Connection, OptionalExtension};

use super::head::{Part, Record, agent_number, messages_of, newest_id, open_segment, row_id};
use super::peer;
use super::tag::{Path, Tag};
use crate::bundle::handle::Inner;
use crate::bundle::value::{Payload, list_header};
use crate::codec::{Value, msgpack};
use crate::error::{Error, Result};

const ACTION: &str = "read the snapshots of";

/// The messages of a snapshot as they are stored.
#[derive(Debug)]
pub enum Conversation {
    /// Lists to be read one after the other.
    Lists(Vec<Vec<u8>>),
    /// One value that another program wrote: a list, or an older form.
    Whole(Payload),
}

/// One turn that has a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotInfo {
    /// The turn.
    pub turn: i64,
    /// How many messages it has.
    pub messages: usize,
    /// When it was taken, seconds since 1970.
    pub ts: f64,
    /// The branch of the turn, where the runtime named one.
    pub branch: Option<i64>,
    /// The highest event that the messages include, where the runtime named one.
    pub watermark: Option<i64>,
}

impl Inner {
    /// The messages of the newest snapshot, or of the newest one of `turn`.
    pub(in crate::bundle) fn load_snapshot(
        &self,
        agent: &str,
        turn: Option<i64>,
    ) -> Result<Option<Conversation>> {
        self.read(ACTION, |connection| match turn {
            None => newest(self, connection, agent),
            Some(turn) => of_turn(self, connection, agent, turn),
        })
    }

    /// The turns that have a snapshot, in the order in which they were last taken.
    pub(in crate::bundle) fn snapshots(&self, agent: &str) -> Result<Vec<SnapshotInfo>> {
        self.read(ACTION, |connection| {
            let fault = self.fault(ACTION);
            let Some(number) = agent_number(connection, agent).map_err(&fault)? else {
                return Ok(Vec::new());
            };
            let ids: Vec<i64> = connection
                .prepare_cached(
                    "SELECT max(id) FROM amber_snapshot WHERE agent = ?1 GROUP BY turn ORDER BY 1",
                )
                .and_then(|mut select| select.query_map([number], |row| row.get(0))?.collect())
                .map_err(&fault)?;
            ids.into_iter().map(|id| Ok(describe(&record(self, connection, id)?))).collect()
        })
    }

    /// The record of the deepest snapshot whose lineage the target continues; ties go to the higher watermark.
    pub(in crate::bundle) fn load_branch_snapshot(
        &self,
        agent: &str,
        target: &Path,
    ) -> Result<Option<Value>> {
        self.read(ACTION, |connection| peer::branch_snapshot(self, connection, agent, target))
    }
}

/// What a conversation goes on from: the newest snapshot, whoever wrote it.
#[derive(Debug)]
pub struct Base {
    /// Its id; 0 when another program wrote it.
    pub id: i64,
    /// How many messages it has.
    pub count: usize,
    /// The highest event that they include, where that is known.
    pub watermark: Option<i64>,
    /// The branches that they tell of, where they are known.
    pub lineage: Option<Path>,
    /// The counters of the compaction, or nil.
    pub compact_state: Value,
    messages: Source,
}

/// Where the messages of a base are.
#[derive(Debug)]
enum Source {
    /// In the snapshots of the agent of this number.
    Ours(i64),
    /// In the list that another program wrote.
    Theirs(Conversation),
}

impl Base {
    /// Its messages, decoded.
    pub fn messages(&self, inner: &Inner, connection: &Connection) -> Result<Vec<Value>> {
        match &self.messages {
            Source::Ours(agent) => match lists(inner, connection, *agent, self.id)? {
                Conversation::Lists(lists) => Ok(peer::decode_lists(&lists)),
                Conversation::Whole(_) => Ok(Vec::new()),
            },
            Source::Theirs(Conversation::Lists(lists)) => Ok(peer::decode_lists(lists)),
            Source::Theirs(Conversation::Whole(Payload::Object(body))) => {
                Ok(peer::decode_lists(std::slice::from_ref(body)))
            }
            Source::Theirs(Conversation::Whole(Payload::Bytes(_))) => Ok(Vec::new()),
        }
    }

    /// A snapshot of ours.
    pub(super) fn ours(agent: i64, record: &Record) -> Self {
        let (watermark, compact_state) = match &record.tag {
            Tag::Plain => (None, Value::Nil),
            Tag::Branch { watermark, compact_state, .. } => (Some(*watermark), compact_state.clone()),
        };
        Self {
            id: record.id,
            count: record.messages,
            watermark,
            lineage: record.tag.lineage(),
            compact_state,
            messages: Source::Ours(agent),
        }
    }

    /// A list that another program wrote, with what it says of it.
    pub(super) fn foreign(messages: Conversation, watermark: Option<i64>, lineage: Option<Path>) -> Self {
        let count = match &messages {
            Conversation::Whole(Payload::Object(body)) => list_header(body).map_or(0, |(count, _)| count),
            _ => 0,
        };
        let messages = Source::Theirs(messages);
        Self { id: 0, count, watermark, lineage, compact_state: Value::Nil, messages }
    }
}

/// Finds what the conversation of an agent goes on from.
pub fn base(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<Base>> {
    match find_newest(inner, connection, agent)? {
        Place::Nowhere => Ok(None),
        Place::Row { stored, ours: None } => {
            let messages = peer::open_conversation(inner, agent, stored, false)?;
            peer::foreign_base(inner, connection, agent, messages).map(Some)
        }
        Place::Row { ours: Some(own), .. } | Place::Segments(own) => {
            Ok(Some(Base::ours(own.agent, &record(inner, connection, own.id)?)))
        }
    }
}

fn describe(record: &Record) -> SnapshotInfo {
    let (branch, watermark) = match &record.tag {
        Tag::Plain => (None, None),
        Tag::Branch { branch, watermark, .. } => {
            (branch.get("branch_id").and_then(Value::as_i64), Some(*watermark))
        }
    };
    SnapshotInfo { turn: record.turn, messages: record.messages, ts: record.ts, branch, watermark }
}

fn newest(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<Conversation>> {
    match find_newest(inner, connection, agent)? {
        Place::Nowhere => Ok(None),
        Place::Row { stored, ours } => {
            peer::open_conversation(inner, agent, stored, ours.is_some()).map(Some)
        }
        Place::Segments(own) => lists(inner, connection, own.agent, own.id).map(Some),
    }
}

/// Where the newest messages are.
enum Place {
    Nowhere,
    /// In the peer's row, which is our newest snapshot where we wrote it.
    Row {
        stored: Vec<u8>,
        ours: Option<Own>,
    },
    /// In our newest snapshot, which the row does not show yet.
    Segments(Own),
}

/// The newest snapshot of ours.
#[derive(Clone, Copy)]
struct Own {
    /// The agent's number.
    agent: i64,
    id: i64,
}

fn find_newest(inner: &Inner, connection: &Connection, agent: &str) -> Result<Place> {
    let fault = inner.fault(ACTION);
    let row = peer::conversation_row(connection, agent).map_err(&fault)?;
    let written = peer::written(connection, agent).map_err(&fault)?;
    if row.is_none() && written.is_some() {
        // The row was there, and somebody removed it.
        return Ok(Place::Nowhere);
    }
    let own = match agent_number(connection, agent).map_err(&fault)? {
        Some(agent) => Some(Own { agent, id: newest_id(connection, agent).map_err(&fault)? }),
        None => None,
    };
    let own = own.filter(|own| own.id > 0);
    if let Some(stored) = row {
        let written = written.filter(|written| written.check == peer::check_of(&stored));
        let Some((own, written)) = own.zip(written) else { return Ok(Place::Row { stored, ours: None }) };
        if written.snapshot == own.id {
            return Ok(Place::Row { stored, ours: Some(own) });
        }
    }
    Ok(own.map_or(Place::Nowhere, Place::Segments))
}

/// The newest snapshot with its tag.
pub enum Newest {
    /// There is none.
    Nothing,
    /// One of ours: lists to be read one after the other, and its tag.
    Ours(Vec<Vec<u8>>, Tag),
    /// A row that another program wrote.
    Theirs(Payload),
}

/// How many snapshots back a tag is looked for.
const TAGS: i64 = 64;

/// The tag of the last snapshot that has one, before an untagged newest one.
pub fn last_tag(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<Tag>> {
    let fault = inner.fault(ACTION);
    let Some(number) = agent_number(connection, agent).map_err(&fault)? else { return Ok(None) };
    let newest = newest_id(connection, number).map_err(&fault)?;
    let first = row_id(number, 1).max(newest - TAGS);
    for id in (first..newest).rev() {
        let tag = record(inner, connection, id)?.tag;
        if tag != Tag::Plain {
            return Ok(Some(tag));
        }
    }
    Ok(None)
}

/// Reads the newest snapshot with its tag.
pub fn newest_tagged(inner: &Inner, connection: &Connection, agent: &str) -> Result<Newest> {
    let (conversation, id) = match find_newest(inner, connection, agent)? {
        Place::Nowhere => return Ok(Newest::Nothing),
        Place::Row { stored, ours } => {
            (peer::open_conversation(inner, agent, stored, ours.is_some())?, ours.map(|own| own.id))
        }
        Place::Segments(own) => (lists(inner, connection, own.agent, own.id)?, Some(own.id)),
    };
    match (conversation, id) {
        (Conversation::Whole(Payload::Object(body)), Some(id)) => {
            Ok(Newest::Ours(vec![body], record(inner, connection, id)?.tag))
        }
        (Conversation::Lists(lists), Some(id)) => Ok(Newest::Ours(lists, record(inner, connection, id)?.tag)),
        (Conversation::Whole(payload), _) => Ok(Newest::Theirs(payload)),
        (Conversation::Lists(_), None) => Ok(Newest::Nothing),
    }
}

fn of_turn(inner: &Inner, connection: &Connection, agent: &str, turn: i64) -> Result<Option<Conversation>> {
    let fault = inner.fault(ACTION);
    let Some(number) = agent_number(connection, agent).map_err(&fault)? else { return Ok(None) };
    let id: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM amber_snapshot WHERE agent = ?1 AND turn = ?2")
        .and_then(|mut select| select.query_row((number, turn), |row| row.get(0)))
        .map_err(&fault)?;
    id.map(|id| lists(inner, connection, number, id)).transpose()
}

/// The messages of one snapshot, as lists.
pub(super) fn lists(inner: &Inner, connection: &Connection, agent: i64, id: i64) -> Result<Conversation> {
    let mut record = record(inner, connection, id)?;
    let mut bodies = segments(inner, connection, agent, &mut record.parts)?;
    for (body, part) in bodies.iter_mut().zip(&record.parts) {
        if !part.whole {
            let messages = messages_of(body, part.take)
                .ok_or_else(|| damaged(inner, part.segment, "it has fewer messages than a snapshot takes"))?;
            let mut cut = Vec::with_capacity(body.len());
            msgpack::put_list_header(&mut cut, messages.len());
            for message in messages {
                cut.extend_from_slice(message);
            }
            *body = cut;
        }
    }
    Ok(Conversation::Lists(bodies))
}

/// Reads the row of one snapshot.
pub(super) fn record(inner: &Inner, connection: &Connection, id: i64) -> Result<Record> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT body FROM amber_snapshot WHERE id = ?1")
        .and_then(|mut select| select.query_row([id], |row| row.get(0)).optional())
        .map_err(inner.fault(ACTION))?;
    let stored = stored
        .ok_or_else(|| Error::damaged(&inner.path, format!("amber_snapshot[{id}]"), "the row is missing"))?;
    Record::open(id, &stored)
        .map_err(|what| Error::damaged(&inner.path, format!("amber_snapshot[{id}]"), what))
}

/// Reads the segments of `parts` and notes how much of each is meant.
pub(super) fn segments(
    inner: &Inner,
    connection: &Connection,
    agent: i64,
    parts: &mut [Part],
) -> Result<Vec<Vec<u8>>> {
    let fault = inner.fault(ACTION);
    let mut select =
        connection.prepare_cached("SELECT body FROM amber_segment WHERE id = ?1").map_err(&fault)?;
    let mut bodies = Vec::with_capacity(parts.len());
    for part in parts {
        let id = row_id(agent, part.segment);
        let stored: Option<Vec<u8>> = select.query_row([id], |row| row.get(0)).optional().map_err(&fault)?;
        let stored = stored.ok_or_else(|| damaged(inner, id, "the row is missing"))?;
        let body = open_segment(id, &stored).map_err(|what| damaged(inner, id, &what))?;
        let count = list_header(&body).map_or(0, |(count, _)| count);
        part.take = part.take.min(count);
        part.whole = part.take == count;
        bodies.push(body);
    }
    Ok(bodies)
}

fn damaged(inner: &Inner, id: i64, what: &str) -> Error {
    Error::damaged(&inner.path, format!("amber_segment[{id}]"), what)
}
