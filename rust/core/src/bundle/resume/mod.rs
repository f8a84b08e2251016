//! Coming back to a session: the conversation, where it stands, and what had to be mended.

mod base;
mod quick;
mod rows;
mod state;
mod tools;
mod whole;

use rusqlite::Connection;

use self::base::{Base, slot};
use self::quick::Quick;
use self::rows::LogRows;
use super::handle::Inner;
use super::landmark;
use super::ledger::{newest_id, stored_counter};
use super::value::Payload;
use crate::codec::Value;
use crate::error::Result;
use crate::lineage::{Log, Repair, View, parse_view, resolve_branch_view_strict};

const ACTION: &str = "resume";

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Whose conversation.
    pub agent: &'a str,
    /// The branches to show, all of which must be there; without it those that were last shown.
    pub view: Option<&'a View>,
    /// Jobs that still run, whose calls may wait for their results.
    pub live_jobs: &'a [String],
}

/// How a conversation was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obtained {
    /// There is none.
    Nothing,
    /// The newest snapshot.
    Snapshot,
    /// The newest snapshot and the events after it.
    SnapshotAndTail,
    /// The snapshot of a branch, or as much of it as is shown.
    Branch,
    /// The same, and the events after it.
    BranchAndTail,
    /// The events since the context was cleared.
    Cleared,
    /// All events.
    Replay,
}

/// The conversation of an agent as a resume has it.
#[derive(Debug, Clone)]
pub struct Restored {
    /// How it was come by.
    pub obtained: Obtained,
    /// The messages: packed lists, to be read one after the other.
    pub lists: Vec<Vec<u8>>,
    /// The turn and branch that the agent stands at.
    pub position: Option<(i64, i64)>,
    /// What had to be changed for calls and results to match.
    pub repairs: Vec<Repair>,
    /// The highest event id that the newest snapshot includes.
    pub watermark: Option<i64>,
    /// The event at which the context was last cleared; 0 when it never was.
    pub cutoff: i64,
    /// How many messages were told from events.
    pub told: usize,
    /// How many events were read for it.
    pub read: usize,
    /// The events that hold triggers.
    pub triggers: Vec<Value>,
}

impl Inner {
    /// Restores the conversation of an agent; nothing is written.
    ///
    /// Costs the newest snapshot and the events after it where those two tell what is to be shown, else the
    /// whole log.
    pub(super) fn resume(&self, asked: &Asked<'_>) -> Result<Restored> {
        self.read(ACTION, |connection| self.at_one_moment(connection, || restore(self, connection, asked)))
    }

    /// The branch of each turn that is shown. Costs the whole log.
    pub(super) fn branch_path(&self, agent: &str, view: Option<&View>) -> Result<View> {
        self.read(ACTION, |connection| {
            self.at_one_moment(connection, || {
                let events = LogRows::of(self, connection, agent).all()?;
                let view = match view {
                    Some(view) => resolve_branch_view_strict(&events, view)?,
                    None => stored_view(self, connection, agent)?,
                };
                Ok(Log::read(&events, &view).selected_branches().clone())
            })
        })
    }

    /// The slots of an agent's state, but for those that hold snapshots.
    pub(super) fn agent_state(&self, agent: &str) -> Result<Vec<(String, Payload)>> {
        self.read(ACTION, |connection| {
            self.at_one_moment(connection, || state::slots(self, connection, agent))
        })
    }

    /// Runs a read of several statements on one state of the file.
    fn at_one_moment<R>(&self, connection: &Connection, work: impl FnOnce() -> Result<R>) -> Result<R> {
        if !connection.is_autocommit() {
            return work();
        }
        connection.execute_batch("BEGIN").map_err(self.fault(ACTION))?;
        let outcome = work();
        let ended = connection.execute_batch("ROLLBACK").map_err(self.fault(ACTION));
        outcome.and_then(|value| ended.map(|()| value))
    }
}

fn restore(inner: &Inner, connection: &Connection, asked: &Asked<'_>) -> Result<Restored> {
    let fault = inner.fault(ACTION);
    let rows = LogRows::of(inner, connection, asked.agent);
    let mut base = Base::read(inner, connection, asked.agent)?;
    let stored_view = stored_view(inner, connection, asked.agent)?;
    let marks = landmark::known(connection, asked.agent).map_err(&fault)?;
    if let (Some(base), Some(marks), []) = (&mut base, &marks, asked.live_jobs) {
        let newest = newest_id(connection)
            .and_then(|newest| Ok(newest.max(stored_counter(connection)?)))
            .map_err(&fault)?;
        let view = asked.view.unwrap_or(&stored_view);
        let quick = Quick { rows: &rows, base, marks, view, newest };
        if let Some((mut restored, follows)) = quick.restore()? {
            if follows {
                // Moved, since they may be megabytes.
                let tail = std::mem::replace(&mut restored.lists, std::mem::take(&mut base.lists));
                restored.lists.extend(tail);
            }
            return Ok(restored);
        }
    }
    let events = rows.all()?;
    if events.is_empty() && base.is_none() {
        return Ok(Restored::nothing());
    }
    whole::restore(inner, connection, asked, &stored_view, base.as_ref(), &events)
}

/// The branches that were shown last; what cannot be read as a view shows the latest ones.
pub(super) fn stored_view(inner: &Inner, connection: &Connection, agent: &str) -> Result<View> {
    let stored = slot(inner, connection, agent, "branch_view")?;
    Ok(stored.and_then(|view| parse_view(&view).ok()).unwrap_or_default())
}

impl Restored {
    fn nothing() -> Self {
        Self {
            obtained: Obtained::Nothing,
            lists: Vec::new(),
            position: None,
            repairs: Vec::new(),
            watermark: None,
            cutoff: 0,
            told: 0,
            read: 0,
            triggers: Vec::new(),
        }
    }
}
