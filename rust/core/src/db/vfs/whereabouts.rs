//! Tells whether a file was moved or unlinked without a walk along its path each time.
//!
//! A file that is unlinked or renamed has another number of links or another time of change. While an
//! open descriptor shows neither, the path need not be asked; a directory above it that was renamed is
//! noticed by a look at the path every now and then.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::raw::{c_char, c_int};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::ffi::sqlite3_vfs;
use rustix::fs::{Stat, fstat};

/// How many answers in a row may be without a look at the path.
const UNSEEN: u32 = 63;
/// Nanoseconds within which two changes of a file may bear the same time: more than one tick of a
/// system's clock.
const TICK: i128 = 20_000_000;

type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;

static SYSTEM_OPEN: OnceLock<Open> = OnceLock::new();

thread_local! {
    static OPENED: Cell<RawFd> = const { Cell::new(-1) };
}

/// Has SQLite's own layer open files by way of here, where it lets one do so.
///
/// # Safety
/// `system` is a file system of SQLite's, and nobody opens a file with it meanwhile.
pub(super) unsafe fn watch_opens(system: *mut sqlite3_vfs) {
    // SAFETY: the caller's promise; the function of that name has the type `Open` in the layers for Unix,
    // which are the only ones that name it so.
    unsafe {
        let (Some(get), Some(set)) = ((*system).xGetSystemCall, (*system).xSetSystemCall) else { return };
        let Some(found) = get(system, c"open".as_ptr()) else { return };
        let open: Open = std::mem::transmute::<unsafe extern "C" fn(), Open>(found);
        if SYSTEM_OPEN.set(open).is_ok() {
            let ours = std::mem::transmute::<Open, unsafe extern "C" fn()>(open_and_note);
            set(system, c"open".as_ptr(), Some(ours));
        }
    }
}

unsafe extern "C" fn open_and_note(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    let Some(open) = SYSTEM_OPEN.get() else { return -1 };
    // SAFETY: SQLite's own arguments, passed on.
    let opened = unsafe { open(path, flags, mode) };
    OPENED.with(|last| last.set(opened));
    opened
}

/// Where a file was when somebody looked at its path.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// SQLite's own descriptor of the file; none where it could not be learnt.
    descriptor: Option<RawFd>,
    /// What the descriptor showed when the path led to it.
    seen: Option<Stat>,
    /// How many answers were given since.
    answers: u32,
}

impl Whereabouts {
    /// Opens a file with `open` and learns its descriptor, which must stay open as long as this lives.
    pub(super) fn learn(open: impl FnOnce() -> c_int) -> (c_int, Self) {
        OPENED.with(|last| last.set(-1));
        let outcome = open();
        let descriptor = Some(OPENED.with(Cell::get)).filter(|descriptor| *descriptor >= 0);
        (outcome, Self { descriptor, ..Self::default() })
    }

    /// Whether the file was moved; `look` asks the path.
    pub(super) fn has_moved(&mut self, look: impl FnOnce() -> Option<bool>) -> Option<bool> {
        // SAFETY: SQLite closes the descriptor with the file, and this is dropped before.
        let now = self.descriptor.and_then(|found| fstat(unsafe { BorrowedFd::borrow_raw(found) }).ok());
        let is_same = |seen: &Stat| now.as_ref().is_some_and(|now| stamp(now) == stamp(seen));
        if self.answers < UNSEEN && self.seen.as_ref().is_some_and(is_same) {
            self.answers += 1;
            return Some(false);
        }
        let moved = look();
        self.answers = 0;
        self.seen = now.filter(|now| moved == Some(false) && is_settled(now));
        moved
    }
}

fn stamp(stat: &Stat) -> impl PartialEq + use<> {
    (stat.st_nlink, stat.st_ctime, stat.st_ctime_nsec)
}

/// Whether a change after this one bears another time.
pub(super) fn is_settled(stat: &Stat) -> bool {
    let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let now = now.and_then(|now| i128::try_from(now.as_nanos()).ok());
    now.is_some_and(|now| now - changed > TICK)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// A file that changed long ago, as far as its descriptor shows.
    fn settled() -> (tempfile::TempDir, std::path::PathBuf, std::fs::File, Whereabouts) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.db");
        let file = std::fs::File::create(&path).unwrap();
        while !is_settled(&fstat(&file).unwrap()) {
            std::thread::yield_now();
        }
        let whereabouts = Whereabouts { descriptor: Some(file.as_raw_fd()), ..Whereabouts::default() };
        (directory, path, file, whereabouts)
    }

    #[test]
    fn the_path_is_asked_once_while_the_file_is_as_it_was() {
        let (_directory, _path, _file, mut whereabouts) = settled();

        assert_eq!(whereabouts.has_moved(|| Some(false)), Some(false));
        assert_eq!(whereabouts.has_moved(|| panic!("asked again")), Some(false));
    }

    #[test]
    fn a_file_that_is_renamed_or_unlinked_has_its_path_asked_at_once() {
        for unlinked in [false, true] {
            let (_directory, path, _file, mut whereabouts) = settled();

            whereabouts.has_moved(|| Some(false));
            if unlinked {
                std::fs::remove_file(&path).unwrap();
            } else {
                std::fs::rename(&path, path.with_extension("moved")).unwrap();
            }

            assert_eq!(whereabouts.has_moved(|| Some(true)), Some(true));
        }
    }

    #[test]
    fn a_directory_that_is_renamed_is_noticed_after_a_while() {
        let (_directory, _path, _file, mut whereabouts) = settled();

        whereabouts.has_moved(|| Some(false));
        let answers = (0..=UNSEEN).map(|_| whereabouts.has_moved(|| Some(true)));

        assert_eq!(answers.filter(|moved| *moved == Some(true)).count(), 1);
    }
}
