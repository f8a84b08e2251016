//! Where a read-only bundle reads from, so that reading leaves nothing behind.
//!
//! A file at rest is opened immutable. A file that another connection has open is read through
//! SQLite, for the length of one read. A write-ahead log that a killed process left is read from a
//! private copy: SQLite would have to write beside the file to understand it in place.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use tempfile::TempDir;

use super::backup::copy_database;
use super::create;
use super::handle::Options;
use super::sync::wal_of;
use super::tail::{self, tail_path};
use crate::clock::SystemClock;
use crate::db::open;
use crate::db::registry::{self, Lease};
use crate::error::{Error, Result};
use crate::files::fingerprint::Fingerprint;

const ACTION: &str = "read";
/// How often a file may change while it is being opened.
const ATTEMPTS: usize = 20;

/// An open source.
pub struct Source {
    path: PathBuf,
    open: Option<Open>,
    is_closed: bool,
}

struct Open {
    connection: Connection,
    fingerprint: Fingerprint,
    /// Read through SQLite's locks: only until the read is over.
    is_live: bool,
    _copy: Option<TempDir>,
    _lease: Option<Lease>,
}

impl Source {
    /// Opens `path`; a missing file is an error.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), open: None, is_closed: false })
    }

    /// Closes it for good.
    pub fn close(&mut self) {
        self.open = None;
        self.is_closed = true;
    }

    fn level(&mut self) -> Result<&Connection> {
        if !self.path.exists() {
            self.open = None;
            return Err(Error::Gone { path: self.path.clone() });
        }
        // A handle of this process shows what it acknowledged, to those beside it as well.
        tail::store_all(&self.path)?;
        let now = Fingerprint::of(&self.path)?;
        if self.open.as_ref().is_none_or(|open| !open.fingerprint.same_content(&now)) {
            self.open = None;
            self.open = Some(reopen(&self.path)?);
        }
        match &self.open {
            Some(open) => Ok(&open.connection),
            None => Err(Error::Gone { path: self.path.clone() }),
        }
    }
}

/// Runs a read on a source that is level with its file.
pub fn read<R>(
    source: &Mutex<Source>,
    path: &Path,
    action: &'static str,
    work: impl FnOnce(&Connection) -> Result<R>,
) -> Result<R> {
    let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
    if source.is_closed {
        return Err(Error::Closed { path: path.to_owned(), action, reason: "the session is closed" });
    }
    let outcome = work(source.level()?);
    if source.open.as_ref().is_some_and(|open| open.is_live) {
        source.open = None;
    }
    outcome
}

fn reopen(path: &Path) -> Result<Open> {
    for _ in 0..ATTEMPTS {
        let fingerprint = Fingerprint::of(path)?;
        let opened = match way_of(path, &fingerprint) {
            Way::Live => Open { is_live: true, ..Open::of(open::reader(path)?, fingerprint, path) },
            Way::Left => match with_tail(path)? {
                Some((connection, directory)) => {
                    Open { connection, fingerprint, is_live: false, _copy: Some(directory), _lease: None }
                }
                None => Open { is_live: true, ..Open::of(open::reader(path)?, fingerprint, path) },
            },
            Way::AtRest => Open::of(open::immutable(path)?, fingerprint, path),
            Way::Copied(reading) => {
                let (connection, directory) = copy(path)?;
                drop(reading);
                Open { connection, fingerprint, is_live: false, _copy: Some(directory), _lease: None }
            }
        };
        if opened.is_live || Fingerprint::of(path)?.same_content(&fingerprint) {
            return Ok(opened);
        }
    }
    Err(Error::Busy { path: path.to_owned() })
}

impl Open {
    fn of(connection: Connection, fingerprint: Fingerprint, path: &Path) -> Self {
        let lease = registry::open_store(path);
        Self { connection, fingerprint, is_live: false, _copy: None, _lease: Some(lease) }
    }
}

enum Way {
    /// Through SQLite's locks, beside a writer.
    Live,
    /// The same, but that nobody who lives is about to store what may be in its tail.
    Left,
    /// In place, since nobody writes.
    AtRest,
    /// A copy, made while no store of this process may open the file.
    Copied(Lease),
}

