//! The name of the new session: what stands there already, and how the new file gets it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::old::{Old, value_of};
use super::{ACTION, no_user};
use crate::bundle::create;
use crate::bundle::handle::{Inner, exists};
use crate::bundle::source::user_of;
use crate::bundle::sync::wal_of;
use crate::clock::Clock;
use crate::codec::Value;
use crate::db::schema::{Table, has_table};
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;
use crate::files::aside::{Aside, keep_private};

/// What stands under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Free,
    /// A session.
    Whole,
    /// What a migration that was stopped has left, and nobody has written to since.
    Partial,
}

/// Looks at what stands under the name of the new session.
///
/// Ours appear whole. The peer writes its own in place, so one that was killed leaves a part, which
/// shows in that the row is missing that it writes last. [`Error::Mixed`] when somebody has gone on
/// with such a part.
pub fn look(source: &Inner, target: &Path, clock: Box<dyn Clock>) -> Result<Standing> {
    if !exists(target) {
        return Ok(Standing::Free);
    }
    if std::fs::metadata(target).is_ok_and(|found| found.len() == 0) && !has_log(target) {
        return Ok(Standing::Partial);
    }
    let inner = create::readonly(target, clock)?;
    let standing = standing_of(source, &inner);
    inner.close()?;
    standing
}

fn has_log(path: &Path) -> bool {
    std::fs::metadata(wal_of(path)).is_ok_and(|log| log.len() > 0)
}

fn standing_of(source: &Inner, target: &Inner) -> Result<Standing> {
    if is_complete(target)? {
        return Ok(Standing::Whole);
    }
    let is_migrated = value_of(target, Table::Meta, b"migrated_from")?.is_some_and(|origin| origin.truthy());
    if !is_migrated {
        return Ok(if is_begun(source, target)? { Standing::Partial } else { Standing::Whole });
    }
    if has_last_copy(source, target)? == Some(true) {
        return Ok(Standing::Whole);
    }
    let old = Old::of(source)?;
    if has_last_row(source, target, &old)? {
        return Ok(Standing::Whole);
    }
    if is_continued(source, target, &old)? {
        let what = format!(
            "its migration to `{}` was stopped, and that was written to since",
            target.path.display()
        );
        return Err(Error::Mixed { path: source.path.clone(), what });
    }
    Ok(Standing::Partial)
}

/// Whether it is one that this package migrated.
fn is_complete(target: &Inner) -> Result<bool> {
    const MARK: &str = "SELECT 1 FROM amber_meta WHERE name = 'migrated'";
    target.read(ACTION, |connection| {
        let fault = target.fault(ACTION);
        if !has_table(connection, "amber_meta").map_err(&fault)? {
            return Ok(false);
        }
        connection.prepare_cached(MARK).and_then(|mut mark| mark.exists([])).map_err(&fault)
    })
}

