//! What tells that a bundle changed since it was last read, from two stats and no open.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Two changes this close to each other may bear the same time: a few ticks of the kernel's clock.
const TICK_NS: i64 = 40_000_000;
/// The same on file systems that keep whole seconds, or every second one.
const COARSE_NS: i64 = 2_000_000_000;

/// Times and size of the write-ahead log: (`mtime_ns`, `ctime_ns`, size).
pub type WalPrint = (i64, i64, u64);

/// The state of a bundle's files at one moment; take it before reading what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// When the content was last written, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When content or attributes were last changed, nanoseconds since 1970; nobody can set it.
    pub ctime_ns: i64,
    /// Bytes.
    pub size: u64,
    /// The file's number on its device.
    pub inode: u64,
    /// The device.
    pub device: u64,
    /// The same of `<path>-wal`, where it exists and is not empty: a session that is open
    /// elsewhere grows there while its own file stands still. A tail beside it counts as part of it.
    pub wal: Option<WalPrint>,
    /// Whether there is a tail. It is not part of what is compared.
    pub has_tail: bool,
}

impl Fingerprint {
    /// Looks at `path`: two stats. A symbolic link is followed, since SQLite keeps the log beside
    /// the file that the link leads to. [`Error::NotFound`] when there is no such file.
    pub fn of(path: &Path) -> Result<Self> {
        if let Some(print) = Self::look(path)? {
            return Ok(print);
        }
        let target = path.canonicalize().map_err(|error| failed(path, &error))?;
        // A link was put where its target was a moment ago: there is nothing to describe.
        Self::look(&target)?.ok_or_else(|| Error::NotFound { path: path.to_owned() })
    }

    /// Whether both stand for the same content. A moved or restored file keeps size and time of
    /// the content, but neither its inode nor its ctime.
    pub fn same_content(&self, other: &Self) -> bool {
        let is_same_file = (self.inode, self.device) == (other.inode, other.device);
        let same_times = |a: WalPrint, b: WalPrint| a.0 == b.0 && a.2 == b.2 && (!is_same_file || a.1 == b.1);
        let main = (self.mtime_ns, self.ctime_ns, self.size);
        let is_same_wal = match (self.wal, other.wal) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => same_times(ours, theirs),
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_wal && same_times(main, (other.mtime_ns, other.ctime_ns, other.size))
    }

    /// Whether a change after the look could bear the same times, so that the file must be read
    /// again next time; `look` is from when to when files were looked at. A time far in the future is
    /// no doubt: no later change would repeat it.
    pub fn is_young(&self, look: (i64, i64)) -> bool {
        // Who reads sees what the holder of a tail has stored; killed, it changes nothing any more.
        if self.has_tail {
            return true;
        }
        let is_near = |mtime: i64, ctime: i64| {
            // Programs set whole seconds as the time of the content, but nobody sets the other one.
            let youth = if ctime % 1_000_000_000 == 0 { COARSE_NS } else { TICK_NS };
            let near = look.0.saturating_sub(youth)..=look.1.saturating_add(youth);
            near.contains(&mtime) || near.contains(&ctime)
        };
        is_near(self.mtime_ns, self.ctime_ns)
            || self.wal.is_some_and(|(mtime, ctime, _)| is_near(mtime, ctime))
    }

    /// Returns `None` for a symbolic link. The log comes first: seen empty before the main file,
    /// what it held is in the main file, or was written after the look. In the other order a
    /// checkpoint between the two would look like a file that never changed.
    fn look(path: &Path) -> Result<Option<Self>> {
        let (log, tail) = (print_beside(path, "-wal")?, print_beside(path, ".tail")?);
        let (wal, has_tail) = (logs(log, tail), tail.is_some());
        let main = path.symlink_metadata().map_err(|error| failed(path, &error))?;
        if main.is_symlink() {
            return Ok(None);
        }
        let (mtime_ns, ctime_ns, size) = times_and_size(&main);
        Ok(Some(Self { mtime_ns, ctime_ns, size, inode: main.ino(), device: main.dev(), wal, has_tail }))
    }
}

/// What the write-ahead log and the tail stand for together.
pub fn logs(wal: Option<WalPrint>, tail: Option<WalPrint>) -> Option<WalPrint> {
    match (wal, tail) {
        (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.max(other.1), one.2 + other.2)),
        (one, other) => one.or(other),
    }
}

fn print_beside(path: &Path, suffix: &str) -> Result<Option<WalPrint>> {
    let mut name = OsString::from(path);
    name.push(suffix);
    let wal = PathBuf::from(name);
    match wal.symlink_metadata() {
        Ok(found) => Ok((found.len() > 0).then(|| times_and_size(&found))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io(&wal, "look at", &error)),
    }
}

fn times_and_size(found: &Metadata) -> WalPrint {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    (
        nanoseconds(found.mtime(), found.mtime_nsec()),
        nanoseconds(found.ctime(), found.ctime_nsec()),
        found.len(),
    )
}

fn is_absent(error: &io::Error) -> bool {
    // A name of 255 bytes is a legal bundle whose log cannot exist.
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}

fn failed(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotFound { path: path.to_owned() },
        _ => Error::io(path, "look at", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000_000;

    fn print() -> Fingerprint {
        let old = NOW - 60_000_000_000;
        Fingerprint {
            mtime_ns: old,
            ctime_ns: old,
            size: 4096,
            inode: 7,
            device: 1,
            wal: None,
            has_tail: false,
        }
    }

    #[test]
    fn a_moved_or_restored_file_is_no_change() {
        let before = print();

        let restored = Fingerprint { inode: 8, ctime_ns: NOW, ..before };

        assert!(before.same_content(&restored));
    }

    #[test]
    fn a_write_that_sets_the_time_back_is_a_change() {
        let before = print();

        let hidden = Fingerprint { ctime_ns: NOW, ..before };

        assert!(!before.same_content(&hidden));
    }

    #[test]
    fn a_log_that_appears_grows_or_goes_is_a_change() {
        let quiet = print();
        let live = Fingerprint { wal: Some((NOW, NOW, 32)), ..quiet };
        let grown = Fingerprint { wal: Some((NOW, NOW, 64)), ..quiet };

        assert!(!quiet.same_content(&live));
        assert!(!live.same_content(&grown));
        assert!(!grown.same_content(&quiet));
    }

    #[test]
    fn only_times_near_the_look_are_young() {
        let settled = print();
        let fresh = Fingerprint { ctime_ns: NOW - 1_000_000_000, ..settled };
        let ahead = Fingerprint { mtime_ns: NOW + 3_600_000_000_000, ..settled };
        let live = Fingerprint { wal: Some((NOW, NOW, 32)), ..settled };

        let ticked = Fingerprint { ctime_ns: NOW - 999_999_999, ..settled };
        let now = (NOW, NOW);

        assert!(!settled.is_young(now));
        assert!(fresh.is_young(now));
        assert!(!ticked.is_young(now) && ticked.is_young((NOW - 2_000_000_000, NOW)));
        assert!(!ahead.is_young(now));
        assert!(live.is_young(now));
    }
}
