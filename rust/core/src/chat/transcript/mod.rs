//! Chat sessions as rows of one database: the peer's transcript store.

mod connection;
mod kept;
mod legacy;
mod rows;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rusqlite::Connection;

use self::connection::Open;
use self::kept::Loaded;
use super::document::Document;
use super::scan::Unreadable;
use super::stamp::iso;
use super::store::{Change, Options, revise};
use crate::db::fault::translate;
use crate::db::{ffi, fork};
use crate::{Error, Result};

/// The name that stands for a database which is gone with its store.
pub const IN_MEMORY: &str = ":memory:";

/// The sessions of one database, for any number of threads and processes.
#[derive(Debug)]
pub struct Transcripts {
    path: PathBuf,
    options: Options,
    generation: u64,
    state: Mutex<Open>,
    /// Reads whole tables while others write; opened when it is first needed.
    reader: Mutex<Option<Connection>>,
    /// The documents beside a new database that are no sessions.
    left_out: Vec<Unreadable>,
    /// What a forked child has in the place of the parent's connections.
    of_child: OnceLock<Box<Transcripts>>,
}

impl Transcripts {
    /// Opens the database at `path`, which is made where it is missing; [`IN_MEMORY`] is none.
    ///
    /// A new one gets the documents of `directory` as its first sessions, all in one transaction;
    /// they stay where they are.
    pub fn open(path: &Path, directory: &Path, options: Options, now: f64) -> Result<Self> {
        let open = Open::at(path, options)?;
        let left_out = if path == Path::new(IN_MEMORY) {
            Vec::new()
        } else {
            legacy::adopt(&open.connection, path, directory, now)?
        };
        Ok(Self::around(path, options, open, left_out))
    }

    fn around(path: &Path, options: Options, open: Open, left_out: Vec<Unreadable>) -> Self {
        Self {
            path: path.to_owned(),
            options,
            generation: fork::generation(),
            state: Mutex::new(open),
            reader: Mutex::new(None),
            left_out,
            of_child: OnceLock::new(),
        }
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a session; `None` where there is none. [`Error::Damaged`] where its row holds none.
    pub fn view<R>(&self, id: &str, read: impl FnOnce(Option<&Document>) -> R) -> Result<R> {
        let home = self.own()?;
        let mut open = home.lock("read")?;
        home.follow(&mut open)?;
        if open.kept.get(id).is_none()
            && let Some(document) = home.load(&open.connection, id)?
        {
            open.kept.put(id, Loaded { document, tally: None });
        }
        Ok(read(open.kept.get(id)))
    }

    /// Returns a session, whole.
    pub fn document(&self, id: &str) -> Result<Option<Document>> {
        fn cloned(found: Option<&Document>) -> Option<Document> {
            found.cloned()
        }
        self.view(id, cloned)
    }

    /// Whether the session has a row, readable or not.
    pub fn exists(&self, id: &str) -> Result<bool> {
        let home = self.own()?;
        let open = home.lock("read")?;
        rows::exists(&open.connection, id).map_err(|source| home.fault("read", &source))
    }

    /// Changes a session, which is made where it is missing, and returns whether it was written:
    /// not when `edit` says that nothing changed. Reading, changing and writing are one transaction.
    pub fn change(
        &self,
        id: &str,
        change: Change,
        edit: impl FnOnce(&mut Document) -> Result<bool>,
    ) -> Result<bool> {
        if id.is_empty() {
            return Err(Error::invalid("session_id must not be empty"));
        }
        let home = self.own()?;
        let mut open = home.lock("write")?;
        open.patience.set(change.timeout);
        home.begin(&open)?;
        let changed = home.follow(&mut open).and_then(|()| home.rewrite(&mut open, id, change, edit));
        let ended = home.end(&open, changed.is_ok());
        match (changed, ended) {
            (Ok(None), ended) => ended.map(|()| false),
            (Ok(Some(loaded)), Ok(())) => {
                open.kept.put(id, loaded);
                Ok(true)
            }
            (Ok(Some(_)), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Deletes a session; `false` where there is none.
    pub fn delete(&self, id: &str, timeout: Duration) -> Result<bool> {
        let home = self.own()?;
        let mut open = home.lock("delete")?;
        open.patience.set(timeout);
        drop(open.kept.take(id));
        home.begin(&open)?;
        let deleted = rows::delete(&open.connection, id).map_err(|source| home.fault("delete", &source));
        let ended = home.end(&open, deleted.is_ok());
        deleted.and_then(|deleted| ended.map(|()| deleted))
    }

    /// Forgets what is kept of a session, or of all.
    pub fn forget(&self, id: Option<&str>) -> Result<()> {
        let mut open = self.own()?.lock("read")?;
        match id {
            Some(id) => drop(open.kept.take(id)),
            None => open.kept.clear(),
        }
        Ok(())
    }

    /// Makes the change within a transaction, and returns what is the row's once it is committed.
    fn rewrite(
        &self,
        open: &mut Open,
        id: &str,
        change: Change,
        edit: impl FnOnce(&mut Document) -> Result<bool>,
    ) -> Result<Option<Loaded>> {
        if ffi::has_moved(&open.connection) {
            return Err(Error::Gone { path: self.path.clone() });
        }
        let found = match open.kept.take(id) {
            Some(loaded) => Some(loaded),
            None => self.load(&open.connection, id)?.map(|document| Loaded { document, tally: None }),
        };
        if change.only_new && found.is_some() {
            return Err(Error::Exists { path: self.path.join(id) });
        }
        let (mut document, mut tally) = match found {
            Some(Loaded { document, tally }) => (document, tally),
            None => (Document::new(id, &iso(change.now)), None),
        };
        if !revise(&mut document, &mut tally, id, change, edit)? {
            return Ok(None);
        }
        rows::put(&open.connection, id, &document).map_err(|source| self.fault("write", &source))?;
        Ok(Some(Loaded { document, tally }))
    }

    fn load(&self, connection: &Connection, id: &str) -> Result<Option<Document>> {
        let stored = rows::get(connection, id).map_err(|source| self.fault("read", &source))?;
        let parsed = stored.map(|stored| rows::parse(&stored).map(Document::packed));
        parsed.transpose().map_err(|what| Error::damaged(&self.path, format!("sessions[{id}]"), what))
    }

    fn fault(&self, action: &'static str, source: &rusqlite::Error) -> Error {
        translate(&self.path, action, source)
    }
}
