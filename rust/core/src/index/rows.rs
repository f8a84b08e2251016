//! The rows of one bundle, from its pages or through SQLite: the same few questions to either.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, types::ValueRef};

use crate::Error;
use crate::db::fault::translate;
use crate::db::pages::{Column, PageFault, Pages};
use crate::db::schema::{self, Table};

/// Why a bundle could not be read in one of the two ways.
#[derive(Debug)]
pub enum Trouble {
    /// The page reader gave up: SQLite may do better.
    Pages(PageFault),
    /// The bundle itself is at fault.
    Bundle(Error),
}

impl From<PageFault> for Trouble {
    fn from(fault: PageFault) -> Self {
        Self::Pages(fault)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Bundle(error)
    }
}

/// What is shown a row of `meta`: its key, where that is made of bytes, and its value.
pub type MetaVisit<'v> = dyn FnMut(Option<&[u8]>, &[u8]) + 'v;
/// What is shown a row of the log: its number, key and value.
pub type EventVisit<'v> = dyn FnMut(i64, &[u8], &[u8]) -> ControlFlow<()> + 'v;

/// What a listing asks of a bundle.
pub trait Rows {
    /// Whether the bundle has a table.
    fn has(&self, table: &str) -> Result<bool, Trouble>;
    /// How many tables there are.
    fn table_count(&self) -> Result<usize, Trouble>;
    /// Shows every row of `meta`; the key is `None` where it is not made of bytes.
    fn each_meta(&self, visit: &mut MetaVisit<'_>) -> Result<(), Trouble>;
    /// The value of a key.
    fn value(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble>;
    /// The first key of the log that is not less than `key`.
    fn event_key_from(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble>;
    /// Shows rows of the log from the newest on, with their number, until `visit` breaks.
    fn newest_events(&self, visit: &mut EventVisit<'_>) -> Result<(), Trouble>;
    /// Shows rows of the log or of the channels from the oldest on, with their number.
    fn each_row(&self, table: &str, visit: &mut EventVisit<'_>) -> Result<(), Trouble>;
    /// Shows the row of that number of the log or of the channels, where there is one.
    fn row_at(&self, table: &str, rowid: i64, visit: &mut EventVisit<'_>) -> Result<(), Trouble>;
}

impl Rows for Pages {
    fn has(&self, table: &str) -> Result<bool, Trouble> {
        Ok(self.has_table(table))
    }

    fn table_count(&self) -> Result<usize, Trouble> {
        Ok(self.tables().count())
    }

    fn each_meta(&self, visit: &mut MetaVisit<'_>) -> Result<(), Trouble> {
        self.scan(Table::Meta.name(), |_, columns| {
            match columns {
                [Column::Blob(key), Column::Blob(value), ..] => visit(Some(key), value),
                _ => visit(None, b""),
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    fn value(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(self.get_kv(table, key)?)
    }

    fn event_key_from(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(self.key_from(Table::Events.name(), key)?)
    }

    fn newest_events(&self, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        self.scan_back(Table::Events.name(), |rowid, columns| match columns {
            [Column::Blob(key), Column::Blob(value), ..] => visit(rowid, key, value),
            _ => ControlFlow::Continue(()),
        })?;
        Ok(())
    }

    fn each_row(&self, table: &str, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        self.scan(table, |rowid, columns| match columns {
            [Column::Blob(key), Column::Blob(value), ..] => visit(rowid, key, value),
            _ => ControlFlow::Continue(()),
        })?;
        Ok(())
    }

    fn row_at(&self, table: &str, rowid: i64, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        self.scan_after(table, rowid.saturating_sub(1), |found, columns| match columns {
            [Column::Blob(key), Column::Blob(value), ..] if found == rowid => visit(found, key, value),
            _ => ControlFlow::Break(()),
        })?;
        Ok(())
    }
}

/// A connection that only reads, and the path that its errors name.
pub struct Queried<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The bundle's file.
    pub path: &'a Path,
}

/// The table in which a memory index keeps its own state; it is not one of a bundle's eight.
pub const MEMORY: &str = "memory_state";

/// Statements for the log and for the channels.
const ALL: [&str; 2] = [
    "SELECT rowid, key, value FROM events WHERE rowid >= ?1 ORDER BY rowid",
    "SELECT rowid, key, value FROM channels WHERE rowid >= ?1 ORDER BY rowid",
];
const ONE: [&str; 2] = [
    "SELECT rowid, key, value FROM events WHERE rowid = ?1",
    "SELECT rowid, key, value FROM channels WHERE rowid = ?1",
];
const NEWEST: &str = "SELECT rowid, key, value FROM events ORDER BY rowid DESC";

fn get_sql(table: &str) -> &'static str {
    match Table::named(table) {
        Some(known) => known.sql().get,
        None => "SELECT value FROM memory_state WHERE key = ?1",
    }
}

impl Queried<'_> {
    fn fault(&self) -> impl Fn(rusqlite::Error) -> Trouble + '_ {
        |source| Trouble::Bundle(translate(self.path, "read", &source))
    }

    fn show(
        &self,
        table: &str,
        statements: [&str; 2],
        rowid: i64,
        visit: &mut EventVisit<'_>,
    ) -> Result<(), Trouble> {
        if !self.has(table)? {
            return Ok(());
        }
        let sql = statements[usize::from(table == Table::Channels.name())];
        let mut statement = self.connection.prepare(sql).map_err(self.fault())?;
        let mut rows = statement.query([rowid]).map_err(self.fault())?;
        while let Some(row) = rows.next().map_err(self.fault())? {
            let rowid: i64 = row.get(0).map_err(self.fault())?;
            if let (ValueRef::Blob(key), ValueRef::Blob(value)) =
                (row.get_ref(1).map_err(self.fault())?, row.get_ref(2).map_err(self.fault())?)
                && visit(rowid, key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl Rows for Queried<'_> {
    fn has(&self, table: &str) -> Result<bool, Trouble> {
        schema::has_table(self.connection, table).map_err(self.fault())
    }

    fn table_count(&self) -> Result<usize, Trouble> {
        let count = schema::table_count(self.connection).map_err(self.fault())?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn each_meta(&self, visit: &mut MetaVisit<'_>) -> Result<(), Trouble> {
        if !self.has(Table::Meta.name())? {
            return Ok(());
        }
        let mut statement = self.connection.prepare("SELECT key, value FROM meta").map_err(self.fault())?;
        let mut rows = statement.query([]).map_err(self.fault())?;
        while let Some(row) = rows.next().map_err(self.fault())? {
            match (row.get_ref(0).map_err(self.fault())?, row.get_ref(1).map_err(self.fault())?) {
                (ValueRef::Blob(key), ValueRef::Blob(value)) => visit(Some(key), value),
                _ => visit(None, b""),
            }
        }
        Ok(())
    }

    fn value(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        if !self.has(table)? {
            return Ok(None);
        }
        let mut statement = self.connection.prepare(get_sql(table)).map_err(self.fault())?;
        statement.query_row([key], |row| row.get(0)).optional().map_err(self.fault())
    }

    fn event_key_from(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        if !self.has(Table::Events.name())? {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(Table::Events.sql().keys).map_err(self.fault())?;
        statement.query_row([key], |row| row.get(0)).optional().map_err(self.fault())
    }

    fn newest_events(&self, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        if !self.has(Table::Events.name())? {
            return Ok(());
        }
        let mut statement = self.connection.prepare(NEWEST).map_err(self.fault())?;
        let mut rows = statement.query([]).map_err(self.fault())?;
        while let Some(row) = rows.next().map_err(self.fault())? {
            let rowid: i64 = row.get(0).map_err(self.fault())?;
            if let (ValueRef::Blob(key), ValueRef::Blob(value)) =
                (row.get_ref(1).map_err(self.fault())?, row.get_ref(2).map_err(self.fault())?)
                && visit(rowid, key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn each_row(&self, table: &str, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        self.show(table, ALL, i64::MIN, visit)
    }

    fn row_at(&self, table: &str, rowid: i64, visit: &mut EventVisit<'_>) -> Result<(), Trouble> {
        self.show(table, ONE, rowid, visit)
    }
}
