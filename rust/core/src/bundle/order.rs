//! Finding an event by its id: halving, where ids grow with the numbers of a log.

use rusqlite::{Connection, OptionalExtension};

use super::handle::Inner;
use super::ledger::has_foreign;
use super::value::field_i64;
use crate::db::schema::{Table, has_table};
use crate::model::Namespace;

/// Whether the ids of a log grow with its numbers.
///
/// A log that only this program wrote is known to; one that others wrote is looked through once.
pub fn is_ordered(inner: &Inner, connection: &Connection, agent: &str) -> rusqlite::Result<bool> {
    if has_table(connection, "amber_namespace")? && !has_foreign(connection)? {
        let stored: Option<Option<bool>> = connection
            .prepare_cached("SELECT ordered FROM amber_namespace WHERE name = ?1")?
            .query_row([agent], |row| row.get(0))
            .optional()?;
        if let Some(Some(ordered)) = stored {
            return Ok(ordered);
        }
    }
    let count = count_of(connection)?;
    if let Some(known) = inner.orders.known(agent, count) {
        return Ok(known);
    }
    let ordered = look_through(connection, agent)?;
    inner.orders.note(agent, count, ordered);
    Ok(ordered)
}

/// What tells whether the log has grown since it was looked through.
fn count_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT coalesce(max(rowid), 0) FROM events")?.query_row([], |row| row.get(0))
}

fn look_through(connection: &Connection, agent: &str) -> rusqlite::Result<bool> {
    let log = Namespace::events(agent);
    let (mut from, mut last) = (Some(0), 0);
    while let Some(number) = from {
        let (rows, next) = super::read::rows_from(connection, &log, Table::Events, number, false, 512)?;
        for (key, stored) in rows {
            match field_i64(Table::Events, &key, &stored, "event_id") {
                Some(id) if id > last => last = id,
                _ => return Ok(false),
            }
        }
        from = next;
    }
    Ok(true)
}

/// The first number whose event has an id above `bound`; numbers of lost events are passed over.
pub fn first_after(connection: &Connection, log: &Namespace, last: u64, bound: i64) -> rusqlite::Result<u64> {
    let (mut low, mut high) = (0, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match id_at_or_after(connection, log, middle, high)? {
            Some((_, id)) if id > bound => high = middle,
            Some((number, _)) => low = number + 1,
            None => high = middle,
        }
    }
    // Rows that cannot be read hold ids between those of their neighbours. Where none above `bound`
    // is left for them, they are not what was asked for.
    Ok(match id_at_or_after(connection, log, low, last + 1)? {
        Some((number, id)) if id == bound.saturating_add(1) => number,
        _ => low,
    })
}

/// Number and id of the first event from `number` on, below `end`, that can be read.
fn id_at_or_after(
    connection: &Connection,
    log: &Namespace,
    number: u64,
    end: u64,
) -> rusqlite::Result<Option<(u64, i64)>> {
    let mut from = number;
    loop {
        let (rows, _) = super::read::rows_from(connection, log, Table::Events, from, false, 1)?;
        let Some((key, stored)) = rows.into_iter().next() else { return Ok(None) };
        let Some(found) = log.number(&key).filter(|found| *found < end) else { return Ok(None) };
        match field_i64(Table::Events, &key, &stored, "event_id") {
            Some(id) => return Ok(Some((found, id))),
            None => from = found + 1,
        }
    }
}

/// Verdicts on logs that other programs wrote, kept while the bundle is open.
#[derive(Debug, Default)]
pub struct Orders {
    verdicts: std::sync::Mutex<std::collections::HashMap<String, (i64, bool)>>,
}

impl Orders {
    fn known(&self, agent: &str, count: i64) -> Option<bool> {
        let verdicts = self.verdicts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        verdicts.get(agent).filter(|(at, _)| *at == count).map(|(_, ordered)| *ordered)
    }

    fn note(&self, agent: &str, count: i64, ordered: bool) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        verdicts.insert(agent.to_owned(), (count, ordered));
    }
}
