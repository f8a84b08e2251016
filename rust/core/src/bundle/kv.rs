//! The key-value tables: one key, a prefix of keys, many keys in one transaction.

use rusqlite::{Connection, OptionalExtension};

use super::handle::{Inner, State, Txn};
use super::snapshot::{SLOTS, lagging, unwritten};
use super::sync::wal_of;
use super::value::{Payload, open_owned, open_payload};
use crate::db::open::{set_triggers, sync_new_log};
use crate::db::schema::{Table, has_table};
use crate::error::{Error, Result};

const READ: &str = "read";
const WRITE: &str = "write to";

/// One change to a table.
#[derive(Debug, Clone)]
pub struct Change {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Vec<u8>,
    /// The value, or `None` to remove the key.
    pub value: Option<Payload>,
}

/// Whether a row belongs to a snapshot, so that the snapshot's own rows must be level before it is touched.
fn belongs_to_snapshot(table: Table, key: &[u8]) -> bool {
    match table {
        Table::Conversation => true,
        Table::State => SLOTS
            .iter()
            .any(|slot| key.strip_suffix(slot.as_bytes()).is_some_and(|agent| agent.ends_with(b":"))),
        _ => false,
    }
}

impl Inner {
    /// The value of a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Payload>> {
        self.level_snapshots(belongs_to_snapshot(table, key))?;
        self.read(READ, |connection| {
            if self.source.is_some()
                && let Some(newer) = unwritten(self, connection, table, key)?
            {
                return Ok(Some(newer));
            }
            get_in(self, connection, table, key)
        })
    }

    /// Makes every change in one transaction; returns how many keys were there before.
    pub(super) fn apply(&self, changes: &[Change]) -> Result<usize> {
        self.write(WRITE, |txn| changes_in(txn, changes))
    }

    /// Makes changes that nobody waits to see on disk; like all others they survive the end of the process.
    pub(super) fn note(&self, changes: &[Change]) -> Result<()> {
        self.check_process(WRITE)?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: WRITE });
        }
        let mut state = self.lock();
        self.commit_batch(&mut state, WRITE)?;
        // Behind the first bytes of a log that is used again stand frames of before, which must not come
        // back in a power cut: only an empty log may begin without its sync.
        let is_empty = std::fs::metadata(wal_of(&self.path)).is_ok_and(|log| log.len() == 0);
        let switch = |state: &State, on: bool| {
            let connection = state.connection.as_ref().ok_or_else(|| self.closed(WRITE))?;
            sync_new_log(connection, on).map_err(self.fault(WRITE))
        };
        switch(&state, !is_empty)?;
        let outcome = self.write_locked(&mut state, WRITE, |txn| {
            changes.iter().try_for_each(|change| change_in(txn, change).map(drop))
        });
        switch(&state, true)?;
        outcome?;
        let ticket = self.sync.committed();
        drop(state);
        self.after_commit(ticket, WRITE)
    }

    /// Keys that start with `prefix`, in the order of their bytes.
    pub(super) fn keys(&self, table: Table, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>> {
        self.level_snapshots(matches!(table, Table::State | Table::Conversation))?;
        self.read(READ, |connection| {
            let mut keys = Vec::new();
            scan(self, connection, table, table.sql().keys, prefix, limit, |key, _| {
                keys.push(key.to_vec());
                Ok(())
            })?;
            Ok(keys)
        })
    }

    /// Keys that start with `prefix`, with their values.
    pub(super) fn items(&self, table: Table, prefix: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Payload)>> {
        self.level_snapshots(matches!(table, Table::State | Table::Conversation))?;
        self.read(READ, |connection| {
            let mut items = items_in(self, connection, table, prefix, limit)?;
            if self.source.is_some() && matches!(table, Table::State | Table::Conversation) {
                for (key, payload) in &mut items {
                    if let Some(newer) = unwritten(self, connection, table, key)? {
                        *payload = newer;
                    }
                }
            }
            Ok(items)
        })
    }

    /// How many keys a table has.
    pub(super) fn count(&self, table: Table) -> Result<u64> {
        self.level_snapshots(matches!(table, Table::State | Table::Conversation))?;
        self.read(READ, |connection| {
            let fault = self.fault(READ);
            if !has_table(connection, table.name()).map_err(&fault)? {
                return Ok(0);
            }
            let count: i64 = connection
                .prepare_cached(table.sql().count)
                .and_then(|mut select| select.query_row([], |row| row.get(0)))
                .map_err(&fault)?;
            Ok(count.unsigned_abs())
        })
    }

    /// Before a row of a snapshot is read: writes what the peer's rows lack.
    fn level_snapshots(&self, needed: bool) -> Result<()> {
        if !needed || self.source.is_some() {
            return Ok(());
        }
        self.check_process(READ)?;
        let lagging = self.read(READ, |connection| lagging(connection).map_err(self.fault(READ)))?;
        if lagging.iter().all(|(agent, newest)| self.lock().heads.is_settled(agent, *newest)) {
            return Ok(());
        }
        self.write(READ, Self::refresh_conversations)
    }
}

