//! A group: the appends between the moment the lock was taken and their one transaction.

use std::time::Instant;

use super::mark::Mark;
use super::record::Entry;
use crate::bundle::append::{
    ACTION, Appended, BATCH, COUNTER_AGE, Insert, Shaped, may_omit, note_id, shape, write_counter,
};
use crate::bundle::branches;
use crate::bundle::handle::{Durability, Inner, State, Txn};
use crate::bundle::landmark::{self, Marks};
use crate::bundle::ledger::{Ledger, Space};
use crate::codec;
use crate::db::ffi;
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::model::{Draft, EventId, Namespace};

/// Bytes of events at which a group is stored by the next append.
const FULL: usize = 128 << 10;
/// Appends of more bytes than this go by a transaction of their own.
const LONGEST: usize = 1 << 20;
/// From here on keys no longer sort by number, and which one is free takes more than a look at the last.
const LAST_NUMBER: u64 = 999_000;
/// Where the file is begun anew even if that takes a sync.
const LONG: u64 = 8 << 20;

/// Events that are in the tail alone.
pub(super) struct Group {
    since: Instant,
    rows: Vec<Row>,
    bytes: usize,
    /// Where the tail stands behind the last of them.
    last: Mark,
    is_counter_due: bool,
    /// The mark must move although there are no rows.
    is_moved: bool,
}

struct Row {
    agent: String,
    number: u64,
    key: Vec<u8>,
    sealed: Vec<u8>,
    id: i64,
    is_given: bool,
    breaks_order: bool,
    marks: Marks,
}

/// Events that have their numbers, and what these were before.
struct Numbered {
    rows: Vec<Row>,
    appended: Vec<Appended>,
    space: Space,
    max_id: i64,
}

impl Inner {
    /// Appends by way of the tail; `None` where a transaction must do it.
    pub(in crate::bundle) fn append_to_tail(
        &self,
        state: &mut State,
        agent: &str,
        drafts: &[Draft],
        now: f64,
    ) -> Result<Option<Vec<Appended>>> {
        let is_for_tail = self.options.durability == Durability::Tail
            && !state.tail.is_refused
            && !drafts.is_empty()
            && drafts.iter().map(|draft| draft.pairs.len()).sum::<usize>() < LONGEST;
        if !is_for_tail {
            return Ok(None);
        }
        if state.tail.group.as_ref().is_some_and(Group::is_full) {
            self.drain(state, ACTION)?;
        }
        if state.tail.group.is_none() && !self.begin_group(state)? {
            return Ok(None);
        }
        if state.connection.as_ref().is_some_and(ffi::has_moved) {
            Self::roll_back(state);
            return Err(Error::Gone { path: self.path.clone() });
        }
        let has_rows = state.tail.group.as_ref().is_some_and(|group| !group.rows.is_empty());
        let numbered = self.run_in_txn(state, ACTION, |txn| number(txn, agent, drafts, now, has_rows));
        match numbered {
            Ok((numbered, made)) => {
                state.known.extend(made);
                let Some(numbered) = numbered else { return Ok(None) };
                self.write_to_tail(state, agent, numbered).map(Some)
            }
            Err(error) => {
                // What is in the tail is stored by the next transaction.
                Self::roll_back(state);
                Err(error)
            }
        }
    }

    /// Takes the lock for a group; not while others write, nor where no tail can be.
    fn begin_group(&self, state: &mut State) -> Result<bool> {
        // A handle that appends once needs no file for it.
        if state.tail.is_apart() || state.tail.open.is_none() && state.ledger.is_none() {
            return Ok(false);
        }
        self.begin(state, ACTION)?;
        if state.tail.open.is_none() && (state.tail.is_apart() || !self.make_tail(state)?) {
            return self.end_if_begun(state).map(|()| false);
        }
        if state.connection.as_ref().is_some_and(rusqlite::Connection::is_autocommit) {
            self.begin(state, ACTION)?;
        }
        if state.tail.is_apart() {
            return self.end_if_begun(state).map(|()| false);
        }
        let Some(tail) = &state.tail.open else { return self.end_if_begun(state).map(|()| false) };
        let is_on_disk = tail.ticket.is_some_and(|ticket| self.sync.is_synced(ticket));
        let mut last = if is_on_disk && tail.mark.seq > 0 { tail.mark.recycled() } else { tail.mark };
        if last.offset > LONG {
            self.sync.sync_to(self.sync.committed(), &self.path, ACTION)?;
            last = tail.mark.recycled();
        }
        state.tail.group = Some(Group {
            since: Instant::now(),
            rows: Vec::new(),
            bytes: 0,
            last,
            is_counter_due: false,
            is_moved: false,
        });
        Ok(true)
    }

