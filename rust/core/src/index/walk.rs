//! What lies in a session directory: every session's file with its fingerprint, and the names that
//! look like one and are none.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::name::{MIRROR, rank, stem};
use super::read::Found;
use super::threads::Threads;
use crate::db::pages::Names as DirectoryTimes;
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;
use crate::files::fingerprint::{Fingerprint, WalPrint, logs};

/// So few files are looked at sooner than threads are woken.
const FEW: usize = 4096;

/// One look at a session directory.
#[derive(Debug, Default)]
pub struct Walk {
    /// The file that stands for each session, by path.
    pub found: Vec<Sight>,
    /// What is called like a session and is none, by path, with the reason.
    pub odd: Vec<(String, String)>,
}

/// A session's file as a look found it: no more than tells whether it must be read.
#[derive(Debug)]
pub struct Sight {
    /// Its path below the session directory.
    pub path: String,
    /// Its state.
    pub print: Fingerprint,
    /// Whether a session of the directory itself has the name of this one of the mirror.
    is_shadowed: bool,
    is_quiet: bool,
    has_artifacts: bool,
}

impl Sight {
    /// The key of its entry.
    pub fn filename(&self) -> &str {
        // The peer keys its entries by the bare name, which two directories may share.
        let bare = self.path.strip_prefix(PREFIX).filter(|_| !self.is_shadowed);
        bare.unwrap_or(&self.path)
    }

    /// The file, to be read.
    pub fn found(&self, directory: &Path) -> Found {
        Found {
            filename: self.filename().to_owned(),
            path: self.path.clone(),
            file: directory.join(&self.path),
            print: self.print,
            is_quiet: self.is_quiet,
            has_artifacts: self.has_artifacts,
        }
    }
}

/// Begins the paths of what lies in the mirror.
const PREFIX: &str = "mirror/";

/// The names of a directory as they were listed last, which need not be read again for as long as its own
/// times stand.
#[derive(Debug, Default)]
pub struct Known(Option<(DirectoryTimes, Arc<Names>)>);

impl Known {
    fn list(&mut self, directory: &Path) -> Result<(File, Arc<Names>)> {
        let handle = open(directory)?;
        let before = DirectoryTimes::of(&handle);
        if let Some((times, names)) = &self.0
            && before == Some(*times)
        {
            return Ok((handle, Arc::clone(names)));
        }
        let settled = before.filter(DirectoryTimes::are_settled);
        let names = Arc::new(read(&handle, directory)?);
        self.0 = settled.map(|times| (times, Arc::clone(&names)));
        Ok((handle, names))
    }
}

/// Looks at a directory and at `mirror` in it. An error when either cannot be listed: a directory
/// that cannot be read is not an empty one.
pub fn walk(directory: &Path, threads: &Threads, known: &mut Known) -> Result<Walk> {
    let (handle, names) = known.list(directory)?;
    let mut walk = look((&handle, directory), "", &names, threads);
    let mirror = directory.join(MIRROR);
    if mirror.is_dir() {
        let (handle, names) = list(&mirror)?;
        let mut of_mirror = look((&handle, &mirror), PREFIX, &names, threads);
        let taken: HashSet<&str> = walk.found.iter().map(|found| found.path.as_str()).collect();
        for found in &mut of_mirror.found {
            found.is_shadowed = taken.contains(found.filename());
        }
        drop(taken);
        walk.found.append(&mut of_mirror.found);
        walk.odd.append(&mut of_mirror.odd);
        walk.found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(walk)
}

/// A session's name, and what its neighbours say of it.
#[derive(Debug)]
struct Named {
    name: String,
    /// Whether there is a log, and whether there is a tail.
    logs: [bool; 2],
    /// Whether there is neither a log nor a tail nor a journal.
    is_quiet: bool,
    has_artifacts: bool,
}

/// What stands in one directory under names of sessions, and beside them.
#[derive(Debug, Default)]
struct Names {
    /// In their order.
    sessions: Vec<Named>,
    /// Whether some of them may be versions of others.
    has_versions: bool,
    logs: HashSet<OsString>,
    tails: HashSet<OsString>,
    journals: HashSet<OsString>,
    artifacts: HashSet<OsString>,
    undecodable: Vec<OsString>,
}

impl Names {
    fn add(&mut self, bytes: &[u8]) {
        let own = |name: &[u8]| OsStr::from_bytes(name).to_owned();
        if let Some(name) = bytes.strip_suffix(b"-wal") {
            self.logs.insert(own(name));
        } else if let Some(name) = bytes.strip_suffix(b".tail") {
            self.tails.insert(own(name));
        } else if let Some(name) = bytes.strip_suffix(b"-journal") {
            self.journals.insert(own(name));
        } else if bytes.ends_with(b".artifacts") {
            self.artifacts.insert(own(bytes));
        }
        match std::str::from_utf8(bytes).map(|name| (name, rank(name))) {
            Ok((name, Some(rank))) => {
                // Names without versions are one a session as it is.
                self.has_versions |= rank != 1;
                let name = name.to_owned();
                self.sessions.push(Named { name, logs: [false; 2], is_quiet: false, has_artifacts: false });
            }
            Err(_) if rank(&String::from_utf8_lossy(bytes)).is_some() => self.undecodable.push(own(bytes)),
            _ => {}
        }
    }

    /// Puts the sessions in order and tells each what lies beside it.
    fn settle(&mut self) {
        self.sessions.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let [logs, tails, journals, artifacts] =
            [&mut self.logs, &mut self.tails, &mut self.journals, &mut self.artifacts].map(std::mem::take);
        for session in &mut self.sessions {
            let name = OsStr::new(&session.name);
            session.logs = [logs.contains(name), tails.contains(name)];
            session.is_quiet = session.logs == [false; 2] && !journals.contains(name);
            session.has_artifacts = !artifacts.is_empty()
                && artifacts_dir(Path::new(name)).file_name().is_some_and(|own| artifacts.contains(own));
        }
    }
}

fn list(directory: &Path) -> Result<(File, Names)> {
    let handle = open(directory)?;
    let names = read(&handle, directory)?;
    Ok((handle, names))
}

fn open(directory: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty());
    opened.map(File::from).map_err(|errno| Error::io(directory, "list", &errno.into()))
}

