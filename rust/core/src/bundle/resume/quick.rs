//! The conversation from the newest snapshot and the events after it, without a look at the rest.
//!
//! It is right when the snapshot lies on the branches that are shown and nothing after it changes
//! what it holds. Both can be told from its tag, from the landmarks of the log and from the events
//! after it; whenever they do not tell, the whole log is read instead.

use std::collections::HashSet;

use super::base::Base;
use super::rows::LogRows;
use super::tools::{Look, packed};
use super::{Obtained, Restored};
use crate::bundle::landmark::Landmarks;
use crate::codec::Value;
use crate::error::Result;
use crate::lineage::{Log, TurnStarts, View, name_turns, pair_tool_calls, rewrites, tells};

/// How far back from the snapshot's end the log is asked whether it agrees with the tag.
const WITNESSES: usize = 8;
/// How far back the newest place of an untagged snapshot is looked for.
const PLACES: usize = 64;
/// How far back the turns of messages that do not name theirs are looked for.
const TURNS: usize = 1024;

/// What is needed to decide.
pub struct Quick<'q> {
    pub rows: &'q LogRows<'q>,
    pub base: &'q Base,
    pub marks: &'q Landmarks,
    pub view: &'q View,
    /// The highest event id of the session.
    pub newest: i64,
}

/// The events after a snapshot.
struct Tail {
    events: Vec<Value>,
    /// The number of the first of them.
    first: u64,
}

