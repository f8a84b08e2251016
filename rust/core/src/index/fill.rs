//! Reading changed files and writing their entries: several threads read, one writes, and reads too
//! while nothing waits for it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::read::{self, Found};
use super::reconcile::{ACTION, Progress, fault};
use super::sidecar::Sidecar;
use super::threads::Threads;
use super::usage::directory_size;
use super::write::{self, Ready, Texts};
use crate::db::sidecar::changes;
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;

/// So many files are read in one go, in the order of their paths: neighbours are written sooner than
/// rows of here and there.
const RUN: usize = 16;
/// How many runs may wait to be written.
const QUEUE: usize = 64;
/// Entries of one transaction. Each one makes the text indexes write out what they hold; but the
/// last is written when nobody reads any more, and other writers want their turn.
const LARGEST: usize = 4096;
const SMALLEST: usize = 512;
/// No transaction takes on more after that, however slow the files are.
const LONGEST: Duration = Duration::from_millis(250);
/// So few files are read sooner than threads are woken.
const FEW: usize = 4;

/// From when to when files were looked at, in nanoseconds since 1970.
pub type Look = (i64, i64);

/// A file to read, with its fingerprint as the sidecar had it.
pub struct Job {
    /// The file.
    pub found: Found,
    /// Its packed fingerprint; `None` where the sidecar did not know the file.
    pub seen: Option<Vec<u8>>,
}

type Outcome<'a> = (&'a Job, Result<Ready>);

/// The jobs that nobody has taken yet.
struct Stack<'a> {
    jobs: &'a [Job],
    next: AtomicUsize,
}

impl<'a> Stack<'a> {
    /// Reads the next few files; `None` when there are none.
    fn read(&self) -> Option<Vec<Outcome<'a>>> {
        let start = self.next.fetch_add(RUN, Ordering::Relaxed);
        let run = self.jobs.get(start..self.jobs.len().min(start.saturating_add(RUN)))?;
        if run.is_empty() { None } else { Some(run.iter().map(|job| (job, read_one(job))).collect()) }
    }
}

fn read_one(job: &Job) -> Result<Ready> {
    let mut entry = read::entry(&job.found)?;
    if job.found.has_artifacts {
        let size = directory_size(&artifacts_dir(&job.found.file));
        entry.extra.artifact_size = i64::try_from(size).unwrap_or(i64::MAX);
    }
    Ok(Ready::of(entry))
}

/// Reads the jobs' files and writes what came of it, telling `progress` after each transaction.
pub fn fill(
    sidecar: &Sidecar,
    jobs: &[Job],
    threads: &Threads,
    look: Look,
    progress: &mut Progress<'_>,
) -> Result<ControlFlow<()>> {
    let stack = Stack { jobs, next: AtomicUsize::new(0) };
    let readers = if jobs.len() > FEW { threads.count().saturating_sub(1) } else { 0 };
    let (sender, receiver) = sync_channel(QUEUE);
    std::thread::scope(|scope| {
        for number in 0..readers {
            let (sender, stack) = (sender.clone(), &stack);
            let thread = std::thread::Builder::new().name(format!("amberlog-read-{number}"));
            let read = move || {
                // The receiver is gone once the writer has ended; then nobody wants the rest.
                while let Some(run) = stack.read()
                    && sender.send(run).is_ok()
                {}
            };
            // Where the system gives no thread, this one reads what it would have.
            if thread.spawn_scoped(scope, read).is_err() {
                break;
            }
        }
        drop(sender);
        let writer = Writer { sidecar, incoming: Incoming { stack: &stack, receiver }, look, fresh: None };
        writer.run(progress)
    })
}

/// What was read, from the threads or by this one.
struct Incoming<'a, 's> {
    stack: &'s Stack<'a>,
    receiver: Receiver<Vec<Outcome<'a>>>,
}

impl<'a> Incoming<'a, '_> {
    fn next(&self) -> Option<Vec<Outcome<'a>>> {
        match self.receiver.try_recv() {
            Ok(run) => Some(run),
            Err(TryRecvError::Empty) => self.stack.read().or_else(|| self.receiver.recv().ok()),
            Err(TryRecvError::Disconnected) => self.stack.read(),
        }
    }
}

