//! The one table of the peer's transcript store, and how its file is opened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::translate;
use super::schema::has_table;
use super::{open, sidecar};
use crate::error::Result;

/// Pages that are changed by many small writes are written back once: 16 MiB of log.
const CHECKPOINT_PAGES: u32 = 4096;

/// Tables, columns and indexes are the peer's.
const SESSIONS: &str = "\
CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, data TEXT NOT NULL, agent_name TEXT, \
gateway_session_id TEXT, agent_id TEXT, updated_at TEXT);
CREATE INDEX IF NOT EXISTS idx_sessions_gateway ON sessions(gateway_session_id);
CREATE INDEX IF NOT EXISTS idx_sessions_agent ON sessions(agent_id);
CREATE INDEX IF NOT EXISTS idx_sessions_agent_name ON sessions(agent_name);
CREATE INDEX IF NOT EXISTS idx_sessions_updated ON sessions(updated_at);";

/// How long a connection waits for another writer; each write says it anew.
#[derive(Debug, Clone, Default)]
pub struct Patience(Arc<AtomicU64>);

impl Patience {
    /// Sets how long is waited from now on.
    pub fn set(&self, timeout: Duration) {
        self.0.store(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn ends(&self, since: Instant) -> bool {
        since.elapsed() > Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Opens the file for reading and writing, making it where there is none; `sync` has every commit
/// on disk when it returns.
pub fn writable(path: &Path, sync: bool, patience: &Patience) -> Result<Connection> {
    let mut connection = open::untouched(path)?;
    if sidecar::is_readonly(&connection).map_err(|source| translate(path, "open", &source))? {
        return Ok(connection);
    }
    let level = if sync { "FULL" } else { "NORMAL" };
    let pragmas = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={level}; PRAGMA temp_store=MEMORY; \
         PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES};"
    );
    connection.execute_batch(&pragmas).map_err(|source| translate(path, "open", &source))?;
    wait_in_short_steps(&mut connection, patience.clone())
        .map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Makes the table and its indexes where they are missing; whether it made them.
pub fn create_tables(connection: &Connection) -> rusqlite::Result<bool> {
    if has_table(connection, "sessions")? {
        return Ok(false);
    }
    connection.execute_batch(SESSIONS)?;
    Ok(true)
}

/// A number that changes when another connection has committed, and with no commit of this one.
pub fn version_of_others(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// Waits so that a writer gets its turn soon after the lock is free: SQLite's own handler doubles
/// its pauses, and whoever has waited longest then waits longest for the next look.
fn wait_in_short_steps(connection: &mut Connection, patience: Patience) -> rusqlite::Result<()> {
    const SHORT: Duration = Duration::from_micros(50);
    const LONG: Duration = Duration::from_millis(1);
    let mut since = Instant::now();
    connection.busy_handler(Some(move |attempt: i32| {
        if attempt == 0 {
            since = Instant::now();
        }
        if patience.ends(since) {
            return false;
        }
        std::thread::sleep(if attempt < 40 { SHORT } else { LONG });
        true
    }))
}
