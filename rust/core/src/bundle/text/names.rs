//! Names that come again and again, kept as numbers.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

/// The numbers of the names that were asked for.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<String, i64>,
}

impl Names {
    /// The number of a name, which is given one where it has none.
    pub(super) fn number(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(number) = self.known.get(name) {
            return Ok(*number);
        }
        let number = if let Some(number) = find(connection, name)? {
            number
        } else {
            connection.prepare_cached("INSERT INTO amber_name (name) VALUES (?1)")?.execute([name])?;
            connection.last_insert_rowid()
        };
        self.known.insert(name.to_owned(), number);
        Ok(number)
    }

    /// The number of a name that may be empty, which then has none.
    pub(super) fn some(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
        if name.is_empty() { Ok(None) } else { self.number(connection, name).map(Some) }
    }
}

/// The number of a name that has one.
pub(super) fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM amber_name WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// The name of a number; empty for none.
pub(super) fn spelt(connection: &Connection, number: Option<i64>) -> rusqlite::Result<String> {
    let Some(number) = number else { return Ok(String::new()) };
    let found: Option<String> = connection
        .prepare_cached("SELECT name FROM amber_name WHERE id = ?1")?
        .query_row([number], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or_default())
}
