//! The newest snapshot of an agent, as far as the next one must know it.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use xxhash_rust::xxh3::xxh3_64;

use super::tag::{Tag, parse_path, path_of_runs, path_value, runs_of};
use crate::bundle::value::list_header;
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::has_table;

const SEGMENT: &str = "amber_segment";
const SNAPSHOT: &str = "amber_snapshot";

/// A run of messages: the segment that holds them and how many of it are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number among the agent's segments.
    pub segment: i64,
    /// How many of its messages belong to the snapshot, from the first.
    pub take: usize,
    /// Whether these are all that the segment holds.
    pub whole: bool,
}

/// One snapshot without its messages.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its row.
    pub id: i64,
    /// The turn that it closes.
    pub turn: i64,
    /// How many messages it has.
    pub messages: usize,
    /// When it was taken.
    pub ts: f64,
    /// What it was tagged with.
    pub tag: Tag,
    /// Where its messages are.
    pub parts: Vec<Part>,
}

/// The newest snapshot of an agent with what is needed to write the next.
#[derive(Debug)]
pub struct Head {
    /// The agent's number; ids of its rows start there.
    pub agent: i64,
    /// The newest snapshot, if there is one.
    pub record: Option<Record>,
    /// The hash of each of its messages.
    pub hashes: Vec<u64>,
    /// Bytes of each of its messages.
    pub sizes: Vec<usize>,
    /// The number of the next segment.
    pub next_segment: i64,
    /// Bytes of the messages when the peer's rows were last written.
    pub peer_bytes: usize,
    /// Bytes that are new since.
    pub unseen_bytes: usize,
    /// Whether the peer's rows lag behind.
    pub pending: bool,
    stale: bool,
}

/// The heads of all agents that were asked about.
#[derive(Debug, Default)]
pub struct Heads {
    known: HashMap<String, Head>,
}

impl Heads {
    /// Notes that something may have changed past these heads.
    pub fn mark_stale(&mut self) {
        for head in self.known.values_mut() {
            head.stale = true;
        }
    }

    /// The head of `agent`, level with the file: one that `is_level` doubts is read anew by `load`.
    pub fn get<E>(
        &mut self,
        agent: &str,
        is_level: impl FnOnce(&Head) -> Result<bool, E>,
        load: impl FnOnce() -> Result<Head, E>,
    ) -> Result<&mut Head, E> {
        let is_level = match self.known.get(agent) {
            Some(head) if head.stale => is_level(head)?,
            Some(_) => true,
            None => false,
        };
        if !is_level {
            let head = load()?;
            self.known.insert(agent.to_owned(), head);
        }
        match self.known.entry(agent.to_owned()) {
            std::collections::hash_map::Entry::Occupied(found) => {
                let head = found.into_mut();
                head.stale = false;
                Ok(head)
            }
            std::collections::hash_map::Entry::Vacant(missing) => Ok(missing.insert(Head::new(0))),
        }
    }

    /// Whether `newest` is known to be the agent's newest snapshot and to need no refresh.
    pub fn is_settled(&self, agent: &str, newest: i64) -> bool {
        self.known.get(agent).is_some_and(|head| {
            !head.pending && head.record.as_ref().is_some_and(|record| record.id == newest)
        })
    }
}

impl Head {
    /// The head of an agent without snapshots.
    pub fn new(agent: i64) -> Self {
        Self {
            agent,
            record: None,
            hashes: Vec::new(),
            sizes: Vec::new(),
            next_segment: 0,
            peer_bytes: 0,
            unseen_bytes: 0,
            pending: false,
            stale: false,
        }
    }

    /// Where the first `count` messages are.
    pub fn parts_of(&self, count: usize) -> Vec<Part> {
        let mut left = count;
        let mut parts = Vec::new();
        for part in self.record.iter().flat_map(|record| &record.parts) {
            if left == 0 {
                break;
            }
            let take = part.take.min(left);
            parts.push(Part { segment: part.segment, take, whole: part.whole && take == part.take });
            left -= take;
        }
        parts
    }

    /// Takes the messages of `bodies` as those of this head.
    pub fn set_messages<'a>(&mut self, bodies: impl Iterator<Item = &'a [u8]>) {
        (self.hashes, self.sizes) = bodies.map(|body| (xxh3_64(body), body.len())).unzip();
    }
}

/// The id of a row that belongs to agent number `agent`.
pub fn row_id(agent: i64, number: i64) -> i64 {
    (agent << 32) | number
}

/// The agent's number, if it has one.
pub fn agent_number(connection: &Connection, agent: &str) -> rusqlite::Result<Option<i64>> {
    if !has_table(connection, SNAPSHOT)? {
        return Ok(None);
    }
    connection
        .prepare_cached("SELECT number FROM amber_agent WHERE name = ?1")?
        .query_row([agent], |row| row.get(0))
        .optional()
}

/// The id of the agent's newest snapshot, 0 when it has none.
pub fn newest_id(connection: &Connection, agent: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(id), 0) FROM amber_snapshot WHERE id BETWEEN ?1 AND ?2")?
        .query_row((row_id(agent, 0), row_id(agent + 1, 0) - 1), |row| row.get(0))
}

/// The number of the agent's next segment.
pub fn next_segment(connection: &Connection, agent: i64) -> rusqlite::Result<i64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM amber_segment WHERE id BETWEEN ?1 AND ?2")?
        .query_row((row_id(agent, 0), row_id(agent + 1, 0) - 1), |row| row.get(0))?;
    Ok(last.map_or(0, |id| id - row_id(agent, 0) + 1))
}

/// Seals a row of a private table under its id.
pub fn seal_row(table: &str, id: i64, body: &[u8]) -> Vec<u8> {
    codec::seal(table, &id.to_be_bytes(), body)
}

