//! Bytes that may wait between readers and the index: what is read faster than it is indexed waits with
//! its reader, and not in memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A number of bytes, shared by those who fill a queue.
#[derive(Debug, Clone)]
pub(super) struct Permits {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    taken: Mutex<usize>,
    freed: Condvar,
    most: usize,
}

/// A share of the bytes, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Permits {
    /// So many bytes.
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::new(Shared { taken: Mutex::new(0), freed: Condvar::new(), most }) }
    }

    /// Waits until so many bytes are free; for more than there are, until nobody has any.
    pub fn take(&self, bytes: usize) -> Permit {
        let shared = &self.shared;
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && taken.saturating_add(bytes) > shared.most {
            taken = shared.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = taken.saturating_add(bytes);
        Permit { shared: Arc::clone(shared), bytes }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
        self.shared.freed.notify_all();
    }
}
