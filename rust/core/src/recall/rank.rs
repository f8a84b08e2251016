//! The order of what a query found.
//!
//! BM25 with the parameters that are usual for passages (`k1` 0.9, `b` 0.4) and an idf that is never
//! negative. Two things are added: a block that holds more of the query's words comes before one that
//! holds one word often, and blocks that stand beside other finds count for more, for what is talked
//! about for a while is more likely meant than a word in passing.

const K1: f64 = 0.9;
const B: f64 = 0.4;
/// The part of its score that a find lends to the one beside it; to the one after that, the part of the part.
const LENT: f64 = 0.4;
/// How far finds lend.
const REACH: usize = 2;

/// What is known of the index as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Corpus {
    /// How many blocks there are.
    pub blocks: u64,
    /// How many words they hold.
    pub words: u64,
}

/// A block that holds some of a query's terms.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Whose it is.
    pub owner: i64,
    /// Its place among the blocks of its owner; 0 for one that has none.
    pub place: i64,
    /// The words that it holds.
    pub length: u32,
}

/// Returns the score of each find. `counts` says how often each of `frequencies.len()` terms stands in
/// each find, one row a find; a frequency that is not known is counted from the finds.
#[expect(clippy::cast_precision_loss, reason = "counts of blocks are far below 2⁵³")]
pub fn scores(corpus: Corpus, frequencies: &[Option<u64>], found: &[Found], counts: &[u8]) -> Vec<f64> {
    let terms = frequencies.len().max(1);
    let total = corpus.blocks.max(1) as f64;
    let average = (corpus.words.max(1) as f64 / total).max(1.0);
    let weights: Vec<f64> = frequencies
        .iter()
        .enumerate()
        .map(|(term, known)| {
            let counted =
                || counts.iter().skip(term).step_by(terms).filter(|count| **count > 0).count() as u64;
            let holders = (known.unwrap_or_else(counted) as f64).min(total);
            (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln()
        })
        .collect();
    let own: Vec<f64> = found
        .iter()
        .zip(counts.chunks(terms))
        .map(|(block, counts)| {
            let length = 1.0 - B + B * f64::from(block.length) / average;
            let (mut sum, mut matched) = (0.0, 0_u8);
            for (weight, count) in weights.iter().zip(counts).filter(|(_, count)| **count > 0) {
                let count = f64::from(*count);
                sum += weight * count * (K1 + 1.0) / (count + K1 * length);
                matched = matched.saturating_add(1);
            }
            sum * (f64::from(matched) / terms as f64).sqrt()
        })
        .collect();
    with_neighbours(found, &own)
}

fn with_neighbours(found: &[Found], own: &[f64]) -> Vec<f64> {
    let mut placed: Vec<usize> = (0..found.len()).filter(|at| found[*at].place > 0).collect();
    placed.sort_by_key(|at| (found[*at].owner, found[*at].place));
    let mut all = own.to_vec();
    for (number, &at) in placed.iter().enumerate() {
        for &beside in placed.iter().skip(number + 1) {
            let distance = found[beside].place.saturating_sub(found[at].place);
            let Ok(distance @ 0..=REACH) = usize::try_from(distance) else { break };
            if found[beside].owner != found[at].owner {
                break;
            }
            if distance > 0 {
                let share = LENT.powi(i32::try_from(distance).unwrap_or(i32::MAX));
                all[at] += share * own[beside];
                all[beside] += share * own[at];
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORPUS: Corpus = Corpus { blocks: 100, words: 1000 };

    fn at(owner: i64, place: i64) -> Found {
        Found { owner, place, length: 10 }
    }

    #[test]
    fn rare_words_and_short_blocks_come_first() {
        let found = [at(1, 10), at(1, 20), Found { owner: 1, place: 30, length: 100 }];

        let scores = scores(CORPUS, &[Some(2), Some(50)], &found, &[1, 0, 0, 1, 1, 0]);

        assert!(scores[0] > scores[2] && scores[2] > scores[1], "{scores:?}");
    }

    #[test]
    fn two_words_beat_one_word_twice() {
        let scores = scores(CORPUS, &[Some(9), Some(9)], &[at(1, 10), at(1, 20)], &[1, 1, 9, 0]);

        assert!(scores[0] > scores[1], "{scores:?}");
    }

    #[test]
    fn finds_lend_to_those_beside_them_of_the_same_owner_alone() {
        let found = [at(1, 10), at(1, 11), at(2, 12), at(1, 0), at(1, 12)];

        let scores = scores(CORPUS, &[None], &found, &[1, 1, 1, 1, 1]);

        assert!((scores[2] - scores[3]).abs() < 1e-12);
        assert!(scores[1] > scores[0] && scores[0] > scores[2], "{scores:?}");
        assert!((scores[0] - scores[4]).abs() < 1e-12);
        assert!((scores[1] - scores[2] * 1.8).abs() < 1e-9);
    }
}
