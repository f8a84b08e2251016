//! The peer's own snapshot rows: kept level with ours, and noticed when the peer has written them.
//!
//! `conversation[agent]` holds the whole list, so it is rewritten only when what is new since is a
//! share of it, at close, and before anybody reads or writes the rows that go with it. In between
//! the peer finds an older list with the watermark that belongs to it.

use rusqlite::{Connection, MAIN_DB, OptionalExtension};
use xxhash_rust::xxh3::xxh3_64;

use super::head::{Head, branch_record, record_path};
use super::head_of;
use super::lag::{joined, lagging};
use super::load::{self, Base, Conversation, lists};
use super::tag::{Path, Tag, is_one_line};
use crate::bundle::handle::{Inner, Txn};
use crate::bundle::value::{Payload, open_owned, open_value, unsealed};
use crate::codec::{Value, msgpack};
use crate::db::schema::{Table, has_table};
use crate::error::Result;

const ACTION: &str = "refresh the conversation of";

/// Lists below this are rewritten each time: that is cheaper than to be behind.
const SMALL: usize = 16 << 10;
/// Removes the old row before the new one is laid out: its pages are used again, where an update
/// would need room for both lists and leave the file that much larger.
const REPLACE: &str = "INSERT OR REPLACE INTO conversation (key, value) VALUES (?1, ?2)";
/// A branch's record holds its whole list once more, which only short ones are worth.
const RECORDED: usize = 256 << 10;

/// The slots of `state` that belong to a snapshot.
pub const SLOTS: [&str; 5] =
    ["snapshot_event_id", "snapshot_branch", "branch_snapshots", "compact_count", "last_compact_time"];

/// What we last wrote into the peer's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The hash of the row's bytes.
    pub check: u64,
    /// The snapshot that it holds.
    pub snapshot: i64,
}

fn slot(agent: &str, name: &str) -> Vec<u8> {
    format!("{agent}:{name}").into_bytes()
}

/// What tells one content of the row from another.
pub fn check_of(stored: &[u8]) -> u64 {
    xxh3_64(stored)
}

/// The stored bytes of the peer's row.
pub fn conversation_row(connection: &Connection, agent: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    if !has_table(connection, "conversation")? {
        return Ok(None);
    }
    let Ok(mut select) = connection.prepare_cached("SELECT rowid FROM conversation WHERE key = ?1") else {
        // A table without row ids. Whatever else is wrong is wrong here too.
        return connection
            .prepare_cached(Table::Conversation.sql().get)?
            .query_row([agent.as_bytes()], |row| row.get(0))
            .optional();
    };
    let row: Option<i64> = select.query_row([agent.as_bytes()], |row| row.get(0)).optional()?;
    row.map(|row| {
        // Read into the memory that it stays in: a statement would lay it out in SQLite's before.
        let value = connection.blob_open(MAIN_DB, c"conversation", c"value", row, true)?;
        let mut stored = vec![0; value.len()];
        value.read_at_exact(&mut stored, 0)?;
        Ok(stored)
    })
    .transpose()
}

/// What we last wrote into it.
pub fn written(connection: &Connection, agent: &str) -> rusqlite::Result<Option<Written>> {
    if !has_table(connection, "amber_meta")? {
        return Ok(None);
    }
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")?
        .query_row([format!("conversation:{agent}")], |row| row.get(0))
        .optional()?;
    Ok(stored.and_then(|bytes| {
        let (check, snapshot) = bytes.split_at_checked(8)?;
        Some(Written {
            check: u64::from_le_bytes(check.try_into().ok()?),
            snapshot: i64::from_le_bytes(snapshot.try_into().ok()?),
        })
    }))
}

fn note_written(connection: &Connection, agent: &str, written: Written) -> rusqlite::Result<()> {
    let bytes = [written.check.to_le_bytes(), written.snapshot.to_le_bytes()].concat();
    connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")?
        .execute((format!("conversation:{agent}"), bytes))?;
    Ok(())
}

/// Opens the peer's row, which has the very bytes that we wrote where it `is_ours`, as a conversation.
pub fn open_conversation(inner: &Inner, agent: &str, stored: Vec<u8>, is_ours: bool) -> Result<Conversation> {
    // Its hash was compared with that of what was sealed, which tells all that a look at it would.
    let stored = if is_ours { unsealed(stored) } else { Err(stored) };
    let stored = match stored {
        Ok(body) => return Ok(Conversation::Whole(Payload::Object(body))),
        Err(stored) => stored,
    };
    open_owned(&inner.path, Table::Conversation, agent.as_bytes(), stored).map(Conversation::Whole)
}

