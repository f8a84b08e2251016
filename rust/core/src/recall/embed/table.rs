//! The vectors of word pieces, and of texts made of them.
//!
//! A file of these, all numbers little-endian: `AMBRVEC1`; pieces, dimensions, bytes of the name and of
//! the vocabulary as u32; the name; the pieces, one a line; a f32 for each piece, its scale; a row of i8
//! for each piece; xxh3-64 of all that.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::normalise;
use super::pieces::Vocabulary;
use super::words::each_word;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"AMBRVEC1";
const UNKNOWN: &str = "[UNK]";

/// A table of word pieces and their vectors. Reading texts with it changes nothing in it.
#[derive(Debug)]
pub struct Table {
    name: String,
    check: u64,
    dimensions: usize,
    vocabulary: Vocabulary,
    scales: Vec<f32>,
    rows: Vec<i8>,
}

impl Table {
    /// Reads a table and checks it against its checksum.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::io(path, "read", &error),
        })?;
        Self::parse(&bytes).map_err(|what| Error::damaged(path, "the table of word pieces", what))
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let short = || "it ends too early".to_owned();
        let (body, check) = bytes.split_last_chunk::<8>().ok_or_else(short)?;
        let check = u64::from_le_bytes(*check);
        let mut rest = body.strip_prefix(MAGIC).ok_or("it does not begin as one")?;
        if xxh3_64(body) != check {
            return Err("its checksum differs".to_owned());
        }
        let mut take = |length: usize| {
            let (head, tail) = rest.split_at_checked(length).ok_or_else(short)?;
            rest = tail;
            Ok::<_, String>(head)
        };
        let mut numbers = [0_usize; 4];
        for (number, four) in numbers.iter_mut().zip(take(16)?.chunks_exact(4)) {
            *number = u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize;
        }
        let [count, dimensions, name, vocabulary] = numbers;
        let name = text(take(name)?)?.to_owned();
        let vocabulary = Vocabulary::new(text(take(vocabulary)?)?, UNKNOWN)?;
        let scales: Vec<f32> = take(count.saturating_mul(4))?
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        let rows: Vec<i8> =
            take(count.saturating_mul(dimensions))?.iter().map(|byte| byte.cast_signed()).collect();
        if dimensions == 0 || vocabulary.len() != count || !rest.is_empty() {
            return Err("its parts do not fit each other".to_owned());
        }
        if scales.iter().any(|scale| !scale.is_finite()) {
            return Err("a scale is not a number".to_owned());
        }
        Ok(Self { name, check, dimensions, vocabulary, scales, rows })
    }

    /// Returns the name of the table with the beginning of its checksum: two tables never share it.
    pub fn id(&self) -> String {
        format!("{}@{:08x}", self.name, self.check >> 32)
    }

    /// Returns the numbers in a whole vector. A shorter one is its beginning, made long as 1 again.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the numbers of the word pieces of a text, without marks of beginning and end.
    pub fn pieces(&self, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        each_word(text, &mut String::new(), |word| {
            self.vocabulary.each_piece(word, |piece| found.push(piece));
        });
        found
    }

    /// Appends the vector of each text to `out`: the mean of the vectors of its pieces, of length 1.
    ///
    /// A text without a known piece has a vector of zeros. The same text has the same bits on every
    /// platform and in whatever company. Linear in the texts.
    pub fn encode<'a>(
        &self,
        texts: impl IntoIterator<Item = &'a str>,
        dimensions: usize,
        out: &mut Vec<f32>,
    ) {
        let width = dimensions.min(self.dimensions);
        let mut word = String::new();
        for text in texts {
            let begin = out.len();
            out.resize(begin + width, 0.0);
            let sum = &mut out[begin..];
            each_word(text, &mut word, |word| {
                self.vocabulary.each_piece(word, |piece| self.add(piece as usize, sum));
            });
            normalise(sum);
        }
    }

    #[inline]
    fn add(&self, piece: usize, sum: &mut [f32]) {
        let scale = self.scales[piece];
        let row = &self.rows[piece * self.dimensions..][..sum.len()];
        for (total, level) in sum.iter_mut().zip(row) {
            *total += scale * f32::from(*level);
        }
    }
}

fn text(bytes: &[u8]) -> std::result::Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "its text is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two dimensions; `a` points right, `b` up and `##b` down.
    fn bytes() -> Vec<u8> {
        let name = "tiny";
        let lines = "[UNK]\na\nb\n##b";
        let mut made = MAGIC.to_vec();
        for number in [4, 2, name.len(), lines.len()] {
            made.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        made.extend(name.bytes().chain(lines.bytes()));
        made.extend([0.0_f32, 0.5, 0.25, 1.0].iter().flat_map(|scale| scale.to_le_bytes()));
        made.extend([9_i8, 9, 2, 0, 0, 4, 0, -3].iter().map(|level| level.cast_unsigned()));
        made.extend(xxh3_64(&made).to_le_bytes());
        made
    }

    fn encoded(texts: &[&str], dimensions: usize) -> Vec<f32> {
        let mut out = Vec::new();
        Table::parse(&bytes()).unwrap().encode(texts.iter().copied(), dimensions, &mut out);
        out
    }

    #[test]
    fn a_text_is_the_mean_of_its_pieces_with_length_one() {
        let half = std::f32::consts::FRAC_1_SQRT_2;

        assert_eq!(encoded(&["a", "A b", "ab"], 2), [1.0, 0.0, half, half, 0.316_227_76, -0.948_683_3]);
    }

    #[test]
    fn a_shorter_vector_is_the_beginning_of_the_whole_one() {
        assert_eq!(encoded(&["a b", "b"], 1), [1.0, 0.0]);
    }

    #[test]
    fn a_text_without_a_known_piece_is_zeros() {
        assert_eq!(encoded(&["", "\u{1F680}", "xyz"], 2), [0.0; 6]);
    }

    #[test]
    fn a_damaged_table_is_refused() {
        let whole = bytes();

        for cut in 0..whole.len() {
            assert!(Table::parse(&whole[..cut]).is_err(), "{cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(Table::parse(&changed).is_err(), "{at}");
        }
    }
}
