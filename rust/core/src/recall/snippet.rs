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
    let wanted: Vec<(&str, bool)> = query.tokens().collect();
    let mut words = Words::default();
    let mut first = None;
    for (at, piece) in pieces(text) {
        if at > SEARCHED {
            break;
        }
        if is_wanted(piece, &wanted, &mut words) {
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
        if is_wanted(piece, &wanted, &mut words) {
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

/// Falls a text into words, gaps, and single characters of scripts without spaces.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    #[derive(PartialEq)]
    enum Sort {
        Gap,
        Alone,
        Word,
    }
    let sort = |c: char| {
        if is_gap(c) {
            Sort::Gap
        } else if !c.is_ascii() && matches!(class_of(c), Class::Cut | Class::Sign) {
            Sort::Alone
        } else {
            Sort::Word
        }
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let mut chars = rest.char_indices();
        let (_, head) = chars.next()?;
        let first = sort(head);
        let end = if first == Sort::Alone {
            chars.next().map(|(end, _)| end)
        } else {
            chars.find(|(_, c)| sort(*c) != first).map(|(end, _)| end)
        };
        let piece = &rest[..end.unwrap_or(rest.len())];
        let start = at;
        at += piece.len();
        Some((start, piece))
    })
}

fn is_wanted(piece: &str, wanted: &[(&str, bool)], words: &mut Words) -> bool {
    words.clear();
    analyse(piece, words);
    let mut tokens = words.body.split(' ').chain(words.whole.split(' ')).filter(|token| !token.is_empty());
    tokens.any(|token| {
        wanted.iter().any(|(sought, prefix)| token == *sought || (*prefix && token.starts_with(sought)))
    })
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
