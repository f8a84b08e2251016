//! Bringing files level of which somebody says that they changed, without a look at all the others.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::name::{MIRROR, rank, stem};
use super::read::Found;
use super::reconcile;
use super::sidecar::Sidecar;
use super::write;
use crate::db::fault::translate;
use crate::error::{Error, Result};
use crate::files::fingerprint::Fingerprint;

const ACTION: &str = "follow";

/// What has to be done about one file.
enum Step {
    Read(Found),
    Forget(String),
    Nothing,
}

/// What the sidecar knows of one file.
struct Standing {
    /// Whether it knows the file at all, readable or not.
    is_known: bool,
    /// The key of its entry.
    key: Option<String>,
    /// Whether it knows another file that could stand for the same session, or have the same key.
    has_relatives: bool,
}

/// Brings the entries of some files level, by their paths below the directory; the name of a log
/// means its session. `false`, and nothing is done, where it takes a look at the whole directory to
/// know which file stands for a session now.
///
/// The sidecar must have been level with the directory when the first of the changes was made.
pub fn follow(sidecar: &Sidecar, directory: &Path, changed: &[String]) -> Result<bool> {
    let paths: BTreeSet<&str> = changed.iter().filter_map(|path| session_path(path)).collect();
    let mut steps = Vec::with_capacity(paths.len());
    for path in paths {
        let known = sidecar.read(ACTION, |connection| {
            known(connection, path).map_err(|source| translate(sidecar.path(), ACTION, &source))
        })?;
        match step(directory, path, known)? {
            Some(step) => steps.push(step),
            None => return Ok(false),
        }
    }
    for step in steps {
        match step {
            Step::Nothing => {}
            Step::Read(found) => reconcile::refresh(sidecar, &found)?,
            Step::Forget(path) => sidecar.write(ACTION, |connection| {
                write::forget(connection, &path).map_err(|source| translate(sidecar.path(), ACTION, &source))
            })?,
        }
    }
    Ok(true)
}

/// The path of the session's file that a change is about; `None` for what no listing depends on.
fn session_path(changed: &str) -> Option<&str> {
    let path = changed.strip_suffix("-wal").unwrap_or(changed);
    rank(path).map(|_| path)
}

fn known(connection: &Connection, path: &str) -> rusqlite::Result<Standing> {
    let found: Option<Option<String>> = connection
        .prepare_cached(
            "SELECT e.file FROM amber_file f LEFT JOIN amber_entry e ON e.id = f.entry WHERE f.path = ?1",
        )?
        .query_row([path], |row| row.get(0))
        .optional()?;
    let (name, versions) = (stem(path), format!("{path}.v"));
    let has_relatives = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM amber_file WHERE path IN (?1, ?2) OR (path > ?3 AND path < ?4))",
        )?
        .query_row(
            params![format!("{name}.kt"), format!("{MIRROR}/{path}"), versions, format!("{path}.w")],
            |row| row.get(0),
        )?;
    Ok(Standing { is_known: found.is_some(), key: found.flatten(), has_relatives })
}

/// What follows from how a file is found; `None` where only the whole directory tells.
fn step(directory: &Path, path: &str, known: Standing) -> Result<Option<Step>> {
    // Of these no other file is to be asked, unless the sidecar knows one.
    let is_plain = rank(path) == Some(1) && !path.contains('/') && !known.has_relatives;
    let file = directory.join(path);
    let print = match file.symlink_metadata() {
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(_) => match Fingerprint::of(&file) {
            Err(Error::NotFound { .. }) => return Ok(None),
            print => print?,
        },
        Err(_) if !is_plain => return Ok(None),
        Err(_) if directory.join(format!("{}.kt", stem(path))).symlink_metadata().is_ok() => return Ok(None),
        Err(_) if known.is_known => return Ok(Some(Step::Forget(path.to_owned()))),
        Err(_) => return Ok(Some(Step::Nothing)),
    };
    let filename = match known.key {
        // What stands for its session already goes on doing so.
        Some(key) => key,
        None if is_plain => path.to_owned(),
        None => return Ok(None),
    };
    let found = Found { filename, path: path.to_owned(), file, print, is_quiet: false, has_artifacts: true };
    Ok(Some(Step::Read(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_log_is_one_of_its_session_and_other_files_are_none() {
        let changed =
            ["a.kohakutr", "a.kohakutr-wal", "mirror/b.kt-wal", "a.kohakutr-shm", ".kt-index.kvault-wal"];

        let paths: Vec<_> = changed.iter().filter_map(|path| session_path(path)).collect();

        assert_eq!(paths, ["a.kohakutr", "a.kohakutr", "mirror/b.kt"]);
    }
}
