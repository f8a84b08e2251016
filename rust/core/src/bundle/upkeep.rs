//! What happens between appends: flush, checkpoint, close, and the visits of the service thread.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::append::{self, BATCH};
use super::handle::{Durability, Inner, State};
use super::ledger::{self, Ledger};
use super::snapshot;
use super::sync::{begin_sync, wal_of};
use crate::db::open::{self, Checkpoint};
use crate::db::{fork, service};
use crate::error::{Error, Result};

/// How long a commit may wait for its sync.
const SYNC_AFTER: Duration = Duration::from_millis(800);
/// Bytes of log at which the service thread begins to write them back.
const CHECKPOINT_AT: u64 = 4 << 20;
/// Bytes of log at which writers wait until all of it is written back.
const RESET_AT: u64 = 16 << 20;

impl Inner {
    /// Puts everything that was acknowledged on disk, with the indexes and counters level.
    pub(super) fn flush(&self) -> Result<()> {
        const ACTION: &str = "flush";
        if self.source.is_some() {
            return Ok(());
        }
        self.check_process(ACTION)?;
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        self.level_derived(&mut state, ACTION, false)?;
        drop(state);
        self.sync.sync_to(self.sync.committed(), &self.path, ACTION)
    }

    /// Flushes, brings the peer's rows level and writes the log back into the file.
    pub(super) fn checkpoint(&self) -> Result<()> {
        const ACTION: &str = "checkpoint";
        if self.source.is_some() {
            return Ok(());
        }
        self.check_process(ACTION)?;
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        self.level_derived(&mut state, ACTION, true)?;
        self.write_back(&mut state, Checkpoint::Truncate, ACTION)?;
        drop(state);
        self.sync.sync_to(self.sync.committed(), &self.path, ACTION)
    }

    fn level_derived(&self, state: &mut State, action: &'static str, with_conversations: bool) -> Result<()> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(action))?;
        let lags = with_conversations
            && snapshot::lagging(connection)
                .map_err(self.fault(action))?
                .iter()
                .any(|(agent, newest)| !state.heads.is_settled(agent, *newest));
        if lags || Self::counter_lags(state).map_err(self.fault(action))? {
            self.write_locked(state, action, |txn| {
                let fault = txn.fault(action);
                if txn.ledger.is_none() {
                    *txn.ledger = Some(Ledger::load(txn.connection).map_err(&fault)?);
                }
                if with_conversations {
                    Self::refresh_conversations(txn)?;
                }
                append::write_counter(txn).map_err(&fault)
            })?;
        } else {
            debug_assert!(connection.is_autocommit());
        }
        self.index_text(state)
    }

    fn counter_lags(state: &State) -> rusqlite::Result<bool> {
        let Some(connection) = &state.connection else { return Ok(false) };
        // A killed writer may have left the counter behind, which shows without our having appended.
        let highest = match &state.ledger {
            Some(ledger) => ledger.max_id,
            None => ledger::newest_id(connection)?,
        };
        Ok(ledger::stored_counter(connection)? < highest)
    }

