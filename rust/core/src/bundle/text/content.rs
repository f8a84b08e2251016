//! What of a row is text that can be searched.

use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::Table;

/// The peer indexes texts longer than this many characters.
const PEER_LEAST: usize = 10;
/// The fields whose texts are found, beside the arguments of a call.
const FIELDS: [&str; 7] = ["content", "output", "text", "summary", "task", "error", "name"];

/// A row as a search sees it.
pub struct Content {
    value: Value,
}

impl Content {
    /// Reads a stored row; a row that cannot be read has no text, and is reported where it is read as a value.
    pub fn of(table: Table, key: &[u8], stored: &[u8]) -> Option<Self> {
        match codec::open(table.name(), key, stored) {
            Ok(Stored::Object(body)) => msgpack::decode(&body)
                .ok()
                .filter(|value| value.as_map().is_some())
                .map(|value| Self { value }),
            _ => None,
        }
    }

    /// All that can be found, fields one a line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for field in FIELDS {
            if let Some(value) = self.value.get(field) {
                add(&mut text, value);
            }
        }
        if let Some(arguments) = self.value.get("args") {
            add_deep(&mut text, arguments);
        }
        text
    }

    /// The text that the peer would index: the first field that says anything, if it is a longer string.
    pub fn peer_text(&self) -> Option<&str> {
        let first = ["content", "output", "text"]
            .into_iter()
            .filter_map(|field| self.value.get(field))
            .find(|value| value.truthy())?;
        first.as_str().filter(|text| text.chars().nth(PEER_LEAST).is_some())
    }

    /// A field that is a string.
    pub fn string(&self, field: &str) -> &str {
        self.value.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// The event's id.
    pub fn event_id(&self) -> i64 {
        self.value.get("event_id").and_then(Value::as_i64).unwrap_or(0)
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// A string, or the texts of a list of parts.
fn add(text: &mut String, value: &Value) {
    match value {
        Value::Str(line) => add_line(text, line),
        Value::List(parts) => {
            for part in parts {
                match part {
                    Value::Str(line) => add_line(text, line),
                    part => {
                        if let Some(line) = part.get("text").and_then(Value::as_str) {
                            add_line(text, line);
                        }
                    }
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
