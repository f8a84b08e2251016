//! Making a segment: where each word stands in the messages of some sessions.
//!
//! A word is what stands between white space, in lower case, since a term of a query holds none. Its
//! record says which messages of the segment hold it, and at which places. Where more than one space
//! stands between two words a place is left out, so that only what stands `a b` is side by side.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::super::search::without_marks;

/// Bytes of a page.
pub(super) const PAGE: usize = 64 << 10;
/// Longer words are cut into pieces that overlap, so that a term up to that length is in one of them.
const PIECE: usize = 2048;
/// How long a term may be.
pub(super) const OVERLAP: usize = 256;
/// Stands where a piece is cut, so that none begins or ends where its word does not.
const CUT: char = '\n';

/// Some sessions' words, ready to be stored.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// Pages of words, each with where their records end.
    pub(super) dictionary: Vec<Vec<u8>>,
    /// The records one after the other.
    pub(super) records: Vec<u8>,
    /// How many messages each session has.
    pub(super) messages: Vec<u32>,
    /// Bytes of text.
    pub(super) size: i64,
}

/// A fast hash of short words; nobody outside chooses what is kept by it for long.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u8(&mut self, value: u8) {
        self.0 ^= u64::from(value);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 ^= value;
    }

    fn write_u128(&mut self, value: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
        {
            self.0 ^= value as u64;
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hashing of words, and of what is a hash already.
pub(super) type Quickly = BuildHasherDefault<Quick>;

#[derive(Debug, Clone, Copy)]
struct Standing {
    word: u32,
    message: u32,
    place: u32,
}

/// Collects the words of sessions.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// By a hash that is as good as the word, and lies in the table itself.
    numbers: HashMap<u128, u32, Quickly>,
    words: Vec<Box<str>>,
    standings: Vec<Standing>,
    message: u32,
    messages: Vec<u32>,
    size: i64,
}

impl Builder {
    /// Begins the next session; its place among those of the segment is returned.
    pub(super) fn session(&mut self) -> u32 {
        let place = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(0);
        place
    }

    /// Adds the next message of the session.
    pub(super) fn message(&mut self, text: &str) {
        let lowered = text.to_lowercase();
        let mut place = 0;
        for (word, is_apart) in words(&lowered) {
            place += 1 + u32::from(is_apart);
            if word.len() <= PIECE {
                self.stand(word, place);
            } else {
                for piece in pieces(word) {
                    self.stand(&piece, place);
                }
            }
        }
        self.size += i64::try_from(text.len()).unwrap_or(i64::MAX);
        self.message += 1;
        if let Some(count) = self.messages.last_mut() {
            *count += 1;
        }
    }

    fn stand(&mut self, word: &str, place: u32) {
        let next = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(xxhash_rust::xxh3::xxh3_128(word.as_bytes())).or_insert(next);
        if number == next {
            self.words.push(word.into());
        }
        let word = number;
        self.standings.push(Standing { word, message: self.message, place });
    }

    /// Returns what is stored.
    pub(super) fn finish(self) -> Segment {
        let words = self.words;
        let sorted = by_word(&self.standings, words.len());
        drop(self.standings);
        let mut segment = Segment { messages: self.messages, size: self.size, ..Segment::default() };
        let mut page = Page::at(0);
        let mut rest = sorted.as_slice();
        for (number, word) in words.iter().enumerate() {
            let count = rest.iter().take_while(|one| one.word as usize == number).count();
            let (own, others) = rest.split_at(count);
            rest = others;
            record(own, &mut segment.records);
            page.add(word, segment.records.len());
            if page.is_full() {
                segment.dictionary.push(page.finish());
                page = Page::at(segment.records.len());
            }
        }
        if page.has_words() {
            segment.dictionary.push(page.finish());
        }
        segment
    }
}

/// The words of a text in lower case, each with whether more than a space stands before it.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut end = None;
    text.split_whitespace().map(move |word| {
        let begin = word.as_ptr().addr() - text.as_ptr().addr();
        let is_apart = end.is_some_and(|end| text.get(end..begin) != Some(" "));
        end = Some(begin + word.len());
        (word, is_apart)
    })
}

