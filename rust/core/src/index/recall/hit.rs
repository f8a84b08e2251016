//! A block that was found, with its text, which is read from its session.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::document::{Origin, kind_of, round_and_block};
use super::gather::{Found, Ground};
use super::session::{decoded, through_rows};
use crate::codec::Value;
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::index::handle::found_in;
use crate::index::name::stem;
use crate::index::read;
use crate::index::rows::Trouble;
use crate::model::{EVENT_MARK, MESSAGE_MARK, channel_key, event_key, parse_numbered};
use crate::recall::blocks::{Kind, cut_message, pieces};

/// A block of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The name of its session.
    pub session: String,
    /// The session's file, below the session directory.
    pub path: String,
    /// Its name in its session, the same as a search of that session gives it.
    pub block_id: String,
    /// Whose log it is in; of a channel's message, the channel.
    pub agent: String,
    /// What it is.
    pub kind: Kind,
    /// The round of the agent.
    pub round: i64,
    /// The place within the round.
    pub block: i64,
    /// The turn of the event.
    pub turn: Option<i64>,
    /// When it happened, in seconds since 1970; 0 when that is not known.
    pub ts: f64,
    /// The id of the event; 0 for a message of a channel.
    pub event_id: i64,
    /// The key of the row.
    pub event_key: String,
    /// The tool that was called.
    pub tool_name: String,
    /// The channel of a message, or of what a message started.
    pub channel: String,
    /// The whole text.
    pub content: String,
    /// How well it matches; of a session, how well all of it does.
    pub score: f64,
}

/// A block as its row tells it.
struct Told {
    name: String,
    agent: String,
    kind: Kind,
    turn: Option<i64>,
    ts: f64,
    event_id: i64,
    event_key: String,
    tool_name: String,
    channel: String,
    content: String,
}

/// Reads the texts of what was found; each session is opened once. A block whose session has gone
/// meanwhile is left out.
pub(super) fn hits(directory: &Path, found: &[Found], ground: &Ground) -> Result<Vec<Hit>> {
    let mut by_session: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, one) in found.iter().enumerate() {
        by_session.entry(one.at).or_default().push(number);
    }
    let mut hits: Vec<Option<Hit>> = vec![None; found.len()];
    for (at, numbers) in by_session {
        let Some(known) = ground.known(at) else { continue };
        let ids: Vec<i64> = numbers.iter().map(|number| found[*number].id).collect();
        let told = match told(directory, &known.path, &ids) {
            Err(Error::NotFound { .. } | Error::Gone { .. }) => continue,
            told => told?,
        };
        for (number, told) in numbers.into_iter().zip(told) {
            hits[number] = told.map(|told| told.hit(&known.path, &found[number]));
        }
    }
    Ok(hits.into_iter().flatten().collect())
}

/// Reads one block by its name; `None` where there is none.
pub(super) fn block(directory: &Path, path: &str, name: &str) -> Result<Option<Hit>> {
    let Some((table, key, part)) = parse(name) else { return Ok(None) };
    let session: read::Found = found_in(directory, &directory.join(path))?;
    let told = through_rows(&session, |rows| {
        let Some(stored) = rows.value(table.name(), &key)? else { return Ok(None) };
        let value = decoded(table, &key, &stored).map_err(|what| damaged(&session, table, &key, what))?;
        let origin = Origin { rowid: 0, is_message: table == Table::Channels, part };
        Ok(Told::of(origin, &key, &value))
    })?;
    Ok(told.map(|told| {
        let kind = told.kind;
        let found = Found { score: 0.0, at: 0, id: 0, place: 0, ts: told.ts, kind: 0, same: (0, 0) };
        Hit { kind, ..told.hit(path, &found) }
    }))
}

/// Table, key and piece that a block's name stands for.
fn parse(name: &str) -> Option<(Table, Vec<u8>, usize)> {
    let (row, part) = name.rsplit_once(":p")?;
    let (event, message) = (row.rfind(EVENT_MARK), row.rfind(MESSAGE_MARK));
    let (table, mark) =
        if event > message { (Table::Events, EVENT_MARK) } else { (Table::Channels, MESSAGE_MARK) };
    let (owner, number) = row.rsplit_once(mark)?;
    let number = number.parse().ok()?;
    let key = if event > message { event_key(owner, number) } else { channel_key(owner, number) };
    Some((table, key, part.parse().ok()?))
}

fn damaged(session: &read::Found, table: Table, key: &[u8], what: String) -> Trouble {
    let at = format!("{}[{}]", table.name(), String::from_utf8_lossy(key));
    Error::damaged(&session.file, at, what).into()
}

impl Told {
    fn hit(self, path: &str, found: &Found) -> Hit {
        let (round, block) = round_and_block(found.place);
        Hit {
            session: stem(path).to_owned(),
            path: path.to_owned(),
            block_id: self.name,
            agent: self.agent,
            kind: kind_of(found.kind),
            round,
            block,
            turn: self.turn,
            ts: self.ts,
            event_id: self.event_id,
            event_key: self.event_key,
            tool_name: self.tool_name,
            channel: self.channel,
            content: self.content,
            score: f64::from(found.score),
        }
    }

    /// The piece of a row, where it has one of that number.
    fn of(origin: Origin, key: &[u8], value: &Value) -> Option<Self> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let event_key = String::from_utf8_lossy(key).into_owned();
        let ts = value.get("ts").and_then(Value::as_f64).filter(|ts| ts.is_finite()).unwrap_or(0.0);
        if origin.is_message {
            let (channel, number) = parse_numbered(key, MESSAGE_MARK)?;
            let block = cut_message(channel, i64::try_from(number).ok()?, value)?;
            return Some(Self {
                name: format!("{channel}{MESSAGE_MARK}{number}:p0"),
                agent: channel.to_owned(),
                kind: block.kind,
                turn: None,
                ts,
                event_id: 0,
                event_key,
                tool_name: String::new(),
                channel: block.channel,
                content: block.text,
            });
        }
        let (agent, number) = parse_numbered(key, EVENT_MARK)?;
        let piece = pieces(value).into_iter().nth(origin.part)?;
        let named =
            |wanted: Kind, field: &str| if piece.kind == wanted { text(field) } else { String::new() };
        Some(Self {
            name: format!("{agent}{EVENT_MARK}{number}:p{}", origin.part),
            agent: agent.to_owned(),
            kind: piece.kind,
            turn: value.get("turn_index").and_then(Value::as_i64),
            ts,
            event_id: value.get("event_id").and_then(Value::as_i64).unwrap_or(0),
            event_key,
            tool_name: named(Kind::Tool, "name"),
            channel: named(Kind::Trigger, "channel"),
            content: piece.text,
        })
    }
}

fn told(directory: &Path, path: &str, ids: &[i64]) -> Result<Vec<Option<Told>>> {
    let session: read::Found = found_in(directory, &directory.join(path))?;
    through_rows(&session, |rows| {
        ids.iter()
            .map(|id| {
                let origin = Origin::of(*id);
                let table = if origin.is_message { Table::Channels } else { Table::Events };
                let mut told = Ok(None);
                rows.row_at(table.name(), origin.rowid, &mut |_, key, stored| {
                    told = decoded(table, key, stored)
                        .map(|value| Told::of(origin, key, &value))
                        .map_err(|what| (key.to_vec(), what));
                    ControlFlow::Break(())
                })?;
                told.map_err(|(key, what): (Vec<u8>, String)| damaged(&session, table, &key, what))
            })
            .collect()
    })
}