    fn end_if_begun(&self, state: &mut State) -> Result<()> {
        if state.connection.as_ref().is_some_and(|connection| !connection.is_autocommit()) {
            self.end_empty(state, ACTION)?;
        }
        Ok(())
    }

    /// Makes the events safe from a kill. After an error the numbers are as they were.
    fn write_to_tail(&self, state: &mut State, agent: &str, numbered: Numbered) -> Result<Vec<Appended>> {
        let Numbered { rows, appended, space, max_id } = numbered;
        let written = write_record(state, &rows);
        let (Some(group), Some(length)) = (state.tail.group.as_mut(), written.as_ref().ok()) else {
            if let Some(ledger) = state.ledger.as_mut() {
                ledger.restore(agent, space, max_id);
            }
            let group_is_broken = Self::erase_record(state);
            if group_is_broken {
                self.drain(state, ACTION)?;
            }
            let source = written.err().unwrap_or_else(|| std::io::Error::other("no group is open"));
            return Err(Error::io(&self.path, ACTION, &source));
        };
        group.last = group.last.behind(*length);
        group.is_counter_due |= rows.iter().any(|row| row.is_given);
        group.bytes += length;
        group.rows.extend(rows);
        Ok(appended)
    }

    /// Has no part of a record that failed pass for one; whether the mark must move past it.
    fn erase_record(state: &mut State) -> bool {
        let (Some(tail), Some(group)) = (state.tail.open.as_mut(), state.tail.group.as_mut()) else {
            return false;
        };
        if tail.file.journal.write(&[0; super::record::HEAD], group.last.offset).is_ok() {
            return false;
        }
        group.last.seq += 1;
        group.is_moved = true;
        state.tail.is_refused = true;
        true
    }

    /// Stores the events of the open group in one transaction, and lets the lock go.
    pub(in crate::bundle) fn drain(&self, state: &mut State, action: &'static str) -> Result<()> {
        let Some(group) = state.tail.group.take() else { return Ok(()) };
        if group.rows.is_empty() && !group.is_moved {
            return self.end_empty(state, action);
        }
        let stored = self.run_in_txn(state, action, |txn| store(txn, &group));
        let ((), made) = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // The events stay in the tail, from where the next transaction takes them in.
                Self::roll_back(state);
                return Err(error);
            }
        };
        self.commit(state, action)?;
        state.known.extend(made);
        if let Some(tail) = &mut state.tail.open {
            (tail.mark, tail.ticket) = (group.last, Some(self.sync.committed()));
        }
        Ok(())
    }
}

impl Group {
    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH.0 || self.bytes >= FULL || self.since.elapsed() >= BATCH.1
    }
}

/// Writes the record of one append, and returns its length.
fn write_record(state: &mut State, rows: &[Row]) -> std::io::Result<usize> {
    let too_long = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "the record is too long");
    let (Some(tail), Some(group)) = (state.tail.open.as_mut(), state.tail.group.as_ref()) else {
        return Err(std::io::Error::other("no group is open"));
    };
    tail.draft.begin();
    for row in rows {
        let entry = Entry { key: &row.key, value: &row.sealed, is_given: row.is_given };
        tail.draft.add(&entry).ok_or_else(too_long)?;
    }
    let bytes =
        tail.draft.finish(group.last.bundle, group.last.epoch, group.last.seq + 1).ok_or_else(too_long)?;
    tail.file.journal.write(bytes, group.last.offset)?;
    Ok(bytes.len())
}

