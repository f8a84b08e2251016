//! Putting entries into the sidecar and taking them out: every row that says something of a session
//! is written in one transaction, so that none of them is ever alone.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};
use xxhash_rust::xxh3::xxh3_64;

use super::entry::{Entry, Extra, SEARCH_ROWID};
use super::moment;
use super::print;
use crate::codec::{self, Stored, Value, msgpack};
use crate::files::fingerprint::Fingerprint;
use crate::recall::{Words, analyse};

const ENTRIES: &str = "entries";
/// Why a session is not listed whose entry cannot be decoded.
pub const DAMAGED: &str = "its entry is damaged; the next refresh reads the session again";
/// The header of a text as the peer stores the names behind its text index.
const TEXT_HEADER: [u8; 10] = [0x89, 0x4b, 1, 6, 0, 0, 0, 0, 0x56, 0x4b];
/// Ends a field, so that no phrase goes on in the next one. Text cannot bring this token.
const END: &str = " \u{E000}";

/// An entry with all that can be made ready before the transaction.
#[derive(Debug)]
pub struct Ready {
    /// The entry.
    pub entry: Entry,
    words: Words,
}

impl Ready {
    /// Cuts the texts of an entry into words.
    pub fn of(entry: Entry) -> Self {
        let mut words = Words::default();
        let columns = entry.search_columns();
        for (at, text) in columns.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            // The preview mostly is what the user said last.
            if columns.iter().skip(at + 1).any(|later| later == text) {
                continue;
            }
            analyse(text, &mut words);
            words.body.push_str(END);
        }
        drop(columns);
        Self { entry, words }
    }
}

/// Number by which a session's id is looked up.
pub fn id_hash(id: &str) -> i64 {
    xxh3_64(id.as_bytes()).cast_signed()
}

/// Rows of the text indexes that wait for the end of their transaction.
///
/// A statement that keeps a journal of its own, as one with triggers does, makes full text write out
/// all that it holds. Behind the last of these it writes once.
#[derive(Default)]
pub struct Texts {
    waiting: Vec<Text>,
    /// How many entries of each status, kind and node no trigger has counted.
    uncounted: BTreeMap<[String; 3], i64>,
}

struct Text {
    ready: Ready,
    /// The row of the peer's index, and whether it is new.
    peer: (i64, bool),
    /// The row of ours, and whether it is new.
    ours: (i64, bool),
    /// Whether no row of either can be in the way.
    is_fresh: bool,
}

impl Texts {
    /// Writes what waits; no other row of the transaction may follow.
    pub fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        const COUNT: &str = "INSERT INTO amber_count (status, type, node, n) VALUES (?1, ?2, ?3, ?4) \
                             ON CONFLICT(status, type, node) DO UPDATE SET n = n + excluded.n";
        for ([status, kind, node], count) in &self.uncounted {
            connection.prepare_cached(COUNT)?.execute((status, kind, node, count))?;
        }
        for text in &self.waiting {
            put_peer_text(connection, &text.ready.entry, text.peer, text.is_fresh)?;
        }
        for text in &self.waiting {
            put_words(connection, &text.ready.words, text.ours)?;
        }
        Ok(())
    }
}

/// Writes the rows of an entry, those of the text indexes when `texts` are written; `print` is the
/// state of the file that it was read from. Where all tables were begun by this scan, which `is_fresh`
/// says, nothing is looked up, and triggers are taken to be off.
pub fn put(
    connection: &Connection,
    ready: Ready,
    print: Option<&Fingerprint>,
    texts: &mut Texts,
    is_fresh: bool,
) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO entries (key, value) VALUES (?1, ?2) \
                       ON CONFLICT(key) DO UPDATE SET value = excluded.value";
    // `FAIL` in place of `ABORT` spares a journal of the statement, into which the triggers would have
    // SQLite copy every page that it touches.
    const FRESH: &str = "INSERT OR FAIL INTO entries (key, value) VALUES (?1, ?2)";
    let entry = &ready.entry;
    let key = entry.filename.as_bytes();
    let known = if is_fresh { None } else { search_rowid(connection, key)? };
    let peer = match known {
        Some(rowid) => (rowid, false),
        None => (name_peer_text(connection, &entry.filename)?, true),
    };
    let value = codec::seal(ENTRIES, key, &entry.pack(peer.0));
    connection.prepare_cached(if is_fresh { FRESH } else { PUT })?.execute((key, value))?;
    let ours = put_private(connection, entry, is_fresh)?;
    put_file(connection, &entry.extra.path, print, Some(ours.0), None)?;
    if is_fresh {
        let counted = [&entry.status, &entry.config_type, &entry.node_id].map(String::clone);
        *texts.uncounted.entry(counted).or_default() += 1;
    } else {
        if entry.extra.path != entry.filename {
            // Where the file was taken to lie before it was read.
            connection
                .prepare_cached("DELETE FROM amber_file WHERE path = ?1 AND entry = ?2")?
                .execute((&entry.filename, ours.0))?;
        }
        forget_change(connection, key)?;
    }
    texts.waiting.push(Text { ready, peer, ours, is_fresh });
    Ok(())
}

