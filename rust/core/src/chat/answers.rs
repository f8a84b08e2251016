//! Questions about all sessions: answered from the index where there is one, else from the files.

use std::path::Path;
use std::sync::Arc;

use rusqlite::params;

use super::entry::Entry;
use super::register::{Keeping, Lookup, Register, Routed, head_of};
use super::scan::Unreadable;
use super::search::{Query, best};
use super::store::{Options, Store};
use crate::Result;
use crate::codec::json::Json;

/// What sessions are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The agent that talked.
    AgentName,
    /// The id outside that leads to the session.
    Gateway,
    /// The gateway's agent.
    Agent,
}

const ROWS: &str = "\
SELECT row FROM amber_session WHERE reason IS NULL ORDER BY updated DESC, file DESC LIMIT ?1";
const UNREADABLE: &str = "SELECT file, reason FROM amber_session WHERE reason IS NOT NULL ORDER BY file";
impl Field {
    fn of(self, entry: &Entry) -> &Json {
        match self {
            Self::AgentName => &entry.agent_name,
            Self::Gateway => &entry.gateway_session_id,
            Self::Agent => &entry.agent_id,
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::AgentName => {
                "SELECT session_id FROM amber_session WHERE agent_name = ?1 ORDER BY file LIMIT ?2"
            }
            Self::Gateway => "SELECT session_id FROM amber_session WHERE gateway = ?1 ORDER BY file LIMIT ?2",
            Self::Agent => {
                "SELECT session_id FROM amber_session WHERE agent = ?1 ORDER BY session_id LIMIT ?2"
            }
        }
    }
}

impl Store {
    /// Opens a directory with an index, which is made when it is first asked.
    pub fn open_indexed(directory: &Path, options: Options, keeping: Keeping) -> Result<Self> {
        let mut store = Self::open(directory, options)?;
        store.register = Some(Register::new(directory, keeping));
        Ok(store)
    }

    /// The index, where there is one.
    pub fn register(&self) -> Option<&Arc<Register>> {
        self.register.as_ref()
    }

    /// Returns the rows of a list as the texts of JSON objects, the sessions last written first;
    /// of a negative limit those that Python cuts off are left out.
    pub fn rows(&self, limit: Option<i64>, now: f64) -> Result<Vec<String>> {
        let most = limit.filter(|limit| *limit >= 0).unwrap_or(-1);
        let asked = self.ask(now, |connection| {
            let mut rows = connection.prepare_cached(ROWS)?;
            rows.query_map([most], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        });
        let mut rows = if let Some(rows) = asked {
            rows
        } else {
            let listing = self.list(now)?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            listing.newest.iter().take(most).map(|entry| entry.row.to_string()).collect()
        };
        if let Some(cut) = limit.filter(|limit| *limit < 0) {
            let cut = usize::try_from(cut.unsigned_abs()).unwrap_or(usize::MAX);
            rows.truncate(rows.len().saturating_sub(cut));
        }
        Ok(rows)
    }

    /// Returns the ids of the sessions that somebody or something belongs to: of a gateway's agent
    /// by id where there is an index, else by the names of their files.
    pub fn ids_where(&self, field: Field, wanted: &str, limit: Option<i64>, now: f64) -> Result<Vec<Json>> {
        if let Some(ids) = self.ask(now, |connection| {
            let mut ids = connection.prepare_cached(field.question())?;
            let found = ids.query_map(params![wanted, limit.unwrap_or(-1)], |row| {
                Ok(Json::text(row.get_ref(0)?.as_str()?))
            })?;
            found.collect::<rusqlite::Result<Vec<Json>>>()
        }) {
            return Ok(ids);
        }
        let listing = self.list(now)?;
        let found = listing.entries.iter().filter(|entry| field.of(entry).as_str() == Some(wanted));
        let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok(found.map(|entry| entry.session_id.clone()).take(most).collect())
    }

    /// Returns the session that an id outside leads to: of several the last one written.
    pub fn route(&self, gateway: &str, now: f64) -> Result<Option<Routed>> {
        match self.register.as_ref().map(|register| register.route(gateway, now)) {
            Some(Lookup::Found(found)) => return Ok(Some(found)),
            Some(Lookup::Nothing) => return Ok(None),
            Some(Lookup::Unusable) | None => {}
        }
        let listing = self.list(now)?;
        let found = listing.entries.iter().filter(|entry| entry.gateway_session_id.as_str() == Some(gateway));
        let Some(last) = found.max_by(|a, b| (&a.updated, &b.file).cmp(&(&b.updated, &a.file))) else {
            return Ok(None);
        };
        self.with(&last.file, |loaded| {
            let document = &loaded?.document;
            // Another writer may have unlinked it since.
            let is_linked = document.get("gateway_session_id").and_then(Json::as_str) == Some(gateway);
            is_linked.then(|| Routed { head: head_of(document), bytes: document.to_bytes() })
        })
    }

    /// Returns the files that are no sessions.
    pub fn unreadable(&self, now: f64) -> Result<Vec<Unreadable>> {
        if let Some(found) = self.ask(now, |connection| {
            let mut all = connection.prepare_cached(UNREADABLE)?;
            let found = all.query_map([], |row| {
                let path = self.directory.join(row.get_ref(0)?.as_str()?);
                Ok(Unreadable { path, reason: row.get(1)? })
            })?;
            found.collect::<rusqlite::Result<Vec<Unreadable>>>()
        }) {
            return Ok(found);
        }
        Ok(self.list(now)?.unreadable.to_vec())
    }

    /// Returns the best sessions as JSON, one of each lineage, `limit` at most and at least one.
    /// Without an index every session is read.
    pub fn search(&self, query: &Query, limit: usize, now: f64) -> Result<Json> {
        let indexed = self.register.as_ref().and_then(|register| register.search(query, limit, now));
        let found = if let Some(files) = indexed {
            self.read_all(&files, |file, document| query.find(file, document))
        } else {
            let listing = self.list(now)?;
            let files: Vec<&str> = listing.entries.iter().map(|entry| &*entry.file).collect();
            self.read_all(&files, |file, document| query.find(file, document))
        };
        Ok(Json::List(best(found, limit)))
    }

    fn ask<R>(&self, now: f64, ask: impl FnMut(&rusqlite::Connection) -> rusqlite::Result<R>) -> Option<R> {
        self.register.as_ref().and_then(|register| register.answer(now, ask))
    }
}
