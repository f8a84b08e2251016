//! Sessions that one connection keeps in memory, as many as fit.

use std::collections::HashMap;

use crate::chat::document::Document;
use crate::chat::tally::Tally;

/// More bytes of documents are not kept, but for the one in use.
const MOST_BYTES: usize = 64 << 20;
/// How many are kept unless the caller says another number.
const USUAL: usize = 256;

/// A session as the table has it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) document: Document,
    pub(super) tally: Option<Tally>,
}

#[derive(Debug)]
struct Slot {
    loaded: Loaded,
    used: u64,
    size: usize,
}

/// What is kept holds as long as nobody else has committed since it was read.
#[derive(Debug)]
pub(super) struct Kept {
    slots: HashMap<String, Slot>,
    most: usize,
    clock: u64,
    bytes: usize,
    version: i64,
}

impl Kept {
    pub(super) fn new(most: usize) -> Self {
        let most = if most == 0 { USUAL } else { most };
        Self { slots: HashMap::new(), most, clock: 0, bytes: 0, version: 0 }
    }

    /// Forgets everything when the version of others has moved.
    pub(super) fn follow(&mut self, version: i64) {
        if self.version != version {
            self.clear();
            self.version = version;
        }
    }

    pub(super) fn get(&mut self, id: &str) -> Option<&Document> {
        self.clock += 1;
        let slot = self.slots.get_mut(id)?;
        slot.used = self.clock;
        Some(&slot.loaded.document)
    }

    /// Takes a session out: one that was changed and not written must not be taken for the row's.
    pub(super) fn take(&mut self, id: &str) -> Option<Loaded> {
        let slot = self.slots.remove(id)?;
        self.bytes -= slot.size;
        Some(slot.loaded)
    }

    pub(super) fn put(&mut self, id: &str, loaded: Loaded) {
        self.clock += 1;
        drop(self.take(id));
        let size = loaded.document.size();
        self.slots.insert(id.to_owned(), Slot { loaded, used: self.clock, size });
        self.bytes += size;
        while self.slots.len() > self.most || self.bytes > MOST_BYTES {
            let others = self.slots.iter().filter(|(name, _)| name.as_str() != id);
            let Some(oldest) = others.min_by_key(|(_, slot)| slot.used).map(|(name, _)| name.clone()) else {
                return;
            };
            drop(self.take(&oldest));
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.bytes = 0;
    }
}
