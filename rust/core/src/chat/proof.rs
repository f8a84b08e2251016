//! What proves that a file is the one that was read or written.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::files::closing::close_later;

/// A time this close to the look may be that of a later change too, nanoseconds. Kernels stamp by
/// a clock that moves every few milliseconds; what keeps whole seconds may keep every other one.
const YOUTH_NS: u64 = 100_000_000;
const YOUTH_OF_SECONDS_NS: u64 = 2_000_000_000;

/// Identity, times and size of a file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    pub(super) fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            mtime: (found.mtime(), found.mtime_nsec()),
            ctime: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Looks at what a name stands for now; `None` where there is nothing.
    pub(super) fn look(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self::of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many bytes the file has.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The stamp as bytes; one that a later change could bear too is like no other.
    pub(super) fn pack(&self, is_sure: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(57);
        for number in [self.device, self.inode, self.size] {
            out.extend(number.to_le_bytes());
        }
        for (seconds, nanos) in [self.mtime, self.ctime] {
            out.extend(seconds.to_le_bytes());
            out.extend(nanos.to_le_bytes());
        }
        if !is_sure {
            out.push(0);
        }
        out
    }

    /// Whether a change after the look could bear the same times.
    pub(super) fn is_young(&self, now_s: f64) -> bool {
        let near = |(seconds, nanos): (i64, i64)| {
            #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
            let now = (now_s * 1e9) as i64;
            let youth = if nanos == 0 { YOUTH_OF_SECONDS_NS } else { YOUTH_NS };
            seconds.saturating_mul(1_000_000_000).saturating_add(nanos).abs_diff(now) < youth
        };
        near(self.mtime) || near(self.ctime)
    }
}

/// Keeps the file open: as long as it is, its number is given to no other, so that the same number
/// under the name, with the same times and size, is the same content. Every writer renames.
#[derive(Debug)]
pub(super) struct Proof {
    file: File,
    stamp: Stamp,
}

impl Proof {
    /// Proves a file that was just written or read, by what it is now.
    pub(super) fn of(file: File) -> io::Result<Self> {
        let stamp = Stamp::of(&file.metadata()?);
        Ok(Self { file, stamp })
    }

    /// Gives the proof up, once its file has been replaced.
    pub(super) fn give_up(self) {
        close_later(self.file);
    }

    /// What the file was when it was proven.
    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether `seen` is still the file that was proven.
    pub(super) fn holds(&self, seen: &Stamp) -> bool {
        self.stamp == *seen
    }
}

/// Reads a file and proves it; `None` where there is none.
pub(super) fn read(path: &Path) -> io::Result<Option<(Vec<u8>, Proof)>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let before = Stamp::of(&file.metadata()?);
    let mut bytes = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    // A stamp from before the read: what is written into the file meanwhile breaks the proof.
    Ok(Some((bytes, Proof { file, stamp: before })))
}
