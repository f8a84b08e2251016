//! Words as pieces of a vocabulary: the longest piece that fits, from the left.

/// Words of more characters are not cut, but unknown as a whole.
const LONGEST_WORD: usize = 100;
/// Bytes of the longest piece that a vocabulary may hold, the mark of a continuation included.
pub(super) const LONGEST_PIECE: usize = 64;
/// What a piece begins with that goes on with a word.
const CONTINUES: &[u8] = b"##";

/// The pieces by their text, found without an allocation.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: Vec<u8>,
    /// Where each piece begins in `texts`, and where the last one ends.
    begins: Vec<u32>,
    /// Open addressing: the upper half of a piece's hash, and its number plus one.
    slots: Vec<(u32, u32)>,
    longest: usize,
    unknown: u32,
    fresh: u64,
    continued: u64,
}

impl Vocabulary {
    /// Makes a vocabulary of lines, or tells what is wrong with them.
    pub(super) fn new(lines: &str, unknown: &str) -> Result<Self, String> {
        let fresh = 0xCBF2_9CE4_8422_2325;
        let mut made = Self {
            texts: Vec::with_capacity(lines.len()),
            begins: vec![0],
            slots: Vec::new(),
            longest: 0,
            unknown: 0,
            fresh,
            continued: CONTINUES.iter().fold(fresh, |hash, byte| mixed(hash, *byte)),
        };
        let count = lines.split('\n').count();
        made.slots = vec![(0, 0); (count * 2).next_power_of_two()];
        for line in lines.split('\n') {
            made.add(line)?;
        }
        made.unknown = made.named(unknown).ok_or_else(|| format!("no piece {unknown:?}"))?;
        Ok(made)
    }

    /// Returns how many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.begins.len() - 1
    }

    fn add(&mut self, piece: &str) -> Result<(), String> {
        if piece.is_empty() || piece.len() > LONGEST_PIECE {
            return Err(format!("a piece of {} bytes", piece.len()));
        }
        if self.named(piece).is_some() {
            return Err(format!("the piece {piece:?} twice"));
        }
        self.texts.extend_from_slice(piece.as_bytes());
        self.longest = self.longest.max(piece.len());
        let number = u32::try_from(self.begins.len()).map_err(|_| "too many pieces".to_owned())?;
        self.begins.push(u32::try_from(self.texts.len()).map_err(|_| "too much text".to_owned())?);
        let hash = self.hash_of(piece.as_bytes());
        let mut slot = self.slot_of(hash);
        while self.slots[slot].1 != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (tag(hash), number);
        Ok(())
    }

    fn hash_of(&self, piece: &[u8]) -> u64 {
        piece.iter().fold(self.fresh, |hash, byte| mixed(hash, *byte))
    }

    fn named(&self, piece: &str) -> Option<u32> {
        self.find(self.hash_of(piece.as_bytes()), b"", piece.as_bytes())
    }

    fn slot_of(&self, hash: u64) -> usize {
        // The low bits of a product are the poor ones.
        usize::try_from(hash >> 20).unwrap_or(0) & (self.slots.len() - 1)
    }

    fn text_of(&self, number: u32) -> &[u8] {
        let at = number as usize;
        &self.texts[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// Returns the piece that is `head` and then `tail`, whose hash together is given.
    #[inline]
    fn find(&self, hash: u64, head: &[u8], tail: &[u8]) -> Option<u32> {
        let mut slot = self.slot_of(hash);
        loop {
            let (found, number) = self.slots[slot];
            if number == 0 {
                return None;
            }
            if found == tag(hash) && self.text_of(number - 1).strip_prefix(head) == Some(tail) {
                return Some(number - 1);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Calls `each` with the pieces of a word: at most as many as it has bytes, or the unknown one.
    pub(super) fn each_piece(&self, word: &str, mut each: impl FnMut(u32)) {
        if word.len() > LONGEST_WORD && word.chars().count() > LONGEST_WORD {
            return each(self.unknown);
        }
        // A word has at most 100 characters of 4 bytes; its pieces are known only when all are found.
        let mut pieces = [0_u32; LONGEST_WORD * 4];
        let mut count = 0;
        let mut from = 0;
        while from < word.len() {
            let Some((piece, length)) = self.longest_at(&word[from..], from > 0) else {
                return each(self.unknown);
            };
            pieces[count] = piece;
            count += 1;
            from += length;
        }
        pieces[..count].iter().copied().for_each(each);
    }

    /// Returns the longest piece that a rest begins with, and the bytes of the rest that it covers.
    fn longest_at(&self, rest: &str, continues: bool) -> Option<(u32, usize)> {
        let (start, head) = if continues { (self.continued, CONTINUES) } else { (self.fresh, &b""[..]) };
        let bytes = rest.as_bytes();
        let most = bytes.len().min(self.longest);
        let mut hashes = [0_u64; LONGEST_PIECE + 1];
        let mut hash = start;
        for (at, byte) in bytes[..most].iter().enumerate() {
            hash = mixed(hash, *byte);
            hashes[at + 1] = hash;
        }
        (1..=most)
            .rev()
            .filter(|end| rest.is_char_boundary(*end))
            .find_map(|end| self.find(hashes[end], head, &bytes[..end]).map(|piece| (piece, end)))
    }
}

#[inline]
fn mixed(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
}

#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "[UNK]\na\nab\n##c\n##cd\nx\n##天\n天";

    fn pieces(word: &str) -> Vec<u32> {
        let mut found = Vec::new();
        Vocabulary::new(LINES, "[UNK]").unwrap().each_piece(word, |piece| found.push(piece));
        found
    }

    #[test]
    fn the_longest_piece_wins_from_the_left() {
        assert_eq!(pieces("abcdc"), [2, 4, 3]);
        assert_eq!(pieces("a天"), [1, 6]);
    }

    #[test]
    fn a_word_with_an_unknown_end_is_unknown() {
        assert_eq!(pieces("abz"), [0]);
        assert_eq!(pieces("天天é"), [0]);
    }

    #[test]
    fn a_word_of_more_than_100_characters_is_unknown() {
        assert_eq!(pieces(&format!("a{}", "天".repeat(99))).len(), 100);
        assert_eq!(pieces(&format!("a{}", "天".repeat(100))), [0]);
    }

    #[test]
    fn a_vocabulary_holds_no_piece_twice_and_none_that_is_empty() {
        assert!(Vocabulary::new("[UNK]\na\na", "[UNK]").is_err());
        assert!(Vocabulary::new("[UNK]\n\na", "[UNK]").is_err());
        assert!(Vocabulary::new("a", "[UNK]").is_err());
    }
}
