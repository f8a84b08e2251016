//! Bringing the sidecar level with the bundles on disk: one walk, then only what changed is read, by
//! several threads, and written by one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use super::fill::{self, Job};
use super::name::stem;
use super::print;
use super::read::Found;
use super::sidecar::{self, Sidecar};
use super::threads::Threads;
use super::walk::{Known, Sight, Walk, walk};
use super::write;
use crate::clock::{Clock, SystemClock};
use crate::codec::Value;
use crate::db::fault::translate;
use crate::error::{Error, Result};

/// How to reconcile.
#[derive(Debug, Default, Clone, Copy)]
pub struct Options {
    /// Whether to read the files too that did not change.
    pub full: bool,
    /// How many threads read; `None` for one a processor, up to eight.
    pub workers: Option<usize>,
}

/// What a reconcile found and did.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Files that it read, or tried to.
    pub read: usize,
    /// Sessions that left the index, since their files are gone.
    pub deleted: usize,
    /// Sessions on disk, the unreadable ones included.
    pub total: usize,
    /// Sessions whose files are as they were.
    pub unchanged: usize,
    /// Files that cannot be read, by path, with the reason.
    pub unreadable: Vec<(String, String)>,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it stopped before the end: cancelled, or the directory could not be listed.
    pub aborted: bool,
}

/// What progress is told to: files done and files to do; it may stop the work.
pub type Progress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// What is to be done, told by comparing the walk with what is known.
#[derive(Default)]
struct Work {
    jobs: Vec<Job>,
    gone: Vec<String>,
    odd: Vec<(String, String)>,
    unchanged: usize,
}

