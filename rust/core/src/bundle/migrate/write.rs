//! The new session: the rows of the old one that stay as they are, and the log that was translated.

use std::path::Path;

use rusqlite::Connection;

use super::old::{Log, Old, value_of};
use super::translate::Translated;
use super::{ACTION, Migration, Report};
use crate::bundle::create;
use crate::bundle::fork::{Copying, each};
use crate::bundle::handle::{Inner, Options};
use crate::bundle::kv::Change;
use crate::bundle::ledger::COUNTER_KEY;
use crate::bundle::value::{Payload, open};
use crate::clock::Clock;
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::fault::translate;
use crate::db::open as database;
use crate::db::schema::{FORMAT_VERSION, Table};
use crate::error::Result;
use crate::model::{Draft, Stamps};

/// How many events are written in one transaction.
const CHUNK: usize = 1_000;
/// The branch that everything of the first format is on.
const BRANCH: i64 = 1;
const WATERMARK: &str = "snapshot_event_id";
/// Says in the file itself that nothing of its migration is missing.
const COMPLETE: &str = "INSERT OR REPLACE INTO amber_meta (name, value) VALUES ('migrated', 1)";

/// Makes the new session at `copy`, closed and whole, and counts what goes into it.
pub fn fill(
    migration: &Migration<'_>,
    inner: &Inner,
    old: &Old<'_>,
    copy: &Path,
    clock: Box<dyn Clock>,
) -> Result<Report> {
    inner.read(ACTION, |connection| copy_rows(inner, connection, old, copy))?;
    let target = create::writable(copy, Options::default(), clock)?;
    let written = write_log(migration, inner, old, &target);
    let closed = target.close();
    let report = written?;
    closed?;
    Ok(report)
}

/// Copies the rows that stay as they are.
fn copy_rows(inner: &Inner, from: &Connection, old: &Old<'_>, copy: &Path) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(copy, ACTION, &source);
    let child = database::aside(copy)?;
    child.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
    let copying = Copying { parent: &inner.path, from, child: &child, target: copy };
    copying.make_tables()?;
    renew(&copying, Table::Meta, |key| key != b"format_version" && key != b"migrated_from")?;
    // The watermarks of a log that was translated are those of the new one.
    let translated = if old.is_structured { &[][..] } else { &old.agents };
    let marks: Vec<Vec<u8>> = translated.iter().map(|agent| slot(agent, WATERMARK)).collect();
    renew(&copying, Table::State, |key| key != COUNTER_KEY && !marks.iter().any(|mark| mark == key))?;
    for table in [Table::Channels, Table::Subagents, Table::Jobs] {
        renew(&copying, table, |_| true)?;
    }
    if old.is_structured {
        renew(&copying, Table::TurnRollup, |_| true)?;
    }
    copying.checks()?;
    child.execute_batch(COMPLETE).map_err(fault)?;
    child.execute_batch("COMMIT").map_err(fault)?;
    database::finish_aside(child).map_err(fault)
}

/// Copies the rows of a table whose keys are wanted, in the encoding that new rows have. What only its
/// author can read, a pickle, stays as it is stored.
fn renew(copying: &Copying<'_>, table: Table, wanted: impl Fn(&[u8]) -> bool) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(copying.target, ACTION, &source);
    let mut insert = copying.child.prepare_cached(table.sql().insert).map_err(fault)?;
    each(copying.parent, copying.from, table, |key, stored| {
        if !wanted(key) {
            return Ok(());
        }
        let written = match open(copying.parent, table, key, stored) {
            Ok(Stored::Object(body)) => insert.execute((key, codec::seal(table.name(), key, &body))),
            Err(error) if codec::has_trailer(stored) => return Err(error),
            Ok(Stored::Bytes(_)) | Err(_) => insert.execute((key, stored)),
        };
        written.map(drop).map_err(fault)
    })
}

fn write_log(migration: &Migration<'_>, inner: &Inner, old: &Old<'_>, target: &Inner) -> Result<Report> {
    let mut report = Report::of(inner, old)?;
    target.apply(&meta(migration, inner)?)?;
    for owner in old.owners() {
        let log = old.log(owner)?;
        let highest = write_events(migration, old, &log, target)?;
        write_snapshot(old, &log, highest, target)?;
        report.take(&log);
    }
    Ok(report)
}

