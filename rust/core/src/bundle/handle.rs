//! The open bundle: one connection behind a mutex, and the transactions on it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::ledger::Ledger;
use super::snapshot::Heads;
use super::source::Source;
use super::sync::SyncGate;
use super::tail::Tails;
use crate::clock::Clock;
use crate::db::fault::translate;
use crate::db::registry::Lease;
use crate::db::schema::{Group, Table, has_table};
use crate::db::{ffi, fork, open};
use crate::error::{Error, Result};
use crate::files::lock::WriterLock;
use crate::recall::rank::Corpus;

/// How long a writer waits before it says that it does.
const KNOCK_AFTER: Duration = Duration::from_millis(3);

/// What a returned append promises; see `docs/guarantees.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives the end of the process; a power cut loses at most the last second.
    #[default]
    Process,
    /// The same, but that events are in the tail first, and in the file up to [`super::append::BATCH`]
    /// later; a power cut loses no more than that.
    Tail,
    /// Synced to disk before the append returns.
    Power,
    /// A kill loses at most the last events and milliseconds of [`super::append::BATCH`].
    Batch,
}

/// How a bundle is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What a returned append promises.
    pub durability: Durability,
    /// Whether to keep every other writer out.
    pub exclusive: bool,
    /// Whether to keep the peer's own text index level.
    pub peer_text: bool,
    /// Whether to refuse a session of an older format as well as one of a newer.
    pub present_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { durability: Durability::Process, exclusive: false, peer_text: true, present_only: false }
    }
}

/// What an open bundle is made of; [`super::Bundle`] is the handle that callers hold.
pub(super) struct Inner {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    /// `None` for a bundle that is open for writing.
    pub(super) source: Option<Mutex<Source>>,
    pub(super) clock: Box<dyn Clock>,
    pub(super) generation: u64,
    pub(super) state: Mutex<State>,
    pub(super) reader: Mutex<Option<Connection>>,
    pub(super) sync: SyncGate,
    /// Held while the service thread has a connection of its own.
    pub(super) checkpointing: Mutex<()>,
    /// Whether the service thread has this bundle on its list.
    pub(super) attended: AtomicBool,
    /// Which logs of other programs are in order.
    pub(super) orders: super::order::Orders,
    /// The vectors of blocks that were read.
    pub(super) shelves: super::text::Shelves,
    pub(super) me: Weak<Inner>,
}

/// What only the holder of the mutex may touch.
#[derive(Default)]
pub(super) struct State {
    pub(super) connection: Option<Connection>,
    pub(super) ledger: Option<Ledger>,
    pub(super) heads: Heads,
    pub(super) known: HashSet<&'static str>,
    /// When the open batch of `Durability::Batch` began, and how many events it holds.
    pub(super) batch: Option<(Instant, usize)>,
    pub(super) counter_written: Option<Instant>,
    /// The state of the file in which the text index was level, and how much it held.
    pub(super) level: Option<(u32, Corpus)>,
    pub(super) tail: Tails,
    pub(super) lock: Option<WriterLock>,
    pub(super) lease: Option<Lease>,
}

/// A write in progress: everything in it is committed together or not at all.
pub(super) struct Txn<'a> {
    pub(super) inner: &'a Inner,
    pub(super) connection: &'a Connection,
    pub(super) ledger: &'a mut Option<Ledger>,
    pub(super) heads: &'a mut Heads,
    pub(super) counter_written: &'a mut Option<Instant>,
    known: &'a mut HashSet<&'static str>,
    made: Vec<&'static str>,
}

impl<'a> Txn<'a> {
    /// Translates an error of SQLite.
    pub(super) fn fault(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> Error + Copy + use<'a> {
        let inner = self.inner;
        move |source| translate(&inner.path, action, &source)
    }

    /// Makes the tables of `group` where they are missing.
    pub(super) fn ensure(&mut self, group: Group) -> rusqlite::Result<()> {
        if self.known.contains(group.witness()) || self.made.contains(&group.witness()) {
            return Ok(());
        }
        if group != Group::Private {
            self.ensure(Group::Private)?;
        }
        if !has_table(self.connection, group.witness())? {
            self.connection.execute_batch(group.ddl())?;
            if group == Group::Log {
                super::ledger::register_existing(self.connection)?;
            }
        }
        self.made.push(group.witness());
        Ok(())
    }

