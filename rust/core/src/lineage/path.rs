//! Parent paths: which branch of each earlier turn an event belongs to.

use std::collections::HashMap;

use super::branch::History;
use super::field::int;
use super::log::{Line, lines};
use crate::codec::Value;

/// Returns the `(turn, branch)` pairs of a stored path; what is not such a pair is passed over.
pub(super) fn pairs(path: Option<&Value>) -> impl Iterator<Item = (i64, i64)> {
    let items = path.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| match item.as_list() {
        Some([Value::Int(turn), Value::Int(branch)]) => Some((*turn, *branch)),
        _ => None,
    })
}

/// Returns the path that an event states itself; most events leave it to the order of the log.
pub fn stated(event: &Value) -> impl Iterator<Item = (i64, i64)> {
    pairs(event.get("parent_branch_path"))
}

/// Returns the turn and branch of an event that has both.
pub fn stamp(event: &Value) -> Option<(i64, i64)> {
    Some((int(event, "turn_index")?, int(event, "branch_id")?))
}

/// The parent path of every event of a log.
///
/// A path is built when it is asked for: together they would be as long as the log times its turns.
pub struct ParentPaths<'a> {
    lines: Vec<Line<'a>>,
    history: History,
    turns: Vec<i64>,
    index: HashMap<i64, usize>,
}

impl<'a> ParentPaths<'a> {
    /// Reads the paths of a log.
    pub fn of(events: &'a [Value]) -> Self {
        let lines = lines(events);
        let history = History::of(&lines);
        let mut turns: Vec<i64> = history.turns().collect();
        turns.sort_unstable();
        let index = lines.iter().enumerate().filter_map(|(at, line)| Some((line.id?, at))).collect();
        Self { lines, history, turns, index }
    }

    /// Returns the path of an event by turn: the one it states, or else the highest branch that the log had
    /// shown of each earlier turn. Costs the length of the path.
    pub fn get(&self, event_id: i64) -> Option<Vec<(i64, i64)>> {
        let at = *self.index.get(&event_id)?;
        let line = &self.lines[at];
        if let Some(path) = line.path {
            return Some(pairs(Some(path)).collect());
        }
        let turn = int(line.event, "turn_index")?;
        let earlier = self.turns.iter().take_while(|earlier| **earlier < turn);
        Some(earlier.filter_map(|&turn| Some((turn, self.history.highest_before(turn, at)?))).collect())
    }
}
