//! The peer's text index: its rows taken into account, ours added in its form.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};

use super::content::Content;
use super::{Mark, Source, mark, set_mark};
use crate::bundle::handle::Txn;
use crate::bundle::value::field_i64;
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::Table;
use crate::error::Result;
use crate::model::{MESSAGE_MARK, parse_numbered};

const ACTION: &str = "index";
const VALUES: &str = "fts_values";

/// Reads what the peer has indexed since the last look: its keys are not indexed twice, and rows that
/// name an event which is not there (a killed peer leaves such) are removed.
pub(super) fn adopt(txn: &mut Txn<'_>) -> Result<HashSet<Vec<u8>>> {
    let fault = txn.fault(ACTION);
    let connection = txn.connection;
    let seen = mark(connection, Mark::PeerValues).map_err(&fault)?;
    let rows: Vec<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT id, value FROM fts_values WHERE id > ?1 ORDER BY id")
        .and_then(|mut select| select.query_map([seen], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(&fault)?;
    let mut keys = HashSet::new();
    for (id, stored) in &rows {
        let Some((table, key, event_id)) = names(stored) else { continue };
        if is_there(connection, table, &key, event_id).map_err(&fault)? {
            keys.insert(key);
        } else {
            remove(connection, *id).map_err(&fault)?;
        }
    }
    if let Some((last, _)) = rows.last() {
        set_mark(connection, Mark::PeerValues, *last).map_err(&fault)?;
    }
    Ok(keys)
}

/// The row that an entry was made from, with the id that it had then.
fn names(stored: &[u8]) -> Option<(Table, Vec<u8>, Option<i64>)> {
    // The checksum of our own entries is over a key that only they know; the map is enough here.
    let body = stored.get(10..).filter(|_| stored.starts_with(&[0x89, 0x4b]))?;
    let text =
        |field| msgpack::field(body, field).and_then(msgpack::as_str).map(|text| text.as_bytes().to_vec());
    match text("event_key") {
        Some(key) => Some((Table::Events, key, msgpack::field(body, "event_id").and_then(msgpack::as_i64))),
        None => text("channel_key").map(|key| (Table::Channels, key, None)),
    }
}

fn is_there(
    connection: &Connection,
    table: Table,
    key: &[u8],
    event_id: Option<i64>,
) -> rusqlite::Result<bool> {
    let stored: Option<Vec<u8>> =
        connection.prepare_cached(table.sql().get)?.query_row([key], |row| row.get(0)).optional()?;
    Ok(match (stored, event_id) {
        (Some(stored), Some(id)) => field_i64(table, key, &stored, "event_id") == Some(id),
        (Some(_), None) => true,
        (None, _) => false,
    })
}

fn remove(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM fts WHERE rowid = ?1 AND value_ref = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM fts_values WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Adds rows in the peer's form.
pub(super) fn index<'a>(
    connection: &Connection,
    table: Table,
    rows: impl Iterator<Item = &'a Source>,
) -> rusqlite::Result<()> {
    let mut values = connection.prepare_cached("INSERT INTO fts_values (value) VALUES (?1)")?;
    let mut texts = connection.prepare_cached("INSERT INTO fts (content, value_ref) VALUES (?1, ?2)")?;
    let mut last = None;
    for row in rows {
        let Some(content) = Content::of(table, &row.key, &row.stored) else { continue };
        let Some(text) = content.peer_text() else { continue };
        let Some(entry) = entry(table, &row.key, &content) else { continue };
        values.execute([codec::seal(VALUES, &row.key, &entry)])?;
        let id = connection.last_insert_rowid();
        texts.execute((text, id))?;
        last = Some(id);
    }
    match last {
        Some(id) => set_mark(connection, Mark::PeerValues, id),
        None => Ok(()),
    }
}

fn entry(table: Table, key: &[u8], content: &Content) -> Option<Vec<u8>> {
    let mark = if table == Table::Channels { MESSAGE_MARK } else { ":e" };
    let (owner, _) = parse_numbered(key, mark)?;
    let text = |text: &str| Value::Str(text.to_owned());
    let key = String::from_utf8_lossy(key);
    let fields = match table {
        Table::Channels => vec![
            ("channel_key".into(), text(&key)),
            ("channel".into(), text(owner)),
            ("sender".into(), text(content.string("sender"))),
            ("type".into(), text("channel")),
        ],
        _ => vec![
            ("event_key".into(), text(&key)),
            ("agent".into(), text(owner)),
            ("type".into(), text(content.string("type"))),
            ("event_id".into(), Value::Int(content.event_id())),
        ],
    };
    let mut body = Vec::new();
    msgpack::put_value(&mut body, &Value::Map(fields));
    Some(body)
}

/// Empties the index.
pub(super) fn drop_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS fts; DROP TABLE IF EXISTS fts_values;")
}

/// Whether an entry of the index is sound; `verify` asks.
pub(in crate::bundle) fn check(stored: &[u8]) -> std::result::Result<(), String> {
    let Some((_, key, _)) = names(stored) else { return Ok(()) };
    match codec::open(VALUES, &key, stored) {
        Ok(Stored::Object(_) | Stored::Bytes(_)) => Ok(()),
        Err(fault) => Err(fault.to_string()),
    }
}
