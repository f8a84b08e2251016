//! The tail: events that are safe from a kill before SQLite has them.
//!
//! SQLite's own write lock says who may use it: a group of appends holds the lock from its first number
//! to its commit, so that what nobody else can write needs no row to be safe from. Whoever gets the lock
//! looks for what a killed holder left, and takes it in. `docs/decisions/0022` has the reasons.

mod file;
mod group;
mod mark;
mod record;
mod replay;

use std::path::Path;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use self::file::{TailFile, knock};
pub(super) use self::file::{has_file, tail_path};
use self::group::Group;
use self::mark::Mark;
pub(super) use self::mark::renumbered;
use super::append::ACTION;
use super::handle::{Durability, Inner, State};
use super::ledger::Ledger;
use crate::db::fault::translate;
use crate::db::fork::PerProcess;
use crate::db::schema::{Group as Tables, Table};
use crate::db::{ffi, open};
use crate::error::{Error, Result};
use crate::files::journal::Journal;

/// How long a process that met another writer appends by transactions.
const APART: Duration = Duration::from_millis(250);
/// How often an open asks for the lock under which it takes in what was left.
const ATTEMPTS: u32 = 20;

/// What a handle knows of its bundle's tail.
#[derive(Default)]
pub(super) struct Tails {
    open: Option<Tail>,
    group: Option<Group>,
    /// The state of the bundle in which there was no tail; to make one changes that state.
    absent_at: Option<u32>,
    apart_until: Option<Instant>,
    /// A tail could not be made here, or was written wrongly and not mended.
    is_refused: bool,
}

struct Tail {
    file: TailFile,
    mark: Mark,
    /// The state of the bundle that the mark is of.
    version: Option<u32>,
    /// The commit of this handle that brought the mark; `None` when another's did.
    ticket: Option<u64>,
    knock: Option<u64>,
    draft: record::Draft,
}

impl Tails {
    /// Notes a commit of this handle, which held the lock since it looked.
    pub fn note_commit(&mut self, version: Option<u32>) {
        match &mut self.open {
            Some(tail) => tail.version = version,
            None => self.absent_at = self.absent_at.and(version),
        }
    }

    /// Notes that another connection has committed.
    pub fn note_company(&mut self) {
        self.apart_until = Some(Instant::now() + APART);
    }

    /// Forgets what a transaction that was undone had changed. Its events stand in the tail.
    pub fn forget(&mut self) {
        self.group = None;
        self.absent_at = None;
        if let Some(tail) = &mut self.open {
            tail.version = None;
        }
    }

    /// Whether acknowledged events wait for their transaction.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    fn is_apart(&self) -> bool {
        self.apart_until.is_some_and(|until| Instant::now() < until)
    }
}

/// The handles of this process that append to tails.
static HANDLES: PerProcess<Mutex<Vec<Weak<Inner>>>> = PerProcess::new();

/// Has other handles of this process see the handle, once it appends to a tail.
pub(super) fn enlist(handle: &Weak<Inner>) {
    let mut handles = HANDLES.get().lock().unwrap_or_else(PoisonError::into_inner);
    handles.retain(|known| known.strong_count() > 0);
    handles.push(handle.clone());
}

/// Has handles of this process store what they have of `path` in its tail alone, but for one that is in use.
pub(super) fn store_all(path: &Path) -> Result<()> {
    let handles = HANDLES.get().lock().unwrap_or_else(PoisonError::into_inner).clone();
    for handle in handles.iter().filter_map(Weak::upgrade).filter(|handle| handle.path == path) {
        if let Ok(mut state) = handle.state.try_lock() {
            handle.drain(&mut state, ACTION)?;
        }
    }
    Ok(())
}

