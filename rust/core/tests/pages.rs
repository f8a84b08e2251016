//! The page reader agrees with SQLite on every file, or gives up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use amberlog_core::db::pages::{Column, PageFault, Pages};
use proptest::prelude::*;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params};
use tempfile::TempDir;

type Row = (i64, Vec<Value>);

/// Opens a file that this test has just written: within a tick of the clock the reader refuses.
fn open(path: &Path) -> Result<Pages, PageFault> {
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

fn rows(pages: &Pages, table: &str) -> Result<Vec<Row>, PageFault> {
    collect(|visit| pages.scan(table, visit))
}

/// All tables with all their rows, or the first fault.
fn everything(path: &Path) -> Result<Vec<(String, Vec<Row>)>, PageFault> {
    let pages = open(path)?;
    let tables: Vec<_> = pages.tables().map(ToOwned::to_owned).collect();
    let found = tables.into_iter().map(|table| Ok((table.clone(), rows(&pages, &table)?))).collect();
    pages.finish()?;
    found
}

fn sqlite(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap()
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

fn everything_by_sqlite(path: &Path) -> rusqlite::Result<Vec<(String, Vec<Row>)>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    tables_by_sqlite(&connection)?
        .into_iter()
        .map(|(table, without_rowid)| {
            Ok((table.clone(), rows_by_sqlite(&connection, &table, without_rowid)?))
        })
        .collect()
}

/// Compares every verb of the reader with SQLite; `expected` is what SQLite says.
fn assert_all_verbs_agree(path: &Path, expected: &[(String, Vec<Row>)]) {
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

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kohaku")
}

/// Unpacks all fixtures and returns the databases among them.
fn unpack(into: &Path) -> Vec<PathBuf> {
    for entry in fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let target = into.join(name.replace('.', "_"));
        if name.ends_with(".tar.gz") {
            let file = flate2::read::GzDecoder::new(fs::File::open(&path).unwrap());
            tar::Archive::new(file).unpack(target).unwrap();
        } else if let Some(name) = name.strip_suffix(".gz") {
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(fs::File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
            fs::write(into.join(name), bytes).unwrap();
        } else if name.ends_with(".kohakutr") {
            fs::copy(&path, into.join(name)).unwrap();
        }
    }
    databases(into)
}

fn databases(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(databases(&path));
        } else if fs::read(&path).unwrap().starts_with(b"SQLite format 3\0") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_fixture_reads_as_sqlite_reads_it() {
    let directory = TempDir::new().unwrap();
    let paths = unpack(directory.path());
    assert!(paths.len() >= 25, "{paths:?}");

    let mut compared = 0;
    for path in paths {
        let wal = PathBuf::from(format!("{}-wal", path.display()));
        if fs::metadata(&wal).is_ok_and(|wal| wal.len() > 0) {
            assert!(matches!(open(&path), Err(PageFault::Unsupported(_))), "{}", path.display());
            continue;
        }
        let found = everything(&path).unwrap();
        let expected = everything_by_sqlite(&path).unwrap();

        assert!(found == expected, "{}", path.display());
        assert_all_verbs_agree(&path, &expected);
        compared += expected.iter().map(|(_, rows)| rows.len()).sum::<usize>();
    }
    assert!(compared > 500, "{compared}");
}

/// One table with rows of many kinds, some of them deleted again.
#[derive(Debug, Clone)]
struct Content {
    page_size: u32,
    without_rowid: bool,
    auto_vacuum: bool,
    rows: Vec<(Vec<u8>, usize, u8)>,
    deleted: Vec<prop::sample::Index>,
}

fn content(longest: usize) -> impl Strategy<Value = Content> {
    let key = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => prop::collection::vec(97..99_u8, 100..3000),
    ];
    let length = prop_oneof![8 => 0..300_usize, 2 => 300..5_000_usize, 1 => 5_000..longest];
    let rows = prop::collection::vec((key, length, any::<u8>()), 0..120);
    let deleted = prop::collection::vec(any::<prop::sample::Index>(), 0..40);
    (9..17_u32, any::<bool>(), any::<bool>(), rows, deleted).prop_map(
        |(bits, without_rowid, auto_vacuum, rows, deleted)| Content {
            page_size: 1 << bits,
            without_rowid,
            auto_vacuum,
            rows,
            deleted,
        },
    )
}

