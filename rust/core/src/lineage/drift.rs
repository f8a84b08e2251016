//! Agreement of events with a selection, as the log goes on.

use std::collections::{BTreeSet, HashMap};

use super::chosen::Chosen;
use super::log::Line;
use super::path::pairs;
use super::view::View;

/// Follows a log and knows for each event whether the branches before it are the selected ones.
///
/// An event that states no path has as its path the highest branch shown so far of each earlier turn. These
/// paths are never built: what is kept is the set of turns whose highest branch is not the selected one.
pub(super) struct Drift {
    selected: Chosen,
    highest: HashMap<i64, i64>,
    astray: BTreeSet<i64>,
}

impl Drift {
    pub(super) fn new(view: &View) -> Self {
        Self { selected: view.iter().collect(), highest: HashMap::new(), astray: BTreeSet::new() }
    }

    /// Returns whether the path of the next event contradicts no selected turn before `turn`.
    pub(super) fn agrees(&self, line: &Line<'_>, turn: i64) -> bool {
        match line.path {
            Some(path) => pairs(Some(path)).all(|pair| pair.0 >= turn || self.selected.allows(pair)),
            // Without an id an event is not in the log, and has no place in its order.
            None => line.id.is_none() || self.astray.first().is_none_or(|&first| first >= turn),
        }
    }

    /// Returns the first selected turn before `turn` whose highest branch so far is another one.
    pub(super) fn first_astray(&self, turn: i64) -> Option<i64> {
        self.astray.first().copied().filter(|&first| first < turn)
    }

    /// Goes past an event of this turn and branch.
    pub(super) fn pass(&mut self, turn: i64, branch: i64) {
        let highest = self.highest.entry(turn).or_insert(0);
        if branch > *highest {
            *highest = branch;
            if self.selected.allows((turn, branch)) {
                self.astray.remove(&turn);
            } else {
                self.astray.insert(turn);
            }
        }
    }
}
