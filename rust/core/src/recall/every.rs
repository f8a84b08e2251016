//! Queries that narrow a list: what is found holds every word, in any order.

use super::query::{MOST_TERMS, Options, Piece, Pieces, parse_with};

/// Returns the FTS5 expression for texts that hold all words and phrases of a query, or nothing where
/// the query holds nothing to search for: then there are no hits. Never fails, whatever the text.
///
/// Words are what stands between spaces; each is found in any of the forms that
/// [`super::query::parse`] looks for, so `gen-itgc` and `itgc` both find `重跑gen-itgc后清零`.
pub fn every_word(query: &str, options: Options) -> Option<String> {
    let mut chunks = Vec::new();
    let mut pieces = Pieces::of(query);
    while let Some(piece) = pieces.next_piece() {
        match piece {
            Piece::Phrase(text) => chunks.push((format!("\"{text}\""), false)),
            Piece::Text(text) => {
                chunks.extend(text.split_whitespace().map(|word| (word.to_owned(), true)));
            }
        }
        if chunks.len() >= MOST_TERMS {
            chunks.truncate(MOST_TERMS);
            break;
        }
    }
    let last = chunks.len().saturating_sub(1);
    let may_grow = options.prefix_last && !query.ends_with(char::is_whitespace);
    let mut out = String::new();
    for (at, (text, is_word)) in chunks.iter().enumerate() {
        // A sign ends a word: `C++` is not the beginning of anything.
        let is_open = *is_word && at == last && text.ends_with(char::is_alphanumeric);
        let options = Options { prefix_last: may_grow && is_open };
        let Some(any) = parse_with(text, options).match_expression() else { continue };
        if !out.is_empty() {
            out.push_str(" AND ");
        }
        out.extend(["(", &any, ")"]);
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(query: &str) -> String {
        every_word(query, Options::default()).unwrap_or_default()
    }

    #[test]
    fn all_words_are_asked_for() {
        assert_eq!(expression("token login"), "(\"token\") AND (\"login\")");
        assert_eq!(expression("\"login page\" css"), "(body : \"login page\") AND (\"css\")");
    }

    #[test]
    fn the_last_word_may_grow_while_it_is_typed() {
        let typing = Options { prefix_last: true };

        let found = every_word("login tok", typing).unwrap();
        let ended = every_word("login tok ", typing).unwrap();

        assert_eq!(found, "(\"login\") AND (\"tok\" OR \"tok\" *)");
        assert_eq!(ended, "(\"login\") AND (\"tok\")");
    }

    #[test]
    fn what_holds_no_word_asks_for_nothing() {
        for query in ["", " \t", "\"", "\"\""] {
            assert_eq!(every_word(query, Options::default()), None, "{query:?}");
        }
    }
}
