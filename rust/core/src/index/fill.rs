//! Reading changed files and writing their entries: several threads read, one writes, and reads too
//! while nothing waits for it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
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
use crate::db::open::set_triggers;
use crate::db::pages::Still;
use crate::db::sidecar::{changes, make_room};
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;

/// So many files are read in one go, in the order of their paths: neighbours are written sooner than
/// rows of here and there.
const RUN: usize = 16;
/// How many runs may wait to be written.
const QUEUE: usize = 64;
/// Entries of one transaction. Each one makes the text indexes write out what they hold; but the
/// last is written when nobody reads any more, and other writers want their turn.
const LARGEST: usize = 8192;
const SMALLEST: usize = 1024;
/// No transaction takes on more after that, however slow the files are.
const LONGEST: Duration = Duration::from_millis(250);
/// So few files are read sooner than threads are woken.
const FEW: usize = 4;
/// So many are read before a second listing of the directory is worth what it spares.
const MANY: usize = 256;

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
    still: Option<Arc<Still>>,
    next: AtomicUsize,
}

impl<'a> Stack<'a> {
    /// Reads the next few files; `None` when there are none.
    fn read(&self) -> Option<Vec<Outcome<'a>>> {
        let start = self.next.fetch_add(RUN, Ordering::Relaxed);
        let run = self.jobs.get(start..self.jobs.len().min(start.saturating_add(RUN)))?;
        if run.is_empty() {
            None
        } else {
            Some(run.iter().map(|job| (job, read_one(job, self.still.as_ref()))).collect())
        }
    }
}

fn read_one(job: &Job, still: Option<&Arc<Still>>) -> Result<Ready> {
    let mut entry = read::entry(&job.found, still)?;
    if job.found.has_artifacts {
        let size = directory_size(&artifacts_dir(&job.found.file));
        entry.extra.artifact_size = i64::try_from(size).unwrap_or(i64::MAX);
    }
    Ok(Ready::of(entry))
}

/// Reads the jobs' files, which lie in `directory` or in the mirror in it, and writes what came of it,
/// telling `progress` after each transaction.
pub fn fill(
    sidecar: &Sidecar,
    directory: Option<&Path>,
    jobs: &[Job],
    threads: &Threads,
    look: Look,
    progress: &mut Progress<'_>,
) -> Result<ControlFlow<()>> {
    let still = directory.filter(|_| jobs.len() > MANY).and_then(Still::begin).map(Arc::new);
    let stack = Stack { jobs, still, next: AtomicUsize::new(0) };
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

/// The state of a sidecar in which others have written too.
const MIXED: State = (-1, -1);

impl<'a> Writer<'a, '_> {
    fn run(mut self, progress: &mut Progress<'_>) -> Result<ControlFlow<()>> {
        if self.incoming.stack.jobs.len() < MANY {
            return self.write_all(progress);
        }
        self.make_room(true)?;
        let done = self.write_all(progress);
        self.make_room(false)?;
        let is_fresh = self.fresh.is_some_and(|state| state != MIXED);
        if is_fresh && matches!(done, Ok(ControlFlow::Continue(()))) {
            self.sidecar
                .write(ACTION, |connection| write::merge_words(connection).map_err(fault(self.sidecar)))?;
        }
        done
    }

    fn make_room(&self, for_many: bool) -> Result<()> {
        self.sidecar.configure(ACTION, |connection| make_room(connection, for_many))
    }

    fn write_all(&mut self, progress: &mut Progress<'_>) -> Result<ControlFlow<()>> {
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
    fn write(&mut self, first: Vec<Outcome<'a>>, most: usize) -> Result<usize> {
        let Self { sidecar, incoming, look, fresh } = self;
        sidecar.write(ACTION, |connection| {
            let fault = fault(sidecar);
            let is_fresh = match fresh {
                None => is_empty(connection),
                Some(known) => changes(connection).map(|found| found == *known),
            };
            let is_fresh = is_fresh.map_err(&fault)?;
            // Nothing that a trigger would tell: no row is another program's, and counting is done at once.
            set_triggers(connection, !is_fresh).map_err(&fault)?;
            let written = incoming.store(connection, first, most, (*look, is_fresh));
            set_triggers(connection, true).map_err(&fault)?;
            let done = written.map_err(&fault)?;
            *fresh = Some(if is_fresh { changes(connection).map_err(&fault)? } else { MIXED });
            Ok(done)
        })
    }
}

impl<'a> Incoming<'a, '_> {
    /// Writes the entries that come, about so many, and returns how many it were.
    fn store(
        &self,
        connection: &Connection,
        first: Vec<Outcome<'a>>,
        most: usize,
        (look, is_fresh): (Look, bool),
    ) -> rusqlite::Result<usize> {
        let (mut texts, mut done, began) = (Texts::default(), 0, Instant::now());
        let mut run = Some(first);
        while let Some(outcomes) = run {
            done += outcomes.len();
            for (job, read) in outcomes {
                store(connection, job, read, look, &mut texts, is_fresh)?;
            }
            let is_full = done >= most || began.elapsed() > LONGEST;
            run = if is_full { None } else { self.next() };
        }
        texts.write(connection)?;
        Ok(done)
    }
}

/// How many entries the next transaction takes of what is left.
fn share(left: usize) -> usize {
    (left / 2).clamp(SMALLEST, LARGEST)
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
