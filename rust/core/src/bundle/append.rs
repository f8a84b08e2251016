//! The one seam through which events enter the log.

use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, ErrorCode};

use super::branches;
use super::handle::{Durability, Inner, State, Txn};
use super::landmark::{self, Marks};
use super::ledger::{self, COUNTER_KEY, Ledger, Space, last_number_by_scan};
use super::value::Payload;
use crate::codec::{self, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::lineage::Highest;
use crate::model::{Draft, EventId, Namespace};

/// How many events and how long a batch of `Durability::Batch` may stay open.
pub const BATCH: (usize, Duration) = (256, Duration::from_millis(50));

/// How old the stored counter may get before an append writes it.
pub(super) const COUNTER_AGE: Duration = Duration::from_secs(1);

pub(super) const ACTION: &str = "append to";

/// What the log gave an event.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The event's key.
    pub key: Vec<u8>,
    /// Its id.
    pub id: EventId,
    /// The event as it is stored: one `MessagePack` map with every stamp.
    pub body: Vec<u8>,
    /// Whether it states the parent path that it was given.
    pub states_path: bool,
}

impl Inner {
    /// Appends `drafts` to the log of `agent` in one transaction.
    pub(super) fn append(&self, agent: &str, drafts: &[Draft]) -> Result<Vec<Appended>> {
        self.check_process(ACTION)?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: ACTION });
        }
        check_name(agent)?;
        let now = self.clock.now();
        let mut state = self.lock();
        if self.options.durability == Durability::Batch {
            let appended = self.append_to_batch(&mut state, agent, drafts, now)?;
            drop(state);
            self.after_commit(0, ACTION)?;
            return Ok(appended);
        }
        if let Some(appended) = self.append_to_tail(&mut state, agent, drafts, now)? {
            drop(state);
            self.after_commit(0, ACTION)?;
            return Ok(appended);
        }
        self.drain(&mut state, ACTION)?;
        let appended = self.write_locked(&mut state, ACTION, |txn| append_in(txn, agent, drafts, now))?;
        let ticket = self.sync.committed();
        drop(state);
        self.after_commit(ticket, ACTION)?;
        Ok(appended)
    }

    fn append_to_batch(
        &self,
        state: &mut State,
        agent: &str,
        drafts: &[Draft],
        now: f64,
    ) -> Result<Vec<Appended>> {
        if state.batch.is_none() {
            self.begin(state, ACTION)?;
            state.batch = Some((Instant::now(), 0));
        }
        let outcome = self.run_in_txn(state, ACTION, |txn| append_in(txn, agent, drafts, now));
        match outcome {
            Ok((appended, made)) => {
                state.known.extend(made);
                let full = state.batch.as_mut().is_some_and(|(since, count)| {
                    *count += drafts.len();
                    *count >= BATCH.0 || since.elapsed() >= BATCH.1
                });
                if full {
                    self.commit_batch(state, ACTION)?;
                }
                Ok(appended)
            }
            Err(error) => {
                // What the batch holds already was returned to callers: it is kept.
                state.ledger = None;
                if state.connection.as_ref().is_none_or(rusqlite::Connection::is_autocommit) {
                    state.batch = None;
                }
                Err(error)
            }
        }
    }

    /// Commits the open batch or the open group of the tail, if there is one.
    pub(super) fn commit_batch(&self, state: &mut State, action: &'static str) -> Result<()> {
        self.drain(state, action)?;
        if state.batch.take().is_some() {
            self.commit(state, action)?;
        }
        Ok(())
    }
}

/// An agent's name is the start of keys; the empty one would make keys that nothing owns.
pub(super) fn check_name(agent: &str) -> Result<()> {
    if agent.is_empty() {
        return Err(Error::invalid("agent: the name of an agent must not be empty"));
    }
    Ok(())
}

/// Appends inside a transaction that somebody else commits.
pub(super) fn append_in(txn: &mut Txn<'_>, agent: &str, drafts: &[Draft], now: f64) -> Result<Vec<Appended>> {
    let fault = txn.fault("append to");
    txn.ensure_table(Table::Events).map_err(&fault)?;
    if txn.ledger.is_none() {
        *txn.ledger = Some(Ledger::load(txn.connection).map_err(&fault)?);
    }
    if drafts.iter().any(may_omit) {
        branches::ensure(txn, agent)?;
    }
    let (appended, counter_due) = append_all(txn, agent, drafts, now)?;
    let aged = txn.counter_written.is_none_or(|written| written.elapsed() >= COUNTER_AGE);
    if counter_due || aged {
        write_counter(txn).map_err(&fault)?;
    }
    Ok(appended)
}

