//! Every table of a sidecar, and how one is opened.
//!
//! `entries`, `search`, `search_values` and `meta` are the peer's, shaped as `docs/index.md` says.
//! Tables that start with `amber_` are private: they can be rebuilt from the peer's and from the
//! session files, as the whole sidecar can.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::fault::translate;
use super::open;
use crate::error::Result;

/// The version of the peer's tables.
pub const SCHEMA_VERSION: i64 = 6;
/// The version of the private tables.
pub const PRIVATE_VERSION: i64 = 3;
/// The columns of the peer's text index, in its order; the peer rebuilds a sidecar that has others.
pub const SEARCH_COLUMNS: [&str; 11] = [
    "name",
    "preview",
    "config_path",
    "agents",
    "pwd",
    "terrarium_name",
    "config_type",
    "title",
    "summary",
    "last_user",
    "last_reply",
];

/// Rows of a sidecar are read more than written, and of 900 bytes pages of 4 KiB would waste a sixth.
const PAGE_SIZE: u32 = 16384;
/// Pages that are changed by many transactions of one scan are written back once: 16 MiB of log, and 128
/// while a sidecar is made from nothing.
const CHECKPOINT_PAGES: [u32; 2] = [1024, 8192];
/// KiB of pages kept, and while many rows are written, in whose indexes each lies elsewhere.
const CACHE: [u32; 2] = [16 << 10, 64 << 10];