fn write(path: &Path, content: &Content) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "page_size", content.page_size).unwrap();
    connection.pragma_update(None, "auto_vacuum", i32::from(content.auto_vacuum)).unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    let ending = if content.without_rowid { "WITHOUT ROWID" } else { "" };
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; BEGIN;
             CREATE TABLE events (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) {ending};
             CREATE TABLE mixed (id INTEGER PRIMARY KEY, r REAL, t TEXT DEFAULT 'x', n NUMERIC, b);
             CREATE TABLE pairs (a, b TEXT, c DOUBLE PRECISION, PRIMARY KEY (b, a)) WITHOUT ROWID;"
        ))
        .unwrap();
    for (number, (key, length, byte)) in content.rows.iter().enumerate() {
        let value = vec![*byte; *length];
        let put = "INSERT OR REPLACE INTO events VALUES (?1, ?2)";
        connection.execute(put, params![key, value]).unwrap();
        let text = char::from(b'a' + byte % 26).to_string().repeat(length % 3_000);
        let id = (i64::from(*byte) - 128) * (1 << (number % 56));
        let mixed = "INSERT OR REPLACE INTO mixed VALUES (?1, ?2, ?3, ?4, ?5)";
        connection.execute(mixed, params![id, id / 2, text, f64::from(*byte) / 4.0, key]).unwrap();
        let pair = "INSERT OR REPLACE INTO pairs VALUES (?1, ?2, ?3)";
        connection.execute(pair, params![id, text, *byte]).unwrap();
    }
    for index in &content.deleted {
        if !content.rows.is_empty() {
            let (key, _, byte) = index.get(&content.rows);
            connection.execute("DELETE FROM events WHERE key = ?1", params![key]).unwrap();
            connection.execute("DELETE FROM mixed WHERE b = ?1", params![key]).unwrap();
            connection.execute("DELETE FROM pairs WHERE c = ?1", params![byte]).unwrap();
        }
    }
    connection.execute_batch("COMMIT").unwrap();
    connection.close().unwrap();
}

/// A small file with deep trees, to be damaged.
fn victim(path: &Path, page_size: u32, without_rowid: bool) {
    let rows = (0..150_u8)
        .map(|number| (vec![number; 5 + usize::from(number) % 90], usize::from(number) * 17, number));
    let deleted = Vec::new();
    write(path, &Content { page_size, without_rowid, auto_vacuum: false, rows: rows.collect(), deleted });
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(Vec<(prop::sample::Index, u8)>),
    /// In the first bytes of a page, where pointers are.
    Structure(Vec<(prop::sample::Index, usize, u8)>),
    Cut(prop::sample::Index),
    /// A page in the place of another one.
    Copy(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        3 => prop::collection::vec((index(), any::<u8>()), 1..8).prop_map(Damage::Flip),
        6 => prop::collection::vec((index(), 0..40_usize, any::<u8>()), 1..6).prop_map(Damage::Structure),
        1 => index().prop_map(Damage::Cut),
        2 => (index(), index()).prop_map(|(from, to)| Damage::Copy(from, to)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>, page_size: usize) {
    let count = bytes.len() / page_size;
    match damage {
        Damage::Flip(flips) => flips.iter().for_each(|(at, byte)| {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }),
        Damage::Structure(flips) => flips.iter().for_each(|(page, at, byte)| {
            bytes[page.index(count) * page_size + at] = *byte;
        }),
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Copy(from, to) => {
            let from = from.index(count) * page_size;
            bytes.copy_within(from..from + page_size, to.index(count) * page_size);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_table_reads_as_sqlite_reads_it(content in content(200_000)) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("any.kohakutr");
        write(&path, &content);

        let found = everything(&path).unwrap();

        let expected = everything_by_sqlite(&path).unwrap();
        prop_assert!(found == expected);
        assert_all_verbs_agree(&path, &expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_reads_as_sqlite_reads_it_or_is_given_up(
        damage in damage(), bits in 9..13_u32, without_rowid in any::<bool>()
    ) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("damaged.kohakutr");
        victim(&path, 1 << bits, without_rowid);
        let mut bytes = fs::read(&path).unwrap();
        apply(&damage, &mut bytes, 1 << bits);
        fs::write(&path, bytes).unwrap();

        let start = Instant::now();
        let found = everything(&path);
        if let Ok(pages) = open(&path) {
            for number in 0..150_u8 {
                // Only that it ends, and without a panic: SQLite may search another way.
                drop(pages.get_kv("events", &vec![number; 5 + usize::from(number) % 90]));
            }
        }

        prop_assert!(start.elapsed() < Duration::from_secs(5));
        if let (Ok(found), Ok(expected)) = (found, everything_by_sqlite(&path)) {
            prop_assert!(found == expected);
        }
    }

    #[test]
    fn any_bytes_are_given_up(start in prop::collection::vec(any::<u8>(), 0..2_000), is_named in any::<bool>()) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("bytes.kohakutr");
        let name: &[u8] = if is_named { b"SQLite format 3\0" } else { b"" };
        fs::write(&path, [name, &start].concat()).unwrap();

        prop_assert!(open(&path).is_err());
    }
}

#[test]
fn a_key_that_fills_the_file_is_found() {
    let directory = TempDir::new().unwrap();
    for ending in ["", "WITHOUT ROWID"] {
        let path = directory.path().join(format!("long{ending}.kohakutr"));
        let connection = Connection::open(&path).unwrap();
        let table =
            format!("CREATE TABLE state (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) {ending}");
        connection.execute(&table, []).unwrap();
        connection.execute("INSERT INTO state VALUES (zeroblob(100000), x'01')", []).unwrap();
        connection.close().unwrap();

        assert_all_verbs_agree(&path, &everything_by_sqlite(&path).unwrap());
    }
}

fn small_bundle(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE state (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);
             INSERT INTO state VALUES (x'61', x'01'), (x'62', x'02');",
        )
        .unwrap();
    connection
}

#[test]
fn a_file_with_a_log_or_a_journal_is_left_to_sqlite() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("live.kohakutr");
    let connection = small_bundle(&path);

    assert!(matches!(open(&path), Err(PageFault::Unsupported(_))));
    connection.close().unwrap();
    assert!(open(&path).is_ok());
    fs::write(directory.path().join("live.kohakutr-journal"), "").unwrap();
    assert!(matches!(open(&path), Err(PageFault::Unsupported(_))));
}

#[test]
fn a_write_a_log_or_a_replacement_meanwhile_voids_what_was_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("moving.kohakutr");
    small_bundle(&path).close().unwrap();

    let pages = open(&path).unwrap();
    let connection = sqlite(&path);
    connection.execute("INSERT INTO state VALUES (x'63', x'03')", []).unwrap();
    assert!(matches!(pages.finish(), Err(PageFault::Changed)));
    connection.close().unwrap();

    let pages = open(&path).unwrap();
    let connection = sqlite(&path);
    connection.execute("DELETE FROM state", []).unwrap();
    connection.close().unwrap();
    assert!(matches!(pages.finish(), Err(PageFault::Changed)));

    let pages = open(&path).unwrap();
    let copy = directory.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert!(matches!(pages.finish(), Err(PageFault::Changed)));

    let pages = open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(pages.finish(), Err(PageFault::Changed)));
}