/// Stores the highest id for readers that do not look at the log.
pub(super) fn write_counter(txn: &mut Txn<'_>) -> rusqlite::Result<()> {
    let Some(ledger) = txn.ledger.as_mut() else { return Ok(()) };
    ledger.refresh(txn.connection)?;
    let payload = Payload::integer(ledger.max_id);
    txn.ensure_table(Table::State)?;
    txn.connection
        .prepare_cached(Table::State.sql().put)?
        .execute((COUNTER_KEY, payload.seal(Table::State, COUNTER_KEY).as_ref()))?;
    *txn.counter_written = Some(Instant::now());
    Ok(())
}

/// Appends each draft; whether one of them brought its own id.
fn append_all(txn: &mut Txn<'_>, agent: &str, drafts: &[Draft], now: f64) -> Result<(Vec<Appended>, bool)> {
    let fault = txn.fault("append to");
    let connection = txn.connection;
    let ledger = txn.ledger.as_mut().ok_or_else(|| txn.inner.closed("append to"))?;
    ledger.refresh(connection).map_err(fault)?;
    let mut max_id = ledger.max_id;
    // Out of the ledger while the batch goes on: after an error the branches are read again.
    let mut highest = ledger.branches.remove(agent);
    let space = ledger.space(connection, agent).map_err(fault)?;
    if space.next == 0 {
        ledger::register(connection, agent, Some(true)).map_err(fault)?;
    }
    let log = Namespace::events(agent);
    let mut insert = Insert::into(connection, Table::Events).map_err(fault)?;
    let mut appended = Vec::with_capacity(drafts.len());
    let mut has_given = false;
    for draft in drafts {
        let Shaped { id, body, turn, marks, states_path } = shape(draft, highest.as_mut(), max_id, now);
        let key = insert.next(&log, &mut space.next, &body).map_err(fault)?;
        let breaks_order = space.breaks_order(id);
        note_id(connection, agent, space, id, breaks_order).map_err(fault)?;
        space.last_turn = turn.or(space.last_turn);
        landmark::note_event(connection, agent, space.next - 1, marks, &mut space.noted).map_err(fault)?;
        max_id = max_id.max(id);
        has_given |= draft.given_id.is_some();
        appended.push(Appended { key, id: EventId(id), body, states_path });
    }
    ledger.max_id = max_id;
    if let Some(highest) = highest {
        ledger.branches.insert(agent.to_owned(), highest);
    }
    Ok((appended, has_given))
}

/// An event that has its id, and what is noted of it.
pub(super) struct Shaped {
    pub(super) id: i64,
    pub(super) body: Vec<u8>,
    pub(super) turn: Option<i64>,
    pub(super) marks: Marks,
    pub(super) states_path: bool,
}

/// Gives an event its id, the one after `max_id` where it brought none, and puts it together.
pub(super) fn shape(draft: &Draft, highest: Option<&mut Highest>, max_id: i64, now: f64) -> Shaped {
    let id = draft.given_id.unwrap_or(max_id + 1);
    let turn = draft.stamps.turn_index.or(draft.own_turn);
    let path = stated_path(draft, turn, highest.as_deref());
    let body = assemble(draft, path, id, now);
    let place = turn.zip(draft.stamps.branch_id.or(draft.own_branch));
    if let (Some(highest), Some((turn, branch))) = (highest, place) {
        highest.note(turn, branch);
    }
    let marks = Marks { place, is_trigger: draft.event_type == landmark::TRIGGER };
    Shaped { id, body, turn, marks, states_path: path.is_some() }
}

pub(super) fn may_omit(draft: &Draft) -> bool {
    draft.may_omit_path && draft.stamps.parent_branch_path.as_ref().is_some_and(|path| !path.is_empty())
}

