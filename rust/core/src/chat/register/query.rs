//! Statements of others on the index: what code written for the peer asks through its connection.

use std::sync::Arc;

use rusqlite::params_from_iter;
use rusqlite::types::{Value, ValueRef};

use super::Register;
use crate::codec::json::Json;
use crate::db::fault::translate;
use crate::error::Result;

impl Register {
    /// Runs one statement and returns its rows. What it changes in the peer's tables changes no
    /// answer: those come from ours.
    pub fn query(self: &Arc<Self>, statement: &str, values: &[Json]) -> Result<Json> {
        let disk = &self.own().disk;
        disk.write(|connection| {
            let run = || -> rusqlite::Result<Vec<Json>> {
                let mut prepared = connection.prepare(statement)?;
                let width = prepared.column_count();
                let mut rows = prepared.query(params_from_iter(values.iter().map(bound)))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let cells = (0..width).map(|at| row.get_ref(at).map(cell));
                    found.push(Json::List(cells.collect::<rusqlite::Result<_>>()?));
                }
                Ok(found)
            };
            run().map(Json::List).map_err(|source| translate(disk.path(), "ask", &source))
        })
    }
}

fn bound(value: &Json) -> Value {
    match (value.as_int(), value.as_float(), value) {
        (_, _, Json::Null) => Value::Null,
        (_, _, Json::Text(text)) => Value::Text(text.to_string()),
        (_, _, Json::Bool(truth)) => Value::Integer(i64::from(*truth)),
        (Some(number), _, _) => Value::Integer(number),
        (None, Some(number), _) => Value::Real(number),
        (None, None, other) => Value::Text(other.to_text()),
    }
}

fn cell(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => Json::Number(number.to_string().into()),
        ValueRef::Real(number) => Json::Number(format!("{number:?}").into()),
        ValueRef::Text(text) | ValueRef::Blob(text) => Json::text(&String::from_utf8_lossy(text)),
    }
}
