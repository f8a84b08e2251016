//! The methods of a database file: runs of pages are read and copied with one call each, and a
//! transaction that writes takes one lock.

use std::os::raw::{c_int, c_void};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use super::ahead::{ReadAhead, Readable};
use super::copied::{Copied, Step};
use super::layer::{Layer, pass_by};
use super::locks::Locks;
use super::whereabouts::Whereabouts;

/// The file control by which a connection says whether its next transaction begins with the write lock.
/// SQLite leaves all numbers above 100 to others.
pub(crate) const ANNOUNCE: c_int = 0x616d_6201;

/// What is known of a database file.
#[derive(Debug, Default)]
pub(super) struct Database {
    ahead: ReadAhead,
    copied: Copied,
    locks: Locks,
    pub(super) whereabouts: Whereabouts,
    /// A number that changes whenever a lock does.
    pub(super) epoch: u64,
}

/// The system's own file.
struct System(*mut sqlite3_file);

impl Readable for System {
    fn size(&self) -> Result<i64, c_int> {
        let mut size = 0;
        // SAFETY: a `System` is made of a file that `open` made, for the time of one call.
        match unsafe { pass_by!(Database, self.0, xFileSize, &raw mut size) } {
            ffi::SQLITE_OK => Ok(size),
            failed => Err(failed),
        }
    }

    fn read(&self, into: &mut [u8], offset: i64) -> c_int {
        let Ok(count) = c_int::try_from(into.len()) else { return ffi::SQLITE_IOERR_READ };
        // SAFETY: as in `size`.
        unsafe { pass_by!(Database, self.0, xRead, into.as_mut_ptr().cast(), count, offset) }
    }
}

/// Writes what was copied and not written yet.
///
/// # Safety
/// `file` is a database that [`super::open`] made and that was not closed since.
unsafe fn flush(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the caller's promise; SQLite uses a file from one thread at a time.
    unsafe {
        let (bytes, start) = Layer::<Database>::state(file).copied.take();
        if bytes.is_empty() { ffi::SQLITE_OK } else { write_through(file, &bytes, start) }
    }
}

/// Writes past what was copied.
///
/// # Safety
/// As for [`flush`].
unsafe fn write_through(file: *mut sqlite3_file, bytes: &[u8], offset: i64) -> c_int {
    let Ok(count) = c_int::try_from(bytes.len()) else { return ffi::SQLITE_IOERR_WRITE };
    // SAFETY: the caller's promise.
    unsafe { pass_by!(Database, file, xWrite, bytes.as_ptr().cast(), count, offset) }
}

/// Calls a method after which the file may be another, when what was copied is in it.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls a method of a database with a file that `open` made and with arguments
        // that are good for the method of that name.
        unsafe {
            Layer::<Database>::state($file).changed();
            match flush($file) {
                ffi::SQLITE_OK => pass_by!(Database, $file, $method $(, $argument)*),
                failed => failed,
            }
        }
    }};
}

