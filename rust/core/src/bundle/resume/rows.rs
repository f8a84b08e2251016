//! Events of one log on a connection that is at hand.

use rusqlite::Connection;

use crate::bundle::handle::Inner;
use crate::bundle::landmark::TRIGGER;
use crate::bundle::ledger::last_number;
use crate::bundle::order::is_ordered;
use crate::bundle::read::rows_from;
use crate::bundle::value::open;
use crate::codec::msgpack::{self, Malformed, Reader, Token};
use crate::codec::{Stored, Value};
use crate::db::schema::{Table, has_table};
use crate::error::{Error, Result};
use crate::model::Namespace;

const ACTION: &str = "resume";
/// Rows that are held packed at a time.
const ROWS: usize = 1024;
/// Digits that numbers are padded to; those of more digits sort among the others.
const PADDED: usize = 6;
const PADDED_DIGITS: u32 = 6;

/// The types of events of which messages, or triggers, are made.
const TOLD: [&str; 14] = [
    "user_input",
    "user_message",
    "text_chunk",
    "text",
    "assistant_message",
    "assistant_tool_calls",
    "assistant_reasoning",
    "assistant_image",
    "system_prompt_set",
    "tool_call",
    "tool_result",
    "compact_complete",
    "compact_replace",
    TRIGGER,
];
/// What branches need of an event.
const PLACE: [&str; 5] = ["type", "event_id", "turn_index", "branch_id", "parent_branch_path"];

/// One agent's log.
pub struct LogRows<'c> {
    inner: &'c Inner,
    connection: &'c Connection,
    log: Namespace,
    agent: &'c str,
}

impl<'c> LogRows<'c> {
    pub fn of(inner: &'c Inner, connection: &'c Connection, agent: &'c str) -> Self {
        Self { inner, connection, log: Namespace::events(agent), agent }
    }

    /// Every event, as far as a resume asks for it.
    pub fn all(&self) -> Result<Vec<Value>> {
        self.from(0)
    }

    /// The same, from a number on.
    pub fn from(&self, first: u64) -> Result<Vec<Value>> {
        let fault = self.inner.fault(ACTION);
        let mut events = Vec::new();
        if !has_table(self.connection, Table::Events.name()).map_err(&fault)? {
            return Ok(events);
        }
        if let Some((low, high)) = self.log.span(PADDED, first, u64::MAX) {
            // Most logs end here, so their rows are decoded where SQLite holds them.
            let length = i64::try_from(low.len()).unwrap_or(i64::MAX);
            let mut select = self.connection.prepare_cached(Table::Events.sql().span).map_err(&fault)?;
            let mut rows = select.query((low, high, length, i64::MAX)).map_err(&fault)?;
            while let Some(row) = rows.next().map_err(&fault)? {
                let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).map_err(&fault)?;
                let stored = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(&fault)?;
                if self.log.number(key).is_some() {
                    events.extend(self.decode(key, stored)?);
                }
            }
        }
        let mut next = Some(first.max(u64::pow(10, PADDED_DIGITS)));
        while let Some(from) = next {
            let (rows, following) =
                rows_from(self.connection, &self.log, Table::Events, from, false, ROWS).map_err(&fault)?;
            for (key, stored) in &rows {
                events.extend(self.decode(key, stored)?);
            }
            next = following;
        }
        Ok(events)
    }

    /// Up to `count` events before a number, the last one first, each decoded when it is asked for.
    pub fn before(&self, number: u64, count: usize) -> Result<impl Iterator<Item = Result<Value>>> {
        let rows = match number.checked_sub(1) {
            Some(last) => {
                rows_from(self.connection, &self.log, Table::Events, last, true, count)
                    .map_err(self.inner.fault(ACTION))?
                    .0
            }
            None => Vec::new(),
        };
        Ok(rows.into_iter().filter_map(|(key, stored)| self.decode(&key, &stored).transpose()))
    }

    /// The event of a number.
    pub fn at(&self, number: u64) -> Result<Option<Value>> {
        let fault = self.inner.fault(ACTION);
        let (rows, _) =
            rows_from(self.connection, &self.log, Table::Events, number, false, 1).map_err(&fault)?;
        let row = rows.first().filter(|(key, _)| self.log.number(key) == Some(number));
        row.map_or(Ok(None), |(key, stored)| self.decode(key, stored))
    }

    /// The number after the last event; `None` when the ids of the log do not grow with its
    /// numbers. Of a log that another program wrote, the first call looks through all ids.
    pub fn end(&self) -> Result<Option<u64>> {
        let fault = self.inner.fault(ACTION);
        if !has_table(self.connection, Table::Events.name()).map_err(&fault)? {
            return Ok(Some(0));
        }
        let last = last_number(self.connection, &self.log, Table::Events, 0).map_err(&fault)?;
        let Some(last) = last else { return Ok(Some(0)) };
        let is_ordered = is_ordered(self.inner, self.connection, self.agent).map_err(&fault)?;
        Ok(is_ordered.then_some(last + 1))
    }

    /// A number from which on are all events with a higher id, and not many others, in a log that ends
    /// before `end`. Costs the logarithm of how many those are.
    pub fn near(&self, id: i64, end: u64) -> Result<u64> {
        let mut step = 1;
        loop {
            let number = end.saturating_sub(step);
            let last = self.before(number + 1, 1)?.next().transpose()?;
            let found = last.as_ref().and_then(|event| event.get("event_id")?.as_i64());
            if number == 0 || found.is_some_and(|found| found <= id) {
                return Ok(number.min(end));
            }
            step *= 2;
        }
    }

    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Option<Value>> {
        let Stored::Object(body) = open(&self.inner.path, Table::Events, key, stored)? else {
            return Ok(None);
        };
        as_far_as_asked(&body).map(Some).map_err(|fault| {
            let at = format!("events[{}]", String::from_utf8_lossy(key));
            Error::damaged(&self.inner.path, at, fault.to_string())
        })
    }
}

/// An event, of most of which nobody here asks more than where it stands. `body` was checked when it was
/// opened.
fn as_far_as_asked(body: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader::new(body);
    let Token::Map(count) = reader.token()? else { return Ok(Value::Map(Vec::new())) };
    let mut place = [None; PLACE.len()];
    for _ in 0..count {
        let (key, value) = (reader.raw_key()?, reader.pass()?);
        if let Some(at) = PLACE.iter().position(|name| name.as_bytes() == key) {
            place[at] = Some(value);
        }
    }
    let [kind, ..] = place;
    if kind.and_then(msgpack::as_str).is_some_and(|kind| TOLD.contains(&kind)) {
        return msgpack::decode(body);
    }
    let known = PLACE.iter().zip(place).filter_map(|(name, value)| Some((*name, value?)));
    let pairs = known.map(|(name, value)| Ok((name.into(), msgpack::decode(value)?)));
    pairs.collect::<Result<_, _>>().map(Value::Map)
}
