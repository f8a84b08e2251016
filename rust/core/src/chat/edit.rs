//! Changes of a session, each a value, so that one write can hold several.

use super::document::{Document, Message};
use super::snapshot::Snapshot;
use crate::codec::json::Json;
use crate::{Error, Result};

/// A summary that stands in for every message there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// What a model reads instead of the messages.
    pub summary: Json,
    /// Whose words the summary is: `system`.
    pub role: Json,
    /// Tokens before and after the compaction.
    pub tokens: [Json; 2],
    /// Seconds since 1970.
    pub timestamp: Json,
    /// The caller's own.
    pub metadata: Json,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Adds a message.
    Append(Json),
    /// Puts other messages in the place of the window; the checkpoint, which spoke of the old ones, goes.
    Replace(Vec<Json>),
    /// Puts the summary in the place of all messages that the window now has.
    Checkpoint(Checkpoint),
    /// Sets the value under a path of keys, or removes it.
    Set {
        /// The keys from the outside, at least one.
        path: Vec<Box<str>>,
        /// What it gets, or nothing.
        value: Option<Json>,
    },
    /// Sets keys of the object under a path; `defaults` are for keys that it does not have.
    Merge {
        /// The keys from the outside, at least one.
        path: Vec<Box<str>>,
        /// What only fills gaps.
        defaults: Json,
        /// What counts.
        updates: Json,
    },
    /// Renews the last message while it is still being spoken.
    Partial {
        /// All of it so far.
        content: Json,
        /// Seconds since 1970.
        timestamp: Json,
        /// Whether it is complete.
        finalize: bool,
    },
    /// Drops a last message that was never completed.
    Discard,
    /// Adds a snapshot of what there is.
    Snapshot(Snapshot),
    /// Brings back what there was when the snapshot of this id was taken.
    RevertToSnapshot(Json),
    /// Drops the messages behind the one at this place.
    RevertToMessage(i64),
}

impl Edit {
    /// Makes the change and returns whether there was anything to change.
    pub fn apply(self, document: &mut Document) -> Result<bool> {
        match self {
            Self::Append(message) => document.messages.push(object(&message)?),
            Self::Replace(messages) => {
                document.messages = messages.iter().map(object).collect::<Result<_>>()?;
                document.remove("last_compaction");
            }
            Self::Checkpoint(checkpoint) => {
                let end = Json::int(document.messages.len());
                document.set("last_compaction", checkpoint.at(end));
            }
            Self::Set { path, value } => {
                need_objects(document, path.split_last().map_or(&[], |(_, outer)| outer))?;
                return Ok(set(document, &path, value));
            }
            Self::Merge { path, defaults, updates } => {
                need_objects(document, &path)?;
                merge(document, &path, &defaults, &updates);
            }
            Self::Partial { content, timestamp, finalize } => {
                return Ok(renew(document, content, timestamp, finalize));
            }
            Self::Snapshot(snapshot) => document.add_snapshot(snapshot)?,
            Self::RevertToSnapshot(id) => return document.revert_to_snapshot(&id),
            Self::RevertToMessage(at) => {
                let is_there = usize::try_from(at).is_ok_and(|at| at < document.messages.len());
                if let Ok(at) = usize::try_from(at)
                    && is_there
                {
                    document.cut(at + 1);
                }
                return Ok(is_there);
            }
            Self::Discard => {
                let is_partial = trailing_partial(document).is_some();
                if is_partial {
                    drop_last(document);
                }
                return Ok(is_partial);
            }
        }
        Ok(true)
    }
}

impl Checkpoint {
    fn at(self, message_index: Json) -> Json {
        let [before, after] = self.tokens;
        Json::Map(vec![
            ("summary".into(), self.summary),
            ("message_index".into(), message_index),
            ("role".into(), self.role),
            ("tokens_before".into(), before),
            ("tokens_after".into(), after),
            ("timestamp".into(), self.timestamp),
            ("metadata".into(), self.metadata),
        ])
    }
}

