//! The rows of a fork: copied as they are stored, but for the few that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{CachedStatement, Connection};

use super::cut::Scan;
use super::view::Views;
use super::{ACTION, CHILDREN, Fork};
use crate::bundle::landmark::{self, Marks};
use crate::bundle::ledger::{self, COUNTER_KEY};
use crate::bundle::value::{Payload, open};
use crate::codec::{self, msgpack};
use crate::db::fault::translate;
use crate::db::open as database;
use crate::db::schema::{Group, Table, has_table};
use crate::error::{Error, Result};
use crate::model::{EVENT_MARK, parse_numbered};

/// Tables that a child has in common with its parent, whatever the point.
const WHOLE: [Table; 4] = [Table::Channels, Table::Subagents, Table::Jobs, Table::TurnRollup];
/// Slots that may tell of what happened after the point.
const SLOTS: [&[u8]; 4] = [b":snapshot_event_id", b":snapshot_branch", b":branch_snapshots", b":branch_view"];
/// Fields that lead from the parent elsewhere.
const OWN: [&[u8]; 2] = [CHILDREN, b"resume_successor"];

/// Passes every row of a table, in the order in which they were written.
pub fn each(
    path: &Path,
    connection: &Connection,
    table: Table,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(path, ACTION, &source);
    if !has_table(connection, table.name()).map_err(fault)? {
        return Ok(());
    }
    let mut select = connection.prepare_cached(table.sql().after).map_err(fault)?;
    let mut rows = select.query((i64::MIN, i64::MAX)).map_err(fault)?;
    while let Some(row) = rows.next().map_err(fault)? {
        let key = row.get_ref(1).and_then(|key| Ok(key.as_blob()?)).map_err(fault)?;
        let stored = row.get_ref(2).and_then(|value| Ok(value.as_blob()?)).map_err(fault)?;
        each(key, stored)?;
    }
    Ok(())
}

/// Makes the database of a child at `target`, in one transaction.
pub fn fill(parent: &Path, from: &Connection, target: &Path, fork: &Fork<'_>) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(target, ACTION, &source);
    let child = database::aside(target)?;
    child.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
    let copy = Copying { parent, from, child: &child, target };
    copy.make_tables()?;
    copy.meta(fork)?;
    for table in WHOLE {
        copy.rows(table, |_| true)?;
    }
    copy.rows(Table::State, |key| key != COUNTER_KEY && !SLOTS.iter().any(|slot| key.ends_with(slot)))?;
    let mut views = Views::of(parent, from)?;
    let highest = copy.events(fork, &mut views)?;
    copy.put(Table::State, COUNTER_KEY, &Payload::integer(highest))?;
    for (key, view) in views.projected() {
        copy.put(Table::State, &key, &Payload::of(&view))?;
    }
    copy.checks()?;
    child.execute_batch("COMMIT").map_err(fault)?;
    database::finish_aside(child).map_err(fault)
}

/// Two databases, one being made of the other.
pub struct Copying<'a> {
    /// The file that is read.
    pub parent: &'a Path,
    /// Its connection.
    pub from: &'a Connection,
    /// The database that is made.
    pub child: &'a Connection,
    /// Its file.
    pub target: &'a Path,
}

