//! Opening a bundle: what is looked at before SQLite may touch the file, and after.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension};

use super::handle::{Durability, Inner, Options, State, exists};
use super::order::Orders;
use super::source::{self, Source};
use super::sync::{SyncGate, wal_of};
use super::tail;
use super::text::Shelves;
use super::value::event_number;
use crate::clock::Clock;
use crate::db::fault::translate;
use crate::db::pages::Pages;
use crate::db::schema::{FORMAT_VERSION, PRIVATE_VERSION, Table, has_table, table_count};
use crate::db::{fork, open, registry};
use crate::error::{Error, Result};
use crate::files::lock::WriterLock;

const ACTION: &str = "open";
/// The format of a session that does not state its own.
const UNSTATED: i64 = 1;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Opens `path` for writing, making it and its directory where they are missing.
pub(super) fn writable(path: &Path, options: Options, clock: Box<dyn Clock>) -> Result<Arc<Inner>> {
    let path = absolute(path)?;
    let fault = |source: std::io::Error| Error::io(&path, "make the directory of", &source);
    let directory = path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    let is_new = !exists(&path);
    if is_new {
        std::fs::create_dir_all(&directory).map_err(fault)?;
    } else {
        look_at_bytes(&path, options.present_only)?;
    }
    let lock = if options.exclusive { WriterLock::exclusive(&path)? } else { WriterLock::shared(&path)? };
    let lease = registry::open_store(&path);
    let connection = open::patiently(|| connect(&path, options.present_only && !is_new))?;
    let lease = if is_new { registry::open_store(&path) } else { lease };
    if is_new {
        std::fs::File::open(&directory).and_then(|directory| directory.sync_all()).map_err(fault)?;
    }
    let state =
        State { connection: Some(connection), lock: Some(lock), lease: Some(lease), ..State::default() };
    let inner = build(path, options, None, clock, state);
    if options.durability == Durability::Tail {
        tail::enlist(&inner.me);
    }
    inner.take_over_at_open()?;
    Ok(inner)
}

/// Opens a connection that may write, once the file has been found to be a session's.
fn connect(path: &Path, present_only: bool) -> Result<Connection> {
    let fault = |source: rusqlite::Error| translate(path, ACTION, &source);
    let is_hot = std::fs::metadata(wal_of(path)).is_ok_and(|log| log.len() > 0);
    let connection = open::untouched(path)?;
    if connection.is_readonly("main").map_err(fault)? {
        return Err(Error::ReadOnly { path: path.to_owned(), action: "open for writing" });
    }
    // A file that is refused keeps its log too: the connection that looked at it would write it back.
    open::keep_log(&connection, is_hot).map_err(fault)?;
    look_at_tables(path, &connection, present_only)?;
    open::keep_log(&connection, false).map_err(fault)?;
    open::prepare(&connection, path)?;
    open::set_triggers(&connection, false).map_err(fault)?;
    Ok(connection)
}

/// Opens `path` for reading only; nothing is made or changed.
pub(super) fn readonly(path: &Path, clock: Box<dyn Clock>) -> Result<Arc<Inner>> {
    let path = absolute(path)?;
    let source = Source::open(&path)?;
    look_at_bytes(&path, false)?;
    if std::fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
        return Err(Error::damaged(&path, "offset 0", "the file is empty"));
    }
    let source = Mutex::new(source);
    source::read(&source, &path, ACTION, |connection| look_at_tables(&path, connection, false))?;
    Ok(build(path, Options::default(), Some(source), clock, State::default()))
}

fn build(
    path: PathBuf,
    options: Options,
    source: Option<Mutex<Source>>,
    clock: Box<dyn Clock>,
    state: State,
) -> Arc<Inner> {
    Arc::new_cyclic(|me: &std::sync::Weak<Inner>| Inner {
        path,
        options,
        source,
        clock,
        generation: fork::generation(),
        state: Mutex::new(state),
        reader: Mutex::new(None),
        sync: SyncGate::default(),
        checkpointing: Mutex::new(()),
        attended: AtomicBool::new(false),
        orders: Orders::default(),
        shelves: Shelves::default(),
        me: me.clone(),
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::invalid("path: the path of a session must not be empty"));
    }
    std::path::absolute(path).map_err(|source| Error::io(path, ACTION, &source))
}

