//! Bringing the sidecar level with the bundles on disk: one walk, then only what changed is read, by
//! several threads, and written by one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension};

use super::name::stem;
use super::read::{self, Found};
use super::sidecar::{self, Sidecar};
use super::threads::Threads;
use super::usage::directory_size;
use super::walk::{Walk, walk};
use super::write::{self, Ready, Texts};
use crate::clock::{Clock, SystemClock};
use crate::codec::Value;
use crate::db::fault::translate;
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;

/// The most entries of one transaction, so that other writers get their turn.
const BATCH: usize = 2048;
/// How many entries may wait to be written.
const QUEUE: usize = 2048;
/// So few files are read sooner than threads are woken.
const FEW: usize = 4;

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

/// From when to when files were looked at, in nanoseconds since 1970.
type Look = (i64, i64);

/// A file to read, with its fingerprint as the sidecar had it.
struct Job {
    found: Found,
    seen: Option<Vec<u8>>,
}

/// What is to be done, told by comparing the walk with what is known.
#[derive(Default)]
struct Work {
    jobs: Vec<Job>,
    gone: Vec<String>,
    odd: Vec<(String, String)>,
    unchanged: usize,
}

/// Brings the sidecar level with a directory.
pub fn reconcile(
    sidecar: &Sidecar,
    directory: &Path,
    options: Options,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let started = Instant::now();
    if !directory.exists() {
        return Ok(Report::default());
    }
    let began_ns = now_ns();
    let threads = Threads::new(options.workers);
    let Ok(walk) = walk(directory, &threads) else {
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
        let finished = read_all(sidecar, &work.jobs, &threads, look, progress)?;
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
        sidecar.read(ACTION, |connection| print_of(connection, &found.path).map_err(fault(sidecar)))?;
    let job = Job { found: found.clone(), seen };
    let read = read_one(&job);
    write_batch(sidecar, &[(&job, read)], look)
}

const ACTION: &str = "reconcile";

fn fault(sidecar: &Sidecar) -> impl Fn(rusqlite::Error) -> Error + '_ {
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
    let mut found = walk.found.iter().peekable();
    let mut statement =
        connection.prepare_cached("SELECT path, print, reason FROM amber_file ORDER BY path")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_str()?;
        let print = row.get_ref(1)?.as_blob()?;
        while let Some(new) = found.next_if(|found| found.path.as_str() < path) {
            work.jobs.push(Job { found: new.clone(), seen: None });
        }
        if let Some(found) = found.next_if(|found| found.path == path) {
            let is_same = !full
                && write::unpack_print(print).is_some_and(|known| known.same_content(&found.print))
                && moved.get(path).is_none_or(|key| *key == found.filename);
            if is_same {
                work.unchanged += 1;
            } else {
                work.jobs.push(Job { found: found.clone(), seen: Some(print.to_vec()) });
            }
            continue;
        }
        match odd.remove(path) {
            Some(reason) if row.get::<_, Option<String>>(2)?.as_ref() == Some(&reason) => {}
            Some(reason) => work.odd.push((path.to_owned(), reason)),
            None => unclaimed.push(path.to_owned()),
        }
    }
    work.jobs.extend(found.map(|found| Job { found: found.clone(), seen: None }));
    work.odd.extend(odd);
    if !unclaimed.is_empty() {
        let sessions: HashSet<&str> = walk.found.iter().map(|found| stem(&found.path)).collect();
        // The peer does not say where a file lies: its entries are taken for the directory's own.
        let mirrored: HashSet<&str> = walk
            .found
            .iter()
            .map(|found| found.filename.as_str())
            .filter(|key| !sessions.contains(stem(key)))
            .collect();
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

type Outcome<'a> = (&'a Job, Result<Ready>);

fn read_one(job: &Job) -> Result<Ready> {
    let mut entry = read::entry(&job.found)?;
    let size = directory_size(&artifacts_dir(&job.found.file));
    entry.extra.artifact_size = i64::try_from(size).unwrap_or(i64::MAX);
    Ok(Ready::of(entry))
}

