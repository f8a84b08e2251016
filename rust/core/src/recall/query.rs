//! What someone typed, as an expression that `SQLite`'s full text understands.
//!
//! Nothing in a query is an operator but the double quotes around a phrase. Words are OR-ed: ranking,
//! not the query, decides what comes first.

use super::chars::{Script, script_of};
use super::scan::{Kind, Sink, scan};
use super::stem::Stems;
use super::stop::is_stop;
use super::words::BODY;

/// The most terms of one query; a longer one is cut, so that its cost stays bounded.
pub const MOST_TERMS: usize = 64;
const LONGEST_PHRASE: usize = 32;
/// A name of so few letters says nothing without its sign: `C++` is not `C`.
const WEAK_NAME: usize = 2;

/// How to read a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the last word may be only the beginning of one: for search while someone types.
    pub prefix_last: bool,
}

/// One way to match: a token, or several that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The tokens, as the index holds them.
    pub tokens: Vec<String>,
    /// Whether the last of them may be the beginning of one.
    pub prefix: bool,
    /// Whether the tokens stand for words in the order of the text, not for one identifier.
    pub in_text: bool,
}

/// A query, ready to be asked. Any string makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// What the query looks for; words that say little only where there is nothing else.
    pub(super) terms: Vec<Term>,
}

/// Reads a query. Never fails, whatever the text.
pub fn parse(query: &str) -> Query {
    parse_with(query, Options::default())
}

/// Reads a query in the way the options say.
pub fn parse_with(query: &str, options: Options) -> Query {
    Stems::with(|stems| {
        let mut reader = Reader { stems, terms: Vec::new(), stops: Vec::new(), chunk: Chunk::default() };
        let mut pieces = Pieces::of(query);
        let mut ends_in_word = false;
        while let Some(piece) = pieces.next_piece() {
            ends_in_word = matches!(piece, Piece::Text(text) if !text.ends_with(char::is_whitespace));
            match piece {
                Piece::Text(text) => scan(text, &mut reader),
                Piece::Phrase(text) => reader.phrase(text),
            }
            if reader.terms.len() >= MOST_TERMS {
                ends_in_word = false;
                break;
            }
        }
        if options.prefix_last && ends_in_word {
            reader.prefix();
        }
        let terms = if reader.terms.is_empty() { reader.stops } else { reader.terms };
        Query { terms }
    })
}

impl Query {
    /// Returns the FTS5 expression for the table that [`super::words`] describes, or nothing where
    /// the query holds nothing to search for: then there are no hits.
    pub fn match_expression(&self) -> Option<String> {
        expression(self.terms.iter())
    }

    /// Returns the tokens that it looks for, and whether each may be only the beginning of one.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, bool)> {
        self.terms.iter().flat_map(|term| {
            let last = term.tokens.len().saturating_sub(1);
            term.tokens.iter().enumerate().map(move |(at, token)| (token.as_str(), term.prefix && at == last))
        })
    }

    /// Returns what the query looks for: any of these.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Tells whether the query holds nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// Writes terms as an expression. Tokens hold letters and digits only, so the quotes cannot be left.
pub(super) fn expression<'a>(terms: impl Iterator<Item = &'a Term>) -> Option<String> {
    let mut out = String::new();
    for term in terms {
        if !out.is_empty() {
            out.push_str(" OR ");
        }
        // In the other column only the words of one identifier follow each other.
        if term.in_text {
            out.extend([BODY, " : "]);
        }
        out.extend(["\"", &term.tokens.join(" "), "\""]);
        if term.prefix {
            out.push_str(" *");
        }
    }
    (!out.is_empty()).then_some(out)
}

pub(super) enum Piece<'a> {
    Text(&'a str),
    Phrase(&'a str),
}

/// Falls a query into phrases in quotes and the text between them.
pub(super) struct Pieces<'a> {
    rest: &'a str,
    no_phrase_left: bool,
    after_space: bool,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(query: &'a str) -> Self {
        Self { rest: query, no_phrase_left: false, after_space: true }
    }

    pub(super) fn next_piece(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut may_open = self.after_space;
        for (at, c) in self.rest.char_indices() {
            if is_quote(c) && may_open && !self.no_phrase_left {
                let inside = at + c.len_utf8();
                match closing_quote(&self.rest[inside..]) {
                    None => self.no_phrase_left = true,
                    Some(_) if at > 0 => return Some(Piece::Text(self.advance(at, 0))),
                    Some((length, quote)) => {
                        self.rest = &self.rest[inside..];
                        return Some(Piece::Phrase(self.advance(length, quote)));
                    }
                }
            }
            may_open = c.is_whitespace() || matches!(c, '(' | '[' | '{');
        }
        Some(Piece::Text(self.advance(self.rest.len(), 0)))
    }

    fn advance(&mut self, length: usize, skip: usize) -> &'a str {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = &rest[skip..];
        self.after_space = true;
        piece
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201C}' | '\u{201D}' | '\u{201E}')
}

