//! Cuts text into words: the one walk that documents and queries share.
//!
//! Text falls into chunks at white space and control characters, a chunk into words. What a chunk
//! yields depends on nothing around it, so a word is cut in a query as it is in a document.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use xxhash_rust::xxh3::xxh3_64;

use super::chars::{self, Class};

/// A run of more characters than this is kept as its beginning and a hash.
const LONGEST_RUN: usize = 64;
const KEPT_OF_LONG: usize = 48;
/// A joined form of more bytes than this is not worth its place in the index.
const LONGEST_WHOLE: usize = 40;
/// The longest joined form over a dot: `node.js` may be written `nodejs`, a long path never.
const LONGEST_DOTTED: usize = 16;
/// More groups of digits than this in one run of letters: made by a machine, not by a person.
const MOST_DIGIT_GROUPS: usize = 2;

/// What a part of a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters and digits between two cuts, without case and diacritics.
    Word,
    /// One character of a script without spaces, with its marks.
    Cut,
    /// One emoji or other sign.
    Sign,
}

/// Receives what the walk finds. The text of words is not stemmed yet.
pub(super) trait Sink {
    /// Takes the next part; `glued` tells that it belongs to the part before.
    fn part(&mut self, text: &str, kind: Kind, glued: bool);
    /// Takes the joined form of the last `parts` parts; `marked` if it also speaks signs (`C#`).
    fn whole(&mut self, text: &str, parts: usize, marked: bool);
    /// Takes the words inside the part that came last, separated by spaces: `get user name`.
    fn humps(&mut self, words: &str);
    /// Takes an operator such as `->`, written in letters and digits.
    fn operator(&mut self, text: &str);
    /// Learns that a chunk ended; `false` ends the walk.
    fn chunk_end(&mut self) -> bool {
        true
    }
}

/// Walks over a text. Time and memory are linear in its length.
pub(super) fn scan(text: &str, sink: &mut impl Sink) {
    let mut chunks = Scanner::default();
    for chunk in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !chunk.is_empty() && !chunks.chunk(chunk, sink) {
            return;
        }
    }
}

/// Parts joined by single dots, as in `node.js` and `U.S.A`.
#[derive(Default)]
struct Chain {
    text: String,
    links: usize,
    parts: usize,
    singles: bool,
    has_number: bool,
}

#[derive(Default)]
struct Scanner {
    units: Vec<(char, Class)>,
    token: String,
    joined: String,
    chain: Chain,
    last: Option<Kind>,
    apart: bool,
    no_blob_before: usize,
}

impl Scanner {
    fn chunk(&mut self, chunk: &str, sink: &mut impl Sink) -> bool {
        if let Some(word) = plain_word(chunk) {
            self.token.clear();
            self.token.push_str(word);
            self.token.make_ascii_lowercase();
            sink.part(&self.token, Kind::Word, false);
            return sink.chunk_end();
        }
        self.fill(chunk);
        self.chain = Chain::default();
        self.last = None;
        self.apart = true;
        self.no_blob_before = 0;
        let mut at = 0;
        while at < self.units.len() {
            at = match self.units[at].1 {
                class if class.is_word() => self.compound(at, sink),
                Class::Cut => self.cut(at, sink),
                Class::Sign => self.sign(at, sink),
                Class::Operator => self.operator(at, sink),
                Class::Connector if self.units[at].0 == '-' => self.operator(at, sink),
                class => {
                    self.apart |= class == Class::Hard;
                    at + 1
                }
            };
        }
        sink.chunk_end()
    }

    /// Reads a chunk into folded characters that remember the case they had.
    fn fill(&mut self, chunk: &str) {
        self.units.clear();
        if chunk.is_ascii() || is_nfkc_quick(chunk.chars()) == IsNormalized::Yes {
            chunk.chars().for_each(|c| self.fill_one(c));
        } else {
            chunk.nfkc().for_each(|c| self.fill_one(c));
        }
    }

    fn fill_one(&mut self, c: char) {
        let class = chars::class_of(c);
        let last = self.units.last().copied();
        match class {
            Class::Ignored => {}
            Class::Joiner => {
                // Between letters it only shapes them.
                if last.is_some_and(|(_, class)| class == Class::Sign) {
                    self.units.push((c, class));
                }
            }
            Class::Sign => {
                let follows_sign = last.is_some_and(|(_, class)| class == Class::Sign);
                let repeats = last.is_some_and(|(before, _)| before == c) && !chars::is_regional(c);
                if !(repeats || follows_sign && chars::is_skin_tone(c)) {
                    self.units.push((c, class));
                }
            }
            _ if chars::is_plain_cut(c) => self.units.push((c, class)),
            _ => chars::fold(c, &mut |folded| self.units.push((folded, class))),
        }
    }

    fn class(&self, at: usize) -> Class {
        self.units.get(at).map_or(Class::Hard, |unit| unit.1)
    }

    fn char(&self, at: usize) -> char {
        self.units.get(at).map_or(' ', |unit| unit.0)
    }

