//! A private journal: a file with room set aside, written at offsets that its owner chooses.
//!
//! It is written with calls, never through a mapping, so that a full disk or a bad one is the error of
//! the very write that met it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags};

use super::lock::is_still;

/// Bytes that are set aside at a time.
const ROOM: u64 = 256 << 10;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    room: u64,
}

impl Journal {
    /// Opens the journal of that name; `None` when there is none. A link is not followed.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        match Self::attempt(path, OFlags::RDWR, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// The same for reading alone.
    pub fn look(path: &Path) -> io::Result<Option<Self>> {
        match Self::attempt(path, OFlags::RDONLY, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the journal, making it with its room where there is none.
    pub fn make(path: &Path) -> io::Result<Self> {
        let mut journal = Self::attempt(path, OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o666))?;
        journal.set_aside(ROOM)?;
        Ok(journal)
    }

    fn attempt(path: &Path, flags: OFlags, mode: Mode) -> io::Result<Self> {
        let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, safe | flags, mode)?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the journal is not a regular file"));
        }
        Ok(Self { file, path: path.to_owned(), room: found.size() })
    }

    /// Whether its name still leads to it.
    pub fn is_named(&self) -> io::Result<bool> {
        is_still(&self.path, &self.file)
    }

    /// Its bytes, those set aside included.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.size())
    }

    /// Reads at an offset, and returns how much there was.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes at an offset: all of it, or an error.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        if end > self.room {
            self.set_aside(end.next_multiple_of(ROOM))?;
        }
        self.file.write_all_at(bytes, offset)
    }

    fn set_aside(&mut self, size: u64) -> io::Result<()> {
        if size <= self.room {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), self.room, size - self.room) {
            Ok(()) => {}
            // A file system that cannot set room aside makes it at each write.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.room = size;
        Ok(())
    }
}