    /// Forgets that the tables of `group` are there, for they were taken away.
    pub(super) fn forget(&mut self, group: Group) {
        self.known.remove(group.witness());
        self.made.retain(|made| *made != group.witness());
    }

    /// Makes a key-value table where it is missing.
    pub(super) fn ensure_table(&mut self, table: Table) -> rusqlite::Result<()> {
        if table == Table::Events {
            return self.ensure(Group::Log);
        }
        if !self.known.contains(table.name()) && !self.made.contains(&table.name()) {
            self.ensure(Group::Private)?;
            self.connection.execute_batch(table.sql().create)?;
            self.made.push(table.name());
        }
        Ok(())
    }
}

impl Inner {
    /// Translates an error of SQLite.
    pub(super) fn fault(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> Error + '_ {
        move |source| translate(&self.path, action, &source)
    }

    /// Refuses a handle that was carried over a fork, before any lock is touched.
    pub(super) fn check_process(&self, action: &'static str) -> Result<()> {
        if self.generation == fork::generation() {
            return Ok(());
        }
        Err(Error::Closed {
            path: self.path.clone(),
            action,
            reason: "the session was opened by the process that this one was forked from; open it again here",
        })
    }

    pub(super) fn closed(&self, action: &'static str) -> Error {
        Error::Closed { path: self.path.clone(), action, reason: "the session is closed" }
    }