/// Writes one entry whole.
pub fn put_one(connection: &Connection, ready: Ready, print: Option<&Fingerprint>) -> rusqlite::Result<()> {
    let mut texts = Texts::default();
    put(connection, ready, print, &mut texts, false)?;
    texts.write(connection)
}

/// Notes a session's file that cannot be read, and why; its entry leaves the listing.
pub fn put_unreadable(
    connection: &Connection,
    path: &str,
    print: Option<&Fingerprint>,
    reason: &str,
) -> rusqlite::Result<()> {
    if let Some(file) = file_of(connection, path)? {
        remove(connection, &file)?;
    }
    put_file(connection, path, print, None, Some(reason))
}

/// The key of the entry that was read from a path. Where two files have the same name, the key may
/// have gone over to the other one meanwhile.
fn file_of(connection: &Connection, path: &str) -> rusqlite::Result<Option<String>> {
    let found: Option<(String, Vec<u8>)> = connection
        .prepare_cached(
            "SELECT e.file, e.extra FROM amber_file f JOIN amber_entry e ON e.id = f.entry WHERE f.path = ?1",
        )?
        .query_row([path], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let is_of_path = |file: &str, extra: &[u8]| Extra::unpack(file, extra).path == path;
    Ok(found.filter(|(file, extra)| is_of_path(file, extra)).map(|(file, _)| file))
}

fn put_file(
    connection: &Connection,
    path: &str,
    print: Option<&Fingerprint>,
    entry: Option<i64>,
    reason: Option<&str>,
) -> rusqlite::Result<()> {
    // Replacing is quicker, but for the journal that each such statement takes.
    const PUT: &str = "INSERT INTO amber_file (path, print, entry, reason) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT(path) DO UPDATE SET print = ?2, entry = ?3, reason = ?4";
    connection.prepare_cached(PUT)?.execute((path, print::pack(print), entry, reason))?;
    Ok(())
}

/// Removes the entry of a path where it stands under another key than `file`.
pub fn forget_other_key(connection: &Connection, path: &str, file: &str) -> rusqlite::Result<()> {
    if let Some(known) = file_of(connection, path)?.filter(|known| known != file) {
        remove(connection, &known)?;
    }
    Ok(())
}

/// Forgets a file, and the entry that was read from it.
pub fn forget(connection: &Connection, path: &str) -> rusqlite::Result<()> {
    if let Some(file) = file_of(connection, path)? {
        remove(connection, &file)?;
    }
    connection.prepare_cached("DELETE FROM amber_file WHERE path = ?1")?.execute([path])?;
    Ok(())
}

/// Removes all rows of an entry; whether there was one.
pub fn remove(connection: &Connection, file: &str) -> rusqlite::Result<bool> {
    let key = file.as_bytes();
    let rowid = search_rowid(connection, key)?;
    if let Some(rowid) = rowid {
        remove_peer_text(connection, rowid)?;
    }
    let was_ours = remove_private(connection, file)?;
    let removed = connection.prepare_cached("DELETE FROM entries WHERE key = ?1")?.execute([key])?;
    forget_change(connection, key)?;
    Ok(was_ours || removed > 0)
}

/// Takes over what the peer wrote to or removed from `entries` since we last looked.
pub fn take_over(connection: &Connection) -> rusqlite::Result<()> {
    let changed: Vec<Vec<u8>> = connection
        .prepare_cached("SELECT key FROM amber_changed ORDER BY key")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for key in changed {
        let stored = stored_entry(connection, &key)?;
        let file = String::from_utf8_lossy(&key).into_owned();
        match stored.as_deref().map(|stored| (decode(&key, stored), stored)) {
            Some((Some(value), _)) => {
                let mut entry = Entry::of(&file, &value);
                entry.extra = extra_of(connection, &file)?;
                let path = entry.extra.path.clone();
                let ready = Ready::of(entry);
                let row = put_private(connection, &ready.entry, false)?;
                put_words(connection, &ready.words, row)?;
                // Read at the next reconcile, or gone by then.
                connection
                    .prepare_cached(
                        "INSERT OR IGNORE INTO amber_file (path, print, entry) VALUES (?1, x'', ?2)",
                    )?
                    .execute((path, row.0))?;
            }
            // What nobody can decode is dropped; the next reconcile reads the file again.
            Some((None, _)) => {
                let path = extra_of(connection, &file)?.path;
                remove(connection, &file)?;
                put_file(connection, &path, None, None, Some(DAMAGED))?;
            }
            None => {
                remove_private(connection, &file)?;
            }
        }
        forget_change(connection, &key)?;
    }
    Ok(())
}

/// Whether there is something to take over.
pub fn has_changes(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM amber_changed)")?.query_row([], |row| row.get(0))
}

