//! Every table of a bundle: the peer's eight, its text index, and the private ones.
//!
//! The peer's shapes are those of `docs/format.md`. Private tables start with `amber_`; each can be
//! rebuilt from the peer's tables but for the older snapshots in `amber_segment`.

use rusqlite::{Connection, OptionalExtension};

/// The newest `meta.format_version` that is understood.
pub const FORMAT_VERSION: i64 = 2;
/// The version of the private tables.
pub const PRIVATE_VERSION: i64 = 1;

/// One of the eight key-value tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row a field of the session's description.
    Meta,
    /// Slots of agents and counters.
    State,
    /// The log.
    Events,
    /// Messages of channels.
    Channels,
    /// Runs of sub-agents.
    Subagents,
    /// Records of jobs.
    Jobs,
    /// The newest messages of each agent.
    Conversation,
    /// One row a turn.
    TurnRollup,
}

/// The statements on one key-value table.
pub struct KvSql {
    /// Makes the table.
    pub create: &'static str,
    /// The value of one key.
    pub get: &'static str,
    /// Writes a value over whatever the key held.
    pub put: &'static str,
    /// Writes a value under a new key, and fails where the key is taken. `FAIL` in place of `ABORT`
    /// spares a journal of the statement, which the triggers on the log would make SQLite keep.
    pub insert: &'static str,
    /// Removes a key.
    pub delete: &'static str,
    /// Keys and values from a key on.
    pub scan: &'static str,
    /// Keys from a key on.
    pub keys: &'static str,
    /// Rows after a rowid.
    pub after: &'static str,
    /// How many rows there are.
    pub count: &'static str,
    /// Keys and values of one length between two keys.
    pub span: &'static str,
    /// The same, from the last one.
    pub span_back: &'static str,
    /// The last key of one length between two keys.
    pub last: &'static str,
    /// The row written last.
    pub newest: &'static str,
}

macro_rules! kv_sql {
    ($table:literal) => {
        KvSql {
            create: concat!(
                "CREATE TABLE IF NOT EXISTS ",
                $table,
                " (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
            ),
            get: concat!("SELECT value FROM ", $table, " WHERE key = ?1"),
            put: concat!(
                "INSERT INTO ",
                $table,
                " (key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
            ),
            insert: concat!("INSERT OR FAIL INTO ", $table, " (key, value) VALUES (?1, ?2)"),
            delete: concat!("DELETE FROM ", $table, " WHERE key = ?1"),
            scan: concat!("SELECT key, value FROM ", $table, " WHERE key >= ?1 ORDER BY key"),
            keys: concat!("SELECT key FROM ", $table, " WHERE key >= ?1 ORDER BY key"),
            after: concat!(
                "SELECT rowid, key, value FROM ",
                $table,
                " WHERE rowid > ?1 ORDER BY rowid LIMIT ?2"
            ),
            count: concat!("SELECT count(*) FROM ", $table),
            span: concat!(
                "SELECT key, value FROM ",
                $table,
                " WHERE key BETWEEN ?1 AND ?2 AND length(key) = ?3 ORDER BY key LIMIT ?4"
            ),
            span_back: concat!(
                "SELECT key, value FROM ",
                $table,
                " WHERE key BETWEEN ?1 AND ?2 AND length(key) = ?3 ORDER BY key DESC LIMIT ?4"
            ),
            last: concat!(
                "SELECT key FROM ",
                $table,
                " WHERE key BETWEEN ?1 AND ?2 AND length(key) = ?3 ORDER BY key DESC"
            ),
            newest: concat!("SELECT key, value FROM ", $table, " ORDER BY rowid DESC LIMIT 1"),
        }
    };
}

impl Table {
    /// All of them, in the order in which the peer makes them.
    pub const ALL: [Self; 8] = [
        Self::Meta,
        Self::State,
        Self::Events,
        Self::Channels,
        Self::Subagents,
        Self::Jobs,
        Self::Conversation,
        Self::TurnRollup,
    ];