    fn emit(&mut self, kind: Kind, glued: bool, sink: &mut impl Sink) {
        sink.part(&self.token, kind, glued && self.last == Some(kind));
        self.last = Some(kind);
        self.apart = false;
    }

    fn cut(&mut self, at: usize, sink: &mut impl Sink) -> usize {
        let mut end = at + 1;
        while self.class(end) == Class::Mark && end - at < KEPT_OF_LONG {
            end += 1;
        }
        self.spell(at, end);
        self.emit(Kind::Cut, !self.apart, sink);
        end
    }

    fn sign(&mut self, at: usize, sink: &mut impl Sink) -> usize {
        let joined = at > 0 && self.class(at - 1) == Class::Joiner;
        let pair = chars::is_regional(self.char(at)) && chars::is_regional(self.char(at + 1));
        let end = at + 1 + usize::from(pair);
        self.token.clear();
        for (c, _) in &self.units[at..end] {
            chars::push_hex(*c, &mut self.token);
        }
        self.emit(Kind::Sign, joined, sink);
        end
    }

    fn operator(&mut self, at: usize, sink: &mut impl Sink) -> usize {
        let first = self.char(at);
        let mut end = at;
        let mut repeated = true;
        while self.class(end) == Class::Operator || self.char(end) == '-' {
            repeated &= self.char(end) == first;
            end += 1;
        }
        let rule = repeated && matches!(first, '-' | '#' | '*' | '~');
        if (2..=3).contains(&(end - at)) && !rule {
            self.token.clear();
            for (c, _) in &self.units[at..end] {
                chars::push_hex(*c, &mut self.token);
            }
            sink.operator(&self.token);
        }
        let binds = match (end - at, first) {
            (1, '-' | '@' | '&' | '#') | (2, ':') => true,
            (2, '-') => self.char(at + 1) == '>',
            _ => false,
        };
        self.apart |= !binds;
        end
    }

    /// Takes runs of letters and digits joined by single connectors.
    fn compound(&mut self, start: usize, sink: &mut impl Sink) -> usize {
        if let Some(end) = self.blob(start, sink) {
            return end;
        }
        self.joined.clear();
        let mut at = start;
        let mut parts = 0;
        loop {
            let end = self.run_end(at);
            let begin_of_last = self.joined.len();
            let cut = self.run(at, end, sink);
            parts += cut;
            if at == start && self.has_leading_dot(start) {
                self.mark("dot", 0, "", cut, sink);
            }
            if self.class(end) == Class::Connector && self.class(end + 1).is_word() {
                at = end + 1;
                continue;
            }
            if parts >= 2 && self.joined.len() <= LONGEST_WHOLE {
                sink.whole(&self.joined, parts, false);
            }
            self.follow_chain(start, end, parts, sink);
            let (suffix, length) = self.suffix(end);
            if length > 0 {
                self.mark("", begin_of_last, suffix, cut, sink);
                self.apart = true;
            }
            return end + length;
        }
    }

    fn run_end(&self, start: usize) -> usize {
        let mut end = start;
        while self.class(end).is_word() {
            end += 1;
        }
        end
    }

    fn has_leading_dot(&self, start: usize) -> bool {
        start > 0
            && self.class(start - 1) == Class::Dot
            && (start < 2 || !matches!(self.class(start - 2), Class::Dot | Class::Cut | Class::Sign))
            && (start < 2 || !self.class(start - 2).is_word())
            && self.class(start) != Class::Digit
    }

    /// Hands on a form in which signs are spoken: `dotnet`, `csharp`.
    fn mark(&mut self, before: &str, from: usize, after: &str, parts: usize, sink: &mut impl Sink) {
        let run = &self.joined[from..];
        if run.len() <= LONGEST_WHOLE {
            self.token.clear();
            self.token.extend([before, run, after]);
            sink.whole(&self.token, parts, true);
        }
    }

    /// Returns how a sign that ends a name is spoken, and its length: `C++`, `F#`, `Disney+`.
    fn suffix(&self, at: usize) -> (&'static str, usize) {
        let next = self.class(at + 1);
        match (self.char(at), self.char(at + 1)) {
            ('+', '+') if self.char(at + 2) != '+' => ("plusplus", 2),
            ('+', _) if !next.is_word() && next != Class::Operator => ("plus", 1),
            ('#', _) if !next.is_word() && next != Class::Operator => ("sharp", 1),
            _ => ("", 0),
        }
    }

    /// Emits one run, and adds it to the joined form. Returns the number of its parts.
    ///
    /// A camel-case name stays in one: to a reader it is a word among others, as in `GitHub`.
    fn run(&mut self, start: usize, end: usize, sink: &mut impl Sink) -> usize {
        if end - start > LONGEST_RUN {
            self.shorten(start, end);
            self.add_part(sink);
            return 1;
        }
        // The `v` of a version is not part of its number.
        if end - start > 1
            && self.char(start) == 'v'
            && (start + 1..end).all(|at| self.class(at) == Class::Digit)
        {
            self.spell(start, start + 1);
            self.add_part(sink);
            self.spell(start + 1, end);
            self.add_part(sink);
            return 2;
        }
        self.spell(start, end);
        self.add_part(sink);
        if !self.is_opaque(start, end) && (start + 1..end).any(|at| self.is_hump(at, end)) {
            self.token.clear();
            for at in start..end {
                if at > start && self.is_hump(at, end) {
                    self.token.push(' ');
                }
                chars::push_kept(self.units[at].0, &mut self.token);
            }
            sink.humps(&self.token);
        }
        1
    }

