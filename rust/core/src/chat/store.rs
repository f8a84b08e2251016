//! A directory of sessions: where each one is, reading it, and changing it under its lock.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cell::{Loaded, Memory, lock};
use super::document::Document;
use super::name::Name;
use super::proof::{self, Proof, Stamp};
use super::register::Register;
use super::retention::Policy;
use super::stamp::iso;
use super::tally::Tally;
use crate::codec::json::Json;
use crate::files::exclusion::Exclusion;
use crate::files::replace::{replace_alone, sync_directory_at};
use crate::{Error, Result};

/// How often a session that moves to another file meanwhile is looked for again.
const ATTEMPTS: usize = 8;
/// Room for what a document is besides its messages.
const ROOM: usize = 16 << 10;
/// More memory is not kept between writes.
const MOST_SPARE: usize = 16 << 20;

/// How a store writes and what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether a write is on disk when it returns, so that a power cut cannot take it back.
    pub sync: bool,
    /// How many sessions stay in memory; 0 for as many as the store sees fit.
    pub kept: usize,
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// Seconds since 1970.
    pub now: f64,
    /// What happens to messages beyond the window; `None` leaves them.
    pub policy: Option<Policy>,
    /// How long to wait for the session's lock.
    pub timeout: Duration,
    /// Whether a session that exists is refused: [`Error::Exists`].
    pub only_new: bool,
    /// Whether the session keeps the time that it says it was written at: a restored one was not
    /// written now.
    pub keep_time: bool,
}

/// The sessions of one directory, for any number of threads.
#[derive(Debug)]
pub struct Store {
    pub(super) directory: PathBuf,
    options: Options,
    pub(super) memory: Memory,
    pub(super) register: Option<Arc<Register>>,
    spare: Spare,
}

/// The memory of the last document that was written, for the next one: to get as much anew, and
/// have the system clear it, takes as long as to fill it.
#[derive(Debug, Default)]
struct Spare(Mutex<Vec<u8>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        // Never waited for: in a forked child a thread that is not there may have it.
        self.0.try_lock().map_or_else(|_| Vec::new(), |mut kept| std::mem::take(&mut *kept))
    }

    fn give(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        if bytes.capacity() > MOST_SPARE {
            return;
        }
        if let Ok(mut kept) = self.0.try_lock() {
            *kept = bytes;
        }
    }
}

/// Where a session is, or would be.
enum Place {
    Here(String),
    /// The file of that name holds another session, whose id is not given.
    Foreign(String),
    Nowhere,
}

