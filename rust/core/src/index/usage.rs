//! What sessions take on disk, and what the index can tell of all of them together.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::moment;
use super::threads::Threads;
use super::walk;
use crate::codec::Value;
use crate::db::sidecar::companions;
use crate::error::Result;

const DAY: f64 = 86_400.0;
/// How many agents the statistics name.
const TOP: i64 = 5;

/// Bytes of the regular files below a directory; links are not followed, and what vanishes meanwhile
/// or cannot be listed counts nothing.
pub fn directory_size(directory: &Path) -> u64 {
    let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_directory(directory) {
        return 0;
    }
    let mut waiting = vec![directory.to_owned()];
    let mut total = 0;
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => waiting.push(entry.path()),
                Ok(found) if found.is_file() => total += found.len(),
                _ => {}
            }
        }
    }
    total
}

/// What the sessions of a directory take on disk, under the peer's names. No session is opened.
pub fn disk_usage(directory: &Path) -> Result<Value> {
    let walked = if directory.is_dir() {
        walk::walk(directory, &Threads::new(Some(1)), &mut walk::Known::default())?
    } else {
        walk::Walk::default()
    };
    let mut sessions = 0;
    let mut ages: Option<(i64, i64)> = None;
    for found in &walked.found {
        sessions += found.print.size;
        let size = |path: &PathBuf| path.symlink_metadata().map_or(0, |found| found.len());
        sessions +=
            companions(&directory.join(&found.path)).skip(1).take(2).map(|path| size(&path)).sum::<u64>();
        let mtime = found.print.mtime_ns;
        ages = Some(ages.map_or((mtime, mtime), |(oldest, newest)| (oldest.min(mtime), newest.max(mtime))));
    }
    let artifacts: u64 = artifact_directories(directory).iter().map(|path| directory_size(path)).sum();
    let age = |pick: fn((i64, i64)) -> i64| ages.map_or(Value::Nil, |ages| Value::Float(seconds(pick(ages))));
    Ok(map([
        ("count", integer(walked.found.len() as u64)),
        ("session_bytes", integer(sessions)),
        ("artifacts_bytes", integer(artifacts)),
        ("total_bytes", integer(sessions + artifacts)),
        ("oldest_at", age(|ages| ages.0)),
        ("newest_at", age(|ages| ages.1)),
        ("session_dir", Value::Str(directory.to_string_lossy().into_owned())),
    ]))
}

fn artifact_directories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_artifacts = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "artifacts");
    entries.flatten().map(|entry| entry.path()).filter(is_artifacts).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a double is what Python's times are")]
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds.div_euclid(1_000_000_000) as f64 + 1e-9 * nanoseconds.rem_euclid(1_000_000_000) as f64
}

fn integer(number: u64) -> Value {
    Value::from(number)
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// Counts over all entries, under the peer's names. `now` is in seconds since 1970.
pub fn stats(connection: &Connection, now: f64) -> rusqlite::Result<Value> {
    let count: i64 =
        connection.query_row("SELECT coalesce(sum(n), 0) FROM amber_count", [], |row| row.get(0))?;
    let by = |sql: &str| counted(connection, sql);
    let (recency, average) = ages(connection, now)?;
    Ok(map([
        ("count", Value::Int(count)),
        ("by_config_type", by("SELECT type, sum(n) FROM amber_count GROUP BY type ORDER BY 2 DESC, 1")?),
        (
            "by_status",
            by(
                "SELECT iif(status = '', 'unknown', status), sum(n) FROM amber_count GROUP BY 1 ORDER BY 2 DESC, 1",
            )?,
        ),
        ("by_recency", recency),
        (
            "by_format_version",
            by("SELECT CAST(format AS TEXT), count(*) FROM amber_entry GROUP BY 1 ORDER BY 2 DESC, 1")?,
        ),
        ("agents_top", agents(connection)?),
        ("average_age_seconds", average),
    ]))
}

fn counted(connection: &Connection, sql: &str) -> rusqlite::Result<Value> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows =
        statement.query_map([], |row| Ok((row.get_ref(0)?.as_str()?.into(), Value::Int(row.get(1)?))))?;
    Ok(Value::Map(rows.collect::<rusqlite::Result<_>>()?))
}

fn agents(connection: &Connection) -> rusqlite::Result<Value> {
    const COUNT: &str = "SELECT name, count(DISTINCT entry) FROM amber_agent WHERE name <> '' GROUP BY name \
                         ORDER BY 2 DESC, min(entry), min(place) LIMIT ?1";
    let mut statement = connection.prepare_cached(COUNT)?;
    let rows = statement
        .query_map([TOP], |row| Ok(Value::List(vec![Value::Str(row.get(0)?), Value::Int(row.get(1)?)])))?;
    Ok(Value::List(rows.collect::<rusqlite::Result<_>>()?))
}

/// How many sessions were active how long ago, and how long ago on the average. One that does not say
/// when it was active counts by when it was made; one in the future counts nowhere.
#[expect(clippy::cast_precision_loss, reason = "ages are given in doubles")]
fn ages(connection: &Connection, now: f64) -> rusqlite::Result<(Value, Value)> {
    let mut buckets =
        [("1d", DAY, 0), ("7d", 7.0 * DAY, 0), ("30d", 30.0 * DAY, 0), ("older", f64::INFINITY, 0)];
    let (mut sum, mut count) = (0.0, 0_u32);
    let mut statement = connection.prepare_cached("SELECT active, created FROM amber_entry")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (active, created): (i64, i64) = (row.get(0)?, row.get(1)?);
        let Some(micros) = [active, created].into_iter().find(|micros| *micros != moment::UNKNOWN) else {
            continue;
        };
        let age = now - micros as f64 / 1e6;
        if age < 0.0 {
            continue;
        }
        (sum, count) = (sum + age, count + 1);
        if let Some(bucket) = buckets.iter_mut().find(|(_, end, _)| age < *end) {
            bucket.2 += 1;
        }
    }
    let average = if count == 0 { Value::Nil } else { Value::Float(sum / f64::from(count)) };
    let fields = buckets.map(|(name, _, count)| (name, Value::Int(count)));
    Ok((map(fields), average))
}
