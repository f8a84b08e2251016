//! A lexical vector: every word, and every three letters of it, has a place and a sign by its hash.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::normalise;
use crate::recall::words::{Words, analyse};

/// Seeds that keep a word and a part of the same letters apart. They are part of the vectors.
const WORD: u64 = 1;
const PART: u64 = 2;
/// Three letters say less than a word.
const PART_WEIGHT: f32 = 0.25;
/// Words up to this long have no parts.
const SHORT: usize = 3;

/// Appends the vector of each text to `out`, of length 1; a text without a word has zeros.
///
/// Words are those of keyword search. The same text has the same bits on every platform.
pub fn hashed<'a>(texts: impl IntoIterator<Item = &'a str>, dimensions: usize, out: &mut Vec<f32>) {
    let mut words = Words::default();
    let mut marked = String::new();
    for text in texts {
        words.clear();
        analyse(text, &mut words);
        let begin = out.len();
        out.resize(begin + dimensions, 0.0);
        if dimensions == 0 {
            continue;
        }
        let sum = &mut out[begin..];
        for word in words.body.split(' ').chain(words.whole.split(' ')).filter(|word| !word.is_empty()) {
            add(word.as_bytes(), WORD, 1.0, sum);
            if word.len() > SHORT && word.is_ascii() {
                marked.clear();
                marked.extend(["<", word, ">"]);
                marked.as_bytes().windows(3).for_each(|part| add(part, PART, PART_WEIGHT, sum));
            }
        }
        normalise(sum);
    }
}

fn add(feature: &[u8], seed: u64, weight: f32, sum: &mut [f32]) {
    let hash = xxh3_64_with_seed(feature, seed);
    let at = usize::try_from((hash >> 1) % sum.len() as u64).unwrap_or_default();
    sum[at] += if hash & 1 == 0 { weight } else { -weight };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(one: &str, other: &str) -> f32 {
        let mut both = Vec::new();
        hashed([one, other], 256, &mut both);
        both[..256].iter().zip(&both[256..]).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_with_words_in_common_are_alike() {
        assert!((likeness("the login page", "The LOGIN pages") - 1.0).abs() < 1e-6);
        assert!(likeness("migrate the database", "database migration") > 0.5);
        assert!(likeness("migrate the database", "a cup of tea") < 0.3);
    }

    #[test]
    fn a_text_without_a_word_is_zeros() {
        let mut out = Vec::new();

        hashed(["", " \t", "..."], 8, &mut out);

        assert_eq!(out, [0.0; 24]);
    }

    #[test]
    fn no_dimensions_are_no_numbers() {
        let mut out = Vec::new();

        hashed(["a"], 0, &mut out);

        assert!(out.is_empty());
    }
}