/// What the new session says about itself besides what the old one said.
fn meta(migration: &Migration<'_>, inner: &Inner) -> Result<Vec<Change>> {
    let version = value_of(inner, Table::Meta, b"format_version")?;
    let origin = Value::Map(vec![
        ("migrated_from".into(), Value::from(inner.path.to_string_lossy().into_owned())),
        (
            "source_version".into(),
            version.filter(|stated| stated.as_i64() > Some(0)).unwrap_or(Value::Int(1)),
        ),
        ("migrated_at".into(), Value::from(migration.at)),
        ("migrator".into(), Value::from("v1_to_v2")),
    ]);
    let mut lineage = match value_of(inner, Table::Meta, b"lineage")? {
        Some(Value::Map(known)) => known,
        _ => Vec::new(),
    };
    lineage.retain(|(name, _)| name != "migration");
    lineage.push(("migration".into(), origin.clone()));
    let put = |key: &[u8], value: &Value| Change {
        table: Table::Meta,
        key: key.to_vec(),
        value: Some(Payload::of(value)),
    };
    Ok(vec![
        put(b"format_version", &Value::Int(FORMAT_VERSION)),
        put(b"migrated_from", &origin),
        put(b"lineage", &Value::Map(lineage)),
    ])
}

/// Appends the log and returns the highest id in it.
fn write_events(migration: &Migration<'_>, old: &Old<'_>, log: &Log, target: &Inner) -> Result<i64> {
    let mut highest = 0;
    for chunk in log.events.chunks(CHUNK) {
        let drafts: Vec<Draft> = chunk
            .iter()
            .map(|event| if old.is_structured { kept(event) } else { migrated(event, migration.at) })
            .collect();
        let appended = target.append(&log.owner, &drafts)?;
        highest = appended.iter().map(|event| event.id.0).max().unwrap_or(0).max(highest);
    }
    Ok(highest)
}

/// An event of the present format, which keeps what it has.
fn kept(event: &Translated) -> Draft {
    draft(event, &["type", "event_id"], Stamps::default())
}

/// A translated event, which is marked as such.
fn migrated(event: &Translated, at: &str) -> Draft {
    let turn = event.turn.max(1);
    let stamps = Stamps {
        turn_index: Some(turn),
        spawned_in_turn: Some(turn),
        branch_id: Some(BRANCH),
        parent_branch_path: None,
    };
    let mut skipped = vec!["type", "event_id", "migrated", "migrated_at"];
    skipped.extend(stamps.fields());
    let mut draft = draft(event, &skipped, stamps);
    msgpack::put_str(&mut draft.pairs, "migrated");
    msgpack::put_bool(&mut draft.pairs, true);
    msgpack::put_str(&mut draft.pairs, "migrated_at");
    msgpack::put_str(&mut draft.pairs, at);
    draft.count += 2;
    draft
}

fn draft(event: &Translated, skipped: &[&str], stamps: Stamps) -> Draft {
    let mut draft = Draft { event_type: event.kind.clone(), stamps, ..Draft::default() };
    for (name, value) in &event.fields {
        match name.as_str() {
            "event_id" => draft.given_id = value.as_i64().filter(|id| *id > 0),
            "turn_index" => draft.own_turn = value.as_i64(),
            "branch_id" => draft.own_branch = value.as_i64(),
            _ => {}
        }
        if skipped.contains(&name.as_str()) {
            continue;
        }
        draft.has_ts |= name == "ts";
        draft.has_spawned |= name == "spawned_in_turn";
        msgpack::put_str(&mut draft.pairs, name);
        msgpack::put_value(&mut draft.pairs, value);
        draft.count += 1;
    }
    draft
}

/// Stores the messages, and the watermark that belongs to the new log.
fn write_snapshot(old: &Old<'_>, log: &Log, highest: i64, target: &Inner) -> Result<()> {
    let mut changes = Vec::new();
    let mut put = |table, key, value| changes.push(Change { table, key, value: Some(value) });
    if let Some(messages) = log.snapshot.as_ref().filter(|messages| !messages.is_empty()) {
        let messages = Payload::of(&Value::List(messages.clone()));
        put(Table::Conversation, log.owner.as_bytes().to_vec(), messages);
        let records = slot(&log.owner, "branch_snapshots");
        if target.get(Table::State, &records)?.is_none() {
            put(Table::State, records, Payload::of(&Value::List(Vec::new())));
        }
    }
    if !old.is_structured && old.agents.contains(&log.owner) {
        put(Table::State, slot(&log.owner, WATERMARK), Payload::integer(highest));
    }
    if changes.is_empty() {
        return Ok(());
    }
    target.apply(&changes).map(drop)
}

fn slot(agent: &str, name: &str) -> Vec<u8> {
    format!("{agent}:{name}").into_bytes()
}
