//! The conversation an agent is in, for who reads it and for who records it.
//!
//! Who reads it is given what a resume restores. What a recorder keeps is another thing: the events as
//! they stand, in the middle of a turn too, where a call may still wait for its result.

use rusqlite::Connection;

use super::branches;
use super::handle::Inner;
use super::read::{Selection, page_in};
use super::resume::{Asked, stored_view};
use super::snapshot::{self, Base};
use super::value::{Payload, key_text};
use crate::codec::{Value, msgpack};
use crate::error::{Error, Result};
use crate::lineage::{Log, continues};

const ACTION: &str = "read";

/// How far back a turn is looked for. Logs without turns have none, however long they are.
const LOOK_BACK: usize = 1024;

/// Where an agent stands in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The turn of its last event that has one.
    pub turn: i64,
    /// The branch of that turn, where the event has one.
    pub branch: Option<i64>,
    /// The branch of each earlier turn.
    pub path: Vec<(i64, i64)>,
}

/// A conversation as a recorder keeps it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What it goes on from; nothing when the whole log was told anew.
    pub base: Option<Base>,
    /// The messages after those of the base.
    pub fresh: Vec<Value>,
}

impl Told {
    /// All its messages.
    pub fn messages(self, inner: &Inner, connection: &Connection) -> Result<Vec<Value>> {
        let mut messages = match &self.base {
            Some(base) => base.messages(inner, connection)?,
            None => Vec::new(),
        };
        messages.extend(self.fresh);
        Ok(messages)
    }
}

/// Tells the conversation of an agent as it is to be kept, with the identity of events in its messages.
///
/// Costs the snapshot and what came after it; the whole log only when that does not go on from it.
pub(super) fn tell(inner: &Inner, connection: &Connection, agent: &str) -> Result<Told> {
    let base = snapshot::base(inner, connection, agent)?;
    let Some(base) = base else {
        return Ok(Told { base: None, fresh: told_anew(inner, connection, agent)? });
    };
    go_on(inner, connection, agent, base)
}

/// The same, of an agent whose newest snapshot is known.
pub(super) fn go_on(inner: &Inner, connection: &Connection, agent: &str, base: Base) -> Result<Told> {
    if base.count == 0 {
        // A list without messages is what is saved of a runtime that could not give any.
        return anew(inner, connection, agent, base);
    }
    let Some(watermark) = base.watermark else {
        // Nobody knows which events the list includes, so it is taken as it stands.
        return Ok(Told { base: Some(base), fresh: Vec::new() });
    };
    let view = stored_view(inner, connection, agent)?;
    let tail = events_in(inner, connection, agent, Some(watermark))?;
    if tail.is_empty() && view.is_empty() {
        return Ok(Told { base: Some(base), fresh: Vec::new() });
    }
    let goes_on = match &base.lineage {
        Some(lineage) => continues(&tail, lineage, &branches::load(inner, connection, agent)?, &view),
        None => false,
    };
    if goes_on {
        let fresh = Log::read(&tail, &view).replay_settled(true, None);
        return Ok(Told { base: Some(base), fresh });
    }
    anew(inner, connection, agent, base)
}

/// Tells the whole log instead of what follows a snapshot, unless it tells nothing.
fn anew(inner: &Inner, connection: &Connection, agent: &str, base: Base) -> Result<Told> {
    let fresh = told_anew(inner, connection, agent)?;
    if fresh.is_empty() {
        return Ok(Told { base: Some(base), fresh });
    }
    Ok(Told { base: None, fresh: with_system(&base.messages(inner, connection)?, fresh) })
}

/// The whole log under the stored view.
fn told_anew(inner: &Inner, connection: &Connection, agent: &str) -> Result<Vec<Value>> {
    let events = events_in(inner, connection, agent, None)?;
    let view = stored_view(inner, connection, agent)?;
    Ok(Log::read(&events, &view).cleared().replay_settled(true, None))
}

/// Runtimes keep their system prompt in the messages and not in the log.
pub(super) fn with_system(known: &[Value], told: Vec<Value>) -> Vec<Value> {
    if told.first().is_some_and(|message| is_of(message, "system")) {
        return told;
    }
    let system = known.iter().take_while(|message| is_of(message, "system"));
    system.cloned().chain(told).collect()
}

pub(super) fn is_of(message: &Value, role: &str) -> bool {
    message.get("role").and_then(Value::as_str) == Some(role)
}

fn decode(inner: &Inner, key: &[u8], payload: Payload) -> Result<Value> {
    match payload {
        Payload::Object(body) => msgpack::decode(&body)
            .map_err(|fault| Error::damaged(&inner.path, key_text(key), fault.to_string())),
        Payload::Bytes(bytes) => Ok(Value::Str(key_text(&bytes))),
    }
}

