//! Writes what a transaction adds to the log with one call, and reads runs of it with one call each.
//!
//! SQLite writes each page of a commit with two calls, one for the 24 bytes of the frame's header and
//! one for the page: eight calls for the append of one event, and most of its time. Here frames are
//! gathered as they come, and written when the frame that commits is complete, before SQLite tells
//! anybody of it.
//!
//! The format of the log is SQLite's (<https://sqlite.org/fileformat2.html#the_write_ahead_log>);
//! nothing in it changes.

use std::os::raw::{c_int, c_void};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use super::ahead::{ReadAhead, Readable};
use super::database::Database;
use super::layer::{FULL, Layer, pass_by};

const FRAME_HEADER: usize = 24;
/// Bytes between two pages of the log: the header of the second one's frame.
const GAP: i64 = 24;
/// Room that a log keeps between transactions.
const KEPT: usize = 16 << 10;

/// Frames that SQLite has handed over and that are not in the file yet.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Where the first of them belongs.
    start: i64,
    /// Where the page of the last header belongs, until it comes.
    page_at: Option<i64>,
    /// Whether the frame of that page ends its transaction.
    commits: bool,
    /// Whether every write goes straight to the file until the log starts anew.
    ///
    /// A transaction larger than the cache may write a page over an earlier frame of its own. SQLite
    /// then writes headers of older frames again, which nothing follows that would end the gathering.
    straight: bool,
}

/// What is to be done with a write.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing yet: more belongs to it.
    Wait,
    /// The gathered bytes, this write among them, are to be written.
    Write,
    /// The gathered bytes are to be written, then this write by itself.
    Apart,
}

impl Gathered {
    fn end(&self) -> i64 {
        self.start + i64::try_from(self.bytes.len()).unwrap_or(i64::MAX)
    }

    /// Whether a write at `offset` goes where the gathered bytes end, or nothing is gathered.
    fn goes_on(&self, offset: i64) -> bool {
        self.bytes.is_empty() || offset == self.end()
    }

    /// Takes a write that goes on from the gathered bytes.
    fn take(&mut self, bytes: &[u8], offset: i64) -> Step {
        if offset == 0 {
            self.straight = false;
            return Step::Apart;
        }
        let page_at = self.page_at.take();
        if self.straight {
            return Step::Apart;
        }
        if bytes.len() == FRAME_HEADER {
            if self.bytes.is_empty() {
                self.start = offset;
            }
            self.bytes.extend_from_slice(bytes);
            self.page_at = Some(self.end());
            // The size of the database after the commit; zero in a frame that does not end one.
            self.commits = bytes[4..8] != [0; 4];
            return Step::Wait;
        }
        if page_at != Some(offset) {
            self.straight = true;
            return Step::Apart;
        }
        self.bytes.extend_from_slice(bytes);
        if self.commits || self.bytes.len() >= FULL { Step::Write } else { Step::Wait }
    }
}

/// What is known of a log.
#[derive(Debug)]
pub(super) struct Log {
    gathered: Gathered,
    ahead: ReadAhead,
    /// The database that it is of, which SQLite closes after it.
    database: *mut sqlite3_file,
    /// Which locks of that one there were when something was read ahead.
    epoch: u64,
}

impl Default for Log {
    fn default() -> Self {
        let (gathered, ahead) = (Gathered::default(), ReadAhead::default());
        Self { gathered, ahead, database: std::ptr::null_mut(), epoch: 0 }
    }
}

impl Log {
    /// Notes which database it is of.
    pub(super) fn belongs_to(&mut self, database: *mut sqlite3_file) {
        self.database = database;
    }
}

/// The system's own file.
struct System(*mut sqlite3_file);

impl Readable for System {
    fn size(&self) -> Result<i64, c_int> {
        let mut size = 0;
        // SAFETY: a `System` is made of a file that `open` made, for the time of one call.
        match unsafe { pass_by!(Log, self.0, xFileSize, &raw mut size) } {
            ffi::SQLITE_OK => Ok(size),
            failed => Err(failed),
        }
    }

