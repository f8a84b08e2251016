//! A graph of neighbours in levels (HNSW): a search walks from hub to hub towards the query.
//!
//! The graph holds slots only. The rows, each of length 1, are handed in with every call and lie one after
//! the other by slot; a removed vector keeps its slot and its links, and the caller's filter leaves it out.

mod bytes;
mod link;
mod prune;
mod walk;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::walk::{Place, Visited};

/// How many neighbours a slot chooses, and how many it may have on an upper level.
const M: usize = 16;
/// How many it may have on the lowest one.
const MOST_BELOW: usize = 2 * M;
/// How many slots are looked at when neighbours are chosen.
const EF_BUILD: usize = 100;
/// How many slots at least a search keeps in view.
const EF_SEARCH: usize = 200;
const HIGHEST_LEVEL: u8 = 15;
const STRIPES: usize = 1 << 10;
/// How many new slots are worth a second thread.
const PARALLEL_FROM: usize = 256;

/// Numbers of neighbours, each list a count and then so many slots. Written under a lock, read without: a
/// reader may meet a list half changed, and every slot in it is still a slot.
type Lists = Vec<AtomicU32>;

/// Where every walk begins.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    slot: u32,
    level: u8,
}

/// The rows that the slots stand for.
#[derive(Debug, Clone, Copy)]
struct Rows<'a> {
    numbers: &'a [f32],
    dimensions: usize,
}

impl<'a> Rows<'a> {
    fn get(self, slot: u32) -> &'a [f32] {
        let at = slot as usize * self.dimensions;
        &self.numbers[at..at + self.dimensions]
    }
}

/// The graph.
#[derive(Debug)]
pub(super) struct Graph {
    dimensions: usize,
    levels: Vec<u8>,
    below: Lists,
    /// Where a slot's lists of the upper levels begin.
    above_at: Vec<u32>,
    above: Lists,
    entry: Mutex<Option<Entry>>,
    pool: Mutex<Vec<Visited>>,
}

impl Graph {
    /// An empty graph over rows of a size.
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            levels: Vec::new(),
            below: Lists::new(),
            above_at: Vec::new(),
            above: Lists::new(),
            entry: Mutex::new(None),
            pool: Mutex::new(Vec::new()),
        }
    }

    /// How many slots it links.
    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    /// Links the slots that came since, in so many threads (one for few of them).
    pub(super) fn extend(&mut self, numbers: &[f32], threads: usize) {
        let rows = Rows { numbers, dimensions: self.dimensions };
        let first = self.len();
        let count = numbers.len() / self.dimensions;
        for slot in first..count {
            let level = level(slot);
            self.levels.push(level);
            self.above_at.push(small(self.above.len()));
            self.above.extend((0..usize::from(level) * (M + 1)).map(|_| AtomicU32::new(0)));
        }
        self.below.extend((first..count).flat_map(|_| (0..=MOST_BELOW).map(|_| AtomicU32::new(0))));
        let locks: Vec<Mutex<()>> = (0..STRIPES).map(|_| Mutex::new(())).collect();
        let next = AtomicUsize::new(first);
        let graph = &*self;
        let work = || {
            let mut visited = graph.visited();
            loop {
                let slot = next.fetch_add(1, Relaxed);
                if slot >= count {
                    break;
                }
                graph.insert(rows, small(slot), &mut visited, &locks);
            }
            lock(&graph.pool).push(visited);
        };
        if threads < 2 || count - first < PARALLEL_FROM {
            work();
        } else {
            std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        }
    }

    /// The slots nearest to a query among those that are kept, the nearest first.
    ///
    /// `reach` is how many slots the walk keeps in view: more find more and cost more.
    pub(super) fn search(
        &self,
        numbers: &[f32],
        query: &[f32],
        k: usize,
        reach: Option<usize>,
        keeps: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let rows = Rows { numbers, dimensions: self.dimensions };
        let Some(entry) = *lock(&self.entry) else { return Vec::new() };
        let mut visited = self.visited();
        let start = self.descend(rows, query, entry, 0);
        let reach = reach.unwrap_or(EF_SEARCH).max(k);
        let mut found = self.walk(rows, query, start, (0, reach), &mut visited, |slot| keeps(slot as usize));
        lock(&self.pool).push(visited);
        found.truncate(k);
        found.into_iter().map(|place| place.slot() as usize).collect()
    }

    /// What an earlier walk used, or new.
    fn visited(&self) -> Visited {
        lock(&self.pool).pop().unwrap_or_default()
    }

    /// The slot nearest to a query that a walk without side steps reaches above a level.
    fn descend(&self, rows: Rows<'_>, query: &[f32], entry: Entry, floor: u8) -> Place {
        let mut best = Place::new(rows, query, entry.slot);
        for level in (floor + 1..=entry.level).rev() {
            loop {
                let before = best;
                for slot in self.list(best.slot(), level).iter() {
                    best = best.min(Place::new(rows, query, slot));
                }
                if best == before {
                    break;
                }
            }
        }
        best
    }

    fn insert(&self, rows: Rows<'_>, slot: u32, visited: &mut Visited, locks: &[Mutex<()>]) {
        let level = self.levels[slot as usize];
        let query = rows.get(slot);
        let mut guard = lock(&self.entry);
        let Some(entry) = *guard else {
            *guard = Some(Entry { slot, level });
            return;
        };
        // A slot above all others becomes the entry once it is linked, and no other meanwhile.
        let held = if level > entry.level {
            Some(guard)
        } else {
            drop(guard);
            None
        };
        let mut start = self.descend(rows, query, entry, level.min(entry.level));
        for level in (0..=level.min(entry.level)).rev() {
            let near = self.walk(rows, query, start, (level, EF_BUILD), visited, |other| other != slot);
            start = near.first().copied().unwrap_or(start);
            self.connect(rows, slot, level, &near, locks);
        }
        if let Some(mut guard) = held {
            *guard = Some(Entry { slot, level });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A slot as the lists hold it.
fn small(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

/// The level of a slot: each one up has a sixteenth of the slots. By the slot alone, so that it is the same
/// in whatever order threads come.
fn level(slot: usize) -> u8 {
    let mut mixed = (slot as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    let sixteenths = mixed.trailing_zeros() / M.trailing_zeros();
    u8::try_from(sixteenths).unwrap_or(HIGHEST_LEVEL).min(HIGHEST_LEVEL)
}

#[cfg(test)]
mod tests;
