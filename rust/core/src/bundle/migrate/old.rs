//! A session of the first format, as it is read.

use std::collections::{BTreeMap, HashSet};

use super::translate::{self, Translated};
use crate::bundle::handle::Inner;
use crate::bundle::snapshot::Conversation;
use crate::bundle::value::Payload;
use crate::codec::{self, Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::model::attached_parts;

/// The log of what belongs to no agent.
const FRAMEWORK: &str = "terrarium";

/// What migration makes of one log.
pub struct Log {
    /// Its owner.
    pub owner: String,
    /// How many events of each type it had.
    pub read: BTreeMap<String, u64>,
    /// The new events.
    pub events: Vec<Translated>,
    /// The messages as they stood last.
    pub snapshot: Option<Vec<Value>>,
}

/// A session of the first format.
pub struct Old<'a> {
    inner: &'a Inner,
    /// The agents that it names, and those that only have events.
    pub agents: Vec<String>,
    /// The owners of all other logs: attached agents, and the framework.
    pub others: Vec<String>,
    /// Whether its events are those of the present format, though it does not say so.
    pub is_structured: bool,
}

impl<'a> Old<'a> {
    /// Looks at a session, and refuses one whose log is of both formats.
    pub fn of(inner: &'a Inner) -> Result<Self> {
        let mut owners = inner.namespaces()?;
        // In the order of their keys, which is the one that ids are given in.
        owners.sort_by_cached_key(|owner| format!("{owner}:e"));
        let stored = value_of(inner, Table::Meta, b"agents")?;
        let named = stored.as_ref().and_then(Value::as_list).unwrap_or_default();
        let mut agents: Vec<String> = Vec::new();
        for name in named.iter().filter_map(Value::as_str).filter(|name| !name.is_empty()) {
            if !agents.iter().any(|agent| agent == name) {
                agents.push(name.to_owned());
            }
        }
        let mut others = Vec::new();
        for owner in owners {
            if owner == FRAMEWORK || attached_parts(&owner).is_some() {
                others.push(owner);
            } else if !agents.contains(&owner) {
                agents.push(owner);
            }
        }
        let mut old = Self { inner, agents, others, is_structured: false };
        old.is_structured = old.look()?;
        Ok(old)
    }

    /// Every log, in the order in which its events are numbered.
    pub fn owners(&self) -> impl Iterator<Item = &String> {
        self.agents.iter().chain(&self.others)
    }

    /// Reads the log of an owner and translates it.
    pub fn log(&self, owner: &str) -> Result<Log> {
        let events = self.events(owner)?;
        let mut read = BTreeMap::new();
        for event in &events {
            *read.entry(kind_of(event).to_owned()).or_insert(0) += 1;
        }
        let snapshot = self.snapshot(owner)?;
        let first = events.first().and_then(|event| event.get("ts")).cloned();
        let events = if self.is_structured {
            events.into_iter().map(as_it_is).collect()
        } else {
            translated(events, snapshot.as_deref().unwrap_or_default(), first.as_ref())
        };
        Ok(Log { owner: owner.to_owned(), read, events, snapshot })
    }

    fn events(&self, owner: &str) -> Result<Vec<Value>> {
        let events = self.inner.event_values(owner, None)?;
        if let Some(place) = events.iter().position(|event| event.as_map().is_none()) {
            let at = format!("events[{owner}], the {place}th from 0");
            return Err(Error::damaged(&self.inner.path, at, "an event that is not a map"));
        }
        Ok(events)
    }

