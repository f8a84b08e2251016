//! The newest events of a bundle: how many there are, and what the snapshots do not know yet.

use std::ops::ControlFlow;

use super::exchange::{Exchange, QUOTE, flatten};
use super::rows::{Rows, Trouble};
use crate::codec::{self, Stored, msgpack};
use crate::db::schema::Table;
use crate::model::{EVENT_MARK, event_key, parse_numbered};

/// The most events that are looked at behind a snapshot.
const NEWEST: usize = 64;
/// The most events that are looked at for what the user said first.
const FIRST: u64 = 64;

/// The end of a log.
#[derive(Debug, Default)]
pub struct Tail {
    /// How many events there are.
    pub event_count: i64,
    /// Whether events may be newer than the snapshots and than what meta says: the peer brings these
    /// level when it closes a session, so this is so for a log that is not written back, and for
    /// events of ours.
    pub is_ahead: bool,
    /// The time of the newest event, where the log is ahead.
    pub newest_ts: Option<f64>,
    /// The newest events, the newest first.
    events: Vec<Event>,
}

#[derive(Debug)]
struct Event {
    agent: String,
    body: Vec<u8>,
}

impl Event {
    /// A damaged event is `verify`'s to report; the listing shows the ones that can be read.
    fn of(key: &[u8], stored: &[u8]) -> Option<Self> {
        let (agent, _) = parse_numbered(key, EVENT_MARK)?;
        match codec::open(Table::Events.name(), key, stored) {
            Ok(Stored::Object(body)) => Some(Self { agent: agent.to_owned(), body: body.into_owned() }),
            _ => None,
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        msgpack::field(&self.body, field).and_then(msgpack::as_str)
    }

    fn number(&self, field: &str) -> Option<i64> {
        msgpack::field(&self.body, field).and_then(msgpack::as_i64)
    }
}

impl Tail {
    /// Reads the end of the log: one row where nothing can be newer than the snapshots, else the rows
    /// behind `known`, the event that all snapshots that count have seen.
    pub fn read(
        rows: &dyn Rows,
        is_hot: bool,
        known: impl FnOnce() -> Result<Option<i64>, Trouble>,
    ) -> Result<Self, Trouble> {
        let mut tail = Self { is_ahead: is_hot, ..Self::default() };
        rows.newest_events(&mut |rowid, key, stored| {
            tail.event_count = rowid;
            tail.is_ahead |= codec::has_trailer(stored);
            if tail.is_ahead {
                tail.events.extend(Event::of(key, stored));
            }
            ControlFlow::Break(())
        })?;
        let newest = tail.events.first().and_then(|event| msgpack::field(&event.body, "ts"));
        tail.newest_ts = newest.and_then(msgpack::as_f64);
        if tail.is_ahead && tail.event_count > 0 {
            let known = known()?.unwrap_or(i64::MIN);
            let is_known = |event: &Event| event.number("event_id").is_some_and(|id| id <= known);
            if !tail.events.first().is_some_and(is_known) {
                tail.read_behind(rows, is_known)?;
            }
        }
        Ok(tail)
    }

    /// Reads the newest events up to one that is known.
    fn read_behind(&mut self, rows: &dyn Rows, is_known: impl Fn(&Event) -> bool) -> Result<(), Trouble> {
        let events = &mut self.events;
        events.clear();
        rows.newest_events(&mut |_, key, stored| {
            let event = Event::of(key, stored);
            let is_last = event.as_ref().is_some_and(&is_known);
            events.extend(event);
            if is_last || events.len() == NEWEST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// Adds to a snapshot's exchange what was said to and by an agent since.
    pub fn add_to(&self, agent: &str, watermark: Option<i64>, exchange: &mut Option<Exchange>) {
        let newer = self.newer(agent, watermark, exchange.as_ref());
        // Recorders write each input a second time, as the message that was sent.
        let has_messages = newer.iter().any(|event| event.text("type") == Some("user_message"));
        let asked = if has_messages { "user_message" } else { "user_input" };
        let mut highest_turn = 0;
        for event in newer {
            let content = msgpack::field(&event.body, "content");
            match event.text("type") {
                Some(kind) if kind == asked => {
                    exchange.get_or_insert_default().ask(content);
                    highest_turn = event.number("turn_index").unwrap_or(0).max(highest_turn);
                }
                Some("text_chunk" | "text") => answer(exchange, content),
                Some("assistant_message") => {
                    let message = msgpack::field(&event.body, "message");
                    answer(exchange, message.and_then(|message| msgpack::field(message, "content")));
                }
                _ => {}
            }
        }
        if let Some(exchange) = exchange {
            exchange.prompts = exchange.prompts.max(highest_turn);
        }
    }

    /// The events of an agent that its snapshot does not know, oldest first: those above its
    /// watermark; where it has none, those behind the message that the snapshot holds last.
    fn newer(&self, agent: &str, watermark: Option<i64>, snapshot: Option<&Exchange>) -> Vec<&Event> {
        let mut events: Vec<&Event> = self.events.iter().rev().filter(|event| event.agent == agent).collect();
        match (watermark, snapshot) {
            (Some(id), _) => events.retain(|event| event.number("event_id").is_some_and(|found| found > id)),
            (None, Some(known)) if known.prompts > 0 => {
                let is_last = |event: &&Event| {
                    let kind = event.text("type");
                    matches!(kind, Some("user_message" | "user_input"))
                        && flatten(msgpack::field(&event.body, "content"), QUOTE).trim() == known.user
                };
                let at = events.iter().rposition(is_last).map_or(events.len(), |at| at + 1);
                events.drain(..at);
            }
            (None, _) => {}
        }
        events
    }
}

fn answer(exchange: &mut Option<Exchange>, content: Option<&[u8]>) {
    if let Some(exchange) = exchange {
        exchange.answer(content);
    }
}

/// The first input of a user to an agent, among the first events of its log.
pub fn first_input(
    rows: &dyn Rows,
    agent: &str,
    text: impl Fn(Option<&[u8]>) -> String,
) -> Result<String, Trouble> {
    let table = Table::Events.name();
    for number in 0..FIRST {
        let key = event_key(agent, number);
        let Some(stored) = rows.value(table, &key)? else { continue };
        let Ok(Stored::Object(body)) = codec::open(table, &key, &stored) else { continue };
        if msgpack::field(&body, "type").and_then(msgpack::as_str) == Some("user_input") {
            let found = text(msgpack::field(&body, "content"));
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
    Ok(String::new())
}
