//! What a user may choose at each turn, with what each choice belongs to.

use std::collections::{BTreeMap, BTreeSet};

use super::log::lines;
use super::path::{ParentPaths, pairs};
use super::view::{View, resolve_branch_view_strict};
use crate::Result;
use crate::codec::Value;

/// The turns and branches before an event.
type Path = Vec<(i64, i64)>;

/// A branch that the user began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchChoice {
    /// Its number.
    pub branch: i64,
    /// The turns and branches before it; more than one path when its user events do not agree.
    pub parent_paths: Vec<Path>,
}

/// All branches of a turn, whether they can be seen or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnChoices {
    /// The branches, ascending.
    pub branches: Vec<BranchChoice>,
    /// The one that the view shows.
    pub selected: Option<i64>,
}

/// Returns what can be chosen at each turn, under a view that must be met in full.
///
/// Costs the paths of all user events, which together are as long as the turns times their branches. Fails
/// as [`resolve_branch_view_strict`] does.
pub fn project_branch_metadata(events: &[Value], view: &View) -> Result<BTreeMap<i64, TurnChoices>> {
    let selected = resolve_branch_view_strict(events, view)?;
    let paths = ParentPaths::of(events);
    let mut found: BTreeMap<(i64, i64), BTreeSet<Path>> = BTreeMap::new();
    for line in lines(events).iter().filter(|line| line.is_user()) {
        let Some(place) = line.place else { continue };
        let path = match line.id {
            Some(id) => paths.get(id).unwrap_or_default(),
            None => pairs(line.path).collect(),
        };
        found.entry(place).or_default().insert(path);
    }
    let mut turns: BTreeMap<i64, TurnChoices> = BTreeMap::new();
    for ((turn, branch), paths) in found {
        let choices = turns.entry(turn).or_default();
        choices.selected = selected.get(&turn).copied();
        choices.branches.push(BranchChoice { branch, parent_paths: paths.into_iter().collect() });
    }
    Ok(turns)
}