/// Whether the peer's row, where there is one, still holds what we wrote.
pub fn is_as_written(connection: &Connection, agent: &str) -> rusqlite::Result<bool> {
    let Some(stored) = conversation_row(connection, agent)? else { return Ok(true) };
    Ok(written(connection, agent)?.is_some_and(|written| written.check == check_of(&stored)))
}

/// The peer's list with the watermark and the branch that its slots name.
pub fn foreign_base(
    inner: &Inner,
    connection: &Connection,
    agent: &str,
    messages: Conversation,
) -> Result<Base> {
    let value = |name: &str| -> Result<Option<Value>> {
        let stored = crate::bundle::kv::get_in(inner, connection, Table::State, &slot(agent, name))?;
        Ok(stored.and_then(|stored| match stored {
            Payload::Object(body) => msgpack::decode(&body).ok(),
            Payload::Bytes(_) => None,
        }))
    };
    let watermark = value("snapshot_event_id")?.and_then(|number| number.as_i64());
    let branch = value("snapshot_branch")?.unwrap_or(Value::Nil);
    let lineage = Tag::of_branch(branch, watermark.unwrap_or(0), Value::Nil).lineage();
    Ok(Base::foreign(messages, watermark, lineage))
}

/// Compares the peer's row with what we wrote: when it differs, the peer's list is the newest, and the
/// head starts from nothing.
pub fn look(inner: &Inner, connection: &Connection, agent: &str, head: &mut Head) -> Result<()> {
    let fault = inner.fault(ACTION);
    let row = conversation_row(connection, agent).map_err(&fault)?;
    head.peer_bytes = row.as_ref().map_or(0, Vec::len);
    match (row, written(connection, agent).map_err(&fault)?) {
        (None, None) => head.pending = head.record.is_some(),
        (Some(stored), Some(written)) if written.check == check_of(&stored) => {
            head.pending = head.record.as_ref().is_some_and(|record| record.id != written.snapshot);
        }
        _ => {
            // The rows of our older snapshots stay, but the next list is compared with nothing.
            head.hashes.clear();
            head.sizes.clear();
            if let Some(record) = head.record.as_mut() {
                record.parts.clear();
                record.tag = Tag::Plain;
            }
            head.pending = false;
        }
    }
    Ok(())
}

/// Before a snapshot of another lineage: keeps a record of the lineage that is left.
pub fn part_ways(txn: &mut Txn<'_>, agent: &str, next: &Tag) -> Result<()> {
    let Some(new) = next.lineage() else { return Ok(()) };
    let (head_number, previous, old) = {
        let head = head_of(txn, agent)?;
        let Some(record) = head.record.as_ref().filter(|record| !record.parts.is_empty()) else {
            return Ok(());
        };
        let Some(old) = record.tag.lineage().filter(|old| !is_one_line(old, &new)) else { return Ok(()) };
        (head.agent, record.clone(), old)
    };
    let messages = match lists(txn.inner, txn.connection, head_number, previous.id)? {
        Conversation::Lists(lists) => decode_lists(&lists),
        Conversation::Whole(_) => Vec::new(),
    };
    let mut records = stored_records(txn.inner, txn.connection, agent)?;
    records.retain(|record| record_path(record).is_some_and(|path| !is_one_line(&path, &old)));
    records.push(branch_record(&old, &previous.tag, Value::List(messages)));
    put(txn, &slot(agent, "branch_snapshots"), &Value::List(records))
}

/// Before a snapshot without a tag, which leaves watermark and branch as they are: writes those of the
/// tagged one before it. Without this the new list would stand beside the watermark of an older one.
pub fn part_with_tag(txn: &mut Txn<'_>, agent: &str, next: &Tag) -> Result<()> {
    let head = head_of(txn, agent)?;
    let was_tagged = head.record.as_ref().is_some_and(|record| record.tag != Tag::Plain);
    if *next == Tag::Plain && was_tagged { refresh(txn, agent) } else { Ok(()) }
}

pub fn decode_lists(lists: &[Vec<u8>]) -> Vec<Value> {
    lists
        .iter()
        .filter_map(|body| msgpack::decode(body).ok())
        .flat_map(|value| if let Value::List(items) = value { items } else { Vec::new() })
        .collect()
}