    /// The table's name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::State => "state",
            Self::Events => "events",
            Self::Channels => "channels",
            Self::Subagents => "subagents",
            Self::Jobs => "jobs",
            Self::Conversation => "conversation",
            Self::TurnRollup => "turn_rollup",
        }
    }

    /// The table of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its statements.
    pub const fn sql(self) -> &'static KvSql {
        const META: KvSql = kv_sql!("meta");
        const STATE: KvSql = kv_sql!("state");
        const EVENTS: KvSql = kv_sql!("events");
        const CHANNELS: KvSql = kv_sql!("channels");
        const SUBAGENTS: KvSql = kv_sql!("subagents");
        const JOBS: KvSql = kv_sql!("jobs");
        const CONVERSATION: KvSql = kv_sql!("conversation");
        const TURN_ROLLUP: KvSql = kv_sql!("turn_rollup");
        match self {
            Self::Meta => &META,
            Self::State => &STATE,
            Self::Events => &EVENTS,
            Self::Channels => &CHANNELS,
            Self::Subagents => &SUBAGENTS,
            Self::Jobs => &JOBS,
            Self::Conversation => &CONVERSATION,
            Self::TurnRollup => &TURN_ROLLUP,
        }
    }
}

/// Tables that are made together, when the first of them is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// What we know of the file beyond its rows.
    Private,
    /// The log, its owners and the trigger that notices rows of other writers.
    Log,
    /// Snapshots of every turn.
    Snapshot,
    /// The keyword index that our searches use.
    Text,
    /// Events that only the keyword index knows.
    Given,
    /// Vectors of blocks.
    Vectors,
    /// What finds the nearest among very many of them.
    Graph,
    /// The keyword index that the peer's searches use.
    PeerText,
}

const PRIVATE: &str = "\
CREATE TABLE IF NOT EXISTS kohakuvault_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT OR IGNORE INTO kohakuvault_meta (key, value) VALUES ('kv_features', 'auto_pack_v1');
CREATE TABLE IF NOT EXISTS amber_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT OR IGNORE INTO amber_meta (name, value) VALUES ('version', 1);";

/// A value that we sealed ends in `C1 A5` and eight bytes of checksum; any other row is somebody else's.
const LOG: &str = "\
CREATE TABLE IF NOT EXISTS events (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS amber_namespace (name TEXT PRIMARY KEY, ordered INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS amber_foreign (row INTEGER PRIMARY KEY, rewritten INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS amber_landmark (agent TEXT, kind INTEGER, place INTEGER, value INTEGER NOT NULL, PRIMARY KEY (agent, kind, place)) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS amber_event_added AFTER INSERT ON events
WHEN substr(NEW.value, -10, 2) <> x'C1A5'
BEGIN INSERT OR REPLACE INTO amber_foreign VALUES (NEW.rowid, 0); END;
CREATE TRIGGER IF NOT EXISTS amber_event_rewritten AFTER UPDATE ON events
BEGIN INSERT OR REPLACE INTO amber_foreign VALUES (NEW.rowid, 1); END;";

const SNAPSHOT: &str = "\
CREATE TABLE IF NOT EXISTS amber_agent (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS amber_segment (id INTEGER PRIMARY KEY, messages INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS amber_snapshot (id INTEGER PRIMARY KEY, agent INTEGER NOT NULL, turn INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS amber_snapshot_turn ON amber_snapshot (agent, turn);";

