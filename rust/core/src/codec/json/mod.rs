//! JSON documents as Python writes and reads them: `NaN` and `Infinity` are numbers, integers have
//! any length, of equal keys the last counts, and no number changes its spelling.

mod read;
mod write;

pub use read::{Fault, parse, parse_parts};

/// Deeper documents are refused, for reading and dropping them recurse as deep.
pub const MAX_DEPTH: usize = 400;

/// A JSON value whose object keys keep their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is spelled, `NaN` and the infinities included.
    Number(Box<str>),
    /// A text.
    Text(Box<str>),
    /// A text that is no Unicode, for it has a lone surrogate: its spelling with quotes.
    Odd(Box<str>),
    /// An array.
    List(Vec<Json>),
    /// An object; no key occurs twice.
    Map(Vec<(Box<str>, Json)>),
}

impl Json {
    /// Returns an integer.
    pub fn int(value: usize) -> Self {
        Self::Number(value.to_string().into())
    }

    /// Returns a text.
    pub fn text(value: &str) -> Self {
        Self::Text(value.into())
    }

    /// Returns an object without keys.
    pub fn empty() -> Self {
        Self::Map(Vec::new())
    }

    /// The value of a key, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(name, _)| **name == *key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Sets a key of an object, which it becomes where it is something else.
    pub fn set(&mut self, key: &str, value: Self) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::empty();
        }
        let Self::Map(pairs) = self else { return };
        match pairs.iter_mut().find(|(name, _)| **name == *key) {
            Some((_, old)) => *old = value,
            None => pairs.push((key.into(), value)),
        }
    }

    /// Removes a key of an object and returns what it had.
    pub fn remove(&mut self, key: &str) -> Option<Self> {
        let Self::Map(pairs) = self else { return None };
        let at = pairs.iter().position(|(name, _)| **name == *key)?;
        Some(pairs.remove(at).1)
    }

    /// The text that this is.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer that this is, where it fits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Number(spelling) => spelling.parse().ok(),
            _ => None,
        }
    }

    /// The number that this is.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Number(spelling) => spelling.parse().ok(),
            _ => None,
        }
    }

    /// Whether Python would take this for true.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(truth) => *truth,
            Self::Number(_) => self.as_float() != Some(0.0),
            Self::Text(text) => !text.is_empty(),
            Self::Odd(_) => true,
            Self::List(items) => !items.is_empty(),
            Self::Map(pairs) => !pairs.is_empty(),
        }
    }

    /// Appends the compact form.
    pub fn write(&self, out: &mut Vec<u8>) {
        write::compact(self, out);
    }

    /// Appends the form with two spaces a level, as it stands `level` levels deep in a document.
    pub fn write_indented(&self, level: usize, out: &mut Vec<u8>) {
        write::indented(self, level, out);
    }

    /// Returns the compact form.
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// Appends a text with its quotes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    write::text(text, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        parse(text.as_bytes()).unwrap().to_text()
    }

    #[test]
    fn numbers_keep_their_spelling_and_pythons_three_names() {
        let text = "[-0, 1.50, 1E5, 123456789012345678901234567890, NaN, Infinity, -Infinity]";

        assert_eq!(again(text), text);
    }

    #[test]
    fn of_equal_keys_the_last_counts_in_the_place_of_the_first() {
        assert_eq!(again(r#"{"a": 1, "b": 2, "a": 3}"#), r#"{"a": 3, "b": 2}"#);
    }

    #[test]
    fn parts_of_an_object_are_what_the_whole_has() {
        let text = br#"{"a": [{"b": 1}], "\u0062": "x\n", "a": {"c": null}, "d": "\ud83d", "": 0}"#;

        let parts = parse_parts(text, ["a", "b", "c", "d", ""]).unwrap();

        let whole = parse(text).unwrap();
        assert_eq!(parts, ["a", "b", "c", "d", ""].map(|key| whole.get(key).cloned()));
        assert_eq!(parts[1], Some(Json::text("x\n")));
        assert_eq!(parts[2], None);
        let not_an_object = parse_parts(b"[1]", ["a"]);
        assert_eq!(not_an_object, Err(Fault { offset: 0, what: "no object begins here" }));
    }

    #[test]
    fn a_control_character_within_a_text_is_a_fault_where_it_stands() {
        let fault = parse(b"[\"plain and long enough to be read at once\x01\"]").unwrap_err();

        assert_eq!(fault, Fault { offset: 42, what: "a control character within a text" });
    }

    #[test]
    fn a_lone_surrogate_stays_as_it_is_spelled_and_a_pair_becomes_its_letter() {
        assert_eq!(again(r#"["a\ud83d", "\ud83d\ude00"]"#), "[\"a\\ud83d\", \"😀\"]");
    }

    #[test]
    fn control_characters_are_escaped_as_python_escapes_them() {
        assert_eq!(
            again(r#""\u0000\u001b\n\t\b\f\r\u007f\/\"\\""#),
            "\"\\u0000\\u001b\\n\\t\\b\\f\\r\u{7f}/\\\"\\\\\""
        );
    }

    #[test]
    fn the_indented_form_is_that_of_python() {
        let value = parse(br#"{"a": [], "b": {}, "c": [1, {"d": null}]}"#).unwrap();

        let mut out = Vec::new();
        value.write_indented(0, &mut out);

        let expected =
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": null\n    }\n  ]\n}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_is_no_document_is_refused_with_its_offset() {
        let offset = |text: &[u8]| parse(text).unwrap_err().offset;

        assert_eq!(offset(b""), 0);
        assert_eq!(offset(b"{} x"), 3);
        assert_eq!(offset(b"[1,]"), 3);
        assert_eq!(offset(b"[01]"), 2);
        assert_eq!(offset(b"\"a\xff\""), 2);
        assert_eq!(offset(b"\"a\nb\""), 2);
        assert_eq!(offset(b"{\"a\" 1}"), 5);
        assert_eq!(offset(b"tru"), 0);
        assert_eq!(offset(b"\"\\u12g4\""), 1);
        assert_eq!(offset(b"\xef\xbb\xbf{}"), 0);
        assert_eq!(offset(b"{\"\\ud83d\": 1}"), 9);
    }

    #[test]
    fn deep_documents_are_refused_without_a_crash() {
        let deep = "[".repeat(100_000);

        assert!(parse(deep.as_bytes()).unwrap_err().what.contains("deep"));
    }
}
