//! Which slots become neighbours.

use std::sync::Mutex;

use super::walk::Place;
use super::{Graph, M, Rows, STRIPES, lock};

impl Graph {
    /// Links a slot with the best of those near it, and these with the slot.
    pub(super) fn connect(&self, rows: Rows<'_>, slot: u32, level: u8, near: &[Place], locks: &[Mutex<()>]) {
        let chosen = choose(rows, near, M);
        {
            let _held = lock(&locks[slot as usize % STRIPES]);
            self.merge(rows, slot, level, &chosen);
        }
        for other in chosen {
            let _held = lock(&locks[other as usize % STRIPES]);
            self.merge(rows, other, level, &[slot]);
        }
    }

    /// Adds neighbours to a list, and chooses again among all where it is full. Under the slot's lock.
    fn merge(&self, rows: Rows<'_>, slot: u32, level: u8, added: &[u32]) {
        let list = self.list(slot, level);
        let new: Vec<u32> =
            added.iter().copied().filter(|one| list.iter().all(|held| held != *one)).collect();
        if list.len() + new.len() <= list.most() {
            for one in new {
                list.push(one);
            }
            return;
        }
        let own = rows.get(slot);
        let mut all: Vec<Place> = list.iter().chain(new).map(|one| Place::new(rows, own, one)).collect();
        all.sort_unstable();
        list.replace(&choose(rows, &all, list.most()));
    }
}

/// At most so many of the nearest that are nearer to the slot than to each other, so that links go in
/// every direction.
fn choose(rows: Rows<'_>, near: &[Place], most: usize) -> Vec<u32> {
    if near.len() <= most {
        return near.iter().map(|place| place.slot()).collect();
    }
    let mut chosen: Vec<u32> = Vec::with_capacity(most);
    for place in near {
        let row = rows.get(place.slot());
        if chosen.iter().all(|other| Place::new(rows, row, *other).distance() >= place.distance()) {
            chosen.push(place.slot());
            if chosen.len() == most {
                break;
            }
        }
    }
    chosen
}