/// A block's id says which row it was cut from, so that it is the same whenever the index is made; its
/// text is not kept. Names of agents, tools and types are numbers that `amber_name` spells.
const TEXT: &str = "\
CREATE TABLE IF NOT EXISTS amber_name (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS amber_block (id INTEGER PRIMARY KEY, owner INTEGER NOT NULL, kind INTEGER NOT NULL, type INTEGER NOT NULL, live INTEGER NOT NULL, length INTEGER NOT NULL, place INTEGER NOT NULL, round INTEGER NOT NULL, block INTEGER NOT NULL, turn INTEGER, event_id INTEGER NOT NULL, tool INTEGER, channel INTEGER, ts REAL NOT NULL);
CREATE TABLE IF NOT EXISTS amber_lane (owner INTEGER NOT NULL, origin INTEGER NOT NULL, row INTEGER NOT NULL, place INTEGER NOT NULL, round INTEGER NOT NULL, block INTEGER NOT NULL, in_round INTEGER NOT NULL, is_said INTEGER NOT NULL, asked INTEGER, turn INTEGER, branch INTEGER NOT NULL, top INTEGER, loose INTEGER NOT NULL, form INTEGER NOT NULL, PRIMARY KEY (owner, origin)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS amber_turn (owner INTEGER NOT NULL, origin INTEGER NOT NULL, turn INTEGER NOT NULL, branch INTEGER NOT NULL, highest INTEGER NOT NULL, row INTEGER NOT NULL, place INTEGER NOT NULL, round INTEGER NOT NULL, block INTEGER NOT NULL, in_round INTEGER NOT NULL, PRIMARY KEY (owner, origin, turn)) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS amber_text USING fts5(body, whole, content='', contentless_delete=1);";

/// Events that were handed to a search without being part of the log. A number is never used again, for
/// blocks are called by it.
const GIVEN: &str = "\
CREATE TABLE IF NOT EXISTS amber_given (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);";

/// Numbers are little-endian; a vector of zeros is kept as no bytes. `cleared` counts how often vectors of
/// a model were taken away, `last` is the last one that was added.
const VECTORS: &str = "\
CREATE TABLE IF NOT EXISTS amber_vector (id INTEGER PRIMARY KEY, model INTEGER NOT NULL, block INTEGER NOT NULL, digest INTEGER NOT NULL, numbers BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS amber_vector_block ON amber_vector (model, block);
CREATE TABLE IF NOT EXISTS amber_model (id INTEGER PRIMARY KEY, name TEXT NOT NULL, dimensions INTEGER NOT NULL, cleared INTEGER NOT NULL, last INTEGER NOT NULL, UNIQUE (name, dimensions));";

/// Graphs of the vectors of a model, each in parts.
const GRAPH: &str = "\
CREATE TABLE IF NOT EXISTS amber_graph (id INTEGER PRIMARY KEY, model INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (model, part));";

const PEER_TEXT: &str = "\
CREATE VIRTUAL TABLE IF NOT EXISTS fts USING fts5(content, value_ref UNINDEXED);
CREATE TABLE IF NOT EXISTS fts_values (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);";

impl Group {
    /// The statements that make the group's tables where they are missing.
    pub const fn ddl(self) -> &'static str {
        match self {
            Self::Private => PRIVATE,
            Self::Log => LOG,
            Self::Snapshot => SNAPSHOT,
            Self::Text => TEXT,
            Self::Given => GIVEN,
            Self::Vectors => VECTORS,
            Self::Graph => GRAPH,
            Self::PeerText => PEER_TEXT,
        }
    }

    /// The table by which one tells whether the group is there.
    pub const fn witness(self) -> &'static str {
        match self {
            Self::Private => "amber_meta",
            Self::Log => "amber_foreign",
            Self::Snapshot => "amber_snapshot",
            Self::Text => "amber_lane",
            Self::Given => "amber_given",
            Self::Vectors => "amber_model",
            Self::Graph => "amber_graph",
            Self::PeerText => "fts",
        }
    }
}

/// Whether the file has a table of that name.
pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    // What the connection remembers of the file can lack a table that another one has made since; no
    // table is ever taken away.
    if connection.table_exists(Some("main"), name)? {
        return Ok(true);
    }
    connection
        .prepare_cached("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1")?
        .query_row([name], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

/// How many tables the file has, SQLite's own left out.
pub fn table_count(connection: &Connection) -> rusqlite::Result<i64> {
    const COUNT: &str =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    connection.query_row(COUNT, [], |row| row.get(0))
}
