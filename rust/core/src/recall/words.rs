//! Documents as plain tokens, which the stock full-text tokenizer keeps token for token.
//!
//! The rows of an index made of these are two columns of an FTS5 table with the default tokenizer:
//!
//! ```sql
//! CREATE VIRTUAL TABLE t USING fts5(body, whole, content='', contentless_delete=1)
//! ```
//!
//! `body` holds the words in their order, so that phrases can be found: stems without case and
//! diacritics, the parts of identifiers one after the other, single characters of scripts without
//! spaces, emoji by their code points. `whole` holds what may be looked for in another way and must
//! not come between the words of `body`: identifiers written in one (`genitgc` for `gen-itgc`), the
//! words inside camel-case names (`get user name`), names with signs spoken (`csharp`), operators.

use super::scan::{Kind, Sink, scan};
use super::stem::Stems;

/// The column that holds the words in order.
pub const BODY: &str = "body";

/// The column that holds joined and spoken forms.
pub const WHOLE: &str = "whole";

/// Ends the words of a camel-case name, so that they make no phrase with what comes next. Text cannot
/// bring this token: private-use characters of its own cut words, and ours begin higher.
const END: &str = "\u{E000}";

/// The tokens of a text for the two columns, separated by single spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The words in their order.
    pub body: String,
    /// Joined and spoken forms of some of them.
    pub whole: String,
}

impl Words {
    /// Empties both columns and keeps their memory, for the next text.
    pub fn clear(&mut self) {
        self.body.clear();
        self.whole.clear();
    }

    /// Tells whether the text held nothing that can be found.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty() && self.whole.is_empty()
    }
}

/// Appends the tokens of a text to both columns. Takes any text, in linear time.
pub fn analyse(text: &str, out: &mut Words) {
    Stems::with(|stems| scan(text, &mut Writer { stems, out }));
}

struct Writer<'a> {
    stems: &'a mut Stems,
    out: &'a mut Words,
}

fn separate(column: &mut String) {
    if !column.is_empty() {
        column.push(' ');
    }
}

impl Sink for Writer<'_> {
    fn part(&mut self, text: &str, kind: Kind, _glued: bool) {
        separate(&mut self.out.body);
        match kind {
            Kind::Word => self.stems.push(text, &mut self.out.body),
            Kind::Cut | Kind::Sign => self.out.body.push_str(text),
        }
    }

    fn whole(&mut self, text: &str, _parts: usize, _marked: bool) {
        separate(&mut self.out.whole);
        self.stems.push(text, &mut self.out.whole);
    }

    fn humps(&mut self, words: &str) {
        for word in words.split(' ') {
            separate(&mut self.out.whole);
            self.stems.push(word, &mut self.out.whole);
        }
        self.out.whole.extend([" ", END]);
    }

    fn operator(&mut self, text: &str) {
        separate(&mut self.out.whole);
        self.out.whole.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> (String, String) {
        let mut words = Words::default();
        analyse(text, &mut words);
        (words.body, words.whole)
    }

    fn assert_columns(text: &str, body: &str, whole: &str) {
        let (found_body, found_whole) = columns(text);
        let found = (found_body.as_str(), &*found_whole.replace(END, "|"));
        assert_eq!(found, (body, whole), "of {text:?}");
    }

    #[test]
    fn prose_becomes_stems_in_order() {
        assert_columns("The cats were running, (quickly) home.", "the cat were run quick home", "");
        assert_columns("naïve CAFÉ Straße", "naiv cafe strass", "");
        assert_columns("abc\0hidden\u{1b}tail", "abc hidden tail", "");
        assert_columns(" \t\n", "", "");
    }

    #[test]
    fn identifiers_are_cut_and_joined() {
        assert_columns("getUserName", "getusernam", "get user name |");
        assert_columns("snake_case", "snake case", "snakecas");
        assert_columns("HTTPServer2Go", "httpserver2go", "http server2 go |");
        assert_columns("userIDs", "userid", "user id |");
        assert_columns("v1.20", "v 1 20", "v1");
        assert_columns("getUser_name", "getus name", "get user | getusernam");
        assert_columns("foo::bar", "foo bar", "u3axu3ax");
        assert_columns("path/to/file.py", "path to file py", "filepi");
        assert_columns("don't U.S.A.", "don t u s a", "dont usa");
        assert_columns("3.14", "3 14", "");
    }

    #[test]
    fn signs_are_spoken_or_spelt() {
        assert_columns("C++, (C#) .NET", "c c net", "cplusplus csharp dotnet");
        assert_columns("a -> b", "a b", "u2dxu3ex");
        assert_columns("go 🚀🚀", "go u1f680x", "");
        assert_columns("👍🏽 👩‍💻 🇩🇪", "u1f44dx u1f469x u1f4bbx u1f1e9xu1f1eax", "");
    }

    #[test]
    fn scripts_without_spaces_become_characters() {
        assert_columns("重跑gen-itgc后清零", "重 跑 gen itgc 后 清 零", "genitgc");
        assert_columns("회의를", "회 의 를", "");
        assert_columns("ガガ", "ガ ガ", "");
    }

    #[test]
    fn a_long_blob_is_one_short_token() {
        let blob = "aGVsbG8gd29ybGQ/aGVsbG8+d29ybGQx".repeat(4000);

        let (body, whole) = columns(&format!("data:image/png;base64,{blob}=="));

        assert!(body.len() < 100, "{body}");
        assert_eq!(whole, "");
        assert!(body.ends_with(&columns(&blob).0));
        assert_ne!(columns(&blob).0, columns(&format!("{blob}a")).0);
    }

    #[test]
    fn a_chunk_without_end_takes_linear_time() {
        for piece in ["a-", "a.", "Ab", "a/b", "+", "字", "🚀👍", "e\u{301}", "\u{93f}", "C++", ".a"] {
            let mut words = Words::default();
            analyse(&piece.repeat(100_000), &mut words);
            assert!(words.body.len() < 2_500_000, "{piece}");
        }
    }
}
