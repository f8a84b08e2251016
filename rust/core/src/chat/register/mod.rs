//! The index of a directory of chat sessions: what lists, routes and searches are answered from.
//!
//! The files alone count. Before an answer the index is brought level with them, whoever wrote them;
//! where it cannot be used, `None` says so and the caller reads the files.

mod build;
mod disk;
mod find;
mod level;
mod pages;
mod peer;
mod query;
mod read;
mod route;
mod rows;
mod segment;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};

use self::disk::Disk;
pub use self::disk::Home;
use self::find::Facts;
use self::level::Known;
use self::pages::Cache;
pub use self::route::Routed;
use self::route::Routes;
pub(in crate::chat) use self::route::{Lookup, head_of};
use super::cell::lock;
use super::search::Query;
use crate::clock::{Clock as _, SystemClock};
use crate::db::service::{self, Attended};
use crate::{Error, Result};

/// How long after a write the peer's tables follow.
const PAUSE: Duration = Duration::from_millis(500);
/// A pass over the peer's tables takes no more than this share of the time.
const SHARE: u32 = 8;

/// How an index is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// Where it lives.
    pub home: Home,
    /// Whether the peer's text table is one of full text.
    pub full_text: bool,
}

/// The index of one directory, for any number of threads.
pub struct Register {
    directory: PathBuf,
    keeping: Keeping,
    process: u32,
    disk: Disk,
    known: Mutex<Known>,
    facts: Mutex<Facts>,
    routes: Mutex<Routes>,
    cache: Cache,
    /// Files that were written since the peer was last told of them, and how many write each now.
    written: Mutex<HashMap<String, u32>>,
    is_awaited: AtomicBool,
    fault: Mutex<Option<String>>,
    of_child: OnceLock<Arc<Register>>,
}

impl std::fmt::Debug for Register {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Register").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Register {
    /// Names an index; it is opened when it is first needed.
    pub fn new(directory: &Path, keeping: Keeping) -> Arc<Self> {
        Arc::new(Self {
            directory: directory.to_owned(),
            process: std::process::id(),
            disk: Disk::new(keeping.home.clone(), keeping.full_text),
            keeping,
            known: Mutex::default(),
            facts: Mutex::default(),
            routes: Mutex::default(),
            cache: Cache::default(),
            written: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            fault: Mutex::default(),
            of_child: OnceLock::new(),
        })
    }

    /// A child that was forked has an index of its own: what it inherits is the parent's.
    fn own(self: &Arc<Self>) -> &Arc<Self> {
        let mut own = self;
        while own.process != std::process::id() {
            own = own.of_child.get_or_init(|| Self::new(&own.directory, own.keeping.clone()));
        }
        own
    }

    /// Why the index could not be used when it was last asked, where it could not.
    pub fn fault(self: &Arc<Self>) -> Option<String> {
        lock(&self.own().fault).clone()
    }

    /// Returns what a question to the index answers; `None` where it cannot be used.
    pub(super) fn answer<R>(
        self: &Arc<Self>,
        now: f64,
        mut ask: impl FnMut(&Connection) -> rusqlite::Result<R>,
    ) -> Option<R> {
        let own = self.own();
        let mut once = || {
            let birth = own.level(now)?;
            let asked = own.disk.read(|connection| {
                let is_same = rows::birth(rows::generation(connection)?) == birth;
                is_same.then(|| ask(connection)).transpose()
            })?;
            asked.ok_or_else(|| Error::Gone { path: own.disk.path().to_owned() })
        };
        let outcome = match once() {
            Err(Error::Damaged { .. }) => own.begin_anew(Some(now)).and_then(|()| once()),
            // Somebody took the file away under us, or tables of it.
            Err(Error::Gone { .. }) => own.begin_anew(None).and_then(|()| once()),
            Err(Error::Io { reason, .. }) if reason.contains("no such table") => {
                own.begin_anew(None).and_then(|()| once())
            }
            outcome => outcome,
        };
        own.note(outcome)
    }

    /// Returns the files of the best sessions, the best first; `None` where words do not tell, or the
    /// index cannot be used.
    pub(super) fn search(self: &Arc<Self>, query: &Query, limit: usize, now: f64) -> Option<Vec<String>> {
        const FILE: &str = "SELECT file FROM amber_session WHERE id = ?1";
        let wording = query.wording(build::OVERLAP)?;
        let own = self.own();
        self.answer(now, |connection| {
            let best = lock(&own.facts).best(connection, &own.cache, &wording, limit)?;
            let mut file = connection.prepare_cached(FILE)?;
            let mut files = Vec::with_capacity(best.len());
            for id in best {
                files.extend(file.query_row([id], |row| row.get(0)).optional()?);
            }
            Ok(files)
        })
    }