fn pieces(word: &str) -> Vec<String> {
    let floor = |mut at: usize| {
        while !word.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let mut found = Vec::new();
    let mut begin = 0;
    loop {
        let end = if begin + PIECE >= word.len() { word.len() } else { floor(begin + PIECE) };
        let mut piece = String::with_capacity(end - begin + 2);
        if begin > 0 {
            piece.push(CUT);
        }
        piece.push_str(word.get(begin..end).unwrap_or_default());
        if end < word.len() {
            piece.push(CUT);
        }
        found.push(piece);
        if end == word.len() {
            return found;
        }
        begin = floor(end - OVERLAP);
    }
}

/// Sorts by word; what stands earlier stays earlier.
fn by_word(standings: &[Standing], words: usize) -> Vec<Standing> {
    let mut starts = vec![0_usize; words + 1];
    for one in standings {
        if let Some(start) = starts.get_mut(one.word as usize + 1) {
            *start += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut sorted = vec![Standing { word: 0, message: 0, place: 0 }; standings.len()];
    for one in standings {
        if let Some(start) = starts.get_mut(one.word as usize) {
            if let Some(slot) = sorted.get_mut(*start) {
                *slot = *one;
            }
            *start += 1;
        }
    }
    sorted
}

/// How many messages, the steps from each to the next, and for each how many places and their steps.
fn record(standings: &[Standing], out: &mut Vec<u8>) {
    let groups = || standings.chunk_by(|a, b| a.message == b.message);
    put(u32::try_from(groups().count()).unwrap_or(u32::MAX), out);
    let mut last = 0;
    for message in groups().filter_map(|group| group.first()).map(|first| first.message) {
        put(message - last, out);
        last = message;
    }
    for group in groups() {
        put(u32::try_from(group.len()).unwrap_or(u32::MAX), out);
        let mut last = 0;
        for one in group {
            put(one.place - last, out);
            last = one.place;
        }
    }
}

/// Appends a number, seven bits a byte.
pub(super) fn put(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "no more than seven bits are left")]
    out.push(number as u8);
}

/// Takes a number off the front of bytes.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A page of words: how many they are, and how many have another form without marks; where the first
/// record begins; for each word where it and its record end; for each other form its word and where
/// it ends; the words; the other forms. Each text ends in a line feed, which no query holds.
struct Page {
    begin: usize,
    ends: Vec<[u32; 2]>,
    words: String,
    bare_ends: Vec<[u32; 2]>,
    bare: String,
}

impl Page {
    fn at(begin: usize) -> Self {
        Self { begin, ends: Vec::new(), words: String::new(), bare_ends: Vec::new(), bare: String::new() }
    }

    fn add(&mut self, word: &str, record_end: usize) {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        if !word.is_ascii() {
            let bare = without_marks(word);
            if bare != word {
                self.bare.push_str(&bare);
                self.bare_ends.push([narrow(self.ends.len()), narrow(self.bare.len())]);
                self.bare.push('\n');
            }
        }
        self.words.push_str(word);
        self.ends.push([narrow(self.words.len()), narrow(record_end)]);
        self.words.push('\n');
    }

    fn has_words(&self) -> bool {
        !self.ends.is_empty()
    }

    fn is_full(&self) -> bool {
        self.words.len() + self.bare.len() + 8 * (self.ends.len() + self.bare_ends.len()) >= PAGE
    }

    fn finish(self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = |value: usize| out.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
        number(self.ends.len());
        number(self.bare_ends.len());
        number(self.begin);
        for pair in self.ends.iter().chain(&self.bare_ends) {
            number(pair[0] as usize);
            number(pair[1] as usize);
        }
        number(self.words.len());
        out.extend(self.words.as_bytes());
        out.extend(self.bare.as_bytes());
        out
    }
}