fn stored_records(inner: &Inner, connection: &Connection, agent: &str) -> Result<Vec<Value>> {
    let fault = inner.fault(ACTION);
    if !has_table(connection, "state").map_err(&fault)? {
        return Ok(Vec::new());
    }
    let key = slot(agent, "branch_snapshots");
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(Table::State.sql().get)
        .and_then(|mut select| select.query_row([&key], |row| row.get(0)).optional())
        .map_err(&fault)?;
    let Some(stored) = stored else { return Ok(Vec::new()) };
    match open_value(&inner.path, Table::State, &key, &stored)? {
        Value::List(records) => Ok(records.into_iter().filter(is_sound).collect()),
        _ => Ok(Vec::new()),
    }
}

/// Whether a record of a branch has all that a reader needs.
fn is_sound(record: &Value) -> bool {
    const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
    let watermark = match record.get("watermark") {
        Some(Value::Int(number)) if *number >= 0 => *number,
        _ => return false,
    };
    let cutoff = match record.get("context_cutoff_event_id") {
        None => true,
        Some(Value::Int(number)) => (0..=watermark).contains(number),
        Some(_) => false,
    };
    let messages = record.get("messages").and_then(Value::as_list).is_some_and(|messages| {
        messages.iter().all(|message| {
            message.get("content").is_some()
                && message.get("role").and_then(Value::as_str).is_some_and(|role| ROLES.contains(&role))
        })
    });
    let state = record.get("compact_state");
    let count = state.and_then(|state| state.get("compact_count"));
    let time = state.and_then(|state| state.get("last_compact_time"));
    let counters = matches!(count, Some(Value::Int(number)) if *number >= 0)
        && match time {
            Some(Value::Int(number)) => *number >= 0,
            Some(Value::Float(number)) => number.is_finite() && *number >= 0.0,
            _ => false,
        };
    record_path(record).is_some() && cutoff && messages && counters
}

/// See [`Inner::load_branch_snapshot`].
pub fn branch_snapshot(
    inner: &Inner,
    connection: &Connection,
    agent: &str,
    target: &Path,
) -> Result<Option<Value>> {
    if target.is_empty() {
        return Ok(None);
    }
    let depth = |record: &Value| {
        let path = record_path(record).filter(|path| target.starts_with(path))?;
        Some((path.len(), record.get("watermark").and_then(Value::as_i64).unwrap_or(0)))
    };
    let mut best: Option<((usize, i64), Value)> = None;
    for record in records(inner, connection, agent)? {
        if let Some(rank) = depth(&record)
            && best.as_ref().is_none_or(|(highest, _)| rank > *highest)
        {
            best = Some((rank, record));
        }
    }
    Ok(best.map(|(_, record)| record))
}

/// The records of all branches that have one, our newest snapshot among them.
pub fn records(inner: &Inner, connection: &Connection, agent: &str) -> Result<Vec<Value>> {
    let mut records = stored_records(inner, connection, agent)?;
    if let Some((path, record)) = newest_record(inner, connection, agent)? {
        records.retain(|other| record_path(other).is_some_and(|other| !is_one_line(&other, &path)));
        records.push(record);
    }
    Ok(records)
}

/// The record of our newest snapshot, unless the peer has written since.
fn newest_record(inner: &Inner, connection: &Connection, agent: &str) -> Result<Option<(Path, Value)>> {
    let fault = inner.fault(ACTION);
    let Some(number) = super::agent_number(connection, agent).map_err(&fault)? else { return Ok(None) };
    let id = super::newest_id(connection, number).map_err(&fault)?;
    if id == 0 {
        return Ok(None);
    }
    if !is_as_written(connection, agent).map_err(&fault)? {
        return Ok(None);
    }
    let record = load::record(inner, connection, id)?;
    let Some(path) = record.tag.lineage() else { return Ok(None) };
    let Conversation::Lists(lists) = lists(inner, connection, number, id)? else { return Ok(None) };
    let value = branch_record(&path, &record.tag, Value::List(decode_lists(&lists)));
    Ok(Some((path, value)))
}

/// Rewrites the peer's rows when what is new has become a share of them.
pub fn refresh_if_due(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    let head = head_of(txn, agent)?;
    let total: usize = head.sizes.iter().sum();
    if total <= SMALL || head.unseen_bytes > head.peer_bytes {
        return refresh(txn, agent);
    }
    Ok(())
}

