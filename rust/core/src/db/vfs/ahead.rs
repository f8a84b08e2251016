//! Reads runs of pages with one call each.
//!
//! A long value is a chain of pages that mostly stand one behind the other, and SQLite reads each with
//! a call of its own: five hundred for a conversation in pages of one kilobyte. Here the second page in
//! a row brings those behind it along.
//!
//! What was read ahead is good as long as no lock is taken or given up, and nothing is written: pages
//! that a transaction reads from the database, and not from the log, do not change under it, for a
//! checkpoint may not write over them before the transaction ends
//! (<https://sqlite.org/wal.html#checkpointing>); and no more do the frames of the log that it sees, for
//! the log may not begin anew before.

use std::os::raw::c_int;

use rusqlite::ffi;

/// Bytes that the first run brings along; each further one twice as many, up to `MOST`.
const FIRST: usize = 8 << 10;
const MOST: usize = 64 << 10;
/// The size of SQLite's smallest page. Shorter reads are of headers, which nobody reads in a row.
const PAGE: usize = 512;

/// What was read before it was asked for.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    /// Where the first of them stands in the file.
    start: i64,
    /// Where the last read ended.
    next: i64,
    /// How many bytes the next run brings along.
    run: usize,
}

/// The system's own file, as far as it is read.
pub(super) trait Readable {
    /// How long the file is.
    fn size(&self) -> Result<i64, c_int>;
    /// Fills `into` from `offset` on.
    fn read(&self, into: &mut [u8], offset: i64) -> c_int;
}

impl ReadAhead {
    /// The bytes of a read, when all of them are here.
    fn find(&self, offset: i64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Forgets what was read: from here on the file may change.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Reads bytes of a file whose pages stand `gap` bytes apart.
    pub(super) fn read(&mut self, file: &impl Readable, into: &mut [u8], offset: i64, gap: i64) -> c_int {
        if self.find(offset, into.len()).is_none() {
            let goes_on = offset == self.next || offset == self.next.saturating_add(gap);
            if goes_on && into.len() >= PAGE {
                let outcome = self.fill(file, offset, into.len());
                if outcome != ffi::SQLITE_OK {
                    return outcome;
                }
            }
        }
        self.next = offset.saturating_add(i64::try_from(into.len()).unwrap_or(i64::MAX));
        match self.find(offset, into.len()) {
            Some(found) => {
                into.copy_from_slice(found);
                ffi::SQLITE_OK
            }
            None => file.read(into, offset),
        }
    }

    /// Reads what is behind `offset` too, as far as the file goes.
    fn fill(&mut self, file: &impl Readable, offset: i64, length: usize) -> c_int {
        let size = match file.size() {
            Ok(size) => size,
            Err(failed) => return failed,
        };
        self.run = (self.run * 2).clamp(FIRST, MOST).max(length);
        let there = usize::try_from(size - offset).unwrap_or(0).min(self.run);
        if there < length {
            self.bytes.clear();
            return ffi::SQLITE_OK;
        }
        // What is there of the last run is overwritten, and not cleared first.
        self.bytes.resize(there, 0);
        self.start = offset;
        let outcome = file.read(&mut self.bytes, offset);
        if outcome != ffi::SQLITE_OK {
            self.bytes.clear();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rusqlite::Connection;

    use super::{FIRST, ReadAhead, Readable, c_int, ffi};
    use crate::db::open;

    /// A file in memory that counts the calls.
    struct Counted {
        bytes: Vec<u8>,
        reads: Cell<usize>,
    }

    impl Readable for Counted {
        fn size(&self) -> Result<i64, c_int> {
            Ok(i64::try_from(self.bytes.len()).unwrap())
        }

        fn read(&self, into: &mut [u8], offset: i64) -> c_int {
            self.reads.set(self.reads.get() + 1);
            let from = usize::try_from(offset).unwrap();
            into.copy_from_slice(&self.bytes[from..from + into.len()]);
            ffi::SQLITE_OK
        }
    }

    #[test]
    fn pages_with_headers_between_them_are_read_in_runs_too() {
        let file =
            Counted { bytes: (0..4 * FIRST).map(|at| at.to_le_bytes()[0]).collect(), reads: Cell::new(0) };
        let mut ahead = ReadAhead::default();

        for at in (0..7).map(|page| 56 + page * 1048) {
            let mut page = [0; 1024];
            ahead.read(&file, &mut page, i64::try_from(at).unwrap(), 24);
            assert_eq!(page, file.bytes[at..at + 1024]);
        }

        assert_eq!(file.reads.get(), 2);
    }

    /// Blobs of some hundred pages each, every byte of the value given.
    fn fill(writer: &Connection, value: u8) {
        for (key, length) in [(1, 300_000), (2, 1_000), (3, 301_000), (4, 12_345)] {
            let blob = vec![value; length];
            writer.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (key, &blob)).unwrap();
        }
    }

    /// Which byte all blobs are made of; `None` when they are not of one.
    fn value_of(reader: &Connection) -> Option<u8> {
        let mut select = reader.prepare("SELECT v FROM t ORDER BY k").unwrap();
        let blobs = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        let bytes: Vec<u8> = blobs.map(Result::unwrap).collect::<Vec<_>>().concat();
        bytes.iter().all(|byte| *byte == bytes[0]).then(|| bytes[0])
    }

    #[test]
    fn what_was_read_ahead_is_never_older_or_newer_than_the_transaction() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.db");
        let writer = open::writable(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v)").unwrap();
        fill(&writer, 0);
        let reader = open::reader(&path).unwrap();
        // Nothing is remembered but what is read ahead.
        reader.execute_batch("PRAGMA cache_size=4").unwrap();

        for round in 1..20_u8 {
            reader.execute_batch("BEGIN").unwrap();
            assert_eq!(value_of(&reader), Some(round - 1));
            fill(&writer, round);
            open::checkpoint(&writer, open::Checkpoint::Passive).unwrap();
            assert_eq!(value_of(&reader), Some(round - 1));
            reader.execute_batch("COMMIT").unwrap();
            assert_eq!(value_of(&reader), Some(round));
            open::checkpoint(&writer, open::Checkpoint::Passive).unwrap();
            assert_eq!(value_of(&reader), Some(round));
        }
    }
}