/// The events of an agent with an id above `since`, decoded, on a connection that is at hand.
pub(super) fn events_in(
    inner: &Inner,
    connection: &Connection,
    agent: &str,
    since: Option<i64>,
) -> Result<Vec<Value>> {
    let wanted = Selection { since, ..Selection::default() };
    let (mut events, mut from) = (Vec::new(), None);
    loop {
        let page = page_in(inner, connection, agent, &wanted, from, usize::MAX)?;
        for row in page.rows {
            events.push(decode(inner, &row.key, row.value)?);
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(events),
        }
    }
}

/// At most `max` messages: the system prompt, the last summary, and as many of the newest as fit.
///
/// No result is left without its call, and no summary is left out while anything else is kept.
fn trim(messages: Vec<Value>, max: usize) -> Vec<Value> {
    if messages.len() <= max {
        return messages;
    }
    let summary = messages.iter().rposition(is_summary);
    let system = messages.iter().take_while(|message| is_of(message, "system")).count();
    let is_head = |at: usize| at < system || Some(at) == summary;
    let heads: Vec<usize> = (0..messages.len()).filter(|&at| is_head(at)).collect();
    let heads = &heads[heads.len().saturating_sub(max)..];
    let rest: Vec<usize> = (0..messages.len()).filter(|&at| !is_head(at)).collect();
    let rest = &rest[rest.len().saturating_sub(max - heads.len())..];
    let orphans = rest.iter().take_while(|&&at| is_of(&messages[at], "tool")).count();
    let rest = &rest[orphans..];
    let kept = |at: usize| heads.contains(&at) || rest.binary_search(&at).is_ok();
    messages.into_iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, message)| message).collect()
}

fn is_summary(message: &Value) -> bool {
    message.get("metadata").and_then(|data| data.get("compact_summary")).is_some_and(Value::truthy)
}

fn without_metadata(message: Value) -> Value {
    match message {
        Value::Map(pairs) => Value::Map(pairs.into_iter().filter(|(key, _)| key != "metadata").collect()),
        other => other,
    }
}

impl Inner {
    /// The messages that a model is sent next, as a resume restores them.
    pub(super) fn working_history(&self, agent: &str, max: Option<usize>) -> Result<Vec<Value>> {
        let restored = self.resume(&Asked { agent, view: None, live_jobs: &[] })?;
        let mut messages = Vec::new();
        for list in &restored.lists {
            let list = msgpack::decode(list).map_err(|fault| {
                Error::damaged(&self.path, format!("conversation[{agent}]"), fault.to_string())
            })?;
            messages.extend(if let Value::List(items) = list { items } else { Vec::new() });
        }
        let kept = match max {
            Some(max) => trim(messages, max),
            None => messages,
        };
        Ok(kept.into_iter().map(without_metadata).collect())
    }

    /// Where an agent stands: turn, branch and lineage of its last event that has them.
    pub(super) fn place_of(&self, agent: &str) -> Result<Option<Place>> {
        self.read(ACTION, |connection| place_in(self, connection, agent))
    }
}

fn place_in(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<Place>> {
    let wanted = Selection { reverse: true, ..Selection::default() };
    let (mut from, mut left, mut size) = (None, LOOK_BACK, 8);
    while left > 0 {
        let page = page_in(inner, connection, agent, &wanted, from, size.min(left))?;
        left -= page.rows.len().clamp(1, left);
        for row in page.rows {
            let event = decode(inner, &row.key, row.value)?;
            let number = |name: &str| event.get(name).and_then(Value::as_i64).filter(|number| *number > 0);
            let Some(turn) = number("turn_index") else { continue };
            let stated = event.get("parent_branch_path").and_then(snapshot::parse_path).unwrap_or_default();
            let path = if stated.is_empty() {
                branches::load(inner, connection, agent)?.before(turn).filter(|pair| pair.0 > 0).collect()
            } else {
                stated
            };
            return Ok(Some(Place { turn, branch: number("branch_id"), path }));
        }
        (from, size) = (page.next, size * 4);
        if from.is_none() {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, summary: bool) -> Value {
        let metadata = Value::Map(vec![("compact_summary".into(), Value::Bool(summary))]);
        Value::Map(vec![("role".into(), Value::Str(role.to_owned())), ("metadata".into(), metadata)])
    }

    fn roles(messages: &[Value]) -> Vec<&str> {
        messages.iter().filter_map(|message| message.get("role")?.as_str()).collect()
    }

    #[test]
    fn the_summary_is_kept_before_anything_else() {
        let list = || {
            let mut list = vec![message("system", false), message("assistant", true)];
            list.extend(["user", "assistant", "tool", "tool", "user"].map(|role| message(role, false)));
            list
        };

        assert_eq!(roles(&trim(list(), 7)).len(), 7);
        assert_eq!(roles(&trim(list(), 6)), ["system", "assistant", "assistant", "tool", "tool", "user"]);
        assert_eq!(roles(&trim(list(), 4)), ["system", "assistant", "user"]);
        assert_eq!(roles(&trim(list(), 1)), ["assistant"]);
        assert!(trim(list(), 0).is_empty());
    }
}
