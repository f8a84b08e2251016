//! The page reader agrees with SQLite on every file, or gives up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod generated;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use amberlog_core::db::pages::{PageFault, Pages};
use rusqlite::Connection;
use tempfile::TempDir;

use agreement::{assert_all_verbs_agree, everything, everything_by_sqlite, open, rows};

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

#[test]
fn a_reader_may_be_made_and_used_on_any_thread() {
    fn is_sendable<T: Send>() {}

    is_sendable::<Pages>();
    is_sendable::<PageFault>();
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
fn bytes_that_an_extension_reserved_are_passed_over() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("reserved.kohakutr");
    let connection = Connection::open(&path).unwrap();
    let mut reserved: std::ffi::c_int = 32;
    let (main, verb) = (c"main".as_ptr(), rusqlite::ffi::SQLITE_FCNTL_RESERVE_BYTES);
    // SAFETY: the connection is open, and the verb reads and writes one int.
    let code = unsafe {
        let reserved = std::ptr::from_mut(&mut reserved).cast();
        rusqlite::ffi::sqlite3_file_control(connection.handle(), main, verb, reserved)
    };
    assert_eq!(code, 0);
    connection
        .execute_batch(
            "PRAGMA page_size = 512;
             CREATE TABLE state (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO state SELECT CAST('key' || i AS BLOB), zeroblob(i * 20) FROM n;",
        )
        .unwrap();
    connection.close().unwrap();
    assert_eq!(fs::read(&path).unwrap()[20], 32);

    assert_all_verbs_agree(&path, &everything_by_sqlite(&path).unwrap());
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
    let connection = Connection::open(&path).unwrap();
    connection.execute("INSERT INTO state VALUES (x'63', x'03')", []).unwrap();
    assert!(matches!(pages.finish(), Err(PageFault::Changed)));
    connection.close().unwrap();

    let pages = open(&path).unwrap();
    let connection = Connection::open(&path).unwrap();
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
