//! The conversation from all that a session holds of an agent, for when its end does not tell enough.

use std::collections::HashSet;

use rusqlite::Connection;

use super::base::Base;
use super::tools::packed;
use super::{Asked, Obtained, Restored};
use crate::bundle::handle::Inner;
use crate::bundle::landmark::TRIGGER;
use crate::bundle::snapshot::{parse_path, records};
use crate::codec::Value;
use crate::error::Result;
use crate::lineage::{Checkpoint, Log, View, name_turns, pair_tool_calls, resolve_branch_view_strict};

/// How messages were come by.
struct Answer {
    obtained: Obtained,
    messages: Vec<Value>,
    /// How many of them were told from the log.
    told: usize,
    cutoff: i64,
}

/// Restores the conversation from the whole log and every snapshot.
pub fn restore(
    inner: &Inner,
    connection: &Connection,
    asked: &Asked<'_>,
    stored_view: &View,
    base: Option<&Base>,
    events: &[Value],
) -> Result<Restored> {
    let view = match asked.view {
        Some(view) => resolve_branch_view_strict(events, view)?,
        None => stored_view.clone(),
    };
    let log = Log::read(events, &view);
    let newest = crate::bundle::ledger::newest_id(connection)
        .and_then(|newest| Ok(newest.max(crate::bundle::ledger::stored_counter(connection)?)))
        .map_err(inner.fault("resume"))?;
    let checkpoints: Vec<Checkpoint> =
        records(inner, connection, asked.agent)?.iter().filter_map(checkpoint_of).collect();
    let told = choose(&log, events, base, &checkpoints, newest);
    let running = running(&log, asked.live_jobs);
    let (messages, repairs) = pair_tool_calls(told.messages, &running);
    Ok(Restored {
        obtained: told.obtained,
        lists: vec![packed(&messages)],
        position: log.selected_branches().last_key_value().map(|(turn, branch)| (*turn, *branch)),
        repairs,
        watermark: base.and_then(|base| base.watermark),
        cutoff: told.cutoff,
        told: told.told,
        read: events.len(),
        triggers: log.of_kind(TRIGGER).cloned().collect(),
    })
}

fn checkpoint_of(record: &Value) -> Option<Checkpoint> {
    Some(Checkpoint {
        path: record.get("path").and_then(parse_path)?,
        messages: record.get("messages")?.as_list()?.to_vec(),
        watermark: record.get("watermark")?.as_i64()?,
        cutoff: record.get("context_cutoff_event_id").and_then(Value::as_i64).unwrap_or(0),
    })
}

/// The ids by which the calls of running jobs are known in messages.
fn running(log: &Log<'_>, live_jobs: &[String]) -> Vec<String> {
    let mut names = live_jobs.to_vec();
    for event in log.of_kind("tool_call").filter(|_| !live_jobs.is_empty()) {
        let name = |key: &str| event.get(key).and_then(Value::as_str);
        let job = name("call_id").or_else(|| name("job_id"));
        if let (Some(job), Some(known)) = (job, name("tool_call_id"))
            && live_jobs.iter().any(|live| live == job)
        {
            names.push(known.to_owned());
        }
    }
    names
}

fn choose(
    log: &Log<'_>,
    events: &[Value],
    base: Option<&Base>,
    checkpoints: &[Checkpoint],
    newest: i64,
) -> Answer {
    let replay = || {
        let messages = log.replay_settled(true, None);
        Answer { obtained: Obtained::Replay, told: messages.len(), messages, cutoff: 0 }
    };
    if !checkpoints.is_empty() {
        let Some(found) = log.continue_from(checkpoints, newest) else { return replay() };
        let obtained = match (found.whole, found.told) {
            (false, _) => Obtained::Cleared,
            (true, 0) => Obtained::Branch,
            (true, _) => Obtained::BranchAndTail,
        };
        return Answer { obtained, messages: found.messages, told: found.told, cutoff: found.cutoff };
    }
    let Some(base) = base else { return replay() };
    let told = from_base(log, events, base);
    let Some(mut told) = told else { return replay() };
    if is_elsewhere(log, base) || log.lacks_results(&told.messages) {
        let replayed = replay();
        if !replayed.messages.is_empty() {
            return replayed;
        }
    }
    if told.messages.is_empty() && base.watermark.is_none() {
        told = replay();
    }
    told
}

/// The snapshot with what came after it; `None` when a new branch was begun after it.
fn from_base(log: &Log<'_>, events: &[Value], base: &Base) -> Option<Answer> {
    let mut messages = base.messages();
    let id = |event: &Value| event.get("event_id").and_then(Value::as_i64);
    let last = events.iter().filter_map(id).max().unwrap_or(0);
    let Some(watermark) = base.watermark.filter(|watermark| *watermark < last) else {
        name_turns(&mut messages, &log.turn_starts());
        return Some(Answer { obtained: Obtained::Snapshot, messages, told: 0, cutoff: base.cutoff });
    };
    let place = |event: &Value| Some((event.get("turn_index")?.as_i64()?, event.get("branch_id")?.as_i64()?));
    let (tail, before): (Vec<&Value>, Vec<&Value>) =
        events.iter().partition(|event| id(event).is_some_and(|id| id > watermark));
    let known: HashSet<(i64, i64)> = before.iter().filter_map(|event| place(event)).collect();
    if tail.iter().filter_map(|event| place(event)).any(|place| place.1 > 1 && !known.contains(&place)) {
        return None;
    }
    let before: Vec<Value> = before.into_iter().cloned().collect();
    let tail: Vec<Value> = tail.into_iter().cloned().collect();
    let selected = log.selected_branches();
    name_turns(&mut messages, &Log::read(&before, selected).turn_starts());
    let told = Log::read(&tail, selected).replay_settled(true, None);
    let count = told.len();
    messages.extend(told);
    let obtained = if count > 0 { Obtained::SnapshotAndTail } else { Obtained::Snapshot };
    Some(Answer { obtained, messages, told: count, cutoff: base.cutoff })
}

/// Whether a snapshot is tagged with a branch that is not shown.
fn is_elsewhere(log: &Log<'_>, base: &Base) -> bool {
    let shown = log.selected_branches();
    let path = base.path.as_deref().unwrap_or_default();
    let mut real = shown.iter().filter(|(turn, _)| **turn > 0);
    real.clone().next().is_some() && path.iter().any(|(turn, branch)| real.next() != Some((turn, branch)))
}
