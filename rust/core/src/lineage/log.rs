//! A log under a view: where each event stands and whether it is part of what the view shows.

use super::branch::{Candidate, History, choose};
use super::dedupe::repeats;
use super::drift::Drift;
use super::path::pairs;
use super::view::View;
use crate::codec::Value;

/// An event with what branches need to know of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub event: &'a Value,
    pub kind: &'a str,
    pub id: Option<i64>,
    /// Turn and branch, of an event that has both.
    pub place: Option<(i64, i64)>,
    /// The parent path that the event states; without one it has that of its place in the log.
    pub path: Option<&'a Value>,
}

impl<'a> Line<'a> {
    fn of(event: &'a Value) -> Self {
        let mut line = Self { event, kind: "", id: None, place: None, path: None };
        let (mut turn, mut branch) = (None, None);
        for (key, value) in event.as_map().unwrap_or_default() {
            match (&**key, value) {
                ("type", Value::Str(kind)) => line.kind = kind,
                ("event_id", Value::Int(id)) => line.id = Some(*id),
                ("turn_index", Value::Int(number)) => turn = Some(*number),
                ("branch_id", Value::Int(number)) => branch = Some(*number),
                ("parent_branch_path", path) => line.path = pairs(Some(path)).next().map(|_| path),
                _ => {}
            }
        }
        line.place = turn.zip(branch);
        line
    }

    pub(super) fn is_user(&self) -> bool {
        matches!(self.kind, "user_message" | "user_input")
    }
}

/// Reads where each event stands.
pub(super) fn lines(events: &[Value]) -> Vec<Line<'_>> {
    events.iter().map(Line::of).collect()
}

/// A log of events as one view of its branches shows it.
///
/// Reading is linear in the log. All else that a resumed session asks of its log starts here.
#[derive(Debug, Clone)]
pub struct Log<'a> {
    pub(super) lines: Vec<Line<'a>>,
    pub(super) live: Vec<bool>,
    selected: View,
}

impl<'a> Log<'a> {
    /// Reads a log under a view. What the view asks for and the log cannot give is passed over, and turns
    /// that the view does not name show their latest branch.
    pub fn read(events: &'a [Value], view: &View) -> Self {
        let lines = lines(events);
        let history = History::of(&lines);
        let selected = select(&lines, &history, view);
        let live = live(&lines, &selected);
        Self { lines, live, selected }
    }

    /// Returns the branch that is shown of each turn; a turn that belongs to other branches is not in it.
    pub fn selected_branches(&self) -> &View {
        &self.selected
    }

    /// Returns the ids of the events that the view shows, in order of id.
    pub fn live_event_ids(&self) -> Vec<i64> {
        let shown = self.lines.iter().zip(&self.live).filter(|(_, live)| **live);
        let mut ids: Vec<i64> = shown.filter_map(|(line, _)| line.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Hides what the last clearing of the context removed; system prompts stay.
    #[must_use]
    pub fn cleared(mut self) -> Self {
        let last = self.lines.iter().zip(&self.live);
        let cleared = last.rev().find(|(line, live)| **live && line.kind == "context_cleared");
        if let Some(bound) = cleared.and_then(|(line, _)| line.id) {
            for (line, live) in self.lines.iter().zip(&mut self.live) {
                *live &= line.kind == "system_prompt_set" || line.id.is_none_or(|id| id > bound);
            }
        }
        self
    }

    /// Returns the events of a type, whether they are shown or not.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line.kind == kind).map(|line| line.event)
    }

    /// Returns the first event that tells of something other than a system prompt.
    pub fn first_told(&self) -> Option<i64> {
        let mut shown = self.lines.iter().zip(&self.live).filter(|(_, live)| **live);
        shown.find(|(line, _)| line.kind != "system_prompt_set").and_then(|(line, _)| line.id)
    }

    /// Returns turn and branch of the events shown from one id to another, each once, turns ascending.
    pub fn places_within(&self, from: i64, to: i64) -> View {
        let within = |id: i64| (from..=to).contains(&id);
        let shown = self.lines.iter().zip(&self.live).filter(|(_, live)| **live);
        shown.filter(|(line, _)| line.id.is_some_and(within)).filter_map(|(line, _)| line.place).collect()
    }

    /// Returns for each event whether the view shows it, and whether it merely repeats the one before.
    pub fn standings(&self) -> impl Iterator<Item = (bool, bool)> {
        self.live.iter().enumerate().map(|(at, live)| (*live, self.repeats(at)))
    }

    fn repeats(&self, at: usize) -> bool {
        let lines = &self.lines;
        at > 0 && lines[at].kind == lines[at - 1].kind && repeats(lines[at].event, lines[at - 1].event)
    }

    /// Returns the positions of events that do not merely repeat the one before.
    pub(super) fn distinct(&self) -> impl Iterator<Item = usize> {
        (0..self.lines.len()).filter(|&at| !self.repeats(at))
    }
}

/// Chooses among the branches of all events, each by the path of the first event on it.
fn select(lines: &[Line<'_>], history: &History, view: &View) -> View {
    let mut seen = std::collections::HashSet::new();
    let mut candidates = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(place) = line.place else { continue };
        if seen.insert(place) {
            candidates.push(Candidate::new(at, line, place));
        }
    }
    // Nothing is required, so no choice can be refused.
    choose(&candidates, history, View::new(), view).unwrap_or_default()
}

fn live(lines: &[Line<'_>], selected: &View) -> Vec<bool> {
    let mut drift = Drift::new(selected);
    let mut live = Vec::with_capacity(lines.len());
    for line in lines {
        let Some((turn, branch)) = line.place else {
            live.push(true);
            continue;
        };
        live.push(selected.get(&turn) == Some(&branch) && drift.agrees(line, turn));
        drift.pass(turn, branch);
    }
    live
}

/// Returns the ids of the events that a view shows, in order of id.
pub fn select_live_event_ids(events: &[Value], view: &View) -> Vec<i64> {
    Log::read(events, view).live_event_ids()
}
