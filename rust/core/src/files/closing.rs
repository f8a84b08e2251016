//! Closing files that were replaced, out of the way of the call that replaced them.
//!
//! The last descriptor of a file without a name frees its blocks when it is closed, which takes as
//! long as to write them.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// More files are not kept waiting: then the caller closes its own.
const WAITING: usize = 32;

struct Closer {
    process: u32,
    files: SyncSender<File>,
}

/// Closes a file at once, or a moment later by a thread of the process.
pub fn close_later(file: File) {
    static CLOSER: OnceLock<Option<Closer>> = OnceLock::new();
    // A forked child does not have the thread, nor may it touch what the thread shares.
    let is_ours = |closer: &&Closer| closer.process == std::process::id();
    let Some(closer) = CLOSER.get_or_init(start).as_ref().filter(is_ours) else { return drop(file) };
    match closer.files.try_send(file) {
        Ok(()) => {}
        Err(TrySendError::Full(file) | TrySendError::Disconnected(file)) => drop(file),
    }
}

fn start() -> Option<Closer> {
    let (files, waiting) = sync_channel(WAITING);
    // Without a thread files are closed where they are replaced.
    let started = std::thread::Builder::new().name("amberlog-close".to_owned()).spawn(|| close_all(waiting));
    started.is_ok().then(|| Closer { process: std::process::id(), files })
}

fn close_all(waiting: Receiver<File>) {
    for file in waiting {
        drop(file);
    }
}
