//! English stems, with a memory for the words that come again and again.

use std::cell::RefCell;

use rust_stemmers::{Algorithm, Stemmer};

/// 256 KiB a thread: most of the words of a long session have a slot of their own.
const SLOTS: usize = 8192;
/// The longest word that fits a slot; one byte is left for the length of its stem.
const LONGEST_CACHED: usize = 15;
const LONGEST_STEMMED: usize = 32;

/// One word and its stem, padded with zeros; the last byte of the stem is its length.
#[derive(Clone, Copy)]
struct Slot {
    word: [u8; 16],
    stem: [u8; 16],
}

/// A stemmer for one thread.
pub(super) struct Stems {
    english: Stemmer,
    slots: Vec<Slot>,
}

thread_local! {
    static STEMS: RefCell<Stems> = RefCell::new(Stems::new());
}

impl Stems {
    fn new() -> Self {
        let empty = Slot { word: [0; 16], stem: [0; 16] };
        Stems { english: Stemmer::create(Algorithm::English), slots: vec![empty; SLOTS] }
    }

    /// Runs `work` with the stemmer of this thread.
    pub(super) fn with<T>(work: impl FnOnce(&mut Stems) -> T) -> T {
        STEMS.with(|stems| match stems.try_borrow_mut() {
            Ok(mut stems) => work(&mut stems),
            Err(_) => work(&mut Stems::new()),
        })
    }

    /// Appends the stem of a folded word; one that is not plain English letters is its own stem.
    pub(super) fn push(&mut self, word: &str, out: &mut String) {
        let length = word.len();
        if !(3..=LONGEST_STEMMED).contains(&length) || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return out.push_str(word);
        }
        if length > LONGEST_CACHED {
            return out.push_str(&self.english.stem(word));
        }
        let mut padded = [0; 16];
        padded[..length].copy_from_slice(word.as_bytes());
        let index = slot_of(padded);
        if self.slots[index].word != padded {
            let stem = self.english.stem(word);
            let Ok(stem_length) = u8::try_from(stem.len()) else { return out.push_str(word) };
            let mut slot = Slot { word: padded, stem: [0; 16] };
            if stem.len() > LONGEST_CACHED {
                return out.push_str(&stem);
            }
            slot.stem[..stem.len()].copy_from_slice(stem.as_bytes());
            slot.stem[LONGEST_CACHED] = stem_length;
            self.slots[index] = slot;
        }
        let stem = &self.slots[index].stem;
        let length = usize::from(stem[LONGEST_CACHED]);
        // The bytes came from a string of ASCII letters.
        out.push_str(str::from_utf8(&stem[..length]).unwrap_or(word));
    }
}

fn slot_of(word: [u8; 16]) -> usize {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let number = u128::from_le_bytes(word);
    let halves = [(number & u128::from(u64::MAX)), number >> 64].map(|half| u64::try_from(half).unwrap_or(0));
    let mixed = (halves[0] ^ halves[1].rotate_left(29)).wrapping_mul(SPREAD);
    usize::try_from(mixed >> 51).unwrap_or(0) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(word: &str) -> String {
        let mut out = String::new();
        Stems::with(|stems| stems.push(word, &mut out));
        out
    }

    #[test]
    fn forms_of_a_word_share_a_stem_on_first_and_second_sight() {
        for _ in 0..2 {
            assert_eq!(stem("running"), "run");
            assert_eq!(stem("runs"), "run");
            assert_eq!(stem("internationalisations"), stem("internationalisation"));
        }
    }

    #[test]
    fn what_is_not_english_letters_stays() {
        for word in ["is", "zebrafish42", "müdes", "x1s", "слова"] {
            assert_eq!(stem(word), word);
        }
    }
}
