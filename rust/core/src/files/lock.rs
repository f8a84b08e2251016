//! The writer lock of a bundle: who may write to it, told to other processes by `<bundle>.lock`.
//!
//! The file is shared with the peer: `flock` decides, and an exclusive holder leaves `\n` (the
//! byte that Windows locks), its process id and the time. It is never unlinked by a lock or an
//! unlock, since somebody may wait on the inode that would vanish.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::Pid;

use crate::clock::{Clock, SystemClock};
use crate::{Error, Result};

/// How often a lock that was granted on a file meanwhile deleted is asked for again.
const ATTEMPTS: usize = 8;

/// A lock on one bundle, held until it is dropped.
///
/// On Linux it costs no descriptor: the lock lives as long as a mapping of the lock file, which a
/// forked child does not inherit. Elsewhere the descriptor stays open.
#[derive(Debug)]
pub struct WriterLock {
    bundle: PathBuf,
    exclusive: bool,
    _held: Held,
}

impl WriterLock {
    /// Takes the lock that every writer of ours holds: others may share it, and an exclusive
    /// holder is kept out. Never waits; [`Error::Locked`] when somebody holds it exclusively,
    /// this process included.
    pub fn shared(bundle: &Path) -> Result<Self> {
        Self::take(bundle, false)
    }

    /// Takes the lock for this handle alone and writes the process id into the file. Never waits;
    /// [`Error::Locked`] when anybody holds it in any way, this process included.
    pub fn exclusive(bundle: &Path) -> Result<Self> {
        Self::take(bundle, true)
    }

    /// The bundle that is locked.
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    /// Whether nobody else may hold the lock.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    fn take(bundle: &Path, exclusive: bool) -> Result<Self> {
        let path = lock_path(bundle);
        for _ in 0..ATTEMPTS {
            #[cfg(target_os = "linux")]
            let _no_fork = super::fork::NoFork::enter().map_err(|error| Error::io(&path, "open", &error))?;
            let file = open(&path, exclusive).map_err(|error| Error::io(&path, "open", &error))?;
            if !try_flock(&file, exclusive).map_err(|error| Error::io(&path, "lock", &error))? {
                return Err(refused(bundle, &file));
            }
            if !is_still(&path, &file).map_err(|error| Error::io(&path, "lock", &error))? {
                continue;
            }
            if exclusive {
                sign(&file).map_err(|error| Error::io(&path, "write", &error))?;
            }
            let held = Held::keep(file).map_err(|error| Error::io(&path, "map", &error))?;
            return Ok(Self { bundle: bundle.to_owned(), exclusive, _held: held });
        }
        // Somebody deletes the lock file as quickly as we open it: the bundle is not ours.
        Err(Error::Locked { path: bundle.to_owned(), holder_pid: None })
    }
}

/// Returns the name of the lock file of `bundle`.
pub fn lock_path(bundle: &Path) -> PathBuf {
    let mut name = OsString::from(bundle);
    name.push(".lock");
    PathBuf::from(name)
}

/// Opens the lock file, creating it when it is missing. Neither a symbolic link is followed nor a
/// pipe waited for: the name may have been planted by somebody else.
pub(super) fn open(path: &Path, exclusive: bool) -> io::Result<File> {
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    // A shared holder never writes, so a lock file that belongs to another user will do.
    if !exclusive {
        match rustix::fs::open(path, safe | OFlags::RDONLY, Mode::empty()) {
            Ok(descriptor) => return regular(File::from(descriptor)),
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mode = Mode::from_raw_mode(0o666);
    regular(File::from(rustix::fs::open(path, safe | OFlags::RDWR | OFlags::CREATE, mode)?))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the lock file is not a regular file"))
    }
}

pub(super) fn try_flock(file: &File, exclusive: bool) -> io::Result<bool> {
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether `path` still names the file that was locked. A deletion of the session unlinks the lock
/// file last, and a lock on an unlinked file keeps nobody out.
pub(super) fn is_still(path: &Path, file: &File) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.symlink_metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn sign(file: &File) -> io::Result<()> {
    let text = format!("\n{}\n{:.0}\n", std::process::id(), SystemClock.now());
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Builds the refusal. The process id in the file counts only while its holder is exclusive: a
/// shared one does not sign, so that the id is that of a holder long gone.
fn refused(bundle: &Path, file: &File) -> Error {
    let is_shared = matches!(try_flock(file, false), Ok(true));
    let holder_pid = if is_shared { None } else { signature(file).filter(|&pid| is_alive(pid)) };
    Error::Locked { path: bundle.to_owned(), holder_pid }
}

fn signature(file: &File) -> Option<u32> {
    let mut start = [0_u8; 32];
    // An unreadable file names nobody; that the lock is held is known without it.
    let length = file.read_at(&mut start, 1).unwrap_or(0);
    let line = start.get(..length)?.split(|&byte| byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|&pid| pid > 0).and_then(Pid::from_raw) else {
        return false;
    };
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// What keeps the open file description, and with it the lock, alive.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Held {
    address: std::ptr::NonNull<std::ffi::c_void>,
    owner: u32,
}

#[cfg(target_os = "linux")]
impl Held {
    // One page of address space; nothing of it is ever touched, so the file may be empty.
    const LENGTH: usize = 1;

    #[expect(clippy::needless_pass_by_value, reason = "the descriptor is closed here, the lock stays")]
    fn keep(file: File) -> io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags};

        // SAFETY: the kernel chooses the address, so no memory of ours is replaced; the mapping
        // cannot be accessed and is never dereferenced.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                Self::LENGTH,
                ProtFlags::empty(),
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let address = std::ptr::NonNull::new(address)
            .ok_or_else(|| io::Error::other("the lock file was mapped at address zero"))?;
        let held = Self { address, owner: std::process::id() };
        // SAFETY: the range is the mapping just made, and the advice changes only what a child
        // inherits. Without it a child would keep the lock after its parent let go.
        unsafe { rustix::mm::madvise(address.as_ptr(), Self::LENGTH, Advice::LinuxDontFork) }?;
        Ok(held)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Held {
    fn drop(&mut self) {
        // In a forked child the mapping does not exist, and the address may be somebody else's.
        if self.owner != std::process::id() {
            return;
        }
        // SAFETY: the range was mapped by `keep` in this process, is unmapped only here, and
        // nothing points into it.
        let unmapped = unsafe { rustix::mm::munmap(self.address.as_ptr(), Self::LENGTH) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

// SAFETY: the address is only a name for the mapping; nothing is read or written through it, and
// `munmap` may be called from any thread.
#[cfg(target_os = "linux")]
unsafe impl Send for Held {}

// SAFETY: a shared reference gives access to nothing.
#[cfg(target_os = "linux")]
unsafe impl Sync for Held {}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Held {
    file: File,
    owner: u32,
}

#[cfg(not(target_os = "linux"))]
impl Held {
    fn keep(file: File) -> io::Result<Self> {
        Ok(Self { file, owner: std::process::id() })
    }
}

#[cfg(not(target_os = "linux"))]
impl Drop for Held {
    fn drop(&mut self) {
        // A child that inherited the descriptor would keep the lock alive after our close, so it
        // is let go by name; the child itself must not, for the lock is its parent's.
        if self.owner == std::process::id() {
            let unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
            debug_assert!(unlocked.is_ok(), "a lock of ours can be let go");
        }
    }
}
