//! One bundle as a row of the sidecar: meta, the newest snapshot of one or two agents, and a bounded
//! number of events. The cost does not grow with the history.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::entry::{Entry, Extra};
use super::exchange::{Exchange, PREVIEW, flatten};
use super::meta::{Meta, decoded, text_of};
use super::moment;
use super::rows::{MEMORY, Queried, Rows, Trouble};
use super::tail::{Tail, first_input};
use crate::bundle::source::{self, Source};
use crate::codec::{self, Stored, Value};
use crate::db::fault::translate;
use crate::db::pages::{PageFault, Pages, Still};
use crate::db::registry;
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::files::fingerprint::Fingerprint;
use crate::model::{EVENT_MARK, attached_parts, event_prefix, parse_numbered};

/// The namespace of the peer's framework, which is no agent.
const FRAMEWORK: &str = "terrarium";
/// The most owners of logs that are looked for in one bundle.
const MOST_AGENTS: usize = 1024;

/// A session's file as the walk found it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The key of its entry.
    pub filename: String,
    /// Its path below the session directory.
    pub path: String,
    /// Where it is.
    pub file: PathBuf,
    /// Its state when it was looked at, before it is read.
    pub print: Fingerprint,
    /// Whether neither a log nor a journal lay beside it then.
    pub is_quiet: bool,
    /// Whether it may have artifacts.
    pub has_artifacts: bool,
}

impl Found {
    /// Whether it is at rest in its directory for as long as that stands still.
    fn is_still(&self, still: &Still) -> bool {
        // What lies in the mirror lies in another directory.
        self.is_quiet && !self.path.contains('/') && still.is_quiet(OsStr::new(&self.path))
    }
}

/// Reads the entry of one bundle, without writing to it or beside it. Where its directory was seen to
/// stand still less is asked.
pub fn entry(found: &Found, still: Option<&Arc<Still>>) -> Result<Entry> {
    if found.print.size == 0 && found.print.wal.is_none() {
        return Err(Error::damaged(&found.file, "offset 0", "the file is empty"));
    }
    // Held for as long as the raw bytes are read: no store of this process opens the file meanwhile.
    let still = still.filter(|still| found.is_still(still));
    let reading = match still {
        Some(_) => registry::open_reader_of((found.print.device, found.print.inode)),
        None => registry::open_reader(&found.file),
    };
    if let Some(_reading) = reading {
        match from_pages(found, still) {
            Ok(entry) => return Ok(entry),
            Err(Trouble::Bundle(error)) => return Err(error),
            Err(Trouble::Pages(_)) => {}
        }
    }
    let source = Mutex::new(Source::open(&found.file)?);
    source::read(&source, &found.file, "read", |connection| {
        let fault = |source: rusqlite::Error| translate(&found.file, "read", &source);
        connection.execute_batch("BEGIN").map_err(fault)?;
        let built = build(found, &Queried { connection, path: &found.file });
        let ended = connection.execute_batch("END").map_err(fault);
        let built = built.map_err(|trouble| match trouble {
            Trouble::Bundle(error) => error,
            Trouble::Pages(fault) => Error::damaged(&found.file, "its pages", fault.to_string()),
        });
        ended.and(built)
    })
}

fn from_pages(found: &Found, still: Option<&Arc<Still>>) -> Result<Entry, Trouble> {
    let pages = match still {
        Some(still) => Pages::open_within(still, &found.file, (found.print.device, found.print.inode))?,
        None if found.is_quiet => Pages::open_quiet(&found.file)?,
        None => Pages::open(&found.file)?,
    };
    let built = build(found, &pages);
    if matches!(built, Err(Trouble::Pages(_))) {
        return built;
    }
    // What was read counts, and what was found wrong too, only if the file stood still.
    pages.finish().map_err(|_| Trouble::Pages(PageFault::Changed))?;
    built
}