/// Returns where the quote stands that ends a phrase, and its length. One before a letter does not.
fn closing_quote(text: &str) -> Option<(usize, usize)> {
    let mut marks = text.char_indices().filter(|(_, c)| is_quote(*c));
    marks.find_map(|(at, c)| {
        let next = text[at + c.len_utf8()..].chars().next();
        let ends = next.is_none_or(|c| !c.is_alphanumeric() && !is_quote(c));
        ends.then_some((at, c.len_utf8()))
    })
}

/// Parts that belong together.
struct Group {
    kind: Kind,
    /// Each part as it was written, folded, and as the index holds it.
    parts: Vec<(String, String)>,
    /// The parts cut further, where one was a camel-case name.
    cut: Vec<String>,
    has_humps: bool,
    /// The joined forms: folded, number of parts, spoken sign.
    wholes: Vec<(String, usize, bool)>,
}

impl Group {
    fn new(kind: Kind) -> Self {
        Group { kind, parts: Vec::new(), cut: Vec::new(), has_humps: false, wholes: Vec::new() }
    }
}

#[derive(Default)]
struct Chunk {
    groups: Vec<Group>,
    operators: Vec<String>,
    ended: bool,
}

struct Reader<'a> {
    stems: &'a mut Stems,
    terms: Vec<Term>,
    stops: Vec<Term>,
    chunk: Chunk,
}

impl Sink for Reader<'_> {
    fn part(&mut self, text: &str, kind: Kind, glued: bool) {
        self.begin();
        let mut stem = String::new();
        match kind {
            Kind::Word => self.stems.push(text, &mut stem),
            Kind::Cut | Kind::Sign => stem.push_str(text),
        }
        if !glued || self.chunk.groups.is_empty() {
            self.chunk.groups.push(Group::new(kind));
        }
        if let Some(group) = self.chunk.groups.last_mut() {
            group.cut.push(stem.clone());
            group.parts.push((text.to_owned(), stem));
        }
    }

    fn humps(&mut self, words: &str) {
        let words: Vec<String> = words.split(' ').map(|word| self.stem(word)).collect();
        if let Some(group) = self.chunk.groups.last_mut() {
            group.cut.pop();
            group.cut.extend(words);
            group.has_humps = true;
        }
    }

    fn whole(&mut self, text: &str, parts: usize, marked: bool) {
        if let Some(group) = self.chunk.groups.last_mut() {
            group.wholes.push((text.to_owned(), parts, marked));
        }
    }

    fn operator(&mut self, text: &str) {
        self.begin();
        if self.chunk.operators.len() < MOST_TERMS {
            self.chunk.operators.push(text.to_owned());
        }
    }

    fn chunk_end(&mut self) -> bool {
        self.begin();
        self.take_chunk();
        self.chunk.ended = true;
        self.terms.len() < MOST_TERMS
    }
}

