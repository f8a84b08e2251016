//! When the log reaches the disk: one sync serves every commit before it.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// Which commits there are and which of them are on disk.
#[derive(Default)]
pub struct SyncGate {
    commits: AtomicU64,
    synced: AtomicU64,
    turn: Mutex<()>,
    closed: AtomicBool,
}

/// The name of the write-ahead log of `path`.
pub fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Has the system begin to write the log of `path` to disk, so that a sync soon after finds less to do.
///
/// It changes nothing that anybody may rely on, so what comes of it is not asked.
pub fn begin_sync(path: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(log) = File::open(wal_of(path)) {
        // SAFETY: the descriptor is open, and nothing but numbers is passed.
        unsafe { libc::sync_file_range(log.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
}

impl SyncGate {
    /// Counts a commit.
    pub fn note_commit(&self) {
        self.commits.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of the last commit.
    pub fn committed(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Whether a commit is not on disk yet.
    pub fn is_behind(&self) -> bool {
        self.synced.load(Ordering::Acquire) < self.committed()
    }

    /// Whether commit `ticket` is on disk.
    pub fn is_synced(&self, ticket: u64) -> bool {
        self.synced.load(Ordering::Acquire) >= ticket
    }

    /// Notes that everything up to `ticket` is on disk by another way, such as a checkpoint.
    pub fn note_synced(&self, ticket: u64) {
        self.synced.fetch_max(ticket, Ordering::AcqRel);
    }

    /// Notes that the handle is closed for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the handle is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns when commit `ticket` is on disk. Threads that wait here share one sync.
    ///
    /// SQLite takes no lock on the log file itself, so opening and closing it here drops none.
    pub fn sync_to(&self, ticket: u64, path: &Path, action: &'static str) -> Result<()> {
        if self.synced.load(Ordering::Acquire) >= ticket {
            return Ok(());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.synced.load(Ordering::Acquire) >= ticket {
            return Ok(());
        }
        let reached = self.committed();
        match File::open(wal_of(path)) {
            Ok(log) => log.sync_data().map_err(|source| Error::io(path, action, &source))?,
            // A checkpoint has emptied the log, and synced what it held before it did.
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::io(path, action, &source)),
        }
        self.note_synced(reached);
        Ok(())
    }
}
