//! What of a session goes to a model: the newest messages, or a summary and what came after it.

use super::document::{Document, Message};
use crate::codec::json::Json;

/// Returns a message with no more than a model needs.
pub fn for_model(message: &Message) -> Json {
    let [role, content, calls, id] = message.parts(["role", "content", "tool_calls", "tool_call_id"]);
    let mut pairs: Vec<(Box<str>, Json)> = Vec::with_capacity(2);
    pairs.push(("role".into(), role.unwrap_or_else(|| Json::text("user"))));
    pairs.push(("content".into(), content.unwrap_or_else(|| Json::text(""))));
    if let Some(calls) = calls.filter(Json::is_truthy) {
        pairs.push(("tool_calls".into(), calls));
    }
    if let Some(id) = id.filter(|id| *id != Json::Null) {
        pairs.push(("tool_call_id".into(), id));
    }
    Json::Map(pairs)
}

/// Returns the newest `max` messages, all when it is `None` or 0, none when it is negative. The
/// results of tools whose call would be cut off go with it, so that there may be fewer.
pub fn newest(messages: &[Message], max: Option<i64>) -> &[Message] {
    let Some(max) = max.filter(|&max| max != 0) else { return messages };
    let Ok(max) = usize::try_from(max) else { return &[] };
    if messages.len() <= max {
        return messages;
    }
    let tail = messages.get(messages.len() - max..).unwrap_or_default();
    let orphans = tail.iter().take_while(|message| message.is_tool_result()).count();
    tail.get(orphans..).unwrap_or_default()
}

impl Document {
    /// Returns the newest messages of the window for a model, as [`newest`] counts them.
    pub fn chat_history(&self, max: Option<i64>) -> Json {
        Json::List(newest(&self.messages, max).iter().map(for_model).collect())
    }

    /// Returns the summary of the checkpoint and what came after it, `max` messages at most.
    ///
    /// Without a checkpoint these are the newest messages. The summary of an archive stands before
    /// the window and not in it, so that `with_archive` it comes first, beyond the `max`: cut off,
    /// it would take the archive with it, and in the place of a message leave a gap.
    pub fn working_history(&self, max: Option<i64>, with_archive: bool) -> Json {
        if let (Some(anchor), Some(checkpoint)) = (self.anchor(), self.get("last_compaction")) {
            let start = anchor.min(self.messages.len());
            let role = checkpoint.get("role").cloned().unwrap_or_else(|| Json::text("system"));
            let content = checkpoint.get("summary").cloned().unwrap_or_else(|| Json::text(""));
            let summary = Json::Map(vec![("role".into(), role), ("content".into(), content)]);
            return with_summary(summary, self.messages.get(start..).unwrap_or_default(), max);
        }
        match self.messages.split_first() {
            Some((first, rest)) if with_archive && first.is_summary() => {
                with_summary(for_model(first), rest, max.map(|max| max.saturating_add(1)))
            }
            _ => self.chat_history(max),
        }
    }
}

fn with_summary(summary: Json, rest: &[Message], max: Option<i64>) -> Json {
    let rest = match max {
        Some(1) => &[],
        Some(max) if max > 1 => newest(rest, Some(max - 1)),
        _ => rest,
    };
    let mut messages = vec![summary];
    messages.extend(rest.iter().map(for_model));
    Json::List(messages)
}
