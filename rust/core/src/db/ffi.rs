//! Questions that only SQLite's raw calls answer, in the one place that makes them.

use std::os::raw::{c_int, c_void};

use rusqlite::{Connection, ffi};

use super::vfs;

fn file_control<T>(connection: &Connection, op: c_int, value: &mut T) -> c_int {
    // SAFETY: the handle lives as long as `connection`, which this thread holds; all operations
    // used here read or write one integer of the size of `T` through the pointer.
    unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            op,
            std::ptr::from_mut(value).cast::<c_void>(),
        )
    }
}

/// The system's number for what the last call failed on, where there was one.
pub fn system_errno(connection: &Connection) -> Option<c_int> {
    // SAFETY: the handle lives as long as `connection`, which this thread holds.
    let errno = unsafe { ffi::sqlite3_system_errno(connection.handle()) };
    (errno != 0).then_some(errno)
}

/// Whether the file was moved or unlinked since it was opened.
pub fn has_moved(connection: &Connection) -> bool {
    let mut moved: c_int = 0;
    file_control(connection, ffi::SQLITE_FCNTL_HAS_MOVED, &mut moved) == ffi::SQLITE_OK && moved != 0
}

/// A number that changes with every commit, this connection's own ones included.
pub fn data_version(connection: &Connection) -> Option<u32> {
    let mut version: u32 = 0;
    (file_control(connection, ffi::SQLITE_FCNTL_DATA_VERSION, &mut version) == ffi::SQLITE_OK)
        .then_some(version)
}

/// Says whether the next transaction of the connection takes the write lock before it reads anything.
///
/// It spares such a transaction four calls to the system; on a connection without our layer it does nothing.
pub fn announce_write(connection: &Connection, writes: bool) {
    let mut announced = c_int::from(writes);
    file_control(connection, vfs::ANNOUNCE, &mut announced);
}
