//! One session read for the index: the blocks of what its branches show, row by row, and what a ranking
//! needs to know of it. Neither it nor anything beside it is written to.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use super::document::{Origin, Ready};
use crate::bundle::source::{self, Source};
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::fault::translate;
use crate::db::pages::{PageFault, Pages};
use crate::db::registry;
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::index::meta::Meta;
use crate::index::moment;
use crate::index::read::{Found, check_is_session};
use crate::index::rows::{Queried, Rows, Trouble};
use crate::lineage::{View, repeats};
use crate::model::{EVENT_MARK, MESSAGE_MARK, parse_numbered};
use crate::recall::blocks::{Block, Cutter, Kind, Standing, cut_message, pieces};

/// What says that a session was no conversation, as of a chat session.
const AUTOMATED_SOURCES: [&str; 5] = ["scheduled", "automated", "cron", "system", "batch"];
/// What tells which branch an event is on.
const PLACED_BY: [&str; 5] = ["type", "event_id", "turn_index", "branch_id", "parent_branch_path"];

/// What is said and done within a round.
const IN_ROUNDS: [&str; 4] = ["text", "text_chunk", "tool_call", "tool_result"];

/// What takes the blocks of a session.
pub(super) trait Sink {
    /// Takes the next block, of an event or else of a channel's message.
    fn take(&mut self, ready: Ready, is_message: bool);
    /// Forgets all that was taken: the session is read again in another way.
    fn restart(&mut self);
}

/// What is known of a session besides its blocks.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub session_id: String,
    pub parent: String,
    pub is_automated: bool,
    pub created: i64,
    /// The first record that could not be read; empty when all could.
    pub damage: String,
}

/// Reads a session.
pub(super) fn read(found: &Found, sink: &mut dyn Sink) -> Result<Facts> {
    through_rows(found, |rows| {
        sink.restart();
        blocks(found, rows, sink)
    })
}

/// Asks the rows of a session, by its pages where it is at rest, else through `SQLite`; what was asked
/// of pages that did not stand still is asked again.
pub(super) fn through_rows<R>(
    found: &Found,
    mut work: impl FnMut(&dyn Rows) -> Result<R, Trouble>,
) -> Result<R> {
    if found.print.size == 0 && found.print.wal.is_none() {
        return Err(Error::damaged(&found.file, "offset 0", "the file is empty"));
    }
    // Held for as long as the raw bytes are read: no store of this process opens the file meanwhile.
    if let Some(_reading) = registry::open_reader(&found.file) {
        let from_pages = |work: &mut dyn FnMut(&dyn Rows) -> Result<R, Trouble>| -> Result<R, Trouble> {
            let pages =
                if found.is_quiet { Pages::open_quiet(&found.file)? } else { Pages::open(&found.file)? };
            let built = work(&pages);
            if matches!(built, Err(Trouble::Pages(_))) {
                return built;
            }
            pages.finish().map_err(|_| Trouble::Pages(PageFault::Changed))?;
            built
        };
        match from_pages(&mut work) {
            Ok(built) => return Ok(built),
            Err(Trouble::Bundle(error)) => return Err(error),
            Err(Trouble::Pages(_)) => {}
        }
    }
    let source = Mutex::new(Source::open(&found.file)?);
    source::read(&source, &found.file, "read", |connection| {
        let fault = |source: rusqlite::Error| translate(&found.file, "read", &source);
        connection.execute_batch("BEGIN").map_err(fault)?;
        let built = work(&Queried { connection, path: &found.file });
        let ended = connection.execute_batch("END").map_err(fault);
        let built = built.map_err(|trouble| match trouble {
            Trouble::Bundle(error) => error,
            Trouble::Pages(fault) => Error::damaged(&found.file, "its pages", fault.to_string()),
        });
        ended.and(built)
    })
}

