//! Reads runs of pages with one call each.
//!
//! A long value is a chain of pages that mostly stand one behind the other, and SQLite reads each with
//! a call of its own: five hundred for a conversation in pages of one kilobyte. Here the second page in
//! a row brings those behind it along.
//!
//! What was read ahead is good as long as no lock is taken or given up: pages that a transaction reads
//! from the file, and not from the log, do not change under it, for a checkpoint may not write over
//! them before the transaction ends (<https://sqlite.org/wal.html#checkpointing>).

use std::os::raw::{c_int, c_void};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use super::layer::{Layer, pass_by};

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

impl ReadAhead {
    /// The bytes of a read, when all of them are here.
    fn find(&self, offset: i64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Whether a read goes on where the last one ended.
    fn goes_on(&self, offset: i64, length: usize) -> bool {
        offset == self.next && length >= PAGE
    }

    /// Forgets what was read: from here on the file may change.
    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Reads the pages behind `offset` too, as far as the file goes.
///
/// # Safety
/// `file` is a database that [`super::open`] made and that was not closed since.
unsafe fn fill(file: *mut sqlite3_file, offset: i64, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut size = 0;
        let outcome = pass_by!(ReadAhead, file, xFileSize, &raw mut size);
        if outcome != ffi::SQLITE_OK {
            return outcome;
        }
        let ahead = Layer::<ReadAhead>::state(file);
        ahead.run = (ahead.run * 2).clamp(FIRST, MOST).max(length);
        let there = usize::try_from(size - offset).unwrap_or(0).min(ahead.run);
        let Some(count) = c_int::try_from(there).ok().filter(|_| there >= length) else {
            ahead.bytes.clear();
            return ffi::SQLITE_OK;
        };
        // What is there of the last run is overwritten, and not cleared first.
        ahead.bytes.resize(there, 0);
        ahead.start = offset;
        let outcome = pass_by!(ReadAhead, file, xRead, ahead.bytes.as_mut_ptr().cast(), count, offset);
        if outcome != ffi::SQLITE_OK {
            ahead.bytes.clear();
        }
        outcome
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, count: c_int, offset: i64) -> c_int {
    let Ok(length) = usize::try_from(count) else { return ffi::SQLITE_IOERR_READ };
    // SAFETY: SQLite gives room for `count` bytes, and a file that `open` made.
    unsafe {
        let ahead = Layer::<ReadAhead>::state(file);
        if ahead.find(offset, length).is_none() && ahead.goes_on(offset, length) {
            let outcome = fill(file, offset, length);
            if outcome != ffi::SQLITE_OK {
                return outcome;
            }
        }
        let ahead = Layer::<ReadAhead>::state(file);
        ahead.next = offset.saturating_add(i64::from(count));
        if let Some(found) = ahead.find(offset, length) {
            std::ptr::copy_nonoverlapping(found.as_ptr(), into.cast::<u8>(), length);
            return ffi::SQLITE_OK;
        }
        pass_by!(ReadAhead, file, xRead, into, count, offset)
    }
}

/// Calls a method after which the file may be another.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls a method of a database with a file that `open` made and with arguments
        // that are good for the method of that name.
        unsafe {
            Layer::<ReadAhead>::state($file).forget();
            pass_by!(ReadAhead, $file, $method $(, $argument)*)
        }
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once.
    unsafe {
        Layer::<ReadAhead>::drop_state(file);
        pass_by!(ReadAhead, file, xClose)
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, count: c_int, offset: i64) -> c_int {
    pass_on!(file, xWrite, from, count, offset)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    pass_on!(file, xTruncate, size)
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    pass_on!(file, xSync, flags)
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(ReadAhead, file, xFileSize, size) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    pass_on!(file, xCheckReservedLock, answer)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    pass_on!(file, xFileControl, op, argument)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(ReadAhead, file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(ReadAhead, file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    pass_on!(file, xShmMap, region, size, extend, answer.cast())
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, slot: c_int, count: c_int, how: c_int) -> c_int {
    pass_on!(file, xShmLock, slot, count, how)
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: as in `pass_on`.
    unsafe {
        let (inner, methods) = Layer::<ReadAhead>::under(file);
        if let Some(method) = methods.xShmBarrier {
            method(inner);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    pass_on!(file, xShmUnmap, delete)
}

/// Version 2: nothing is mapped, since a mapped file that another process cuts short ends this one.
pub(super) static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::db::open;

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
