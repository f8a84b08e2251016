//! What can be chosen at each turn: branches, and branches grouped by what the user said.

use std::collections::{BTreeMap, HashMap};

use super::arguments::json;
use super::drift::Drift;
use super::field::string;
use super::log::Log;
use super::view::View;
use crate::codec::Value;

/// The branches of a turn that can be seen from the branches selected before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnBranches {
    /// Their numbers, ascending.
    pub branches: Vec<i64>,
    /// The highest of them.
    pub latest_branch: i64,
    /// The ids of the events on each, in order of the log.
    pub events_by_branch: BTreeMap<i64, Vec<i64>>,
}

/// Branches of a turn that begin with the same words of the user.
#[derive(Debug, Clone, PartialEq)]
pub struct UserGroup {
    /// What the user said: text, or a list of parts.
    pub content: Value,
    /// The branches, ascending.
    pub branches: Vec<i64>,
}

/// The groups of a turn: an edit begins a new one, a rerun joins one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserGroups {
    /// The groups in order of their first branch.
    pub groups: Vec<UserGroup>,
    /// Which of them holds the selected branch.
    pub selected_group_idx: usize,
}

impl Log<'_> {
    /// Returns the branches of each turn that can be seen from those selected before it.
    pub fn branch_metadata(&self) -> BTreeMap<i64, TurnBranches> {
        let mut turns: BTreeMap<i64, TurnBranches> = BTreeMap::new();
        let mut drift = Drift::new(self.selected_branches());
        for line in &self.lines {
            let Some((turn, branch)) = line.place else { continue };
            if drift.agrees(line, turn) {
                let found = turns.entry(turn).or_default();
                found.latest_branch = found.latest_branch.max(branch);
                found.events_by_branch.entry(branch).or_default().extend(line.id);
            }
            drift.pass(turn, branch);
        }
        for found in turns.values_mut() {
            found.branches = found.events_by_branch.keys().copied().collect();
        }
        turns
    }

    /// Returns the branches of each turn, grouped by the content of their first user event.
    pub fn user_groups(&self) -> BTreeMap<i64, UserGroups> {
        let mut contents: HashMap<(i64, i64), &Value> = HashMap::new();
        for line in self.lines.iter().filter(|line| line.is_user()) {
            if let Some(place) = line.place {
                contents.entry(place).or_insert_with(|| line.event.get("content").unwrap_or(&Value::Nil));
            }
        }
        let selected = self.selected_branches();
        let turns = self.branch_metadata().into_iter();
        turns.map(|(turn, found)| (turn, group(turn, &found.branches, &contents, selected))).collect()
    }
}

fn group(turn: i64, branches: &[i64], contents: &HashMap<(i64, i64), &Value>, selected: &View) -> UserGroups {
    let mut found = UserGroups::default();
    let mut index: HashMap<(bool, String), usize> = HashMap::new();
    for &branch in branches {
        let content = contents.get(&(turn, branch)).map_or_else(|| string(""), |content| (*content).clone());
        let key = match &content {
            Value::Str(text) => (true, text.clone()),
            parts => (false, json(parts)),
        };
        let at = *index.entry(key).or_insert(found.groups.len());
        if at == found.groups.len() {
            found.groups.push(UserGroup { content, branches: Vec::new() });
        }
        found.groups[at].branches.push(branch);
        if selected.get(&turn) == Some(&branch) {
            found.selected_group_idx = at;
        }
    }
    found
}

/// Returns the branches of each turn that can be seen under a view.
pub fn collect_branch_metadata(events: &[Value], view: &View) -> BTreeMap<i64, TurnBranches> {
    Log::read(events, view).branch_metadata()
}

/// Returns the branches of each turn that can be seen under a view, grouped by what the user said.
pub fn collect_user_groups(events: &[Value], view: &View) -> BTreeMap<i64, UserGroups> {
    Log::read(events, view).user_groups()
}
