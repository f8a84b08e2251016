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

use rustix::fs::{Mode, OFlags};

use super::PageFault;
use super::header::{self, Header};

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

    /// Whether any later write must bear a later time. Many kernels stamp files with the time of
    /// the last tick, so that a write in the tick of the look is not to be told from one before.
    fn is_settled(&self) -> bool {
        let (seconds, nanoseconds) = last_tick();
        // A time further ahead comes from a clock that was set back, and will not be met again.
        self.ctime < (seconds, nanoseconds) || self.ctime > (seconds.saturating_add(1), nanoseconds)
    }
}

#[cfg(target_os = "linux")]
fn last_tick() -> (i64, i64) {
    // The very clock that file times are taken from.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

#[cfg(not(target_os = "linux"))]
fn last_tick() -> (i64, i64) {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tick = now.saturating_sub(Duration::from_millis(20));
    (i64::try_from(tick.as_secs()).unwrap_or(i64::MAX), i64::from(tick.subsec_nanos()))
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
        let mut start = SPARE.take();
        start.resize(usize::try_from(before.size).map_or(AHEAD, |size| size.min(AHEAD)), 0);
        read_exact(&file, &mut start, 0)?;
        let Some(bytes) = start.first_chunk::<{ header::LENGTH }>() else {
            return Err(PageFault::unsupported("a file without pages"));
        };
        let header = Header::parse(bytes, before.size)?;
        Ok(Self { file, path, before, header, start: Arc::new(start), cache: RefCell::default() })
    }

    pub fn file_id(&self) -> (u64, u64) {
        self.before.id
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the file stood still since it was opened, and was the whole database.
    pub fn finish(&self) -> Result<(), PageFault> {
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

fn open_itself(path: &Path) -> Result<File, rustix::io::Errno> {
    // NONBLOCK, lest a pipe of that name be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
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
