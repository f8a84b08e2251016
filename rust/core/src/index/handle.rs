//! The handle that callers hold on the sidecar of one session directory.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use super::entry::Entry;
use super::follow;
use super::list::{self, ListError, Page, Query, Row};
use super::name::MIRROR;
use super::read::{self, Found};
use super::reconcile::{self, Options, Progress, Report};
use super::sidecar::{self, Sidecar};
use super::usage;
use super::walk::Known;
use super::write::{self, DAMAGED, Ready};
use crate::clock::{Clock, SystemClock};
use crate::codec::Value;
use crate::db::fault::translate;
use crate::error::{Error, Result};
use crate::files::fingerprint::Fingerprint;

/// The sidecar's name in a session directory.
pub const SIDECAR: &str = ".kt-index.kvault";

/// An open index over the sessions of a directory. Every method may be called from any thread.
///
/// The index is derived: where it is damaged it is begun anew, and filled from the directory that it
/// was last reconciled with.
pub struct Index {
    sidecar: Sidecar,
    scan: Mutex<Scan>,
    /// How many scans have started.
    started: AtomicU64,
    /// How often the sidecar had been begun anew when it was last filled.
    filled: AtomicU64,
}

/// What is known of the scans that have ended.
#[derive(Default)]
struct Scan {
    directory: Option<PathBuf>,
    /// The number of the last scan that ended well, and what it reported.
    last: Option<(u64, Report)>,
    /// What the directory was listed as.
    known: Known,
}

/// Opening, closing, and being level with the disk.
impl Index {
    /// Opens the sidecar at `path`, which is made where it is missing. Where it cannot be written the
    /// index is kept in memory, and is empty until it is reconciled.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            sidecar: Sidecar::open(path)?,
            scan: Mutex::default(),
            started: AtomicU64::new(0),
            filled: AtomicU64::new(0),
        })
    }

    /// Where the sidecar is, or would be.
    pub fn path(&self) -> &Path {
        self.sidecar.path()
    }

    /// Whether the sidecar is by-passed in memory.
    pub fn is_in_memory(&self) -> Result<bool> {
        self.sidecar.is_in_memory()
    }

    /// Closes the index; a second call does nothing.
    pub fn close(&self) -> Result<()> {
        self.sidecar.close()
    }

    /// Whether a reconcile was ever finished.
    pub fn is_bootstrapped(&self) -> Result<bool> {
        self.query("read", |connection| {
            Ok(sidecar::meta_value(connection, "bootstrap_completed")?.is_some_and(|flag| flag.truthy()))
        })
    }

    /// Brings the index level with a directory, whatever others do meanwhile.
    pub fn reconcile(
        &self,
        directory: &Path,
        options: Options,
        progress: &mut Progress<'_>,
    ) -> Result<Report> {
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        self.scan(&mut scan, directory, options, progress)
    }

    /// The same for callers who come at once: one that waited while a scan of the directory began and
    /// ended is served by that.
    pub fn refresh(&self, directory: &Path, options: Options, progress: &mut Progress<'_>) -> Result<Report> {
        let arrived = self.started.load(Ordering::Acquire);
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, report)) = &scan.last
            && !options.full
            && *number > arrived
            && scan.directory.as_deref() == Some(directory)
        {
            return Ok(report.clone());
        }
        self.scan(&mut scan, directory, options, progress)
    }

    fn scan(
        &self,
        scan: &mut Scan,
        directory: &Path,
        options: Options,
        progress: &mut Progress<'_>,
    ) -> Result<Report> {
        let number = self.started.fetch_add(1, Ordering::AcqRel) + 1;
        let report = match reconcile::reconcile(&self.sidecar, directory, &mut scan.known, options, progress)
        {
            Err(Error::Damaged { path, .. }) if path == self.path() => {
                self.sidecar.restart()?;
                reconcile::reconcile(&self.sidecar, directory, &mut scan.known, options, progress)?
            }
            outcome => outcome?,
        };
        scan.directory = Some(directory.to_owned());
        self.filled.store(self.sidecar.restarts(), Ordering::Release);
        if !report.aborted {
            scan.last = Some((number, report.clone()));
        }
        Ok(report)
    }

    /// Reads one session's file and brings its entry level; the file must lie in the directory, or in
    /// `mirror` in it.
    pub fn push(&self, directory: &Path, file: &Path) -> Result<()> {
        let found = found_in(directory, file)?;
        reconcile::refresh(&self.sidecar, &found)
    }

    /// Brings the entries level of files that are said to have changed, by their paths below the
    /// directory. `false`, and nothing is done, where that takes a look at the whole directory.
    pub fn follow(&self, directory: &Path, changed: &[String]) -> Result<bool> {
        let scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        let is_filled = self.sidecar.restarts() == self.filled.load(Ordering::Acquire);
        if !is_filled || scan.directory.as_deref() != Some(directory) {
            return Ok(false);
        }
        follow::follow(&self.sidecar, directory, changed)
    }

    /// Fills an index that was begun anew; whether it was. One that another thread is filling is not
    /// waited for.
    fn refill(&self) -> Result<bool> {
        let restarts = self.sidecar.restarts();
        if restarts == self.filled.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Ok(mut scan) = self.scan.try_lock() else { return Ok(false) };
        if let Some(directory) = scan.directory.clone() {
            self.scan(&mut scan, &directory, Options::default(), &mut |_, _| ControlFlow::Continue(()))?;
        }
        self.filled.store(restarts, Ordering::Release);
        Ok(true)
    }

    /// Runs a query on an index that is level; where the sidecar is damaged it is begun anew first.
    fn query<R>(&self, action: &'static str, work: impl Fn(&Connection) -> rusqlite::Result<R>) -> Result<R> {
        self.ask(action, |connection| work(connection).map_err(ListError::Sql))
    }

    fn ask<R>(&self, action: &'static str, work: impl Fn(&Connection) -> Result<R, ListError>) -> Result<R> {
        let told = |error| match error {
            ListError::Sql(source) => translate(self.path(), action, &source),
            ListError::Asked(error) => error,
            ListError::Unsound => {
                Error::damaged(self.path(), "its text index", "its records hold nothing but zeros")
            }
        };
        let once = || {
            // What the peer wrote is taken over first; while it writes on, the answer is that of now.
            for _ in 0..3 {
                let asked = self.sidecar.read(action, |connection| {
                    if write::has_changes(connection).map_err(|source| told(source.into()))? {
                        return Ok(None);
                    }
                    work(connection).map(Some).map_err(told)
                })?;
                if self.refill()? {
                    continue;
                }
                match asked {
                    Some(answer) => return Ok(answer),
                    None => reconcile::take_over(&self.sidecar)?,
                }
            }
            self.sidecar.read(action, |connection| work(connection).map_err(told))
        };
        match once() {
            Err(Error::Damaged { path, .. }) if path == self.path() => {
                self.sidecar.restart()?;
                once()
            }
            outcome => outcome,
        }
    }
}

