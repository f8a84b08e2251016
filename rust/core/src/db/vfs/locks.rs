//! Spares a transaction that writes from its first moment the lock calls that it can do without.
//!
//! SQLite lets a writer lock a read mark of the log too: it moves a mark to where the log ends, locks
//! it, takes the write lock, and gives both up in the end, with six calls in all. A read mark keeps
//! others from two things while a transaction reads (<https://sqlite.org/walformat.html#wal_locks>):
//!
//! - from beginning the log anew, which takes the write lock as well, so that its holder needs no mark;
//! - from writing frames behind what the transaction sees back into the database. There are none for
//!   the holder of the write lock that sees the newest commit, since nobody else can commit.
//!
//! So the write lock is taken when SQLite asks for the read mark, and given up when SQLite gives up the
//! read mark; of the mark's own lock SQLite only believes to have it. SQLite looks at the header of the
//! log after it got a read mark and starts over if that changed, as it then does here: what it goes on
//! from is the newest commit. If the write lock is taken by another, all goes SQLite's own way.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::ffi;

/// The slots of the locks: the writer's, and those of the read marks that stand for a part of the log.
const WRITE: c_int = 0;
const MARKS: std::ops::RangeInclusive<c_int> = 4..=7;
/// Where the index of the log has, in numbers of four bytes, the last frame and the marks of `MARKS`.
const LAST_FRAME: usize = 4;
const FIRST_MARK: usize = 26;

const EXCLUSIVE: c_int = ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_EXCLUSIVE;
const SHARED: c_int = ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_SHARED;
const NOT_EXCLUSIVE: c_int = ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_EXCLUSIVE;
const NOT_SHARED: c_int = ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_SHARED;

/// Who knows of the write lock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Nobody: it is not held.
    #[default]
    Free,
    /// The system alone: SQLite has not asked for it yet.
    Early,
    /// Both.
    Held,
    /// The system alone: SQLite has given it up and still reads.
    Owed,
}

/// The locks of a connection where SQLite believes something else of them than the system knows.
#[derive(Debug)]
pub(super) struct Locks {
    /// Whether the next transaction writes from its first moment.
    is_announced: bool,
    write: Write,
    /// The read mark that SQLite believes to be locked.
    spared: Option<c_int>,
    /// The beginning of the log's index, which processes share.
    index: *const AtomicU32,
}

impl Default for Locks {
    fn default() -> Self {
        Self { is_announced: false, write: Write::Free, spared: None, index: std::ptr::null() }
    }
}

impl Locks {
    /// Notes whether the next transaction is one that begins with the write lock.
    pub(super) fn announce(&mut self, writes: bool) {
        self.is_announced = writes;
    }

    /// Notes where the index of the log was mapped; null when it is unmapped.
    pub(super) fn map(&mut self, region: *mut c_void) {
        self.index = region.cast_const().cast();
    }

    /// Takes or gives up what SQLite asks for, with `system` where the system must know of it.
    pub(super) fn request(
        &mut self,
        (slot, count, how): (c_int, c_int, c_int),
        system: impl Fn(c_int, c_int, c_int) -> c_int,
    ) -> c_int {
        let is_mark = count == 1 && MARKS.contains(&slot);
        match how {
            // SQLite then takes the best mark that there is.
            EXCLUSIVE if is_mark && self.is_announced && self.has_mark() => ffi::SQLITE_BUSY,
            SHARED if is_mark && self.is_announced && self.take_write(&system) => {
                self.spared = Some(slot);
                ffi::SQLITE_OK
            }
            NOT_SHARED if count == 1 && self.spared == Some(slot) => {
                self.spared = None;
                match self.write {
                    Write::Free | Write::Held => ffi::SQLITE_OK,
                    Write::Early | Write::Owed => self.give_up_write(&system),
                }
            }
            EXCLUSIVE if slot == WRITE && count == 1 => match self.write {
                Write::Early | Write::Owed => {
                    self.write = Write::Held;
                    ffi::SQLITE_OK
                }
                Write::Free | Write::Held => {
                    let outcome = system(slot, count, how);
                    if outcome == ffi::SQLITE_OK {
                        self.write = Write::Held;
                    }
                    outcome
                }
            },
            NOT_EXCLUSIVE if slot == WRITE && count == 1 => {
                self.is_announced = false;
                if self.spared.is_some() {
                    self.write = Write::Owed;
                    return ffi::SQLITE_OK;
                }
                self.give_up_write(&system)
            }
            _ => system(slot, count, how),
        }
    }

    /// Whether the write lock is held, or could be taken.
    fn take_write(&mut self, system: impl Fn(c_int, c_int, c_int) -> c_int) -> bool {
        if self.write == Write::Free && system(WRITE, 1, EXCLUSIVE) == ffi::SQLITE_OK {
            self.write = Write::Early;
        }
        self.write != Write::Free
    }

    fn give_up_write(&mut self, system: impl Fn(c_int, c_int, c_int) -> c_int) -> c_int {
        self.write = Write::Free;
        system(WRITE, 1, NOT_EXCLUSIVE)
    }

