//! What a forked child inherits, and how it is kept from using it.
//!
//! SQLite remembers open files and their locks by device and inode. A child inherits that memory but
//! not the POSIX locks behind it, so a connection that it opened itself would believe in locks that
//! nobody holds. In the child, `stat` and `fstat` therefore report another device to SQLite alone: no
//! inherited entry is found again, and the child's own connections take locks of their own.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A number that differs between a process and every child forked from it.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A lazily made value of which every process has its own, whatever was locked while it forked.
pub struct PerProcess<T> {
    generation: AtomicU64,
    value: AtomicPtr<T>,
}

impl<T: Default + Send + Sync + 'static> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default + Send + Sync + 'static> PerProcess<T> {
    /// Makes the cell without its value.
    pub const fn new() -> Self {
        Self { generation: AtomicU64::new(0), value: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// This process's value. A value inherited over a fork is leaked, never dropped.
    pub fn get(&self) -> &'static T {
        watch();
        let now = generation();
        if self.generation.load(Ordering::Acquire) != now {
            self.renew(now);
        }
        // SAFETY: the pointer comes from `Box::leak` in `renew`, which ran before the generation
        // was published, and is never freed.
        unsafe { &*self.value.load(Ordering::Acquire) }
    }

    fn renew(&self, now: u64) {
        let old = self.value.load(Ordering::Acquire);
        let fresh = Box::into_raw(Box::<T>::default());
        if self.value.compare_exchange(old, fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.generation.store(now, Ordering::Release);
        } else {
            // SAFETY: another thread won the race, so nobody else has seen `fresh`.
            drop(unsafe { Box::from_raw(fresh) });
            while self.generation.load(Ordering::Acquire) != now {
                std::hint::spin_loop();
            }
        }
    }
}

/// Starts to notice forks; called before the first connection of the process is opened.
pub fn watch() {
    #[cfg(unix)]
    unix::watch();
}

#[cfg(unix)]
mod unix {
    use std::os::raw::{c_char, c_int};
    use std::sync::Once;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rusqlite::ffi;

    /// SQLite's static mutexes: held across a fork, so that the child does not inherit one that a
    /// thread which it lacks has locked. The order is that in which SQLite nests them.
    const MUTEXES: [c_int; 6] = [
        ffi::SQLITE_MUTEX_STATIC_MAIN,
        ffi::SQLITE_MUTEX_STATIC_OPEN,
        ffi::SQLITE_MUTEX_STATIC_VFS1,
        ffi::SQLITE_MUTEX_STATIC_LRU,
        ffi::SQLITE_MUTEX_STATIC_PRNG,
        ffi::SQLITE_MUTEX_STATIC_MEM,
    ];

    static SALT: AtomicU64 = AtomicU64::new(0);

    pub(super) fn watch() {
        static ONCE: Once = Once::new();
        // SAFETY: the three handlers are plain functions that live as long as the process, and
        // SQLite's mutexes exist once it is initialised.
        ONCE.call_once(|| unsafe {
            ffi::sqlite3_initialize();
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        });
    }

    fn each_mutex(run: unsafe extern "C" fn(*mut ffi::sqlite3_mutex), backwards: bool) {
        let mut order = MUTEXES;
        if backwards {
            order.reverse();
        }
        for id in order {
            // SAFETY: a static mutex is never freed; `before` locks what the other two unlock, on
            // the one thread that forks.
            unsafe { run(ffi::sqlite3_mutex_alloc(id)) }
        }
    }

    unsafe extern "C" fn before() {
        each_mutex(ffi::sqlite3_mutex_enter, false);
    }

    unsafe extern "C" fn in_parent() {
        each_mutex(ffi::sqlite3_mutex_leave, true);
    }

    unsafe extern "C" fn in_child() {
        each_mutex(ffi::sqlite3_mutex_leave, true);
        super::GENERATION.fetch_add(1, Ordering::Release);
        SALT.store(u64::from(std::process::id()) << 32, Ordering::Release);
        disown_open_files();
    }

    type StatCall = unsafe extern "C" fn();

    fn disown_open_files() {
        // SAFETY: the default VFS exists after initialisation, copies nothing but the pointers, and
        // calls each with the arguments of the system call of that name.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
            let Some(set) = vfs.as_ref().and_then(|vfs| vfs.xSetSystemCall) else { return };
            let fstat: StatCall = std::mem::transmute::<
                unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int,
                StatCall,
            >(salted_fstat);
            let stat: StatCall = std::mem::transmute::<
                unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
                StatCall,
            >(salted_stat);
            set(vfs, c"fstat".as_ptr(), Some(fstat));
            set(vfs, c"stat".as_ptr(), Some(stat));
        }
    }

    unsafe extern "C" fn salted_fstat(descriptor: c_int, answer: *mut libc::stat) -> c_int {
        // SAFETY: SQLite passes a descriptor and a buffer for the answer.
        unsafe { salt(libc::fstat(descriptor, answer), answer) }
    }

    unsafe extern "C" fn salted_stat(path: *const c_char, answer: *mut libc::stat) -> c_int {
        // SAFETY: SQLite passes a path and a buffer for the answer.
        unsafe { salt(libc::stat(path, answer), answer) }
    }

    unsafe fn salt(outcome: c_int, answer: *mut libc::stat) -> c_int {
        if outcome == 0 {
            // SAFETY: a successful call has filled the buffer.
            unsafe { (*answer).st_dev ^= SALT.load(Ordering::Acquire) as libc::dev_t };
        }
        outcome
    }
}
