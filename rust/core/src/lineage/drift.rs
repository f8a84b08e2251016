//! Agreement of events with a selection, as the log goes on.

use std::collections::{BTreeSet, HashMap};

use super::log::Line;
use super::path::pairs;
use super::view::View;

/// Follows a log and knows for each event whether the branches before it are the selected ones.
///
/// An event that states no path has as its path the highest branch shown so far of each earlier turn. These
/// paths are never built: what is kept is the set of turns whose highest branch is not the selected one.
pub(super) struct Drift<'s> {
    selected: HashMap<i64, i64>,
    view: &'s View,
    highest: HashMap<i64, i64>,
    astray: BTreeSet<i64>,
}

impl<'s> Drift<'s> {
    pub(super) fn new(view: &'s View) -> Self {
        let selected = view.iter().map(|(turn, branch)| (*turn, *branch)).collect();
        Self { selected, view, highest: HashMap::new(), astray: BTreeSet::new() }
    }

    /// Returns whether the path of the next event contradicts no selected turn before `turn`.
    pub(super) fn agrees(&self, line: &Line<'_>, turn: i64) -> bool {
        match line.path {
            Some(path) => pairs(Some(path))
                .all(|(earlier, branch)| earlier >= turn || self.is_selected(earlier, branch)),
            // Without an id an event is not in the log, and has no place in its order.
            None => line.id.is_none() || self.astray.first().is_none_or(|&first| first >= turn),
        }
    }

    /// Returns the first selected turn before `turn` whose highest branch so far is another one.
    pub(super) fn first_astray(&self, turn: i64) -> Option<i64> {
        self.astray.first().copied().filter(|&first| first < turn)
    }

    /// Returns the highest branch of a turn so far.
    pub(super) fn highest(&self, turn: i64) -> Option<i64> {
        self.highest.get(&turn).copied()
    }

    fn is_selected(&self, turn: i64, branch: i64) -> bool {
        self.selected.get(&turn).is_none_or(|selected| *selected == branch)
    }

    /// Goes past an event of this turn and branch.
    pub(super) fn pass(&mut self, turn: i64, branch: i64) {
        let highest = self.highest.entry(turn).or_insert(0);
        if branch > *highest {
            *highest = branch;
            match self.view.get(&turn) {
                Some(selected) if *selected != branch => self.astray.insert(turn),
                _ => self.astray.remove(&turn),
            };
        }
    }
}