fn build(found: &Found, rows: &dyn Rows) -> Result<Entry, Trouble> {
    check_is_session(&found.file, rows)?;
    let meta = Meta::read(&found.file, rows)?;
    let agents = agents(&meta, rows)?;
    let primary = primary(&meta, &agents).map(str::to_owned);
    let tail = Tail::read(rows, found.print.wal.is_some(), || {
        let shown = agents.first().into_iter().chain(&primary);
        let mut least = None;
        for agent in shown {
            let Some(id) = watermark(rows, agent)? else { return Ok(None) };
            least = Some(least.map_or(id, |least: i64| least.min(id)));
        }
        Ok(least)
    })?;
    let mut entry = describe(found, &meta);
    entry.extra = extra(found, &meta, &agents, &tail, rows)?;
    entry.has_vector_index = has_vectors(rows)?;
    let mut damage = String::new();
    if let Some(primary) = &primary {
        let exchange = exchange(found, rows, primary, &tail, &mut damage)?;
        if agents.first() == Some(primary) {
            entry.preview = preview(rows, primary, exchange.as_ref())?;
        } else if let Some(first) = agents.first() {
            let of_first = self::exchange(found, rows, first, &tail, &mut damage)?;
            entry.preview = preview(rows, first, of_first.as_ref())?;
        }
        let exchange = exchange.unwrap_or_default();
        entry.turn_count = exchange.prompts;
        (entry.last_user, entry.last_reply) = (exchange.user, exchange.reply);
    }
    entry.agents = agents;
    if let Some(ts) = tail.newest_ts
        && moment::micros(&entry.last_active).is_none_or(|known| moment::micros_of(ts) > known)
        && let Some(text) = moment::iso(ts)
    {
        entry.last_active = text;
    }
    entry.extra.damage = damage;
    Ok(entry)
}

/// A database of another program is refused, as it is when it is opened.
pub(super) fn check_is_session(file: &Path, rows: &dyn Rows) -> Result<(), Trouble> {
    for table in Table::ALL {
        if rows.has(table.name())? {
            return Ok(());
        }
    }
    if rows.table_count()? > 0 && !rows.has("kohakuvault_meta")? {
        return Err(Error::damaged(file, "its tables", "it is a database of another program").into());
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "the peer's fields are doubles and JSON numbers")]
fn describe(found: &Found, meta: &Meta) -> Entry {
    let print = &found.print;
    let mtime_ns = print.wal.map_or(print.mtime_ns, |wal| wal.0.max(print.mtime_ns));
    let lineage = |part: &str, field: &str| {
        meta.get("lineage").and_then(|lineage| lineage.get(part)).and_then(|part| part.get(field)).cloned()
    };
    let summary =
        |field: &str| meta.get("summary").and_then(|map| map.get(field)).map(text_of).unwrap_or_default();
    let blank = Entry::empty(&found.filename);
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    Entry {
        // Seconds and the rest apart, as Python does it, so that both come to the same double.
        file_mtime: mtime_ns.div_euclid(1_000_000_000) as f64
            + 1e-9 * mtime_ns.rem_euclid(1_000_000_000) as f64,
        file_size: i64::try_from(print.size).unwrap_or(i64::MAX),
        config_path: meta.text("config_path"),
        pwd: meta.text("pwd"),
        config_type: or(meta.text("config_type"), "unknown"),
        status: meta.text("status"),
        last_active: meta.text("last_active"),
        created_at: meta.text("created_at"),
        format_version: meta.number("format_version").filter(|version| *version != 0).unwrap_or(1),
        node_id: meta.text("on_node"),
        terrarium_name: meta.text("terrarium_name"),
        conversation_open: meta.get("conversation_open").is_some_and(Value::truthy),
        conversation_id: Some(meta.text("conversation_id")).filter(|id| !id.is_empty()),
        parent_session_id: meta.parent(),
        fork_point: lineage("fork", "fork_point").as_ref().and_then(Value::as_i64),
        forked_children: children(meta),
        migrated_from_version: lineage("migration", "source_version").as_ref().and_then(Value::as_i64),
        title: meta.text("name"),
        summary: summary("text"),
        summary_source: summary("source"),
        lifecycle: meta
            .get("lifecycle")
            .filter(|map| map.as_map().is_some())
            .cloned()
            .unwrap_or(blank.lifecycle),
        ..blank
    }
}

