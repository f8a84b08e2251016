//! Reading segments: which messages hold a term, and which the terms side by side.

use memchr::memmem::Finder;

use super::build::{PAGE, take};
use super::pages::Pages;
use crate::chat::search::Wording;

/// A set of messages of one segment.
#[derive(Debug, Clone)]
pub(super) struct Messages(Vec<u64>);

impl Messages {
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    pub(super) fn add(&mut self, message: u32) {
        if let Some(word) = self.0.get_mut(message as usize / 64) {
            *word |= 1 << (message % 64);
        }
    }

    fn has(&self, message: u32) -> bool {
        self.0.get(message as usize / 64).is_some_and(|word| word >> (message % 64) & 1 == 1)
    }

    fn keep(&mut self, others: &Self) {
        for (word, other) in self.0.iter_mut().zip(&others.0) {
            *word &= other;
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many of the messages from `begin` to before `end` there are.
    pub(super) fn count(&self, begin: u32, end: u32) -> u32 {
        if begin >= end {
            return 0;
        }
        let (first, last) = (begin as usize / 64, (end - 1) as usize / 64);
        let head = u64::MAX << (begin % 64);
        let tail = u64::MAX >> (63 - (end - 1) % 64);
        let word = |at: usize| self.0.get(at).copied().unwrap_or(0);
        if first == last {
            return (word(first) & head & tail).count_ones();
        }
        let inner: u32 = self.0.get(first + 1..last).unwrap_or_default().iter().map(|w| w.count_ones()).sum();
        (word(first) & head).count_ones() + inner + (word(last) & tail).count_ones()
    }
}

/// Which messages of a segment hold what a query asks for.
#[derive(Debug)]
pub(super) struct Holders {
    /// For each term of the wording.
    pub(super) terms: Vec<Messages>,
    /// The terms side by side, as they are spelled.
    pub(super) phrase: Messages,
}

/// Where the record of a word is among those of its segment.
type Place = [u32; 2];

/// What a dictionary says of a query.
#[derive(Debug, Default)]
struct Matches {
    /// For each term the words that hold it.
    terms: Vec<Vec<Place>>,
    /// For each word of the phrase those that stand for it there.
    phrase: Vec<Vec<Place>>,
}

/// Asks one segment, whose messages are counted.
pub(super) fn ask(
    pages: &Pages<'_>,
    segment: i64,
    (dictionary, messages): (u32, usize),
    wording: &Wording<'_>,
) -> rusqlite::Result<Holders> {
    let mut matches = Matches {
        terms: vec![Vec::new(); wording.terms.len()],
        phrase: vec![Vec::new(); wording.phrase.len()],
    };
    let asked = Asked::of(wording);
    for number in 0..dictionary {
        let page = pages.get(segment, true, number)?;
        look_up(&page, &asked, &mut matches);
    }
    let mut holders = Holders { terms: Vec::new(), phrase: Messages::none(messages) };
    for places in &matches.terms {
        let mut found = Messages::none(messages);
        for place in places {
            for_each_message(&pages.record(segment, *place)?, |message| found.add(message));
        }
        holders.terms.push(found);
    }
    side_by_side(pages, segment, &matches, &mut holders)?;
    Ok(holders)
}

struct Asked<'a> {
    terms: Vec<(Finder<'a>, bool)>,
    phrase: Vec<(Finder<'a>, &'a str)>,
}

impl<'a> Asked<'a> {
    fn of(wording: &'a Wording<'a>) -> Self {
        Self {
            terms: wording.terms.iter().map(|(term, is_loose)| (Finder::new(*term), *is_loose)).collect(),
            phrase: wording.phrase.iter().map(|term| (Finder::new(*term), *term)).collect(),
        }
    }
}

fn look_up(page: &[u8], asked: &Asked<'_>, matches: &mut Matches) {
    let Some(page) = Dictionary::of(page) else { return };
    for ((finder, is_loose), found) in asked.terms.iter().zip(&mut matches.terms) {
        let begin = found.len();
        page.each(page.words, page.words_count, finder, &mut |word| found.push(page.place(word)));
        if *is_loose && page.bare_count > 0 {
            let end = found.len();
            page.each(page.bare, page.bare_count, finder, &mut |number| {
                let place = page.place(page.bare_word(number));
                // A word may hold the term in both forms; one record is read once.
                if found.get(begin..end).unwrap_or_default().binary_search(&place).is_err() {
                    found.push(place);
                }
            });
        }
    }
    let last = asked.phrase.len().wrapping_sub(1);
    for (at, ((finder, term), found)) in asked.phrase.iter().zip(&mut matches.phrase).enumerate() {
        page.each(page.words, page.words_count, finder, &mut |word| {
            let text = page.word(word);
            let term = term.as_bytes();
            let begins = at == 0 || text.starts_with(term);
            let ends = at == last || text.ends_with(term);
            let fills = at == 0 || at == last || text == term;
            if begins && ends && fills {
                found.push(page.place(word));
            }
        });
    }
}

/// Notes the messages in which the words of the phrase stand side by side.
fn side_by_side(
    pages: &Pages<'_>,
    segment: i64,
    matches: &Matches,
    holders: &mut Holders,
) -> rusqlite::Result<()> {
    let Matches { terms, phrase } = matches;
    if phrase.iter().any(Vec::is_empty) {
        return Ok(());
    }
    let Some((first, others)) = holders.terms.split_first() else { return Ok(()) };
    let mut all = first.clone();
    if let [only] = phrase.as_slice() {
        if terms.first() != Some(only) {
            all = Messages::none(all.0.len() * 64);
            for place in only {
                for_each_message(&pages.record(segment, *place)?, |message| all.add(message));
            }
        }
        holders.phrase = all;
        return Ok(());
    }
    for other in others {
        all.keep(other);
    }
    let mut starts: Option<Vec<u64>> = None;
    for (at, places) in phrase.iter().enumerate() {
        if all.is_empty() || starts.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let mut found = Vec::new();
        for place in places {
            let mut before = starts.as_deref();
            for_each_place(&pages.record(segment, *place)?, &all, |message, place| {
                // Counted from where the phrase would begin.
                let Some(start) = u64::from(place).checked_sub(at as u64) else { return };
                let start = u64::from(message) << 32 | start;
                if before.as_mut().is_none_or(|before| goes_on(before, start)) {
                    found.push(start);
                }
            });
        }
        #[expect(clippy::stable_sort_primitive, reason = "it merges the runs, one for each record")]
        found.sort();
        starts = Some(found);
    }
    for start in starts.unwrap_or_default() {
        holders.phrase.add((start >> 32) as u32);
    }
    Ok(())
}

/// Whether a start is among those that are left, which it moves on to.
fn goes_on(before: &mut &[u64], start: u64) -> bool {
    let mut reach = 1;
    while let Some(next) = before.first().filter(|next| **next < start) {
        // The next one is near where both are dense; else the steps double.
        let far = before.get(reach).filter(|far| **far < start && *far > next);
        *before = before.get(if far.is_some() { reach } else { 1 }..).unwrap_or_default();
        reach = if far.is_some() { reach * 2 } else { 1 };
    }
    before.first() == Some(&start)
}

fn for_each_message(mut record: &[u8], mut each: impl FnMut(u32)) {
    let Some(count) = take(&mut record) else { return };
    let mut message = 0_u32;
    for _ in 0..count {
        let Some(step) = take(&mut record) else { return };
        message = message.wrapping_add(step);
        each(message);
    }
}

fn for_each_place(record: &[u8], wanted: &Messages, mut each: impl FnMut(u32, u32)) {
    let mut steps = record;
    let Some(count) = take(&mut steps) else { return };
    let mut places = steps;
    for _ in 0..count {
        if take(&mut places).is_none() {
            return;
        }
    }
    let mut message = 0_u32;
    for _ in 0..count {
        let (Some(step), Some(within)) = (take(&mut steps), take(&mut places)) else { return };
        message = message.wrapping_add(step);
        let is_wanted = wanted.has(message);
        let mut place = 0_u32;
        for _ in 0..within {
            let Some(step) = take(&mut places) else { return };
            place = place.wrapping_add(step);
            if is_wanted {
                each(message, place);
            }
        }
    }
}

/// A page of words, as it was packed.
struct Dictionary<'a> {
    numbers: &'a [u8],
    words: &'a [u8],
    bare: &'a [u8],
    words_count: usize,
    bare_count: usize,
    begin: u32,
}

impl<'a> Dictionary<'a> {
    fn of(page: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
        let (words_count, bare_count) = (number(0)? as usize, number(4)? as usize);
        let texts = 12 + 8 * (words_count + bare_count);
        let length = number(texts)? as usize;
        Some(Self {
            numbers: page.get(12..texts)?,
            words: page.get(texts + 4..texts + 4 + length)?,
            bare: page.get(texts + 4 + length..)?,
            words_count,
            bare_count,
            begin: number(8)?,
        })
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = self.numbers.get(at * 4..at * 4 + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    fn place(&self, word: usize) -> Place {
        let begin = if word == 0 { self.begin } else { self.number(2 * word - 1) };
        [begin, self.number(2 * word + 1)]
    }

    fn word(&self, word: usize) -> &'a [u8] {
        let begin = if word == 0 { 0 } else { self.number(2 * word - 2) as usize + 1 };
        self.words.get(begin..self.number(2 * word) as usize).unwrap_or_default()
    }

    fn bare_word(&self, number: usize) -> usize {
        self.number(2 * (self.words_count + number)) as usize
    }

    /// Where a text ends, of the words or of their other forms.
    fn end(&self, is_bare: bool, number: usize) -> usize {
        let at = if is_bare { 2 * (self.words_count + number) + 1 } else { 2 * number };
        self.number(at) as usize
    }

    /// Calls `each` with the number of every text that holds what is looked for, once.
    fn each(&self, texts: &[u8], count: usize, finder: &Finder<'_>, each: &mut impl FnMut(usize)) {
        let is_bare = std::ptr::eq(texts, self.bare);
        let mut from = 0;
        let mut low = 0;
        while let Some(at) = texts.get(from..).and_then(|rest| finder.find(rest)) {
            let at = from + at;
            let (mut begin, mut end) = (low, count);
            while begin < end {
                let middle = usize::midpoint(begin, end);
                if self.end(is_bare, middle) <= at { begin = middle + 1 } else { end = middle }
            }
            if begin >= count {
                return;
            }
            each(begin);
            from = self.end(is_bare, begin) + 1;
            low = begin + 1;
        }
    }
}

/// Which slices of a segment's records hold a place, and where in them.
pub(super) fn slices(place: [u32; 2]) -> impl Iterator<Item = (u32, usize, usize)> {
    let (begin, end) = (place[0] as usize, place[1] as usize);
    (begin / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let base = number * PAGE;
        let first = begin.max(base) - base;
        (u32::try_from(number).unwrap_or(u32::MAX), first, end.min(base + PAGE) - base)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_between_any_two_bounds() {
        let mut set = Messages::none(300);
        let members = [0_u32, 1, 63, 64, 65, 127, 128, 200, 299];
        for one in members {
            set.add(one);
        }

        for begin in 0..300_u32 {
            for end in [begin, begin + 1, begin + 63, begin + 64, 300] {
                let expected = members.iter().filter(|one| (begin..end).contains(one)).count();
                assert_eq!(set.count(begin, end.min(300)) as usize, expected, "{begin}..{end}");
            }
        }
    }

    #[test]
    fn a_place_may_lie_in_several_slices() {
        let page = u32::try_from(PAGE).unwrap();

        let found: Vec<_> = slices([page - 2, 2 * page + 1]).collect();

        assert_eq!(found, [(0, PAGE - 2, PAGE), (1, 0, PAGE), (2, 0, 1)]);
    }
}
