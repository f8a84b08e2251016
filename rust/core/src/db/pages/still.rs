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

type Time = (i64, i64);

/// A directory as it was listed, whose own times tell whether a name came, went or was given to
/// another file since.
#[derive(Debug)]
pub struct Still {
    directory: File,
    before: (Time, Time),
    /// Names beside which a log or a journal lies.
    restless: HashSet<OsString>,
}

impl Still {
    /// Lists a directory; `None` where it cannot be, or others change it all the time.
    ///
    /// A change within the tick of the clock in which it was last changed would not show in its times,
    /// so this waits for that tick to end, some milliseconds at most.
    pub fn begin(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let mut before = times(&directory)?;
        for _ in 0..PATIENCE.0 {
            if before.0.max(before.1) < last_tick() {
                break;
            }
            std::thread::sleep(PATIENCE.1);
            before = times(&directory)?;
        }
        // A time ahead of the clock, as from another machine, tells nothing.
        if before.0.max(before.1) >= last_tick() {
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
        times(&self.directory) == Some(self.before)
    }

    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

fn times(directory: &File) -> Option<(Time, Time)> {
    let found = rustix::fs::fstat(directory).ok()?;
    // The fields have other widths on other systems.
    let rest = |part| i64::try_from(part).unwrap_or(0);
    Some(((found.st_mtime, rest(found.st_mtime_nsec)), (found.st_ctime, rest(found.st_ctime_nsec))))
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