impl Store {
    /// Opens a directory, which is made where it is missing.
    pub fn open(directory: &Path, options: Options) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(|error| Error::io(directory, "create", &error))?;
        Ok(Self {
            directory: directory.to_owned(),
            options,
            memory: Memory::new(),
            register: None,
            spare: Spare::default(),
        })
    }

    /// Reads a session; `None` where there is none. No lock is taken and nothing on disk changes.
    /// [`Error::Damaged`] where the file is no session.
    pub fn view<R>(&self, name: &Name, read: impl FnOnce(Option<&Document>) -> R) -> Result<R> {
        let file = match self.place(name)? {
            Place::Here(file) => file,
            Place::Foreign(file) if name.is_stem() => file,
            Place::Foreign(_) | Place::Nowhere => return Ok(read(None)),
        };
        self.with(&file, |loaded| read(loaded.map(|loaded| &loaded.document)))
    }

    /// Returns a session, whole.
    pub fn document(&self, name: &Name) -> Result<Option<Document>> {
        fn cloned(found: Option<&Document>) -> Option<Document> {
            found.cloned()
        }
        self.view(name, cloned)
    }

    /// Returns the file of a session, or the one that it would get.
    pub fn file_of(&self, name: &Name) -> Result<PathBuf> {
        Ok(self.directory.join(self.file_to_write(name)?))
    }

    /// Whether the session has a file, readable or not.
    pub fn exists(&self, name: &Name) -> Result<bool> {
        match self.place(name) {
            Ok(Place::Here(_)) | Err(Error::Damaged { .. }) => Ok(true),
            Ok(Place::Foreign(_)) => Ok(name.is_stem()),
            Ok(Place::Nowhere) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes a session, which is made where it is missing, and returns whether it was written:
    /// not when `edit` says that nothing changed. On an error the file is as it was.
    pub fn change(
        &self,
        name: &Name,
        change: Change,
        edit: impl FnOnce(&mut Document) -> Result<bool>,
    ) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let file = self.file_to_write(name)?;
            let path = self.directory.join(&file);
            let cell = self.memory.get(&file);
            let _turn = lock(&cell.turn);
            let _excluded = Exclusion::take(&path, change.timeout)?;
            // Another writer may have taken the name for another id before the lock was ours.
            if self.file_to_write(name)? != file {
                continue;
            }
            let mut slot = lock(&cell.loaded);
            refresh(&path, &mut slot)?;
            if change.only_new && slot.is_some() {
                return Err(Error::Exists { path });
            }
            let written = self.replace(name, &path, change, &mut slot, edit);
            let size = slot.as_ref().map_or(0, Loaded::size);
            drop(slot);
            self.memory.settle(&file, size, self.options.kept);
            return written;
        }
        Err(Error::Busy { path: self.directory.join(name.own_file()) })
    }

    /// Returns what a change would write, and where; `None` when nothing would change. The caller
    /// who writes it holds the session's lock meanwhile.
    pub fn preview(
        &self,
        name: &Name,
        change: Change,
        edit: impl FnOnce(&mut Document) -> Result<bool>,
    ) -> Result<Option<(PathBuf, Document)>> {
        let path = self.file_of(name)?;
        let mut document = self.document(name)?.unwrap_or_else(|| Document::new(name.id(), &iso(change.now)));
        let is_changed = revise(&mut document, &mut None, name.id(), change, edit)?;
        Ok(is_changed.then_some((path, document)))
    }

    /// Deletes a session; `false` where there is none. Its lock file stays, for others may wait on it.
    pub fn delete(&self, name: &Name, timeout: Duration) -> Result<bool> {
        let file = match self.place(name) {
            Ok(Place::Here(file)) => file,
            Ok(Place::Foreign(file)) if name.is_stem() => file,
            Ok(Place::Foreign(_) | Place::Nowhere) => return Ok(false),
            Err(Error::Damaged { .. }) => name.shared_file().unwrap_or_else(|| name.own_file()),
            Err(error) => return Err(error),
        };
        let path = self.directory.join(&file);
        let _excluded = Exclusion::take(&path, timeout)?;
        self.memory.forget(Some(&file));
        match self.announced(&path, || std::fs::remove_file(&path)) {
            Ok(()) => self.sync().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&path, "delete", &error)),
        }
    }

    /// Forgets what is kept of a session, or of all.
    pub fn forget(&self, name: Option<&Name>) {
        match name {
            Some(name) => {
                self.memory.forget(Some(&name.own_file()));
                self.memory.forget(name.shared_file().as_deref());
            }
            None => self.memory.forget(None),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        if !self.options.sync {
            return Ok(());
        }
        sync_directory_at(&self.directory).map_err(|error| Error::io(&self.directory, "sync", &error))
    }

    pub(super) fn with<R>(&self, file: &str, read: impl FnOnce(Option<&Loaded>) -> R) -> Result<R> {
        let cell = self.memory.get(file);
        let mut slot = lock(&cell.loaded);
        refresh(&self.directory.join(file), &mut slot)?;
        let answer = read(slot.as_ref());
        let size = slot.as_ref().map_or(0, Loaded::size);
        drop(slot);
        self.memory.settle(file, size, self.options.kept);
        Ok(answer)
    }

    fn place(&self, name: &Name) -> Result<Place> {
        let own = name.own_file();
        if self.has(&own)? {
            return Ok(Place::Here(own));
        }
        let Some(shared) = name.shared_file() else { return Ok(Place::Nowhere) };
        if !self.has(&shared)? {
            return Ok(Place::Nowhere);
        }
        let is_ours = self.with(&shared, |loaded| {
            loaded.map(|found| found.document.session_id().is_none_or(|id| id == name.id()))
        })?;
        Ok(match is_ours {
            Some(true) => Place::Here(shared),
            Some(false) => Place::Foreign(shared),
            None => Place::Nowhere,
        })
    }

    fn has(&self, file: &str) -> Result<bool> {
        let path = self.directory.join(file);
        path.try_exists().map_err(|error| Error::io(&path, "look at", &error))
    }

    fn file_to_write(&self, name: &Name) -> Result<String> {
        match self.place(name)? {
            Place::Here(file) => Ok(file),
            Place::Foreign(_) => Ok(name.own_file()),
            Place::Nowhere => {
                let may_share = name
                    .may_share(&self.directory)
                    .map_err(|error| Error::io(&self.directory, "list", &error))?;
                Ok(name.shared_file().filter(|_| may_share).unwrap_or_else(|| name.own_file()))
            }
        }
    }

    /// Replaces the file under its lock. The document is taken out of the slot meanwhile: one that
    /// was changed and not written must not be taken for the file's.
    fn replace(
        &self,
        name: &Name,
        path: &Path,
        change: Change,
        slot: &mut Option<Loaded>,
        edit: impl FnOnce(&mut Document) -> Result<bool>,
    ) -> Result<bool> {
        let (mut document, mut tally, old) = match slot.take() {
            Some(Loaded { document, tally, proof }) => (document, tally, Some(proof)),
            None => (Document::new(name.id(), &iso(change.now)), None, None),
        };
        if !revise(&mut document, &mut tally, name.id(), change, edit)? {
            *slot = old.map(|proof| Loaded { document, tally, proof });
            return Ok(false);
        }
        let file = self.announced(path, || self.write(path, &document))?;
        let proof = Proof::of(file).map_err(|error| Error::io(path, "look at", &error))?;
        *slot = Some(Loaded { document, tally, proof });
        if let Some(old) = old {
            old.give_up();
        }
        Ok(true)
    }

    /// Writes a file of which the index is told before and after.
    pub(super) fn announced<R>(&self, path: &Path, write: impl FnOnce() -> R) -> R {
        let file = path.file_name().and_then(|file| file.to_str());
        let Some((register, file)) = self.register.as_ref().zip(file) else { return write() };
        register.expect_write(file);
        let written = write();
        register.end_write(file);
        written
    }

    pub(super) fn write(&self, path: &Path, document: &Document) -> Result<File> {
        let mut bytes = self.spare.take();
        bytes.reserve(document.size() + ROOM);
        document.write(&mut bytes);
        let mut temporary = OsString::from(".");
        temporary.push(path.file_name().unwrap_or_default());
        temporary.push(".tmp");
        let file = replace_alone(path, &temporary, &bytes, self.options.sync);
        self.spare.give(bytes);
        file
    }
}

