//! The numbers that the next event gets: cached, and proven against the file before they are used.
//!
//! Nothing here is the truth. The truth is the last row of each log and the stored counter, whichever
//! is higher; the cache holds only while no other connection has committed since it was read.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use super::value::{event_number, field_i64};
use crate::db::schema::{Table, has_table};
use crate::lineage::Highest;
use crate::model::{Namespace, parse_numbered};

/// Where the session's highest event id is kept for readers that do not look at the log.
pub const COUNTER_KEY: &[u8] = b"counters:max_event_id";

/// Numbers that a peer may have left unused between two keys of one log.
const HOLES: u64 = 64;
const MAX_WIDTH: usize = 19;

/// What is known of one log.
#[derive(Debug, Default, Clone)]
pub struct Space {
    /// The number that the next event gets.
    pub next: u64,
    /// The id of the last event.
    pub last_id: i64,
    /// The turn of the last event that had one.
    pub last_turn: Option<i64>,
    /// Whether ids grow with the numbers; `None` until somebody has looked.
    pub ordered: Option<bool>,
    /// The turn and branch that were last noted as a landmark.
    pub noted: Option<(i64, i64)>,
    /// Another connection may have appended since.
    stale: bool,
}

impl Space {
    /// Whether an event with that id ends what was known of the order of this log.
    pub fn breaks_order(&self, id: i64) -> bool {
        id <= self.last_id && self.ordered != Some(false)
    }
}

/// The cached numbers of a bundle.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The state of the file that the numbers were read from.
    pub version: Option<u32>,
    /// The highest event id.
    pub max_id: i64,
    spaces: HashMap<String, Space>,
    /// The highest branch of each turn, for the logs that were asked about.
    pub branches: HashMap<String, Highest>,
    stale: bool,
}

impl Ledger {
    /// Reads the numbers of the whole session.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut ledger = Self { max_id: stored_counter(connection)?, ..Self::default() };
        ledger.max_id = ledger.max_id.max(newest_id(connection)?);
        if !numbers_are_ours(connection)? {
            for name in namespaces(connection)? {
                let space = read_space(connection, &name)?;
                ledger.max_id = ledger.max_id.max(space.last_id);
            }
        }
        Ok(ledger)
    }

    /// Notes that another connection has committed.
    pub fn mark_stale(&mut self) {
        self.stale = true;
        self.branches.clear();
        for space in self.spaces.values_mut() {
            space.stale = true;
        }
    }

    /// Brings `max_id` level with the file.
    pub fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.stale {
            self.max_id = self.max_id.max(stored_counter(connection)?).max(newest_id(connection)?);
            self.stale = false;
        }
        Ok(())
    }

    /// Puts the numbers of one log and the highest id where a caller wants them, who holds the write lock.
    pub fn restore(&mut self, agent: &str, space: Space, max_id: i64) {
        self.max_id = max_id;
        if let Some(known) = self.spaces.get_mut(agent) {
            *known = space;
        }
    }

    /// The numbers of one log, level with the file.
    pub fn space(&mut self, connection: &Connection, agent: &str) -> rusqlite::Result<&mut Space> {
        if !self.spaces.contains_key(agent) {
            let space = read_space(connection, agent)?;
            self.spaces.insert(agent.to_owned(), space);
        }
        let space = self.spaces.entry(agent.to_owned()).or_default();
        if space.stale {
            // Another handle may have written other tables while nobody has appended yet.
            let passed = if has_table(connection, Table::Events.name())? {
                last_number(connection, &Namespace::events(agent), Table::Events, space.next)?
            } else {
                None
            };
            if passed.is_some_and(|last| last + 1 != space.next) {
                *space = read_space(connection, agent)?;
            }
        }
        space.stale = false;
        Ok(space)
    }
}

