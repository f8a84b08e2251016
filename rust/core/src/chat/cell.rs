//! Sessions kept in memory between calls, as many as fit, each behind a lock of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::document::Document;
use super::proof::Proof;
use super::scan::Catalog;
use super::tally::Tally;

/// More bytes of documents are not kept, but for the one in use.
const MOST_BYTES: usize = 64 << 20;
/// Each kept session holds a file open.
const MOST_FILES: usize = 128;

/// A document, and what proves that it is the file's.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) document: Document,
    pub(super) tally: Option<Tally>,
    pub(super) proof: Proof,
}

impl Loaded {
    /// About how many bytes it takes: as many as its file, in which its messages are kept as they stand.
    pub(super) fn size(&self) -> usize {
        usize::try_from(self.proof.stamp().size()).unwrap_or(usize::MAX)
    }
}

/// The place of one file's session.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// Held while a thread waits for the file's lock, so that the others wait in order.
    pub(super) turn: Mutex<()>,
    pub(super) loaded: Mutex<Option<Loaded>>,
}

/// Takes a lock that a thread may have left in a panic: what it protects is proven at each use.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Kept {
    cell: Arc<Cell>,
    used: u64,
    size: usize,
}

#[derive(Debug, Default)]
struct Table {
    kept: HashMap<String, Kept>,
    clock: u64,
}

/// What one process keeps. A child that was forked starts with nothing: in its copy of the parent's
/// a lock may be held for ever by a thread that it does not have.
#[derive(Debug)]
pub(super) struct Memory {
    process: u32,
    table: Mutex<Table>,
    catalog: Mutex<Catalog>,
    of_child: OnceLock<Box<Memory>>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            process: std::process::id(),
            table: Mutex::default(),
            catalog: Mutex::default(),
            of_child: OnceLock::new(),
        }
    }

    /// Returns what was seen of the directory.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.own().catalog)
    }

    fn own(&self) -> &Self {
        let mut memory = self;
        while memory.process != std::process::id() {
            memory = memory.of_child.get_or_init(|| Box::new(Self::new()));
        }
        memory
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.own().table)
    }

    /// Returns the cell of a file.
    pub(super) fn get(&self, file: &str) -> Arc<Cell> {
        let mut table = self.table();
        table.clock += 1;
        let used = table.clock;
        if let Some(kept) = table.kept.get_mut(file) {
            kept.used = used;
            return Arc::clone(&kept.cell);
        }
        let kept = Kept { used, ..Kept::default() };
        let cell = Arc::clone(&kept.cell);
        table.kept.insert(file.to_owned(), kept);
        cell
    }

    /// Notes how large a session is, and lets those go that were not used for longest.
    pub(super) fn settle(&self, file: &str, size: usize, most: usize) {
        let mut table = self.table();
        if let Some(kept) = table.kept.get_mut(file) {
            kept.size = size;
        }
        let most = if most == 0 { MOST_FILES } else { most.min(MOST_FILES) };
        let mut bytes: usize = table.kept.values().map(|kept| kept.size).sum();
        while table.kept.len() > most || bytes > MOST_BYTES {
            let others = table.kept.iter().filter(|(name, _)| name.as_str() != file);
            let Some(oldest) = others.min_by_key(|(_, kept)| kept.used).map(|(name, _)| name.clone()) else {
                return;
            };
            bytes -= table.kept.remove(&oldest).map_or(0, |kept| kept.size);
        }
    }

    /// Forgets one file's session, or all.
    pub(super) fn forget(&self, file: Option<&str>) {
        let mut table = self.table();
        match file {
            Some(file) => drop(table.kept.remove(file)),
            None => table.kept.clear(),
        }
    }
}
