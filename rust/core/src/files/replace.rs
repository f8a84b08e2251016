//! Replacing a plain file so that a reader, or the next start, finds the old or the new one whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::{Error, Result};

static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// Puts `bytes` in the place of the file at `path`, keeping the permissions of the old one.
///
/// With `sync` the new content is on disk once this returns; without it a power cut may bring the
/// old content back, but never a mixture. A symbolic link at `path` is replaced, not followed. On
/// an error the old file is untouched and no temporary file is left, except where the error is
/// that of the last sync: then the new file is in place, and may not survive a power cut.
pub fn replace_atomically(path: &Path, bytes: &[u8], sync: bool) -> Result<()> {
    let failed = |error: &io::Error| Error::io(path, "write", error);
    let name = path
        .file_name()
        .ok_or_else(|| failed(&io::Error::new(io::ErrorKind::InvalidInput, "it names no file")))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = open_directory(parent).map_err(|error| failed(&error))?;
    replace_in(&directory, name, bytes, sync).map_err(|error| failed(&error))
}

/// Puts `bytes` in the place of the file at `path`, and returns the new file, open.
///
/// As [`replace_atomically`], but for one writer at a time: the temporary file has the one name
/// `temporary`, so that what a killed writer left is gone with the next write. A file that is new
/// may be read by its owner alone.
pub fn replace_alone(path: &Path, temporary: &OsStr, bytes: &[u8], sync: bool) -> Result<File> {
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Error::ReadOnly { path: path.to_owned(), action: "write" }
        }
        _ => Error::io(path, "write", error),
    };
    let name = path
        .file_name()
        .ok_or_else(|| failed(&io::Error::new(io::ErrorKind::InvalidInput, "it names no file")))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = open_directory(parent).map_err(|error| failed(&error))?;
    let replace = || {
        let mode = mode_of(&directory, name)?.unwrap_or(Mode::RUSR | Mode::WUSR);
        let file = create_alone(&directory, temporary)?;
        let kept = file.try_clone()?;
        put_in_place(&directory, temporary, name, file, bytes, Some(mode), sync)?;
        Ok(kept)
    };
    replace().map_err(|error: io::Error| failed(&error))
}

/// Opens a directory to name files in, whatever it is called meanwhile.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Puts `bytes` in the place of `name` in an open directory.
pub(super) fn replace_in(directory: &File, name: &OsStr, bytes: &[u8], sync: bool) -> io::Result<()> {
    let mode = mode_of(directory, name)?;
    let (temporary, file) = create_temporary(directory)?;
    put_in_place(directory, &temporary, name, file, bytes, mode, sync)
}

fn put_in_place(
    directory: &File,
    temporary: &OsStr,
    name: &OsStr,
    file: File,
    bytes: &[u8],
    mode: Option<Mode>,
    sync: bool,
) -> io::Result<()> {
    let renamed = fill(file, bytes, mode, sync)
        .and_then(|()| Ok(rustix::fs::renameat(directory, temporary, directory, name)?));
    if let Err(error) = renamed {
        return Err(match rustix::fs::unlinkat(directory, temporary, AtFlags::empty()) {
            Ok(()) => error,
            Err(second) => io::Error::new(
                error.kind(),
                format!("{error} (and `{}` stays: {second})", temporary.display()),
            ),
        });
    }
    if sync { sync_directory(directory) } else { Ok(()) }
}

/// Makes the names in the directory at `path` durable.
pub fn sync_directory_at(path: &Path) -> io::Result<()> {
    sync_directory(&open_directory(path)?)
}

/// Makes the names in a directory durable, where its file system knows how to.
pub(super) fn sync_directory(directory: &File) -> io::Result<()> {
    match rustix::fs::fsync(directory.as_fd()) {
        // Some network and fuse file systems refuse to sync a directory at all; what they promise
        // about a rename is theirs to keep.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn mode_of(directory: &File, name: &OsStr) -> io::Result<Option<Mode>> {
    match rustix::fs::statat(directory, name, AtFlags::empty()) {
        Ok(old) => Ok(Some(Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o777))),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file under a name that nobody uses. The name begins with a dot and does not contain
/// the final one: it is listed nowhere, and does not grow past what a file system allows.
fn create_temporary(directory: &File) -> io::Result<(OsString, File)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let number = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".amberlog-{}-{number}.tmp", std::process::id()));
        match rustix::fs::openat(directory, &name, flags, Mode::from_raw_mode(0o666)) {
            Ok(descriptor) => return Ok((name, File::from(descriptor))),
            // Left by a killed process that had our id.
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn create_alone(directory: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR);
    match create() {
        // Left by a writer that was killed; it is not written to, for it may be a link.
        Err(rustix::io::Errno::EXIST) => {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            Ok(File::from(create()?))
        }
        created => Ok(File::from(created?)),
    }
}

fn fill(mut file: File, bytes: &[u8], mode: Option<Mode>, sync: bool) -> io::Result<()> {
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    file.write_all(bytes)?;
    if sync { file.sync_all() } else { Ok(()) }
}