    /// The state, with its mutex held.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in a transaction of its own; after an error nothing of it remains.
    pub(super) fn write<R>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut Txn<'_>) -> Result<R>,
    ) -> Result<R> {
        self.check_process(action)?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action });
        }
        let mut state = self.lock();
        self.commit_batch(&mut state, action)?;
        let outcome = self.write_locked(&mut state, action, work)?;
        let ticket = self.sync.committed();
        drop(state);
        self.after_commit(ticket, action)?;
        Ok(outcome)
    }

    /// The same, by the holder of the mutex; the caller sees to the sync.
    pub(super) fn write_locked<R>(
        &self,
        state: &mut State,
        action: &'static str,
        work: impl FnOnce(&mut Txn<'_>) -> Result<R>,
    ) -> Result<R> {
        self.begin(state, action)?;
        let outcome = self.run_in_txn(state, action, work);
        match outcome {
            Ok((value, made)) => {
                self.commit(state, action)?;
                state.known.extend(made);
                Ok(value)
            }
            Err(error) => {
                let error = with_system_reason(state, error);
                Self::roll_back(state);
                Err(error)
            }
        }
    }

    /// Runs `work` inside the transaction that is open.
    pub(super) fn run_in_txn<R>(
        &self,
        state: &mut State,
        action: &'static str,
        work: impl FnOnce(&mut Txn<'_>) -> Result<R>,
    ) -> Result<(R, Vec<&'static str>)> {
        let State { connection, ledger, heads, known, counter_written, .. } = state;
        let connection = connection.as_ref().ok_or_else(|| self.closed(action))?;
        let mut txn =
            Txn { inner: self, connection, ledger, heads, counter_written, known, made: Vec::new() };
        let value = work(&mut txn)?;
        Ok((value, txn.made))
    }

    /// Takes SQLite's write lock and sets back every cached number that another writer may have passed.
    /// What a killed process left in the tail is taken in first, in a transaction of its own.
    pub(super) fn begin(&self, state: &mut State, action: &'static str) -> Result<()> {
        loop {
            // A writer that keeps the lock for as long as its tail fills is asked to let go.
            match open::waiting_for(KNOCK_AFTER, || self.begin_as_it_stands(state, action)) {
                Err(Error::Busy { .. }) => {
                    self.knock(action)?;
                    self.begin_as_it_stands(state, action)?;
                }
                outcome => outcome?,
            }
            if !self.has_leftover(state, action)? {
                return Ok(());
            }
            self.take_in_leftover(state)?;
        }
    }

    pub(super) fn begin_as_it_stands(&self, state: &mut State, action: &'static str) -> Result<()> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(action))?;
        ffi::announce_write(connection, true);
        if let Err(source) =
            connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]))
        {
            ffi::announce_write(connection, false);
            return Err(self.fault(action)(source));
        }
        if ffi::has_moved(connection) {
            Self::roll_back(state);
            return Err(Error::Gone { path: self.path.clone() });
        }
        let version = ffi::data_version(connection);
        // Without a ledger nothing says that no other connection has committed.
        if state.ledger.as_ref().is_none_or(|ledger| ledger.version != version) {
            if let Some(ledger) = state.ledger.as_mut() {
                ledger.mark_stale();
                state.tail.note_company();
            }
            state.heads.mark_stale();
            state.known.clear();
        }
        Ok(())
    }

    pub(super) fn commit(&self, state: &mut State, action: &'static str) -> Result<()> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(action))?;
        let committed = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if let Err(source) = committed {
            let error = with_system_reason(state, translate(&self.path, action, &source));
            Self::roll_back(state);
            return Err(error);
        }
        let version = ffi::data_version(connection);
        if let Some(ledger) = state.ledger.as_mut() {
            ledger.version = version;
        }
        state.tail.note_commit(version);
        self.sync.note_commit();
        Ok(())
    }

    /// Undoes the open transaction; all that was cached of the file is read again.
    pub(super) fn roll_back(state: &mut State) {
        if let Some(connection) = state.connection.as_ref()
            && !connection.is_autocommit()
            && let Err(source) = connection.execute_batch("ROLLBACK")
        {
            // SQLite has undone the transaction by itself after some errors; then this one fails.
            debug_assert!(connection.is_autocommit(), "{source}");
        }
        state.ledger = None;
        state.heads = Heads::default();
        state.known.clear();
        state.level = None;
        state.tail.forget();
    }

    /// Runs a read: on the writer's connection when it is free, else on one that does not wait for it.
    pub(super) fn read<R>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R> {
        if let Some(source) = &self.source {
            return super::source::read(source, &self.path, action, work);
        }
        self.check_process(action)?;
        self.settle(action)?;
        if self.options.durability == Durability::Batch {
            let state = self.lock();
            return work(state.connection.as_ref().ok_or_else(|| self.closed(action))?);
        }
        match self.state.try_lock() {
            Ok(mut state) => {
                self.drain(&mut state, action)?;
                work(state.connection.as_ref().ok_or_else(|| self.closed(action))?)
            }
            Err(TryLockError::Poisoned(state)) => {
                work(state.into_inner().connection.as_ref().ok_or_else(|| self.closed(action))?)
            }
            Err(TryLockError::WouldBlock) => self.read_aside(action, work),
        }
    }

    /// Runs a read that may take long, on a connection that keeps no writer waiting.
    pub(super) fn read_long<R>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R> {
        if self.source.is_some() {
            return self.read(action, work);
        }
        self.check_process(action)?;
        self.settle(action)?;
        // Held so that a close waits, as it does for every other reader.
        let _reading = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sync.is_closed() {
            return Err(self.closed(action));
        }
        // A connection of its own: FTS5 checks an index by what the connection remembers of its
        // structure, and on a used one what another has written since passes for damage.
        work(&open::reader(&self.path)?)
    }

    fn read_aside<R>(&self, action: &'static str, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sync.is_closed() {
            return Err(self.closed(action));
        }
        if reader.is_none() {
            *reader = Some(open::reader(&self.path)?);
        }
        let connection = reader.as_ref().ok_or_else(|| self.closed(action))?;
        work(connection)
    }

    /// Syncs where the caller was promised it, and sees that the service thread will come by.
    pub(super) fn after_commit(&self, ticket: u64, action: &'static str) -> Result<()> {
        if self.options.durability == Durability::Power {
            return self.sync.sync_to(ticket, &self.path, action);
        }
        if !self.attended.swap(true, Ordering::AcqRel) {
            self.ask_for_visit()?;
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // The parent still uses what these stand for: closing them here would checkpoint and
            // delete the log under it.
            let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
            std::mem::forget(state);
            std::mem::forget(self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Adds the system's own reason, which SQLite keeps apart from its code.
fn with_system_reason(state: &State, error: Error) -> Error {
    match (error, state.connection.as_ref().and_then(ffi::system_errno)) {
        (Error::Io { path, action, reason, errno: None }, Some(errno)) => {
            let system = std::io::Error::from_raw_os_error(errno);
            Error::Io { path, action, reason: format!("{reason}: {system}"), errno: Some(errno) }
        }
        (error, _) => error,
    }
}

/// Whether a path names a file that exists.
pub(super) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
