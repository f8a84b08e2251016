//! Whole sessions by how well their blocks match.

use std::collections::HashMap;

use tantivy::Searcher;
use tantivy::query::Query as Asked;

use super::gather::{Filter, Found, Ground, gather};

/// How many blocks are looked at for each session that is wanted.
const BLOCKS: usize = 64;
/// What the second-best block of a session counts beside its best, the third beside the second.
const DECAY: f32 = 0.5;

/// Returns the best block of each of the best sessions, with the score of all of it: the sum of its blocks'
/// scores, each counting half of the one before.
pub(super) fn rank(
    asked: &dyn Asked,
    filter: &Filter,
    searcher: &Searcher,
    ground: &Ground<'_>,
    most: usize,
) -> tantivy::Result<Vec<Found>> {
    let found = gather(asked, filter, searcher, ground, most.saturating_mul(BLOCKS))?;
    let mut sessions: HashMap<usize, (Found, f32)> = HashMap::new();
    let mut order = Vec::new();
    for one in found {
        let (best, share) = sessions.entry(one.at).or_insert_with(|| {
            order.push(one.at);
            (Found { score: 0.0, ..one }, 1.0)
        });
        best.score += one.score * *share;
        *share *= DECAY;
    }
    let mut ranked: Vec<Found> = order.iter().filter_map(|at| sessions.get(at)).map(|(best, _)| *best).collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranked.truncate(most);
    Ok(ranked)
}
