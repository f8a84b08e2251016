//! What the layer spares must not show: other connections of SQLite's own meet the same file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::whereabouts::is_settled;
use crate::db::{ffi, open};

const WRITERS: i64 = 3;
const EACH: i64 = 400;

/// Appends rows, each in a transaction that was announced, and each one more than the last of all.
fn append(path: &Path, writer: i64) {
    let connection = open::writable(path).unwrap();
    for n in 0..EACH {
        ffi::announce_write(&connection, true);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let last: i64 =
            connection.query_row("SELECT coalesce(max(k), 0) FROM t", [], |row| row.get(0)).unwrap();
        let filler = "x".repeat(usize::try_from(n % 50 * 30).unwrap());
        connection.execute("INSERT INTO t VALUES (?1, ?2, ?3)", (last + 1, writer, filler)).unwrap();
        connection.execute_batch(if n % 7 == 3 { "ROLLBACK" } else { "COMMIT" }).unwrap();
    }
}

/// Writes the log back in every way that SQLite has, as another program would.
fn checkpoint(path: &Path, done: &AtomicBool) {
    let mut connection = Connection::open(path).unwrap();
    open::wait_for_writers(&mut connection).unwrap();
    let mut ways = ["PASSIVE", "RESTART", "TRUNCATE", "FULL"].iter().cycle();
    while !done.load(Ordering::Acquire) {
        let way = ways.next().unwrap();
        connection.query_row(&format!("PRAGMA wal_checkpoint({way})"), [], |_| Ok(())).unwrap();
    }
}

/// Reads without pause; every look must see whole transactions, and none that an earlier one saw undone.
fn read(path: &Path, done: &AtomicBool) {
    let mut connection = Connection::open(path).unwrap();
    open::wait_for_writers(&mut connection).unwrap();
    let mut seen = 0;
    while !done.load(Ordering::Acquire) {
        let (rows, last): (i64, i64) = connection
            .query_row("SELECT count(*), coalesce(max(k), 0) FROM t", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(rows, last);
        assert!(rows >= seen);
        seen = rows;
    }
}

#[test]
fn writers_that_lock_no_read_mark_lose_nothing_to_checkpoints_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let first = open::writable(&path).unwrap();
    first.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, writer, filler)").unwrap();
    let done = AtomicBool::new(false);

    std::thread::scope(|threads| {
        threads.spawn(|| checkpoint(&path, &done));
        threads.spawn(|| read(&path, &done));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                threads.spawn({
                    let path = &path;
                    move || append(path, writer)
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });

    let kept = (0..EACH).map(|n| i64::from(n % 7 != 3)).sum::<i64>();
    let plain = Connection::open(&path).unwrap();
    let count = |writer: i64| -> i64 {
        plain.query_row("SELECT count(*) FROM t WHERE writer = ?1", [writer], |row| row.get(0)).unwrap()
    };
    assert_eq!((0..WRITERS).map(count).collect::<Vec<_>>(), vec![kept; 3]);
    assert!(open::faults(&plain).unwrap().is_empty());
}

#[test]
fn what_a_close_copies_is_what_was_committed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let writer = open::writable(&path).unwrap();
    writer.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v)").unwrap();
    let blob = |k: i64| vec![k.to_le_bytes()[0]; usize::try_from(k * 997 % 40_000).unwrap()];
    for k in 0..120 {
        writer.execute("INSERT INTO t VALUES (?1, ?2)", (k, blob(k))).unwrap();
        if k % 3 == 0 {
            writer.execute("DELETE FROM t WHERE k = ?1", [k / 2]).unwrap();
        }
        if k == 60 {
            open::checkpoint(&writer, open::Checkpoint::Passive).unwrap();
        }
    }

    writer.close().unwrap();

    assert!(!path.with_extension("db-wal").exists());
    let plain = Connection::open(&path).unwrap();
    let mut select = plain.prepare("SELECT k, v FROM t ORDER BY k").unwrap();
    let rows: Vec<(i64, Vec<u8>)> =
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    let removed = |k: i64| (0..120).any(|at| at % 3 == 0 && at / 2 == k && at >= k);
    let expected: Vec<_> = (0..120).filter(|k| !removed(*k)).map(|k| (k, blob(k))).collect();
    assert_eq!(rows, expected);
    assert!(open::faults(&plain).unwrap().is_empty());
}

#[test]
fn a_database_that_is_unlinked_or_renamed_has_moved_though_its_path_was_just_asked() {
    for unlinked in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.db");
        let connection = open::writable(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (k)").unwrap();
        while !is_settled(&rustix::fs::stat(&path).unwrap()) {
            std::thread::yield_now();
        }

        let before = [ffi::has_moved(&connection), ffi::has_moved(&connection)];
        if unlinked {
            std::fs::remove_file(&path).unwrap();
        } else {
            std::fs::rename(&path, path.with_extension("moved")).unwrap();
        }

        assert_eq!((before, ffi::has_moved(&connection)), ([false, false], true));
    }
}
