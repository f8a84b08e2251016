//! The documents beside a new database, which become its first sessions.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::rows;
use crate::chat::entry::{Entry, id_of};
use crate::chat::scan::Unreadable;
use crate::chat::stamp::iso;
use crate::chat::store::{Options, Store};
use crate::db::fault::translate;
use crate::db::transcript;
use crate::{Error, Result};

/// How many documents are in memory at once.
const BATCH: usize = 256;

/// Makes the table where it is missing and, in the same transaction, fills an empty one with the
/// documents of the directory. Returns the files that are no sessions.
pub(super) fn adopt(
    connection: &Connection,
    path: &Path,
    directory: &Path,
    now: f64,
) -> Result<Vec<Unreadable>> {
    let fault = |source: rusqlite::Error| translate(path, "open", &source);
    if is_filled(connection).map_err(fault)? {
        return Ok(Vec::new());
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
    let filled = fill(connection, path, directory, now);
    let ended = connection.execute_batch(if filled.is_ok() { "COMMIT" } else { "ROLLBACK" });
    let filled = filled?;
    ended.map_err(fault)?;
    Ok(filled)
}

fn is_filled(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(crate::db::schema::has_table(connection, "sessions")?
        && connection.prepare("SELECT 1 FROM sessions LIMIT 1")?.exists([])?)
}

fn fill(connection: &Connection, path: &Path, directory: &Path, now: f64) -> Result<Vec<Unreadable>> {
    let fault = |source: rusqlite::Error| translate(path, "write", &source);
    transcript::create_tables(connection).map_err(fault)?;
    // Another process may have filled it before the lock was ours.
    if is_filled(connection).map_err(fault)? || !directory.is_dir() {
        return Ok(Vec::new());
    }
    let store = Store::open(directory, Options { sync: false, kept: 1 })?;
    let listing = store.list(now)?;
    let mut documents: Vec<Arc<Entry>> = listing.entries.to_vec();
    // Of two files of one id the one written last counts, as it does for a gateway.
    documents.sort_by(|a, b| (&b.updated, &a.file).cmp(&(&a.updated, &b.file)));
    let files: Vec<String> = documents.into_iter().map(|entry| entry.file.clone()).collect();
    for batch in files.chunks(BATCH) {
        let read =
            store.read_all(batch, |file, document| Some((id_of(file, document), document.clone().packed())));
        if read.len() < batch.len() {
            return Err(Error::damaged(directory, "a session", "it changed while it was read"));
        }
        for (id, mut document) in read {
            let Some(id) = id.as_str().filter(|id| !id.is_empty()) else { continue };
            if rows::exists(connection, id).map_err(fault)? {
                continue;
            }
            document.complete(id, &iso(now));
            rows::put(connection, id, &document).map_err(fault)?;
        }
    }
    Ok(listing.unreadable.to_vec())
}