fn children(meta: &Meta) -> Vec<String> {
    let listed = meta.get("forked_children").and_then(Value::as_list).unwrap_or_default();
    let id = |child: &Value| child.get("session_id").unwrap_or(child).as_str().map(str::to_owned);
    listed.iter().filter_map(id).collect()
}

fn extra(
    found: &Found,
    meta: &Meta,
    agents: &[String],
    tail: &Tail,
    rows: &dyn Rows,
) -> Result<Extra, Trouble> {
    let mut tokens = 0;
    for agent in agents {
        let key = format!("{agent}:token_usage").into_bytes();
        let Some(stored) = rows.value(Table::State.name(), &key)? else { continue };
        let usage = decoded(Table::State.name(), &key, &stored).unwrap_or_default();
        for field in ["total_input_tokens", "total_output_tokens"] {
            tokens += usage.get(field).and_then(Value::as_i64).unwrap_or(0);
        }
    }
    Ok(Extra {
        path: found.path.clone(),
        session_id: meta.text("session_id"),
        event_count: tail.event_count,
        total_tokens: tokens,
        wal_size: found.print.wal.map_or(0, |wal| i64::try_from(wal.2).unwrap_or(i64::MAX)),
        artifact_size: 0,
        damage: String::new(),
    })
}

/// The agents that meta names, then the owners of logs that it does not.
fn agents(meta: &Meta, rows: &dyn Rows) -> Result<Vec<String>, Trouble> {
    let listed = meta.get("agents").and_then(Value::as_list).unwrap_or_default();
    let mut agents: Vec<String> = listed.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut from = Vec::new();
    for _ in 0..MOST_AGENTS {
        let Some(key) = rows.event_key_from(&from)? else { break };
        let Some((name, _)) = parse_numbered(&key, EVENT_MARK) else {
            from = [key.as_slice(), b"\0"].concat();
            continue;
        };
        // A colon follows the digits, so this is past every number of that log.
        from = [event_prefix(name).as_slice(), b":"].concat();
        if name != FRAMEWORK && attached_parts(name).is_none() && !agents.iter().any(|known| known == name) {
            agents.push(name.to_owned());
        }
    }
    Ok(agents)
}

/// The agent whose conversation stands for the session.
fn primary<'a>(meta: &Meta, agents: &'a [String]) -> Option<&'a str> {
    let preferred = meta.get("viewer_default_agent").and_then(Value::as_str);
    let named = |name: &str| agents.iter().find(|agent| *agent == name);
    preferred.and_then(named).or_else(|| named("root")).or_else(|| agents.first()).map(String::as_str)
}

/// The last exchange with an agent: that of its snapshot, and what its newest events add to it.
/// `None` where neither says anything.
fn exchange(
    found: &Found,
    rows: &dyn Rows,
    agent: &str,
    tail: &Tail,
    damage: &mut String,
) -> Result<Option<Exchange>, Trouble> {
    let key = agent.as_bytes();
    let table = Table::Conversation.name();
    let mut exchange = match rows.value(table, key)? {
        None => None,
        Some(stored) => match codec::open(table, key, &stored) {
            Ok(Stored::Object(body)) => Exchange::of_snapshot(&body),
            Ok(Stored::Bytes(text)) => Exchange::of_json(text),
            Err(fault) => {
                *damage =
                    Error::damaged(&found.file, format!("{table}[{agent}]"), fault.to_string()).to_string();
                None
            }
        },
    };
    if tail.is_ahead {
        tail.add_to(agent, watermark(rows, agent)?, &mut exchange);
    }
    Ok(exchange)
}

/// The newest event that an agent's snapshot has seen.
fn watermark(rows: &dyn Rows, agent: &str) -> Result<Option<i64>, Trouble> {
    let key = format!("{agent}:snapshot_event_id").into_bytes();
    let stored = rows.value(Table::State.name(), &key)?;
    let found = stored.and_then(|stored| decoded(Table::State.name(), &key, &stored).ok());
    Ok(found.as_ref().and_then(Value::as_i64))
}