/// Notes that an entry is not as we wrote it.
pub fn note_change(connection: &Connection, file: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO amber_changed (key) VALUES (?1)")?
        .execute([file.as_bytes()])?;
    Ok(())
}

fn forget_change(connection: &Connection, key: &[u8]) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM amber_changed WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// What is stored of an entry beyond the peer's fields.
fn extra_of(connection: &Connection, file: &str) -> rusqlite::Result<Extra> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT extra FROM amber_entry WHERE file = ?1")?
        .query_row([file], |row| row.get(0))
        .optional()?;
    Ok(Extra::unpack(file, &stored.unwrap_or_default()))
}

fn stored_entry(connection: &Connection, key: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT CAST(value AS BLOB) FROM entries WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

fn decode(key: &[u8], stored: &[u8]) -> Option<Value> {
    match codec::open(ENTRIES, key, stored) {
        Ok(Stored::Object(body)) => msgpack::decode(&body).ok().filter(|value| value.as_map().is_some()),
        _ => None,
    }
}

fn search_rowid(connection: &Connection, key: &[u8]) -> rusqlite::Result<Option<i64>> {
    let Some(stored) = stored_entry(connection, key)? else { return Ok(None) };
    Ok(match codec::open(ENTRIES, key, &stored) {
        Ok(Stored::Object(body)) => {
            msgpack::field(&body, SEARCH_ROWID).and_then(msgpack::as_i64).filter(|rowid| *rowid > 0)
        }
        _ => None,
    })
}

/// Keeps the name behind a new row of the peer's text index, and returns the row's number. Numbers of
/// names are never used again, so that none of the rows has it yet.
fn name_peer_text(connection: &Connection, file: &str) -> rusqlite::Result<i64> {
    let name = [&TEXT_HEADER, file.as_bytes()].concat();
    connection.prepare_cached("INSERT INTO search_values (value) VALUES (?1)")?.execute([name])?;
    Ok(connection.last_insert_rowid())
}

macro_rules! insert {
    ($verb:literal) => {
        concat!(
            $verb,
            " INTO search (rowid, name, preview, config_path, agents, pwd, terrarium_name, config_type, ",
            "title, summary, last_user, last_reply, value_ref) ",
            "VALUES (?12, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?13)"
        )
    };
}

/// Writes the row of the peer's text index.
fn put_peer_text(
    connection: &Connection,
    entry: &Entry,
    (rowid, is_new): (i64, bool),
    is_fresh: bool,
) -> rusqlite::Result<()> {
    const UPDATE: &str = "UPDATE search SET name = ?1, preview = ?2, config_path = ?3, agents = ?4, pwd = ?5, \
                          terrarium_name = ?6, config_type = ?7, title = ?8, summary = ?9, last_user = ?10, \
                          last_reply = ?11 WHERE rowid = ?12";
    // The second looks for a row to replace, which costs as much as the rest.
    const FRESH: &str = insert!("INSERT");
    const INSERT: &str = insert!("INSERT OR REPLACE");
    let columns = entry.peer_columns();
    if !is_new {
        let mut update = connection.prepare_cached(UPDATE)?;
        if bind_all(&mut update, &columns, &[rowid])? > 0 {
            return Ok(());
        }
    }
    // The peer may have lost the row that its entry leads to.
    let value = if is_new { rowid } else { name_peer_text(connection, &entry.filename)? };
    let insert = if is_fresh { FRESH } else { INSERT };
    bind_all(&mut *connection.prepare_cached(insert)?, &columns, &[rowid, value])?;
    Ok(())
}

fn bind_all(
    statement: &mut rusqlite::Statement<'_>,
    columns: &[Cow<'_, str>],
    numbers: &[i64],
) -> rusqlite::Result<usize> {
    for (at, text) in columns.iter().enumerate() {
        statement.raw_bind_parameter(at + 1, text.as_ref())?;
    }
    for (at, number) in numbers.iter().enumerate() {
        statement.raw_bind_parameter(columns.len() + at + 1, number)?;
    }
    statement.raw_execute()
}

fn remove_peer_text(connection: &Connection, rowid: i64) -> rusqlite::Result<()> {
    let value: Option<i64> = connection
        .prepare_cached("SELECT value_ref FROM search WHERE rowid = ?1")?
        .query_row([rowid], |row| row.get(0))
        .optional()?;
    if let Some(value) = value {
        connection.prepare_cached("DELETE FROM search_values WHERE id = ?1")?.execute([value])?;
        connection.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([rowid])?;
    }
    Ok(())
}

/// Writes the typed row and the agents of an entry; returns the row's id and whether it is new.
fn put_private(connection: &Connection, entry: &Entry, is_new: bool) -> rusqlite::Result<(i64, bool)> {
    const PUT: &str = "INSERT OR FAIL INTO amber_entry (file, active, created, name, status, type, node, format, \
                       session, parent, extra) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    const UPDATE: &str = "UPDATE amber_entry SET active = ?2, created = ?3, name = ?4, status = ?5, type = ?6, \
                          node = ?7, format = ?8, session = ?9, parent = ?10, extra = ?11 WHERE file = ?1";
    const FIND: &str = "SELECT id FROM amber_entry WHERE file = ?1";
    let known: Option<i64> = if is_new {
        None
    } else {
        connection.prepare_cached(FIND)?.query_row([&entry.filename], |row| row.get(0)).optional()?
    };
    let session = Some(&entry.extra.session_id).filter(|id| !id.is_empty()).map(|id| id_hash(id));
    connection.prepare_cached(if known.is_some() { UPDATE } else { PUT })?.execute((
        &entry.filename,
        moment::micros(&entry.last_active).unwrap_or(moment::UNKNOWN),
        moment::micros(&entry.created_at).unwrap_or(moment::UNKNOWN),
        &entry.name,
        &entry.status,
        &entry.config_type,
        &entry.node_id,
        entry.format_version,
        session,
        entry.parent_session_id.as_deref().map(id_hash),
        entry.extra.pack(&entry.filename),
    ))?;
    let id = known.unwrap_or_else(|| connection.last_insert_rowid());
    if known.is_some() {
        connection.prepare_cached("DELETE FROM amber_agent WHERE entry = ?1")?.execute([id])?;
    }
    let mut add =
        connection.prepare_cached("INSERT INTO amber_agent (entry, place, name) VALUES (?1, ?2, ?3)")?;
    for (place, name) in entry.agents.iter().enumerate() {
        add.execute((id, i64::try_from(place).unwrap_or(i64::MAX), name))?;
    }
    Ok((id, known.is_none()))
}

/// Puts the parts that many entries have left of our text index into one, which is searched quickest.
pub fn merge_words(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("INSERT INTO amber_search (amber_search) VALUES ('optimize')", []).map(drop)
}

/// Writes the words of an entry.
fn put_words(connection: &Connection, words: &Words, (id, is_new): (i64, bool)) -> rusqlite::Result<()> {
    if !is_new {
        connection.prepare_cached("DELETE FROM amber_search WHERE rowid = ?1")?.execute([id])?;
    }
    connection
        .prepare_cached("INSERT INTO amber_search (rowid, body, whole) VALUES (?1, ?2, ?3)")?
        .execute((id, &words.body, &words.whole))?;
    Ok(())
}

fn remove_private(connection: &Connection, file: &str) -> rusqlite::Result<bool> {
    let found: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT id, extra FROM amber_entry WHERE file = ?1")?
        .query_row([file], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, extra)) = found else { return Ok(false) };
    let path = Extra::unpack(file, &extra).path;
    connection
        .prepare_cached("DELETE FROM amber_file WHERE path = ?1 AND entry = ?2")?
        .execute((path, id))?;
    connection.prepare_cached("DELETE FROM amber_agent WHERE entry = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM amber_search WHERE rowid = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM amber_entry WHERE id = ?1")?.execute([id])?;
    Ok(true)
}
