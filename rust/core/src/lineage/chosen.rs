//! A selection that is asked once for each pair of each path.

use std::collections::HashMap;

/// The branch chosen of each turn.
///
/// Turns are mostly numbered without gaps, so that a table answers in a few instructions; numbers far from
/// the others are kept apart, or one absurd number would make the table as long as itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    table: Vec<Option<i64>>,
    inserted: usize,
    apart: HashMap<i64, i64>,
}

/// How far the table may reach for each turn that is chosen.
const ROOM: usize = 8;

impl Chosen {
    /// Returns the branch chosen of a turn.
    pub(super) fn get(&self, turn: i64) -> Option<i64> {
        match usize::try_from(turn).ok().and_then(|at| self.table.get(at)) {
            Some(Some(branch)) => Some(*branch),
            _ if self.apart.is_empty() => None,
            _ => self.apart.get(&turn).copied(),
        }
    }

    /// Chooses a branch.
    pub(super) fn insert(&mut self, turn: i64, branch: i64) {
        self.inserted += 1;
        let longest = (self.inserted + 1).saturating_mul(ROOM);
        match usize::try_from(turn) {
            Ok(at) if at < longest => {
                if at >= self.table.len() {
                    self.table.resize(at + 1, None);
                }
                self.table[at] = Some(branch);
            }
            _ => {
                self.apart.insert(turn, branch);
            }
        }
    }

    /// Returns whether a pair contradicts nothing that is chosen.
    pub(super) fn allows(&self, (turn, branch): (i64, i64)) -> bool {
        self.get(turn).is_none_or(|chosen| chosen == branch)
    }

    /// Returns whether all pairs are chosen.
    pub(super) fn has_all(&self, pairs: &[(i64, i64)]) -> bool {
        pairs.iter().all(|(turn, branch)| self.get(*turn) == Some(*branch))
    }
}

impl<'v> FromIterator<(&'v i64, &'v i64)> for Chosen {
    fn from_iter<I: IntoIterator<Item = (&'v i64, &'v i64)>>(pairs: I) -> Self {
        let mut chosen = Self::default();
        for (turn, branch) in pairs {
            chosen.insert(*turn, *branch);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_near_and_far_are_found_again() {
        let pairs = [(-3, 1), (0, 2), (1, 3), (40, 4), (1_000_000_000_000, 5), (2, 6)];
        let mut chosen = Chosen::default();
        for (turn, branch) in pairs {
            chosen.insert(turn, branch);
        }
        chosen.insert(1_000_000_000_000, 7);

        assert_eq!([-3, 0, 1, 40, 2].map(|turn| chosen.get(turn)), [1, 2, 3, 4, 6].map(Some));
        assert_eq!(chosen.get(1_000_000_000_000), Some(7));
        assert_eq!(chosen.get(3), None);
        assert!(chosen.table.len() < 100);
    }

    #[test]
    fn what_is_not_chosen_is_allowed_and_not_had() {
        let chosen: Chosen = [(1, 2)].iter().map(|(turn, branch)| (turn, branch)).collect();

        assert!(chosen.allows((1, 2)) && chosen.allows((9, 9)) && !chosen.allows((1, 3)));
        assert!(chosen.has_all(&[(1, 2)]) && !chosen.has_all(&[(1, 2), (9, 9)]));
    }
}
