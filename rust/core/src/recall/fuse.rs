//! One ranking of two: what words found and what meaning found.

use std::collections::HashMap;
use std::hash::Hash;

/// How soon a rank counts for less.
const K: f64 = 60.0;
/// How much the ranks of each side count. Measured; the decision notes say how.
const KEYWORD: f64 = 1.0;
const VECTOR: f64 = 0.08;

/// An item of the one ranking, with its ranks in the two, from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fused<T> {
    /// The item.
    pub item: T,
    /// What both ranks are worth together; higher is better.
    pub score: f64,
    /// Its rank among what words found.
    pub keyword: Option<usize>,
    /// Its rank among what meaning found.
    pub vector: Option<usize>,
}

/// Adds up what ranks are worth: the weight of the side over 60 and the rank. Ties come in the items' order.
pub fn fuse<T: Copy + Ord + Hash>(keyword: &[T], vector: &[T]) -> Vec<Fused<T>> {
    let mut places: HashMap<T, usize> = HashMap::with_capacity(keyword.len() + vector.len());
    let mut fused: Vec<Fused<T>> = Vec::with_capacity(keyword.len() + vector.len());
    for (items, weight, by_words) in [(keyword, KEYWORD, true), (vector, VECTOR, false)] {
        let mut worth = K;
        for (rank, item) in items.iter().enumerate() {
            let place = *places.entry(*item).or_insert_with(|| {
                fused.push(Fused { item: *item, score: 0.0, keyword: None, vector: None });
                fused.len() - 1
            });
            let one = &mut fused[place];
            one.score += weight / worth;
            *(if by_words { &mut one.keyword } else { &mut one.vector }) = Some(rank);
            worth += 1.0;
        }
    }
    fused.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.item.cmp(&other.item)));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ranks_count_and_are_told() {
        let fused = fuse(&["a", "b"], &["b", "c"]);

        let told: Vec<_> = fused.iter().map(|one| (one.item, one.keyword, one.vector)).collect();
        assert_eq!(told, [("b", Some(1), Some(0)), ("a", Some(0), None), ("c", None, Some(1))]);
        assert!((fused[0].score - (KEYWORD / 61.0 + VECTOR / 60.0)).abs() < 1e-12);
    }

    #[test]
    fn one_side_alone_keeps_its_order() {
        let alone: Vec<i64> = fuse(&[5, 3, 9], &[]).iter().map(|one| one.item).collect();

        assert_eq!(alone, [5, 3, 9]);
        assert!(fuse::<i64>(&[], &[]).is_empty());
    }
}