/// Whether there is nothing but some fields that the source has too: the migration had just begun.
fn is_begun(source: &Inner, target: &Inner) -> Result<bool> {
    for table in [Table::Events, Table::Conversation, Table::Channels, Table::Subagents, Table::Jobs] {
        if target.count(table)? > 0 {
            return Ok(false);
        }
    }
    for (key, _) in target.items(Table::Meta, b"", usize::MAX)? {
        if key != b"format_version"
            && value_of(target, Table::Meta, &key)? != value_of(source, Table::Meta, &key)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the row is there that the peer copies last, in the order of its tables and their keys; `None`
/// where there is nothing to copy.
fn has_last_copy(source: &Inner, target: &Inner) -> Result<Option<bool>> {
    for table in [Table::Jobs, Table::Subagents, Table::Channels, Table::State] {
        if let Some(last) = source.keys(table, b"", usize::MAX)?.last() {
            return Ok(Some(target.get(table, last)?.is_some()));
        }
    }
    Ok(None)
}

/// Whether the row is there that the peer writes last: first come the logs, then what is copied.
fn has_last_row(source: &Inner, target: &Inner, old: &Old<'_>) -> Result<bool> {
    if let Some(is_there) = has_last_copy(source, target)? {
        return Ok(is_there);
    }
    let Some(agent) = old.agents.last() else { return Ok(true) };
    if !old.is_structured {
        return Ok(target.get(Table::State, format!("{agent}:snapshot_event_id").as_bytes())?.is_some());
    }
    Ok(target.event_values(agent, None)?.len() >= source.event_values(agent, None)?.len())
}

/// Whether the log holds what no migration wrote.
fn is_continued(source: &Inner, target: &Inner, old: &Old<'_>) -> Result<bool> {
    for owner in target.namespaces()? {
        let events = target.event_values(&owner, None)?;
        let is_more = if old.is_structured {
            events.len() > source.event_values(&owner, None)?.len()
        } else {
            events.iter().any(|event| event.get("migrated") != Some(&Value::Bool(true)))
        };
        if is_more {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives a finished file its name, with the artifacts of the source; false when somebody else was first.
pub fn place(source: &Path, target: &Path, aside: &Aside, copy: &Path, standing: Standing) -> Result<bool> {
    let fault = |source: std::io::Error| Error::io(target, ACTION, &source);
    keep_private(source, copy).map_err(fault)?;
    std::fs::File::open(copy).and_then(|file| file.sync_all()).map_err(fault)?;
    let added = Artifacts::copy(source, target, aside.path())?;
    if standing == Standing::Partial {
        no_user(target, user_of(target))?;
        remove(target)?;
    }
    // `hard_link` refuses a name that was taken meanwhile, which `rename` would replace.
    if let Err(error) = std::fs::hard_link(copy, target) {
        if error.kind() == ErrorKind::AlreadyExists {
            return Ok(false);
        }
        added.remove()?;
        return Err(fault(error));
    }
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(fault)?;
    Ok(true)
}

/// Removes a part with its log, which a new file must not find.
fn remove(target: &Path) -> Result<()> {
    let mut shared = target.as_os_str().to_owned();
    shared.push("-shm");
    for path in [target.to_owned(), wal_of(target), PathBuf::from(shared)] {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::io(&path, ACTION, &source));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Artifacts that were copied. What is there already stays: it may come from a copy that was stopped.
struct Artifacts(Vec<PathBuf>);

impl Artifacts {
    fn copy(source: &Path, target: &Path, aside: &Path) -> Result<Self> {
        let mut added = Self(Vec::new());
        for (from, name) in files_of(source)? {
            let to = artifacts_dir(target).join(name);
            match copy_new(&from, &to, &aside.join("artifact")) {
                Ok(true) => added.0.push(to),
                Ok(false) => {}
                Err(error) => {
                    added.remove()?;
                    return Err(Error::io(&to, ACTION, &error));
                }
            }
        }
        Ok(added)
    }

    fn remove(&self) -> Result<()> {
        self.0.iter().try_for_each(|path| {
            std::fs::remove_file(path).map_err(|source| Error::io(path, ACTION, &source))
        })
    }
}

/// The artifacts of a session, each with its name below their directory; links are left out.
pub fn files_of(session: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let root = artifacts_dir(session);
    let mut found = Vec::new();
    if !root.is_dir() || root.is_symlink() {
        return Ok(found);
    }
    let mut left = vec![PathBuf::new()];
    while let Some(name) = left.pop() {
        let directory = root.join(&name);
        let fault = |source: std::io::Error| Error::io(&directory, ACTION, &source);
        for entry in std::fs::read_dir(&directory).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            let name = name.join(entry.file_name());
            if kind.is_dir() {
                left.push(name);
            } else if kind.is_file() {
                found.push((entry.path(), name));
            }
        }
    }
    Ok(found)
}

/// Copies a file under a name that is free; whether it was.
fn copy_new(from: &Path, to: &Path, aside: &Path) -> std::io::Result<bool> {
    if exists(to) {
        return Ok(false);
    }
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::copy(from, aside)?;
    std::fs::File::open(aside)?.sync_all()?;
    let linked = std::fs::hard_link(aside, to);
    std::fs::remove_file(aside)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}
