//! The choice of one branch for each turn.

use std::collections::{BTreeMap, HashMap};

use super::chosen::Chosen;
use super::log::Line;
use super::path::pairs;
use super::view::View;
use crate::codec::Value;

/// A branch that may be chosen for its turn.
pub(super) struct Candidate<'a> {
    turn: i64,
    branch: i64,
    /// The position in the log of the event that stands for it.
    at: usize,
    ancestry: Ancestry<'a>,
}

/// What a branch says about the turns before it.
enum Ancestry<'a> {
    Stated(&'a Value),
    /// The highest branch of each earlier turn at its place in the log.
    Implied,
    None,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(at: usize, line: &Line<'a>, (turn, branch): (i64, i64)) -> Self {
        let ancestry = match line.path {
            // An event without an id was made by a reader and is on no branch of the log's own.
            _ if line.id.is_none() => Ancestry::None,
            Some(path) => Ancestry::Stated(path),
            None => Ancestry::Implied,
        };
        Self { turn, branch, at, ancestry }
    }
}

/// When each turn got a new highest branch: positions in the log, ascending, with the branch.
pub(super) struct History(HashMap<i64, Vec<(usize, i64)>>);

impl History {
    pub(super) fn of(lines: &[Line<'_>]) -> Self {
        let mut turns: HashMap<i64, Vec<(usize, i64)>> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            let Some((turn, branch)) = line.place else { continue };
            let steps = turns.entry(turn).or_default();
            if branch > steps.last().map_or(0, |(_, highest)| *highest) {
                steps.push((at, branch));
            }
        }
        Self(turns)
    }

    fn steps(&self, turn: i64) -> &[(usize, i64)] {
        self.0.get(&turn).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the highest branch of a turn among the events before a position.
    pub(super) fn highest_before(&self, turn: i64, at: usize) -> Option<i64> {
        let steps = self.steps(turn);
        let count = steps.partition_point(|(step, _)| *step < at);
        count.checked_sub(1).map(|last| steps[last].1)
    }

    /// Returns the turns that have a branch.
    pub(super) fn turns(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }
}

/// Chooses a branch for each turn, from the first turn to the last, so that none contradicts those chosen
/// before: a required one, or a preferred one, or the latest.
///
/// Candidates come in the order of the log. Fails with the first required branch that contradicts.
pub(super) fn choose(
    candidates: &[Candidate<'_>],
    history: &History,
    required: View,
    preferred: &View,
) -> Result<View, (i64, i64)> {
    let mut turns: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (number, candidate) in candidates.iter().enumerate() {
        turns.entry(candidate.turn).or_default().push(number);
    }
    let mut chosen: Chosen = required.iter().collect();
    let mut selected = required;
    let mut contradicted = Contradicted::new(candidates);
    for (turn, numbers) in turns {
        let fits = numbers.into_iter().filter(|&number| match candidates[number].ancestry {
            Ancestry::Stated(path) => pairs(Some(path)).all(|pair| chosen.allows(pair)),
            Ancestry::Implied => !contradicted.contains(number),
            Ancestry::None => true,
        });
        let branches: Vec<i64> = fits.map(|number| candidates[number].branch).collect();
        let branch = match selected.get(&turn) {
            Some(branch) if branches.contains(branch) => *branch,
            Some(branch) => return Err((turn, *branch)),
            None => match preferred.get(&turn).filter(|branch| branches.contains(branch)) {
                Some(branch) => *branch,
                None => match branches.into_iter().max() {
                    Some(branch) => branch,
                    None => continue,
                },
            },
        };
        selected.insert(turn, branch);
        chosen.insert(turn, branch);
        contradicted.add(history.steps(turn), branch);
    }
    Ok(selected)
}

/// The candidates whose implied ancestry contradicts a choice made so far.
///
/// An implied path is that of a moment, and a turn's highest branch changes at known moments; so a choice
/// rules out whole spans of the log. A Fenwick tree counts the spans over each candidate.
struct Contradicted {
    moments: Vec<usize>,
    tree: Vec<i32>,
}

impl Contradicted {
    fn new(candidates: &[Candidate<'_>]) -> Self {
        let moments: Vec<usize> = candidates.iter().map(|candidate| candidate.at).collect();
        let tree = vec![0; moments.len() + 2];
        Self { moments, tree }
    }

    /// Rules out the candidates at whose moment the turn had another highest branch than the chosen one.
    fn add(&mut self, steps: &[(usize, i64)], chosen: i64) {
        let Some(&(first, _)) = steps.first() else { return };
        let after = |at: usize| self.moments.partition_point(|&moment| moment <= at);
        let end = self.moments.len();
        let (agrees, next) = match steps.iter().position(|(_, branch)| *branch == chosen) {
            Some(step) => (after(steps[step].0), steps.get(step + 1).map_or(end, |(at, _)| after(*at))),
            None => (end, end),
        };
        self.add_span(after(first), agrees);
        self.add_span(next, end);
    }

    fn add_span(&mut self, from: usize, to: usize) {
        if from < to {
            self.add_from(from, 1);
            self.add_from(to, -1);
        }
    }

    fn add_from(&mut self, number: usize, amount: i32) {
        let mut node = number + 1;
        while node < self.tree.len() {
            self.tree[node] += amount;
            node += node & node.wrapping_neg();
        }
    }

    fn contains(&self, number: usize) -> bool {
        let mut sum = 0;
        let mut node = number + 1;
        while node > 0 {
            sum += self.tree[node];
            node &= node - 1;
        }
        sum > 0
    }
}
