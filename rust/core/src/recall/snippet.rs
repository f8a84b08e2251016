//! The part of a text that a query found, with its words marked.

use super::chars::{Class, class_of};
use super::query::Query;
use super::words::{Words, analyse};

/// Around what was found, and in all, characters.
const BEFORE: usize = 80;
const LENGTH: usize = 240;
/// How much of a text is looked through.
const SEARCHED: usize = 64 << 10;
/// What stands before and after a word that was found: plain text, that no terminal or page takes for more.
const MARKS: (char, char) = ('«', '»');

/// Returns the part of a text around the first words of a query, these between `«` and `»`, on one line.
/// A text in which none of them is found again is given from its beginning.
pub fn snippet(text: &str, query: &Query) -> String {
    let wanted = Wanted::of(query);
    let mut words = Words::default();
    let mut first = None;
    for (at, piece) in pieces(text) {
        if at > SEARCHED {
            break;
        }
        if wanted.has(piece, &mut words) {
            first = Some(at);
            break;
        }
    }
    let start = begin_before(text, first.unwrap_or(0));
    let mut out = String::new();
    if start > 0 {
        out.push('…');
    }
    let mut shown = 0;
    let mut space = false;
    for (_, piece) in pieces(&text[start..]) {
        if shown > LENGTH {
            out.push('…');
            break;
        }
        if piece.chars().all(is_gap) {
            space = shown > 0;
            continue;
        }
        if std::mem::take(&mut space) {
            out.push(' ');
            shown += 1;
        }
        shown += piece.chars().count();
        if wanted.has(piece, &mut words) {
            let inner = piece.trim_matches(|c: char| c.is_ascii_punctuation());
            let inner = if inner.is_empty() { piece } else { inner };
            let from = inner.as_ptr().addr() - piece.as_ptr().addr();
            out.push_str(&piece[..from]);
            out.push(MARKS.0);
            out.push_str(inner);
            out.push(MARKS.1);
            out.push_str(&piece[from + inner.len()..]);
        } else {
            out.push_str(piece);
        }
    }
    out
}

fn is_gap(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// A run of so many bytes without a gap is fallen apart: it is no word that anybody reads.
const LONGEST_WORD: usize = 128;

#[derive(PartialEq)]
enum Sort {
    Gap,
    /// Signs that stand between words.
    Between,
    /// A character of a script without spaces.
    Alone,
    Word,
}

fn sort_of(c: char) -> Sort {
    if is_gap(c) {
        Sort::Gap
    } else if c.is_ascii() {
        let joins = matches!(c, '_' | '-' | '.' | '/' | '\\' | '\'' | '@' | ':' | '+' | '#');
        if joins || c.is_ascii_alphanumeric() { Sort::Word } else { Sort::Between }
    } else if matches!(class_of(c), Class::Cut | Class::Sign) {
        Sort::Alone
    } else {
        Sort::Word
    }
}

/// Falls a text into words, gaps, and single characters of scripts without spaces.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let mut chars = rest.char_indices();
        let (_, head) = chars.next()?;
        let first = sort_of(head);
        let end = if first == Sort::Alone {
            chars.next().map(|(end, _)| end)
        } else {
            chars.find(|(end, c)| *end > LONGEST_WORD || sort_of(*c) != first).map(|(end, _)| end)
        };
        let piece = &rest[..end.unwrap_or(rest.len())];
        let start = at;
        at += piece.len();
        Some((start, piece))
    })
}

/// The tokens that a query looks for.
struct Wanted<'q> {
    tokens: Vec<(&'q str, bool)>,
    /// Which ASCII letters and digits tokens begin with.
    heads: u128,
}

impl<'q> Wanted<'q> {
    fn of(query: &'q Query) -> Self {
        let tokens: Vec<(&str, bool)> = query.tokens().collect();
        let heads = tokens.iter().filter_map(|(token, _)| token.bytes().next()).filter(u8::is_ascii);
        let heads = heads.fold(0, |mask, byte| mask | 1 << byte);
        Self { tokens, heads }
    }

    fn has(&self, piece: &str, words: &mut Words) -> bool {
        if !self.may_have(piece) {
            return false;
        }
        words.clear();
        analyse(piece, words);
        let mut found = words.body.split(' ').chain(words.whole.split(' ')).filter(|token| !token.is_empty());
        found.any(|token| {
            self.tokens
                .iter()
                .any(|(sought, prefix)| token == *sought || (*prefix && token.starts_with(sought)))
        })
    }

    /// Whether any part of a piece begins like a token; the analysis is asked only then.
    fn may_have(&self, piece: &str) -> bool {
        let mut is_inside = false;
        piece.bytes().any(|byte| {
            let begins = !byte.is_ascii()
                || (byte.is_ascii_alphanumeric()
                    && (!is_inside || byte.is_ascii_uppercase())
                    && self.heads >> byte.to_ascii_lowercase() & 1 == 1);
            is_inside = byte.is_ascii_alphanumeric();
            begins
        })
    }
}

/// Returns where a snippet begins: some characters before what was found, at the beginning of a word.
fn begin_before(text: &str, found: usize) -> usize {
    let head = &text[..found];
    let Some((at, _)) = head.char_indices().rev().nth(BEFORE) else { return 0 };
    let from = &head[at..];
    from.find(is_gap).map_or(at, |gap| at + gap)
}

#[cfg(test)]
mod tests {
    use super::super::query::parse;
    use super::*;

    #[test]
    fn words_that_were_found_are_marked_in_any_form() {
        let found =
            snippet("We ran all\nmigrations (twice), then `user_name` broke.", &parse("migrate username"));

        assert_eq!(found, "We ran all «migrations» (twice), then `«user_name»` broke.");
    }

    #[test]
    fn characters_of_scripts_without_spaces_are_marked_alone() {
        assert_eq!(snippet("重跑后清零", &parse("清零")), "重跑后«清»«零»");
    }

    #[test]
    fn a_long_text_is_cut_around_what_was_found() {
        let text = format!("{}needle{}", "hay ".repeat(200), " straw".repeat(200));

        let found = snippet(&text, &parse("needle"));

        assert!(
            found.starts_with('…') && found.ends_with('…') && found.contains("hay «needle» straw"),
            "{found}"
        );
        assert!(found.chars().count() < 300);
    }

    #[test]
    fn controls_do_not_reach_the_reader() {
        let found = snippet("a \u{1b}[31mred\u{7} thing", &parse("red"));

        assert!(!found.contains(['\u{1b}', '\u{7}']), "{found}");
    }
}
