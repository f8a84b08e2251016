//! Text as the words that BERT's uncased models are given: folded, and cut at spaces and punctuation.
//!
//! Every rule here is the reference's, its old tables of Unicode included: the vectors of the pieces
//! were made with them, so a newer table would be a worse one.

use unicode_categories::UnicodeCategories as _;
use unicode_normalization::char::decompose_canonical;

/// Calls `each` with every word of a text, in order. Linear in the text; keeps `word` for its memory.
pub(super) fn each_word(text: &str, word: &mut String, mut each: impl FnMut(&str)) {
    word.clear();
    let mut cutter = Cutter { word, each: &mut each };
    for c in text.chars() {
        if c.is_ascii() {
            cutter.ascii(c);
        } else {
            cutter.beyond_ascii(c);
        }
    }
    cutter.end();
}

struct Cutter<'a, F> {
    word: &'a mut String,
    each: &'a mut F,
}

impl<F: FnMut(&str)> Cutter<'_, F> {
    #[inline]
    fn ascii(&mut self, c: char) {
        match c {
            'a'..='z' | '0'..='9' => self.word.push(c),
            'A'..='Z' => self.word.push(c.to_ascii_lowercase()),
            ' ' | '\t' | '\n' | '\r' => self.end(),
            '!'..='~' => self.alone(c),
            // Control characters are taken out, and join what stands around them.
            _ => {}
        }
    }

    fn beyond_ascii(&mut self, c: char) {
        if c == '\u{FFFD}' || c.is_other() {
            return;
        }
        let is_ideograph = is_ideograph(c);
        if is_ideograph || c.is_whitespace() {
            self.end();
        }
        // Canonical reordering is left out: it concerns marks, and the marks that it would move are
        // dropped here.
        decompose_canonical(c, |part| {
            if !part.is_mark_nonspacing() {
                for lower in part.to_lowercase() {
                    self.folded(lower);
                }
            }
        });
        if is_ideograph {
            self.end();
        }
    }

    fn folded(&mut self, c: char) {
        if c.is_ascii_alphanumeric() {
            self.word.push(c);
        } else if c.is_whitespace() {
            self.end();
        } else if c.is_ascii_punctuation() || c.is_punctuation() {
            self.alone(c);
        } else {
            self.word.push(c);
        }
    }

    /// A character that is a word by itself.
    fn alone(&mut self, c: char) {
        self.end();
        (self.each)(c.encode_utf8(&mut [0; 4]));
    }

    fn end(&mut self) {
        if !self.word.is_empty() {
            (self.each)(self.word);
            self.word.clear();
        }
    }
}

/// The blocks that the reference takes for Chinese.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}' | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        each_word(text, &mut String::new(), |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn case_and_accents_are_folded() {
        assert_eq!(words("Naïve CAFÉ Ångström İstanbul"), ["naive", "cafe", "angstrom", "istanbul"]);
    }

    #[test]
    fn punctuation_and_ideographs_are_words() {
        assert_eq!(words("don't, 明天ok…"), ["don", "'", "t", ",", "明", "天", "ok", "…"]);
    }

    #[test]
    fn control_characters_are_not_there() {
        assert_eq!(words("a\0b\u{200B}c\u{FFFD}d\te"), ["abcd", "e"]);
    }
}