impl Reader<'_> {
    fn begin(&mut self) {
        if self.chunk.ended {
            self.chunk = Chunk::default();
        }
    }

    /// Turns what a chunk yielded into terms.
    fn take_chunk(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        for group in &chunk.groups {
            match group.kind {
                Kind::Word => self.word(group),
                Kind::Cut => self.run_of_characters(group),
                Kind::Sign => self.add(stems_of(group)),
            }
        }
        // Beside words an operator is punctuation.
        if chunk.groups.is_empty() {
            for operator in &chunk.operators {
                self.add(vec![operator.clone()]);
            }
        }
        self.chunk = chunk;
    }

    fn add(&mut self, tokens: Vec<String>) {
        push_term(&mut self.terms, tokens, false);
    }

    fn word(&mut self, group: &Group) {
        let covering = group.wholes.iter().filter(|(_, parts, _)| *parts == group.parts.len());
        let mut weak = false;
        for (whole, parts, marked) in covering {
            weak |= *marked && *parts == 1 && group.parts[0].0.len() <= WEAK_NAME;
            let stem = self.stem(whole);
            let stop = !marked && is_stop(group.parts.iter().map(|part| part.0.as_str()));
            push_term(if stop { &mut self.stops } else { &mut self.terms }, vec![stem], false);
        }
        if !weak {
            let stop = is_stop(group.parts.iter().map(|part| part.0.as_str()));
            push_term(if stop { &mut self.stops } else { &mut self.terms }, stems_of(group), false);
        }
        if group.has_humps {
            self.add(group.cut.iter().take(LONGEST_PHRASE).cloned().collect());
        }
    }

    fn stem(&mut self, word: &str) -> String {
        let mut stem = String::new();
        self.stems.push(word, &mut stem);
        stem
    }

    /// A run is a phrase; of a longer one, as of a sentence, its likely words count as well.
    fn run_of_characters(&mut self, group: &Group) {
        let all = stems_of(group);
        let script = |token: &String| token.chars().next().map_or(Script::Other, script_of);
        self.add(all.clone());
        for run in all.chunk_by(|a, b| script(a) == script(b)) {
            match (script(&run[0]), run.len()) {
                (Script::Han, 2..=4) | (Script::Katakana, 2..) => self.add(run.to_vec()),
                (Script::Han, 5..) => run.windows(2).for_each(|pair| self.add(pair.to_vec())),
                (Script::Hangul, 3..) => self.add(without_particle(run).to_vec()),
                (Script::Other, 9..) => run.windows(4).for_each(|four| self.add(four.to_vec())),
                _ => {}
            }
        }
    }

    fn phrase(&mut self, text: &str) {
        if text.split_whitespace().nth(1).is_none() {
            scan(text, self);
            return;
        }
        let mut quoted = Quoted::default();
        scan(text, &mut quoted);
        let parts: Vec<String> = quoted.parts.iter().map(|(text, kind)| self.token(text, *kind)).collect();
        let joined: Vec<String> = quoted.joined.iter().map(|(text, kind)| self.token(text, *kind)).collect();
        let cut: Vec<String> = quoted.cut.iter().map(|(text, kind)| self.token(text, *kind)).collect();
        if parts.is_empty() {
            scan(text, self);
            return;
        }
        for tokens in [parts, joined, cut] {
            push(&mut self.terms, Term { tokens, prefix: false, in_text: true });
        }
    }

    fn token(&mut self, text: &str, kind: Kind) -> String {
        if kind == Kind::Word { self.stem(text) } else { text.to_owned() }
    }

    /// Lets the last word be the beginning of one. The index holds stems, so the word as typed is
    /// looked for as well as its stem, which is among the terms already.
    fn prefix(&mut self) {
        let Some(group) = self.chunk.groups.last() else { return };
        if group.kind == Kind::Sign {
            return;
        }
        let mut tokens = stems_of(group);
        if let (Some(last), Some(part)) = (tokens.last_mut(), group.parts.last()) {
            last.clone_from(&part.0);
        }
        let covering = group.wholes.iter().find(|whole| whole.1 == group.parts.len());
        if let Some((whole, ..)) = covering {
            push_term(&mut self.terms, vec![whole.clone()], true);
        }
        push_term(&mut self.terms, tokens, true);
    }
}

fn stems_of(group: &Group) -> Vec<String> {
    group.parts.iter().take(LONGEST_PHRASE).map(|part| part.1.clone()).collect()
}

fn push_term(terms: &mut Vec<Term>, tokens: Vec<String>, prefix: bool) {
    push(terms, Term { tokens, prefix, in_text: false });
}

fn push(terms: &mut Vec<Term>, term: Term) {
    if terms.len() < MOST_TERMS && !term.tokens.is_empty() && !terms.contains(&term) {
        terms.push(term);
    }
}

/// Cuts the particle from the end of a Korean word; its noun stands with others elsewhere.
fn without_particle(word: &[String]) -> &[String] {
    const ONE: &str = "은는이가을를에의로와과도만";
    const TWO: [&str; 7] = ["에서", "으로", "에게", "까지", "부터", "한테", "처럼"];
    let ends_in = |particle: &str, length: usize| {
        word.len() > length && word[word.len() - length..].concat() == particle
    };
    if TWO.iter().any(|particle| word.len() > 3 && ends_in(particle, 2)) {
        return &word[..word.len() - 2];
    }
    match word.split_last() {
        Some((last, noun)) if ONE.contains(last.as_str()) => noun,
        _ => word,
    }
}

/// The words of a phrase as they stand, joined, and cut: someone may have written any of these.
#[derive(Default)]
struct Quoted {
    parts: Vec<(String, Kind)>,
    joined: Vec<(String, Kind)>,
    cut: Vec<(String, Kind)>,
}

impl Sink for Quoted {
    fn part(&mut self, text: &str, kind: Kind, _glued: bool) {
        for words in [&mut self.parts, &mut self.joined, &mut self.cut] {
            words.push((text.to_owned(), kind));
        }
    }

    fn whole(&mut self, text: &str, parts: usize, marked: bool) {
        if !marked && parts <= self.joined.len() {
            self.joined.truncate(self.joined.len() - parts);
            self.joined.push((text.to_owned(), Kind::Word));
        }
    }

    fn humps(&mut self, words: &str) {
        self.cut.pop();
        self.cut.extend(words.split(' ').map(|word| (word.to_owned(), Kind::Word)));
    }

    fn operator(&mut self, _text: &str) {}

    fn chunk_end(&mut self) -> bool {
        let full = self.parts.len() >= LONGEST_PHRASE;
        for words in [&mut self.parts, &mut self.joined, &mut self.cut] {
            words.truncate(LONGEST_PHRASE);
        }
        !full
    }
}