#[test]
fn the_log_of_a_linked_file_is_found_beside_its_target() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("target.kohakutr");
    let link = directory.path().join("link.kohakutr");
    let connection = small_bundle(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();

    assert!(matches!(open(&link), Err(PageFault::Unsupported(_))));
    connection.close().unwrap();
    let pages = open(&link).unwrap();

    assert_eq!(pages.get_kv("state", b"b").unwrap(), Some(vec![2]));
    pages.finish().unwrap();
}

#[test]
fn what_is_not_known_is_refused_and_the_rest_still_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("odd.kohakutr");
    let connection = small_bundle(&path);
    connection
        .execute_batch(
            "CREATE TABLE computed (a, b AS (a + 1) STORED); INSERT INTO computed VALUES (1);
             CREATE TABLE grown (a); INSERT INTO grown VALUES (1); ALTER TABLE grown ADD COLUMN b DEFAULT 7;
             CREATE VIEW seen AS SELECT * FROM state;
             CREATE VIRTUAL TABLE words USING fts5(content);
             CREATE TABLE backwards (key BLOB, value BLOB, PRIMARY KEY (key DESC)) WITHOUT ROWID;
             INSERT INTO backwards VALUES (x'61', x'01'), (x'62', x'02'), (x'63', 'text');
             CREATE TABLE \"Quoted, (name)\" ([key] BLOB /* , x */ UNIQUE, -- )
               `value` CHECK (value <> ','), CONSTRAINT c FOREIGN KEY (key) REFERENCES state (key)) STRICT;",
        )
        .unwrap_err();
    connection
        .execute_batch(
            "CREATE TABLE \"Quoted, (name)\" ([key] BLOB /* , x */ UNIQUE, -- )
               `value` BLOB CHECK (value <> ','), CONSTRAINT c FOREIGN KEY (key) REFERENCES state (key)) STRICT;
             INSERT INTO \"Quoted, (name)\" VALUES (x'61', x'09');",
        )
        .unwrap();
    connection.close().unwrap();

    let pages = open(&path).unwrap();

    for table in ["computed", "grown", "seen", "words"] {
        assert!(matches!(rows(&pages, table), Err(PageFault::Unsupported(_))), "{table}");
    }
    assert_eq!(pages.get_kv("BACKWARDS", b"b").unwrap(), Some(vec![2]));
    assert!(matches!(pages.get_kv("backwards", b"c"), Err(PageFault::Unsupported(_))));
    assert!(matches!(pages.newest("backwards"), Err(PageFault::Unsupported(_))));
    assert_eq!(pages.get_kv("quoted, (NAME)", b"a").unwrap(), Some(vec![9]));
    assert_eq!(pages.get_kv("absent", b"a").unwrap(), None);
    assert_eq!(rows(&pages, "absent").unwrap(), []);
    assert!(!pages.has_table("absent") && !pages.has_table("words") && pages.has_table("words_data"));
    pages.finish().unwrap();
}

#[test]
fn a_database_of_another_encoding_is_left_to_sqlite() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("wide.kohakutr");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a);").unwrap();
    connection.close().unwrap();

    assert!(matches!(open(&path), Err(PageFault::Unsupported(_))));
    assert!(matches!(open(directory.path()), Err(PageFault::Unsupported(_))));
    assert!(matches!(open(&directory.path().join("none")), Err(PageFault::Io(_))));
}
