//! The layer between SQLite and the file system: fewer calls for the same bytes.
//!
//! The log is written with one call a transaction, runs of pages are read with one call each, and a
//! transaction that writes takes one lock. All else is what SQLite's own layer makes of it.

mod ahead;
mod copied;
mod database;
mod layer;
mod locks;
mod log;
#[cfg(test)]
mod tests;
mod whereabouts;

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

pub(crate) use database::ANNOUNCE;
use database::Database;
use layer::Layer;
use log::Log;
use whereabouts::Whereabouts;

const NAME: &CStr = c"amberlog";

/// The name of the layer, to open connections with; `None` when SQLite refused it.
pub fn file_system() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    (*REGISTERED.get_or_init(register) == ffi::SQLITE_OK).then_some(NAME)
}

fn register() -> c_int {
    // SAFETY: options of SQLite are set before anything uses it, or refused; the default file system
    // exists once it is initialised; all its fields are plain
    // values, and ours is leaked, so that SQLite may keep it.
    unsafe {
        // Nobody asks how much memory SQLite has, which it would count under a lock. Refused, and of no
        // account, where somebody was quicker to make it ready.
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
        let initialised = ffi::sqlite3_initialize();
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        let (ffi::SQLITE_OK, false) = (initialised, system.is_null()) else { return ffi::SQLITE_ERROR };
        whereabouts::watch_opens(system);
        let mut ours = std::ptr::read(system);
        let room = Layer::<Log>::SIZE.max(Layer::<Database>::SIZE);
        let Ok(room) = c_int::try_from(room) else { return ffi::SQLITE_ERROR };
        ours.szOsFile += room;
        ours.zName = NAME.as_ptr();
        ours.pNext = std::ptr::null_mut();
        ours.xOpen = Some(open);
        ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0)
    }
}

unsafe extern "C" fn open(
    _vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives the room that `register` asked for.
    unsafe {
        if flags & ffi::SQLITE_OPEN_WAL != 0 {
            let outcome = open_layered::<Log>(name, file, flags, out_flags, &log::METHODS);
            if outcome == ffi::SQLITE_OK {
                // SQLite opens a log under the name that it made for it, beside the file that it is of.
                Layer::<Log>::state(file).belongs_to(ffi::sqlite3_database_file_object(name));
            }
            outcome
        } else if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            let (outcome, whereabouts) = Whereabouts::learn(|| {
                open_layered::<Database>(name, file, flags, out_flags, &database::METHODS)
            });
            if outcome == ffi::SQLITE_OK {
                Layer::<Database>::state(file).whereabouts = whereabouts;
            }
            outcome
        } else {
            open_system(name, file, flags, out_flags)
        }
    }
}

/// Opens a file of the system with a layer over it.
///
/// # Safety
/// `file` points to the room that `register` asked for.
unsafe fn open_layered<S: Default>(
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
    methods: &'static sqlite3_io_methods,
) -> c_int {
    // SAFETY: the caller's promise. A file without methods is one that is not open.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let outcome = open_system(name, Layer::<S>::inner(file), flags, out_flags);
        if outcome == ffi::SQLITE_OK {
            Layer::<S>::put(file, methods);
        }
        outcome
    }
}

/// Opens a file of the system as it is.
///
/// # Safety
/// `file` points to room for a file of the system.
unsafe fn open_system(
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the default file system of SQLite is never taken away.
    unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        match system.as_ref().and_then(|system| system.xOpen) {
            Some(open) => open(system, name, file, flags, out_flags),
            None => ffi::SQLITE_CANTOPEN,
        }
    }
}