/// Changes a document as one write does, and returns whether there is anything to write.
pub(super) fn revise(
    document: &mut Document,
    tally: &mut Option<Tally>,
    session_id: &str,
    change: Change,
    edit: impl FnOnce(&mut Document) -> Result<bool>,
) -> Result<bool> {
    let now = iso(change.now);
    // Only old snapshots need them, which the peer writes no more.
    let archived = (document.archive.len(), document.archive.last().cloned());
    let before = document.has_old_snapshots().then(|| document.messages.clone());
    if !edit(document)? {
        return Ok(false);
    }
    document.complete(session_id, &now);
    if !change.keep_time {
        document.set("updated_at", Json::text(&now));
    }
    // An archive that the edit replaced is counted anew.
    if (document.archive.len(), document.archive.last()) != (archived.0, archived.1.as_ref()) {
        *tally = None;
    }
    if let Some(policy) = change.policy {
        document.fit(policy, &Json::Number(format!("{:?}", change.now).into()), tally);
    }
    if let Some(before) = before {
        document.mark_old_snapshots(&before);
    }
    Ok(true)
}

/// Brings the slot level with the file.
fn refresh(path: &Path, slot: &mut Option<Loaded>) -> Result<()> {
    let failed = |error: io::Error| Error::io(path, "read", &error);
    if let (Some(loaded), Some(seen)) = (slot.as_ref(), Stamp::look(path).map_err(failed)?)
        && loaded.proof.holds(&seen)
    {
        return Ok(());
    }
    *slot = None;
    if let Some((bytes, proof)) = proof::read(path).map_err(failed)? {
        let document = Document::parse(&bytes)
            .map_err(|fault| Error::damaged(path, format!("offset {}", fault.offset), fault.what))?
            .packed();
        *slot = Some(Loaded { document, tally: None, proof });
    }
    Ok(())
}
