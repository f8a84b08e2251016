//! One session's document: its fields in their order, its messages each as the text that is written.

use std::borrow::Cow;

use crate::codec::json::{self, Fault, Json};

/// The keys that the peer writes always, in its order, and what it gives those that are missing.
const ALWAYS: [&str; 11] = [
    "session_id",
    "messages",
    "created_at",
    "updated_at",
    "agent_name",
    "user_id",
    "metadata",
    "gateway_session_id",
    "agent_id",
    "runtime_state",
    "archived_messages",
];

/// Where in the document a key that is new to it belongs.
const ORDER: [&str; 25] = [
    "session_id",
    "messages",
    "created_at",
    "updated_at",
    "agent_name",
    "user_id",
    "metadata",
    "gateway_session_id",
    "agent_id",
    "runtime_state",
    "archived_messages",
    "last_compaction",
    "model",
    "llm",
    "total_tokens",
    "token_count",
    "cost",
    "source",
    "reasoning_effort",
    "parent_id",
    "forked_from_message_id",
    "children_ids",
    "is_shared",
    "title",
    "snapshots",
];

/// Keys of the metadata that stand in the document itself too, where lists look for them.
const MIRRORED: [&str; 7] =
    ["model", "llm", "total_tokens", "token_count", "cost", "source", "reasoning_effort"];

/// How deep in the document a message stands.
const LEVEL: usize = 2;

/// A message of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// The text that stands in the document: what nobody asks about is never taken apart.
    Text(Box<[u8]>),
    /// The value, in a document that is only looked at once.
    Value(Json),
}

impl Message {
    /// Returns the message of an object.
    pub fn new(value: &Json) -> Self {
        let mut text = Vec::with_capacity(512);
        value.write_indented(LEVEL, &mut text);
        Self(Form::Text(text.into()))
    }

    /// Takes the message apart.
    pub fn json(&self) -> Cow<'_, Json> {
        match &self.0 {
            // The text was written by this module, so that it can be read.
            Form::Text(text) => Cow::Owned(json::parse(text).unwrap_or_default()),
            Form::Value(value) => Cow::Borrowed(value),
        }
    }

    /// The values of some keys, each where the message has it; the rest is not taken apart.
    pub fn parts<const N: usize>(&self, keys: [&str; N]) -> [Option<Json>; N] {
        match &self.0 {
            Form::Text(text) => json::parse_parts(text, keys).unwrap_or([const { None }; N]),
            Form::Value(value) => keys.map(|key| value.get(key).cloned()),
        }
    }

    /// Whether the message is the result of a tool, which means nothing without the call before it.
    pub fn is_tool_result(&self) -> bool {
        let [role] = self.parts(["role"]);
        role.as_ref().and_then(Json::as_str) == Some("tool")
    }

    /// Whether the message is the summary that stands in for turns moved to the archive.
    pub fn is_summary(&self) -> bool {
        // Only a summary has the word, or a message that speaks of it: most are never taken apart.
        let may_be = match &self.0 {
            Form::Text(text) => contains(text, b"\"compaction\""),
            Form::Value(_) => true,
        };
        may_be
            && self
                .json()
                .get("metadata")
                .and_then(|found| found.get("compaction"))
                .is_some_and(Json::is_truthy)
    }

    fn len(&self) -> usize {
        match &self.0 {
            Form::Text(text) => text.len(),
            Form::Value(_) => 0,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Text(text) => out.extend_from_slice(text),
            Form::Value(value) => value.write_indented(LEVEL, out),
        }
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Value(Json),
    /// The place of [`Document::messages`].
    Messages,
    /// The place of [`Document::archive`].
    Archive,
}

/// A session; what it does not know of it keeps, at every level and in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    fields: Vec<(Box<str>, Field)>,
    /// The active window, oldest first.
    pub messages: Vec<Message>,
    /// What compacting moved out of the window, oldest first.
    pub archive: Vec<Message>,
    /// How many entries among the messages were none.
    strangers: usize,
}

impl Document {
    /// Returns a session without messages; `now` is its birth as the document writes times.
    pub fn new(session_id: &str, now: &str) -> Self {
        let mut document =
            Self { fields: Vec::new(), messages: Vec::new(), archive: Vec::new(), strangers: 0 };
        document.complete(session_id, now);
        document
    }

