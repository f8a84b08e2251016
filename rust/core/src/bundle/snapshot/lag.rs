//! Snapshots that the peer's rows do not show yet: another handle has written them, or a process
//! that was killed before it came to refresh the rows.

use rusqlite::Connection;

use super::head::newest_id;
use super::load::{self, Conversation, lists};
use super::peer::{SLOTS, check_of, conversation_row, written};
use super::tag::Tag;
use crate::bundle::handle::Inner;
use crate::bundle::value::{Payload, list_header};
use crate::codec::{Value, msgpack};
use crate::db::schema::{Table, has_table};
use crate::error::Result;

const ACTION: &str = "read the snapshots of";

/// The agents whose newest snapshot is not the one that the peer's rows were last written from, with
/// that snapshot. Costs two look-ups an agent.
pub fn lagging(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    if !has_table(connection, "amber_snapshot")? {
        return Ok(Vec::new());
    }
    let agents: Vec<(i64, String)> = connection
        .prepare_cached("SELECT number, name FROM amber_agent")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut found = Vec::new();
    for (number, name) in agents {
        let newest = newest_id(connection, number)?;
        if newest > 0 && written(connection, &name)?.is_none_or(|written| written.snapshot != newest) {
            found.push((name, newest));
        }
    }
    Ok(found)
}

/// What a row of a snapshot will hold once it is refreshed; `None` where the row itself holds it.
///
/// For readers that may not refresh it: otherwise the newest messages would be read beside the
/// watermark of older ones, and whoever replays the events after it would replay some twice.
pub fn unwritten(
    inner: &Inner,
    connection: &Connection,
    table: Table,
    key: &[u8],
) -> Result<Option<Payload>> {
    let fault = inner.fault(ACTION);
    let Ok(key) = std::str::from_utf8(key) else { return Ok(None) };
    let (agent, slot) = match table {
        Table::Conversation => (key, ""),
        Table::State => match key.rsplit_once(':') {
            Some((agent, slot)) if SLOTS.contains(&slot) => (agent, slot),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let behind = lagging(connection).map_err(&fault)?;
    let Some((_, id)) = behind.iter().find(|(name, _)| name == agent) else { return Ok(None) };
    let row = conversation_row(connection, agent).map_err(&fault)?;
    let known = written(connection, agent).map_err(&fault)?;
    if row.is_some_and(|stored| known.is_none_or(|known| known.check != check_of(&stored))) {
        // The peer has written since, so its rows are the newest.
        return Ok(None);
    }
    let Some(number) = super::agent_number(connection, agent).map_err(&fault)? else { return Ok(None) };
    if table == Table::Conversation {
        let Conversation::Lists(lists) = lists(inner, connection, number, *id)? else { return Ok(None) };
        return Ok(Some(Payload::Object(joined(&lists))));
    }
    let record = load::record(inner, connection, *id)?;
    // A plain snapshot leaves the slots as they are, and those before it were refreshed first.
    let Tag::Branch { watermark, .. } = &record.tag else { return Ok(None) };
    Ok(match slot {
        "snapshot_event_id" => Some(Payload::integer(*watermark)),
        "snapshot_branch" if record.tag.lineage().is_some() => Some(Payload::of(&record.tag.branch_value())),
        "compact_count" | "last_compact_time" if record.tag.lineage().is_some() => {
            let state = record.tag.compact_state();
            Some(Payload::of(state.get(slot).unwrap_or(&Value::Int(0))))
        }
        _ => None,
    })
}

/// One list of everything in the lists.
pub fn joined(lists: &[Vec<u8>]) -> Vec<u8> {
    let headers: Vec<(usize, usize)> =
        lists.iter().map(|list| list_header(list).unwrap_or((0, list.len()))).collect();
    let mut body = Vec::with_capacity(lists.iter().map(Vec::len).sum::<usize>() + 8);
    msgpack::put_list_header(&mut body, headers.iter().map(|(count, _)| count).sum());
    for (list, (_, start)) in lists.iter().zip(headers) {
        body.extend_from_slice(&list[start..]);
    }
    body
}
