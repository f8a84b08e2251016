//! Every table of a chat directory's index, and how one is opened.
//!
//! `session_fts`, `session_meta`, `session_route` and `session_index_meta` are the peer's, with its
//! names and shapes, for it reads and writes them. Tables that start with `amber_` are private; all
//! of them can be made again from the session files.

use std::path::Path;

use rusqlite::Connection;

use super::fault::translate;
use super::{open, schema};
use crate::error::Result;

/// The version of the private tables.
const VERSION: i64 = 1;
const PAGE_SIZE: u32 = 4096;
/// Pages that a log collects before it is written back: 16 MiB.
const CHECKPOINT_PAGES: u32 = 4096;

const TEXT: &str = "CREATE VIRTUAL TABLE session_fts USING fts5(session_id UNINDEXED, content);";
const PLAIN_TEXT: &str = "CREATE TABLE session_fts (session_id TEXT PRIMARY KEY, content TEXT);";
const PEER: &str = "\
CREATE TABLE IF NOT EXISTS session_meta (session_id TEXT PRIMARY KEY, updated_at TEXT);
CREATE TABLE IF NOT EXISTS session_route (session_id TEXT PRIMARY KEY, gateway_session_id TEXT, agent_id TEXT);
CREATE INDEX IF NOT EXISTS idx_route_gateway ON session_route(gateway_session_id);
CREATE INDEX IF NOT EXISTS idx_route_agent ON session_route(agent_id);
CREATE INDEX IF NOT EXISTS idx_route_agent_session ON session_route(agent_id, session_id);
CREATE TABLE IF NOT EXISTS session_index_meta (key TEXT PRIMARY KEY, value TEXT);
DELETE FROM session_meta;
DELETE FROM session_route;
INSERT OR REPLACE INTO session_index_meta (key, value) VALUES ('content_version', '2');";

/// `told` says whether the peer's tables hold the session as it is; `text_row` is its row there.
/// Generations and segments are counted from where no other index of the name counts.
/// The trigger notes which sessions the peer wrote of.
const PRIVATE: &str = "\
CREATE TABLE amber_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO amber_meta (name, value) VALUES ('version', 1), \
('generation', (random() & 1099511627775) << 20), ('segment', random() & 1073741823);
CREATE TABLE amber_session (id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE, print BLOB NOT NULL, \
hash INTEGER NOT NULL, reason TEXT, session_id TEXT NOT NULL, updated TEXT NOT NULL, row TEXT NOT NULL, \
agent_name TEXT, gateway TEXT, agent TEXT, shown TEXT NOT NULL, automated INTEGER NOT NULL, lineage TEXT, \
segment INTEGER NOT NULL, place INTEGER NOT NULL, told INTEGER NOT NULL, text_row INTEGER);
CREATE INDEX amber_session_updated ON amber_session (updated DESC, file DESC) WHERE reason IS NULL;
CREATE INDEX amber_session_name ON amber_session (agent_name, file) WHERE agent_name IS NOT NULL;
CREATE INDEX amber_session_gateway ON amber_session (gateway) WHERE gateway IS NOT NULL;
CREATE INDEX amber_session_agent ON amber_session (agent, session_id) WHERE agent IS NOT NULL;
CREATE INDEX amber_session_id ON amber_session (session_id);
CREATE INDEX amber_session_segment ON amber_session (segment);
CREATE INDEX amber_session_untold ON amber_session (id) WHERE told = 0;
CREATE TABLE amber_segment (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, messages BLOB NOT NULL, \
dictionary INTEGER NOT NULL);
CREATE TABLE amber_page (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE amber_peer (session_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TRIGGER amber_peer_wrote AFTER INSERT ON session_meta
BEGIN INSERT OR REPLACE INTO amber_peer VALUES (NEW.session_id); END;";

const PRIVATE_NAMES: &str = "\
DROP TRIGGER IF EXISTS amber_peer_wrote; DROP TABLE IF EXISTS amber_peer; DROP TABLE IF EXISTS amber_page; \
DROP TABLE IF EXISTS amber_segment; DROP TABLE IF EXISTS amber_session; DROP TABLE IF EXISTS amber_meta;";

/// Opens the index at `path` for reading and writing, making the file where there is none; its
/// tables are not looked at yet.
pub fn writable(path: &Path) -> Result<Connection> {
    let connection = open::untouched(path)?;
    let pragmas = format!(
        "PRAGMA page_size={PAGE_SIZE}; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; \
         PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES};"
    );
    connection.execute_batch(&pragmas).map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Opens a second connection that reads what the first one commits.
pub fn reader(path: &Path) -> Result<Connection> {
    open::reader(path)
}

/// Opens an index that lives in memory.
pub fn in_memory() -> Result<Connection> {
    open::in_memory()
}

/// Whether the file may only be read, though it was asked for in both ways.
pub fn is_readonly(connection: &Connection) -> rusqlite::Result<bool> {
    connection.is_readonly("main")
}

/// Makes the tables where they are missing or of another version. What the peer wrote before goes:
/// nothing tells whether it is true.
///
/// Without `full_text` the text table is a plain one, unless there is another already.
pub fn create_tables(connection: &Connection, full_text: bool) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = make(connection, full_text);
    let ended = connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" });
    made.and(ended)
}

fn make(connection: &Connection, full_text: bool) -> rusqlite::Result<()> {
    if is_whole(connection)? {
        return Ok(());
    }
    connection.execute_batch(PRIVATE_NAMES)?;
    let is_foreign = !full_text && has_full_text(connection)?;
    if !is_foreign {
        connection.execute_batch("DROP TABLE IF EXISTS session_fts;")?;
        connection.execute_batch(if full_text { TEXT } else { PLAIN_TEXT })?;
    }
    connection.execute_batch(PEER)?;
    connection.execute_batch(PRIVATE)
}

fn is_whole(connection: &Connection) -> rusqlite::Result<bool> {
    for table in ["amber_meta", "amber_session", "amber_segment", "amber_page", "amber_peer"] {
        if !schema::has_table(connection, table)? {
            return Ok(false);
        }
    }
    for table in ["session_fts", "session_meta", "session_route", "session_index_meta"] {
        if !schema::has_table(connection, table)? {
            return Ok(false);
        }
    }
    let version: i64 =
        connection.query_row("SELECT value FROM amber_meta WHERE name = 'version'", [], |row| row.get(0))?;
    Ok(version == VERSION)
}

/// Whether the peer's text table is one of full text.
pub fn has_full_text(connection: &Connection) -> rusqlite::Result<bool> {
    schema::has_table(connection, "session_fts_content")
}
