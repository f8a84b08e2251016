//! The newest snapshot of an agent with what is said of it.

use rusqlite::Connection;

use crate::bundle::handle::Inner;
use crate::bundle::kv::get_in;
use crate::bundle::snapshot::{BranchPath, Newest, Tag, last_tag, newest_tagged};
use crate::bundle::value::{Payload, key_text, list_header};
use crate::codec::{Value, from_json, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};

/// The newest snapshot of an agent.
#[derive(Debug, Clone)]
pub struct Base {
    /// Its messages: packed lists, to be read one after the other.
    pub lists: Vec<Vec<u8>>,
    /// The turns and branches that it tells of, where it says so.
    pub path: Option<BranchPath>,
    /// The highest event id that it includes, where it says so.
    pub watermark: Option<i64>,
    /// The event at which the context was last cleared.
    pub cutoff: i64,
}

impl Base {
    /// Reads the newest snapshot of `agent`; `None` when it has none.
    pub fn read(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<Self>> {
        match newest_tagged(inner, connection, agent)? {
            Newest::Nothing => Ok(None),
            Newest::Ours(lists, Tag::Plain) => {
                let tag = own_tag(inner, connection, agent)?;
                Ok(Some(Self::tagged(lists, &tag)))
            }
            Newest::Ours(lists, tag) => Ok(Some(Self::tagged(lists, &tag))),
            Newest::Theirs(payload) => {
                let Some(list) = list_of(inner, agent, payload)? else { return Ok(None) };
                let tag = their_tag(inner, connection, agent)?;
                Ok(Some(Self::tagged(vec![list], &tag)))
            }
        }
    }

    fn tagged(lists: Vec<Vec<u8>>, tag: &Tag) -> Self {
        let (watermark, cutoff) = match tag {
            Tag::Plain => (None, 0),
            Tag::Branch { branch, watermark, .. } => {
                let cutoff = branch.get("context_cutoff_event_id").and_then(Value::as_i64);
                (Some(*watermark), cutoff.unwrap_or(0).max(0))
            }
        };
        Self { lists, path: tag.lineage(), watermark, cutoff }
    }

    /// Returns its messages, and how many items of the lists are none.
    pub fn messages(&self) -> Vec<Value> {
        let lists = self.lists.iter().filter_map(|list| msgpack::decode(list).ok());
        lists.flat_map(|list| if let Value::List(items) = list { items } else { Vec::new() }).collect()
    }
}

/// What a runtime wrote of an untagged snapshot into the slots itself. What is still there of a tagged one
/// before it says nothing of this one.
fn own_tag(inner: &Inner, connection: &Connection, agent: &str) -> Result<Tag> {
    let written = their_tag(inner, connection, agent)?;
    let Tag::Branch { watermark, .. } = &written else { return Ok(Tag::Plain) };
    match last_tag(inner, connection, agent)? {
        Some(Tag::Branch { watermark: before, .. }) if before == *watermark => Ok(Tag::Plain),
        _ => Ok(written),
    }
}

fn their_tag(inner: &Inner, connection: &Connection, agent: &str) -> Result<Tag> {
    let slot = |name: &str| slot(inner, connection, agent, name);
    let Some(Value::Int(watermark)) = slot("snapshot_event_id")? else { return Ok(Tag::Plain) };
    let branch = slot("snapshot_branch")?.unwrap_or(Value::Nil);
    Ok(Tag::of_branch(branch, watermark, Value::Nil))
}

/// Reads a slot of an agent's state.
pub fn slot(inner: &Inner, connection: &Connection, agent: &str, name: &str) -> Result<Option<Value>> {
    let key = format!("{agent}:{name}");
    let found = get_in(inner, connection, Table::State, key.as_bytes())?;
    found.map(|payload| value_of(inner, "state", &key, &payload)).transpose()
}

fn value_of(inner: &Inner, table: &str, key: &str, payload: &Payload) -> Result<Value> {
    match payload {
        Payload::Object(body) => msgpack::decode(body)
            .map_err(|fault| Error::damaged(&inner.path, format!("{table}[{key}]"), fault.to_string())),
        Payload::Bytes(bytes) => Ok(Value::Str(key_text(bytes))),
    }
}

/// The list of messages in a row that another program wrote: a list, or the JSON of one, bare or under
/// `messages`.
fn list_of(inner: &Inner, agent: &str, payload: Payload) -> Result<Option<Vec<u8>>> {
    if let Payload::Object(body) = &payload
        && list_header(body).is_some()
    {
        let Payload::Object(body) = payload else { return Ok(None) };
        return Ok(Some(body));
    }
    let damaged = |what: &str| Error::damaged(&inner.path, format!("conversation[{agent}]"), what.to_owned());
    let value = match value_of(inner, "conversation", agent, &payload)? {
        Value::Str(text) => from_json(&text).map_err(|fault| damaged(&fault.to_string()))?,
        Value::Nil => return Ok(None),
        other => other,
    };
    let messages = match value {
        Value::Map(fields) => fields.into_iter().find(|(name, _)| name == "messages").map(|(_, list)| list),
        other => Some(other),
    };
    match messages {
        Some(list @ Value::List(_)) => {
            let mut body = Vec::new();
            msgpack::put_value(&mut body, &list);
            Ok(Some(body))
        }
        _ => Err(damaged("no list of messages")),
    }
}
