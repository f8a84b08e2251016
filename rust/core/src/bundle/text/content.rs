//! What of a row is text that can be searched.

use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::Table;

/// The peer indexes texts longer than this many characters.
const PEER_LEAST: usize = 10;
/// A row as a search sees it.
pub struct Content {
    value: Value,
}

impl Content {
    /// Reads a stored row; a row that cannot be read has no text, and is reported where it is read as a value.
    pub fn of(table: Table, key: &[u8], stored: &[u8]) -> Option<Self> {
        Self::open(table.name(), key, stored)
    }

    /// The same for a table of any name.
    pub fn open(table: &str, key: &[u8], stored: &[u8]) -> Option<Self> {
        match codec::open(table, key, stored) {
            Ok(Stored::Object(body)) => msgpack::decode(&body)
                .ok()
                .filter(|value| value.as_map().is_some())
                .map(|value| Self { value }),
            _ => None,
        }
    }

    /// The row as a value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The same, to keep.
    pub fn into_value(self) -> Value {
        self.value
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
