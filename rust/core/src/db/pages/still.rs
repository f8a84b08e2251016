//! A directory in which no name comes or goes, which makes questions for single names needless.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags};

/// How often it is waited for the clock's next tick, and how long each time: four ticks of the slowest.
const PATIENCE: (u32, Duration) = (40, Duration::from_millis(1));

/// How old a time must be that may be one of a clock of whole seconds or hundredths, as some file systems
/// have it.
const COARSE_NS: i64 = 2_100_000_000;
const HUNDREDTH_NS: i64 = 10_000_000;

/// What says whether names of a directory changed: device and inode, and its times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    id: (u64, u64),
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Names {
    /// Looks at a directory; `None` where it cannot be looked at.
    pub fn of(directory: &File) -> Option<Self> {
        let found = rustix::fs::fstat(directory).ok()?;
        // The fields have other widths on other systems.
        let rest = |part| i64::try_from(part).unwrap_or(0);
        let whole = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Some(Self {
            id: (found.st_dev, found.st_ino),
            mtime_ns: whole(found.st_mtime, rest(found.st_mtime_nsec)),
            ctime_ns: whole(found.st_ctime, rest(found.st_ctime_nsec)),
        })
    }

    /// Whether every change from now on will show in the times. One within the tick of the clock that they
    /// tell would not; a time ahead of the clock, as from another machine, tells nothing.
    pub fn are_settled(&self) -> bool {
        let (seconds, rest) = last_tick();
        let now = seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        [self.mtime_ns, self.ctime_ns].into_iter().all(|time| {
            let youth = if time % HUNDREDTH_NS == 0 { COARSE_NS } else { 0 };
            time.saturating_add(youth) < now
        })
    }
}

/// A directory as it was listed, whose own times tell whether a name came, went or was given to
/// another file since.
#[derive(Debug)]
pub struct Still {
    directory: File,
    before: Names,
    /// Names beside which a log or a journal lies.
    restless: HashSet<OsString>,
}

impl Still {
    /// Lists a directory; `None` where it cannot be, or others change it all the time. It waits for the end
    /// of the tick of the clock in which the directory was last changed, some milliseconds at most.
    pub fn begin(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let mut before = Names::of(&directory)?;
        for _ in 0..PATIENCE.0 {
            if before.are_settled() {
                break;
            }
            std::thread::sleep(PATIENCE.1);
            before = Names::of(&directory)?;
        }
        if !before.are_settled() {
            return None;
        }
        let restless = restless(&directory)?;
        let still = Self { directory, before, restless };
        still.holds().then_some(still)
    }

    /// Whether neither a log nor a journal lies beside a name, for as long as the directory stands still.
    pub fn is_quiet(&self, name: &OsStr) -> bool {
        !self.restless.contains(name)
    }

    /// Whether no name came, went or was given to another file since the directory was listed.
    pub fn holds(&self) -> bool {
        Names::of(&self.directory) == Some(self.before)
    }

    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

fn restless(directory: &File) -> Option<HashSet<OsString>> {
    let mut names = HashSet::new();
    for entry in Dir::read_from(directory).ok()? {
        let entry = entry.ok()?;
        let bytes = entry.file_name().to_bytes();
        for suffix in ["-wal", "-journal"] {
            if let Some(name) = bytes.strip_suffix(suffix.as_bytes()) {
                names.insert(OsStr::from_bytes(name).to_owned());
            }
        }
    }
    Some(names)
}

/// When the clock that file times are taken from last moved.
#[cfg(target_os = "linux")]
pub(super) fn last_tick() -> (i64, i64) {
    // The very clock that file times are taken from.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn last_tick() -> (i64, i64) {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tick = now.saturating_sub(Duration::from_millis(20));
    (i64::try_from(tick.as_secs()).unwrap_or(i64::MAX), i64::from(tick.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_and_coarse_times_are_not_settled() {
        let (seconds, rest) = last_tick();
        let now = seconds * 1_000_000_000 + rest;
        let names = |mtime_ns, ctime_ns| Names { id: (1, 2), mtime_ns, ctime_ns }.are_settled();
        let (old, second) = (now - 60_000_000_001, now - now % 1_000_000_000);

        assert!(names(old | 1, old | 1) && names(second - 60_000_000_000, old | 1));
        assert!(!names(now + 1_000_000_000, old | 1) && !names(old | 1, now + 1_000_000_000));
        assert!(!names(second - 1_000_000_000, old | 1));
    }

    #[test]
    fn a_name_that_comes_goes_or_is_given_to_another_file_ends_it() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for name in ["a", "b", "b-wal", "c-journal"] {
            std::fs::write(path(name), name).unwrap();
        }
        let changes: [fn(&Path); 3] = [
            |home| std::fs::write(home.join("a-wal"), "").unwrap(),
            |home| std::fs::rename(home.join("b"), home.join("a")).unwrap(),
            |home| std::fs::remove_file(home.join("a")).unwrap(),
        ];
        for change in changes {
            let still = Still::begin(home.path()).unwrap();
            let held = still.holds() && still.is_quiet(OsStr::new("a"));

            std::fs::write(path("a"), "more").unwrap();
            let held_when_written = still.holds();
            change(home.path());

            assert!(held && held_when_written && !still.holds());
            assert!(!still.is_quiet(OsStr::new("b")) && !still.is_quiet(OsStr::new("c")));
            std::fs::remove_file(path("a-wal")).unwrap_or_default();
        }
    }
}