const PEER: &str = "\
CREATE TABLE IF NOT EXISTS kohakuvault_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT OR IGNORE INTO kohakuvault_meta (key, value) VALUES ('kv_features', 'auto_pack_v1');
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(name, preview, config_path, agents, pwd, \
terrarium_name, config_type, title, summary, last_user, last_reply, value_ref UNINDEXED);
CREATE TABLE IF NOT EXISTS search_values (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS meta (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);";

/// A value that we sealed ends in `C1 A5` and eight bytes of checksum, so that the triggers on
/// `entries` note what somebody else wrote. `amber_count` makes every total a sum of a few rows; its first
/// trigger has no conflicts, since their handling would need a journal of each statement.
const PRIVATE: &str = "\
CREATE TABLE amber_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO amber_meta (name, value) VALUES ('version', 3);
CREATE TABLE amber_entry (id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE, active INTEGER NOT NULL, \
created INTEGER NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, type TEXT NOT NULL, node TEXT NOT NULL, \
format INTEGER NOT NULL, session INTEGER, parent INTEGER, extra BLOB NOT NULL);
CREATE INDEX amber_entry_active ON amber_entry (active DESC, file, status, type, node);
CREATE INDEX amber_entry_created ON amber_entry (created DESC, file);
CREATE INDEX amber_entry_name ON amber_entry (name);
CREATE INDEX amber_entry_status ON amber_entry (status DESC, file);
CREATE INDEX amber_entry_parent ON amber_entry (parent) WHERE parent IS NOT NULL;
CREATE TABLE amber_agent (entry INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, \
PRIMARY KEY (entry, place)) WITHOUT ROWID;
CREATE TABLE amber_count (status TEXT NOT NULL, type TEXT NOT NULL, node TEXT NOT NULL, n INTEGER NOT NULL, \
PRIMARY KEY (status, type, node)) WITHOUT ROWID;
CREATE TABLE amber_file (path TEXT PRIMARY KEY, print BLOB NOT NULL, entry INTEGER, reason TEXT) WITHOUT ROWID;
CREATE INDEX amber_file_unreadable ON amber_file (path, reason) WHERE reason IS NOT NULL;
CREATE TABLE amber_changed (key BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE amber_search USING fts5(body, whole, content='', contentless_delete=1);
CREATE TRIGGER amber_entry_counted AFTER INSERT ON amber_entry
BEGIN
INSERT INTO amber_count SELECT NEW.status, NEW.type, NEW.node, 0 WHERE NOT EXISTS (SELECT 1 FROM amber_count \
WHERE status = NEW.status AND type = NEW.type AND node = NEW.node);
UPDATE amber_count SET n = n + 1 WHERE status = NEW.status AND type = NEW.type AND node = NEW.node;
END;
CREATE TRIGGER amber_entry_recounted AFTER UPDATE OF status, type, node ON amber_entry
WHEN (OLD.status, OLD.type, OLD.node) <> (NEW.status, NEW.type, NEW.node)
BEGIN
UPDATE amber_count SET n = n - 1 WHERE status = OLD.status AND type = OLD.type AND node = OLD.node;
DELETE FROM amber_count WHERE status = OLD.status AND type = OLD.type AND node = OLD.node AND n <= 0;
INSERT OR IGNORE INTO amber_count VALUES (NEW.status, NEW.type, NEW.node, 0);
UPDATE amber_count SET n = n + 1 WHERE status = NEW.status AND type = NEW.type AND node = NEW.node;
END;
CREATE TRIGGER amber_entry_uncounted AFTER DELETE ON amber_entry
BEGIN
UPDATE amber_count SET n = n - 1 WHERE status = OLD.status AND type = OLD.type AND node = OLD.node;
DELETE FROM amber_count WHERE status = OLD.status AND type = OLD.type AND node = OLD.node AND n <= 0;
END;
CREATE TRIGGER amber_peer_added AFTER INSERT ON entries WHEN substr(NEW.value, -10, 2) <> x'C1A5'
BEGIN INSERT OR REPLACE INTO amber_changed VALUES (NEW.key); END;
CREATE TRIGGER amber_peer_rewrote AFTER UPDATE ON entries WHEN substr(NEW.value, -10, 2) <> x'C1A5'
BEGIN INSERT OR REPLACE INTO amber_changed VALUES (NEW.key); END;
CREATE TRIGGER amber_peer_removed AFTER DELETE ON entries
WHEN EXISTS (SELECT 1 FROM amber_entry WHERE file = CAST(OLD.key AS TEXT))
BEGIN INSERT OR REPLACE INTO amber_changed VALUES (OLD.key); END;
INSERT INTO amber_changed SELECT key FROM entries;";

/// Opens the sidecar at `path` for reading and writing, making the file where there is none; its
/// tables are not looked at yet.
pub fn writable(path: &Path) -> Result<Connection> {
    let connection = open::untouched(path)?;
    let pragmas = format!(
        "PRAGMA page_size={PAGE_SIZE}; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; \
         PRAGMA cache_size=-{}; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint={};",
        CACHE[0], CHECKPOINT_PAGES[0],
    );
    connection.execute_batch(&pragmas).map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Opens a second connection on a sidecar that reads what the first one commits.
pub fn reader(path: &Path) -> Result<Connection> {
    let connection = open::reader(path)?;
    connection
        .execute_batch(&format!("PRAGMA cache_size=-{};", CACHE[0]))
        .map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Makes room for the pages of many new rows, or as much as there is otherwise.
pub fn make_room(connection: &Connection, for_many: bool) -> rusqlite::Result<()> {
    let (cache, pages) = (CACHE[usize::from(for_many)], CHECKPOINT_PAGES[usize::from(for_many)]);
    connection.execute_batch(&format!("PRAGMA cache_size=-{cache}; PRAGMA wal_autocheckpoint={pages};"))
}

/// Makes the tables that are missing, the peer's and the private ones.
///
/// Rows that the peer wrote before are noted as changed: they are taken over like any later ones.
pub fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    // Whoever only reads need not wait for another process that writes.
    if is_whole(connection)? {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = make(connection);
    let ended = connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" });
    made.and(ended)
}

fn is_whole(connection: &Connection) -> rusqlite::Result<bool> {
    for table in ["kohakuvault_meta", "entries", "search", "search_values", "meta"] {
        if !super::schema::has_table(connection, table)? {
            return Ok(false);
        }
    }
    Ok(private_version(connection)? == Some(PRIVATE_VERSION))
}

fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(PEER)?;
    match private_version(connection)? {
        Some(PRIVATE_VERSION) => Ok(()),
        None => connection.execute_batch(PRIVATE),
        Some(_) => {
            drop_private(connection)?;
            connection.execute_batch(PRIVATE)
        }
    }
}

/// The version of the private tables, where there are any.
pub fn private_version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !super::schema::has_table(connection, "amber_meta")? {
        return Ok(None);
    }
    let version =
        connection.query_row("SELECT value FROM amber_meta WHERE name = 'version'", [], |row| row.get(0));
    version.optional().map(|found| found.or(Some(0)))
}

fn drop_private(connection: &Connection) -> rusqlite::Result<()> {
    const OURS: &str = "SELECT type, name FROM sqlite_master WHERE name LIKE 'amber\\_%' ESCAPE '\\' \
                        AND type IN ('table', 'trigger') AND name NOT LIKE 'amber\\_search\\_%' ESCAPE '\\'";
    let named: Vec<(String, String)> = connection
        .prepare(OURS)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for kind in ["trigger", "table"] {
        for (_, name) in named.iter().filter(|(found, _)| found == kind) {
            let name = name.replace('"', "\"\"");
            connection.execute_batch(&format!("DROP {kind} IF EXISTS \"{name}\""))?;
        }
    }
    Ok(())
}

/// The names that SQLite keeps a database under: the file and what may lie beside it.
pub fn companions(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let name = path.as_os_str().to_owned();
    ["", "-wal", "-shm", "-journal"].into_iter().map(move |suffix| {
        let mut name = name.clone();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// What moves with every write: of other connections, and of this one.
pub fn changes(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let others = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    let own = connection.prepare_cached("SELECT total_changes()")?.query_row([], |row| row.get(0))?;
    Ok((others, own))
}

/// Whether the file may only be read, though it was asked for in both ways.
pub fn is_readonly(connection: &Connection) -> rusqlite::Result<bool> {
    connection.is_readonly("main")
}

/// Opens a sidecar that lives in memory, for a directory that may not be written.
pub fn in_memory() -> Result<Connection> {
    let connection = open::in_memory()?;
    connection
        .execute_batch("PRAGMA temp_store=MEMORY;")
        .map_err(|source| translate(Path::new(":memory:"), "open", &source))?;
    Ok(connection)
}
