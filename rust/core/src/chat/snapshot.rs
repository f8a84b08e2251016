//! Snapshots within a session's document: whole transcripts whose equal records are stored once.

use std::collections::HashMap;

use super::document::{Document, Message};
use crate::codec::json::Json;
use crate::{Error, Result};

/// The only form of pooled records that anybody has written.
const POOL_VERSION: i64 = 1;
/// The lists of a transcript.
const LISTS: [&str; 2] = ["messages", "archived_messages"];

/// A moment to come back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id, one in the session.
    pub id: Json,
    /// The session.
    pub session_id: Json,
    /// Seconds since 1970.
    pub created_at: Json,
    /// What people call it.
    pub label: Json,
    /// The caller's own.
    pub metadata: Json,
}

impl Document {
    /// Adds a snapshot of the messages, the archive and the checkpoint as they are now.
    pub(super) fn add_snapshot(&mut self, snapshot: Snapshot) -> Result<()> {
        let mut pool = Pool::of(self)?;
        let mut list = |messages: &[Message]| {
            Json::List(messages.iter().map(|one| pool.intern(one.json().into_owned())).collect())
        };
        let items = |list: Json| Json::Map(vec![("items".into(), list)]);
        let messages = items(list(&self.messages));
        let archived = items(list(&self.archive));
        let checkpoint = self.get("last_compaction").cloned().unwrap_or_default();
        let value = Json::Map(vec![("value".into(), pool.intern(checkpoint))]);
        let newest = i64::try_from(self.messages.len()).unwrap_or(i64::MAX) - 1;
        let stored = [
            ("id", snapshot.id),
            ("session_id", snapshot.session_id),
            ("message_index", Json::Number(newest.to_string().into())),
            ("created_at", snapshot.created_at),
            ("label", snapshot.label),
            ("metadata", snapshot.metadata),
            (
                "transcript_refs",
                Json::Map(vec![
                    ("messages".into(), messages),
                    ("archived_messages".into(), archived),
                    ("last_compaction".into(), value),
                ]),
            ),
            // Readers that know no pool must refuse it; the second key is the true answer.
            ("invalidated", Json::Bool(true)),
            ("transcript_invalidated", Json::Bool(false)),
        ];
        let stored = Json::Map(stored.map(|(key, value)| (key.into(), value)).into());
        let mut snapshots = match self.get("snapshots") {
            Some(Json::List(snapshots)) => snapshots.clone(),
            _ => Vec::new(),
        };
        snapshots.push(stored);
        self.set("snapshots", Json::List(snapshots));
        self.set("snapshot_storage", pool.stored());
        Ok(())
    }

    /// Brings the messages, the archive and the checkpoint of a snapshot back; `false` where there
    /// is no such snapshot, or one of an old form whose messages have changed since.
    pub(super) fn revert_to_snapshot(&mut self, id: &Json) -> Result<bool> {
        let portable = self.portable()?;
        let Some(Json::List(snapshots)) = portable.get("snapshots") else { return Ok(false) };
        let is_wanted = |snapshot: &&Json| snapshot.get("id") == Some(id);
        let Some(snapshot) = snapshots.iter().find(is_wanted) else { return Ok(false) };
        if snapshot.get("invalidated").is_some_and(Json::is_truthy) {
            return Ok(false);
        }
        let Some(transcript) = snapshot.get("transcript").filter(|found| **found != Json::Null) else {
            let index = snapshot.get("message_index").and_then(Json::as_int).unwrap_or(0);
            let kept = usize::try_from(index.saturating_add(1)).unwrap_or(0);
            let is_there = kept <= self.messages.len();
            if is_there {
                self.cut(kept);
            }
            return Ok(is_there);
        };
        let list = |key: &str| match transcript.get(key) {
            Some(Json::List(items)) => items.iter().map(Message::new).collect(),
            _ => Vec::new(),
        };
        self.messages = list("messages");
        self.archive = list("archived_messages");
        match transcript.get("last_compaction").filter(|found| found.is_truthy()) {
            Some(checkpoint) => self.set("last_compaction", checkpoint.clone()),
            None => self.remove("last_compaction"),
        }
        Ok(true)
    }

    /// Keeps the first `kept` messages. A checkpoint that speaks of later ones goes with them: it
    /// would stand in for messages that are there, and tell what was taken back.
    pub(super) fn cut(&mut self, kept: usize) {
        self.messages.truncate(kept);
        if self.anchor().is_some_and(|anchor| anchor > kept) {
            self.remove("last_compaction");
        }
    }