fn blocks(found: &Found, rows: &dyn Rows, sink: &mut dyn Sink) -> Result<Facts, Trouble> {
    check_is_session(&found.file, rows)?;
    let meta = Meta::read(&found.file, rows)?;
    let mut facts = Facts {
        session_id: meta.text("session_id"),
        parent: meta.parent().unwrap_or_default(),
        is_automated: is_automated(&meta),
        created: moment::micros(&meta.text("created_at")).unwrap_or(moment::UNKNOWN),
        damage: String::new(),
    };
    let mut logs = logs(rows)?;
    let mut cut = Vec::new();
    rows.each_row(Table::Events.name(), &mut |rowid, key, stored| {
        let Some((agent, _)) = parse_numbered(key, EVENT_MARK) else { return ControlFlow::Continue(()) };
        match decoded(Table::Events, key, stored) {
            Ok(event) => {
                if let Some(log) = logs.get_mut(agent) {
                    log.cut(event, &mut cut);
                    log.next += 1;
                }
                give(agent, rowid, false, &mut cut, sink);
            }
            Err(what) => {
                facts.note(Table::Events, key, &what);
                if let Some(log) = logs.get_mut(agent) {
                    log.next += 1;
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    rows.each_row(Table::Channels.name(), &mut |rowid, key, stored| {
        let Some((channel, number)) = parse_numbered(key, MESSAGE_MARK) else {
            return ControlFlow::Continue(());
        };
        match decoded(Table::Channels, key, stored) {
            Ok(message) => {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                cut.extend(cut_message(channel, number, &message));
                give(channel, rowid, true, &mut cut, sink);
            }
            Err(what) => facts.note(Table::Channels, key, &what),
        }
        ControlFlow::Continue(())
    })?;
    Ok(facts)
}

fn give(agent: &str, rowid: i64, is_message: bool, cut: &mut Vec<Block>, sink: &mut dyn Sink) {
    for block in cut.drain(..).filter(|block| block.live && block.kind != Kind::Other) {
        let origin = Origin { rowid, is_message, part: block.part };
        sink.take(Ready::of(agent, origin, &block), is_message);
    }
}

/// The log of one agent while it is cut.
struct Log {
    /// Whether its branches show each event, in the order of the rows.
    live: Vec<bool>,
    next: usize,
    cutter: Cutter,
    last: Option<Value>,
}

impl Log {
    fn cut(&mut self, event: Value, out: &mut Vec<Block>) {
        let live = self.live.get(self.next).copied().unwrap_or(true);
        let repeats = self.last.as_ref().is_some_and(|last| repeats(&event, last));
        let from = out.len();
        self.cutter.cut(&event, Standing { live, repeats }, out);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if live && !repeats && !self.cutter.place.in_round && IN_ROUNDS.contains(&kind) {
            // The memory of a session leaves out what was said outside of any round, as an agent does that
            // nobody asks. Whoever looks through all sessions wants it too.
            for (block, piece) in out[from..].iter_mut().zip(pieces(&event)) {
                block.kind = piece.kind;
            }
        }
        self.last = Some(event);
    }
}

/// Which events the branches of each agent show: one pass that keeps of an event only where it stands.
fn logs(rows: &dyn Rows) -> Result<HashMap<String, Log>, Trouble> {
    let mut placed: HashMap<String, Vec<Value>> = HashMap::new();
    rows.each_row(Table::Events.name(), &mut |_, key, stored| {
        let Some((agent, _)) = parse_numbered(key, EVENT_MARK) else { return ControlFlow::Continue(()) };
        // One that cannot be read has its place in the count, and is met again in the second pass.
        let place = match codec::open(Table::Events.name(), key, stored) {
            Ok(Stored::Object(body)) => Value::Map(
                PLACED_BY
                    .iter()
                    .filter_map(|name| {
                        let raw = msgpack::field(&body, name)?;
                        Some(((*name).into(), msgpack::decode(raw).ok()?))
                    })
                    .collect(),
            ),
            _ => Value::Nil,
        };
        match placed.get_mut(agent) {
            Some(log) => log.push(place),
            None => {
                placed.insert(agent.to_owned(), vec![place]);
            }
        }
        ControlFlow::Continue(())
    })?;
    let log = |(agent, events): (String, Vec<Value>)| {
        let live =
            crate::lineage::Log::read(&events, &View::new()).standings().map(|(live, _)| live).collect();
        (agent, Log { live, next: 0, cutter: Cutter::default(), last: None })
    };
    Ok(placed.into_iter().map(log).collect())
}

impl Facts {
    fn note(&mut self, table: Table, key: &[u8], what: &str) {
        if self.damage.is_empty() {
            self.damage = format!("damaged at {}[{}]: {what}", table.name(), String::from_utf8_lossy(key));
        }
    }
}

/// Whether a session says of itself that it is no conversation.
fn is_automated(meta: &Meta) -> bool {
    let says = |field: &str| {
        let own = meta.get(field);
        own.or_else(|| meta.get("metadata").and_then(|metadata| metadata.get(field)))
    };
    let source = says("source").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    AUTOMATED_SOURCES.contains(&source.as_str()) || says("automated").and_then(Value::as_bool) == Some(true)
}

/// The value of a row.
pub(super) fn decoded(table: Table, key: &[u8], stored: &[u8]) -> Result<Value, String> {
    match codec::open(table.name(), key, stored) {
        Ok(Stored::Object(body)) => msgpack::decode(&body).map_err(|fault| fault.to_string()),
        Ok(Stored::Bytes(_)) => Err("it is no object".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}
