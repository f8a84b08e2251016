//! Taking in what a killed process left: every event once, and none over another.

use rusqlite::{Connection, OptionalExtension};

use super::file::Record;
use super::mark;
use super::record::{Entry, entries};
use crate::bundle::append::note_id;
use crate::bundle::handle::Txn;
use crate::bundle::landmark::{self, Marks};
use crate::bundle::ledger::{self, Ledger, last_number_by_scan};
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::model::{EVENT_MARK, Namespace, parse_numbered};

const ACTION: &str = "take in the tail of";

/// Stores the events of `records` and moves the mark behind them.
pub fn take_in(txn: &mut Txn<'_>, records: &[Record], bundle: u64) -> Result<()> {
    let fault = txn.fault(ACTION);
    txn.ensure_table(Table::Events).map_err(fault)?;
    let mut ledger = Ledger::load(txn.connection).map_err(fault)?;
    let mut renumbered = 0;
    for record in records {
        let Some(entries) = entries(&record.head, &record.body, bundle) else { break };
        for entry in &entries {
            renumbered += u32::from(store(txn, &mut ledger, entry)?);
        }
    }
    if renumbered > 0 {
        mark::note_renumbered(txn.connection, renumbered).map_err(fault)?;
    }
    if let Some(last) = records.last() {
        last.behind.write(txn.connection).map_err(fault)?;
    }
    *txn.ledger = Some(ledger);
    crate::bundle::append::write_counter(txn).map_err(fault)
}

/// Stores one event; whether it got another number or id than it was acknowledged with.
fn store(txn: &Txn<'_>, ledger: &mut Ledger, entry: &Entry<'_>) -> Result<bool> {
    let fault = txn.fault(ACTION);
    let damaged = |what: &str| Error::damaged(&txn.inner.path, "its tail", what.to_owned());
    let Some((agent, number)) = parse_numbered(entry.key, EVENT_MARK) else {
        return Err(damaged("a record has a key without owner and number"));
    };
    let Ok(Stored::Object(body)) = codec::open(Table::Events.name(), entry.key, entry.value) else {
        return Err(damaged("the value of a record is not what was written"));
    };
    let found = held(txn.connection, entry.key).map_err(fault)?;
    if found.as_deref() == Some(entry.value) {
        return Ok(false);
    }
    // Another program wrote after the kill, and gave out what had been acknowledged here.
    let own = msgpack::field(&body, "event_id").and_then(msgpack::as_i64).unwrap_or(0);
    let id = if entry.is_given || own > ledger.max_id { own } else { ledger.max_id + 1 };
    let free =
        if found.is_some() { Some(next_free(txn.connection, ledger, agent).map_err(fault)?) } else { None };
    let number = free.unwrap_or(number);
    let is_changed = free.is_some() || id != own;
    let kept = if is_changed { with_id(&body, id) } else { Some(body.into_owned()) };
    let kept = kept.ok_or_else(|| damaged("an event of it is no map"))?;
    put(txn.connection, ledger, (agent, number, id), &kept).map_err(fault)?;
    Ok(is_changed)
}

fn held(connection: &Connection, key: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached(Table::Events.sql().get)?.query_row([key], |row| row.get(0)).optional()
}

fn next_free(connection: &Connection, ledger: &mut Ledger, agent: &str) -> rusqlite::Result<u64> {
    let last = last_number_by_scan(connection, &Namespace::events(agent), Table::Events)?;
    Ok(last.map_or(0, |last| last + 1).max(ledger.space(connection, agent)?.next))
}

fn put(
    connection: &Connection,
    ledger: &mut Ledger,
    (agent, number, id): (&str, u64, i64),
    body: &[u8],
) -> rusqlite::Result<()> {
    let space = ledger.space(connection, agent)?;
    if space.next == 0 {
        ledger::register(connection, agent, Some(true))?;
    }
    let key = Namespace::events(agent).key(number);
    let sealed = codec::seal(Table::Events.name(), &key, body);
    connection.prepare_cached(Table::Events.sql().insert)?.execute((&key, &sealed))?;
    let breaks = space.breaks_order(id);
    note_id(connection, agent, space, id, breaks)?;
    landmark::note_event(connection, agent, number, Marks::of(body), &mut space.noted)?;
    space.next = space.next.max(number + 1);
    space.last_turn = msgpack::field(body, "turn_index").and_then(msgpack::as_i64).or(space.last_turn);
    ledger.max_id = ledger.max_id.max(id);
    Ok(())
}

/// The event with another id, all else as it was.
fn with_id(body: &[u8], id: i64) -> Option<Vec<u8>> {
    let Ok(Value::Map(mut pairs)) = msgpack::decode(body) else { return None };
    for (name, value) in &mut pairs {
        if name == "event_id" {
            *value = Value::Int(id);
        }
    }
    let mut changed = Vec::with_capacity(body.len() + 8);
    msgpack::put_value(&mut changed, &Value::Map(pairs));
    Some(changed)
}