/// Gives events their numbers and ids; `None` when the file must be asked for them.
fn number(
    txn: &mut Txn<'_>,
    agent: &str,
    drafts: &[Draft],
    now: f64,
    has_rows: bool,
) -> Result<Option<Numbered>> {
    let fault = txn.fault(ACTION);
    txn.ensure_table(Table::Events).map_err(fault)?;
    if txn.ledger.is_none() {
        *txn.ledger = Some(Ledger::load(txn.connection).map_err(fault)?);
    }
    let knows_branches = txn.ledger.as_ref().is_some_and(|ledger| ledger.branches.contains_key(agent));
    if !knows_branches && drafts.iter().any(may_omit) {
        // They are read from the file, which lacks the events of the group.
        if has_rows {
            return Ok(None);
        }
        branches::ensure(txn, agent)?;
    }
    let connection = txn.connection;
    let ledger = txn.ledger.as_mut().ok_or_else(|| txn.inner.closed(ACTION))?;
    ledger.refresh(connection).map_err(fault)?;
    let before = ledger.space(connection, agent).map_err(fault)?.clone();
    if before.next == 0 || before.next + drafts.len() as u64 > LAST_NUMBER {
        return Ok(None);
    }
    let max_before = ledger.max_id;
    let mut numbering =
        Numbering { agent, log: Namespace::events(agent), space: before.clone(), max_id: max_before };
    let mut highest = ledger.branches.remove(agent);
    let (mut rows, mut appended) = (Vec::with_capacity(drafts.len()), Vec::with_capacity(drafts.len()));
    for draft in drafts {
        let shaped = shape(draft, highest.as_mut(), numbering.max_id, now);
        let (row, of_caller) = numbering.take(shaped, draft.given_id.is_some());
        rows.push(row);
        appended.push(of_caller);
    }
    ledger.restore(agent, numbering.space, numbering.max_id);
    if let Some(highest) = highest {
        ledger.branches.insert(agent.to_owned(), highest);
    }
    Ok(Some(Numbered { rows, appended, space: before, max_id: max_before }))
}

/// What the next event of a log is numbered by.
struct Numbering<'a> {
    agent: &'a str,
    log: Namespace,
    space: Space,
    max_id: i64,
}

impl Numbering<'_> {
    /// Gives an event its number.
    fn take(&mut self, shaped: Shaped, is_given: bool) -> (Row, Appended) {
        let key = self.log.key(self.space.next);
        let breaks_order = self.space.breaks_order(shaped.id);
        let row = Row {
            agent: self.agent.to_owned(),
            number: self.space.next,
            sealed: codec::seal(Table::Events.name(), &key, &shaped.body),
            key: key.clone(),
            id: shaped.id,
            is_given,
            breaks_order,
            marks: shaped.marks,
        };
        if breaks_order {
            self.space.ordered = Some(false);
        }
        self.space.last_id = self.space.last_id.max(shaped.id);
        self.space.last_turn = shaped.turn.or(self.space.last_turn);
        self.space.next += 1;
        self.max_id = self.max_id.max(shaped.id);
        let Shaped { id, body, states_path, .. } = shaped;
        (row, Appended { key, id: EventId(id), body, states_path })
    }
}

/// Stores the rows of a group with all that belongs to them.
fn store(txn: &mut Txn<'_>, group: &Group) -> Result<()> {
    let fault = txn.fault(ACTION);
    let connection = txn.connection;
    let ledger = txn.ledger.as_mut().ok_or_else(|| txn.inner.closed(ACTION))?;
    let mut insert = Insert::into(connection, Table::Events).map_err(fault)?;
    for row in &group.rows {
        insert.exactly(&row.key, &row.sealed).map_err(fault)?;
        let space = ledger.space(connection, &row.agent).map_err(fault)?;
        note_id(connection, &row.agent, space, row.id, row.breaks_order).map_err(fault)?;
        landmark::note_event(connection, &row.agent, row.number, row.marks, &mut space.noted)
            .map_err(fault)?;
    }
    group.last.write(connection).map_err(fault)?;
    let is_aged = txn.counter_written.is_none_or(|written| written.elapsed() >= COUNTER_AGE);
    if group.is_counter_due || is_aged {
        write_counter(txn).map_err(fault)?;
    }
    Ok(())
}