/// The path that an event states: the given one, unless it may be left out and the log implies it.
fn stated_path<'d>(
    draft: &'d Draft,
    turn: Option<i64>,
    highest: Option<&Highest>,
) -> Option<&'d [(i64, i64)]> {
    let path = draft.stamps.parent_branch_path.as_deref()?;
    let implied = || match (turn, highest) {
        (Some(turn), Some(highest)) => highest.implies(turn, path),
        _ => path.is_empty(),
    };
    if draft.may_omit_path && implied() { None } else { Some(path) }
}

/// Stores rows of a table under numbers; nothing is ever overwritten.
pub(super) struct Insert<'c> {
    connection: &'c Connection,
    table: Table,
    statement: CachedStatement<'c>,
    sealed: Vec<u8>,
}

impl<'c> Insert<'c> {
    pub(super) fn into(connection: &'c Connection, table: Table) -> rusqlite::Result<Self> {
        let statement = connection.prepare_cached(table.sql().insert)?;
        Ok(Self { connection, table, statement, sealed: Vec::new() })
    }

    /// Stores a sealed row under a key that nobody else may have used.
    pub(super) fn exactly(&mut self, key: &[u8], sealed: &[u8]) -> rusqlite::Result<()> {
        self.statement.execute((key, sealed)).map(drop)
    }

    /// Stores a row under the next free number of `space` and returns its key.
    pub(super) fn next(
        &mut self,
        space: &Namespace,
        next: &mut u64,
        body: &[u8],
    ) -> rusqlite::Result<Vec<u8>> {
        loop {
            let key = space.key(*next);
            self.sealed.clear();
            codec::seal_into(&mut self.sealed, self.table.name(), &key, body);
            match self.statement.execute((&key, &self.sealed)) {
                Ok(_) => {
                    *next += 1;
                    return Ok(key);
                }
                // The numbers in use have gaps.
                Err(source) if source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    let last = last_number_by_scan(self.connection, space, self.table)?;
                    *next = last.map_or(0, |last| last + 1).max(*next + 1);
                }
                Err(source) => return Err(source),
            }
        }
    }
}

/// Notes the id of the last event, and where ids no longer grow with the numbers.
pub(super) fn note_id(
    connection: &Connection,
    agent: &str,
    space: &mut Space,
    id: i64,
    breaks_order: bool,
) -> rusqlite::Result<()> {
    if breaks_order {
        connection
            .prepare_cached("UPDATE amber_namespace SET ordered = 0 WHERE name = ?1")?
            .execute([agent])?;
        space.ordered = Some(false);
    }
    space.last_id = space.last_id.max(id);
    Ok(())
}

/// Puts payload and stamps together: the payload's fields first, in the caller's order.
fn assemble(draft: &Draft, path: Option<&[(i64, i64)]>, id: i64, now: f64) -> Vec<u8> {
    let stamps = &draft.stamps;
    let spawned = stamps.spawned_in_turn.or(if draft.has_spawned { None } else { stamps.turn_index });
    let extra = 2
        + usize::from(stamps.turn_index.is_some())
        + usize::from(spawned.is_some())
        + usize::from(stamps.branch_id.is_some())
        + usize::from(path.is_some())
        + usize::from(!draft.has_ts);
    let mut body = Vec::with_capacity(draft.pairs.len() + 96);
    msgpack::put_map_header(&mut body, draft.count + extra);
    body.extend_from_slice(&draft.pairs);
    msgpack::put_str(&mut body, "type");
    msgpack::put_str(&mut body, &draft.event_type);
    msgpack::put_str(&mut body, "event_id");
    msgpack::put_i64(&mut body, id);
    let numbers =
        [("turn_index", stamps.turn_index), ("spawned_in_turn", spawned), ("branch_id", stamps.branch_id)];
    for (name, number) in numbers {
        if let Some(number) = number {
            msgpack::put_str(&mut body, name);
            msgpack::put_i64(&mut body, number);
        }
    }
    if let Some(path) = path {
        msgpack::put_str(&mut body, "parent_branch_path");
        msgpack::put_list_header(&mut body, path.len());
        for (turn, branch) in path {
            msgpack::put_list_header(&mut body, 2);
            msgpack::put_i64(&mut body, *turn);
            msgpack::put_i64(&mut body, *branch);
        }
    }
    if !draft.has_ts {
        msgpack::put_str(&mut body, "ts");
        msgpack::put_f64(&mut body, now);
    }
    body
}