    fn write_back(&self, state: &mut State, how: Checkpoint, action: &'static str) -> Result<()> {
        let connection = state.connection.as_mut().ok_or_else(|| self.closed(action))?;
        // Readers that hold the log back are not waited for: what they need stays in it.
        connection.busy_handler(None::<fn(i32) -> bool>).map_err(self.fault(action))?;
        let outcome = open::checkpoint(connection, how);
        open::wait_for_writers(connection).map_err(self.fault(action))?;
        match outcome {
            Err(source) if source.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) => {
                Err(self.fault(action)(source))
            }
            _ => Ok(()),
        }
    }

    /// Closes the bundle. It is closed in any case; the first thing that failed on the way is returned.
    pub(super) fn close(&self) -> Result<()> {
        const ACTION: &str = "close";
        if let Some(source) = &self.source {
            source.lock().unwrap_or_else(PoisonError::into_inner).close();
            return Ok(());
        }
        if self.generation != fork::generation() || self.sync.is_closed() {
            return Ok(());
        }
        let mut state = self.lock();
        if state.connection.is_none() {
            return Ok(());
        }
        begin_sync(&self.path);
        let levelled = self
            .commit_batch(&mut state, ACTION)
            .and_then(|()| self.level_derived(&mut state, ACTION, true))
            .and_then(|()| self.retire_tail(&mut state));
        self.sync.close();
        let turn = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(reader);
        let State { connection, lock, lease, .. } = std::mem::take(&mut *state);
        // The last connection writes the log back and removes it.
        let closed = connection.map_or(Ok(()), |connection| {
            connection.close().map_err(|(_, source)| self.fault(ACTION)(source))
        });
        drop(turn);
        drop(lease);
        let synced = if wal_of(&self.path).exists() {
            self.sync.sync_to(self.sync.committed(), &self.path, ACTION)
        } else {
            Ok(())
        };
        drop(lock);
        drop(state);
        match levelled.and(closed).and(synced) {
            Err(Error::Gone { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Puts this bundle on the service thread's list.
    pub(super) fn ask_for_visit(&self) -> Result<()> {
        let delay = self.visited_after();
        service::visit(self.me.clone(), delay)
            .map_err(|source| Error::io(&self.path, "start a thread for", &source))
    }

    fn visited_after(&self) -> Duration {
        if self.is_grouped() { BATCH.1 } else { SYNC_AFTER }
    }

    /// Whether events wait for the transaction that stores them.
    fn is_grouped(&self) -> bool {
        matches!(self.options.durability, Durability::Batch | Durability::Tail)
    }

    /// Checkpoints beside the writer; only when the log has grown very long must the writer wait.
    fn shorten_log(&self) -> Result<()> {
        const ACTION: &str = "checkpoint";
        let length = std::fs::metadata(wal_of(&self.path)).map_or(0, |found| found.len());
        if length < CHECKPOINT_AT {
            return Ok(());
        }
        // `close` waits here, so that the connection which it closes is the last one.
        let turn = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sync.is_closed() {
            return Ok(());
        }
        let aside = open::checkpointer(&self.path)?;
        open::checkpoint(&aside, Checkpoint::Passive).map_err(self.fault(ACTION))?;
        drop(aside);
        drop(turn);
        if length >= RESET_AT {
            let mut state = self.lock();
            if state.connection.is_some() && state.batch.is_none() && !state.tail.has_group() {
                self.write_back(&mut state, Checkpoint::Passive, ACTION)?;
            }
        }
        Ok(())
    }

    fn has_open_group(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return true };
        state.batch.is_some() || state.tail.has_group()
    }

    fn commit_old_batch(&self) -> Result<()> {
        // Whoever has the mutex may wait for another handle's group, which this thread is to commit.
        let Ok(mut state) = self.state.try_lock() else { return Ok(()) };
        self.drain(&mut state, "append to")?;
        if state.batch.is_some_and(|(since, _)| since.elapsed() >= BATCH.1) {
            self.commit_batch(&mut state, "append to")?;
        }
        Ok(())
    }
}

impl service::Attended for Inner {
    fn attend(&self) -> Option<Duration> {
        if self.sync.is_closed() {
            return None;
        }
        let delay = self.visited_after();
        if self.is_grouped() && self.commit_old_batch().is_err() {
            return Some(delay);
        }
        // Nobody waits for this thread; what fails here fails again, and is reported, at the next
        // flush or close.
        let synced = self.sync.sync_to(self.sync.committed(), &self.path, "sync");
        let shortened = self.shorten_log();
        if let Ok(mut reader) = self.reader.try_lock() {
            drop(reader.take());
        }
        if synced.is_err() || shortened.is_err() {
            return Some(delay);
        }
        self.attended.store(false, Ordering::Release);
        let has_more = self.sync.is_behind() || self.is_grouped() && self.has_open_group();
        (has_more && !self.attended.swap(true, Ordering::AcqRel)).then_some(delay)
    }
}