    fn read(&self, into: &mut [u8], offset: i64) -> c_int {
        let Ok(count) = c_int::try_from(into.len()) else { return ffi::SQLITE_IOERR_READ };
        // SAFETY: as in `size`.
        unsafe { pass_by!(Log, self.0, xRead, into.as_mut_ptr().cast(), count, offset) }
    }
}

/// Writes what was gathered.
///
/// # Safety
/// `file` is a log that [`super::open`] made and that was not closed since.
unsafe fn flush(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the caller's promise; SQLite uses a file from one thread at a time.
    let gathered = unsafe { &mut Layer::<Log>::state(file).gathered };
    gathered.page_at = None;
    if gathered.bytes.is_empty() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: as above; the bytes live until the call returns.
    let outcome = unsafe { write_through(file, &gathered.bytes, gathered.start) };
    // After an error SQLite undoes the transaction, and the next one is written to the same place.
    gathered.bytes.clear();
    gathered.bytes.shrink_to(KEPT);
    outcome
}

/// Writes past what is gathered.
///
/// # Safety
/// As for [`flush`].
unsafe fn write_through(file: *mut sqlite3_file, bytes: &[u8], offset: i64) -> c_int {
    // At most `FULL` and one page of bytes, or what SQLite gave as an `int`.
    let Ok(count) = c_int::try_from(bytes.len()) else { return ffi::SQLITE_IOERR_WRITE };
    // SAFETY: the caller's promise.
    unsafe { pass_by!(Log, file, xWrite, bytes.as_ptr().cast(), count, offset) }
}

