//! Which files this process has open with SQLite, and which it reads without.
//!
//! Closing any descriptor of a file drops every POSIX lock that the process holds on it. A reader of
//! raw bytes therefore asks here first: it is refused while SQLite has the file open, and a store
//! that opens the file waits until the reader has closed it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::fork::PerProcess;

type FileId = (u64, u64);

#[derive(Default)]
struct Uses {
    stores: usize,
    readers: usize,
}

#[derive(Default)]
struct Registry {
    files: Mutex<HashMap<FileId, Uses>>,
    changed: Condvar,
    /// How many stores wait for readers; it changes only while the files are locked.
    waiting: AtomicUsize,
}

static REGISTRY: PerProcess<Registry> = PerProcess::new();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Store,
    Reader,
}

/// A use of a file, on record until it is dropped.
pub struct Lease {
    id: Option<FileId>,
    kind: Kind,
    generation: u64,
}

impl Lease {
    /// Whether the file existed when its use was recorded, so that it could be.
    pub fn is_known(&self) -> bool {
        self.id.is_some()
    }
}

#[cfg(unix)]
fn identify(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identify(_path: &Path) -> Option<FileId> {
    None
}

/// Records that SQLite has `path` open; waits for readers of its raw bytes to finish.
pub fn open_store(path: &Path) -> Lease {
    let id = identify(path);
    if let Some(id) = id {
        let registry = REGISTRY.get();
        let mut files = registry.files.lock().unwrap_or_else(PoisonError::into_inner);
        while files.get(&id).is_some_and(|uses| uses.readers > 0) {
            registry.waiting.fetch_add(1, Ordering::Relaxed);
            files = registry.changed.wait(files).unwrap_or_else(PoisonError::into_inner);
            registry.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        files.entry(id).or_default().stores += 1;
    }
    Lease { id, kind: Kind::Store, generation: super::fork::generation() }
}

/// Records that the raw bytes of `path` are read; `None` while a store of this process has it open.
pub fn open_reader(path: &Path) -> Option<Lease> {
    match identify(path) {
        Some(id) => open_reader_of(id),
        None => Some(Lease { id: None, kind: Kind::Reader, generation: super::fork::generation() }),
    }
}

/// The same for a file whose device and inode are known.
pub fn open_reader_of(id: (u64, u64)) -> Option<Lease> {
    let mut files = REGISTRY.get().files.lock().unwrap_or_else(PoisonError::into_inner);
    let uses = files.entry(id).or_default();
    if uses.stores > 0 {
        return None;
    }
    uses.readers += 1;
    drop(files);
    Some(Lease { id: Some(id), kind: Kind::Reader, generation: super::fork::generation() })
}

/// Whether a store of this process has `path` open.
pub fn is_open(path: &Path) -> bool {
    let files = REGISTRY.get().files.lock().unwrap_or_else(PoisonError::into_inner);
    identify(path).and_then(|id| files.get(&id)).is_some_and(|uses| uses.stores > 0)
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(id) = self.id.filter(|_| self.generation == super::fork::generation()) else { return };
        let registry = REGISTRY.get();
        let mut files = registry.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uses) = files.get_mut(&id) {
            match self.kind {
                Kind::Store => uses.stores = uses.stores.saturating_sub(1),
                Kind::Reader => uses.readers = uses.readers.saturating_sub(1),
            }
            if uses.stores + uses.readers == 0 {
                files.remove(&id);
            }
        }
        // A call to the system, which nobody needs while nobody waits.
        let is_awaited = registry.waiting.load(Ordering::Relaxed) > 0;
        drop(files);
        if is_awaited {
            registry.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_reader_is_refused_while_a_store_has_the_file_open() {
        let file = tempfile::NamedTempFile::new().unwrap();

        let store = open_store(file.path());
        let refused = open_reader(file.path()).is_none();
        drop(store);

        assert!(refused);
        assert!(open_reader(file.path()).is_some());
    }

    #[test]
    fn a_store_waits_until_a_raw_reader_has_closed_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = open_reader(file.path());
        let path = file.path().to_owned();

        let opening = std::thread::spawn(move || open_store(&path));
        let waited = !opening.is_finished();
        drop(reader);

        let store = opening.join().unwrap();
        assert!(waited && is_open(file.path()));
        drop(store);
    }
}