    fn add_part(&mut self, sink: &mut impl Sink) {
        self.joined.push_str(&self.token);
        self.emit(Kind::Word, !self.apart, sink);
    }

    fn is_opaque(&self, start: usize, end: usize) -> bool {
        let digit = |at: usize| self.units[at].1 == Class::Digit;
        let groups = (start..end).filter(|at| digit(*at) && (*at == start || !digit(at - 1))).count();
        groups > MOST_DIGIT_GROUPS
    }

    /// Tells whether a new word of a camel-case name starts here.
    fn is_hump(&self, at: usize, end: usize) -> bool {
        if self.class(at) != Class::Upper {
            return false;
        }
        let next_is_lower = at + 1 < end && self.class(at + 1) == Class::Lower;
        match self.class(at - 1) {
            Class::Lower | Class::Mark => true,
            Class::Digit => next_is_lower,
            // `HTTPServer` has two words, but the plural `IDs` has one.
            Class::Upper => {
                let plural =
                    self.char(at + 1) == 's' && (at + 2 >= end || self.class(at + 2) != Class::Lower);
                next_is_lower && !plural
            }
            _ => false,
        }
    }

    fn spell(&mut self, start: usize, end: usize) {
        self.token.clear();
        for (c, _) in &self.units[start..end] {
            chars::push_kept(*c, &mut self.token);
        }
    }

    fn shorten(&mut self, start: usize, end: usize) {
        self.token.clear();
        self.token.extend(self.units[start..end].iter().map(|unit| unit.0));
        let hash = xxh3_64(self.token.as_bytes());
        let letters = self.units[start..end].iter().filter(|unit| unit.1.is_word());
        self.token.clear();
        for (c, _) in letters.take(KEPT_OF_LONG) {
            chars::push_kept(*c, &mut self.token);
        }
        self.token.extend(["x", &format!("{hash:016x}")]);
    }

    /// Takes a long run of base64 as one word. Cut at its signs it would fill the index.
    fn blob(&mut self, start: usize, sink: &mut impl Sink) -> Option<usize> {
        if start < self.no_blob_before || self.units.len() - start <= LONGEST_RUN {
            return None;
        }
        let mut end = start;
        let mut changes = 0;
        while self.char(end).is_ascii_alphanumeric() || matches!(self.char(end), '+' | '/' | '-' | '_') {
            let class = self.class(end);
            changes += usize::from(end > start && class.is_word() && class != self.class(end - 1));
            end += 1;
        }
        self.no_blob_before = end;
        // Chance changes class at 62 of 100 characters, a path of camel-case names at about 30.
        if end - start <= LONGEST_RUN || changes * 100 < (end - start) * 45 {
            return None;
        }
        self.shorten(start, end);
        self.emit(Kind::Word, !self.apart, sink);
        while self.char(end) == '=' {
            end += 1;
        }
        Some(end)
    }

    fn follow_chain(&mut self, start: usize, end: usize, parts: usize, sink: &mut impl Sink) {
        let continues = start > 0 && self.class(start - 1) == Class::Dot && self.chain.links > 0;
        if !continues {
            self.chain = Chain { singles: true, ..Chain::default() };
        }
        self.chain.links += 1;
        self.chain.parts += parts;
        self.chain.has_number |= self.class(start) == Class::Digit;
        self.chain.singles &= end - start == 1 && !matches!(self.class(start), Class::Digit | Class::Mark);
        if self.chain.text.len() <= LONGEST_WHOLE {
            self.chain.text.push_str(&self.joined);
        }
        if self.class(end) == Class::Dot && self.class(end + 1).is_word() {
            return;
        }
        let named =
            self.chain.links == 2 && self.chain.text.len() <= LONGEST_DOTTED && !self.chain.has_number;
        let acronym = self.chain.links >= 2 && self.chain.singles && self.chain.text.len() <= LONGEST_WHOLE;
        if named || acronym {
            sink.whole(&self.chain.text, self.chain.parts, false);
        }
        self.chain.links = 0;
    }
}

/// Returns the word of a chunk that is nothing but one English word, as most chunks are, or nothing:
/// then the long way finds out. Both ways give the same.
fn plain_word(chunk: &str) -> Option<&str> {
    let word = chunk.strip_prefix(['(', '"']).unwrap_or(chunk);
    let word = word
        .strip_suffix([':', '!', '?'])
        .unwrap_or_else(|| word.trim_end_matches(['.', ',', ';', ')', '"']));
    let (first, rest) = word.as_bytes().split_first()?;
    let plain =
        first.is_ascii_alphabetic() && rest.iter().all(u8::is_ascii_lowercase) && rest.len() < LONGEST_RUN;
    plain.then_some(word)
}