/// Calls a method of the system's own file, after what was gathered is in it.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls a method of a log with a file that `open` made and with arguments that
        // are good for the method of that name.
        unsafe {
            match flush($file) {
                ffi::SQLITE_OK => pass_by!(Log, $file, $method $(, $argument)*),
                failed => failed,
            }
        }
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once.
    unsafe {
        let flushed = flush(file);
        Layer::<Log>::drop_state(file);
        let closed = pass_by!(Log, file, xClose);
        if flushed == ffi::SQLITE_OK { closed } else { flushed }
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, count: c_int, offset: i64) -> c_int {
    let Ok(length) = usize::try_from(count) else { return ffi::SQLITE_IOERR_READ };
    // SAFETY: SQLite gives room for `count` bytes, and a file that `open` made; the database, which SQLite
    // opened by way of the same layer, is closed after its log.
    unsafe {
        let flushed = flush(file);
        if flushed != ffi::SQLITE_OK {
            return flushed;
        }
        let into = std::slice::from_raw_parts_mut(into.cast::<u8>(), length);
        let log = Layer::<Log>::state(file);
        if log.database.is_null() {
            return System(file).read(into, offset);
        }
        let epoch = Layer::<Database>::state(log.database).epoch;
        if epoch != log.epoch {
            log.ahead.forget();
            log.epoch = epoch;
        }
        log.ahead.read(&System(file), into, offset, GAP)
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, count: c_int, offset: i64) -> c_int {
    let Ok(length) = usize::try_from(count) else { return ffi::SQLITE_IOERR_WRITE };
    // SAFETY: SQLite hands over `count` bytes, and a file that `open` made.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), length);
        Layer::<Log>::state(file).ahead.forget();
        if !Layer::<Log>::state(file).gathered.goes_on(offset) {
            let flushed = flush(file);
            if flushed != ffi::SQLITE_OK {
                return flushed;
            }
        }
        match Layer::<Log>::state(file).gathered.take(bytes, offset) {
            Step::Wait => ffi::SQLITE_OK,
            Step::Write => flush(file),
            Step::Apart => match flush(file) {
                ffi::SQLITE_OK => write_through(file, bytes, offset),
                failed => failed,
            },
        }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { Layer::<Log>::state(file).ahead.forget() };
    pass_on!(file, xTruncate, size)
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    pass_on!(file, xSync, flags)
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    pass_on!(file, xFileSize, size)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    pass_on!(file, xFileControl, op, argument)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(Log, file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(Log, file, xDeviceCharacteristics) }
}

/// Version 1: a log is neither locked nor mapped.
pub(super) static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: None,
    xUnlock: None,
    xCheckReservedLock: None,
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use rusqlite::Connection;

    use super::{FRAME_HEADER, Gathered, Step};
    use crate::db::open;

    /// Numbers without a pattern, the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    fn header(commits: bool) -> [u8; FRAME_HEADER] {
        let mut header = [7; FRAME_HEADER];
        header[4..8].copy_from_slice(&u32::from(commits).to_be_bytes());
        header
    }

    #[test]
    fn frames_wait_for_the_one_that_commits() {
        let mut gathered = Gathered::default();

        let steps = [
            gathered.take(&header(false), 32),
            gathered.take(&[1; 512], 56),
            gathered.take(&header(true), 568),
            gathered.take(&[2; 512], 592),
        ];

        assert_eq!(steps, [Step::Wait, Step::Wait, Step::Wait, Step::Write]);
        assert_eq!((gathered.start, gathered.bytes.len()), (32, 2 * (FRAME_HEADER + 512)));
    }

    #[test]
    fn a_page_over_an_older_frame_ends_the_gathering_until_the_log_starts_anew() {
        let mut gathered = Gathered::default();

        let over = gathered.take(&[1; 512], 56);
        let rewritten = gathered.take(&header(true), 32);
        let anew = gathered.take(&[0; 32], 0);
        let next = gathered.take(&header(true), 32);

        assert_eq!([over, rewritten, anew, next], [Step::Apart, Step::Apart, Step::Apart, Step::Wait]);
    }

    fn rows(connection: &Connection) -> BTreeMap<i64, Vec<u8>> {
        let mut select = connection.prepare("SELECT k, v FROM t").unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    /// What a kill at this moment would leave, read by SQLite's own file layer.
    fn rows_after_a_kill(path: &Path, directory: &Path) -> BTreeMap<i64, Vec<u8>> {
        let copy = directory.join("copy.db");
        std::fs::copy(path, &copy).unwrap();
        std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
        let left = Connection::open(&copy).unwrap();
        let sound: String = left.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        rows(&left)
    }

    /// Some statements, by the dice; the model of what they leave.
    fn change(
        writer: &Connection,
        dice: &mut Dice,
        mut model: BTreeMap<i64, Vec<u8>>,
    ) -> BTreeMap<i64, Vec<u8>> {
        for _ in 0..=dice.below(40) {
            let key = i64::try_from(dice.below(300)).unwrap();
            let value =
                vec![u8::try_from(dice.below(256)).unwrap(); usize::try_from(dice.below(4_000)).unwrap()];
            writer.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (key, &value)).unwrap();
            model.insert(key, value);
        }
        model
    }

    #[test]
    fn what_is_committed_is_in_the_file_however_the_transaction_went() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.db");
        let writer = open::writable(&path).unwrap();
        // So few pages that most transactions write some of theirs early, and again.
        writer
            .execute_batch(
                "PRAGMA cache_spill=ON; PRAGMA cache_size=8; CREATE TABLE t (k INTEGER PRIMARY KEY, v)",
            )
            .unwrap();
        let other = Connection::open(&path).unwrap();
        let (mut dice, mut model) = (Dice(20), BTreeMap::new());

        for round in 0..120 {
            writer.execute_batch("BEGIN IMMEDIATE").unwrap();
            let changed = change(&writer, &mut dice, model.clone());
            match dice.below(4) {
                0 => writer.execute_batch("ROLLBACK").unwrap(),
                1 => {
                    writer.execute_batch("SAVEPOINT s").unwrap();
                    change(&writer, &mut dice, BTreeMap::new());
                    writer.execute_batch("ROLLBACK TO s; COMMIT").unwrap();
                    model = changed;
                }
                _ => {
                    writer.execute_batch("COMMIT").unwrap();
                    model = changed;
                }
            }
            assert_eq!(rows(&other), model, "round {round}");
            assert_eq!(rows_after_a_kill(&path, directory.path()), model, "round {round}");
            if dice.below(8) == 0 {
                open::checkpoint(&other, open::Checkpoint::Passive).unwrap();
            }
        }
    }
}
