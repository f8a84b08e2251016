//! The open sidecar: a connection that writes, one that reads, and what happens when the file is
//! damaged, deleted under us, or cannot be written at all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use crate::codec::{self, Stored, Value, msgpack};
use crate::db::fault::translate;
use crate::db::registry::{self, Lease};
use crate::db::schema::has_table;
use crate::db::sidecar::{self, SCHEMA_VERSION, SEARCH_COLUMNS};
use crate::db::{ffi, fork};
use crate::error::{Error, Result};

/// How a file of ours is called; nothing of another name is ever discarded.
const SUFFIX: &str = "kvault";

/// An open sidecar.
pub struct Sidecar {
    path: PathBuf,
    generation: u64,
    writer: Mutex<Option<Open>>,
    reader: Mutex<Option<Connection>>,
    /// How often the tables were begun anew.
    restarts: AtomicU64,
}

struct Open {
    connection: Connection,
    lease: Option<Lease>,
    in_memory: bool,
}

impl Sidecar {
    /// Opens the sidecar at `path`, making it where there is none. One that is damaged or has tables
    /// that are not ours or the peer's of today is begun anew; where that cannot be, it is by-passed
    /// in memory.
    pub fn open(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|source| Error::io(path, "open", &source))?;
        let open = open(&path)?;
        Ok(Self {
            path,
            generation: fork::generation(),
            writer: Mutex::new(Some(open)),
            reader: Mutex::new(None),
            restarts: AtomicU64::new(0),
        })
    }

    /// Where the sidecar is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is by-passed.
    pub fn is_in_memory(&self) -> Result<bool> {
        self.check_process("read")?;
        Ok(lock(&self.writer).as_ref().is_some_and(|open| open.in_memory))
    }

    /// How often the tables were begun anew since this was opened, as far as anybody has noticed.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Acquire)
    }

    /// Runs one transaction that writes.
    pub fn write<R>(&self, action: &'static str, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        self.check_process(action)?;
        let mut writer = lock(&self.writer);
        self.follow(&mut writer, action)?;
        let open = writer.as_ref().ok_or_else(|| self.closed(action))?;
        let fault = |source: rusqlite::Error| translate(&self.path, action, &source);
        open.connection.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
        let done = work(&open.connection);
        let ended = open.connection.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        match (done, ended) {
            (Ok(value), Ok(())) => Ok(value),
            (Ok(_), Err(source)) => {
                if !open.connection.is_autocommit() {
                    open.connection.execute_batch("ROLLBACK").map_err(fault)?;
                }
                Err(fault(source))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Changes how the connection that writes goes about it, between transactions.
    pub fn configure(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        self.check_process(action)?;
        let mut writer = lock(&self.writer);
        self.follow(&mut writer, action)?;
        let open = writer.as_ref().ok_or_else(|| self.closed(action))?;
        work(&open.connection).map_err(|source| translate(&self.path, action, &source))
    }

    /// Runs reads that see one state.
    pub fn read<R>(&self, action: &'static str, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        self.check_process(action)?;
        {
            let mut writer = lock(&self.writer);
            self.follow(&mut writer, action)?;
            let open = writer.as_ref().ok_or_else(|| self.closed(action))?;
            if open.in_memory {
                return work(&open.connection);
            }
        }
        let mut reader = lock(&self.reader);
        if reader.as_ref().is_some_and(ffi::has_moved) {
            *reader = None;
        }
        if reader.is_none() {
            *reader = Some(sidecar::reader(&self.path)?);
        }
        let connection = reader.as_ref().ok_or_else(|| self.closed(action))?;
        let fault = |source: rusqlite::Error| translate(&self.path, action, &source);
        connection.execute_batch("BEGIN").map_err(fault)?;
        let done = work(connection);
        let ended = connection.execute_batch("ROLLBACK").map_err(fault);
        done.and_then(|value| ended.map(|()| value))
    }

    /// Throws the tables away and begins anew, after damage was met.
    pub fn restart(&self) -> Result<()> {
        self.check_process("rebuild")?;
        let mut writer = lock(&self.writer);
        let mut reader = lock(&self.reader);
        *reader = None;
        let Some(open) = writer.take() else { return Err(self.closed("rebuild")) };
        drop(open);
        *writer = Some(if discard(&self.path).is_ok() { self::open(&self.path)? } else { in_memory()? });
        self.restarts.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Closes both connections for good.
    pub fn close(&self) -> Result<()> {
        if self.generation != fork::generation() {
            return Ok(());
        }
        let mut writer = lock(&self.writer);
        *lock(&self.reader) = None;
        let Some(Open { connection, lease, .. }) = writer.take() else { return Ok(()) };
        let closed = connection.close().map_err(|(_, source)| translate(&self.path, "close", &source));
        drop(lease);
        closed
    }

    /// Opens the file anew when it is no longer the one that has the name: a peer deletes a sidecar
    /// whose tables it does not know, under everybody's handles.
    fn follow(&self, writer: &mut MutexGuard<'_, Option<Open>>, action: &'static str) -> Result<()> {
        let open = writer.as_ref().ok_or_else(|| self.closed(action))?;
        if open.in_memory || !ffi::has_moved(&open.connection) {
            return Ok(());
        }
        *lock(&self.reader) = None;
        **writer = None;
        **writer = Some(self::open(&self.path)?);
        self.restarts.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn check_process(&self, action: &'static str) -> Result<()> {
        if self.generation == fork::generation() {
            return Ok(());
        }
        Err(Error::Closed {
            path: self.path.clone(),
            action,
            reason: "the index was opened by the process that this one was forked from; open it again here",
        })
    }

    fn closed(&self, action: &'static str) -> Error {
        Error::Closed { path: self.path.clone(), action, reason: "the index is closed" }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // In a forked child the connections are the parent's: closing them would write back and
        // delete the log under it.
        if self.generation != fork::generation() {
            std::mem::forget(self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            std::mem::forget(self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(path: &Path) -> Result<Open> {
    let directory = path.parent().unwrap_or(Path::new("."));
    if std::fs::create_dir_all(directory).is_err() || (path.exists() && !path.is_file()) {
        return in_memory();
    }
    match on_disk(path) {
        Ok(Some(open)) => Ok(open),
        // Somebody else writes, or the file is not a sidecar: nothing is wrong with the place.
        Err(error @ (Error::Busy { .. } | Error::Invalid { .. })) => Err(error),
        Ok(None) | Err(Error::Damaged { .. }) => match discard(path) {
            Ok(()) => match on_disk(path) {
                Ok(Some(open)) => Ok(open),
                Ok(None) | Err(_) => in_memory(),
            },
            Err(error @ Error::Invalid { .. }) => Err(error),
            Err(_) => in_memory(),
        },
        Err(_) => in_memory(),
    }
}

/// Opens the file; `None` when its tables are those of another version.
fn on_disk(path: &Path) -> Result<Option<Open>> {
    let fault = |source: rusqlite::Error| translate(path, "open", &source);
    let lease = registry::open_store(path);
    let connection = crate::db::open::patiently(|| sidecar::writable(path))?;
    if sidecar::is_readonly(&connection).map_err(fault)? {
        return Err(Error::ReadOnly { path: path.to_owned(), action: "open for writing" });
    }
    if has_table(&connection, "events").map_err(fault)? {
        return Err(Error::invalid(format!("sidecar_path: `{}` is a session, not an index", path.display())));
    }
    if has_table(&connection, "meta").map_err(fault)? && !is_of_today(&connection).map_err(fault)? {
        return Ok(None);
    }
    crate::db::open::patiently(|| sidecar::create_tables(&connection).map_err(fault))?;
    stamp(&connection).map_err(fault)?;
    let lease = if lease.is_known() { lease } else { registry::open_store(path) };
    Ok(Some(Open { connection, lease: Some(lease), in_memory: false }))
}

fn in_memory() -> Result<Open> {
    let path = Path::new(":memory:");
    let connection = sidecar::in_memory()?;
    sidecar::create_tables(&connection).map_err(|source| translate(path, "open", &source))?;
    stamp(&connection).map_err(|source| translate(path, "open", &source))?;
    Ok(Open { connection, lease: None, in_memory: true })
}

/// Removes a sidecar with what lies beside it; whatever is called otherwise is left alone.
fn discard(path: &Path) -> Result<()> {
    if path.extension().is_none_or(|extension| extension != SUFFIX) {
        return Err(Error::invalid(format!("sidecar_path: `{}` is not an index", path.display())));
    }
    for file in sidecar::companions(path) {
        match std::fs::remove_file(&file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&file, "remove", &source));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A stored field of the peer's `meta`; `None` where it is missing or cannot be read.
pub fn meta_value(connection: &Connection, key: &str) -> rusqlite::Result<Option<Value>> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(stored.and_then(|stored| match codec::open("meta", key.as_bytes(), &stored) {
        Ok(Stored::Object(body)) => msgpack::decode(&body).ok(),
        _ => None,
    }))
}

/// Writes a field of the peer's `meta`.
pub fn put_meta(connection: &Connection, key: &str, value: &Value) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO meta (key, value) VALUES (?1, ?2) \
                       ON CONFLICT(key) DO UPDATE SET value = excluded.value";
    let mut body = Vec::new();
    msgpack::put_value(&mut body, value);
    connection.prepare_cached(PUT)?.execute((key.as_bytes(), codec::seal("meta", key.as_bytes(), &body)))?;
    Ok(())
}

fn columns() -> Value {
    Value::List(SEARCH_COLUMNS.into_iter().map(Value::from).collect())
}

fn is_of_today(connection: &Connection) -> rusqlite::Result<bool> {
    let version = meta_value(connection, "schema_version")?;
    Ok(version == Some(Value::Int(SCHEMA_VERSION))
        && meta_value(connection, "search_columns")? == Some(columns())
        && sidecar::private_version(connection)?.is_none_or(|version| version <= sidecar::PRIVATE_VERSION))
}

fn stamp(connection: &Connection) -> rusqlite::Result<()> {
    if !is_of_today(connection)? {
        put_meta(connection, "schema_version", &Value::Int(SCHEMA_VERSION))?;
        put_meta(connection, "search_columns", &columns())?;
    }
    Ok(())
}