/// The value of a key, on a connection that is at hand.
pub(super) fn get_in(
    inner: &Inner,
    connection: &Connection,
    table: Table,
    key: &[u8],
) -> Result<Option<Payload>> {
    let fault = inner.fault(READ);
    if !has_table(connection, table.name()).map_err(&fault)? {
        return Ok(None);
    }
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(table.sql().get)
        .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
        .map_err(&fault)?;
    stored.map(|stored| open_owned(&inner.path, table, key, stored)).transpose()
}

/// Keys and values under a prefix, on a connection that is at hand.
pub(super) fn items_in(
    inner: &Inner,
    connection: &Connection,
    table: Table,
    prefix: &[u8],
    limit: usize,
) -> Result<Vec<(Vec<u8>, Payload)>> {
    let mut items = Vec::new();
    scan(inner, connection, table, table.sql().scan, prefix, limit, |key, stored| {
        items.push((key.to_vec(), open_payload(&inner.path, table, key, stored)?));
        Ok(())
    })?;
    Ok(items)
}

fn scan(
    inner: &Inner,
    connection: &Connection,
    table: Table,
    statement: &str,
    prefix: &[u8],
    limit: usize,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let fault = inner.fault(READ);
    if !has_table(connection, table.name()).map_err(&fault)? {
        return Ok(());
    }
    let with_value = std::ptr::eq(statement, table.sql().scan);
    let mut select = connection.prepare_cached(statement).map_err(&fault)?;
    let mut rows = select.query([prefix]).map_err(&fault)?;
    let mut left = limit;
    while left > 0
        && let Some(row) = rows.next().map_err(&fault)?
    {
        let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).map_err(&fault)?;
        if !key.starts_with(prefix) {
            break;
        }
        let stored = if with_value {
            row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(&fault)?
        } else {
            &[]
        };
        each(key, stored)?;
        left -= 1;
    }
    Ok(())
}

/// Makes every change; how many keys were there before a removal, or written.
pub(super) fn changes_in(txn: &mut Txn<'_>, changes: &[Change]) -> Result<usize> {
    if changes.iter().any(|change| change.table == Table::Events) {
        return Err(Error::invalid("events are only appended: use append_event"));
    }
    let is_of_snapshot = changes.iter().any(|change| belongs_to_snapshot(change.table, &change.key));
    if is_of_snapshot {
        Inner::refresh_conversations(txn)?;
    }
    let mut found = 0;
    for change in changes {
        found += usize::from(change_in(txn, change)?);
    }
    if is_of_snapshot {
        txn.heads.mark_stale();
    }
    Ok(found)
}

/// Makes one change; whether the key was there before a removal.
pub(super) fn change_in(txn: &mut Txn<'_>, change: &Change) -> Result<bool> {
    let fault = txn.fault(WRITE);
    let Change { table, key, value } = change;
    let Some(payload) = value else {
        if !has_table(txn.connection, table.name()).map_err(fault)? {
            return Ok(false);
        }
        return txn
            .connection
            .prepare_cached(table.sql().delete)
            .and_then(|mut delete| delete.execute([key]))
            .map(|removed| removed > 0)
            .map_err(fault);
    };
    txn.ensure_table(*table).map_err(fault)?;
    let put = || {
        let mut upsert = txn.connection.prepare_cached(table.sql().put)?;
        upsert.execute((key, payload.seal(*table, key).as_ref()))
    };
    if *table == Table::Events {
        // What stands in the log under a key of somebody's choice is a row like another program's.
        set_triggers(txn.connection, true).map_err(fault)?;
        let outcome = put();
        set_triggers(txn.connection, false).map_err(fault)?;
        outcome.map_err(fault)?;
    } else {
        put().map_err(fault)?;
    }
    note_bytes(txn, *table, key, payload).map_err(fault)?;
    Ok(true)
}

/// Bytes carry no checksum of their own, so theirs is kept apart for `verify`.
fn note_bytes(txn: &mut Txn<'_>, table: Table, key: &[u8], payload: &Payload) -> rusqlite::Result<()> {
    let Payload::Bytes(bytes) = payload else { return Ok(()) };
    let name = super::verify::check_name(table, key);
    let check = xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes();
    txn.connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")?
        .execute((name, check.as_slice()))?;
    Ok(())
}
