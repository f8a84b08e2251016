//! The texts of one event, whatever came before it.
//!
//! What an event yields depends on the event alone, so a text need not be stored beside its row: the
//! number of a piece is enough to find it again.

use std::fmt::Write as _;

use super::Kind;
use super::spelling::Spelt;
use crate::codec::Value;

/// A text longer than this many characters is cut at its blank lines.
const WHOLE_TEXT: usize = 300;
/// The characters of a call that are shown.
const CALL: usize = 1000;
/// The characters of a result that are shown.
const RESULT: usize = 50_000;
/// A result of so few characters, its label counted, says nothing.
const EMPTY_RESULT: usize = 20;
/// The most pieces of one event; the last one takes what is left.
pub(super) const MOST: usize = 1 << 16;
/// The fields that hold text to be found, in the order in which they are read.
const FIELDS: [&str; 7] = ["content", "output", "text", "summary", "task", "error", "name"];

/// A text, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What the piece is, where nothing that came before says otherwise.
    pub kind: Kind,
    /// The text, never blank.
    pub text: String,
}

/// Collects the pieces of one event.
struct Cut {
    pieces: Vec<Piece>,
    /// The fields of the event that are in a piece already.
    used: [bool; FIELDS.len()],
    has_args: bool,
}

/// Returns the pieces of an event.
pub fn pieces(event: &Value) -> Vec<Piece> {
    let mut cut = Cut { pieces: Vec::new(), used: [false; FIELDS.len()], has_args: false };
    match text_of(event, "type") {
        "user_input" | "user_message" | "user_input_injected" => {
            let text = cut.take(event, "content");
            cut.add(Kind::User, text);
        }
        "trigger_fired" => {
            let text = cut.take(event, "content");
            let channel = text_of(event, "channel");
            let label = if channel.is_empty() { text } else { format!("[trigger:{channel}] {text}") };
            cut.add(Kind::Trigger, label);
        }
        "text" | "text_chunk" | "assistant_tool_calls" => {
            let text = cut.take(event, "content");
            cut.add_paragraphs(&text);
        }
        "assistant_message" => {
            let content = event.get("message").and_then(|message| message.get("content"));
            cut.add_paragraphs(&content.map(flat).unwrap_or_default());
        }
        "tool_call" => cut.add_call(event),
        "tool_result" => cut.add_result(event, Kind::Tool, "result"),
        "subagent_result" => cut.add_result(event, Kind::Subagent, "subagent"),
        "compact_complete" => {
            let text = cut.take(event, "summary");
            cut.add(Kind::Summary, text);
        }
        "compact_replace" => {
            cut.add(Kind::Summary, event.get("summary_text").map(flat).unwrap_or_default());
        }
        _ => {}
    }
    cut.add_rest(event);
    cut.pieces
}

/// Returns the piece of a channel's message.
pub(super) fn of_message(channel: &str, message: &Value) -> Option<Piece> {
    let sender = text_of(message, "sender");
    let content = message.get("content").map(flat).unwrap_or_default();
    let mut text = format!("[channel:{channel}] ");
    if !sender.is_empty() {
        text.extend([sender, ": "]);
    }
    text.push_str(&content);
    (!is_blank(&content)).then_some(Piece { kind: Kind::Channel, text })
}

impl Cut {
    fn add(&mut self, kind: Kind, text: String) {
        if is_blank(&text) {
            return;
        }
        if self.pieces.len() < MOST {
            self.pieces.push(Piece { kind, text });
        } else if let Some(last) = self.pieces.last_mut() {
            last.text.push('\n');
            last.text.push_str(&text);
        }
    }

    /// The text of a field, which then counts as used.
    fn take(&mut self, event: &Value, field: &str) -> String {
        if let Some(at) = FIELDS.iter().position(|name| *name == field) {
            self.used[at] = true;
        }
        event.get(field).map(flat).unwrap_or_default()
    }