    /// Reads a document.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        Self::from_json(json::parse(bytes)?)
    }

    /// Returns the document of a value that was read as a whole.
    pub fn from_json(value: Json) -> Result<Self, Fault> {
        let refused = |what| Err(Fault { offset: 0, what });
        let Json::Map(pairs) = value else { return refused("the document is no object") };
        let mut document = Self {
            fields: Vec::with_capacity(pairs.len()),
            messages: Vec::new(),
            archive: Vec::new(),
            strangers: 0,
        };
        let mut places = Vec::new();
        for (key, value) in pairs {
            let field = match (&*key, value) {
                ("messages", Json::List(items)) => {
                    places = places_of_strangers(&items);
                    document.messages = messages_of(items);
                    Field::Messages
                }
                ("messages", _) => return refused("`messages` is no list"),
                ("archived_messages", Json::List(items)) => {
                    document.archive = messages_of(items);
                    Field::Archive
                }
                ("archived_messages", Json::Null) => Field::Archive,
                ("archived_messages", _) => return refused("`archived_messages` is no list"),
                (_, value) => Field::Value(value),
            };
            document.fields.push((key, field));
        }
        document.skip_strangers(&places);
        document.strangers = places.len();
        Ok(document)
    }

    /// Turns the messages into the texts that are written, in which form they are kept.
    #[must_use]
    pub fn packed(mut self) -> Self {
        for message in self.messages.iter_mut().chain(&mut self.archive) {
            if let Form::Value(value) = &message.0 {
                *message = Message::new(value);
            }
        }
        self
    }

    /// The value of a key other than the messages and the archive.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields.iter().find(|(name, _)| **name == *key).and_then(|(_, field)| match field {
            Field::Value(value) => Some(value),
            Field::Messages | Field::Archive => None,
        })
    }

    /// The value of a key, or of the same key of the metadata where that is nothing.
    pub fn get_or_metadata(&self, key: &str) -> Option<&Json> {
        let is_set = |value: &&Json| value.is_truthy();
        self.get(key).filter(is_set).or_else(|| self.get("metadata").and_then(|found| found.get(key)))
    }

    /// The value of a key, to be changed in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.fields.iter_mut().find(|(name, _)| **name == *key).and_then(|(_, field)| match field {
            Field::Value(value) => Some(value),
            Field::Messages | Field::Archive => None,
        })
    }

    /// How many entries the stored window has, be they messages or not.
    pub fn message_count(&self) -> usize {
        self.messages.len() + self.strangers
    }

    /// Sets a key, where the peer would write it when it is new.
    pub fn set(&mut self, key: &str, value: Json) {
        match self.get_mut(key) {
            Some(old) => *old = value,
            None => self.add(key, Field::Value(value)),
        }
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.fields.retain(|(name, field)| **name != *key || !matches!(field, Field::Value(_)));
    }

    /// The id that the document says it has; one of an old layout says none.
    pub fn session_id(&self) -> Option<&str> {
        self.get("session_id").and_then(Json::as_str).filter(|id| !id.is_empty())
    }

    /// Adds what every document has, and repeats the keys of the metadata that lists look for.
    pub fn complete(&mut self, session_id: &str, now: &str) {
        for key in ALWAYS {
            if self.fields.iter().any(|(name, _)| **name == *key) {
                continue;
            }
            let field = match key {
                "messages" => Field::Messages,
                "archived_messages" => Field::Archive,
                "session_id" => Field::Value(Json::text(session_id)),
                "created_at" | "updated_at" => Field::Value(Json::text(now)),
                "metadata" | "runtime_state" => Field::Value(Json::empty()),
                _ => Field::Value(Json::Null),
            };
            self.add(key, field);
        }
        if self.session_id().is_none() {
            self.set("session_id", Json::text(session_id));
        }
        self.align_mirrored();
    }

    /// Returns the document as a value.
    pub fn json(&self) -> Json {
        let list =
            |messages: &[Message]| Json::List(messages.iter().map(|one| one.json().into_owned()).collect());
        let value = |field: &Field| match field {
            Field::Value(value) => value.clone(),
            Field::Messages => list(&self.messages),
            Field::Archive => list(&self.archive),
        };
        Json::Map(self.fields.iter().map(|(key, field)| (key.clone(), value(field))).collect())
    }

    /// Returns the document as it is written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size() + 4096);
        self.write(&mut out);
        out
    }

    /// Appends the document as it is written.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (key, field)) in self.fields.iter().enumerate() {
            out.extend_from_slice(if index > 0 { b",\n  " } else { b"\n  " });
            json::write_text(key, out);
            out.extend_from_slice(b": ");
            match field {
                Field::Value(value) => value.write_indented(1, out),
                Field::Messages => write_list(&self.messages, out),
                Field::Archive => write_list(&self.archive, out),
            }
        }
        out.extend_from_slice(if self.fields.is_empty() { b"}" } else { b"\n}" });
    }

    /// About how many bytes the document takes when it is written.
    pub fn size(&self) -> usize {
        let text: usize = self.messages.iter().chain(&self.archive).map(Message::len).sum();
        text + 16 * (self.messages.len() + self.archive.len())
    }

    fn add(&mut self, key: &str, field: Field) {
        let rank = |key: &str| ORDER.iter().position(|known| *known == key);
        let own = rank(key);
        // Behind the last key that comes before it; one that nobody knows comes last.
        let at = match own {
            Some(_) => self
                .fields
                .iter()
                .rposition(|(name, _)| rank(name).is_some_and(|other| Some(other) < own))
                .map_or(0, |before| before + 1),
            None => self.fields.len(),
        };
        self.fields.insert(at, (key.into(), field));
    }

    /// Entries that are no messages are passed over, and the anchor of the checkpoint with them.
    fn skip_strangers(&mut self, places: &[usize]) {
        let Some(anchor) = self.anchor() else { return };
        let before = places.iter().filter(|&&place| place < anchor).count();
        self.move_anchor(before);
    }

    /// The message from which on the checkpoint's summary does not speak.
    pub fn anchor(&self) -> Option<usize> {
        let checkpoint = self.get("last_compaction").filter(|found| found.is_truthy())?;
        let index = checkpoint.get("message_index").and_then(Json::as_int).unwrap_or(0);
        Some(usize::try_from(index).unwrap_or(0))
    }

    /// Moves the anchor down by messages that went from before it.
    pub fn move_anchor(&mut self, dropped: usize) {
        let Some(anchor) = self.anchor().filter(|_| dropped > 0) else { return };
        if let Some(checkpoint) = self.get_mut("last_compaction") {
            checkpoint.set("message_index", Json::int(anchor.saturating_sub(dropped)));
        }
    }

    /// What stands in the document alone is taken for metadata, else the metadata counts.
    fn align_mirrored(&mut self) {
        for key in MIRRORED {
            let inner = self.get("metadata").and_then(|found| found.get(key)).cloned();
            let outer = self.get(key).filter(|value| **value != Json::Null).cloned();
            match (inner, outer) {
                (Some(inner), _) => self.set(key, inner),
                (None, Some(outer)) => {
                    let metadata = self.get_mut("metadata");
                    if let Some(metadata @ (Json::Map(_) | Json::Null)) = metadata {
                        metadata.set(key, outer);
                    }
                }
                (None, None) => {}
            }
        }
    }
}