fn read(handle: &File, directory: &Path) -> Result<Names> {
    let fault = |errno: rustix::io::Errno| Error::io(directory, "list", &errno.into());
    let mut names = Names::default();
    for entry in Dir::read_from(handle).map_err(fault)? {
        names.add(entry.map_err(fault)?.file_name().to_bytes());
    }
    names.settle();
    Ok(names)
}

fn look((handle, directory): (&File, &Path), prefix: &str, names: &Names, threads: &Threads) -> Walk {
    let one = |named: &Named| -> Result<Sight, (String, String)> {
        let name = &named.name;
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}{name}") };
        match print_of(handle, directory, named) {
            Ok((print, is_link)) => Ok(Sight {
                path,
                print,
                is_shadowed: false,
                // The log of a link lies beside what it leads to.
                is_quiet: !is_link && named.is_quiet,
                has_artifacts: named.has_artifacts,
            }),
            Err(reason) => Err((path, reason)),
        }
    };
    let sessions = &names.sessions;
    let pool = if sessions.len() > FEW { threads.pool() } else { None };
    let looked: Vec<_> = match pool {
        Some(pool) => pool.install(|| sessions.par_iter().with_min_len(64).map(one).collect()),
        None => sessions.iter().map(one).collect(),
    };
    let mut walk = Walk { found: Vec::with_capacity(looked.len()), odd: Vec::new() };
    for sight in looked {
        match sight {
            Ok(sight) => walk.found.push(sight),
            Err((_, reason)) if reason.is_empty() => {}
            Err(odd) => walk.odd.push(odd),
        }
    }
    for name in &names.undecodable {
        walk.odd.push((format!("{prefix}{}", name.to_string_lossy()), "its name is not UTF-8".to_owned()));
    }
    if names.has_versions {
        keep_highest(&mut walk.found);
    }
    walk
}

/// Leaves the highest version of each session.
fn keep_highest(found: &mut Vec<Sight>) {
    let mut best: HashMap<&str, (u64, usize)> = HashMap::with_capacity(found.len());
    for (at, sight) in found.iter().enumerate() {
        let rank = rank(&sight.path).unwrap_or(0);
        let chosen = best.entry(stem(&sight.path)).or_insert((rank, at));
        if rank > chosen.0 {
            *chosen = (rank, at);
        }
    }
    let kept: HashSet<usize> = best.into_values().map(|(_, at)| at).collect();
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        kept.contains(&(at - 1))
    });
}

/// The fingerprint of a regular file and whether a link led to it; the reason where it is none, empty
/// where it has gone meanwhile.
fn print_of(handle: &File, directory: &Path, named: &Named) -> Result<(Fingerprint, bool), String> {
    let name = named.name.as_str();
    // The logs come first, as `Fingerprint::of` has it.
    let [has_log, has_tail] = named.logs;
    let log = print_beside(handle, has_log, name, "-wal")?;
    let tail = print_beside(handle, has_tail, name, ".tail")?;
    let wal = logs(log, tail);
    let found = match rustix::fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => return Err(String::new()),
        Err(errno) => return Err(format!("it cannot be looked at: {}", io::Error::from(errno))),
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let (mtime_ns, ctime_ns, size) = times_and_size(&found);
            let print = Fingerprint {
                mtime_ns,
                ctime_ns,
                size,
                inode: found.st_ino,
                device: found.st_dev,
                wal,
                has_tail: tail.is_some(),
            };
            Ok((print, false))
        }
        FileType::Symlink => behind(&directory.join(name)).map(|print| (print, true)),
        FileType::Directory => Err("it is a directory".to_owned()),
        _ => Err("it is not a regular file".to_owned()),
    }
}

fn print_beside(handle: &File, is_there: bool, name: &str, suffix: &str) -> Result<Option<WalPrint>, String> {
    if !is_there {
        return Ok(None);
    }
    match rustix::fs::statat(handle, format!("{name}{suffix}"), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok((found.st_size > 0).then(|| times_and_size(&found))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(errno) => Err(format!("its log cannot be looked at: {}", io::Error::from(errno))),
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
