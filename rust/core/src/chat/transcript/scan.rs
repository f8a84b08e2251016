//! Looking at all sessions of a database.

use std::path::PathBuf;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::{Transcripts, rows};
use crate::Result;
use crate::chat::document::Document;
use crate::chat::entry::Entry;
use crate::chat::scan::{Unreadable, in_parallel};
use crate::chat::search::{Query, best, lineage};
use crate::codec::json::Json;
use crate::db::fault::translate;
use crate::error::Error;

const ALL: &str = "SELECT session_id, data FROM sessions ORDER BY updated_at DESC, session_id";
const BY_AGENT_NAME: &str =
    "SELECT session_id FROM sessions WHERE agent_name = ?1 ORDER BY updated_at DESC, session_id LIMIT ?2";
const BY_GATEWAY: &str = "SELECT session_id FROM sessions WHERE gateway_session_id = ?1 ORDER BY updated_at DESC, session_id LIMIT ?2";
const BY_AGENT: &str =
    "SELECT session_id FROM sessions WHERE agent_id = ?1 ORDER BY updated_at DESC, session_id LIMIT ?2";

/// Texts that are in memory at once, unless one alone is larger.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = 512;

impl Transcripts {
    /// Returns the entries of the sessions last written, `limit` at most; rows that hold no session
    /// are left out. Only what is returned is read.
    pub fn newest(&self, limit: Option<usize>) -> Result<Vec<Entry>> {
        let wanted = limit.unwrap_or(usize::MAX);
        let mut entries = Vec::new();
        self.each_batch(BATCH_ROWS.min(wanted), |batch| {
            entries.extend(in_parallel(batch, |(id, data)| {
                let document = rows::parse(data).ok()?;
                Some(Entry::of(&file(id), &document))
            }));
            entries.len() < wanted
        })?;
        entries.truncate(wanted);
        Ok(entries)
    }

    /// Returns the ids of the sessions of an `agent_name`, `gateway_session_id` or `agent_id`, those
    /// last written first, `limit` at most.
    pub fn ids_where(&self, field: &str, wanted: &str, limit: Option<usize>) -> Result<Vec<String>> {
        let most = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let query = match field {
            "agent_name" => BY_AGENT_NAME,
            "gateway_session_id" => BY_GATEWAY,
            _ => BY_AGENT,
        };
        let home = self.own()?;
        let open = home.lock("list")?;
        let ids = open.connection.prepare_cached(query).and_then(|mut statement| {
            statement.query_map(params![wanted, most], |row| row.get(0))?.collect()
        });
        ids.map_err(|source| translate(&home.path, "list", &source))
    }

    /// Returns the rows, and the documents that were to be adopted, which hold no session.
    pub fn unreadable(&self) -> Result<Vec<Unreadable>> {
        let path = self.path();
        let mut found = self.left_out.clone();
        self.each_batch(BATCH_ROWS, |batch| {
            found.extend(in_parallel(batch, |(id, data)| {
                let reason = rows::parse(data).err()?;
                Some(Unreadable { path: PathBuf::from(format!("{}[{id}]", path.display())), reason })
            }));
            true
        })?;
        Ok(found)
    }

    /// Returns all sessions, whole: [`Error::Damaged`] where a row is none.
    pub fn documents(&self) -> Result<Vec<Document>> {
        let mut documents = Vec::new();
        let mut damage = None;
        self.each_batch(BATCH_ROWS, |batch| {
            let read =
                in_parallel(batch, |(id, data)| Some(rows::parse(data).map_err(|what| (id.clone(), what))));
            for one in read {
                match one {
                    Ok(document) => documents.push(document),
                    Err(found) => damage = damage.take().or(Some(found)),
                }
            }
            damage.is_none()
        })?;
        match damage {
            Some((id, what)) => Err(Error::damaged(self.path(), format!("sessions[{id}]"), what)),
            None => Ok(documents),
        }
    }

    /// Returns the other sessions of the conversation that a session goes on with, whole.
    pub fn relatives(&self, document: &Document) -> Result<Vec<Document>> {
        let Some(wanted) = lineage(document) else { return Ok(Vec::new()) };
        let mut all = self.documents()?;
        all.retain(|other| {
            lineage(other).as_ref() == Some(&wanted) && other.session_id() != document.session_id()
        });
        Ok(all)
    }

    /// Returns the best sessions as JSON, one of each lineage, `limit` at most and at least one.
    /// Every session is read.
    pub fn search(&self, query: &Query, limit: usize) -> Result<Json> {
        let mut found = Vec::new();
        self.each_batch(BATCH_ROWS, |batch| {
            found.extend(in_parallel(batch, |(id, data)| query.find(&file(id), &rows::parse(data).ok()?)));
            true
        })?;
        Ok(Json::List(best(found, limit)))
    }

    /// SQLite's own look at the whole database; one line a fault.
    pub fn faults(&self) -> Result<Vec<String>> {
        self.reading(|connection| {
            crate::db::open::faults(connection).map_err(|source| translate(self.path(), "verify", &source))
        })
    }

    /// Hands the rows to `each`, those last written first, so many at once as fit, until it says no.
    fn each_batch(&self, most: usize, mut each: impl FnMut(&[(String, Vec<u8>)]) -> bool) -> Result<()> {
        let fault = |source: rusqlite::Error| translate(self.path(), "list", &source);
        self.reading(|connection| batches(connection, most.max(1), &mut each).map_err(fault))
    }
}

fn batches(
    connection: &Connection,
    most: usize,
    each: &mut impl FnMut(&[(String, Vec<u8>)]) -> bool,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(ALL)?;
    let mut found = statement.query([])?;
    let (mut batch, mut size) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let id = match row.get::<_, Value>(0)? {
            Value::Text(id) => id,
            other => format!("{other:?}"),
        };
        let data = rows::bytes(row, 1)?;
        size += data.len();
        batch.push((id, data));
        if batch.len() >= most || size >= BATCH_BYTES {
            if !each(&batch) {
                return Ok(());
            }
            batch.clear();
            size = 0;
        }
    }
    if !batch.is_empty() {
        each(&batch);
    }
    Ok(())
}

/// The name under which a document of the row would be a file: what has no id of its own has the row's.
fn file(id: &str) -> String {
    format!("{id}{}", crate::chat::name::ENDING)
}