/// What the user last said to an agent; where no snapshot tells, what was said first.
fn preview(rows: &dyn Rows, agent: &str, exchange: Option<&Exchange>) -> Result<String, Trouble> {
    match exchange {
        Some(exchange) => Ok(exchange.preview.clone()),
        None => first_input(rows, agent, |content| flatten(content, PREVIEW)),
    }
}

/// Whether vectors were built for the session's memory.
fn has_vectors(rows: &dyn Rows) -> Result<bool, Trouble> {
    let key = b"vec_dimensions";
    for table in [MEMORY, Table::State.name()] {
        let Some(stored) = rows.value(table, key)? else { continue };
        if decoded(table, key, &stored).is_ok_and(|value| value.as_i64().is_some_and(|size| size > 0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;

    /// Every session that the peer made for us, unpacked.
    fn fixtures(target: &Path) -> Vec<PathBuf> {
        let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kohaku");
        let mut files = Vec::new();
        for name in ["terrarium", "all_event_types", "branches", "unicode", "vectors", "v1"] {
            let (path, mut bytes) = (packed.join(format!("{name}.kohakutr.gz")), Vec::new());
            let source = std::fs::File::open(path).unwrap();
            flate2::read::GzDecoder::new(source).read_to_end(&mut bytes).unwrap();
            files.push(target.join(format!("{name}.kohakutr")));
            std::fs::write(files.last().unwrap(), bytes).unwrap();
        }
        for name in ["sessions_dir", "fork", "artifacts"] {
            let source = std::fs::File::open(packed.join(format!("{name}.tar.gz"))).unwrap();
            let home = target.join(name);
            tar::Archive::new(flate2::read::GzDecoder::new(source)).unpack(&home).unwrap();
            let below = if name == "sessions_dir" { home.join("sessions") } else { home };
            let sessions = std::fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
            files.extend(sessions.filter(|path| path.to_string_lossy().contains(".kohakutr")));
        }
        files.retain(|path| path.is_file() && !path.ends_with("broken.kohakutr"));
        files
    }

    fn found(file: &Path) -> Found {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let print = Fingerprint::of(file).unwrap();
        Found {
            filename: name.clone(),
            path: name,
            file: file.to_owned(),
            print,
            is_quiet: false,
            has_artifacts: true,
        }
    }

    fn through_sqlite(found: &Found) -> Entry {
        let connection = crate::db::open::immutable(&found.file).unwrap();
        build(found, &Queried { connection: &connection, path: &found.file }).unwrap()
    }

    #[test]
    fn pages_and_sqlite_say_the_same_of_every_session() {
        let directory = tempfile::tempdir().unwrap();
        let files = fixtures(directory.path());
        // A file of this very tick is left to SQLite.
        std::thread::sleep(Duration::from_millis(50));

        let entries: Vec<(Entry, Entry)> = files
            .iter()
            .flat_map(|file| {
                // Once asked for by name, and once in a directory that stands still.
                let found = Found { is_quiet: true, ..found(file) };
                let still = Still::begin(file.parent().unwrap()).filter(|still| found.is_still(still));
                let still = still.map(Arc::new);
                let read = |still| from_pages(&found, still).unwrap();
                [(read(None), read(still.as_ref())), (read(None), through_sqlite(&found))]
            })
            .collect();

        assert!(entries.len() > 40);
        for (pages, sqlite) in entries {
            assert_eq!(pages, sqlite);
        }
    }

    #[test]
    fn no_file_makes_the_reader_panic() {
        let directory = tempfile::tempdir().unwrap();
        let whole = std::fs::read(&fixtures(directory.path())[0]).unwrap();
        let file = directory.path().join("x.kohakutr");

        let outcomes: Vec<bool> = (0..400)
            .map(|round: usize| {
                let mut bytes = whole.clone();
                let at = round.wrapping_mul(0x9e37_79b1) % bytes.len().min(200_000);
                bytes[at] ^= u8::try_from(round % 255 + 1).unwrap();
                if round.is_multiple_of(7) {
                    bytes.truncate(at);
                }
                std::fs::write(&file, bytes).unwrap();
                entry(&found(&file), None).is_ok()
            })
            .collect();

        assert!(outcomes.iter().any(|is_read| *is_read) && outcomes.iter().any(|is_read| !is_read));
    }
}
