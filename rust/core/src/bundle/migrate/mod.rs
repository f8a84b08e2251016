//! Migration: a new session in the present format, made of one of the first. The old one stays as it is.

mod old;
mod target;
mod translate;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use self::old::{Log, Old};
use self::target::Standing;
use super::create;
use super::handle::Inner;
use super::source;
use crate::clock::Clock;
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::files::aside::{Aside, Work};
use crate::files::fingerprint::Fingerprint;

const ACTION: &str = "migrate";

/// A migration to be made.
#[derive(Debug, Clone, Copy)]
pub struct Migration<'a> {
    /// The session of the first format.
    pub source: &'a Path,
    /// The new file.
    pub target: &'a Path,
    /// What the new rows say of when they were made.
    pub at: &'a str,
    /// Where the time comes from.
    pub clock: fn() -> Box<dyn Clock>,
}

/// What was read and what was made of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// The agents of the session.
    pub agents: Vec<String>,
    /// Events of the source, by type.
    pub read: BTreeMap<String, u64>,
    /// Events of the new session, by type.
    pub written: BTreeMap<String, u64>,
    /// Turns of all agents.
    pub turns: u64,
    /// Agents whose messages were carried over.
    pub snapshots: u64,
    /// Messages of channels.
    pub channels: u64,
    /// Runs of sub-agents.
    pub subagents: u64,
    /// Jobs.
    pub jobs: u64,
    /// Files beside the session.
    pub artifacts: u64,
    /// Whether the log was of the present format already, and stayed as it is.
    pub is_preserved: bool,
    /// Whether the new file was there already, and nothing was done.
    pub is_reused: bool,
}

/// Migrates a session; costs one pass over it. The new file appears whole, on disk, or not at all, and
/// one that is there already is left alone. The source is only read, and must not be in use.
pub fn migrate(migration: &Migration<'_>) -> Result<Report> {
    with_source(migration, |source, user| {
        let standing = target::look(source, migration.target, (migration.clock)())?;
        if standing == Standing::Whole {
            return Ok(Report { is_reused: true, ..Report::default() });
        }
        no_user(migration.source, user)?;
        let old = Old::of(source)?;
        let directory = migration.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let aside = Aside::make(directory.unwrap_or(Path::new(".")), Work::Migration, ACTION)?;
        let copy = aside.path().join("copy");
        let before = Fingerprint::of(migration.source)?;
        let mut report = write::fill(migration, source, &old, &copy, (migration.clock)())?;
        if !Fingerprint::of(migration.source)?.same_content(&before) {
            return Err(Error::Busy { path: migration.source.to_owned() });
        }
        report.is_reused = !target::place(migration.source, migration.target, &aside, &copy, standing)?;
        Ok(report)
    })
}

/// Tells what a migration would make, and refuses what it would refuse; nothing is written.
pub fn plan(migration: &Migration<'_>) -> Result<Report> {
    with_source(migration, |source, user| {
        let standing = target::look(source, migration.target, (migration.clock)())?;
        if standing != Standing::Whole {
            no_user(migration.source, user)?;
        }
        let old = Old::of(source)?;
        let mut report = Report::of(source, &old)?;
        for owner in old.owners() {
            report.take(&old.log(owner)?);
        }
        report.is_reused = standing == Standing::Whole;
        Ok(report)
    })
}

/// Reads the source, with who else has it open.
fn with_source<R>(
    migration: &Migration<'_>,
    work: impl FnOnce(&Inner, Option<u32>) -> Result<R>,
) -> Result<R> {
    let user = source::user_of(migration.source);
    let source = create::readonly(migration.source, (migration.clock)())?;
    let outcome = work(&source, user);
    let closed = source.close();
    let value = outcome?;
    closed.map(|()| value)
}

/// Refuses a file that somebody has open: what is written to it meanwhile would be missing.
fn no_user(path: &Path, user: Option<u32>) -> Result<()> {
    match user {
        Some(pid) => Err(Error::Locked { path: path.to_owned(), holder_pid: Some(pid) }),
        None => Ok(()),
    }
}

impl Report {
    /// What is known before the logs are read.
    fn of(source: &Inner, old: &Old<'_>) -> Result<Self> {
        let runs = source.keys(Table::Subagents, b"", usize::MAX)?;
        let runs: HashSet<&[u8]> = runs
            .iter()
            .filter_map(|key| key.iter().rposition(|byte| *byte == b':').and_then(|at| key.get(..at)))
            .collect();
        Ok(Self {
            agents: old.agents.clone(),
            channels: source.count(Table::Channels)?,
            subagents: runs.len() as u64,
            jobs: source.count(Table::Jobs)?,
            artifacts: target::files_of(&source.path)?.len() as u64,
            is_preserved: old.is_structured,
            ..Self::default()
        })
    }

    fn take(&mut self, log: &Log) {
        for (kind, count) in &log.read {
            *self.read.entry(kind.clone()).or_insert(0) += count;
        }
        let mut turns = HashSet::new();
        for event in &log.events {
            *self.written.entry(event.kind.clone()).or_insert(0) += 1;
            let turn = if self.is_preserved { event.turn } else { event.turn.max(1) };
            if turn > 0 {
                turns.insert(turn);
            }
        }
        self.turns += turns.len() as u64;
        self.snapshots += u64::from(log.snapshot.as_ref().is_some_and(|messages| !messages.is_empty()));
    }
}
