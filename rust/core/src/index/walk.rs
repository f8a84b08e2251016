//! What lies in a session directory: every session's file with its fingerprint, and the names that
//! look like one and are none.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::name::{MIRROR, rank, stem};
use super::read::Found;
use super::threads::Threads;
use crate::error::{Error, Result};
use crate::files::fingerprint::Fingerprint;

/// So few files are looked at sooner than threads are woken.
const FEW: usize = 4096;

/// One look at a session directory.
#[derive(Debug, Default)]
pub struct Walk {
    /// The file that stands for each session, by path.
    pub found: Vec<Found>,
    /// What is called like a session and is none, by path, with the reason.
    pub odd: Vec<(String, String)>,
}

/// Looks at a directory and at `mirror` in it. An error when either cannot be listed: a directory
/// that cannot be read is not an empty one.
pub fn walk(directory: &Path, threads: &Threads) -> Result<Walk> {
    let mut walk = look(directory, "", threads)?;
    let mirror = directory.join(MIRROR);
    if mirror.is_dir() {
        let mut of_mirror = look(&mirror, "mirror/", threads)?;
        let taken: std::collections::HashSet<&str> =
            walk.found.iter().map(|found| found.filename.as_str()).collect();
        // The peer keys its entries by the bare name, which two directories may share.
        for found in &mut of_mirror.found {
            if taken.contains(found.filename.as_str()) {
                found.filename.clone_from(&found.path);
            }
        }
        drop(taken);
        walk.found.append(&mut of_mirror.found);
        walk.odd.append(&mut of_mirror.odd);
    }
    walk.found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(walk)
}

/// What stands in one directory under names of sessions.
struct Names {
    sessions: Vec<String>,
    logs: std::collections::HashSet<OsString>,
    undecodable: Vec<OsString>,
}

fn list(directory: &Path) -> Result<(File, Names)> {
    let fault = |source: io::Error| Error::io(directory, "list", &source);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle =
        File::from(rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| fault(errno.into()))?);
    let mut names =
        Names { sessions: Vec::new(), logs: std::collections::HashSet::new(), undecodable: Vec::new() };
    for entry in Dir::read_from(&handle).map_err(|errno| fault(errno.into()))? {
        let entry = entry.map_err(|errno| fault(errno.into()))?;
        let bytes = entry.file_name().to_bytes();
        if let Some(name) = bytes.strip_suffix(b"-wal") {
            names.logs.insert(OsStr::from_bytes(name).to_owned());
            continue;
        }
        match std::str::from_utf8(bytes) {
            Ok(name) if rank(name).is_some() => names.sessions.push(name.to_owned()),
            Err(_) if rank(&String::from_utf8_lossy(bytes)).is_some() => {
                names.undecodable.push(OsStr::from_bytes(bytes).to_owned());
            }
            _ => {}
        }
    }
    Ok((handle, names))
}

fn look(directory: &Path, prefix: &str, threads: &Threads) -> Result<Walk> {
    let (handle, names) = list(directory)?;
    let one = |name: &String| (name.clone(), print_of(&handle, directory, name, &names));
    let pool = if names.sessions.len() > FEW { threads.pool() } else { None };
    let looked: Vec<(String, Result<Fingerprint, String>)> = match pool {
        Some(pool) => pool.install(|| names.sessions.par_iter().with_min_len(64).map(one).collect()),
        None => names.sessions.iter().map(one).collect(),
    };
    let mut walk = Walk::default();
    let mut best: HashMap<String, (u64, String, Fingerprint)> = HashMap::with_capacity(looked.len());
    for (name, print) in looked {
        match print {
            Ok(print) => {
                let rank = rank(&name).unwrap_or(0);
                let place = best.entry(stem(&name).to_owned());
                let chosen = place.or_insert_with(|| (rank, name.clone(), print));
                if rank > chosen.0 {
                    *chosen = (rank, name, print);
                }
            }
            Err(reason) if reason.is_empty() => {}
            Err(reason) => walk.odd.push((format!("{prefix}{name}"), reason)),
        }
    }
    for name in names.undecodable {
        walk.odd.push((format!("{prefix}{}", name.to_string_lossy()), "its name is not UTF-8".to_owned()));
    }
    walk.found = best
        .into_values()
        .map(|(_, name, print)| Found {
            file: directory.join(&name),
            path: format!("{prefix}{name}"),
            filename: name,
            print,
        })
        .collect();
    Ok(walk)
}

/// The fingerprint of a regular file; the reason where it is none, empty where it has gone meanwhile.
fn print_of(handle: &File, directory: &Path, name: &str, names: &Names) -> Result<Fingerprint, String> {
    // The log comes first, as `Fingerprint::of` has it.
    let wal = if names.logs.contains(OsStr::new(name)) {
        match rustix::fs::statat(handle, format!("{name}-wal"), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => (found.st_size > 0).then(|| times_and_size(&found)),
            Err(rustix::io::Errno::NOENT) => None,
            Err(errno) => return Err(format!("its log cannot be looked at: {}", io::Error::from(errno))),
        }
    } else {
        None
    };
    let found = match rustix::fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => return Err(String::new()),
        Err(errno) => return Err(format!("it cannot be looked at: {}", io::Error::from(errno))),
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let (mtime_ns, ctime_ns, size) = times_and_size(&found);
            Ok(Fingerprint { mtime_ns, ctime_ns, size, inode: found.st_ino, device: found.st_dev, wal })
        }
        FileType::Symlink => behind(&directory.join(name)),
        FileType::Directory => Err("it is a directory".to_owned()),
        _ => Err("it is not a regular file".to_owned()),
    }
}

fn behind(link: &Path) -> Result<Fingerprint, String> {
    let target: PathBuf = match link.canonicalize() {
        Ok(target) => target,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err("it is a link to nothing".to_owned());
        }
        Err(source) => return Err(format!("its link cannot be followed: {source}")),
    };
    if !target.is_file() {
        return Err("it is a link to something that is not a regular file".to_owned());
    }
    Fingerprint::of(&target).map_err(|error| error.to_string())
}

fn times_and_size(found: &Stat) -> (i64, i64, u64) {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    // The fields have other widths on other systems.
    let rest = |part| i64::try_from(part).unwrap_or(0);
    (
        nanoseconds(found.st_mtime, rest(found.st_mtime_nsec)),
        nanoseconds(found.st_ctime, rest(found.st_ctime_nsec)),
        u64::try_from(found.st_size).unwrap_or(0),
    )
}