fn read_all(
    sidecar: &Sidecar,
    jobs: &[Job],
    threads: &Threads,
    look: Look,
    progress: &mut Progress<'_>,
) -> Result<ControlFlow<()>> {
    let pool = if jobs.len() > FEW { threads.pool() } else { None };
    let Some(pool) = pool else {
        for (done, batch) in jobs.chunks(BATCH).enumerate() {
            let outcomes: Vec<Outcome<'_>> = batch.iter().map(|job| (job, read_one(job))).collect();
            write_batch(sidecar, &outcomes, look)?;
            if progress((done * BATCH + batch.len()).min(jobs.len()), jobs.len()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        return Ok(ControlFlow::Continue(()));
    };
    let stop = AtomicBool::new(false);
    let (sender, receiver) = sync_channel::<Outcome<'_>>(QUEUE);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            pool.install(|| {
                jobs.par_iter().for_each_with(sender, |sender, job| {
                    // The receiver is gone once the writer has failed; then nobody wants the rest.
                    if !stop.load(Ordering::Relaxed) && sender.send((job, read_one(job))).is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            });
        });
        let written = write_all(sidecar, receiver, jobs.len(), look, progress);
        stop.store(true, Ordering::Relaxed);
        written
    })
}

#[expect(clippy::needless_pass_by_value, reason = "dropping the receiver tells the readers to stop")]
fn write_all(
    sidecar: &Sidecar,
    receiver: Receiver<Outcome<'_>>,
    total: usize,
    look: Look,
    progress: &mut Progress<'_>,
) -> Result<ControlFlow<()>> {
    let mut done = 0;
    while let Ok(first) = receiver.recv() {
        let batch: Vec<Outcome<'_>> =
            std::iter::once(first).chain(receiver.try_iter().take(BATCH - 1)).collect();
        done += batch.len();
        write_batch(sidecar, &batch, look)?;
        if progress(done, total).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn write_batch(sidecar: &Sidecar, batch: &[Outcome<'_>], look: Look) -> Result<()> {
    sidecar.write(ACTION, |connection| {
        let mut texts = Texts::default();
        for (job, read) in batch {
            store(connection, job, read, look, &mut texts).map_err(fault(sidecar))?;
        }
        texts.write(connection).map_err(fault(sidecar))
    })
}

fn print_of(connection: &Connection, path: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT print FROM amber_file WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()
}

/// Writes what came of reading a file, unless somebody wrote of it since we looked.
fn store<'a>(
    connection: &Connection,
    job: &Job,
    read: &'a Result<Ready>,
    look: Look,
    texts: &mut Texts<'a>,
) -> rusqlite::Result<()> {
    let found = &job.found;
    if print_of(connection, &found.path)? != job.seen {
        return Ok(());
    }
    let print = Some(&found.print).filter(|print| !print.is_young(look));
    match read {
        Ok(ready) => {
            // An entry under the key that the file had before would stay alone.
            if job.seen.is_some() {
                write::forget_other_key(connection, &found.path, &found.filename)?;
            }
            write::put(connection, ready, print, texts)
        }
        Err(Error::NotFound { .. } | Error::Gone { .. }) => Ok(()),
        // What may be otherwise a moment later is asked again, and what was known stays until then.
        Err(error) if is_passing(error) && job.seen.is_some() => {
            connection
                .prepare_cached("UPDATE amber_file SET print = x'' WHERE path = ?1")?
                .execute([&found.path])?;
            Ok(())
        }
        Err(error) if is_passing(error) => {
            write::put_unreadable(connection, &found.path, None, &reason(error))
        }
        Err(error) => write::put_unreadable(connection, &found.path, print, &reason(error)),
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Busy { .. } | Error::Io { errno: Some(_), .. })
}

/// The reason without the path, which stands beside it.
fn reason(error: &Error) -> String {
    match error {
        Error::Damaged { at, what, .. } => format!("damaged at {at}: {what}"),
        Error::Version { found, supported, .. } => format!("format version {found}, newer than {supported}"),
        Error::Busy { .. } => "it is busy".to_owned(),
        Error::Io { action, reason, .. } => format!("cannot {action}: {reason}"),
        other => other.to_string(),
    }
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
