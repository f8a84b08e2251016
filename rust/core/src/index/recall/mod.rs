//! One query over all sessions of a directory: a full-text index of their blocks beside the sidecar, kept
//! level by reading what has changed.

mod ask;
mod document;
mod feed;
mod gather;
mod hit;
mod home;
mod level;
mod permits;
mod ranking;
mod roster;
mod session;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tantivy::Searcher;

use self::document::SharedFields;
pub use self::gather::Filter;
use self::gather::Ground;
pub use self::hit::Hit;
pub use self::home::HOME;
use self::home::{Home, Shelf, guarded};
use self::level::Work;
use super::name::stem;
use super::reconcile::{Options, Progress, Report};
use super::threads::Threads;
use super::walk::{Known, Walk, walk};
use crate::error::{Error, Result};
use crate::recall::Query;

/// How long a caller waits for another process that brings the same index level.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions with blocks.
    pub sessions: u64,
    /// Blocks, each counted in every session that holds it.
    pub blocks: u64,
    /// Sessions that could not be read, or not all of them.
    pub unreadable: u64,
    /// Bytes of the index on disk.
    pub bytes: u64,
    /// Whether it is kept in memory, since nothing may be written beside the sessions.
    pub in_memory: bool,
}

/// An open search over the sessions of a directory. Every method may be called from any thread.
///
/// The index is derived: it can be deleted at any time, and is made again.
pub struct Recall {
    directory: PathBuf,
    home: Home,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shelf: Option<Shelf>,
    /// Whether the bytes of the index were compared with their checksums once.
    is_checked: bool,
    /// The names of the directory as they were listed last.
    names: Known,
    is_closed: bool,
}

/// What a search is to bring.
struct Wanted {
    most: usize,
    by_session: bool,
    is_level: bool,
}

/// What one search asks: the state of a moment.
struct Moment {
    searcher: Searcher,
    ground: Arc<Ground>,
    fields: SharedFields,
}

/// Opening, closing, and being level with the disk.
impl Recall {
    /// Opens the search over a directory. Nothing is read until it is asked.
    pub fn open(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), home: Home::of(directory), state: Mutex::default() }
    }

    /// Closes it; a second call does nothing.
    pub fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { is_closed: true, ..State::default() };
    }

    /// Brings the index level with the sessions on disk. An unchanged directory costs a look at each file.
    /// Where it cannot be listed the index stays as it was, and the report says so.
    ///
    /// [`Error::Busy`] where another process is at it for longer than a minute.
    pub fn refresh(&self, options: Options, progress: &mut Progress<'_>) -> Result<Report> {
        let mut state = self.state("refresh")?;
        self.level(&mut state, options, progress)
    }

    fn state(&self, action: &'static str) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            let path = self.home.path().to_owned();
            return Err(Error::Closed { path, action, reason: "the search is closed" });
        }
        Ok(state)
    }

    fn level(&self, state: &mut State, options: Options, progress: &mut Progress<'_>) -> Result<Report> {
        let levelled = self.attempt(state, options, progress);
        match levelled {
            // Damage shows itself where it is met; a new index has none.
            Err(Error::Damaged { path, .. })
                if path.starts_with(self.home.path()) || path == Path::new(HOME) =>
            {
                state.shelf = None;
                self.attempt(state, Options { full: true, ..options }, progress)
            }
            levelled => levelled,
        }
    }

    fn attempt(&self, state: &mut State, options: Options, progress: &mut Progress<'_>) -> Result<Report> {
        let started = Instant::now();
        let threads = Threads::new(options.workers);
        let began = now_ns();
        let walk = |names: &mut Known| {
            let is_there = self.directory.is_dir();
            if is_there { walk(&self.directory, &threads, names) } else { Ok(Walk::default()) }
        };
        let is_stale =
            state.shelf.as_ref().is_none_or(|held| self.home.is_behind(held) || self.home.is_gone(held));
        if is_stale {
            state.shelf = self.reopened(state.is_checked)?;
            state.is_checked = true;
        }
        if let Some(held) = &state.shelf
            && !options.full
        {
            let Ok(walk) = walk(&mut state.names) else {
                let work = Work { total: held.ground.roster.sessions.len(), ..Work::default() };
                return Ok(Report { aborted: true, ..work.report(&held.ground.roster) });
            };
            let work = Work::of(&self.directory, walk, &held.ground.roster, false);
            if work.is_done() {
                return Ok(Report { elapsed: started.elapsed(), ..work.report(&held.ground.roster) });
            }
        }
        if !self.directory.is_dir() {
            return Ok(Report::default());
        }
        let locked = match self.home.lock(PATIENCE) {
            Ok(locked) => Some(locked),
            Err(Error::ReadOnly { .. }) => None,
            Err(error) => return Err(error),
        };
        // Taken out, so that what breaks off on the way is not used again.
        let mut held = self.shelf_to_write(state.shelf.take(), options.full, locked.is_some())?;
        let work = Work::of(&self.directory, walk(&mut state.names)?, &held.ground.roster, options.full);
        let look = (began, now_ns());
        let mut aborted = false;
        if !work.is_done() {
            aborted = level::fill(&self.home, &mut held, &work, &threads, look, progress)?;
        }
        let report = Report { aborted, elapsed: started.elapsed(), ..work.report(&held.ground.roster) };
        drop(locked);
        // What was written is read again, with its new stamp.
        state.shelf = if held.is_in_memory() { Some(held) } else { self.reopened(true)? };
        Ok(report)
    }

    /// The index that is there; `None` where it is missing, damaged or of another version: then it is
    /// begun anew by whoever may write it.
    fn reopened(&self, is_checked: bool) -> Result<Option<Shelf>> {
        match self.home.open(is_checked) {
            Err(Error::Damaged { .. } | Error::ReadOnly { .. }) => Ok(None),
            opened => opened,
        }
    }

    /// The index to write to, now that nobody else does.
    fn shelf_to_write(&self, known: Option<Shelf>, full: bool, may_write: bool) -> Result<Shelf> {
        if !may_write {
            return match known {
                Some(held) if held.is_in_memory() && !full => Ok(held),
                _ => self.home.in_memory(),
            };
        }
        if full {
            return self.home.begin();
        }
        match known {
            Some(held) if !held.is_in_memory() && !self.home.is_behind(&held) => Ok(held),
            _ => match self.reopened(false)? {
                Some(held) => Ok(held),
                None => self.home.begin(),
            },
        }
    }

    /// Level with the disk, as cheaply as that can be told.
    fn moment(&self, action: &'static str, is_level: bool) -> Result<Option<Moment>> {
        let mut state = self.state(action)?;
        if is_level && state.shelf.is_some() {
            return Ok(state.shelf.as_ref().map(Moment::of));
        }
        match self.level(&mut state, Options::default(), &mut |_, _| ControlFlow::Continue(())) {
            // What is there is better than nothing while somebody else makes it better.
            Err(Error::Busy { .. }) if state.shelf.is_some() => {}
            levelled => drop(levelled?),
        }
        Ok(state.shelf.as_ref().map(Moment::of))
    }
}