    /// Returns the whole document with each snapshot's transcript in its place.
    pub fn portable(&self) -> Result<Json> {
        let mut whole = self.json();
        let Some(Json::List(snapshots)) = whole.get("snapshots").cloned() else { return Ok(whole) };
        let records = whole.remove("snapshot_storage").unwrap_or_default();
        let resolved = snapshots.into_iter().map(|snapshot| resolve(snapshot, &records));
        let resolved = resolved.collect::<Result<_>>()?;
        whole.set("snapshots", Json::List(resolved));
        Ok(whole)
    }

    /// Whether a snapshot knows only how many messages there were.
    pub(super) fn has_old_snapshots(&self) -> bool {
        let Some(Json::List(snapshots)) = self.get("snapshots") else { return false };
        snapshots.iter().any(is_old)
    }

    /// Marks the old snapshots whose messages are no longer those that they counted.
    pub(super) fn mark_old_snapshots(&mut self, before: &[Message]) {
        let same = self.messages.iter().zip(before).take_while(|(now, before)| now == before).count();
        let Some(Json::List(snapshots)) = self.get_mut("snapshots") else { return };
        for snapshot in snapshots.iter_mut().filter(|snapshot| is_old(snapshot)) {
            let index = snapshot.get("message_index").and_then(Json::as_int).unwrap_or(0);
            if usize::try_from(index).is_ok_and(|index| index >= same) {
                snapshot.set("invalidated", Json::Bool(true));
            }
        }
    }
}

fn is_old(snapshot: &Json) -> bool {
    let has = |key: &str| snapshot.get(key).is_some_and(|found| *found != Json::Null);
    !has("transcript") && !has("transcript_refs")
}

/// Puts the transcript of a stored snapshot in the place of what points to it.
fn resolve(mut snapshot: Json, storage: &Json) -> Result<Json> {
    let Some(refs) = snapshot.remove("transcript_refs") else { return Ok(snapshot) };
    let damaged = || Error::invalid("a snapshot points to records that the session does not have");
    if storage.get("version").and_then(Json::as_int) != Some(POOL_VERSION) {
        return Err(damaged());
    }
    let record = |key: &Json| storage.get("records")?.get(key.as_str()?).cloned();
    let mut transcript = Json::empty();
    for name in LISTS {
        let Some(Json::List(keys)) = refs.get(name).and_then(|found| found.get("items")) else {
            return Err(damaged());
        };
        let items = keys.iter().map(record).collect::<Option<Vec<Json>>>().ok_or_else(damaged)?;
        if !items.iter().all(|item| matches!(item, Json::Map(_))) {
            return Err(damaged());
        }
        transcript.set(name, Json::List(items));
    }
    let checkpoint = refs.get("last_compaction").and_then(|found| record(found.get("value")?));
    transcript.set("last_compaction", checkpoint.ok_or_else(damaged)?);
    let is_invalid = snapshot.remove("transcript_invalidated").unwrap_or(Json::Bool(false));
    snapshot.set("invalidated", is_invalid);
    snapshot.set("transcript", transcript);
    Ok(snapshot)
}

/// The records of all snapshots, each once.
struct Pool {
    records: Vec<(Box<str>, Json)>,
    places: HashMap<String, Box<str>>,
    next: usize,
}

impl Pool {
    fn of(document: &Document) -> Result<Self> {
        let mut pool = Self { records: Vec::new(), places: HashMap::new(), next: 0 };
        let Some(storage) = document.get("snapshot_storage") else { return Ok(pool) };
        if storage.get("version").and_then(Json::as_int) != Some(POOL_VERSION) {
            return Err(Error::invalid("the session's snapshots are stored in a form that is not known"));
        }
        if let Some(Json::Map(records)) = storage.get("records") {
            pool.records.clone_from(records);
            pool.places = records.iter().map(|(key, record)| (record.to_text(), key.clone())).collect();
            let numbers = records.iter().filter_map(|(key, _)| key.parse::<usize>().ok());
            pool.next = numbers.max().map_or(0, |last| last.saturating_add(1));
        }
        Ok(pool)
    }

    fn intern(&mut self, record: Json) -> Json {
        let text = record.to_text();
        if let Some(key) = self.places.get(&text) {
            return Json::Text(key.clone());
        }
        let key: Box<str> = self.next.to_string().into();
        self.next += 1;
        self.places.insert(text, key.clone());
        self.records.push((key.clone(), record));
        Json::Text(key)
    }

    fn stored(self) -> Json {
        Json::Map(vec![
            ("version".into(), Json::Number(POOL_VERSION.to_string().into())),
            ("records".into(), Json::Map(self.records)),
        ])
    }
}