impl Copying<'_> {
    fn fault(&self) -> impl Fn(rusqlite::Error) -> Error + Copy + '_ {
        |source| translate(self.target, ACTION, &source)
    }

    /// Makes the tables of a session.
    pub fn make_tables(&self) -> Result<()> {
        let fault = self.fault();
        self.child.execute_batch(Group::Private.ddl()).map_err(fault)?;
        self.child.execute_batch(Group::Log.ddl()).map_err(fault)?;
        for table in Table::ALL {
            self.child.execute_batch(table.sql().create).map_err(fault)?;
        }
        Ok(())
    }

    fn insert(&self, table: Table) -> Result<CachedStatement<'_>> {
        self.child.prepare_cached(table.sql().insert).map_err(self.fault())
    }

    /// Copies the rows of a table whose keys are wanted. Those of other programs are not looked into.
    pub fn rows(&self, table: Table, wanted: impl Fn(&[u8]) -> bool) -> Result<()> {
        let mut insert = self.insert(table)?;
        each(self.parent, self.from, table, |key, stored| {
            if !wanted(key) {
                return Ok(());
            }
            if codec::has_trailer(stored) {
                open(self.parent, table, key, stored)?;
            }
            insert.execute((key, stored)).map(drop).map_err(self.fault())
        })
    }

    fn put(&self, table: Table, key: &[u8], payload: &Payload) -> Result<()> {
        self.child
            .prepare_cached(table.sql().put)
            .and_then(|mut put| put.execute((key, payload.seal(table, key).as_ref())))
            .map(drop)
            .map_err(self.fault())
    }

    fn meta(&self, fork: &Fork<'_>) -> Result<()> {
        let is_new = |key: &[u8]| fork.meta.iter().any(|(new, _)| new == key);
        self.rows(Table::Meta, |key| !OWN.contains(&key) && !is_new(key))?;
        fork.meta.iter().try_for_each(|(key, payload)| self.put(Table::Meta, key, payload))
    }

    /// Copies the events up to the point and returns the highest id among them.
    fn events(&self, fork: &Fork<'_>, views: &mut Views) -> Result<i64> {
        let mut scan = Scan::new(self.parent, &fork.cut);
        let mut insert = self.insert(Table::Events)?;
        let mut owners = BTreeSet::new();
        let mut highest = 0;
        each(self.parent, self.from, Table::Events, |key, stored| {
            let Some((id, body)) = scan.look(key, stored)? else { return Ok(()) };
            let edit = fork.edit.as_ref().filter(|edit| edit.key == key);
            let written = match edit.map(|edit| edit.body.as_deref()) {
                None => insert.execute((key, stored)),
                Some(None) => return Ok(()),
                Some(Some(new)) => {
                    check_edit(new, id)?;
                    insert.execute((key, codec::seal(Table::Events.name(), key, new)))
                }
            };
            written.map_err(self.fault())?;
            highest = id.max(highest);
            if let Some((owner, number)) = parse_numbered(key, EVENT_MARK) {
                if !owners.contains(owner) {
                    owners.insert(owner.to_owned());
                }
                let kept = edit.and_then(|edit| edit.body.as_deref()).unwrap_or(&body);
                landmark::note_event(self.child, owner, number, Marks::of(kept), &mut None)
                    .map_err(self.fault())?;
                views.note(owner, number, kept);
            }
            Ok(())
        })?;
        scan.finish()?;
        self.register(&owners).map_err(self.fault())?;
        Ok(highest)
    }

    /// Notes the owners of the logs. What is left of an ordered log is ordered.
    fn register(&self, owners: &BTreeSet<String>) -> rusqlite::Result<()> {
        for owner in owners {
            let ordered = ledger::stored_order(self.from, owner)?.filter(|ordered| *ordered);
            ledger::register(self.child, owner, ordered)?;
        }
        // Every row was just taken in, whoever wrote it.
        self.child.execute("DELETE FROM amber_foreign", []).map(drop)
    }

    /// Copies the checksums of values that are raw bytes.
    pub fn checks(&self) -> Result<()> {
        const READ: &str = "SELECT name, value FROM amber_meta WHERE name >= 'bytes:' AND name < 'bytes;'";
        let fault = |source: rusqlite::Error| translate(self.parent, ACTION, &source);
        if !has_table(self.from, "amber_meta").map_err(fault)? {
            return Ok(());
        }
        let mut select = self.from.prepare(READ).map_err(fault)?;
        let checks: rusqlite::Result<BTreeMap<String, Vec<u8>>> =
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect);
        for (name, check) in checks.map_err(fault)? {
            if name.starts_with("bytes:conversation:") {
                continue;
            }
            self.child
                .prepare_cached("INSERT INTO amber_meta (name, value) VALUES (?1, ?2)")
                .and_then(|mut insert| insert.execute((name, check)))
                .map_err(self.fault())?;
        }
        Ok(())
    }
}

/// An event keeps its id, whatever else becomes of it.
fn check_edit(body: &[u8], id: i64) -> Result<()> {
    if msgpack::field(body, "event_id").and_then(msgpack::as_i64) == Some(id) {
        return Ok(());
    }
    Err(Error::invalid(format!("mutate: the event must keep its event_id {id}")))
}