/// Asking.
impl Recall {
    /// Returns the best blocks for a query, the best first; the index is brought level before.
    ///
    /// With `is_level` the index is taken as it stands: the caller knows that nothing has changed.
    pub fn find(&self, query: &Query, filter: &Filter, most: usize, is_level: bool) -> Result<Vec<Hit>> {
        self.ask(query, filter, &Wanted { most, by_session: false, is_level })
    }

    /// Returns the best sessions for a query, each by its best block and with the score of all of it.
    pub fn find_sessions(
        &self,
        query: &Query,
        filter: &Filter,
        most: usize,
        is_level: bool,
    ) -> Result<Vec<Hit>> {
        self.ask(query, filter, &Wanted { most, by_session: true, is_level })
    }

    fn ask(&self, query: &Query, filter: &Filter, wanted: &Wanted) -> Result<Vec<Hit>> {
        if wanted.most == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let once = || -> Result<Vec<Hit>> {
            let Some(moment) = self.moment("search", wanted.is_level)? else { return Ok(Vec::new()) };
            let found = guarded(self.home.path(), || moment.find(query, filter, wanted))?;
            hit::hits(&self.directory, &found, &moment.ground)
        };
        match once() {
            Err(Error::Damaged { path, .. }) if path == self.home.path() => {
                let mut state = self.state("search")?;
                let options = Options { full: true, ..Options::default() };
                self.level(&mut state, options, &mut |_, _| ControlFlow::Continue(()))?;
                drop(state);
                once()
            }
            found => found,
        }
    }

    /// Reads one block by the name of its session and its own; `None` where there is no such block.
    pub fn block(&self, session: &str, name: &str) -> Result<Option<Hit>> {
        drop(self.state("read")?);
        let files = super::family(&self.directory, session)?;
        let Some(file) = files.first() else { return Ok(None) };
        let path = file.strip_prefix(&self.directory).unwrap_or(file).to_string_lossy().into_owned();
        hit::block(&self.directory, &path, name)
    }

    /// Counts what the index holds, as it stands.
    pub fn counts(&self) -> Result<Counts> {
        let mut state = self.state("count")?;
        if state.shelf.is_none() {
            state.shelf = self.reopened(true)?;
        }
        let Some(held) = &state.shelf else { return Ok(Counts::default()) };
        let counted = level::counts(&held.ground.roster);
        let of = |name: &str| counted.get(name).copied().unwrap_or_default();
        Ok(Counts {
            sessions: of("sessions"),
            blocks: held.reader.searcher().num_docs(),
            unreadable: of("unreadable"),
            bytes: super::usage::directory_size(self.home.path()),
            in_memory: held.is_in_memory(),
        })
    }

    /// The files that could not be read when the index was last brought level, with the reason.
    pub fn unreadable(&self) -> Result<Vec<(String, String)>> {
        let state = self.state("read")?;
        let sessions = state.shelf.iter().flat_map(|held| &held.ground.roster.sessions);
        Ok(sessions
            .filter(|known| !known.reason.is_empty())
            .map(|known| (known.path.clone(), known.reason.clone()))
            .collect())
    }
}

impl Moment {
    fn of(held: &Shelf) -> Self {
        Self {
            searcher: held.reader.searcher(),
            ground: Arc::clone(&held.ground),
            fields: Arc::clone(&held.fields),
        }
    }

    fn find(&self, query: &Query, filter: &Filter, wanted: &Wanted) -> tantivy::Result<Vec<gather::Found>> {
        let Some(mut asked) = ask::translate(query, &self.fields, &self.searcher, filter.session.is_some())?
        else {
            return Ok(Vec::new());
        };
        if let Some(name) = &filter.session {
            let numbers = level::numbers_named(&self.ground.roster, name);
            if numbers.is_empty() {
                return Ok(Vec::new());
            }
            asked = ask::within(asked, &numbers, &self.fields);
        }
        if wanted.by_session {
            return ranking::rank(asked.as_ref(), filter, &self.searcher, &self.ground, wanted.most);
        }
        gather::gather(asked.as_ref(), filter, &self.searcher, &self.ground, wanted.most)
    }
}

/// Whether a session's file is meant by a name: that of the session, of its file, or its path.
fn names(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path == name || file == name || stem(path) == name || stem(file) == name
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
