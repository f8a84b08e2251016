//! The only place that opens a database, with its flags and pragmas.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::translate;
use super::{fork, vfs};
use crate::error::{Error, Result};

/// How long a writer waits for another one.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a page in files made here: an event row rewrites a few of them, so small ones cost least.
const PAGE_SIZE: u32 = 1024;
/// Bytes that a log keeps on disk after it was written back.
const LOG_LIMIT: u32 = 4 << 20;
const STATEMENTS: usize = 96;

/// Tries until nobody is in the way, or for as long as a writer waits.
///
/// Two processes that make one file at once both turn it to write-ahead mode, and SQLite tells one of
/// them that it is busy without asking the busy handler. That one must start over with a new connection.
pub fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    const PAUSE: Duration = Duration::from_millis(2);
    let started = Instant::now();
    loop {
        match attempt() {
            Err(Error::Busy { .. }) if started.elapsed() < BUSY_TIMEOUT => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

/// Opens `path` for reading and writing, making the file where there is none.
pub fn writable(path: &Path) -> Result<Connection> {
    let connection = untouched(path)?;
    prepare(&connection, path)?;
    Ok(connection)
}

/// The same, before anything is changed: the file may turn out to be somebody else's.
pub fn untouched(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(path, path, flags)?;
    connection
        .execute_batch("PRAGMA trusted_schema=OFF;")
        .map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Whether closing the last connection of the file leaves its log as it is.
pub fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Whether what this connection writes sets off the triggers of the file.
///
/// They tell rows of others from ours. An append need not be told, and with a trigger SQLite copies every
/// page that a row changes, so as to undo that row alone.
pub fn set_triggers(connection: &Connection, on: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on).map(drop)
}

/// Puts the file into the form that a writer of ours needs.
pub fn prepare(connection: &Connection, path: &Path) -> Result<()> {
    let pragmas = format!(
        "PRAGMA page_size={PAGE_SIZE}; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; \
         PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={LOG_LIMIT}; PRAGMA temp_store=MEMORY; \
         PRAGMA cache_spill=OFF;"
    );
    connection.execute_batch(&pragmas).map_err(|source| translate(path, "open", &source))
}

/// Opens a new file that nobody knows of yet: without a log and without a sync, since what is not
/// finished of it is thrown away.
pub fn aside(path: &Path) -> Result<Connection> {
    let connection = untouched(path)?;
    let pragmas = format!(
        "PRAGMA page_size={PAGE_SIZE}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; \
         PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536; PRAGMA temp_store=MEMORY;"
    );
    connection.execute_batch(&pragmas).map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Makes a file that was written aside one that is used with a log, and closes it.
pub fn finish_aside(connection: Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA journal_mode=WAL;")?;
    connection.close().map_err(|(_, source)| source)
}

/// Opens a second connection that reads what the writer of this process commits.
pub fn reader(path: &Path) -> Result<Connection> {
    read_only(connect(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY)?, path)
}

fn read_only(connection: Connection, path: &Path) -> Result<Connection> {
    connection
        .execute_batch("PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF;")
        .map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Has commits begin a log without a sync of its first bytes, or with one as they otherwise do.
///
/// That sync costs as much as a resume. Of a log that was empty, the sync that follows every commit
/// covers those bytes too.
pub fn sync_new_log(connection: &Connection, on: bool) -> rusqlite::Result<()> {
    connection.execute_batch(if on { "PRAGMA synchronous=NORMAL;" } else { "PRAGMA synchronous=OFF;" })
}

/// Opens a connection that does nothing but checkpoint.
pub fn checkpointer(path: &Path) -> Result<Connection> {
    let connection = connect(path, path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .execute_batch("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;")
        .map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// Opens a file that nobody writes while it is read: no lock is taken and no file made beside it.
pub fn immutable(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    read_only(connect(&immutable_uri(path), path, flags)?, path)
}

/// Opens a database that lives in memory alone.
pub fn in_memory() -> Result<Connection> {
    fork::watch();
    Connection::open_in_memory().map_err(|source| translate(Path::new(":memory:"), "open", &source))
}

fn connect(target: &Path, path: &Path, flags: OpenFlags) -> Result<Connection> {
    fork::watch();
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match vfs::file_system() {
        Some(file_system) => Connection::open_with_flags_and_vfs(target, flags, file_system),
        // The system's own: slower, and no less true.
        None => Connection::open_with_flags(target, flags),
    };
    let mut connection = opened.map_err(|source| open_error(path, &source))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    wait_for_writers(&mut connection).map_err(|source| translate(path, "open", &source))?;
    Ok(connection)
}

/// How much of the log a checkpoint writes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoint {
    /// What no reader still needs, without waiting for anybody.
    Passive,
    /// All of it, leaving an empty log; busy while somebody reads.
    Truncate,
}

/// Writes the log back into the file.
pub fn checkpoint(connection: &Connection, how: Checkpoint) -> rusqlite::Result<()> {
    let pragma = match how {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    connection.query_row(pragma, [], |_| Ok(()))
}

/// SQLite's own look at the whole file, text indexes included; one line a fault, none when it is sound.
pub fn faults(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare("PRAGMA integrity_check(20)")?;
    let lines: rusqlite::Result<Vec<String>> = check.query_map([], |row| row.get(0))?.collect();
    Ok(lines?.into_iter().filter(|line| line != "ok").collect())
}

/// Makes a connection wait for its turn to write.
pub fn wait_for_writers(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_turn))
}

fn open_error(path: &Path, source: &rusqlite::Error) -> Error {
    match std::fs::metadata(path) {
        Err(found)
            if found.kind() == std::io::ErrorKind::NotFound && !path.parent().is_some_and(Path::is_dir) =>
        {
            Error::NotFound { path: path.to_owned() }
        }
        _ => translate(path, "open", source),
    }
}

thread_local! {
    static WAITING_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static PATIENCE: Cell<Duration> = const { Cell::new(BUSY_TIMEOUT) };
}

/// Runs `work` on this thread with another time to wait for a turn to write.
pub fn waiting_for<T>(patience: Duration, work: impl FnOnce() -> T) -> T {
    let before = PATIENCE.replace(patience);
    let outcome = work();
    PATIENCE.set(before);
    outcome
}

/// Waits in short steps, so that a writer gets its turn soon after the lock is free.
fn wait_turn(attempt: i32) -> bool {
    const SHORT: Duration = Duration::from_micros(50);
    const LONG: Duration = Duration::from_millis(1);
    let started = WAITING_SINCE.with(|since| {
        if attempt == 0 {
            since.set(Some(Instant::now()));
        }
        since.get()
    });
    if started.is_some_and(|started| started.elapsed() > PATIENCE.get()) {
        return false;
    }
    std::thread::sleep(if attempt < 40 { SHORT } else { LONG });
    true
}

#[cfg(unix)]
fn immutable_uri(path: &Path) -> PathBuf {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
            uri.push(char::from(*byte));
        } else if write!(uri, "%{byte:02X}").is_err() {
            break;
        }
    }
    uri.push_str("?immutable=1");
    PathBuf::from(uri)
}

#[cfg(not(unix))]
fn immutable_uri(path: &Path) -> PathBuf {
    let text =
        path.to_string_lossy().replace('\\', "/").replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    PathBuf::from(format!("file:/{}?immutable=1", text.trim_start_matches('/')))
}