impl Quick<'_> {
    /// Restores the conversation, and tells whether its lists come after those of the snapshot or stand in
    /// their place; `None` when the whole log must be read.
    pub fn restore(&self) -> Result<Option<(Restored, bool)>> {
        let Some(end) = self.rows.end()? else { return Ok(None) };
        let tail = match self.base.watermark {
            Some(watermark) if watermark > self.newest => return Ok(None),
            Some(watermark) => {
                let near = self.rows.near(watermark, end)?;
                let mut events = self.rows.from(near)?;
                let is_old = |event: &&Value| {
                    event.get("event_id").and_then(Value::as_i64).is_some_and(|id| id <= watermark)
                };
                let old = events.iter().take_while(is_old).count();
                events.drain(..old);
                Tail { events, first: near + old as u64 }
            }
            None => Tail { events: Vec::new(), first: end },
        };
        let look = Look::at(&self.base.lists);
        if look.is_bare && self.base.cutoff == 0 {
            // Taken before anything was said, or by a runtime that keeps its messages elsewhere.
            return Ok(None);
        }
        let Some(path) = self.path(&tail)? else { return Ok(None) };
        let (told, mut repairs) = pair_tool_calls(tell(&tail, &path), &[]);
        let mut lists = Vec::new();
        let keeps_snapshot = look.is_paired && !look.lacks_turns;
        if !keeps_snapshot {
            let mut messages = self.base.messages();
            if look.lacks_turns {
                self.name_turns(&mut messages, tail.first)?;
            }
            // Results in the tail answer calls in the tail: others have sent us to the whole log.
            let (messages, mended) = pair_tool_calls(messages, &[]);
            repairs.splice(0..0, mended);
            lists = vec![packed(&messages)];
        }
        let count = told.len();
        if count > 0 {
            lists.push(packed(&told));
        }
        let obtained = if count > 0 { Obtained::SnapshotAndTail } else { Obtained::Snapshot };
        let restored = Restored {
            obtained,
            lists,
            position: path.0.last().copied(),
            repairs,
            watermark: self.base.watermark,
            cutoff: self.base.cutoff,
            told: count,
            read: tail.events.len(),
            triggers: self.triggers()?,
        };
        Ok(Some((restored, keeps_snapshot)))
    }

    fn triggers(&self) -> Result<Vec<Value>> {
        let mut events = Vec::with_capacity(self.marks.triggers.len());
        for number in &self.marks.triggers {
            events.extend(self.rows.at(*number)?);
        }
        Ok(events)
    }

    /// The branches that are shown, as far as the snapshot and its tail tell; `None` when they do not lie
    /// on them.
    fn path(&self, tail: &Tail) -> Result<Option<Path>> {
        let mut path = Path(self.base.path.clone().unwrap_or_default());
        match path.0.last() {
            Some(last) => {
                if !self.is_witnessed(tail.first, *last, &path)? {
                    return Ok(None);
                }
            }
            // Without a tag there is nothing to be on but the one branch that there is.
            None if !self.marks.branches.is_empty() || !self.view.is_empty() => return Ok(None),
            None => path.0.extend(self.newest_place(tail.first)?),
        }
        if !self.follows(tail, &mut path) {
            return Ok(None);
        }
        let latest = self.marks.branches.iter().all(|(turn, highest)| match path.get(*turn) {
            Some(shown) => shown >= *highest || self.view.get(turn) == Some(&shown),
            None => true,
        });
        let viewed = self.view.iter().all(|(turn, branch)| path.get(*turn) == Some(*branch));
        Ok((latest && viewed).then_some(path))
    }

    /// Whether the last event before the tail that has a place is on the branch that the snapshot is
    /// tagged with.
    fn is_witnessed(&self, end: u64, last: (i64, i64), path: &Path) -> Result<bool> {
        for event in self.rows.before(end, WITNESSES)? {
            let event = event?;
            if let Some(place) = place(&event) {
                return Ok(place == last && path.agrees(&event, place.0));
            }
        }
        // Events without a place are part of every branch.
        Ok(true)
    }

    /// The place of the newest event that has one, in a log with one branch.
    fn newest_place(&self, end: u64) -> Result<Option<(i64, i64)>> {
        for event in self.rows.before(end, PLACES)? {
            if let Some(place) = place(&event?) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether the tail only goes on from the snapshot; adds its turns to the path.
    fn follows(&self, tail: &Tail, path: &mut Path) -> bool {
        let last = path.0.last().map_or(0, |(turn, _)| *turn);
        let mut calls: HashSet<&str> = HashSet::new();
        tail.events.iter().all(|event| {
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
            let job = || ["call_id", "job_id"].iter().find_map(|key| event.get(key)?.as_str());
            if kind == "tool_call" {
                calls.extend(job());
            }
            // A result of an older call belongs beside that call.
            let answers_older = kind == "tool_result" && job().is_none_or(|job| !calls.contains(job));
            if rewrites(kind) || answers_older {
                return false;
            }
            match place(event) {
                None => true,
                Some((turn, branch)) if turn <= last => !tells(kind) && path.get(turn) == Some(branch),
                Some((turn, branch)) => path.go_on(turn, branch) && self.descends(event, turn, path),
            }
        })
    }

    /// Whether the turns before an event are those of the path.
    fn descends(&self, event: &Value, turn: i64, path: &Path) -> bool {
        if stated(event).next().is_some() {
            return path.agrees(event, turn);
        }
        // Its path is the latest branch of each turn, which is not what a view asks for.
        let mut earlier = self.marks.branches.range(..turn);
        earlier.all(|(turn, highest)| path.get(*turn).is_none_or(|shown| shown == *highest))
    }

    /// Names the turns of messages as far as a bounded look back finds them.
    fn name_turns(&self, messages: &mut [Value], end: u64) -> Result<()> {
        let events: Vec<Value> = self.rows.before(end, TURNS)?.collect::<Result<_>>()?;
        let mut starts = TurnStarts::default();
        for event in events.iter().rev() {
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
            starts.pass(kind, place(event), event.get("event_id").and_then(Value::as_i64));
        }
        name_turns(messages, &starts.found());
        Ok(())
    }
}

/// The branch of each turn that is shown, turns ascending.
struct Path(Vec<(i64, i64)>);

impl Path {
    fn get(&self, turn: i64) -> Option<i64> {
        self.0.binary_search_by_key(&turn, |(turn, _)| *turn).ok().map(|at| self.0[at].1)
    }

    /// Adds a turn behind the last one; `false` when it is there on another branch, or another turn began
    /// after it.
    fn go_on(&mut self, turn: i64, branch: i64) -> bool {
        match self.0.last() {
            Some((last, _)) if *last >= turn => self.get(turn) == Some(branch),
            _ => {
                self.0.push((turn, branch));
                true
            }
        }
    }

    /// Whether what an event states of the turns before its own is what the path says.
    fn agrees(&self, event: &Value, turn: i64) -> bool {
        stated(event)
            .all(|(earlier, branch)| earlier >= turn || self.get(earlier).is_none_or(|shown| shown == branch))
    }
}

/// The messages that the tail adds.
fn tell(tail: &Tail, path: &Path) -> Vec<Value> {
    if tail.events.is_empty() {
        return Vec::new();
    }
    let first = tail.events.iter().filter_map(place).map(|(turn, _)| turn).min().unwrap_or(i64::MAX);
    let from = path.0.partition_point(|(turn, _)| *turn < first);
    let view: View = path.0[from..].iter().copied().collect();
    Log::read(&tail.events, &view).replay_settled(true, None)
}

fn place(event: &Value) -> Option<(i64, i64)> {
    Some((event.get("turn_index")?.as_i64()?, event.get("branch_id")?.as_i64()?))
}

fn stated(event: &Value) -> impl Iterator<Item = (i64, i64)> {
    let items = event.get("parent_branch_path").and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|pair| match pair.as_list() {
        Some([Value::Int(turn), Value::Int(branch)]) => Some((*turn, *branch)),
        _ => None,
    })
}