fn messages_of(items: Vec<Json>) -> Vec<Message> {
    let is_message = |item: &Json| matches!(item, Json::Map(_));
    items.into_iter().filter(is_message).map(|item| Message(Form::Value(item))).collect()
}

fn places_of_strangers(items: &[Json]) -> Vec<usize> {
    let strangers = items.iter().enumerate().filter(|(_, item)| !matches!(item, Json::Map(_)));
    strangers.map(|(place, _)| place).collect()
}

fn write_list(messages: &[Message], out: &mut Vec<u8>) {
    if messages.is_empty() {
        out.extend_from_slice(b"[]");
        return;
    }
    for (index, message) in messages.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b",\n    " } else { b"[\n    " });
        message.write(out);
    }
    out.extend_from_slice(b"\n  ]");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_stay_at_every_level_and_in_order() {
        let text = r#"{
  "x": 1,
  "session_id": "s",
  "messages": [
    {
      "role": "user",
      "mine": [
        1
      ],
      "content": "hi"
    }
  ],
  "later": {
    "deep": null
  }
}"#;

        let document = Document::parse(text.as_bytes()).unwrap();

        assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), text);
    }

    #[test]
    fn a_new_document_has_the_keys_of_the_peer_in_its_order() {
        let text = String::from_utf8(Document::new("s", "t").to_bytes()).unwrap();

        let keys: Vec<&str> = text.lines().filter_map(|line| line.trim().split('"').nth(1)).collect();
        assert_eq!(keys, ALWAYS);
    }

    #[test]
    fn entries_that_are_no_messages_move_the_anchor() {
        let text = br#"{"messages": [null, {"role": "user"}, 5, {"role": "user"}], "last_compaction": {"summary": "s", "message_index": 3}}"#;

        let document = Document::parse(text).unwrap();

        assert_eq!(document.messages.len(), 2);
        assert_eq!(document.anchor(), Some(1));
    }
}