/// The id stored for readers that trust it blindly.
pub fn stored_counter(connection: &Connection) -> rusqlite::Result<i64> {
    if !has_table(connection, "state")? {
        return Ok(0);
    }
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(Table::State.sql().get)?
        .query_row([COUNTER_KEY], |row| row.get(0))
        .optional()?;
    Ok(stored.and_then(|value| event_number(Table::State, COUNTER_KEY, &value)).unwrap_or(0))
}

/// The id of the row that was written last.
pub fn newest_id(connection: &Connection) -> rusqlite::Result<i64> {
    if !has_table(connection, "events")? {
        return Ok(0);
    }
    connection
        .prepare_cached(Table::Events.sql().newest)?
        .query_row([], |row| {
            Ok(field_i64(Table::Events, row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?, "event_id"))
        })
        .optional()
        .map(|id| id.flatten().unwrap_or(0))
}

/// Whether every row of the log was written by this program, so that the last one has the highest id.
fn numbers_are_ours(connection: &Connection) -> rusqlite::Result<bool> {
    if !has_table(connection, "events")? {
        return Ok(true);
    }
    Ok(has_table(connection, "amber_foreign")? && !has_foreign(connection)?)
}

/// Whether another program wrote rows since the derived tables were last brought level.
pub fn has_foreign(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM amber_foreign)")?.query_row([], |row| row.get(0))
}

fn read_space(connection: &Connection, agent: &str) -> rusqlite::Result<Space> {
    if !has_table(connection, "events")? {
        return Ok(Space { ordered: Some(true), ..Space::default() });
    }
    let log = Namespace::events(agent);
    let Some(last) = last_number(connection, &log, Table::Events, 0)? else {
        return Ok(Space { ordered: Some(true), ..Space::default() });
    };
    let key = log.key(last);
    let value: Vec<u8> =
        connection.prepare_cached(Table::Events.sql().get)?.query_row([&key], |row| row.get(0))?;
    Ok(Space {
        next: last + 1,
        last_id: field_i64(Table::Events, &key, &value, "event_id").unwrap_or(0),
        last_turn: field_i64(Table::Events, &key, &value, "turn_index"),
        ordered: stored_order(connection, agent)?,
        noted: None,
        stale: false,
    })
}

/// Whether the ids of a log grow with its numbers, where that is known.
pub fn stored_order(connection: &Connection, agent: &str) -> rusqlite::Result<Option<bool>> {
    if !has_table(connection, "amber_namespace")? || has_foreign(connection)? {
        return Ok(None);
    }
    connection
        .prepare_cached("SELECT ordered FROM amber_namespace WHERE name = ?1")?
        .query_row([agent], |row| row.get(0))
        .optional()
        .map(Option::flatten)
}

/// The highest number in use in `space`, found in O(log n); `hint` is a number that was the next one.
///
/// Numbers may have gaps, where a peer failed to store an event, so the last key is asked for. Only past
/// six digits, where keys do not sort by number, is the end of the run behind `hint` taken instead.
pub fn last_number(
    connection: &Connection,
    space: &Namespace,
    table: Table,
    hint: u64,
) -> rusqlite::Result<Option<u64>> {
    let is_used = |number: u64| -> rusqlite::Result<bool> {
        connection.prepare_cached(table.sql().get)?.exists([space.key(number)])
    };
    let padded = u64::pow(10, 6) - 1;
    if hint > padded && is_used(hint - 1)? {
        return gallop(hint - 1, is_used).map(Some);
    }
    let Some(mut last) = last_of_width(connection, space, table, 6, 0, padded)? else { return Ok(None) };
    // Longer keys sort among the shorter ones, so they are looked for by number.
    let mut width = 7;
    while width <= MAX_WIDTH && last + HOLES >= u64::pow(10, u32::try_from(width - 1).unwrap_or(0)) {
        let mut probe = None;
        for number in last + 1..=last + HOLES {
            if is_used(number)? {
                probe = Some(number);
                break;
            }
        }
        let Some(found) = probe else { break };
        last = gallop(found, is_used)?;
        width += 1;
    }
    Ok(Some(last))
}

