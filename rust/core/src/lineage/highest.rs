//! The highest branch of each turn, from which a log implies the parent paths that it does not state.

use std::collections::BTreeMap;

use crate::codec::Value;

/// The highest branch that a log has shown of each turn, up to some place in it.
///
/// An event that states no parent path has the one that this gives at its place. So an event whose
/// path is that one need not state it, and a log does not grow with the square of its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Highest {
    turns: BTreeMap<i64, i64>,
}

impl Highest {
    /// Goes past an event of this turn and branch.
    pub fn note(&mut self, turn: i64, branch: i64) {
        if branch > 0 {
            let highest = self.turns.entry(turn).or_insert(branch);
            *highest = branch.max(*highest);
        }
    }

    /// Returns the highest branch of a turn; 0 when it has none.
    pub fn of(&self, turn: i64) -> i64 {
        self.turns.get(&turn).copied().unwrap_or(0)
    }

    /// Returns the path that an event of this turn has here when it states none.
    pub fn before(&self, turn: i64) -> impl Iterator<Item = (i64, i64)> {
        self.turns.range(..turn).map(|(turn, branch)| (*turn, *branch))
    }

    /// Returns whether an event of this turn may leave its path out. An empty path states nothing.
    pub fn implies(&self, turn: i64, path: &[(i64, i64)]) -> bool {
        path.is_empty() || path.iter().copied().eq(self.before(turn))
    }

    /// Returns the turns in runs of `[turn, branch, length]`: a straight history is one, however long.
    pub fn to_value(&self) -> Value {
        let mut runs: Vec<[i64; 3]> = Vec::new();
        for (turn, branch) in &self.turns {
            match runs.last_mut() {
                Some([first, same, length])
                    if first.checked_add(*length) == Some(*turn) && same == branch =>
                {
                    *length += 1;
                }
                _ => runs.push([*turn, *branch, 1]),
            }
        }
        Value::List(runs.iter().map(|run| Value::List(run.map(Value::Int).to_vec())).collect())
    }

    /// Reads runs back; `None` when these are none.
    pub fn of_value(runs: &Value) -> Option<Self> {
        let mut found = Self::default();
        for run in runs.as_list()? {
            let [turn, branch, length] = run.as_list()? else { return None };
            let (turn, branch, length) = (turn.as_i64()?, branch.as_i64()?, length.as_i64()?);
            if !(1..=1 << 31).contains(&length) {
                return None;
            }
            for turn in turn..turn.checked_add(length)? {
                found.note(turn, branch);
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn highest(places: &[(i64, i64)]) -> Highest {
        let mut highest = Highest::default();
        for (turn, branch) in places {
            highest.note(*turn, *branch);
        }
        highest
    }

    #[test]
    fn a_path_of_the_highest_branches_is_implied() {
        let highest = highest(&[(1, 1), (2, 1), (2, 2), (3, 1), (2, 1)]);

        assert!(highest.implies(3, &[(1, 1), (2, 2)]));
        assert!(highest.implies(3, &[]));
        assert!(!highest.implies(3, &[(1, 1), (2, 1)]));
        assert!(!highest.implies(3, &[(2, 2)]));
        assert!(!highest.implies(3, &[(1, 1), (2, 2), (3, 1)]));
        assert!(!highest.implies(3, &[(2, 2), (1, 1)]));
    }

    #[test]
    fn a_branch_that_is_not_positive_is_none() {
        assert_eq!(highest(&[(1, 0), (2, -1)]), Highest::default());
    }

    #[test]
    fn what_is_known_comes_back_from_its_runs() {
        let known = highest(&[(-2, 1), (1, 1), (2, 1), (3, 2), (9, 2), (12, 1)]);

        let runs = known.to_value();

        assert_eq!(runs.as_list().map(<[Value]>::len), Some(5));
        assert_eq!(Highest::of_value(&runs).as_ref().map(|found| found.of(9)), Some(2));
    }
}