/// A file that does not begin like a database is left alone. An empty one is a file that nobody has
/// written yet. A format that is not asked for is refused before SQLite opens the file for writing, so that
/// not a byte of it changes.
fn look_at_bytes(path: &Path, present_only: bool) -> Result<()> {
    let fault = |source: std::io::Error| Error::io(path, ACTION, &source);
    let kind = std::fs::metadata(path).map_err(fault)?;
    if !kind.is_file() {
        return Err(Error::damaged(path, "the file", "it is not a regular file"));
    }
    // While a store of this process has the file open, closing our descriptor would drop its locks.
    let Some(_reading) = registry::open_reader(path) else { return Ok(()) };
    if let Some(version) = version_at_rest(path) {
        return accept(path, version, present_only);
    }
    let mut start = Vec::with_capacity(MAGIC.len());
    std::fs::File::open(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(fault)?;
    if !start.is_empty() && start != MAGIC {
        return Err(Error::damaged(path, "offset 0", "the file does not begin like a session's"));
    }
    Ok(())
}

/// The format version that a session states, where a few reads of its file tell; `None` where it must be
/// opened to know. Costs no more for a longer session, and changes nothing.
pub fn stated_version(path: &Path) -> Option<i64> {
    // While a store of this process has the file open, closing our descriptor would drop its locks.
    let _reading = registry::open_reader(path)?;
    version_at_rest(path)
}

fn version_at_rest(path: &Path) -> Option<i64> {
    let key = b"format_version";
    let Ok(pages) = Pages::glance(path) else { return None };
    let Ok(Some(stored)) = pages.get_kv(Table::Meta.name(), key) else { return None };
    let version = event_number(Table::Meta, key, &stored)?;
    pages.finish().is_ok().then_some(version)
}

fn refuse_newer(path: &Path, found: i64, supported: i64) -> Result<()> {
    if found > supported {
        return Err(Error::Version { path: path.to_owned(), found, supported });
    }
    Ok(())
}

/// Refuses a format that is not the one that is asked for.
fn accept(path: &Path, version: i64, present_only: bool) -> Result<()> {
    if present_only && version < FORMAT_VERSION {
        return Err(Error::Outdated { path: path.to_owned(), found: version, present: FORMAT_VERSION });
    }
    refuse_newer(path, version, FORMAT_VERSION)
}

/// A database of another program, or of a format that is not asked for, is refused.
fn look_at_tables(path: &Path, connection: &Connection, present_only: bool) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(path, ACTION, &source);
    let mut is_session = false;
    for table in Table::ALL {
        is_session = is_session || has_table(connection, table.name()).map_err(fault)?;
    }
    if !is_session
        && table_count(connection).map_err(fault)? > 0
        && !has_table(connection, "kohakuvault_meta").map_err(fault)?
    {
        return Err(Error::damaged(path, "its tables", "it is a database of another program"));
    }
    let mut stated = None;
    if has_table(connection, "meta").map_err(fault)? {
        let key = b"format_version".as_slice();
        let stored: Option<Vec<u8>> = connection
            .prepare_cached(Table::Meta.sql().get)
            .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
            .map_err(fault)?;
        stated = stored.and_then(|stored| event_number(Table::Meta, key, &stored));
    }
    accept(path, stated.filter(|version| *version > 0).unwrap_or(UNSTATED), present_only)?;
    if has_table(connection, "amber_meta").map_err(fault)? {
        let version: Option<i64> = connection
            .query_row("SELECT value FROM amber_meta WHERE name = 'version'", [], |row| row.get(0))
            .optional()
            .map_err(fault)?;
        refuse_newer(path, version.unwrap_or(PRIVATE_VERSION), PRIVATE_VERSION)?;
    }
    Ok(())
}
