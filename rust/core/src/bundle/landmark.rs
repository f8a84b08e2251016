//! Landmarks of the logs: what a resume would otherwise have to look for in all of a log.
//!
//! Two kinds are kept, the turns that have more than one branch and the events that hold triggers.
//! They may say too much, after a row was rewritten, and never too little: while rows of another
//! program are not taken in, or where the table is missing, nothing is known.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::ledger::has_foreign;
use crate::codec::{self, Stored, msgpack};
use crate::db::schema::{Table, has_table};
use crate::model::{EVENT_MARK, parse_numbered};

/// The type of the events that hold triggers.
pub const TRIGGER: &str = "trigger_state";

const TABLE: &str = "amber_landmark";
/// A turn under `place` and its highest branch under `value`.
const BRANCH_KIND: i64 = 0;
/// The number of an event under `place`.
const TRIGGER_KIND: i64 = 1;
const PUT: &str = "INSERT INTO amber_landmark (agent, kind, place, value) VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT DO UPDATE SET value = max(value, excluded.value)";

/// What is known of the log of one agent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Landmarks {
    /// The highest branch of each turn that has another than its first.
    pub branches: BTreeMap<i64, i64>,
    /// The numbers of the events that hold triggers, ascending.
    pub triggers: Vec<u64>,
}

/// What an event may be a landmark of.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    /// Its turn and branch, where it names both.
    pub place: Option<(i64, i64)>,
    /// Whether it holds triggers.
    pub is_trigger: bool,
}

impl Marks {
    /// Those of an event as it is stored.
    pub fn of(body: &[u8]) -> Self {
        let integer = |name| msgpack::field(body, name).and_then(msgpack::as_i64);
        Self {
            place: integer("turn_index").zip(integer("branch_id")),
            is_trigger: msgpack::field(body, "type").and_then(msgpack::as_str) == Some(TRIGGER),
        }
    }
}

/// Notes what an event is a landmark of. `noted` holds the turn and branch noted last, and spares a write
/// for each event of one branch; a turn's first branch is none that one must know of.
pub fn note_event(
    connection: &Connection,
    agent: &str,
    number: u64,
    marks: Marks,
    noted: &mut Option<(i64, i64)>,
) -> rusqlite::Result<()> {
    if let Some(place) = marks.place.filter(|(_, branch)| *branch > 1)
        && *noted != Some(place)
    {
        put(connection, agent, BRANCH_KIND, place)?;
        *noted = Some(place);
    }
    if marks.is_trigger {
        put(connection, agent, TRIGGER_KIND, (i64::try_from(number).unwrap_or(i64::MAX), 0))?;
    }
    Ok(())
}

fn put(connection: &Connection, agent: &str, kind: i64, (place, value): (i64, i64)) -> rusqlite::Result<()> {
    // A file of before this table never gets it: an empty one would say that there is nothing.
    if !has_table(connection, TABLE)? {
        return Ok(());
    }
    connection.prepare_cached(PUT)?.execute((agent, kind, place, value)).map(drop)
}

/// The landmarks of a log; `None` when they are not known.
pub fn known(connection: &Connection, agent: &str) -> rusqlite::Result<Option<Landmarks>> {
    if !has_table(connection, Table::Events.name())? {
        return Ok(Some(Landmarks::default()));
    }
    if !has_table(connection, TABLE)? || has_foreign(connection)? {
        return Ok(None);
    }
    let mut found = Landmarks::default();
    let mut select = connection.prepare_cached(
        "SELECT kind, place, value FROM amber_landmark WHERE agent = ?1 ORDER BY kind, place",
    )?;
    let mut rows = select.query([agent])?;
    while let Some(row) = rows.next()? {
        let place: i64 = row.get(1)?;
        match row.get::<_, i64>(0)? {
            BRANCH_KIND => drop(found.branches.insert(place, row.get(2)?)),
            TRIGGER_KIND => found.triggers.extend(u64::try_from(place)),
            _ => {}
        }
    }
    Ok(Some(found))
}

/// Takes in the rows that another program wrote, before it is forgotten which they are.
pub fn adopt(connection: &Connection) -> rusqlite::Result<()> {
    const ALL: &str = "SELECT key, value FROM events";
    const LISTED: &str = "SELECT key, value FROM events WHERE rowid IN (SELECT row FROM amber_foreign)";
    if !has_table(connection, TABLE)? {
        return Ok(());
    }
    let all: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM amber_foreign WHERE rewritten = 2)",
        [],
        |row| row.get(0),
    )?;
    let mut select = connection.prepare_cached(if all { ALL } else { LISTED })?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (key, stored) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        // A row that cannot be read is on no branch: whoever reads the log is told of it.
        if let Some((agent, number)) = parse_numbered(key, EVENT_MARK)
            && let Ok(Stored::Object(body)) = codec::open(Table::Events.name(), key, stored)
        {
            note_event(connection, agent, number, Marks::of(&body), &mut None)?;
        }
    }
    Ok(())
}