    /// Has the peer read a session's file that is about to be written, until it is told what it holds.
    pub(super) fn expect_write(self: &Arc<Self>, file: &str) {
        const UNMETA: &str = "DELETE FROM session_meta WHERE session_id = \
                              (SELECT session_id FROM amber_session WHERE file = ?1)";
        let own = self.own();
        match lock(&own.written).entry(file.to_owned()) {
            Slot::Occupied(mut writers) => {
                *writers.get_mut() += 1;
                return;
            }
            Slot::Vacant(slot) => {
                slot.insert(1);
            }
        }
        let done = own.disk.write(|connection| {
            let told = connection.prepare_cached(UNMETA).and_then(|mut told| told.execute([file]));
            told.map_err(|source| crate::db::fault::translate(own.disk.path(), "write", &source))
        });
        own.note(done);
        own.follow_later();
    }

    /// Ends what `expect_write` began, whether the file was written or not.
    pub(super) fn end_write(self: &Arc<Self>, file: &str) {
        if let Some(writers) = lock(&self.own().written).get_mut(file) {
            *writers = writers.saturating_sub(1);
        }
    }

    /// Brings the peer's tables level now.
    pub fn settle(self: &Arc<Self>, now: f64) -> Result<()> {
        let own = self.own();
        own.level(now)?;
        own.tell()
    }

    /// Notes why the index could not be used, and returns what it answered.
    fn note<R>(&self, outcome: Result<R>) -> Option<R> {
        let mut fault = lock(&self.fault);
        match outcome {
            Ok(answer) => {
                *fault = None;
                Some(answer)
            }
            Err(error) => {
                *fault = Some(error.to_string());
                None
            }
        }
    }

    /// Brings the index level, and returns which making of its tables is.
    fn level(self: &Arc<Self>, now: f64) -> Result<i64> {
        let mut known = lock(&self.known);
        let levelled = known.level(&self.disk, &self.directory, now);
        if !matches!(levelled, Ok(false)) {
            lock(&self.routes).forget();
            self.follow_later();
        }
        levelled.map(|_| known.birth())
    }

    /// Forgets all that is known of the index; a damaged file is put aside.
    fn begin_anew(&self, aside: Option<f64>) -> Result<()> {
        let mut known = lock(&self.known);
        self.disk.close();
        known.forget();
        lock(&self.facts).forget();
        lock(&self.routes).forget();
        self.cache.clear();
        aside.map_or(Ok(()), |now| self.disk.put_aside(now))
    }

    /// Has the peer's tables follow a while later, on a thread of its own.
    fn follow_later(self: &Arc<Self>) {
        if !self.is_awaited.swap(true, Ordering::AcqRel) {
            let whom: Arc<dyn Attended> = Arc::clone(self) as Arc<dyn Attended>;
            let asked = service::visit(Arc::downgrade(&whom), PAUSE);
            self.note(asked.map_err(|error| Error::io(&self.directory, "start a thread for", &error)));
        }
    }

    fn tell(&self) -> Result<()> {
        // What is being written, now or from here on, is told of in a later pass.
        lock(&self.written).retain(|_, writers| *writers > 0);
        peer::take_over(&self.disk)?;
        let is_written = |file: &str| lock(&self.written).contains_key(file);
        let mut after = 0;
        while let Some(last) = peer::tell(&self.disk, &self.directory, after, is_written)? {
            after = last;
        }
        Ok(())
    }
}

impl Attended for Register {
    fn attend(&self) -> Option<Duration> {
        self.is_awaited.store(false, Ordering::Release);
        let begun = Instant::now();
        let now = SystemClock.now();
        let levelled = {
            let mut known = lock(&self.known);
            let levelled = known.level(&self.disk, &self.directory, now);
            if !matches!(levelled, Ok(false)) {
                lock(&self.routes).forget();
            }
            levelled
        };
        self.note(levelled.and_then(|_| self.tell()));
        let is_more = !lock(&self.written).is_empty();
        (is_more && !self.is_awaited.swap(true, Ordering::AcqRel)).then(|| PAUSE.max(begun.elapsed() * SHARE))
    }
}
