//! The two questions that only SQLite's file control answers, in the one place with its raw calls.

use std::os::raw::{c_int, c_void};

use rusqlite::{Connection, ffi};

fn file_control<T>(connection: &Connection, op: c_int, value: &mut T) -> c_int {
    // SAFETY: the handle lives as long as `connection`, which this thread holds; both operations
    // used here write one integer of the size of `T` through the pointer.
    unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            op,
            std::ptr::from_mut(value).cast::<c_void>(),
        )
    }
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
