//! Pages of segments: read from the index when they are asked for, and kept while there is room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::build::Quickly;
use super::segment::slices;
use crate::chat::cell::lock;

const READ: &str = "SELECT body FROM amber_page WHERE id = ?1";
/// More bytes of pages are not kept.
const MOST: usize = 32 << 20;
/// A page's number has so many bits, the kind one above them.
const NUMBER_BITS: u32 = 23;

/// The number under which a page is stored.
pub(super) fn id(segment: i64, is_dictionary: bool, number: u32) -> i64 {
    segment << (NUMBER_BITS + 1) | i64::from(is_dictionary) << NUMBER_BITS | i64::from(number)
}

/// The numbers of all pages of a segment: the first one, and the first one that is not.
pub(super) fn ids(segment: i64) -> (i64, i64) {
    (id(segment, false, 0), id(segment + 1, false, 0))
}

type Kept = (Arc<Vec<u8>>, u64);

/// What is kept of all segments. A page never changes, and no number is given twice.
#[derive(Debug, Default)]
pub(super) struct Cache {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    pages: HashMap<i64, Kept, Quickly>,
    bytes: usize,
    clock: u64,
}

impl Cache {
    pub(super) fn clear(&self) {
        *lock(&self.table) = Table::default();
    }

    fn get(&self, id: i64) -> Option<Arc<Vec<u8>>> {
        let mut table = lock(&self.table);
        table.clock += 1;
        let clock = table.clock;
        table.pages.get_mut(&id).map(|(page, used)| {
            *used = clock;
            Arc::clone(page)
        })
    }

    fn keep(&self, id: i64, page: &Arc<Vec<u8>>) {
        let mut table = lock(&self.table);
        if table.bytes + page.len() > MOST {
            // Half of them go, those that were not used for longest: one search of a large index
            // must not look for the oldest page with each that it reads.
            let mut used: Vec<u64> = table.pages.values().map(|(_, used)| *used).collect();
            used.sort_unstable();
            let middle = used.get(used.len() / 2).copied().unwrap_or(0);
            table.pages.retain(|_, (_, used)| *used > middle);
            table.bytes = table.pages.values().map(|(page, _)| page.len()).sum();
        }
        table.clock += 1;
        let clock = table.clock;
        if table.pages.insert(id, (Arc::clone(page), clock)).is_none() {
            table.bytes += page.len();
        }
    }
}

/// The pages as one transaction sees them.
pub(super) struct Pages<'a> {
    pub(super) connection: &'a Connection,
    pub(super) cache: &'a Cache,
}

impl Pages<'_> {
    pub(super) fn get(
        &self,
        segment: i64,
        is_dictionary: bool,
        number: u32,
    ) -> rusqlite::Result<Arc<Vec<u8>>> {
        let id = id(segment, is_dictionary, number);
        if let Some(page) = self.cache.get(id) {
            return Ok(page);
        }
        let page: Vec<u8> = self.connection.prepare_cached(READ)?.query_row([id], |row| row.get(0))?;
        let page = Arc::new(page);
        self.cache.keep(id, &page);
        Ok(page)
    }

    /// Returns the record of a word.
    pub(super) fn record(&self, segment: i64, place: [u32; 2]) -> rusqlite::Result<Vec<u8>> {
        let mut whole = Vec::with_capacity((place[1] - place[0].min(place[1])) as usize);
        for (number, begin, end) in slices(place) {
            whole.extend_from_slice(self.get(segment, false, number)?.get(begin..end).unwrap_or_default());
        }
        Ok(whole)
    }
}