/// Asking and changing.
impl Index {
    /// One page of the listing, with the files that cannot be listed.
    ///
    /// A session whose entry cannot be decoded is among the latter, and the next reconcile reads it
    /// again.
    pub fn list(&self, query: &Query) -> Result<(Page, Vec<(String, String)>)> {
        let (page, mut unreadable) = self.ask("list", |connection| {
            let page = list::list(connection, query)?;
            Ok((page, reconcile::unreadable(connection)?))
        })?;
        if !page.lost.is_empty() {
            let reason = match reconcile::read_again(&self.sidecar, &page.lost) {
                Ok(()) => DAMAGED.to_owned(),
                Err(error) => format!("its entry is damaged, which could not be noted: {error}"),
            };
            unreadable.extend(page.lost.iter().map(|file| (file.clone(), reason.clone())));
        }
        Ok((page, unreadable))
    }

    /// The row of one session by the key of its entry, as a listing shows it; an error where the entry
    /// cannot be decoded, which the next reconcile mends.
    pub fn get(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let row = self.query("read", |connection| list::row(connection, file))?;
        Ok(self.shown([row])?.pop())
    }

    /// The row of the session of exactly that name, the first by file where several have it.
    pub fn named(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let found = self.query("read", |connection| {
            let file: Option<String> = connection
                .prepare_cached("SELECT file FROM amber_entry WHERE name = ?1 ORDER BY file LIMIT 1")?
                .query_row([name], |row| row.get(0))
                .optional()?;
            rows(connection, file.as_slice())
        })?;
        Ok(self.shown(found)?.pop())
    }

    /// The files that cannot be read, by path, with the reason.
    pub fn unreadable(&self) -> Result<Vec<(String, String)>> {
        self.query("read", reconcile::unreadable)
    }

    /// How many sessions there are.
    pub fn count(&self) -> Result<u64> {
        let sum: i64 = self.query("count", |connection| {
            connection.query_row("SELECT coalesce(sum(n), 0) FROM amber_count", [], |row| row.get(0))
        })?;
        Ok(u64::try_from(sum).unwrap_or(0))
    }