fn object(message: &Json) -> Result<Message> {
    match message {
        Json::Map(_) => Ok(Message::new(message)),
        _ => Err(Error::invalid("a message must be an object")),
    }
}

/// What is to get a key must be an object, or nothing yet: else it would be lost.
fn need_objects(document: &Document, path: &[Box<str>]) -> Result<()> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let mut keys = rest.iter();
    let (mut name, mut place) = (first, document.get(first));
    loop {
        let inner = keys.next();
        match (place, inner) {
            (None | Some(Json::Null), _) | (Some(Json::Map(_)), None) => return Ok(()),
            (Some(found @ Json::Map(_)), Some(key)) => (name, place) = (key, found.get(key)),
            (Some(_), _) => return Err(Error::invalid(format!("the session's {name:?} is no object"))),
        }
    }
}

fn set(document: &mut Document, path: &[Box<str>], value: Option<Json>) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        match value {
            Some(value) => document.set(first, value),
            None => document.remove(first),
        }
        return true;
    }
    if document.get(first).is_none() {
        if value.is_none() {
            return false;
        }
        document.set(first, Json::empty());
    }
    if let ("metadata", [key], None) = (&**first, rest, &value) {
        // The copy beside the metadata would bring it back.
        document.remove(key);
    }
    document.get_mut(first).is_some_and(|found| set_within(found, rest, value))
}

fn set_within(mut place: &mut Json, path: &[Box<str>], value: Option<Json>) -> bool {
    let Some((last, between)) = path.split_last() else { return false };
    for key in between {
        if place.get(key).is_none() {
            if value.is_none() {
                return false;
            }
            place.set(key, Json::empty());
        }
        let Json::Map(pairs) = place else { return false };
        let Some((_, inner)) = pairs.iter_mut().find(|(name, _)| name == key) else { return false };
        place = inner;
    }
    match value {
        Some(value) => {
            place.set(last, value);
            true
        }
        None => place.remove(last).is_some(),
    }
}

fn merge(document: &mut Document, path: &[Box<str>], defaults: &Json, updates: &Json) {
    let stored = path
        .split_first()
        .and_then(|(first, rest)| rest.iter().try_fold(document.get(first)?, |found, key| found.get(key)));
    let mut merged = Json::empty();
    for part in [Some(defaults), stored, Some(updates)].into_iter().flatten() {
        if let Json::Map(pairs) = part {
            for (key, value) in pairs {
                merged.set(key, value.clone());
            }
        }
    }
    set(document, path, Some(merged));
}

/// The last message, where it is one of the assistant that was never completed.
fn trailing_partial(document: &Document) -> Option<Json> {
    let last = document.messages.last()?.json().into_owned();
    let is_partial = last.get("role").and_then(Json::as_str) == Some("assistant")
        && last.get("metadata").and_then(|found| found.get("partial")).is_some_and(Json::is_truthy);
    is_partial.then_some(last)
}

fn drop_last(document: &mut Document) {
    document.messages.pop();
    let length = document.messages.len();
    let beyond = document.anchor().map_or(0, |anchor| anchor.saturating_sub(length));
    document.move_anchor(beyond);
}

fn renew(document: &mut Document, content: Json, timestamp: Json, finalize: bool) -> bool {
    let is_empty = finalize && !content.is_truthy();
    let partial = trailing_partial(document);
    if is_empty {
        if partial.is_some() {
            drop_last(document);
        }
        return partial.is_some();
    }
    let mut metadata =
        partial.as_ref().and_then(|message| message.get("metadata")).cloned().unwrap_or_else(Json::empty);
    if finalize {
        metadata.remove("partial");
    } else {
        metadata.set("partial", Json::Bool(true));
    }
    let is_new = partial.is_none();
    let mut message = partial.unwrap_or_else(Json::empty);
    message.set("role", Json::text("assistant"));
    message.set("content", content);
    message.set("timestamp", timestamp);
    message.set("metadata", metadata);
    if !is_new {
        document.messages.pop();
    }
    document.messages.push(Message::new(&message));
    true
}
