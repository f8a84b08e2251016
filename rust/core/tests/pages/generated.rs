//! Tables that a generator made up, whole and damaged.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::agreement::{assert_all_verbs_agree, everything, everything_by_sqlite, open};

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

/// Small files with deep trees, to be damaged: one for each page size, with rowids and without.
static VICTIMS: LazyLock<Vec<(usize, Vec<u8>)>> = LazyLock::new(|| {
    let directory = TempDir::new().unwrap();
    let rows: Vec<_> = (0..150_u8).map(|number| (key(number), usize::from(number) * 17, number)).collect();
    [512_u32, 1_024, 2_048, 4_096]
        .into_iter()
        .flat_map(|page_size| [(page_size, false), (page_size, true)])
        .map(|(page_size, without_rowid)| {
            let path = directory.path().join(format!("{page_size}-{without_rowid}"));
            let (rows, deleted) = (rows.clone(), Vec::new());
            write(&path, &Content { page_size, without_rowid, auto_vacuum: false, rows, deleted });
            (page_size as usize, fs::read(path).unwrap())
        })
        .collect()
});

fn key(number: u8) -> Vec<u8> {
    vec![number; 5 + usize::from(number) % 90]
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
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_reads_as_sqlite_reads_it_or_is_given_up(
        victim in any::<prop::sample::Index>(), damage in damage()
    ) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("damaged.kohakutr");
        let (page_size, mut bytes) = victim.get(&VICTIMS).clone();
        apply(&damage, &mut bytes, page_size);
        fs::write(&path, bytes).unwrap();

        let start = Instant::now();
        let found = everything(&path);
        if let Ok(pages) = open(&path) {
            for number in 0..150_u8 {
                // Only that it ends, and without a panic: SQLite may search another way.
                drop(pages.get_kv("events", &key(number)));
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
