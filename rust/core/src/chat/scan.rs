//! Looking at all sessions of a directory, of which only those are read that changed.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Document;
use super::entry::Entry;
use super::name::ENDING;
use super::proof::{self, Stamp};
use super::store::Store;
use crate::{Error, Result};

/// Fewer files are read by the caller's thread alone.
const FEW_FILES: usize = 16;
/// So many are looked at by several threads.
const MANY_FILES: usize = 512;

/// A file that is no session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be read.
    pub reason: String,
}

/// The sessions of a directory at one moment.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The sessions by the names of their files.
    pub entries: Arc<Vec<Arc<Entry>>>,
    /// The sessions, those last written first.
    pub newest: Arc<Vec<Arc<Entry>>>,
    /// The files that are no sessions.
    pub unreadable: Arc<Vec<Unreadable>>,
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// Read again next time: a change since may have left the same stamp.
    is_unsure: bool,
    entry: Result<Arc<Entry>, String>,
}

/// What was seen of a directory.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    directory: Option<Stamp>,
    seen: HashMap<String, Seen>,
    listing: Listing,
}

impl Store {
    /// Returns the sessions of the directory. Costs two looks at the directory when nothing was
    /// written since, else one at each file; only changed files are read.
    pub fn list(&self, now: f64) -> Result<Listing> {
        let failed = |error: io::Error| Error::io(&self.directory, "list", &error);
        let mut catalog = self.memory.catalog();
        let directory = Stamp::look(&self.directory).map_err(failed)?;
        if directory.is_some_and(|stamp| catalog.directory == Some(stamp)) {
            return Ok(catalog.listing.clone());
        }
        let files = look(&self.directory).map_err(failed)?;
        catalog.update(&self.directory, &files, now);
        // Every writer renames, and that moves the directory's time, which is only trusted when
        // it is old enough that no later change could bear it.
        catalog.directory = directory.filter(|stamp| !stamp.is_young(now) && catalog.is_sure());
        Ok(catalog.listing.clone())
    }

    /// Reads the sessions of the named files by several threads, and hands each to `each`; what it
    /// returns comes back in the order of the names. A file that is gone meanwhile is left out.
    pub(super) fn read_all<R: Send>(
        &self,
        files: &[impl AsRef<str> + Sync],
        each: impl Fn(&str, &Document) -> Option<R> + Sync,
    ) -> Vec<R> {
        in_parallel(files, |file| {
            let path = self.directory.join(file.as_ref());
            match read(&path) {
                Ok(Some((document, _))) => each(file.as_ref(), &document),
                // What cannot be read is reported by the list.
                Ok(None) | Err(_) => None,
            }
        })
    }
}

impl Catalog {
    fn is_sure(&self) -> bool {
        self.seen.values().all(|seen| !seen.is_unsure)
    }

    fn update(&mut self, directory: &Path, files: &[(String, Stamp)], now: f64) {
        let changed: Vec<(String, Stamp)> = files
            .iter()
            .filter(|(file, stamp)| {
                self.seen.get(file).is_none_or(|seen| seen.stamp != *stamp || seen.is_unsure)
            })
            .cloned()
            .collect();
        if changed.is_empty() && self.seen.len() == files.len() {
            return;
        }
        let present: HashSet<&str> = files.iter().map(|(file, _)| file.as_str()).collect();
        self.seen.retain(|file, _| present.contains(file.as_str()));
        let read = in_parallel(&changed, |(file, stamp)| {
            let entry = match read(&directory.join(file)) {
                Ok(None) => return None,
                Ok(Some((document, _))) => Ok(Arc::new(Entry::of(file, &document))),
                Err(reason) => Err(reason),
            };
            Some((file.clone(), Seen { stamp: *stamp, is_unsure: stamp.is_young(now), entry }))
        });
        self.seen.extend(read);
        self.listing = self.build(directory);
    }

    fn build(&self, directory: &Path) -> Listing {
        let mut files: Vec<(&String, &Seen)> = self.seen.iter().collect();
        files.sort_unstable_by_key(|(file, _)| *file);
        let mut unreadable = Vec::new();
        let mut entries = Vec::with_capacity(files.len());
        for (file, seen) in files {
            match &seen.entry {
                Ok(entry) => entries.push(Arc::clone(entry)),
                Err(reason) => {
                    unreadable.push(Unreadable { path: directory.join(file), reason: reason.clone() });
                }
            }
        }
        let mut newest = entries.clone();
        newest.sort_by(|a, b| (&b.updated, &b.file).cmp(&(&a.updated, &a.file)));
        Listing { entries: Arc::new(entries), newest: Arc::new(newest), unreadable: Arc::new(unreadable) }
    }
}

/// Returns the sessions' files with their stamps.
pub(super) fn look(directory: &Path) -> io::Result<Vec<(String, Stamp)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(file) = entry.file_name().to_str().filter(|name| is_session(name)) {
            found.push((file.to_owned(), entry));
        }
    }
    // Over a few files a thread costs more than it saves.
    if found.len() < MANY_FILES {
        return found.iter().filter_map(stamped).collect();
    }
    in_parallel(&found, stamped).into_iter().collect()
}

fn stamped((file, entry): &(String, DirEntry)) -> Option<io::Result<(String, Stamp)>> {
    let stamp = match entry.metadata() {
        Ok(found) if found.is_symlink() => Stamp::look(&entry.path()),
        Ok(found) => Ok(Some(Stamp::of(&found))),
        // Deleted since its name was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    stamp.transpose().map(|stamp| stamp.map(|stamp| (file.clone(), stamp)))
}

pub(super) fn is_session(file: &str) -> bool {
    file.ends_with(ENDING) && !file.starts_with('.')
}

fn read(path: &Path) -> Result<Option<(Document, proof::Proof)>, String> {
    let Some((bytes, proof)) = proof::read(path).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let document =
        Document::parse(&bytes).map_err(|fault| format!("{} at offset {}", fault.what, fault.offset))?;
    Ok(Some((document, proof)))
}

/// Maps `items` by as many threads as there are processors; the order is kept.
pub(super) fn in_parallel<T: Sync, R: Send>(items: &[T], map: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    if threads == 1 || items.len() < FEW_FILES {
        return items.iter().filter_map(map).collect();
    }
    let share = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let map = &map;
        let workers: Vec<_> = items
            .chunks(share)
            .map(|chunk| scope.spawn(move || chunk.iter().filter_map(map).collect::<Vec<R>>()))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| match worker.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
