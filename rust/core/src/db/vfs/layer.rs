//! A file of ours over one of the system's.

use std::os::raw::c_int;

use rusqlite::ffi::{sqlite3_file, sqlite3_io_methods};

/// SQLite's file object of a layered file; the system's own one stands behind it in the same
/// allocation, which SQLite makes.
#[repr(C)]
pub(super) struct Layer<S> {
    /// First, since SQLite knows no more of a file than where its methods are.
    base: sqlite3_file,
    state: *mut S,
}

impl<S: Default> Layer<S> {
    /// How much room a layer takes before the system's file.
    pub(super) const SIZE: usize = size_of::<Self>();

    /// Turns `file`, behind whose room for a layer the system's own file is open, into a layered one.
    ///
    /// # Safety
    /// `file` points to the room that `super::register` asked for.
    pub(super) unsafe fn put(file: *mut sqlite3_file, methods: &'static sqlite3_io_methods) {
        let state = Box::into_raw(Box::<S>::default());
        // SAFETY: the caller's promise; SQLite aligns the room for pointers.
        unsafe { file.cast::<Self>().write(Self { base: sqlite3_file { pMethods: methods }, state }) }
    }

    /// What the layer knows.
    ///
    /// # Safety
    /// `file` is one that `put` made and that was not closed since; no other reference to its state is
    /// in use.
    pub(super) unsafe fn state<'a>(file: *mut sqlite3_file) -> &'a mut S {
        // SAFETY: the caller's promise, and only `drop_state` frees the state.
        unsafe { &mut *(*file.cast::<Self>()).state }
    }

    /// Frees what the layer knows, before the file is closed.
    ///
    /// # Safety
    /// As for [`Layer::state`], once.
    pub(super) unsafe fn drop_state(file: *mut sqlite3_file) {
        // SAFETY: `put` made it with `Box::into_raw`.
        drop(unsafe { Box::from_raw((*file.cast::<Self>()).state) });
    }

    /// The system's own file.
    ///
    /// # Safety
    /// `file` points to the room that `super::register` asked for.
    pub(super) unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
        // SAFETY: the room is for a layer and the system's file behind it.
        unsafe { file.cast::<Self>().add(1).cast() }
    }

    /// The system's own file and its methods.
    ///
    /// # Safety
    /// As for [`Layer::state`].
    pub(super) unsafe fn under(file: *mut sqlite3_file) -> (*mut sqlite3_file, &'static sqlite3_io_methods) {
        // SAFETY: the system's file is open, so its methods are set, and they are static.
        unsafe {
            let inner = Self::inner(file);
            (inner, &*(*inner).pMethods)
        }
    }
}

/// Gathered bytes that are written though more may follow. With one more page of the largest size they
/// stay below 128 KiB: SQLite's own layer takes the size of a call modulo that.
pub(super) const FULL: usize = 56 << 10;

/// What a method answers that the system's file does not have.
pub(super) const MISSING: c_int = rusqlite::ffi::SQLITE_IOERR;

/// Calls a method of the system's own file.
macro_rules! pass_by {
    ($state:ty, $file:expr, $method:ident $(, $argument:expr)*) => {{
        let (inner, methods) = $crate::db::vfs::layer::Layer::<$state>::under($file);
        match methods.$method {
            Some(method) => method(inner $(, $argument)*),
            None => $crate::db::vfs::layer::MISSING,
        }
    }};
}
pub(super) use pass_by;
