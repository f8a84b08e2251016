//! Being told by the system which files of a directory were written, by whatever process.

use std::collections::HashSet;
use std::path::Path;

/// What happened in a directory since it was last asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// Only what has these names, now or before, can have changed.
    Names(HashSet<String>),
    /// Anything may have: the watch is of no use any more.
    Unknown,
}

/// A watched directory.
#[derive(Debug)]
pub struct Watch {
    #[cfg(target_os = "linux")]
    events: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    use super::{Changed, HashSet, Path, Watch};

    /// File systems whose every change passes through this system's own hands.
    const LOCAL: [u64; 6] = [
        0xEF53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // Btrfs
        0x0102_1994, // tmpfs
        0xF2F5_2010, // F2FS
        0x794C_7630, // overlayfs
    ];
    const ROOM: usize = 4096;

    impl Watch {
        /// Watches a directory; `None` where nobody would tell of all changes.
        pub fn on(directory: &Path) -> Option<Self> {
            let kind = rustix::fs::statfs(directory).ok()?.f_type;
            if !LOCAL.contains(&u64::try_from(kind).ok()?) {
                return None;
            }
            let events = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            let wanted = WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            add_watch(&events, directory, wanted).ok()?;
            Some(Self { events })
        }

        /// Returns what happened since the last call; what happened before a writer's call returned
        /// is told.
        pub fn changed(&self) -> Changed {
            let mut room = [MaybeUninit::uninit(); ROOM];
            let mut events = Reader::new(&self.events, &mut room);
            let mut names = HashSet::new();
            loop {
                let event = match events.next() {
                    Ok(event) => event,
                    Err(Errno::WOULDBLOCK) => return Changed::Names(names),
                    Err(_) => return Changed::Unknown,
                };
                let lost = ReadFlags::QUEUE_OVERFLOW
                    | ReadFlags::IGNORED
                    | ReadFlags::UNMOUNT
                    | ReadFlags::DELETE_SELF
                    | ReadFlags::MOVE_SELF;
                if event.events().intersects(lost) {
                    return Changed::Unknown;
                }
                names.extend(event.file_name().and_then(|name| name.to_str().ok()).map(str::to_owned));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Watch {
    /// Watches a directory; `None` where nobody would tell of all changes.
    pub fn on(_directory: &Path) -> Option<Self> {
        None
    }

    /// Returns what happened since the last call.
    pub fn changed(&self) -> Changed {
        Changed::Unknown
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_was_written_is_told_once_the_writer_has_returned() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let watch = Watch::on(directory.path()).unwrap();

        std::fs::write(directory.path().join("new"), "x").unwrap();
        std::fs::rename(directory.path().join("new"), directory.path().join("s.json")).unwrap();

        let names = HashSet::from(["new".to_owned(), "s.json".to_owned()]);
        assert_eq!(watch.changed(), Changed::Names(names));
        assert_eq!(watch.changed(), Changed::Names(HashSet::new()));
    }

    #[test]
    fn a_directory_that_is_gone_is_no_longer_told_of() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let watch = Watch::on(directory.path()).unwrap();

        drop(directory);

        assert_eq!(watch.changed(), Changed::Unknown);
    }
}