    fn add_paragraphs(&mut self, text: &str) {
        if text.chars().nth(WHOLE_TEXT).is_none() {
            return self.add(Kind::Text, trimmed(text).to_owned());
        }
        for paragraph in text.split("\n\n") {
            self.add(Kind::Text, trimmed(paragraph).to_owned());
        }
    }

    fn add_call(&mut self, event: &Value) {
        let name = self.take(event, "name");
        let mut text = format!("[tool:{name}] ");
        if let Some(arguments) = event.get("args").and_then(Value::as_map) {
            self.has_args = true;
            let shown = arguments.iter().filter(|(key, _)| *key != "_tool_call_id");
            for (at, (key, value)) in shown.enumerate() {
                let gap = if at == 0 { "" } else { " " };
                // Writing to a string cannot fail.
                if write!(text, "{gap}{}={}", &**key, Spelt(value)).is_err() {
                    break;
                }
            }
        }
        self.add_cut(Kind::Tool, &text, CALL);
    }

    fn add_result(&mut self, event: &Value, kind: Kind, label: &str) {
        let name = self.take(event, "name");
        let error = self.take(event, "error");
        let said = if error.is_empty() { self.take(event, "output") } else { error };
        let text = format!("[{label}:{name}] {said}");
        let is_empty = text.chars().nth(EMPTY_RESULT).is_none();
        self.add_cut(if is_empty { Kind::Other } else { kind }, &text, RESULT);
    }

    /// Adds a text that is shown only to some length; what is beyond it can be found all the same.
    fn add_cut(&mut self, kind: Kind, text: &str, most: usize) {
        let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
        let (shown, rest) = text.split_at(end);
        self.add(kind, shown.to_owned());
        self.add(Kind::Other, rest.to_owned());
    }

    /// Adds what no piece holds yet, as one piece.
    fn add_rest(&mut self, event: &Value) {
        let mut text = String::new();
        for (field, used) in FIELDS.iter().zip(self.used) {
            if !used && let Some(value) = event.get(field) {
                add_found(&mut text, value);
            }
        }
        if !self.has_args
            && let Some(arguments) = event.get("args")
        {
            add_deep(&mut text, arguments);
        }
        self.add(Kind::Other, text);
    }
}

/// A field that is a string.
pub(super) fn text_of<'a>(event: &'a Value, field: &str) -> &'a str {
    event.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A content as one text: the texts of its parts, with a word in place of what has none.
pub(super) fn flat(content: &Value) -> String {
    match content {
        Value::Nil => String::new(),
        Value::Str(text) => text.clone(),
        Value::Map(_) => part_text(content).to_owned(),
        Value::List(parts) => {
            let texts: Vec<&str> = parts.iter().map(part_text).filter(|text| !text.is_empty()).collect();
            texts.join(" ")
        }
        other => Spelt(other).to_string(),
    }
}

fn part_text(part: &Value) -> &str {
    let text =
        part.as_str().or_else(|| ["text", "content"].iter().find_map(|field| part.get(field)?.as_str()));
    text.unwrap_or_else(|| match text_of(part, "type") {
        "image_url" | "image" => "[image]",
        "file" => "[file]",
        _ => "",
    })
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// A string, or the texts of a list of parts.
fn add_found(text: &mut String, value: &Value) {
    match value {
        Value::Str(line) => add_line(text, line),
        Value::List(parts) => {
            for part in parts {
                if let Some(line) = part.as_str().or_else(|| part.get("text").and_then(Value::as_str)) {
                    add_line(text, line);
                }
            }
        }
        _ => {}
    }
}

/// Every string inside a value; the codec bounds how deep that is.
fn add_deep(text: &mut String, value: &Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Str(line) => add_line(text, line),
            Value::List(items) => left.extend(items.iter().rev()),
            Value::Map(entries) => left.extend(entries.iter().rev().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// What Python's `str.strip` removes.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1C}'..='\u{1F}')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(is_space)
}

fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}
