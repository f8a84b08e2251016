//! Walking the graph towards a query.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::super::kernel;
use super::{Graph, M, MOST_BELOW, Rows};

/// A slot and how far it is from the query, in one number that sorts by distance and then by slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(rows: Rows<'_>, query: &[f32], slot: u32) -> Self {
        // Rounding may make the product of two equal rows a little more than 1.
        let distance = (1.0 - kernel::dot(rows.get(slot), query)).max(0.0);
        Self(u64::from(distance.to_bits()) << 32 | u64::from(slot))
    }

    pub(super) fn slot(self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the slot")]
        let slot = self.0 as u32;
        slot
    }

    pub(super) fn distance(self) -> f32 {
        f32::from_bits((self.0 >> 32) as u32)
    }
}

/// Which slots a walk has seen.
#[derive(Debug, Default)]
pub(super) struct Visited {
    walk: u16,
    seen: Vec<u16>,
}

impl Visited {
    /// Begins a walk over so many slots.
    fn begin(&mut self, count: usize) {
        self.seen.resize(count, 0);
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 {
            self.seen.fill(0);
            self.walk = 1;
        }
    }

    /// Whether a slot is new to this walk.
    fn is_new(&mut self, slot: u32) -> bool {
        std::mem::replace(&mut self.seen[slot as usize], self.walk) != self.walk
    }
}

/// The neighbours of a slot on one level.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    count: &'a AtomicU32,
    slots: &'a [AtomicU32],
}

impl List<'_> {
    pub(super) fn len(self) -> usize {
        (self.count.load(Relaxed) as usize).min(self.slots.len())
    }

    pub(super) fn most(self) -> usize {
        self.slots.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots[..self.len()].iter().map(|slot| slot.load(Relaxed))
    }

    /// Puts a slot at the end. The count grows last, so that a reader never meets a place without a slot.
    pub(super) fn push(self, slot: u32) {
        let count = self.len();
        self.slots[count].store(slot, Relaxed);
        self.count.store(super::small(count + 1), Relaxed);
    }

    pub(super) fn replace(self, slots: &[u32]) {
        for (old, new) in self.slots.iter().zip(slots) {
            old.store(*new, Relaxed);
        }
        self.count.store(super::small(slots.len()), Relaxed);
    }
}

impl Graph {
    pub(super) fn list(&self, slot: u32, level: u8) -> List<'_> {
        let (lists, at, most) = if level == 0 {
            (&self.below, slot as usize * (MOST_BELOW + 1), MOST_BELOW)
        } else {
            let first = self.above_at[slot as usize] as usize;
            (&self.above, first + usize::from(level - 1) * (M + 1), M)
        };
        List { count: &lists[at], slots: &lists[at + 1..=at + most] }
    }

    /// The slots nearest to a query that a walk on one level finds with so many in view, the nearest first.
    pub(super) fn walk(
        &self,
        rows: Rows<'_>,
        query: &[f32],
        start: Place,
        (level, reach): (u8, usize),
        visited: &mut Visited,
        keeps: impl Fn(u32) -> bool,
    ) -> Vec<Place> {
        visited.begin(self.len());
        visited.is_new(start.slot());
        let mut ahead = BinaryHeap::from([Reverse(start)]);
        let mut best = BinaryHeap::with_capacity(reach + 1);
        if keeps(start.slot()) {
            best.push(start);
        }
        let mut fresh = Vec::with_capacity(MOST_BELOW);
        while let Some(Reverse(place)) = ahead.pop() {
            if best.len() >= reach && best.peek().is_some_and(|worst| place > *worst) {
                break;
            }
            fresh.clear();
            fresh.extend(self.list(place.slot(), level).iter().filter(|slot| visited.is_new(*slot)));
            // All are on their way from memory before the first is needed.
            for slot in &fresh {
                kernel::prefetch(rows.get(*slot));
            }
            for slot in &fresh {
                let next = Place::new(rows, query, *slot);
                if best.len() < reach || best.peek().is_some_and(|worst| next < *worst) {
                    ahead.push(Reverse(next));
                    if keeps(*slot) {
                        best.push(next);
                        if best.len() > reach {
                            best.pop();
                        }
                    }
                }
            }
        }
        best.into_sorted_vec()
    }
}
