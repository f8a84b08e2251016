//! Whole sessions by how well their blocks match.

use std::collections::HashMap;

use tantivy::Searcher;
use tantivy::query::Query as Asked;

use super::gather::{Filter, Found, Ground, gather};

/// How many blocks are looked at first for each session that is wanted.
const BLOCKS: usize = 64;
/// So many of its best blocks count for a session. All of them would have the longest session win.
const COUNTED: usize = 3;

/// Returns the best block of each of the best sessions, with the sum of the scores of its best blocks.
pub(super) fn rank(
    asked: &dyn Asked,
    filter: &Filter,
    searcher: &Searcher,
    ground: &Ground,
    most: usize,
) -> tantivy::Result<Vec<Found>> {
    let mut blocks = most.saturating_mul(BLOCKS);
    loop {
        let found = gather(asked, filter, searcher, ground, blocks)?;
        let is_all = found.len() < blocks;
        let ranked = by_session(found);
        // Where a few sessions hold all of the best blocks the others are looked for behind them.
        if is_all || ranked.len() >= most {
            return Ok(ranked.into_iter().take(most).collect());
        }
        blocks = blocks.saturating_mul(8);
    }
}

fn by_session(found: Vec<Found>) -> Vec<Found> {
    let mut places: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut ranked: Vec<Found> = Vec::new();
    for one in found {
        let (place, counted) = places.entry(one.at).or_insert_with(|| {
            ranked.push(Found { score: 0.0, ..one });
            (ranked.len() - 1, 0)
        });
        if *counted < COUNTED {
            *counted += 1;
            ranked[*place].score += one.score;
        }
    }
    // Stable: of equal ones the one whose best block is better comes first.
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranked
}
