//! Artifacts: bytes kept beside a session, under names that a user or a model chose.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::replace::{open_directory, replace_in, sync_directory};
use crate::{Error, Result};

/// Returns the directory of a bundle's artifacts, which need not exist: `x.kohakutr` and
/// `x.kohakutr.v2` lead to `x.artifacts` and `x.kohakutr.artifacts`.
pub fn artifacts_dir(bundle: &Path) -> PathBuf {
    let name = bundle.file_name().unwrap_or_default().as_bytes();
    // The stem as Python has it: a dot at either end of the name begins no suffix.
    let stem = match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 && dot + 1 < name.len() => name.get(..dot).unwrap_or(name),
        _ => name,
    };
    bundle.with_file_name(OsString::from_vec([stem, b".artifacts"].concat()))
}

/// Writes an artifact and returns its path; what it replaces is replaced atomically, and the bytes
/// are on disk once this returns.
///
/// `name` is relative, of parts between slashes. [`Error::Invalid`] when a part would lead out of
/// `dir`, means something else on another system, or when `dir` or a directory on the way is a
/// symbolic link.
pub fn write_artifact(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let parts = safe_parts(name)?;
    let path = join(dir, &parts);
    let failed = |error: &io::Error| Error::io(&path, "write", error);
    let Some((file_name, parents)) = parts.split_last() else {
        return Err(Error::invalid("artifact name must not be empty"));
    };
    let mut directory = enter_root(dir, name)?;
    for part in parents {
        directory = match enter(&directory, *part) {
            Ok(inner) => inner,
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(not_a_directory(name, part)),
            Err(error) => return Err(failed(&error.into())),
        };
    }
    replace_in(&directory, OsStr::new(file_name), bytes, true).map_err(|error| failed(&error))?;
    Ok(path)
}

/// Returns the real path of an existing artifact, for reading. The same names are refused as in
/// [`write_artifact`]; links are followed as long as they stay in `dir`. [`Error::NotFound`] when
/// there is none.
pub fn resolve_artifact(dir: &Path, name: &str) -> Result<PathBuf> {
    let path = join(dir, &safe_parts(name)?);
    let resolve = |path: &Path| {
        path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::NotFound { path: path.to_owned() }
            }
            _ => Error::io(path, "read", &error),
        })
    };
    let root = resolve(dir)?;
    let real = resolve(&path)?;
    if real != root && real.starts_with(&root) {
        Ok(real)
    } else {
        Err(Error::invalid(format!("artifact name leads out of its directory: {name:?}")))
    }
}

/// Cuts a name into its parts, or refuses it. What only Windows takes for a separator or a drive
/// is refused everywhere, so that a session can be carried there.
fn safe_parts(name: &str) -> Result<Vec<&str>> {
    let refuse = |why: &str| Err(Error::invalid(format!("artifact name {why}: {name:?}")));
    if name.is_empty() {
        return refuse("must not be empty");
    }
    if name.starts_with('/') || has_drive(name) {
        return refuse("must be relative");
    }
    if name.contains('\0') {
        return refuse("must not contain a NUL");
    }
    if name.contains('\\') {
        return refuse("must separate its parts by slashes");
    }
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            "" => return refuse("must not have an empty part"),
            ".." => return refuse("must not lead upwards"),
            "." => {}
            _ if has_drive(part) => return refuse("must be relative"),
            _ => parts.push(part),
        }
    }
    if parts.is_empty() || name.ends_with("/.") {
        return refuse("must name a file");
    }
    Ok(parts)
}

fn has_drive(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

fn join(dir: &Path, parts: &[&str]) -> PathBuf {
    let mut path = dir.to_owned();
    path.extend(parts);
    path
}

/// Opens the artifact directory, creating it; a link in its place is refused, even one that leads
/// to a good place, since whoever planted it chose what is overwritten.
fn enter_root(dir: &Path, name: &str) -> Result<File> {
    let failed = |error: &io::Error| Error::io(dir, "create", error);
    let own = dir.file_name().ok_or_else(|| Error::invalid("artifact directory has no name"))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    let parent = open_directory(parent).map_err(|error| failed(&error))?;
    match enter(&parent, own) {
        Ok(directory) => Ok(directory),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(not_a_directory(name, &dir.to_string_lossy())),
        Err(error) => Err(failed(&error.into())),
    }
}

/// Opens a directory within an open one, creating it when it is missing. Going down by descriptors
/// leaves no moment in which a link could be put in the way of a path already checked.
fn enter<P: rustix::path::Arg + Copy>(parent: &File, name: P) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {}
        found => return found.map(File::from),
    }
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        // Made by somebody else a moment ago.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    sync_directory(parent).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::fs::openat(parent, name, flags, Mode::empty()).map(File::from)
}

fn not_a_directory(name: &str, part: &str) -> Error {
    Error::invalid(format!("artifact name leads through `{part}`, which is a link or a file: {name:?}"))
}
