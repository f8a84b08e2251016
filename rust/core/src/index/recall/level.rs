//! Bringing the index level with the sessions on disk: one walk, then only what changed is read, by
//! several threads, and indexed by one. Each commit holds whole sessions with their fingerprints, so that
//! whoever is killed between two leaves an index that the next pass completes.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use tantivy::IndexWriter;
use tantivy::indexer::IndexWriterOptions;
use tantivy::merge_policy::LogMergePolicy;

use super::document::Sent;
use super::feed::{Feed, Target};
use super::gather::Ground;
use super::home::{Home, Shelf, guarded};
use super::permits::Permits;
use super::roster::{Known, Roster};
use super::session;
use crate::error::{Error, Result};
use crate::index::fill::{Look, is_passing, reason};
use crate::index::print;
use crate::index::read::Found;
use crate::index::reconcile::{Progress, Report};
use crate::index::threads::Threads;
use crate::index::walk::Walk;

/// Bytes that the index keeps in memory before it writes a segment.
const ARENA: usize = 64 << 20;
/// Bytes of words that may wait for the index.
const WAITING: usize = 32 << 20;
/// Bytes of session files that are read between two commits.
const STRIDE: u64 = 1 << 30;
/// Deleted blocks of a segment that has so large a share of them are written anew without them.
const DELETED: f32 = 0.3;
/// So few files are read sooner than threads are woken.
const FEW: usize = 4;

/// What is to be done, told by comparing a walk with what is known.
#[derive(Default)]
pub(super) struct Work {
    pub jobs: Vec<Found>,
    pub gone: HashSet<String>,
    pub unchanged: usize,
    pub total: usize,
    /// What is called like a session and is none.
    pub odd: Vec<(String, String)>,
}

impl Work {
    /// Compares; `full` has everything read.
    pub fn of(directory: &Path, walk: Walk, roster: &Roster, full: bool) -> Self {
        let mut work = Self { odd: walk.odd, total: walk.found.len(), ..Self::default() };
        // Both are in the order of their paths.
        let mut known = roster.sessions.iter().peekable();
        for sight in &walk.found {
            while let Some(gone) = known.next_if(|known| known.path < sight.path) {
                work.gone.insert(gone.path.clone());
            }
            let print = known.next_if(|known| known.path == sight.path);
            let print = print.and_then(|known| print::unpack(&known.print));
            if !full && print.is_some_and(|print| print.same_content(&sight.print)) {
                work.unchanged += 1;
            } else {
                work.jobs.push(sight.found(directory));
            }
        }
        work.gone.extend(known.map(|gone| gone.path.clone()));
        work
    }

    /// Whether there is nothing to do.
    pub fn is_done(&self) -> bool {
        self.jobs.is_empty() && self.gone.is_empty()
    }

    /// What was found and done, as far as the walk tells.
    pub fn report(&self, roster: &Roster) -> Report {
        let mut unreadable: Vec<(String, String)> = roster
            .sessions
            .iter()
            .filter(|known| !known.reason.is_empty())
            .map(|known| (known.path.clone(), known.reason.clone()))
            .collect();
        unreadable.extend(self.odd.iter().cloned());
        unreadable.sort_unstable();
        Report {
            read: self.jobs.len(),
            deleted: self.gone.len(),
            total: self.total,
            unchanged: self.unchanged,
            unreadable,
            ..Report::default()
        }
    }
}

/// Reads and indexes what has changed; `true` where `progress` broke off.
pub(super) fn fill(
    home: &Home,
    shelf: &mut Shelf,
    work: &Work,
    threads: &Threads,
    look: Look,
    progress: &mut Progress<'_>,
) -> Result<bool> {
    let path = home.path().to_owned();
    let options = IndexWriterOptions::builder()
        .num_worker_threads(1)
        .num_merge_threads(1)
        .memory_budget_per_thread(ARENA)
        .build();
    let mut writer: IndexWriter<Sent> = guarded(&path, || shelf.index.writer_with_options(options))?;
    let mut merging = LogMergePolicy::default();
    merging.set_del_docs_ratio_before_merge(DELETED);
    writer.set_merge_policy(Box::new(merging));
    let mut pass =
        Pass { home, shelf, permits: Permits::new(WAITING), threads, look, done: 0, total: work.jobs.len() };
    let mut is_broken = progress(0, work.jobs.len()).is_break();
    let mut gone = work.gone.clone();
    let mut left = work.jobs.as_slice();
    while !is_broken && (!left.is_empty() || !gone.is_empty()) {
        let (jobs, rest) = left.split_at(stride(left));
        is_broken = pass.step(&mut writer, jobs, &std::mem::take(&mut gone), progress)?;
        left = rest;
    }
    guarded(&path, || writer.wait_merging_threads())?;
    guarded(&path, || pass.shelf.reader.reload())?;
    Ok(is_broken)
}

/// How many jobs are done before the next commit.
fn stride(jobs: &[Found]) -> usize {
    let mut bytes = 0_u64;
    let fits = |job: &&Found| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(job.print.size).saturating_add(job.print.wal.map_or(0, |wal| wal.2));
        bytes <= STRIDE || is_first
    };
    jobs.iter().take_while(fits).count()
}

struct Pass<'a> {
    home: &'a Home,
    shelf: &'a mut Shelf,
    permits: Permits,
    threads: &'a Threads,
    look: Look,
    done: usize,
    total: usize,
}

