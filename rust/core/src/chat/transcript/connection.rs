//! The connection of a store: opened once in each process, locked for each call.

use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use rusqlite::Connection;

use super::kept::Kept;
use super::{IN_MEMORY, Transcripts};
use crate::chat::store::Options;
use crate::db::fault::translate;
use crate::db::registry::{self, Lease};
use crate::db::transcript::{self, Patience};
use crate::db::{fork, open, sidecar};
use crate::{Error, Result};

/// An open database, and what is kept of it.
pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) patience: Patience,
    pub(super) kept: Kept,
    /// On record while the file is open: nobody reads its bytes past SQLite meanwhile.
    _lease: Option<Lease>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Open {
    pub(super) fn at(path: &Path, options: Options) -> Result<Self> {
        let patience = Patience::default();
        patience.set(open::BUSY_TIMEOUT);
        let fault = |source: rusqlite::Error| translate(path, "open", &source);
        if path == Path::new(IN_MEMORY) {
            let connection = sidecar::in_memory()?;
            transcript::create_tables(&connection).map_err(fault)?;
            return Ok(Self { connection, patience, kept: Kept::new(options.kept), _lease: None });
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, "create", &error))?;
        }
        let lease = registry::open_store(path);
        let connection = open::patiently(|| transcript::writable(path, options.sync, &patience))?;
        let lease = if lease.is_known() { lease } else { registry::open_store(path) };
        Ok(Self { connection, patience, kept: Kept::new(options.kept), _lease: Some(lease) })
    }
}

impl Transcripts {
    /// What this process works with: in a forked child neither the parent's connections nor its
    /// locks, for those are the parent's.
    pub(super) fn own(&self) -> Result<&Self> {
        let mut home = self;
        while home.generation != fork::generation() {
            if home.path == Path::new(IN_MEMORY) {
                return Err(Error::Closed {
                    path: home.path.clone(),
                    action: "use the store",
                    reason: "it was made in memory by the process that this one was forked from",
                });
            }
            home = if let Some(child) = home.of_child.get() {
                child
            } else {
                let open = Open::at(&home.path, home.options)?;
                let left_out = home.left_out.clone();
                let child = Box::new(Self::around(&home.path, home.options, open, left_out));
                home.of_child.get_or_init(|| child)
            };
        }
        Ok(home)
    }

    /// Waits for the other threads of this process.
    pub(super) fn lock(&self, action: &'static str) -> Result<MutexGuard<'_, Open>> {
        let open = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that panicked within a transaction has left it open.
        if !open.connection.is_autocommit() {
            open.connection.execute_batch("ROLLBACK").map_err(|source| self.fault(action, &source))?;
        }
        Ok(open)
    }

    /// Forgets what is kept once somebody else has written.
    pub(super) fn follow(&self, open: &mut Open) -> Result<()> {
        let version = transcript::version_of_others(&open.connection);
        open.kept.follow(version.map_err(|source| self.fault("read", &source))?);
        Ok(())
    }

    pub(super) fn begin(&self, open: &Open) -> Result<()> {
        open.connection.execute_batch("BEGIN IMMEDIATE").map_err(|source| self.fault("write", &source))
    }

    /// Ends a transaction; one that cannot be committed is taken back.
    pub(super) fn end(&self, open: &Open, commit: bool) -> Result<()> {
        let fault = |source: rusqlite::Error| self.fault("write", &source);
        if !commit {
            return open.connection.execute_batch("ROLLBACK").map_err(fault);
        }
        let committed = open.connection.execute_batch("COMMIT").map_err(fault);
        if committed.is_err() && !open.connection.is_autocommit() {
            open.connection.execute_batch("ROLLBACK").map_err(fault)?;
        }
        committed
    }

    /// Runs reads that see one state, while others write.
    pub(super) fn reading<R>(&self, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let home = self.own()?;
        if home.path == Path::new(IN_MEMORY) {
            return work(&home.lock("read")?.connection);
        }
        let mut reader = home.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.as_ref().is_some_and(crate::db::ffi::has_moved) {
            *reader = None;
        }
        let connection = match reader.take() {
            Some(connection) => connection,
            None => open::reader(&home.path)?,
        };
        let fault = |source: rusqlite::Error| home.fault("read", &source);
        connection.execute_batch("BEGIN").map_err(fault)?;
        let done = work(&connection);
        // A connection that cannot end its transaction is not used again.
        connection.execute_batch("ROLLBACK").map_err(fault)?;
        *reader = Some(connection);
        done
    }
}

impl Drop for Transcripts {
    fn drop(&mut self) {
        // In a forked child the connections are the parent's: closing them would write back and
        // delete the log under it.
        if self.generation != fork::generation()
            && let Ok(open) = Open::at(Path::new(IN_MEMORY), self.options)
        {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::replace(state, open));
            std::mem::forget(self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
