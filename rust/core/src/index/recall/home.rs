//! Where the index lies: a directory beside the sidecar, derived, made anew when it is damaged or of
//! another version, and by-passed in memory where nothing may be written.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tantivy::directory::MmapDirectory;
use tantivy::directory::error::LockError;
use tantivy::{Index, IndexReader, IndexSettings, ReloadPolicy, TantivyError};

use super::document::{Fields, SharedFields};
use super::gather::Ground;
use super::roster::Roster;
use crate::error::{Error, Result};
use crate::files::exclusion::Exclusion;
use crate::files::fingerprint::Fingerprint;
use crate::files::replace::replace_atomically;

/// How the directory of the index is called in a session directory.
pub const HOME: &str = ".amberlog-recall";

/// The version of what is stored, with that of how text is cut: another one is begun anew.
const VERSION: &str = "amberlog recall 1";
const META: &str = "meta.json";
const ROSTER: &str = "sessions-";

/// An open index with the sessions that it holds.
pub(super) struct Shelf {
    pub index: Index,
    pub reader: IndexReader,
    pub ground: Arc<Ground>,
    pub fields: SharedFields,
    /// The state of the file that a commit replaces; `None` in memory.
    stamp: Option<Fingerprint>,
}

/// The place of the index of one session directory.
#[derive(Debug, Clone)]
pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    /// The place beside the sessions of a directory.
    pub fn of(directory: &Path) -> Self {
        Self { path: directory.join(HOME) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    /// Waits until nobody else writes the index. [`Error::ReadOnly`] where one may not.
    pub fn lock(&self, timeout: Duration) -> Result<Exclusion> {
        match fs::create_dir(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.path.is_dir() => {}
            Err(error) => return Err(refused(&self.path, &error)),
        }
        Exclusion::take(&self.index(), timeout)
    }

    /// Opens the index that is there; `None` where there is none that can be used. Unless `is_checked` its
    /// bytes are compared with their checksums, which costs one look at each.
    pub fn open(&self, is_checked: bool) -> Result<Option<Shelf>> {
        let path = self.index();
        let Ok(stamp) = Fingerprint::of(&path.join(META)) else { return Ok(None) };
        guarded(&path, || {
            let directory = MmapDirectory::open(&path)?;
            let index = Index::open(directory)?;
            if !is_checked && !index.validate_checksum()?.is_empty() {
                return Ok(None);
            }
            self.read(index, Some(stamp))
        })
    }

    /// Begins an empty index in the place of what is there. The caller holds the lock.
    pub fn begin(&self) -> Result<Shelf> {
        let path = self.index();
        clear(&path)?;
        fs::create_dir(&path).map_err(|error| refused(&path, &error))?;
        let begun = guarded(&path, || {
            let (schema, _) = Fields::schema();
            let directory = MmapDirectory::open(&path)?;
            let index = Index::create(directory, schema, IndexSettings::default())?;
            let stamp = Fingerprint::of(&path.join(META)).ok();
            self.read(index, stamp)
        })?;
        begun.ok_or_else(|| Error::damaged(&path, META, "what was just written is not there"))
    }

    /// Begins an empty index in memory.
    pub fn in_memory(&self) -> Result<Shelf> {
        let begun = guarded(&self.path, || self.read(Index::create_in_ram(Fields::schema().0), None))?;
        begun.ok_or_else(|| Error::damaged(&self.path, META, "an index in memory cannot be read"))
    }

    /// Whether somebody else has written since the index was opened.
    pub fn is_behind(&self, held: &Shelf) -> bool {
        match held.stamp {
            None => false,
            Some(known) => Fingerprint::of(&self.index().join(META)).is_ok_and(|now| now != known),
        }
    }

    /// Whether the index has been deleted, which is anybody's right.
    pub fn is_gone(&self, held: &Shelf) -> bool {
        held.stamp.is_some() && !self.index().join(META).exists()
    }

    fn read(&self, index: Index, stamp: Option<Fingerprint>) -> tantivy::Result<Option<Shelf>> {
        let (schema, fields) = Fields::schema();
        if index.schema() != schema {
            return Ok(None);
        }
        Fields::teach(&index);
        let Some(roster) = self.roster(&index, stamp.is_some())? else { return Ok(None) };
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Some(Shelf {
            index,
            reader,
            ground: Arc::new(Ground::of(Arc::new(roster))),
            fields: Arc::new(fields),
            stamp,
        }))
    }

    /// The sessions that the last commit names; `None` where that is of another version, or lost.
    fn roster(&self, index: &Index, is_stored: bool) -> tantivy::Result<Option<Roster>> {
        let meta = index.load_metas()?;
        let Some(payload) = meta.payload else {
            return Ok((meta.segments.is_empty()).then(Roster::default));
        };
        if !is_stored {
            return Ok(None);
        }
        let Some((VERSION, name)) = payload.split_once('\n') else { return Ok(None) };
        if !name.starts_with(ROSTER) || name.contains('/') {
            return Ok(None);
        }
        let path = self.index().join(name);
        Ok(fs::read(&path).ok().and_then(|bytes| Roster::unpack(&path, &bytes).ok()))
    }

    /// Writes the sessions that the next commit will name, and returns what it says of them.
    pub fn put_roster(&self, roster: &Roster, number: u64) -> Result<String> {
        let name = format!("{ROSTER}{number}");
        replace_atomically(&self.index().join(&name), &roster.pack(), true)?;
        Ok(format!("{VERSION}\n{name}"))
    }

    /// Removes the lists of sessions that no commit names any more.
    pub fn sweep(&self, kept: &str) -> Result<()> {
        let path = self.index();
        let kept = kept.split_once('\n').map_or("", |(_, name)| name);
        let entries = fs::read_dir(&path).map_err(|error| Error::io(&path, "list", &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_old = name.to_str().is_some_and(|name| name.starts_with(ROSTER) && name != kept);
            if is_old && let Err(error) = fs::remove_file(entry.path()) {
                return Err(Error::io(&entry.path(), "remove", &error));
            }
        }
        Ok(())
    }
}

impl Shelf {
    /// Whether it is kept in memory.
    pub fn is_in_memory(&self) -> bool {
        self.stamp.is_none()
    }
}

/// Removes an index; a link of that name is removed, and not what it leads to.
fn clear(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists => Error::ReadOnly { path: path.to_owned(), action: "write" },
        _ => Error::io(path, "write", error),
    }
}

/// Runs what reads or writes the index. What it holds is not checked before it is used, so damage may show
/// itself anywhere in it, also as a panic.
pub(super) fn guarded<R>(path: &Path, work: impl FnOnce() -> tantivy::Result<R>) -> Result<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|error| told(path, &error)),
        Err(_) => Err(Error::damaged(path, "its records", "they contradict each other")),
    }
}

fn told(path: &Path, error: &TantivyError) -> Error {
    match error {
        TantivyError::IoError(source) if source.raw_os_error().is_some() => {
            Error::io(path, "write the index in", source)
        }
        TantivyError::LockFailure(LockError::LockBusy, _) => Error::Busy { path: path.to_owned() },
        // Its own lock files cannot be opened, where others have made them.
        TantivyError::LockFailure(LockError::IoError(source), _) => refused(path, source),
        other => Error::damaged(path, "its records", other.to_string()),
    }
}