    /// Whether some mark is one that SQLite can take without moving it.
    fn has_mark(&self) -> bool {
        if self.index.is_null() {
            return false;
        }
        // SAFETY: SQLite maps at least 32 KiB at a time, aligned to pages, keeps them until it unmaps
        // all, and asks for locks only in between.
        let at = |place: usize| unsafe { (*self.index.add(place)).load(Ordering::Acquire) };
        (FIRST_MARK..FIRST_MARK + 4).any(|mark| at(mark) <= at(LAST_FRAME))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What the system was asked for; it has the write lock to give or not.
    struct System {
        calls: RefCell<Vec<(c_int, c_int)>>,
        write: c_int,
    }

    impl System {
        fn new(write: c_int) -> Self {
            Self { calls: RefCell::default(), write }
        }

        fn ask(&self, locks: &mut Locks, slot: c_int, how: c_int) -> c_int {
            locks.request((slot, 1, how), |slot, _, how| {
                self.calls.borrow_mut().push((slot, how));
                if slot == WRITE { self.write } else { ffi::SQLITE_OK }
            })
        }
    }

    #[test]
    fn a_write_that_was_announced_takes_one_lock_for_both() {
        let (system, mut locks) = (System::new(ffi::SQLITE_OK), Locks::default());

        locks.announce(true);
        for (slot, how) in [(5, SHARED), (WRITE, EXCLUSIVE), (WRITE, NOT_EXCLUSIVE), (5, NOT_SHARED)] {
            assert_eq!(system.ask(&mut locks, slot, how), ffi::SQLITE_OK);
        }

        assert_eq!(*system.calls.borrow(), [(WRITE, EXCLUSIVE), (WRITE, NOT_EXCLUSIVE)]);
    }

    #[test]
    fn the_write_lock_is_kept_for_as_long_as_sqlite_reads_on() {
        let (system, mut locks) = (System::new(ffi::SQLITE_OK), Locks::default());

        locks.announce(true);
        for (slot, how) in [(4, SHARED), (WRITE, EXCLUSIVE), (WRITE, NOT_EXCLUSIVE)] {
            system.ask(&mut locks, slot, how);
        }
        let while_reading = system.calls.borrow().clone();
        system.ask(&mut locks, 4, NOT_SHARED);

        assert_eq!(while_reading, [(WRITE, EXCLUSIVE)]);
        assert_eq!(*system.calls.borrow(), [(WRITE, EXCLUSIVE), (WRITE, NOT_EXCLUSIVE)]);
    }

    #[test]
    fn a_start_over_gives_the_write_lock_back() {
        let (system, mut locks) = (System::new(ffi::SQLITE_OK), Locks::default());

        locks.announce(true);
        system.ask(&mut locks, 4, SHARED);
        system.ask(&mut locks, 4, NOT_SHARED);

        assert_eq!(*system.calls.borrow(), [(WRITE, EXCLUSIVE), (WRITE, NOT_EXCLUSIVE)]);
    }

    #[test]
    fn where_another_writes_the_read_mark_is_locked_as_ever() {
        let (system, mut locks) = (System::new(ffi::SQLITE_BUSY), Locks::default());

        locks.announce(true);
        let read = system.ask(&mut locks, 5, SHARED);
        let write = system.ask(&mut locks, WRITE, EXCLUSIVE);
        system.ask(&mut locks, 5, NOT_SHARED);

        assert_eq!((read, write), (ffi::SQLITE_OK, ffi::SQLITE_BUSY));
        assert_eq!(
            *system.calls.borrow(),
            [(WRITE, EXCLUSIVE), (5, SHARED), (WRITE, EXCLUSIVE), (5, NOT_SHARED)]
        );
    }

    #[test]
    fn a_read_is_left_alone() {
        let (system, mut locks) = (System::new(ffi::SQLITE_OK), Locks::default());
        let asked = [(4, EXCLUSIVE), (4, NOT_EXCLUSIVE), (4, SHARED), (4, NOT_SHARED)];

        for (slot, how) in asked {
            system.ask(&mut locks, slot, how);
        }

        assert_eq!(*system.calls.borrow(), asked);
    }

    #[test]
    fn a_mark_is_moved_only_where_there_is_none_to_take() {
        let index: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(u32::MAX)).collect();
        let (system, mut locks) = (System::new(ffi::SQLITE_OK), Locks::default());
        locks.map(index.as_ptr().cast_mut().cast());
        locks.announce(true);
        index[LAST_FRAME].store(20, Ordering::Release);

        let without = system.ask(&mut locks, 4, EXCLUSIVE);
        index[FIRST_MARK + 2].store(7, Ordering::Release);
        let with = system.ask(&mut locks, 4, EXCLUSIVE);

        assert_eq!((without, with), (ffi::SQLITE_OK, ffi::SQLITE_BUSY));
        assert_eq!(*system.calls.borrow(), [(4, EXCLUSIVE)]);
    }
}
