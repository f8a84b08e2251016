//! What happens to messages that no longer fit the active window.

use super::document::{Document, Message};
use super::history::newest;
use super::tally::Tally;
use crate::codec::json::Json;

/// How a summary of ours and of the peer begins.
const HEADING: &str = "[Session Summary]\n";
/// What the peer puts between the summaries of one archive after another.
const BETWEEN: &str = "\n---\n";
/// How a summary begins that can be counted anew from the archive.
const COUNTED: &str = "Previous conversation: ";

/// What to do with the oldest messages of a full window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Move them to the archive and leave a summary in their place.
    Compact,
    /// Drop them.
    Truncate,
    /// Keep them.
    KeepAll,
}

/// How long the window is, and what happens beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What to do.
    pub retention: Retention,
    /// How many messages stay; without a limit when it is not positive.
    pub window: i64,
}

impl Document {
    /// Makes the window fit the policy; `timestamp` is that of a summary that it may need.
    pub(super) fn fit(&mut self, policy: Policy, timestamp: &Json, tally: &mut Option<Tally>) {
        if policy.window <= 0 || policy.retention == Retention::KeepAll {
            return;
        }
        let kept = newest(&self.messages, Some(policy.window)).len();
        let overflow = self.messages.len() - kept;
        if overflow == 0 {
            return;
        }
        if policy.retention == Retention::Truncate {
            self.messages.drain(..overflow);
            self.move_anchor(overflow);
            return;
        }
        let prior = self
            .messages
            .first()
            .filter(|message| message.is_summary())
            .map(|message| message.json().into_owned());
        let to_archive = overflow - usize::from(prior.is_some());
        if to_archive == 0 {
            return;
        }
        let mut moved: Vec<Message> = self.messages.drain(..overflow).collect();
        if prior.is_some() {
            moved.remove(0);
        }
        // Counted once for a session in memory, then message by message.
        let tally = tally.get_or_insert_with(|| Tally::of(&self.archive));
        for message in &moved {
            tally.add(&message.json());
        }
        self.archive.append(&mut moved);
        let summary = summary(prior.as_ref(), to_archive, tally, timestamp);
        self.messages.insert(0, summary);
        self.move_anchor(overflow - 1);
    }
}

/// Returns the one summary of all that was archived. It is counted anew, so that it stays short
/// however often it is renewed; what it said in words of its own it goes on saying.
fn summary(prior: Option<&Json>, archived: usize, tally: &Tally, timestamp: &Json) -> Message {
    let counted = prior
        .and_then(|message| message.get("metadata")?.get("compacted_count")?.as_int())
        .unwrap_or(0)
        .saturating_add(i64::try_from(archived).unwrap_or(i64::MAX));
    let said = prior.and_then(|message| message.get("content")?.as_str()).unwrap_or_default();
    let said = said.strip_prefix(HEADING).unwrap_or(said);
    let mut parts: Vec<&str> =
        said.split(BETWEEN).filter(|part| !part.is_empty() && !part.starts_with(COUNTED)).collect();
    let text = tally.text(counted);
    parts.push(&text);
    let content = format!("{HEADING}{}", parts.join(BETWEEN));
    let mut metadata = prior.and_then(|message| message.get("metadata")).cloned().unwrap_or_default();
    metadata.set("compaction", Json::Bool(true));
    metadata.set("compacted_count", Json::Number(counted.to_string().into()));
    Message::new(&Json::Map(vec![
        ("role".into(), Json::text("system")),
        ("content".into(), Json::text(&content)),
        ("timestamp".into(), timestamp.clone()),
        ("metadata".into(), metadata),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(count: usize) -> Document {
        let mut document = Document::new("s", "t");
        document.messages = (0..count).map(message).collect();
        document
    }

    fn message(number: usize) -> Message {
        Message::new(&Json::Map(vec![
            ("role".into(), Json::text("user")),
            ("content".into(), Json::text(&format!("turn {number}"))),
        ]))
    }

    fn policy(retention: Retention, window: i64) -> Policy {
        Policy { retention, window }
    }

    fn contents(messages: &[Message]) -> Vec<String> {
        let content =
            |message: &Message| message.json().get("content").and_then(Json::as_str).map(str::to_owned);
        messages.iter().filter_map(content).collect()
    }

    #[test]
    fn the_summary_stays_as_long_however_much_is_archived() {
        let mut document = session(3);
        let mut tally = None;

        let mut lengths = Vec::new();
        for number in 3..400 {
            document.messages.push(message(number));
            document.fit(policy(Retention::Compact, 3), &Json::int(1), &mut tally);
            lengths.push(contents(&document.messages).first().map_or(0, String::len));
        }

        assert_eq!(document.messages.len(), 4);
        assert_eq!(document.archive.len(), 397);
        assert_eq!(contents(&document.archive).last().unwrap(), "turn 396");
        assert!(lengths.iter().max().unwrap() - lengths.first().unwrap() <= 4, "{lengths:?}");
        assert!(contents(&document.messages).first().unwrap().contains("397 messages"));
    }

    #[test]
    fn the_words_of_a_foreign_summary_stay() {
        let mut document = session(2);
        let foreign = r#"{"role": "system", "content": "[Session Summary]\nWe chose Oslo.\n---\nPrevious conversation: 4 messages", "metadata": {"compaction": true, "compacted_count": 4}}"#;
        document.messages.insert(0, Message::new(&crate::codec::json::parse(foreign.as_bytes()).unwrap()));

        document.messages.push(message(2));
        document.fit(policy(Retention::Compact, 2), &Json::int(1), &mut None);

        let text = contents(&document.messages).remove(0);
        assert!(
            text.starts_with("[Session Summary]\nWe chose Oslo.\n---\nPrevious conversation: 5 messages"),
            "{text}"
        );
    }

    #[test]
    fn the_anchor_follows_what_is_dropped_and_what_is_archived() {
        for (retention, expected) in [(Retention::Truncate, 2), (Retention::Compact, 3)] {
            let mut document = session(6);
            document.set("last_compaction", Json::Map(vec![("message_index".into(), Json::int(4))]));

            document.fit(policy(retention, 4), &Json::int(1), &mut None);

            assert_eq!(document.anchor(), Some(expected));
            assert_eq!(contents(&document.messages).get(expected).unwrap(), "turn 4");
        }
    }

    #[test]
    fn no_window_begins_with_the_result_of_a_tool() {
        let mut document = session(2);
        let result = Message::new(&Json::Map(vec![("role".into(), Json::text("tool"))]));
        document.messages.push(result);
        document.messages.push(message(3));

        document.fit(policy(Retention::Truncate, 2), &Json::int(1), &mut None);

        assert_eq!(contents(&document.messages), ["turn 3"]);
    }
}