impl Inner {
    fn tail_fault(&self, action: &'static str) -> impl Fn(std::io::Error) -> Error + '_ {
        move |source| Error::io(&self.path, action, &source)
    }

    /// Asks whoever holds the lock for long to let go.
    pub(super) fn knock(&self, action: &'static str) -> Result<()> {
        store_all(&self.path)?;
        knock(&self.path).map_err(self.tail_fault(action))
    }

    /// Whether the tail holds events that the bundle lacks. Asked by the holder of the write lock, so that
    /// nobody alive is about to store them.
    pub(super) fn has_leftover(&self, state: &mut State, action: &'static str) -> Result<bool> {
        let outcome = self.look_for_leftover(state, action);
        if outcome.is_err() {
            Self::roll_back(state);
        }
        outcome
    }

    fn look_for_leftover(&self, state: &mut State, action: &'static str) -> Result<bool> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(action))?;
        let version = ffi::data_version(connection);
        let tails = &mut state.tail;
        if tails.open.is_none() && version.is_some() && tails.absent_at == version {
            return Ok(false);
        }
        self.level_tail(tails, connection, version, action)?;
        let Some(tail) = tails.open.as_mut() else { return Ok(false) };
        let (left, knocked) = tail.file.look(tail.mark).map_err(self.tail_fault(action))?;
        let is_news = tail.knock.replace(knocked).is_some_and(|before| before != knocked);
        if is_news {
            tails.note_company();
        }
        Ok(left.is_some())
    }

    /// Has the handle know the file under the tail's name and the mark in the bundle.
    fn level_tail(
        &self,
        tails: &mut Tails,
        connection: &Connection,
        version: Option<u32>,
        action: &'static str,
    ) -> Result<()> {
        let fault = self.tail_fault(action);
        if let Some(tail) = &tails.open {
            if !tail.file.journal.is_named().map_err(&fault)? {
                tails.open = None;
            } else if version.is_some() && tail.version == version {
                return Ok(());
            }
        }
        let mark = Mark::read(connection).map_err(self.fault(action))?;
        match (mark, &mut tails.open) {
            (Some(mark), Some(tail)) if tail.mark.bundle == mark.bundle => {
                if tail.mark != mark {
                    (tail.mark, tail.ticket) = (mark, None);
                }
                tail.version = version;
            }
            (Some(mark), open) => {
                let journal = Journal::open(&tail_path(&self.path)).map_err(&fault)?;
                let file = journal.map(|journal| TailFile::of(journal, mark)).transpose().map_err(&fault)?;
                *open = file.flatten().map(|file| Tail::new(file, mark, version));
            }
            (None, open) => *open = None,
        }
        tails.absent_at = if tails.open.is_none() { version } else { None };
        Ok(())
    }

    /// Stores what a killed process left; commits the transaction that is open.
    pub(super) fn take_in_leftover(&self, state: &mut State) -> Result<()> {
        const ACTION: &str = "take in the tail of";
        let outcome = self.take_in(state, ACTION);
        if outcome.is_err() {
            Self::roll_back(state);
        }
        outcome
    }

    fn take_in(&self, state: &mut State, action: &'static str) -> Result<()> {
        let Some(tail) = &state.tail.open else { return Ok(()) };
        let mark = tail.mark;
        let records = tail.file.left(mark).map_err(self.tail_fault(action))?;
        let ((), made) = self.run_in_txn(state, action, |txn| replay::take_in(txn, &records, mark.bundle))?;
        self.commit(state, action)?;
        state.known.extend(made);
        state.heads.mark_stale();
        if let (Some(tail), Some(last)) = (&mut state.tail.open, records.last()) {
            (tail.mark, tail.ticket) = (last.behind, Some(self.sync.committed()));
        }
        Ok(())
    }

    /// Makes the tail of this bundle, in the transaction that is open, and commits it.
    ///
    /// The commit tells other processes, which look for a tail only where the bundle has changed.
    fn make_tail(&self, state: &mut State) -> Result<bool> {
        let outcome = self.make_tail_in_txn(state);
        if outcome.is_err() {
            Self::roll_back(state);
        }
        outcome
    }

    fn make_tail_in_txn(&self, state: &mut State) -> Result<bool> {
        let (mark, made) = self.run_in_txn(state, ACTION, |txn| {
            let fault = txn.fault(ACTION);
            txn.ensure(Tables::Private).map_err(fault)?;
            txn.ensure_table(Table::Events).map_err(fault)?;
            if txn.ledger.is_none() {
                *txn.ledger = Some(Ledger::load(txn.connection).map_err(fault)?);
            }
            let mark = Mark::read(txn.connection).map_err(fault)?.map_or_else(Mark::first, Mark::recycled);
            mark.write(txn.connection).map_err(fault)?;
            Ok(mark)
        })?;
        // Where none can be made, appends stay as they are without.
        let Ok(file) = TailFile::make(&tail_path(&self.path), mark) else {
            Self::roll_back(state);
            state.tail.is_refused = true;
            return Ok(false);
        };
        self.commit(state, ACTION)?;
        state.known.extend(made);
        let version = state.connection.as_ref().and_then(ffi::data_version);
        state.tail.open = Some(Tail::new(file, mark, version));
        Ok(true)
    }

    /// Before a read: has the bundle hold what was acknowledged, by this handle or by a process that is gone.
    pub(super) fn settle(&self, action: &'static str) -> Result<()> {
        if self.options.durability != Durability::Tail {
            return Ok(());
        }
        let mut state = self.lock();
        self.drain(&mut state, action)?;
        let may_be_left = match &state.tail.open {
            Some(tail) => {
                let fault = self.tail_fault(action);
                !tail.file.journal.is_named().map_err(&fault)?
                    || tail.file.look(tail.mark).map_err(&fault)?.0.is_some()
            }
            None => state.connection.is_some() && has_file(&self.path),
        };
        if may_be_left { self.take_over(&mut state).map(drop) } else { Ok(()) }
    }

    /// Takes in what was left, unless somebody holds the lock; whether nobody did.
    fn take_over(&self, state: &mut State) -> Result<bool> {
        const ACTION: &str = "take in the tail of";
        let begun = open::waiting_for(Duration::ZERO, || self.begin_as_it_stands(state, ACTION));
        match begun {
            // What is in the tail is that one's to store.
            Err(Error::Busy { .. }) => return Ok(false),
            outcome => outcome?,
        }
        if self.has_leftover(state, ACTION)? {
            self.take_in_leftover(state)?;
        } else {
            self.end_empty(state, ACTION)?;
        }
        Ok(true)
    }

    /// At an open: takes in what a killed process left.
    pub(super) fn take_over_at_open(&self) -> Result<()> {
        if !has_file(&self.path) {
            return Ok(());
        }
        let mut state = self.lock();
        for _ in 0..ATTEMPTS {
            if self.take_over(&mut state)? {
                break;
            }
            // A moment for one that does the same; a holder that lives stores its own events.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Ends a transaction in which nothing was written.
    fn end_empty(&self, state: &mut State, action: &'static str) -> Result<()> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(action))?;
        let before = ffi::data_version(connection);
        connection
            .prepare_cached("COMMIT")
            .and_then(|mut end| end.execute([]))
            .map_err(self.fault(action))?;
        // SQLite counts it as a commit, and nobody else's.
        let version = ffi::data_version(connection);
        if let Some(ledger) = state.ledger.as_mut().filter(|ledger| ledger.version == before) {
            ledger.version = version;
        }
        state.tail.note_commit(version);
        Ok(())
    }

    /// At a close: removes the file, once everything in it is on disk. One that others use is left to them.
    pub(super) fn retire_tail(&self, state: &mut State) -> Result<()> {
        const ACTION: &str = "close";
        self.drain(state, ACTION)?;
        if state.tail.open.is_none() {
            return Ok(());
        }
        self.sync.sync_to(self.sync.committed(), &self.path, ACTION)?;
        match open::waiting_for(Duration::ZERO, || self.begin_as_it_stands(state, ACTION)) {
            Err(Error::Busy { .. }) => return Ok(()),
            outcome => outcome?,
        }
        if self.has_leftover(state, ACTION)? {
            return self.take_in_leftover(state);
        }
        let removed = match state.tail.open.take() {
            Some(_) => std::fs::remove_file(tail_path(&self.path)).map_err(self.tail_fault(ACTION)),
            None => Ok(()),
        };
        self.end_empty(state, ACTION).and(removed)
    }
}

/// Whether the tail beside `path` holds events that the bundle which `connection` reads lacks.
pub(super) fn is_left(connection: &Connection, path: &Path) -> Result<bool> {
    const ACTION: &str = "read";
    let fault = |source: std::io::Error| Error::io(path, ACTION, &source);
    let mark = Mark::read(connection).map_err(|source| translate(path, ACTION, &source))?;
    let (Some(mark), Some(journal)) = (mark, Journal::look(&tail_path(path)).map_err(fault)?) else {
        return Ok(false);
    };
    let Some(file) = TailFile::of(journal, mark).map_err(fault)? else { return Ok(false) };
    Ok(file.look(mark).map_err(fault)?.0.is_some())
}

impl Tail {
    fn new(file: TailFile, mark: Mark, version: Option<u32>) -> Self {
        Self { file, mark, version, ticket: None, knock: None, draft: record::Draft::default() }
    }
}
