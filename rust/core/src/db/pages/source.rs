//! The file under the reader: opened at rest, read by `pread`, proven unchanged at the end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};

use super::PageFault;
use super::header::{self, Header};
use super::still::{Still, last_tick};
use crate::db::registry;

/// Pages kept: the way from a root to a leaf of two trees.
const CACHED: usize = 8;
/// Bytes at the beginning of the file that are read in one go: schema and meta of most bundles lie
/// there, in more pages than a call for each is worth.
const AHEAD: usize = 48 << 10;

/// An open database file at rest.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    /// The name of the file itself: SQLite puts its log beside that, not beside a link to it.
    path: PathBuf,
    before: Print,
    /// The directory, where it was seen to stand still and the file to be at rest in it.
    still: Option<Arc<Still>>,
    header: Header,
    /// The beginning of the file.
    start: Arc<Vec<u8>>,
    cache: RefCell<VecDeque<(u32, Arc<Vec<u8>>)>>,
}

thread_local! {
    /// The beginning of the last file, whose memory the next one takes: a listing reads thousands.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(start) = Arc::get_mut(&mut self.start) {
            SPARE.set(std::mem::take(start));
        }
    }
}

/// A page: a part of what was read ahead, or bytes of its own.
#[derive(Debug, Clone)]
pub(super) struct Page {
    bytes: Arc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl Page {
    fn whole(bytes: Arc<Vec<u8>>) -> Self {
        Self { start: 0, end: bytes.len(), bytes }
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }
}

/// What no write to the file leaves as it was.
#[derive(Debug, PartialEq, Eq)]
struct Print {
    id: (u64, u64),
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Print {
    fn of(found: &Metadata) -> Self {
        Self {
            id: (found.dev(), found.ino()),
            size: found.len(),
            mtime: (found.mtime(), found.mtime_nsec()),
            ctime: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// The same of an open file, for less than what [`File::metadata`] takes.
    fn of_open(file: &File) -> Result<(Self, FileType), PageFault> {
        let found = rustix::fs::fstat(file).map_err(io::Error::from)?;
        // The fields have other widths on other systems.
        let rest = |part| i64::try_from(part).unwrap_or(0);
        let print = Self {
            id: (found.st_dev, found.st_ino),
            size: u64::try_from(found.st_size).unwrap_or(0),
            mtime: (found.st_mtime, rest(found.st_mtime_nsec)),
            ctime: (found.st_ctime, rest(found.st_ctime_nsec)),
        };
        Ok((print, FileType::from_raw_mode(found.st_mode)))
    }

    /// Whether any later write must bear a later time. Many kernels stamp files with the time of
    /// the last tick, so that a write in the tick of the look is not to be told from one before.
    fn is_settled(&self) -> bool {
        let (seconds, nanoseconds) = last_tick();
        // A time further ahead comes from a clock that was set back, and will not be met again.
        self.ctime < (seconds, nanoseconds) || self.ctime > (seconds.saturating_add(1), nanoseconds)
    }
}

impl Source {
    pub fn open(path: &Path, is_quiet: bool) -> Result<Self, PageFault> {
        let source = Self::glance(path, is_quiet)?;
        if source.before.is_settled() { Ok(source) } else { Err(PageFault::Changed) }
    }

    /// The same, of a file that may have been changed within the present tick of the clock. Of a
    /// quiet one it is not asked whether it is at rest before [`Source::finish`] does.
    pub fn glance(path: &Path, is_quiet: bool) -> Result<Self, PageFault> {
        let (file, path) = open_file(path)?;
        // In this order: what is not in the log once the file was looked at is in the file, and
        // whoever moves it there later changes the look.
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(PageFault::unsupported("not a regular file"));
        }
        let before = Print::of(&found);
        if !is_quiet && !is_at_rest(&path)? {
            return Err(PageFault::unsupported("a write-ahead log or a journal with content"));
        }
        Self::begin(file, path, before, None)
    }

    /// The same as [`Source::open`], of a file whose inode the caller knows and has registered, and
    /// which is at rest for as long as its directory stands still.
    pub fn within(still: &Arc<Still>, path: &Path, id: (u64, u64)) -> Result<Self, PageFault> {
        let name = path.file_name().ok_or_else(|| PageFault::unsupported("a path without a name"))?;
        let file = rustix::fs::openat(still.handle(), name, READ, Mode::empty()).map(File::from);
        let file = file.map_err(io::Error::from)?;
        let (before, kind) = Print::of_open(&file)?;
        if before.id != id {
            // Closing a file that nobody has registered could drop the locks of a store that has it
            // open: rather than that, its descriptor stays.
            match registry::open_reader_of(before.id) {
                Some(reading) => drop((file, reading)),
                None => std::mem::forget(file),
            }
            return Err(PageFault::Changed);
        }
        if kind != FileType::RegularFile {
            return Err(PageFault::unsupported("not a regular file"));
        }
        if !before.is_settled() {
            return Err(PageFault::Changed);
        }
        Self::begin(file, path.to_owned(), before, Some(Arc::clone(still)))
    }

    fn begin(file: File, path: PathBuf, before: Print, still: Option<Arc<Still>>) -> Result<Self, PageFault> {
        let mut start = SPARE.take();
        start.resize(usize::try_from(before.size).map_or(AHEAD, |size| size.min(AHEAD)), 0);
        read_exact(&file, &mut start, 0)?;
        let Some(bytes) = start.first_chunk::<{ header::LENGTH }>() else {
            return Err(PageFault::unsupported("a file without pages"));
        };
        let header = Header::parse(bytes, before.size)?;
        Ok(Self { file, path, before, still, header, start: Arc::new(start), cache: RefCell::default() })
    }

    pub fn file_id(&self) -> (u64, u64) {
        self.before.id
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the file stood still since it was opened, and was the whole database.
    pub fn finish(&self) -> Result<(), PageFault> {
        // No log was made and no name given to another file.
        if self.still.as_ref().is_some_and(|still| still.holds()) {
            let is_same = Print::of_open(&self.file)?.0 == self.before;
            return if is_same { Ok(()) } else { Err(PageFault::Changed) };
        }
        // In this order: without a log the file is the whole database at this moment, and it is what
        // was read if it is now as it was before that.
        if !is_at_rest(&self.path)? {
            return Err(PageFault::Changed);
        }
        match self.path.symlink_metadata() {
            // Its descriptor is still open, so that the inode cannot have been given to another file.
            Ok(found) if Print::of(&found) == self.before => Ok(()),
            Ok(_) => Err(PageFault::Changed),
            Err(error) if is_absent(&error) => Err(PageFault::Changed),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a page of a b-tree.
    pub fn page(&self, number: u32) -> Result<Page, PageFault> {
        self.check(number)?;
        let (offset, size) = (self.offset(number), self.header.page_size);
        if let Some((start, end)) = self.ahead(offset, size) {
            return Ok(Page { bytes: Arc::clone(&self.start), start, end });
        }
        let mut cache = self.cache.borrow_mut();
        if let Some((_, page)) = cache.iter().find(|(cached, _)| *cached == number) {
            return Ok(Page::whole(Arc::clone(page)));
        }
        let mut page = vec![0; size];
        read_exact(&self.file, &mut page, offset)?;
        let page = Arc::new(page);
        if cache.len() == CACHED {
            cache.pop_front();
        }
        cache.push_back((number, Arc::clone(&page)));
        Ok(Page::whole(page))
    }

    /// Where a part of the file lies in what was read ahead.
    fn ahead(&self, offset: u64, length: usize) -> Option<(usize, usize)> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.start.len()).then_some((start, end))
    }

    /// Fills `buffer` with up to `count` pages from `first` on, past the cache, and returns how
    /// many there are: at least the first.
    pub fn run(&self, first: u32, count: usize, buffer: &mut Vec<u8>) -> Result<usize, PageFault> {
        self.check(first)?;
        let ahead = (self.header.page_count - first) as usize + 1;
        let count = count.clamp(1, ahead);
        let (offset, length) = (self.offset(first), count * self.header.page_size);
        if let Some((start, end)) = self.ahead(offset, length) {
            buffer.clear();
            buffer.extend_from_slice(self.start.get(start..end).unwrap_or_default());
            return Ok(count);
        }
        buffer.resize(length, 0);
        read_exact(&self.file, buffer, offset)?;
        Ok(count)
    }

    fn check(&self, number: u32) -> Result<(), PageFault> {
        if number == 0 || number > self.header.page_count || number == self.header.lock_page {
            return Err(PageFault::corrupt(format!("a pointer to page {number}, which does not exist")));
        }
        Ok(())
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number.saturating_sub(1)) * self.header.page_size as u64
    }
}

fn open_file(path: &Path) -> Result<(File, PathBuf), PageFault> {
    match open_itself(path) {
        Ok(file) => Ok((file, path.to_owned())),
        // NOFOLLOW says so of a link.
        Err(rustix::io::Errno::LOOP) => {
            let target = path.canonicalize()?;
            let file = open_itself(&target).map_err(io::Error::from)?;
            Ok((file, target))
        }
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// NONBLOCK, lest a pipe of that name be waited for.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open_itself(path: &Path) -> Result<File, rustix::io::Errno> {
    rustix::fs::open(path, READ, Mode::empty()).map(File::from)
}

/// Whether the main file is the whole database.
fn is_at_rest(path: &Path) -> Result<bool, PageFault> {
    let look = |suffix: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        match Path::new(&name).metadata() {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(PageFault::from(error)),
        }
    };
    Ok(look("-wal")?.unwrap_or(0) == 0 && look("-journal")?.is_none() && look(".tail")?.unwrap_or(0) == 0)
}

fn is_absent(error: &io::Error) -> bool {
    // SQLite cannot have made a log of a name that is too long either.
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

fn read_exact(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), PageFault> {
    match file.read_exact_at(buffer, offset) {
        Ok(()) => Ok(()),
        // The size was enough when the file was opened.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(PageFault::Changed),
        Err(error) => Err(error.into()),
    }
}