/// While a store of this process has the file open, not even its companions may be opened here:
/// closing them again would drop that store's locks.
fn way_of(path: &Path, fingerprint: &Fingerprint) -> Way {
    let Some(reading) = registry::open_reader(path) else { return Way::Live };
    let is_hot = fingerprint.wal.is_some() || fingerprint.has_tail || journal_of(path).exists();
    match is_hot {
        true if is_in_use(path) => {
            let is_held = !fingerprint.has_tail || holder_of(path, WRITE_LOCK).is_some();
            if is_held { Way::Live } else { Way::Left }
        }
        true => Way::Copied(reading),
        false => Way::AtRest,
    }
}

fn journal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    PathBuf::from(name)
}

fn shm_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-shm");
    PathBuf::from(name)
}

/// A living process that has the file open, this one included.
pub fn user_of(path: &Path) -> Option<u32> {
    // While a store of this process has the file open, nothing beside it may be opened either.
    let Some(_reading) = registry::open_reader(path) else { return Some(std::process::id()) };
    other_user_of(path)
}

fn is_in_use(path: &Path) -> bool {
    other_user_of(path).is_some()
}

/// The byte of the shared-memory file that a writer locks.
const WRITE_LOCK: i64 = 120;
/// The byte on which each process has a lock that has the file open in write-ahead mode.
const DEAD_MAN_SWITCH: i64 = 128;

fn other_user_of(path: &Path) -> Option<u32> {
    holder_of(path, DEAD_MAN_SWITCH)
}

/// Another process that has a lock on a byte of the shared-memory file.
#[cfg(unix)]
fn holder_of(path: &Path, byte: i64) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let shared = std::fs::File::open(shm_of(path)).ok()?;
    // SAFETY: all-zero bytes are a valid `flock`, which is plain data, and `SEEK_SET` is zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = i16::try_from(libc::F_WRLCK).unwrap_or(1);
    lock.l_start = byte;
    lock.l_len = 1;
    // SAFETY: the descriptor is open and the struct outlives the call, which only fills it in.
    let asked = unsafe { libc::fcntl(shared.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    // With nobody in the way the kernel answers "unlocked" and leaves no process id.
    u32::try_from(lock.l_pid).ok().filter(|pid| asked == 0 && *pid != 0)
}

#[cfg(not(unix))]
fn holder_of(path: &Path, _byte: i64) -> Option<u32> {
    shm_of(path).exists().then_some(0)
}

/// Opens a private copy.
fn copy(path: &Path) -> Result<(Connection, TempDir)> {
    let directory = private()?;
    let target = directory.path().join("copy.kohakutr");
    // The tail first: what is stored of it afterwards is known by the mark that comes with the file.
    for (from, to) in [
        (tail_path(path), tail_path(&target)),
        (path.to_owned(), target.clone()),
        (wal_of(path), wal_of(&target)),
        (journal_of(path), journal_of(&target)),
    ] {
        match std::fs::copy(&from, &to) {
            Ok(_) => make_writable(&to)?,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound && from != path => {}
            Err(source) => return Err(Error::io(&from, ACTION, &source)),
        }
    }
    take_in_tail(&target)?;
    Ok((open::writable(&target)?, directory))
}

/// Opens a copy of a file that others have open, with what its tail holds; `None` when that is nothing.
fn with_tail(path: &Path) -> Result<Option<(Connection, TempDir)>> {
    let directory = private()?;
    let target = directory.path().join("copy.kohakutr");
    match std::fs::copy(tail_path(path), tail_path(&target)) {
        Ok(_) => make_writable(&tail_path(&target))?,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io(&tail_path(path), ACTION, &source)),
    }
    let _lease = registry::open_store(path);
    let live = open::reader(path)?;
    if !tail::is_left(&live, &target)? {
        return Ok(None);
    }
    copy_database(&live, &target)?;
    take_in_tail(&target)?;
    Ok(Some((open::writable(&target)?, directory)))
}

/// Has a private copy hold what its tail does.
fn take_in_tail(copy: &Path) -> Result<()> {
    if tail::has_file(copy) {
        drop(create::writable(copy, Options::default(), Box::new(SystemClock))?);
    }
    Ok(())
}

fn private() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("amberlog-")
        .tempdir()
        .map_err(|source| Error::io(&std::env::temp_dir(), "make a private copy in", &source))
}

/// A copy of a file that may not be written is itself one that may not.
fn make_writable(path: &Path) -> Result<()> {
    let fault = |source: std::io::Error| Error::io(path, "make a private copy in", &source);
    let mut permissions = std::fs::metadata(path).map_err(fault)?.permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    #[cfg(not(unix))]
    permissions.set_readonly(false);
    std::fs::set_permissions(path, permissions).map_err(fault)
}
