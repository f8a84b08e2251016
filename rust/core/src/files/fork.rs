//! Keeps `fork` out of the moments in which a descriptor is open that no child may inherit.
//!
//! Close-on-exec helps against programs that are started, not against a plain fork, such as that
//! of Python's `multiprocessing`: the child would hold the open file, and its lock, until it ends.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// No other thread forks, and none enters, while the value lives. Keep it for a few system calls.
#[derive(Debug)]
pub(super) struct NoFork(());

impl NoFork {
    pub fn enter() -> io::Result<Self> {
        static REGISTERED: OnceLock<i32> = OnceLock::new();
        // SAFETY: the handlers only touch an atomic, which is allowed in a child of a process with
        // threads, and they live as long as the library that registers them.
        let code = *REGISTERED.get_or_init(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork))
        });
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        take();
        Ok(Self(()))
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        give();
    }
}

fn take() {
    // A mutex would not do: its guard could not be carried from one handler to the next.
    while IS_TAKEN.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
}

fn give() {
    IS_TAKEN.store(false, Ordering::Release);
}

extern "C" fn before_fork() {
    take();
}

extern "C" fn after_fork() {
    give();
}