/// Opens a row of a private table; `Err` holds what is wrong with it.
pub fn open_row(table: &str, id: i64, stored: &[u8]) -> Result<Vec<u8>, String> {
    match codec::open(table, &id.to_be_bytes(), stored) {
        Ok(Stored::Object(body)) => Ok(body.into_owned()),
        Ok(Stored::Bytes(_)) => Err("raw bytes where a sealed value belongs".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Seals a segment.
pub fn seal_segment(id: i64, body: &[u8]) -> Vec<u8> {
    seal_row(SEGMENT, id, body)
}

/// Opens a segment: a list of messages.
pub fn open_segment(id: i64, stored: &[u8]) -> Result<Vec<u8>, String> {
    open_row(SEGMENT, id, stored)
}

/// The bytes of the first `take` messages of a segment, one slice each.
pub fn messages_of(segment: &[u8], take: usize) -> Option<Vec<&[u8]>> {
    let (count, mut at) = list_header(segment)?;
    if take > count {
        return None;
    }
    let mut messages = Vec::with_capacity(take);
    for _ in 0..take {
        let rest = segment.get(at..)?;
        let length = msgpack::object_len(rest).ok()?;
        messages.push(rest.get(..length)?);
        at += length;
    }
    Some(messages)
}

impl Record {
    /// The row's bytes.
    pub fn seal(&self) -> Vec<u8> {
        let mut fields = vec![
            ("turn".into(), Value::Int(self.turn)),
            ("messages".into(), integer(self.messages)),
            ("ts".into(), Value::Float(self.ts)),
            ("parts".into(), self.ranges()),
        ];
        if let Tag::Branch { branch, parents, watermark, compact_state } = &self.tag {
            fields.push(("branch".into(), branch.clone()));
            if let Some(parents) = parents {
                fields.push(("parents".into(), runs_of(parents)));
            }
            fields.push(("watermark".into(), Value::Int(*watermark)));
            fields.push(("compact_state".into(), compact_state.clone()));
        }
        let mut body = Vec::new();
        msgpack::put_value(&mut body, &Value::Map(fields));
        seal_row(SNAPSHOT, self.id, &body)
    }

    /// Reads a row.
    pub fn open(id: i64, stored: &[u8]) -> Result<Self, String> {
        let body = open_row(SNAPSHOT, id, stored)?;
        let value = msgpack::decode(&body).map_err(|fault| fault.to_string())?;
        let number = |field: &str| value.get(field).and_then(Value::as_i64);
        let missing = || "a field of the snapshot is missing".to_owned();
        let tag = match number("watermark") {
            Some(watermark) => Tag::Branch {
                branch: value.get("branch").cloned().unwrap_or(Value::Nil),
                parents: value.get("parents").and_then(path_of_runs),
                watermark,
                compact_state: value.get("compact_state").cloned().unwrap_or(Value::Nil),
            },
            None => Tag::Plain,
        };
        Ok(Self {
            id,
            turn: number("turn").ok_or_else(missing)?,
            messages: number("messages").and_then(|count| usize::try_from(count).ok()).ok_or_else(missing)?,
            ts: value.get("ts").and_then(Value::as_f64).unwrap_or(0.0),
            parts: value.get("parts").and_then(parts_of_ranges).ok_or_else(missing)?,
            tag,
        })
    }

    /// Whole segments in a row are written as one range, so that a straight history has one.
    fn ranges(&self) -> Value {
        let mut ranges: Vec<(i64, i64, Part)> = Vec::new();
        for part in &self.parts {
            match ranges.last_mut() {
                Some((from, length, last)) if last.whole && *from + *length == part.segment => {
                    *length += 1;
                    *last = *part;
                }
                _ => ranges.push((part.segment, 1, *part)),
            }
        }
        Value::List(
            ranges
                .into_iter()
                .map(|(from, length, last)| {
                    Value::List(vec![Value::Int(from), Value::Int(length), integer(last.take)])
                })
                .collect(),
        )
    }
}

/// Ranges hold no count but the last one's: the others are whole, and their rows know how many they have.
const WHOLE: usize = usize::MAX;

fn parts_of_ranges(ranges: &Value) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for range in ranges.as_list()? {
        let [from, segments, last] = range.as_list()? else { return None };
        let (from, segments) = (from.as_i64()?, segments.as_i64()?);
        if !(1..=1 << 31).contains(&segments) {
            return None;
        }
        for offset in 0..segments {
            parts.push(Part { segment: from.checked_add(offset)?, take: WHOLE, whole: true });
        }
        let end = parts.last_mut()?;
        end.take = usize::try_from(last.as_i64()?).ok()?;
        end.whole = false;
    }
    Some(parts)
}

fn integer(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Where a branch's record says its lineage is.
pub fn record_path(record: &Value) -> Option<super::tag::Path> {
    record.get("path").and_then(parse_path).filter(|path| !path.is_empty())
}

/// The record of a branch as the peer keeps it.
pub fn branch_record(path: &super::tag::Path, tag: &Tag, messages: Value) -> Value {
    let (watermark, cutoff) = match tag {
        Tag::Branch { branch, watermark, .. } => {
            (*watermark, branch.get("context_cutoff_event_id").cloned().unwrap_or(Value::Int(0)))
        }
        Tag::Plain => (0, Value::Int(0)),
    };
    Value::Map(vec![
        ("path".into(), path_value(path)),
        ("messages".into(), messages),
        ("watermark".into(), Value::Int(watermark)),
        ("compact_state".into(), tag.compact_state()),
        ("context_cutoff_event_id".into(), cutoff),
    ])
}
