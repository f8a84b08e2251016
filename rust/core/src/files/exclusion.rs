//! The lock around reading and replacing one plain file, shared with the peer: `flock` on `<file>.lock`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::lock::{is_still, lock_path, open, try_flock};
use crate::{Error, Result};

/// The first and the longest pause before the lock is asked for again. A peer asks every 50 ms.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(4));

/// Nobody else replaces the file while the value lives.
#[derive(Debug)]
pub struct Exclusion {
    lock: File,
}

impl Exclusion {
    /// Waits for the lock of `path`, at most for `timeout`: [`Error::Busy`] after it,
    /// [`Error::ReadOnly`] where no lock file may be made. Not reentrant.
    pub fn take(path: &Path, timeout: Duration) -> Result<Self> {
        let name = lock_path(path);
        let start = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            if let Some(lock) = attempt(&name).map_err(|error| failed(path, &name, &error))? {
                return Ok(Self { lock });
            }
            let Some(left) = timeout.checked_sub(start.elapsed()) else {
                return Err(Error::Busy { path: path.to_owned() });
            };
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

impl Drop for Exclusion {
    fn drop(&mut self) {
        // Let go by name: a child forked meanwhile has the descriptor too, and would keep the lock.
        let unlocked = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
        debug_assert!(unlocked.is_ok(), "a lock of ours can be let go");
    }
}

fn attempt(name: &Path) -> io::Result<Option<File>> {
    let file = open(name, true)?;
    Ok((try_flock(&file, true)? && is_still(name, &file)?).then_some(file))
}

fn failed(path: &Path, name: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Error::ReadOnly { path: path.to_owned(), action: "write" }
        }
        _ => Error::io(name, "lock", error),
    }
}
