//! What SQLite says, what the reader says, and whether that is the same.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use amberlog_core::db::pages::{Column, PageFault, Pages};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

pub type Row = (i64, Vec<Value>);

/// Opens a file that this test has just written: within a tick of the clock the reader refuses.
pub fn open(path: &Path) -> Result<Pages, PageFault> {
    let start = Instant::now();
    loop {
        match Pages::open(path) {
            Err(PageFault::Changed) if start.elapsed() < Duration::from_secs(5) => std::thread::yield_now(),
            result => return result,
        }
    }
}

fn value_of(column: &Column<'_>) -> Value {
    match *column {
        Column::Null => Value::Null,
        Column::Int(int) => Value::Integer(int),
        Column::Real(real) => Value::Real(real),
        Column::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        Column::Blob(blob) => Value::Blob(blob.to_vec()),
    }
}

/// Collects what the reader shows of one table.
fn collect(
    scan: impl FnOnce(&mut dyn FnMut(i64, &[Column<'_>]) -> ControlFlow<()>) -> Result<(), PageFault>,
) -> Result<Vec<Row>, PageFault> {
    let mut rows = Vec::new();
    scan(&mut |rowid, columns| {
        rows.push((rowid, columns.iter().map(value_of).collect()));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

pub fn rows(pages: &Pages, table: &str) -> Result<Vec<Row>, PageFault> {
    collect(|visit| pages.scan(table, visit))
}

/// All tables with all their rows, or the first fault.
pub fn everything(path: &Path) -> Result<Vec<(String, Vec<Row>)>, PageFault> {
    let pages = open(path)?;
    let tables: Vec<_> = pages.tables().map(ToOwned::to_owned).collect();
    let found = tables.into_iter().map(|table| Ok((table.clone(), rows(&pages, &table)?))).collect();
    pages.finish()?;
    found
}

fn tables_by_sqlite(connection: &Connection) -> rusqlite::Result<Vec<(String, bool)>> {
    let sql = "SELECT l.name, l.wr FROM pragma_table_list l JOIN sqlite_schema s ON s.name = l.name \
               WHERE l.schema = 'main' AND s.rootpage > 0 AND s.type = 'table' ORDER BY s.rowid";
    connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn rows_by_sqlite(connection: &Connection, table: &str, without_rowid: bool) -> rusqlite::Result<Vec<Row>> {
    let rowid = if without_rowid { "0" } else { "_rowid_" };
    let sql = format!("SELECT {rowid}, * FROM \"{table}\" NOT INDEXED");
    let mut statement = connection.prepare(&sql)?;
    let width = statement.column_count();
    let lossy = |value: rusqlite::types::ValueRef<'_>| match value {
        rusqlite::types::ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        other => Value::try_from(other).unwrap(),
    };
    statement
        .query_map([], |row| {
            Ok((
                row.get(0)?,
                (1..width).map(|at| Ok(lossy(row.get_ref(at)?))).collect::<rusqlite::Result<_>>()?,
            ))
        })?
        .collect()
}

pub fn everything_by_sqlite(path: &Path) -> rusqlite::Result<Vec<(String, Vec<Row>)>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    tables_by_sqlite(&connection)?
        .into_iter()
        .map(|(table, without_rowid)| {
            Ok((table.clone(), rows_by_sqlite(&connection, &table, without_rowid)?))
        })
        .collect()
}

/// Compares every verb of the reader with SQLite; `expected` is what SQLite says.
pub fn assert_all_verbs_agree(path: &Path, expected: &[(String, Vec<Row>)]) {
    let pages = open(path).unwrap();
    for (table, expected) in expected {
        assert!(pages.has_table(table));
        assert!(&rows(&pages, table).unwrap() == expected, "{table} in {}", path.display());
        if let Ok(newest) = pages.newest(table) {
            assert_eq!(newest, expected.last().map(|row| row.0));
            let back = collect(|visit| pages.scan_back(table, visit)).unwrap();
            assert!(back.iter().rev().eq(expected), "{table} backwards");
            for point in [i64::MIN, 0, expected.get(expected.len() / 2).map_or(1, |row| row.0), i64::MAX] {
                let after = collect(|visit| pages.scan_after(table, point, visit)).unwrap();
                assert!(
                    after.iter().eq(expected.iter().filter(|row| row.0 > point)),
                    "{table} after {point}"
                );
            }
        }
        if pages.get_kv(table, b"").is_ok() {
            for (_, columns) in expected {
                if let [Value::Blob(key), Value::Blob(value)] = columns.as_slice() {
                    assert!(pages.get_kv(table, key).unwrap().as_ref() == Some(value), "{table}: {key:?}");
                    let absent = [key.as_slice(), b"\0"].concat();
                    let is_there =
                        expected.iter().any(|row| row.1.first() == Some(&Value::Blob(absent.clone())));
                    assert_eq!(pages.get_kv(table, &absent).unwrap().is_some(), is_there);
                }
            }
        }
    }
    pages.finish().unwrap();
}