impl Pass<'_> {
    /// Reads some sessions and commits what came of it.
    fn step(
        &mut self,
        writer: &mut IndexWriter<Sent>,
        jobs: &[Found],
        gone: &HashSet<String>,
        progress: &mut Progress<'_>,
    ) -> Result<bool> {
        let roster = Arc::clone(&self.shelf.ground.roster);
        let next = AtomicU64::new(roster.next.max(1));
        for known in gone.iter().filter_map(|path| roster.get(path)).filter(|known| known.number != 0) {
            let term = tantivy::Term::from_field_u64(self.shelf.fields.session, known.number);
            writer.delete_term(term);
        }
        let fields = Arc::clone(&self.shelf.fields);
        let permits = self.permits.clone();
        let target = Target { writer, fields: &fields, permits: &permits, next: &next };
        let (fresh, is_broken) = self.read(&target, &roster, jobs, progress)?;
        let mut roster = Roster { next: next.load(Ordering::Relaxed), sessions: roster.sessions.clone() };
        roster.update(fresh, |path| gone.contains(path));
        self.commit(writer, roster)?;
        Ok(is_broken)
    }

    fn read(
        &mut self,
        target: &Target<'_>,
        roster: &Roster,
        jobs: &[Found],
        progress: &mut Progress<'_>,
    ) -> Result<(Vec<Known>, bool)> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        let threads = if jobs.len() > FEW { self.threads.count() } else { 1 };
        let reading = Reading { jobs, next: &next, roster, target, look: self.look };
        std::thread::scope(|scope| {
            let mut fresh = Vec::with_capacity(jobs.len());
            for number in 0..threads {
                let (sender, reading) = (sender.clone(), &reading);
                let thread = std::thread::Builder::new().name(format!("amberlog-read-{number}"));
                let spawned = thread.spawn_scoped(scope, move || reading.run(&sender));
                if let (Err(source), 0) = (spawned, number) {
                    return Err(Error::io(self.home.path(), "start a thread to read", &source));
                }
            }
            drop(sender);
            for outcome in receiver {
                fresh.extend(outcome?);
                self.done += 1;
                if progress(self.done, self.total).is_break() {
                    next.store(jobs.len(), Ordering::Relaxed);
                    return Ok((fresh, true));
                }
            }
            Ok((fresh, false))
        })
    }

    fn commit(&mut self, writer: &mut IndexWriter<Sent>, roster: Roster) -> Result<()> {
        let path = self.home.path();
        let mut prepared = guarded(path, || writer.prepare_commit())?;
        let payload = if self.shelf.is_in_memory() {
            None
        } else {
            Some(self.home.put_roster(&roster, prepared.opstamp())?)
        };
        if let Some(payload) = &payload {
            prepared.set_payload(payload);
        }
        guarded(path, || prepared.commit())?;
        self.shelf.ground = Arc::new(Ground::of(Arc::new(roster)));
        match payload {
            Some(payload) => self.home.sweep(&payload),
            None => Ok(()),
        }
    }
}

/// The sessions that nobody has read yet.
struct Reading<'a> {
    jobs: &'a [Found],
    next: &'a AtomicUsize,
    roster: &'a Roster,
    target: &'a Target<'a>,
    look: Look,
}

type Outcome = Result<Option<Known>>;

impl Reading<'_> {
    fn run(&self, sender: &Sender<Outcome>) {
        // The receiver is gone once nobody wants the rest.
        while let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed))
            && sender.send(self.one(job)).is_ok()
        {}
    }

    /// Reads one session; `None` where nothing is to be noted of it.
    fn one(&self, job: &Found) -> Outcome {
        let before = self.roster.get(&job.path);
        let mut feed = Feed::new(self.target, before);
        let print = Some(&job.print).filter(|print| !print.is_young(self.look));
        let mut known = Known { path: job.path.clone(), print: print::pack(print), ..Known::default() };
        match session::read(job, &mut feed) {
            Ok(facts) => {
                let fault = |error| Error::damaged(Path::new(super::HOME), "its records", format!("{error}"));
                (known.number, known.tallies) = feed.finish().map_err(fault)?;
                known.reason = facts.damage;
                known.session_id = facts.session_id;
                known.parent = facts.parent;
                known.is_automated = facts.is_automated;
                known.created = facts.created;
            }
            Err(Error::NotFound { .. } | Error::Gone { .. }) => {
                feed.leave();
                return Ok(before.map(|before| Known { print: Vec::new(), ..before.clone() }));
            }
            // What may be otherwise a moment later is asked again, and what was known stays until then.
            Err(error) if is_passing(&error) => {
                feed.leave();
                let before = before.cloned().unwrap_or(known);
                return Ok(Some(Known { print: Vec::new(), reason: reason(&error), ..before }));
            }
            Err(error) => {
                feed.drop_all();
                known.reason = reason(&error);
            }
        }
        Ok(Some(known))
    }
}

/// The places of sessions by name, for a filter.
pub(super) fn numbers_named(roster: &Roster, name: &str) -> Vec<u64> {
    let is_named = |known: &&Known| known.number != 0 && super::names(&known.path, name);
    roster.sessions.iter().filter(is_named).map(|known| known.number).collect()
}

/// Sessions with blocks, and those that are unreadable.
pub(super) fn counts(roster: &Roster) -> HashMap<&'static str, u64> {
    let count = |wanted: fn(&&Known) -> bool| roster.sessions.iter().filter(wanted).count() as u64;
    HashMap::from([
        ("sessions", count(|known| known.number != 0)),
        ("unreadable", count(|known| !known.reason.is_empty())),
    ])
}