fn last_of_width(
    connection: &Connection,
    space: &Namespace,
    table: Table,
    width: usize,
    from: u64,
    to: u64,
) -> rusqlite::Result<Option<u64>> {
    let Some((first, last)) = space.span(width, from, to) else { return Ok(None) };
    let length = i64::try_from(first.len()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(table.sql().last)?;
    let mut rows = statement.query((first, last, length))?;
    while let Some(row) = rows.next()? {
        if let Some(number) = space.number(row.get_ref(0)?.as_blob()?) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The end of the run of numbers in use that starts at `from`.
fn gallop(from: u64, is_used: impl Fn(u64) -> rusqlite::Result<bool>) -> rusqlite::Result<u64> {
    let (mut used, mut step) = (from, 1_u64);
    while is_used(used.saturating_add(step))? {
        used = used.saturating_add(step);
        step = step.saturating_mul(2);
    }
    let mut free = used.saturating_add(step);
    while free - used > 1 {
        let middle = used + (free - used) / 2;
        if is_used(middle)? {
            used = middle;
        } else {
            free = middle;
        }
    }
    Ok(used)
}

/// The highest number in use, by looking at every key: for logs whose numbers have gaps.
pub fn last_number_by_scan(
    connection: &Connection,
    space: &Namespace,
    table: Table,
) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached(table.sql().keys)?;
    let mut rows = statement.query([space.prefix()])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_blob()?;
        if !key.starts_with(space.prefix()) {
            break;
        }
        last = last.max(space.number(key));
    }
    Ok(last)
}

/// The owners of all logs, in the order of their names.
pub fn namespaces(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    if !has_table(connection, "events")? {
        return Ok(Vec::new());
    }
    if has_table(connection, "amber_namespace")? && !has_foreign(connection)? {
        let mut statement = connection.prepare_cached("SELECT name FROM amber_namespace ORDER BY name")?;
        return statement.query_map([], |row| row.get(0))?.collect();
    }
    namespaces_by_scan(connection)
}

fn namespaces_by_scan(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(Table::Events.sql().keys)?;
    let mut rows = statement.query([[0_u8; 0].as_slice()])?;
    let mut found = std::collections::BTreeSet::new();
    let mut current: Option<(Namespace, String)> = None;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_blob()?;
        if current.as_ref().is_some_and(|(space, _)| space.number(key).is_some()) {
            continue;
        }
        if let Some((name, _)) = parse_numbered(key, ":e") {
            found.insert(name.to_owned());
            current = Some((Namespace::events(name), name.to_owned()));
        }
    }
    Ok(found.into_iter().collect())
}

/// Notes the owners of the rows that a file already holds when the private tables are made. They are all
/// foreign, which one mark says that no row can overwrite.
pub fn register_existing(connection: &Connection) -> rusqlite::Result<()> {
    for name in namespaces_by_scan(connection)? {
        register(connection, &name, None)?;
    }
    connection
        .execute("INSERT OR IGNORE INTO amber_foreign SELECT 0, 2 WHERE EXISTS (SELECT 1 FROM events)", [])?;
    Ok(())
}

/// Notes the owner of a log.
pub fn register(connection: &Connection, name: &str, ordered: Option<bool>) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO amber_namespace (name, ordered) VALUES (?1, ?2)")?
        .execute((name, ordered))?;
    Ok(())
}

/// Takes rows of other writers into account and forgets that they were there.
///
/// Their order is not known until somebody asks for a part of the log by id.
pub fn adopt_foreign(connection: &Connection) -> rusqlite::Result<()> {
    for name in namespaces_by_scan(connection)? {
        register(connection, &name, None)?;
    }
    super::landmark::adopt(connection)?;
    connection.execute("UPDATE amber_namespace SET ordered = NULL", [])?;
    connection.execute("DELETE FROM amber_foreign", [])?;
    Ok(())
}
