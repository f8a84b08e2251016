//! The highest branch of each turn of a log: cached, and kept in a row of its own, so that opening
//! a session again does not read its whole log for them.

use rusqlite::{Connection, OptionalExtension};

use super::handle::{Inner, Txn};
use super::ledger::{Ledger, last_number};
use super::read::{Selection, rows_from};
use super::value::{Payload, open_owned};
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::{Group, Table, has_table};
use crate::error::Result;
use crate::lineage::Highest;
use crate::model::Namespace;

const ACTION: &str = "read";
const META: &str = "amber_meta";
const PAGE: usize = 512;

/// Branches as they were known, and the number of the event to go on from.
type Known = (Highest, u64);

fn name_of(agent: &str) -> String {
    format!("branches:{agent}")
}

/// What the row of an agent holds; nothing when there is none, or none that can be believed.
fn stored(connection: &Connection, agent: &str) -> rusqlite::Result<Option<Known>> {
    if !has_table(connection, META)? {
        return Ok(None);
    }
    let name = name_of(agent);
    let row: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")?
        .query_row([&name], |row| row.get(0))
        .optional()?;
    let known = row.and_then(|row| {
        let Ok(Stored::Object(body)) = codec::open(META, name.as_bytes(), &row) else { return None };
        let value = msgpack::decode(&body).ok()?;
        let next = u64::try_from(value.get("next")?.as_i64()?).ok()?;
        Some((Highest::of_value(value.get("branches")?)?, next))
    });
    let Some((highest, next)) = known else { return Ok(None) };
    let last = last_number(connection, &Namespace::events(agent), Table::Events, next)?;
    Ok(last.is_some_and(|last| last + 1 >= next).then_some((highest, next)))
}

/// Reads the branches of a log on a connection that is at hand: the row, and the events after it.
pub(super) fn load(inner: &Inner, connection: &Connection, agent: &str) -> Result<Highest> {
    let fault = inner.fault(ACTION);
    if !has_table(connection, Table::Events.name()).map_err(&fault)? {
        return Ok(Highest::default());
    }
    let (mut highest, next) = stored(connection, agent).map_err(&fault)?.unwrap_or_default();
    let log = Namespace::events(agent);
    let mut from = Some(next);
    while let Some(number) = from {
        let (rows, next) = rows_from(connection, &log, Table::Events, number, false, PAGE).map_err(&fault)?;
        for (key, row) in rows {
            note(&mut highest, &open_owned(&inner.path, Table::Events, &key, row)?);
        }
        from = next;
    }
    Ok(highest)
}

fn note(highest: &mut Highest, event: &Payload) {
    let Payload::Object(body) = event else { return };
    let field = |name| msgpack::field(body, name).and_then(msgpack::as_i64);
    if let (Some(turn), Some(branch)) = (field("turn_index"), field("branch_id")) {
        highest.note(turn, branch);
    }
}

/// Has the ledger know the branches of a log.
pub(super) fn ensure(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    let fault = txn.fault(ACTION);
    if txn.ledger.is_none() {
        *txn.ledger = Some(Ledger::load(txn.connection).map_err(&fault)?);
    }
    let is_known = txn.ledger.as_ref().is_some_and(|ledger| ledger.branches.contains_key(agent));
    if !is_known {
        let highest = load(txn.inner, txn.connection, agent)?;
        if let Some(ledger) = txn.ledger.as_mut() {
            ledger.branches.insert(agent.to_owned(), highest);
        }
    }
    Ok(())
}

/// As [`keep`], where the ledger knows the branches anyway.
pub(super) fn keep_known(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    let is_known = txn.ledger.as_ref().is_some_and(|ledger| ledger.branches.contains_key(agent));
    if is_known { keep(txn, agent) } else { Ok(()) }
}

/// Keeps what the ledger knows of a log for the next time that the session is opened.
pub(super) fn keep(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    let fault = txn.fault(ACTION);
    ensure(txn, agent)?;
    let connection = txn.connection;
    let Some(ledger) = txn.ledger.as_mut() else { return Ok(()) };
    let next = ledger.space(connection, agent).map_err(&fault)?.next;
    let Some(highest) = ledger.branches.get(agent) else { return Ok(()) };
    let known = Value::Map(vec![
        ("next".into(), Value::Int(i64::try_from(next).unwrap_or(i64::MAX))),
        ("branches".into(), highest.to_value()),
    ]);
    let mut body = Vec::new();
    msgpack::put_value(&mut body, &known);
    let name = name_of(agent);
    let sealed = codec::seal(META, name.as_bytes(), &body);
    txn.ensure(Group::Private).map_err(&fault)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")
        .and_then(|mut upsert| upsert.execute((&name, sealed)))
        .map_err(&fault)?;
    Ok(())
}

impl Inner {
    /// The highest branch of a turn; 0 when it has none. The first call for an agent may read its log.
    pub(super) fn max_branch(&self, agent: &str, turn: i64) -> Result<i64> {
        let known = self.with_numbers(ACTION, |ledger, connection| {
            Ok(match ledger.branches.get(agent) {
                Some(highest) => Ok(highest.of(turn)),
                None => Err(stored(connection, agent)?.unwrap_or_default()),
            })
        })?;
        let (mut highest, next) = match known {
            Ok(branch) => return Ok(branch),
            Err(known) => known,
        };
        let last = self.max_event_id()?;
        let mut from = Some(next);
        while let Some(number) = from {
            let page = self.page(agent, &Selection::default(), Some(number), usize::MAX)?;
            page.rows.iter().for_each(|row| note(&mut highest, &row.value));
            from = page.next;
        }
        let branch = highest.of(turn);
        // Events that came in while the log was read are in nobody's count: then the next call reads again.
        if self.max_event_id()? == last {
            self.with_numbers(ACTION, |ledger, _| {
                ledger.branches.insert(agent.to_owned(), highest);
                Ok(())
            })?;
        }
        Ok(branch)
    }
}
