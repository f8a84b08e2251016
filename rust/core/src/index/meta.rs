//! What a session says about itself, in the table of that name.

use std::path::Path;

use super::rows::{Rows, Trouble};
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::{FORMAT_VERSION, Table};
use crate::error::Error;

/// What a session says about itself.
pub(super) struct Meta(Vec<(&'static str, Value)>);

impl Meta {
    /// The fields that a listing or a search shows; others may be long, and are not decoded.
    const WANTED: [&str; 22] = [
        "session_id",
        "format_version",
        "config_type",
        "config_path",
        "pwd",
        "created_at",
        "last_active",
        "status",
        "conversation_open",
        "conversation_id",
        "agents",
        "terrarium_name",
        "name",
        "summary",
        "viewer_default_agent",
        "lifecycle",
        "lineage",
        "forked_children",
        "on_node",
        "source",
        "automated",
        "metadata",
    ];

    /// Reads the fields that are wanted.
    pub(super) fn read(file: &Path, rows: &dyn Rows) -> Result<Self, Trouble> {
        let mut fields = Vec::with_capacity(Self::WANTED.len());
        let mut fault = None;
        rows.each_meta(&mut |key, stored| {
            let Some(key) = key else {
                fault = Some(Error::damaged(file, "meta", "a key that is not made of bytes"));
                return;
            };
            let Some(name) = Self::WANTED.into_iter().find(|name| name.as_bytes() == key) else { return };
            match decoded(Table::Meta.name(), key, stored) {
                Ok(value) => fields.push((name, value)),
                Err(what) => fault = Some(Error::damaged(file, format!("meta[{name}]"), what)),
            }
        })?;
        if let Some(error) = fault {
            return Err(error.into());
        }
        let meta = Self(fields);
        match meta.number("format_version") {
            Some(found) if found > FORMAT_VERSION => {
                Err(Error::Version { path: file.to_owned(), found, supported: FORMAT_VERSION }.into())
            }
            _ => Ok(meta),
        }
    }

    /// A field, where there is one; of two equal keys, which only a damaged table has, the last counts.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// A field as text; empty where there is none.
    pub(super) fn text(&self, key: &str) -> String {
        self.get(key).map(text_of).unwrap_or_default()
    }

    /// The id of the session that this one was forked from.
    pub(super) fn parent(&self) -> Option<String> {
        let fork = self.get("lineage")?.get("fork")?;
        fork.get("parent_session_id").and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_i64)
    }
}

/// What a value says where a text is expected; nothing where it says nothing.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Int(number) if *number != 0 => number.to_string(),
        Value::Float(number) if *number != 0.0 => number.to_string(),
        _ => String::new(),
    }
}

/// The value of a stored row, or why it is none.
pub(super) fn decoded(table: &str, key: &[u8], stored: &[u8]) -> Result<Value, String> {
    match codec::open(table, key, stored) {
        Ok(Stored::Object(body)) => msgpack::decode(&body).map_err(|fault| fault.to_string()),
        Ok(Stored::Bytes(bytes)) => Ok(Value::Str(String::from_utf8_lossy(bytes).into_owned())),
        Err(fault) => Err(fault.to_string()),
    }
}
