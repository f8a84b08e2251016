//! Where ids from outside lead, remembered while nothing changes.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};

use super::Register;
use crate::Result;
use crate::chat::cell::lock;
use crate::chat::document::Document;
use crate::chat::proof::{self, Stamp};
use crate::codec::json::Json;
use crate::error::Error;

/// More are not remembered.
const MOST: usize = 4096;
/// What of a session is told beside its bytes: all that is short.
const HEAD: [&str; 7] =
    ["session_id", "created_at", "updated_at", "agent_name", "user_id", "gateway_session_id", "agent_id"];
const SURE: [&str; 3] = ["session_id", "created_at", "updated_at"];
const ROUTE: &str = "\
SELECT file FROM amber_session WHERE gateway = ?1 ORDER BY updated DESC, file LIMIT 1";

/// The session that an id leads to.
#[derive(Debug, Clone)]
pub struct Routed {
    /// Its short values by their keys; empty where one is missing, or there is a checkpoint.
    pub head: Arc<Vec<(&'static str, Json)>>,
    /// The document, which was read before.
    pub bytes: Vec<u8>,
}

/// What the index says of an id from outside.
pub(in crate::chat) enum Lookup {
    Found(Routed),
    Nothing,
    /// It cannot be asked.
    Unusable,
}

#[derive(Debug, Clone)]
struct Lead {
    file: String,
    stamp: Stamp,
    head: Arc<Vec<(&'static str, Json)>>,
}

/// What was found since anything changed.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// How often it was forgotten.
    epoch: u64,
    leads: HashMap<String, Lead>,
}

impl Routes {
    pub(super) fn forget(&mut self) {
        self.epoch += 1;
        self.leads.clear();
    }

    /// Remembers what was found, unless something changed since it was looked for.
    fn keep(&mut self, epoch: u64, gateway: &str, lead: Lead) {
        if self.epoch != epoch {
            return;
        }
        if self.leads.len() >= MOST {
            self.leads.clear();
        }
        self.leads.insert(gateway.to_owned(), lead);
    }
}

impl Register {
    /// Looks up the session that an outside id leads to: of several the last one written.
    pub(in crate::chat) fn route(self: &Arc<Self>, gateway: &str, now: f64) -> Lookup {
        let own = self.own();
        let found = own.note(own.level(now)).and_then(|_| own.known_route(gateway));
        if let Some(found) = found {
            return Lookup::Found(found);
        }
        let epoch = lock(&own.routes).epoch;
        let Some(file) = self.answer(now, |connection| ask(connection, gateway)) else {
            return Lookup::Unusable;
        };
        let Some(file) = file else { return Lookup::Nothing };
        match own.note(own.read_route(&file, gateway)) {
            None => Lookup::Unusable,
            Some(None) => Lookup::Nothing,
            Some(Some((found, stamp))) => {
                if !stamp.is_young(now) {
                    let lead = Lead { file, stamp, head: Arc::clone(&found.head) };
                    lock(&own.routes).keep(epoch, gateway, lead);
                }
                Lookup::Found(found)
            }
        }
    }

    fn known_route(&self, gateway: &str) -> Option<Routed> {
        let lead = lock(&self.routes).leads.get(gateway).cloned()?;
        match proof::read(&self.directory.join(&lead.file)) {
            Ok(Some((bytes, proof))) if proof.holds(&lead.stamp) => Some(Routed { head: lead.head, bytes }),
            // Whoever asks the index next is told what is wrong with the file.
            Ok(_) | Err(_) => None,
        }
    }

    fn read_route(&self, file: &str, gateway: &str) -> Result<Option<(Routed, Stamp)>> {
        let path = self.directory.join(file);
        let found = proof::read(&path).map_err(|error| Error::io(&path, "read", &error))?;
        let Some((bytes, proof)) = found else { return Ok(None) };
        let document = Document::parse(&bytes)
            .map_err(|fault| Error::damaged(&path, format!("offset {}", fault.offset), fault.what))?;
        // Another writer may have unlinked it since.
        if document.get("gateway_session_id").and_then(Json::as_str) != Some(gateway) {
            return Ok(None);
        }
        Ok(Some((Routed { head: head_of(&document), bytes }, proof.stamp())))
    }
}

/// Returns the short values of a document that says no less and no more.
pub(in crate::chat) fn head_of(document: &Document) -> Arc<Vec<(&'static str, Json)>> {
    let is_more = document.get("last_compaction").is_some_and(Json::is_truthy);
    // An old document may lack those that can be nothing.
    let absent = |key: &'static str| (!SURE.contains(&key)).then_some(Json::Null);
    let value =
        |key: &'static str| document.get(key).cloned().or_else(|| absent(key)).map(|value| (key, value));
    let head: Option<Vec<_>> = HEAD.into_iter().map(value).collect();
    Arc::new(head.filter(|_| !is_more).unwrap_or_default())
}

fn ask(connection: &Connection, gateway: &str) -> rusqlite::Result<Option<String>> {
    let mut route = connection.prepare_cached(ROUTE)?;
    route.query_row([gateway], |row| row.get(0)).optional()
}
