//! Deleting a session: its file, its log, its artifacts, and last its lock file.
//!
//! Handles that have the session open find out at their next write, for each write transaction asks
//! whether its file is still there.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::db::{open, registry};
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;
use crate::files::lock::{WriterLock, lock_path};

const ACTION: &str = "delete";

/// What stands beside a file under its name and goes with it. The peer's `.drives.migrate-lock` stays,
/// since others may wait on it.
const COMPANIONS: [&str; 7] = ["-wal", "-shm", "-journal", ".tail", ".drives", ".drives-wal", ".drives-shm"];

/// Deletes the files of one session, given all that belong to it (its versions), and returns what was
/// removed. All of them are held before the first is removed.
///
/// [`Error::Locked`] when somebody holds the writer lock of one, [`Error::Busy`] when somebody is in
/// the middle of a write for long: then nothing was removed. [`Error::NotFound`] when one is missing.
/// A link is removed, what it leads to stays.
pub fn delete(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    for file in files {
        if file.symlink_metadata().is_err() {
            return Err(Error::NotFound { path: file.clone() });
        }
    }
    // Holding a session makes files of its own, which are no part of what was asked for.
    let before: Vec<PathBuf> = files
        .iter()
        .flat_map(|file| belongings(file))
        .filter(|path| path.symlink_metadata().is_ok())
        .collect();
    // The lock that every writer shares: while we hold it nobody can take the session for itself.
    let locks: Vec<WriterLock> = files.iter().map(|file| WriterLock::shared(file)).collect::<Result<_>>()?;
    let mut held = Vec::with_capacity(files.len());
    for file in files {
        held.push(hold(file)?);
    }
    let mut removed = Vec::new();
    let outcome = files.iter().try_for_each(|file| remove(file, files, &mut removed));
    drop(held);
    drop(locks);
    outcome?;
    for file in files {
        remove_lock(file, &mut removed)?;
    }
    removed.retain(|path| before.contains(path));
    Ok(removed)
}

/// Every path that goes with a session's file.
fn belongings(file: &Path) -> Vec<PathBuf> {
    let mut paths = vec![file.to_owned(), artifacts_dir(file), lock_path(file)];
    paths.extend(COMPANIONS.iter().map(|suffix| beside(file, suffix)));
    paths.extend(intents(file));
    paths
}

/// The peer's notes on a move that was not finished: `<name>.drives.split-intent.json…`.
fn intents(file: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return Vec::new() };
    let start = [name.as_bytes(), b".drives.split-intent.json"].concat();
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_intent = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(&start));
    entries.flatten().map(|entry| entry.path()).filter(is_intent).collect()
}

/// A session that nobody can write to while this lives.
struct Held {
    _connection: rusqlite::Connection,
    _lease: registry::Lease,
}

/// Takes SQLite's write lock, so that no transaction is cut in two. What SQLite cannot open nobody
/// writes to either.
fn hold(file: &Path) -> Result<Option<Held>> {
    if file.is_symlink() || !file.is_file() {
        return Ok(None);
    }
    let lease = registry::open_store(file);
    let begun = open::untouched(file).and_then(|connection| {
        // What is deleted need not be written back first.
        let begin =
            open::keep_log(&connection, true).and_then(|()| connection.execute_batch("BEGIN IMMEDIATE"));
        begin.map_err(|source| crate::db::fault::translate(file, ACTION, &source))?;
        Ok(connection)
    });
    match begun {
        Ok(connection) => Ok(Some(Held { _connection: connection, _lease: lease })),
        Err(error @ Error::Busy { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

fn remove(file: &Path, all: &[PathBuf], removed: &mut Vec<PathBuf>) -> Result<()> {
    unlink(file, removed)?;
    for suffix in COMPANIONS {
        unlink(&beside(file, suffix), removed)?;
    }
    for path in intents(file) {
        unlink(&path, removed)?;
    }
    let artifacts = artifacts_dir(file);
    // Sessions of another form of the name may share the directory.
    if !shares_artifacts(file, &artifacts, all) {
        remove_tree(&artifacts, removed)?;
    }
    Ok(())
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

fn shares_artifacts(file: &Path, artifacts: &Path, all: &[PathBuf]) -> bool {
    let Some(stem) = artifacts.file_stem() else { return false };
    ["kohakutr", "kt"].iter().any(|extension| {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(extension);
        let other = file.with_file_name(name);
        other != file
            && !all.contains(&other)
            && other.symlink_metadata().is_ok()
            && artifacts_dir(&other) == artifacts
    })
}

fn unlink(path: &Path, removed: &mut Vec<PathBuf>) -> Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => removed.push(path.to_owned()),
        Err(source) if source.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(Error::io(path, ACTION, &source)),
    }
    Ok(())
}

/// Removes a directory with all that is in it; of a link only the link.
fn remove_tree(path: &Path, removed: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.is_dir() {
        return unlink(path, removed);
    }
    std::fs::remove_dir_all(path).map_err(|source| Error::io(path, ACTION, &source))?;
    removed.push(path.to_owned());
    Ok(())
}

/// Removes the lock file, unless somebody holds it: a lock on an unlinked file keeps nobody out.
fn remove_lock(file: &Path, removed: &mut Vec<PathBuf>) -> Result<()> {
    let path = lock_path(file);
    // Another session may have got the name meanwhile.
    if file.symlink_metadata().is_ok() || !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    let lock = std::fs::File::open(&path).map_err(|source| Error::io(&path, ACTION, &source))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => unlink(&path, removed),
        // Whoever holds it has the session open, and finds that it is gone; the file is left to it.
        Err(_) => Ok(()),
    }
}