    /// The keys of all entries, in order.
    pub fn filenames(&self) -> Result<Vec<String>> {
        self.query("list", |connection| {
            connection
                .prepare_cached("SELECT file FROM amber_entry ORDER BY file")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// The rows of the sessions that were forked from one, the oldest first.
    pub fn children(&self, file: &str) -> Result<Vec<Vec<u8>>> {
        let found = self.query("list", |connection| {
            let files: Vec<String> = connection
                .prepare_cached(
                    "SELECT c.file FROM amber_entry p JOIN amber_entry c ON c.parent = p.session \
                     WHERE p.file = ?1 ORDER BY c.created, c.file",
                )?
                .query_map([file], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            rows(connection, &files)
        })?;
        self.shown(found)
    }

    /// The row of the session that one was forked from, where it is listed.
    pub fn parent(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let found = self.query("list", |connection| {
            let parent: Option<String> = connection
                .prepare_cached(
                    "SELECT p.file FROM amber_entry c JOIN amber_entry p ON p.session = c.parent \
                     WHERE c.file = ?1 ORDER BY p.created, p.file LIMIT 1",
                )?
                .query_row([file], |row| row.get(0))
                .optional()?;
            rows(connection, parent.as_slice())
        })?;
        Ok(self.shown(found)?.pop())
    }

    /// The rows that there are. One that cannot be decoded is an error, and read again by the next
    /// reconcile.
    fn shown(&self, rows: impl IntoIterator<Item = Row>) -> Result<Vec<Vec<u8>>> {
        let mut shown = Vec::new();
        for row in rows {
            match row {
                Row::Shown(row) => shown.push(row),
                Row::Missing => {}
                Row::Lost(file) => {
                    let lost = Error::damaged(self.path(), format!("entries[{file}]"), DAMAGED);
                    reconcile::read_again(&self.sidecar, &[file])?;
                    return Err(lost);
                }
            }
        }
        Ok(shown)
    }

    /// Counts over all sessions, under the peer's names.
    pub fn stats(&self) -> Result<Value> {
        self.query("count", |connection| usage::stats(connection, SystemClock.now()))
    }

    /// Writes an entry that a caller has made, in the place of what was known under its key.
    pub fn upsert(&self, file: &str, fields: &Value) -> Result<()> {
        if file.is_empty() {
            return Err(Error::invalid("filename: an entry needs the name of its file"));
        }
        let mut entry = Entry::of(file, fields);
        if entry.extra.path.is_empty() {
            file.clone_into(&mut entry.extra.path);
        }
        let ready = Ready::of(entry);
        self.sidecar.write("write", |connection| {
            write::put_one(connection, ready, None).map_err(|source| translate(self.path(), "write", &source))
        })
    }

    /// Removes an entry; whether there was one. The session's file is not touched.
    pub fn delete(&self, file: &str) -> Result<bool> {
        self.sidecar.write("write", |connection| {
            write::remove(connection, file).map_err(|source| translate(self.path(), "write", &source))
        })
    }

    /// Removes what is known of a file, given its path below the directory.
    pub fn forget(&self, path: &str) -> Result<()> {
        self.sidecar.write("write", |connection| {
            write::forget(connection, path).map_err(|source| translate(self.path(), "write", &source))
        })
    }

    /// A field of the peer's own table about the index.
    pub fn meta(&self, key: &str) -> Result<Option<Value>> {
        self.query("read", |connection| sidecar::meta_value(connection, key))
    }

    /// Writes a field of that table.
    pub fn put_meta(&self, key: &str, value: &Value) -> Result<()> {
        self.sidecar.write("write", |connection| {
            sidecar::put_meta(connection, key, value)
                .map_err(|source| translate(self.path(), "write", &source))
        })
    }
}

/// What a listing would say of one session's file, which no index has to know.
pub fn row_of_file(file: &Path) -> Result<Vec<u8>> {
    let home = file.parent().filter(|home| !home.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entry = read::entry(&found_in(home, &home.join(file.file_name().unwrap_or_default()))?, None)?;
    list::row_of_entry(&entry).ok_or_else(|| Error::damaged(file, "its entry", "it cannot be shown"))
}

fn rows(connection: &Connection, files: &[String]) -> rusqlite::Result<Vec<Row>> {
    files.iter().map(|file| list::row(connection, file)).collect()
}

/// A session's file below a directory, as the walk would have found it.
pub(super) fn found_in(directory: &Path, file: &Path) -> Result<Found> {
    let outside =
        || Error::invalid(format!("path: `{}` does not lie in `{}`", file.display(), directory.display()));
    let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let home = canonical(file.parent().ok_or_else(outside)?);
    let directory = canonical(directory);
    let (filename, path) = if home == directory {
        (name.to_owned(), name.to_owned())
    } else if home == directory.join(MIRROR) {
        let path = format!("{MIRROR}/{name}");
        let is_taken = directory.join(name).exists();
        (if is_taken { path.clone() } else { name.to_owned() }, path)
    } else {
        return Err(outside());
    };
    let print = Fingerprint::of(file)?;
    Ok(Found { filename, path, file: file.to_owned(), print, is_quiet: false, has_artifacts: true })
}