/// Brings the sidecar level with a directory, of which `known` was listed before.
pub fn reconcile(
    sidecar: &Sidecar,
    directory: &Path,
    known: &mut Known,
    options: Options,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let started = Instant::now();
    if !directory.exists() {
        return Ok(Report::default());
    }
    let began_ns = now_ns();
    let threads = Threads::new(options.workers);
    let Ok(walk) = walk(directory, &threads, known) else {
        let total = sidecar.read(ACTION, |connection| count(connection).map_err(fault(sidecar)))?;
        return Ok(Report { total, aborted: true, elapsed: started.elapsed(), ..Report::default() });
    };
    let look = (began_ns, now_ns());
    take_over(sidecar)?;
    let total = walk.found.len();
    let work = sidecar.read(ACTION, |connection| {
        compare(connection, directory, walk, options.full).map_err(fault(sidecar))
    })?;
    let mut report = Report { read: work.jobs.len(), unchanged: work.unchanged, total, ..Report::default() };
    report.deleted = settle(sidecar, &work)?;
    report.aborted = progress(0, work.jobs.len()).is_break();
    if !report.aborted && !work.jobs.is_empty() {
        let finished = fill::fill(sidecar, Some(directory), &work.jobs, &threads, look, progress)?;
        report.aborted = finished.is_break();
    }
    let is_changed = !work.jobs.is_empty() || report.deleted > 0;
    finish(sidecar, &mut report, is_changed)?;
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Reads one session and writes its entry, whatever the sidecar knows of it.
pub fn refresh(sidecar: &Sidecar, found: &Found) -> Result<()> {
    let look = (now_ns(), now_ns());
    let seen =
        sidecar.read(ACTION, |connection| fill::print_of(connection, &found.path).map_err(fault(sidecar)))?;
    let jobs = [Job { found: found.clone(), seen }];
    let threads = Threads::new(Some(1));
    fill::fill(sidecar, None, &jobs, &threads, look, &mut |_, _| ControlFlow::Continue(())).map(drop)
}

pub(super) const ACTION: &str = "reconcile";

pub(super) fn fault(sidecar: &Sidecar) -> impl Fn(rusqlite::Error) -> Error + '_ {
    |source| translate(sidecar.path(), ACTION, &source)
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Takes over what the peer changed in its tables.
pub fn take_over(sidecar: &Sidecar) -> Result<()> {
    if sidecar.read(ACTION, |connection| write::has_changes(connection).map_err(fault(sidecar)))? {
        sidecar.write(ACTION, |connection| write::take_over(connection).map_err(fault(sidecar)))?;
    }
    Ok(())
}

/// Has the next reconcile look at entries, which drops those that nobody can decode and reads their
/// files.
pub fn read_again(sidecar: &Sidecar, files: &[String]) -> Result<()> {
    sidecar.write("list", |connection| {
        files.iter().try_for_each(|file| write::note_change(connection, file)).map_err(fault(sidecar))
    })
}

fn count(connection: &Connection) -> rusqlite::Result<usize> {
    let count: i64 = connection.query_row("SELECT count(*) FROM amber_file", [], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Goes through what is on disk and what is known, both in order of their paths.
fn compare(connection: &Connection, directory: &Path, walk: Walk, full: bool) -> rusqlite::Result<Work> {
    let mut work = Work::default();
    let moved = moved_keys(connection)?;
    let mut odd: HashMap<String, String> = walk.odd.into_iter().collect();
    let mut unclaimed = Vec::new();
    let job = |sight: &Sight, seen: Option<Vec<u8>>| Job { found: sight.found(directory), seen };
    let mut found = walk.found.iter().peekable();
    let mut statement =
        connection.prepare_cached("SELECT path, print, reason FROM amber_file ORDER BY path")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_str()?;
        let print = row.get_ref(1)?.as_blob()?;
        while let Some(new) = found.next_if(|found| found.path.as_str() < path) {
            work.jobs.push(job(new, None));
        }
        if let Some(found) = found.next_if(|found| found.path == path) {
            let is_same = !full
                && print::unpack(print).is_some_and(|known| known.same_content(&found.print))
                && moved.get(path).is_none_or(|key| key == found.filename());
            if is_same {
                work.unchanged += 1;
            } else {
                work.jobs.push(job(found, Some(print.to_vec())));
            }
            continue;
        }
        match odd.remove(path) {
            Some(reason) if row.get::<_, Option<String>>(2)?.as_ref() == Some(&reason) => {}
            Some(reason) => work.odd.push((path.to_owned(), reason)),
            None => unclaimed.push(path.to_owned()),
        }
    }
    work.jobs.extend(found.map(|new| job(new, None)));
    work.odd.extend(odd);
    if !unclaimed.is_empty() {
        let sessions: HashSet<&str> = walk.found.iter().map(|found| stem(&found.path)).collect();
        // The peer does not say where a file lies: its entries are taken for the directory's own.
        let mirrored: HashSet<&str> =
            walk.found.iter().map(Sight::filename).filter(|key| !sessions.contains(stem(key))).collect();
        let is_found = |path: &String| mirrored.contains(path.as_str());
        work.gone = unclaimed
            .into_iter()
            .filter(|path| !is_found(path) && is_gone(directory, path, &sessions))
            .collect();
    }
    Ok(work)
}

/// A file that appeared after the walk is not gone, unless it is an older version of a session that
/// the walk has seen.
fn is_gone(directory: &Path, path: &str, sessions: &HashSet<&str>) -> bool {
    sessions.contains(stem(path)) || directory.join(path).symlink_metadata().is_err()
}

/// The keys of entries whose files lie in the mirror: they depend on what lies beside it.
fn moved_keys(connection: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    connection
        .prepare_cached(
            "SELECT f.path, e.file FROM amber_file f JOIN amber_entry e ON e.id = f.entry \
             WHERE f.path >= 'mirror/' AND f.path < 'mirror0'",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Writes what needs no reading: what is gone, and what is no session.
fn settle(sidecar: &Sidecar, work: &Work) -> Result<usize> {
    if work.gone.is_empty() && work.odd.is_empty() {
        return Ok(0);
    }
    sidecar.write(ACTION, |connection| {
        for path in &work.gone {
            write::forget(connection, path).map_err(fault(sidecar))?;
        }
        for (path, reason) in &work.odd {
            write::put_unreadable(connection, path, None, reason).map_err(fault(sidecar))?;
        }
        Ok(work.gone.len())
    })
}

fn finish(sidecar: &Sidecar, report: &mut Report, is_changed: bool) -> Result<()> {
    let is_complete = !report.aborted;
    let (unreadable, is_first) = sidecar.read(ACTION, |connection| {
        let known = sidecar::meta_value(connection, "bootstrap_completed").map_err(fault(sidecar))?;
        Ok((unreadable(connection).map_err(fault(sidecar))?, known.is_none()))
    })?;
    report.unreadable = unreadable;
    if is_complete && (is_changed || is_first) {
        sidecar.write(ACTION, |connection| {
            let put = |key, value| sidecar::put_meta(connection, key, &value).map_err(fault(sidecar));
            put("bootstrap_completed", Value::from("1"))?;
            put("last_reconcile_at", Value::Float(SystemClock.now()))
        })?;
    }
    Ok(())
}

/// The files that cannot be read, by path, with the reason.
pub fn unreadable(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    connection
        .prepare_cached("SELECT path, reason FROM amber_file WHERE reason IS NOT NULL ORDER BY path")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