/// Rewrites the peer's rows of `agent`: the list, its watermark, its branch and the records, together.
pub fn refresh(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    let fault = txn.fault(ACTION);
    let (number, record) = {
        let head = head_of(txn, agent)?;
        (
            head.agent,
            head.record
                .clone()
                .filter(|record| head.pending && (!record.parts.is_empty() || record.messages == 0)),
        )
    };
    let Some(record) = record else { return Ok(()) };
    let Conversation::Lists(lists) = lists(txn.inner, txn.connection, number, record.id)? else {
        return Ok(());
    };
    let body = joined(&lists);
    put_slots(txn, agent, &record.tag, &body)?;
    let size = body.len();
    let stored = Payload::Object(body).seal(Table::Conversation, agent.as_bytes()).into_owned();
    txn.ensure_table(Table::Conversation).map_err(&fault)?;
    txn.connection
        .prepare_cached(REPLACE)
        .and_then(|mut replace| replace.execute((agent.as_bytes(), &stored)))
        .map_err(&fault)?;
    let written = Written { check: check_of(&stored), snapshot: record.id };
    note_written(txn.connection, agent, written).map_err(&fault)?;
    let head = head_of(txn, agent)?;
    head.peer_bytes = size;
    head.unseen_bytes = 0;
    head.pending = false;
    Ok(())
}

fn put_slots(txn: &mut Txn<'_>, agent: &str, tag: &Tag, body: &[u8]) -> Result<()> {
    let Tag::Branch { watermark, .. } = tag else {
        return put(txn, &slot(agent, "branch_snapshots"), &Value::List(Vec::new()));
    };
    if let Some(path) = tag.lineage() {
        let mut records = stored_records(txn.inner, txn.connection, agent)?;
        records.retain(|record| record_path(record).is_some_and(|other| !is_one_line(&other, &path)));
        let own = (body.len() <= RECORDED).then(|| packed_record(&path, tag, body));
        let mut packed = Vec::new();
        msgpack::put_list_header(&mut packed, records.len() + usize::from(own.is_some()));
        for record in &records {
            msgpack::put_value(&mut packed, record);
        }
        packed.extend(own.into_iter().flatten());
        let state = tag.compact_state();
        put_packed(txn, &slot(agent, "branch_snapshots"), packed)?;
        put(txn, &slot(agent, "snapshot_branch"), &tag.branch_value())?;
        for name in ["compact_count", "last_compact_time"] {
            put(txn, &slot(agent, name), state.get(name).unwrap_or(&Value::Int(0)))?;
        }
    } else {
        put(txn, &slot(agent, "branch_snapshots"), &Value::List(Vec::new()))?;
        let key = slot(agent, "snapshot_branch");
        txn.connection
            .prepare_cached(Table::State.sql().delete)
            .and_then(|mut delete| delete.execute([&key]))
            .map_err(txn.fault(ACTION))?;
    }
    put(txn, &slot(agent, "snapshot_event_id"), &Value::Int(*watermark))
}

/// The record of a branch whose messages are packed already, so that they need no tree.
fn packed_record(path: &Path, tag: &Tag, messages: &[u8]) -> Vec<u8> {
    let record = branch_record(path, tag, Value::Nil);
    let fields = record.as_map().unwrap_or_default();
    let mut packed = Vec::with_capacity(messages.len() + 256);
    msgpack::put_map_header(&mut packed, fields.len());
    for (name, value) in fields {
        msgpack::put_str(&mut packed, name);
        if name == "messages" {
            packed.extend_from_slice(messages);
        } else {
            msgpack::put_value(&mut packed, value);
        }
    }
    packed
}

fn put(txn: &mut Txn<'_>, key: &[u8], value: &Value) -> Result<()> {
    let mut packed = Vec::new();
    msgpack::put_value(&mut packed, value);
    put_packed(txn, key, packed)
}

fn put_packed(txn: &mut Txn<'_>, key: &[u8], packed: Vec<u8>) -> Result<()> {
    let fault = txn.fault(ACTION);
    txn.ensure_table(Table::State).map_err(&fault)?;
    let payload = Payload::Object(packed);
    txn.connection
        .prepare_cached(Table::State.sql().put)
        .and_then(|mut upsert| upsert.execute((key, payload.seal(Table::State, key).as_ref())))
        .map_err(&fault)?;
    Ok(())
}

impl Inner {
    /// Brings the peer's rows of every agent level with the newest snapshots.
    pub(in crate::bundle) fn refresh_conversations(txn: &mut Txn<'_>) -> Result<()> {
        for (agent, newest) in lagging(txn.connection).map_err(txn.fault(ACTION))? {
            // Rows that the peer has overtaken lag for good; their head says so once it is loaded.
            if !txn.heads.is_settled(&agent, newest) {
                head_of(txn, &agent)?;
                refresh(txn, &agent)?;
            }
        }
        Ok(())
    }
}
