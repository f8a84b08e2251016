//! A directory beside a new file, in which it is made before it gets its name.
//!
//! A process that is killed leaves its directory behind. Whoever makes the next one removes it: the
//! lock on it, and not its age, tells that nobody works there any more.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::{Error, Result};

/// What such directories are called, before what is drawn.
const PREFIXES: [&str; 3] = [".amberlog-fork-", ".amberlog-backup-", ".amberlog-migrate-"];
/// How often somebody may take a directory for one that was left behind before it is locked.
const ATTEMPTS: usize = 20;

/// What is made in such a directory.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// A fork of a session.
    Fork,
    /// A copy of a session.
    Backup,
    /// A session in the present format.
    Migration,
}

/// The directory; it is removed with all that is in it when the value is dropped.
#[derive(Debug)]
pub struct Aside {
    directory: PathBuf,
    /// `None` where the file system knows no locks on directories.
    lock: Option<File>,
}

impl Aside {
    /// Makes one in `parent`, and removes those that killed processes left there.
    pub fn make(parent: &Path, work: Work, action: &'static str) -> Result<Self> {
        let fault = |source: io::Error| Error::io(parent, action, &source);
        sweep(parent).map_err(fault)?;
        for _ in 0..ATTEMPTS {
            let directory = tempfile::Builder::new()
                .prefix(PREFIXES[work as usize])
                .tempdir_in(parent)
                .map_err(fault)?
                .keep();
            match lock(&directory) {
                Ok(lock) if is_still(&directory, &lock).map_err(fault)? => {
                    return Ok(Self { directory, lock: Some(lock) });
                }
                // Somebody found it before it was locked, and removes it.
                Ok(_) => {}
                Err(source) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock) => {}
                Err(_) => return Ok(Self { directory, lock: None }),
            }
        }
        Err(Error::Busy { path: parent.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.directory);
        // What stays is removed by whoever comes next, once the lock is let go.
        debug_assert!(removed.is_ok() || !self.directory.exists(), "{removed:?}");
        self.lock = None;
    }
}

/// Lets those read and write a new file who may do so with the one that it was made of, its owner in any
/// case.
pub fn keep_private(from: &Path, file: &Path) -> io::Result<()> {
    let mode = from.metadata()?.permissions().mode() & 0o777 | 0o600;
    std::fs::set_permissions(file, Permissions::from_mode(mode))
}

/// Removes the directories that nobody works in. One that may not be removed stays.
fn sweep(parent: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(parent) {
        // Where one may not look one may still write.
        Err(source) if source.kind() == ErrorKind::PermissionDenied => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            continue;
        }
        let path = entry.path();
        let Ok(lock) = lock(&path) else { continue };
        match std::fs::remove_dir_all(&path) {
            Err(source) if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                return Err(source);
            }
            _ => drop(lock),
        }
    }
    Ok(())
}

/// Opens a directory and locks it, without waiting. A link is not followed.
fn lock(directory: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    let _no_fork = super::fork::NoFork::enter()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn is_still(directory: &Path, lock: &File) -> io::Result<bool> {
    let ours = lock.metadata()?;
    match directory.symlink_metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(".amberlog-fork-left");
        std::fs::create_dir_all(left.join("artifacts")).unwrap();
        std::fs::write(left.join("artifacts/a"), b"a").unwrap();
        let used = Aside::make(parent.path(), Work::Backup, "test").unwrap();
        std::fs::create_dir(&left).unwrap();

        let made = Aside::make(parent.path(), Work::Fork, "test").unwrap();

        assert!(!left.exists());
        assert!(used.path().is_dir() && made.path().is_dir());
    }

    #[test]
    fn what_is_called_otherwise_stays() {
        let parent = tempfile::tempdir().unwrap();
        let other = parent.path().join(".amberlog-forks");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join(".amberlog-fork-link")).unwrap();

        let made = Aside::make(parent.path(), Work::Migration, "test").unwrap();
        let path = made.path().to_owned();
        drop(made);

        assert!(other.is_dir() && !path.exists());
    }
}
