//! The open index: a connection that writes, and one that reads meanwhile.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use crate::chat::cell::lock;
use crate::db::fault::translate;
use crate::db::registry::{self, Lease};
use crate::db::{chat_index, ffi, fork, open};
use crate::error::{Error, Result};
use crate::files::corrupt;

/// Where an index lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// In a file.
    File(PathBuf),
    /// In memory, as long as the store.
    Memory,
}

/// An open index.
pub(super) struct Disk {
    home: Home,
    full_text: bool,
    generation: u64,
    writer: Mutex<Option<Open>>,
    reader: Mutex<Option<Connection>>,
}

struct Open {
    connection: Connection,
    lease: Option<Lease>,
}

impl Disk {
    pub(super) fn new(home: Home, full_text: bool) -> Self {
        Self {
            home,
            full_text,
            generation: fork::generation(),
            writer: Mutex::default(),
            reader: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match &self.home {
            Home::File(path) => path,
            Home::Memory => Path::new(":memory:"),
        }
    }

    /// Whether the peer's text table may be written.
    pub(super) fn has_full_text(&self) -> bool {
        self.full_text
    }

    /// Runs one transaction that writes.
    pub(super) fn write<R>(&self, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let mut writer = lock(&self.writer);
        let connection = self.opened(&mut writer)?;
        let fault = |source: rusqlite::Error| translate(self.path(), "write", &source);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
        let done = work(connection);
        let ended = connection.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        match (done, ended) {
            (Ok(value), Ok(())) => Ok(value),
            (Ok(_), Err(source)) => {
                if !connection.is_autocommit() {
                    connection.execute_batch("ROLLBACK").map_err(fault)?;
                }
                Err(fault(source))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Runs reads that see one state.
    pub(super) fn read<R>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R> {
        let fault = |source: rusqlite::Error| translate(self.path(), "read", &source);
        let Home::File(path) = &self.home else {
            let mut writer = lock(&self.writer);
            return work(self.opened(&mut writer)?).map_err(fault);
        };
        let mut reader = lock(&self.reader);
        if reader.as_ref().is_some_and(ffi::has_moved) {
            return Err(self.gone());
        }
        if reader.is_none() {
            // Makes what is missing, and takes the lease.
            self.opened(&mut lock(&self.writer))?;
            *reader = Some(chat_index::reader(path)?);
        }
        let connection = reader.as_ref().ok_or_else(|| self.gone())?;
        let begun = connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begun.map_err(fault)?;
        let done = work(connection).map_err(fault);
        let ended = connection.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([])).map_err(fault);
        done.and_then(|value| ended.map(|_| value))
    }

    /// Closes the index; the next use opens it again, and makes what it misses.
    pub(super) fn close(&self) {
        let mut reader = lock(&self.reader);
        let mut writer = lock(&self.writer);
        *reader = None;
        *writer = None;
    }

    fn gone(&self) -> Error {
        Error::Gone { path: self.path().to_owned() }
    }

    /// Puts the closed file aside, which is no index or was damaged.
    pub(super) fn put_aside(&self, now: f64) -> Result<()> {
        let Home::File(path) = &self.home else { return Ok(()) };
        for (at, file) in crate::db::sidecar::companions(path).enumerate() {
            let failed = |error: std::io::Error| Error::io(&file, "put aside", &error);
            let done = if at == 0 {
                corrupt::free_name(&file, now).and_then(|aside| std::fs::rename(&file, aside))
            } else {
                std::fs::remove_file(&file)
            };
            match done {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn opened<'a>(&self, writer: &'a mut MutexGuard<'_, Option<Open>>) -> Result<&'a Connection> {
        if writer.as_ref().is_some_and(|open| self.home != Home::Memory && ffi::has_moved(&open.connection)) {
            return Err(self.gone());
        }
        if writer.is_none() {
            **writer = Some(self.open()?);
        }
        writer.as_ref().map(|open| &open.connection).ok_or_else(|| Error::Busy { path: self.path().into() })
    }

    fn open(&self) -> Result<Open> {
        let fault = |source: rusqlite::Error| translate(self.path(), "open", &source);
        let Home::File(path) = &self.home else {
            let connection = chat_index::in_memory()?;
            chat_index::create_tables(&connection, self.full_text).map_err(fault)?;
            return Ok(Open { connection, lease: None });
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, "create", &error))?;
        }
        let lease = registry::open_store(path);
        let connection = open::patiently(|| chat_index::writable(path))?;
        if chat_index::is_readonly(&connection).map_err(fault)? {
            return Err(Error::ReadOnly { path: path.clone(), action: "open for writing" });
        }
        open::patiently(|| chat_index::create_tables(&connection, self.full_text).map_err(fault))?;
        let lease = if lease.is_known() { lease } else { registry::open_store(path) };
        Ok(Open { connection, lease: Some(lease) })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let reader = self.reader.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        // In a forked child the connections are the parent's: closing them would write back and
        // delete the log under it.
        if self.generation != fork::generation() {
            std::mem::forget(writer);
            std::mem::forget(reader);
            return;
        }
        drop(reader);
        if let Some(Open { connection, lease }) = writer {
            drop(connection);
            drop(lease);
        }
    }
}