impl Database {
    fn changed(&mut self) {
        self.ahead.forget();
        self.epoch = self.epoch.wrapping_add(1);
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once.
    unsafe {
        Layer::<Database>::drop_state(file);
        pass_by!(Database, file, xClose)
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, count: c_int, offset: i64) -> c_int {
    let Ok(length) = usize::try_from(count) else { return ffi::SQLITE_IOERR_READ };
    // SAFETY: SQLite gives room for `count` bytes, and a file that `open` made.
    unsafe {
        let flushed = flush(file);
        if flushed != ffi::SQLITE_OK {
            return flushed;
        }
        let into = std::slice::from_raw_parts_mut(into.cast::<u8>(), length);
        Layer::<Database>::state(file).ahead.read(&System(file), into, offset, 0)
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, count: c_int, offset: i64) -> c_int {
    let Ok(length) = usize::try_from(count) else { return ffi::SQLITE_IOERR_WRITE };
    // SAFETY: SQLite hands over `count` bytes, and a file that `open` made.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), length);
        let state = Layer::<Database>::state(file);
        state.ahead.forget();
        match state.copied.add(bytes, offset) {
            Step::Wait => ffi::SQLITE_OK,
            Step::Full => flush(file),
            Step::Apart => match flush(file) {
                ffi::SQLITE_OK if Layer::<Database>::state(file).copied.add(bytes, offset) == Step::Wait => {
                    ffi::SQLITE_OK
                }
                ffi::SQLITE_OK => write_through(file, bytes, offset),
                failed => failed,
            },
        }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: as in `pass_on`.
    let outcome = pass_on!(file, xTruncate, size);
    // SAFETY: as above.
    unsafe { Layer::<Database>::state(file).copied.end() };
    outcome
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    pass_on!(file, xSync, flags)
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe {
        match flush(file) {
            ffi::SQLITE_OK => pass_by!(Database, file, xFileSize, size),
            failed => failed,
        }
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    let outcome = pass_on!(file, xLock, level);
    if outcome == ffi::SQLITE_OK {
        // SAFETY: as in `pass_on`.
        unsafe { Layer::<Database>::state(file).copied.is_alone = level == ffi::SQLITE_LOCK_EXCLUSIVE };
    }
    outcome
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe {
        let copied = &mut Layer::<Database>::state(file).copied;
        copied.is_alone = false;
        // Whatever is left is of a checkpoint that failed: it is in the log still.
        copied.end();
    }
    pass_on!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    pass_on!(file, xCheckReservedLock, answer)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    match op {
        ANNOUNCE => {
            // SAFETY: only `db::ffi` asks for this, with an integer to read; the file is one of ours.
            unsafe { Layer::<Database>::state(file).locks.announce(*argument.cast::<c_int>() != 0) };
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_HAS_MOVED => {
            let answer = argument.cast::<c_int>();
            // SAFETY: as in `pass_on`; SQLite has an integer written as the answer.
            unsafe {
                let look = || {
                    let outcome = pass_by!(Database, file, xFileControl, op, argument);
                    (outcome == ffi::SQLITE_OK).then(|| *answer != 0)
                };
                match Layer::<Database>::state(file).whereabouts.has_moved(look) {
                    Some(moved) => {
                        *answer = c_int::from(moved);
                        ffi::SQLITE_OK
                    }
                    None => ffi::SQLITE_NOTFOUND,
                }
            }
        }
        ffi::SQLITE_FCNTL_CKPT_START => {
            let outcome = pass_on!(file, xFileControl, op, argument);
            // SAFETY: as in `pass_on`.
            unsafe { Layer::<Database>::state(file).copied.begin() };
            outcome
        }
        // SQLite does not look at what this returns, so nothing that can fail is done yet.
        // SAFETY: as in `pass_on`.
        ffi::SQLITE_FCNTL_CKPT_DONE => unsafe { pass_by!(Database, file, xFileControl, op, argument) },
        _ => pass_on!(file, xFileControl, op, argument),
    }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(Database, file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { pass_by!(Database, file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    let outcome = pass_on!(file, xShmMap, region, size, extend, answer.cast());
    if region == 0 && outcome == ffi::SQLITE_OK {
        // SAFETY: as in `pass_on`; SQLite gave room for the answer.
        unsafe { Layer::<Database>::state(file).locks.map(*answer) };
    }
    outcome
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, slot: c_int, count: c_int, how: c_int) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe {
        let state = Layer::<Database>::state(file);
        state.changed();
        state.locks.request((slot, count, how), |slot, count, how| {
            pass_by!(Database, file, xShmLock, slot, count, how)
        })
    }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: as in `pass_on`.
    unsafe {
        let (inner, methods) = Layer::<Database>::under(file);
        if let Some(method) = methods.xShmBarrier {
            method(inner);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: as in `pass_on`.
    unsafe { Layer::<Database>::state(file).locks.map(std::ptr::null_mut()) };
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
