//! The keys of maps: of the few names that nearly all events are made of there is one text each.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A key of a map; as text in every respect.
#[derive(Clone)]
pub struct Key(Text);

#[derive(Clone)]
enum Text {
    /// The place among the known names.
    Known(u8),
    Own(Box<str>),
}

/// The names that cost nothing to hold. They must be told apart by [`slot_of`].
static KNOWN: [&str; 66] = [
    "type",
    "event_id",
    "turn_index",
    "branch_id",
    "spawned_in_turn",
    "ts",
    "parent_branch_path",
    "content",
    "chunk_seq",
    "name",
    "call_id",
    "job_id",
    "tool_call_id",
    "args",
    "output",
    "exit_code",
    "error",
    "success",
    "role",
    "tool_calls",
    "metadata",
    "id",
    "function",
    "arguments",
    "message",
    "round_start_event_id",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "total_tokens",
    "reason",
    "source",
    "result_event_id",
    "tool_result_phase",
    "compact_path",
    "compact_source_path",
    "compact_result_event_ids",
    "replaced_from_event_id",
    "replaced_to_event_id",
    "summary",
    "round",
    "messages_compacted",
    "text",
    "image_url",
    "url",
    "detail",
    "compact_summary",
    "interrupted",
    "final_state",
    "agent",
    "task",
    "background",
    "path",
    "limit",
    "turn",
    "branch",
    "watermark",
    "messages",
    "compact_state",
    "context_cutoff_event_id",
    "reasoning_content",
    "finish_reason",
    "model",
    "_source_event_id",
    "_synthetic_announce",
    "_synthetic_resume",
];
const SLOTS: usize = 256;
/// For each slot the place of its name; of no name where the slot is free.
static TABLE: [u8; SLOTS] = table();

#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 names")]
const fn table() -> [u8; SLOTS] {
    let mut table = [0; SLOTS];
    let mut at = 0;
    while at < KNOWN.len() {
        table[slot_of(KNOWN[at].as_bytes())] = at as u8;
        at += 1;
    }
    table
}

/// Length and three bytes, in a mixture that was searched for until no two of the names shared a slot.
const fn slot_of(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let (first, middle, last) = (name[0] as usize, name[length / 2] as usize, name[length - 1] as usize);
    (length * 164 + first * 209 + middle * 179 + last * 156) % SLOTS
}

/// Returns the place of a known name.
#[inline]
fn known(name: &str) -> Option<u8> {
    let at = TABLE[slot_of(name.as_bytes())];
    is_same(KNOWN[usize::from(at)], name).then_some(at)
}

/// Compares short names; most of those that differ differ at an end, which spares a call.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len() && one.first() == other.first() && one.last() == other.last() && one == other
}

/// A key that is looked for, so that each key on the way costs a comparison of numbers at most.
pub(super) enum Sought<'k> {
    Known(u8),
    Other(&'k str),
}

impl<'k> Sought<'k> {
    #[inline]
    pub(super) fn of(name: &'k str) -> Self {
        known(name).map_or(Self::Other(name), Self::Known)
    }

    #[inline]
    pub(super) fn is(&self, key: &Key) -> bool {
        match (self, &key.0) {
            (Self::Known(sought), Text::Known(at)) => sought == at,
            // What is known is never held as its own text.
            (Self::Other(sought), Text::Own(text)) => is_same(sought, text),
            _ => false,
        }
    }
}

impl Key {
    /// Returns the text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Known(at) => KNOWN[usize::from(*at)],
            Text::Own(text) => text,
        }
    }
}

impl From<&str> for Key {
    #[inline]
    fn from(name: &str) -> Self {
        Self(known(name).map_or_else(|| Text::Own(name.into()), Text::Known))
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self(known(&name).map_or_else(|| Text::Own(name.into_boxed_str()), Text::Known))
    }
}

impl Default for Key {
    fn default() -> Self {
        Self(Text::Own("".into()))
    }
}

impl Deref for Key {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Text::Known(one), Text::Known(other)) => one == other,
            _ => is_same(self, other),
        }
    }
}

impl Eq for Key {}

impl PartialEq<str> for Key {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        is_same(self, other)
    }
}

impl PartialEq<&str> for Key {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        is_same(self, other)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, Key, Sought, Text, known};

    #[test]
    fn every_known_name_has_a_slot_of_its_own() {
        let found = KNOWN.iter().map(|name| known(name).map(usize::from));

        assert!(found.eq((0..KNOWN.len()).map(Some)));
        assert!(["", "typo", "event_ie", "größe"].iter().all(|name| known(name).is_none()));
    }

    #[test]
    fn a_key_is_its_text_however_it_came_by_it() {
        for name in ["type", "typo", ""] {
            let (borrowed, owned) = (Key::from(name), Key::from(name.to_owned()));

            assert_eq!(borrowed, owned);
            assert!(borrowed == *name && owned == name);
            assert!(Sought::of(name).is(&borrowed) && !Sought::of("other").is(&borrowed));
            assert_eq!(matches!(borrowed.0, Text::Known(_)), name == "type");
        }
        assert_eq!(Key::default(), Key::from(""));
        assert_ne!(Key::from("type"), Key::from("typo"));
    }
}