struct Writer<'a, 's> {
    sidecar: &'s Sidecar,
    incoming: Incoming<'a, 's>,
    look: Look,
    /// The state that the last transaction left, when all that there is was written by this scan.
    fresh: Option<State>,
}

/// What moves with every write to the sidecar: of other connections, and of this one.
type State = (i64, i64);

impl Writer<'_, '_> {
    fn run(mut self, progress: &mut Progress<'_>) -> Result<ControlFlow<()>> {
        let total = self.incoming.stack.jobs.len();
        let mut done = 0;
        while let Some(first) = self.incoming.next() {
            done += self.write(first, share(total - done))?;
            if progress(done, total).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes about so many entries in one transaction, and returns how many it were.
    fn write(&mut self, first: Vec<Outcome<'_>>, most: usize) -> Result<usize> {
        let Self { sidecar, incoming, look, fresh } = self;
        sidecar.write(ACTION, |connection| {
            let fault = fault(sidecar);
            let is_fresh = match fresh {
                None => is_empty(connection),
                Some(known) => changes(connection).map(|found| found == *known),
            };
            let is_fresh = is_fresh.map_err(&fault)?;
            let (mut texts, mut done, began) = (Texts::default(), 0, Instant::now());
            let mut run = Some(first);
            while let Some(outcomes) = run {
                done += outcomes.len();
                for (job, read) in outcomes {
                    store(connection, job, read, *look, &mut texts, is_fresh).map_err(&fault)?;
                }
                let is_full = done >= most || began.elapsed() > LONGEST;
                run = if is_full { None } else { incoming.next() };
            }
            texts.write(connection).map_err(&fault)?;
            *fresh = Some(if is_fresh { changes(connection).map_err(&fault)? } else { (-1, -1) });
            Ok(done)
        })
    }
}

/// How many entries the next transaction takes of what is left.
fn share(left: usize) -> usize {
    (left / 3).clamp(SMALLEST, LARGEST)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    const ANY: &str = "SELECT NOT EXISTS (SELECT 1 FROM entries) AND NOT EXISTS (SELECT 1 FROM search_content) \
                       AND NOT EXISTS (SELECT 1 FROM amber_entry) AND NOT EXISTS (SELECT 1 FROM amber_file) \
                       AND NOT EXISTS (SELECT 1 FROM amber_changed)";
    connection.query_row(ANY, [], |row| row.get(0))
}

/// The packed fingerprint that is known of a path.
pub fn print_of(connection: &Connection, path: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT print FROM amber_file WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()
}

/// Writes what came of reading a file, unless somebody wrote of it since we looked.
fn store(
    connection: &Connection,
    job: &Job,
    read: Result<Ready>,
    look: Look,
    texts: &mut Texts,
    is_fresh: bool,
) -> rusqlite::Result<()> {
    let found = &job.found;
    if !is_fresh && print_of(connection, &found.path)? != job.seen {
        return Ok(());
    }
    let print = Some(&found.print).filter(|print| !print.is_young(look));
    match read {
        Ok(ready) => {
            // An entry under the key that the file had before would stay alone.
            if job.seen.is_some() {
                write::forget_other_key(connection, &found.path, &found.filename)?;
            }
            write::put(connection, ready, print, texts, is_fresh)
        }
        Err(Error::NotFound { .. } | Error::Gone { .. }) => Ok(()),
        // What may be otherwise a moment later is asked again, and what was known stays until then.
        Err(error) if is_passing(&error) && job.seen.is_some() => {
            connection
                .prepare_cached("UPDATE amber_file SET print = x'' WHERE path = ?1")?
                .execute([&found.path])?;
            Ok(())
        }
        Err(error) if is_passing(&error) => {
            write::put_unreadable(connection, &found.path, None, &reason(&error))
        }
        Err(error) => write::put_unreadable(connection, &found.path, print, &reason(&error)),
    }
}

pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Busy { .. } | Error::Io { errno: Some(_), .. })
}

/// The reason without the path, which stands beside it.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::Damaged { at, what, .. } => format!("damaged at {at}: {what}"),
        Error::Version { found, supported, .. } => format!("format version {found}, newer than {supported}"),
        Error::Busy { .. } => "it is busy".to_owned(),
        Error::Io { action, reason, .. } => format!("cannot {action}: {reason}"),
        other => other.to_string(),
    }
}