    /// The messages of the newest snapshot, from a list or from the JSON text of older files.
    fn snapshot(&self, agent: &str) -> Result<Option<Vec<Value>>> {
        let at = || format!("conversation[{agent}]");
        let fault = |what: String| Error::damaged(&self.inner.path, at(), what);
        let found = match self.inner.load_snapshot(agent, None)? {
            None => return Ok(None),
            Some(Conversation::Whole(Payload::Bytes(bytes))) => {
                Value::Str(String::from_utf8_lossy(&bytes).into_owned())
            }
            Some(Conversation::Whole(Payload::Object(body))) => decode(&body).map_err(fault)?,
            Some(Conversation::Lists(lists)) => {
                let mut all = Vec::new();
                for list in lists {
                    if let Value::List(messages) = decode(&list).map_err(fault)? {
                        all.extend(messages);
                    }
                }
                Value::List(all)
            }
        };
        let found = match found {
            Value::Str(text) => codec::from_json(&text).map_err(|error| fault(error.to_string()))?,
            other => other,
        };
        let messages = match found {
            Value::List(messages) => messages,
            Value::Map(fields) => match fields.into_iter().find(|(name, _)| name == "messages") {
                Some((_, Value::List(messages))) => messages,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if messages.iter().any(|message| message.as_map().is_none()) {
            return Err(fault("a message that is not a map".to_owned()));
        }
        Ok(Some(messages))
    }

    /// Whether the log is of the present format.
    fn look(&self) -> Result<bool> {
        let mut seen = HashSet::new();
        let mut refusal = None;
        let mut is_structured = false;
        for agent in &self.agents {
            let events = self.events(agent)?;
            let has_more = !events.is_empty() || self.snapshot(agent)?.is_some_and(|list| !list.is_empty());
            let has_users = events.iter().any(|event| kind_of(event) == "user_message");
            is_structured |= has_users;
            if refusal.is_none() {
                refusal = if has_more && !has_users {
                    Some(format!("the log of `{agent}` is of the first format, and others are not"))
                } else {
                    contradiction(agent, &events, &mut seen)
                };
            }
        }
        match refusal.filter(|_| is_structured) {
            Some(what) => Err(Error::Mixed { path: self.inner.path.clone(), what }),
            None => Ok(is_structured),
        }
    }
}

fn translated(events: Vec<Value>, messages: &[Value], first: Option<&Value>) -> Vec<Translated> {
    let log = if events.is_empty() { translate::messages(messages) } else { translate::events(events) };
    let mut all: Vec<Translated> = translate::system_prompt(messages, first).into_iter().collect();
    all.extend(log);
    translate::fill_announcements(&mut all);
    all
}

/// Why a log of the present format cannot be taken as it is.
fn contradiction(agent: &str, events: &[Value], seen: &mut HashSet<i64>) -> Option<String> {
    let users = events.iter().filter(|event| kind_of(event) == "user_message");
    let places: Option<HashSet<(i64, i64)>> = users.map(place_of).collect();
    let Some(places) = places else {
        return Some(format!("a user message of `{agent}` has no turn and branch"));
    };
    for event in events {
        let id = event.get("event_id").and_then(Value::as_i64).filter(|id| *id > 0);
        if !id.is_some_and(|id| seen.insert(id)) {
            return Some(format!("an event of `{agent}` has no id of its own"));
        }
        let is_input = kind_of(event) == "user_input";
        if is_input && !place_of(event).is_some_and(|place| places.contains(&place)) {
            return Some(format!("user input of `{agent}` has no message"));
        }
    }
    None
}

fn place_of(event: &Value) -> Option<(i64, i64)> {
    let field = |name| event.get(name).and_then(Value::as_i64).filter(|number| *number > 0);
    field("turn_index").zip(field("branch_id"))
}

fn as_it_is(event: Value) -> Translated {
    let kind = kind_of(&event).to_owned();
    let turn = event.get("turn_index").and_then(Value::as_i64).unwrap_or_default();
    let fields = match event {
        Value::Map(fields) => fields,
        _ => Vec::new(),
    };
    Translated { kind, fields, turn }
}

fn kind_of(event: &Value) -> &str {
    event.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn decode(body: &[u8]) -> Result<Value, String> {
    msgpack::decode(body).map_err(|fault| fault.to_string())
}

/// A value of a table, decoded.
pub fn value_of(inner: &Inner, table: Table, key: &[u8]) -> Result<Option<Value>> {
    match inner.get(table, key)? {
        Some(Payload::Object(body)) => decode(&body).map(Some).map_err(|fault| {
            let at = format!("{}[{}]", table.name(), String::from_utf8_lossy(key));
            Error::damaged(&inner.path, at, fault)
        }),
        Some(Payload::Bytes(bytes)) => Ok(Some(Value::Str(String::from_utf8_lossy(&bytes).into_owned()))),
        None => Ok(None),
    }
}
