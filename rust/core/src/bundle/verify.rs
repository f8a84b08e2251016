//! Walking everything that a bundle holds, and saying what of it is not sound.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::handle::Inner;
use super::snapshot;
use super::text;
use super::value::key_text;
use crate::codec::{self, Stored};
use crate::db::fault::is_corruption;
use crate::db::open;
use crate::db::schema::{Table, has_table};
use crate::error::Result;
use crate::model::{MESSAGE_MARK, parse_numbered};

const ACTION: &str = "verify";

/// One thing that is not sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The table, or `database` for the file as a whole.
    pub table: String,
    /// The key of the row, where there is one.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

/// What a walk found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Rows looked at, by table.
    pub counts: BTreeMap<String, u64>,
    /// What is not sound.
    pub problems: Vec<Problem>,
}

impl Report {
    fn add(&mut self, table: &str, key: impl Into<String>, what: impl Into<String>) {
        self.problems.push(Problem { table: table.to_owned(), key: key.into(), what: what.into() });
    }
}

type StoredRow = (i64, Vec<u8>, Vec<u8>);

/// Where the checksum of raw bytes is kept, which have no room for one of their own.
pub fn check_name(table: Table, key: &[u8]) -> String {
    use std::fmt::Write;
    let mut name = format!("bytes:{}:", table.name());
    for byte in key {
        // Writing into a string does not fail.
        if write!(name, "{byte:02x}").is_err() {
            break;
        }
    }
    name
}

impl Inner {
    /// Looks at every row; what is damaged is reported, not raised.
    pub(super) fn verify(&self) -> Result<Report> {
        if self.source.is_none() {
            self.check_process(ACTION)?;
            let mut state = self.lock();
            self.commit_batch(&mut state, ACTION)?;
        }
        self.read_long(ACTION, |connection| {
            let mut report = Report::default();
            check_database(connection, &mut report);
            for table in Table::ALL {
                self.check_rows(connection, table, &mut report)?;
            }
            let renumbered = super::tail::renumbered(connection).map_err(self.fault(ACTION))?;
            if renumbered > 0 {
                report.counts.insert("tail:renumbered".to_owned(), renumbered);
            }
            check_private(connection, &mut report).or_else(|source| self.soften(source, &mut report))?;
            Ok(report)
        })
    }

    /// Damage is what the report is for; everything else ends the walk.
    fn soften(&self, source: rusqlite::Error, report: &mut Report) -> Result<()> {
        if is_corruption(&source) {
            report.add("database", "", source.to_string());
            return Ok(());
        }
        Err(self.fault(ACTION)(source))
    }

    fn check_rows(&self, connection: &Connection, table: Table, report: &mut Report) -> Result<()> {
        if !has_table(connection, table.name()).map_err(self.fault(ACTION))? {
            return Ok(());
        }
        let (mut from, mut count) = (i64::MIN, 0);
        loop {
            let rows: rusqlite::Result<Vec<StoredRow>> =
                connection.prepare_cached(table.sql().after).and_then(|mut select| {
                    select
                        .query_map((from, 256), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                        .collect()
                });
            let rows = match rows {
                Ok(rows) => rows,
                Err(source) => {
                    self.soften(source, report)?;
                    break;
                }
            };
            let Some((last, ..)) = rows.last() else { break };
            from = *last;
            for (_, key, stored) in &rows {
                count += 1;
                check_row(connection, table, key, stored, report);
            }
        }
        report.counts.insert(table.name().to_owned(), count);
        Ok(())
    }
}

fn check_row(connection: &Connection, table: Table, key: &[u8], stored: &[u8], report: &mut Report) {
    match codec::open(table.name(), key, stored) {
        Ok(Stored::Object(_)) => {}
        Ok(Stored::Bytes(bytes)) => {
            let kept: Option<Vec<u8>> = connection
                .query_row("SELECT value FROM amber_meta WHERE name = ?1", [check_name(table, key)], |row| {
                    row.get(0)
                })
                .ok();
            let check = xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes();
            if kept.is_some_and(|kept| kept != check) {
                report.add(
                    table.name(),
                    key_text(key),
                    "the bytes are not those that were last written here",
                );
            }
        }
        Err(fault) => report.add(table.name(), key_text(key), fault.to_string()),
    }
    let is_numbered = match table {
        Table::Events => parse_numbered(key, ":e").is_some(),
        Table::Channels => parse_numbered(key, MESSAGE_MARK).is_some(),
        _ => true,
    };
    if !is_numbered {
        report.add(table.name(), key_text(key), "the key has no owner and number");
    }
}

/// SQLite's own check, which covers the text indexes too.
fn check_database(connection: &Connection, report: &mut Report) {
    match open::faults(connection) {
        Ok(lines) => {
            for line in lines {
                report.add("database", "", line);
            }
        }
        Err(source) => report.add("database", "", source.to_string()),
    }
}

fn check_private(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    if has_table(connection, "amber_segment")? {
        let mut select = connection.prepare("SELECT id, body FROM amber_segment")?;
        let mut rows = select.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let (id, stored): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            count += 1;
            if let Err(what) = snapshot::open_segment(id, &stored) {
                report.add("amber_segment", id.to_string(), what);
            }
        }
        report.counts.insert("amber_segment".to_owned(), count);
        let mut select = connection.prepare("SELECT id, body FROM amber_snapshot")?;
        let mut rows = select.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let (id, stored): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            count += 1;
            if let Err(what) = snapshot::Record::open(id, &stored) {
                report.add("amber_snapshot", id.to_string(), what);
            }
        }
        report.counts.insert("amber_snapshot".to_owned(), count);
    }
    if has_table(connection, "amber_text_docsize")? {
        // SQLite's check passes over the sizes of rows whose text it does not hold.
        const SIZES: &str = "SELECT count(*) FROM amber_text_docsize WHERE sz = zeroblob(length(sz))";
        // A page begins with offsets, of which not all are zero; the first two records never are.
        const PAGES: &str = "\
SELECT count(*) FROM amber_text_data WHERE EXISTS (SELECT 1 FROM amber_block) AND
  CASE WHEN id > 10 THEN substr(block, 1, 4) = x'00000000' ELSE block = zeroblob(length(block)) END";
        let wrong: i64 = connection.query_row(SIZES, [], |row| row.get(0))?;
        if wrong > 0 {
            report.add("amber_text", "", format!("{wrong} of its rows have no words"));
        }
        let wiped: i64 = connection.query_row(PAGES, [], |row| row.get(0))?;
        if wiped > 0 {
            report.add("amber_text", "", format!("{wiped} of its pages hold nothing but zeros"));
        }
    }
    if has_table(connection, "amber_graph")? {
        let (count, damaged) = text::check_graphs(connection)?;
        for model in damaged {
            report.add("amber_graph", model.to_string(), "the graph is not the one that was kept");
        }
        report.counts.insert("amber_graph".to_owned(), count);
    }
    if has_table(connection, "fts_values")? {
        let mut select = connection.prepare("SELECT id, value FROM fts_values")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, stored): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            if let Err(what) = text::check_peer_entry(&stored) {
                report.add("fts_values", id.to_string(), what);
            }
        }
    }
    Ok(())
}
