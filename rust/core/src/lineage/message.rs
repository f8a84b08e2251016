//! Changes to messages that are told already.

use super::field::{or, record, string, text, truthy};
use crate::codec::Value;

/// What a provider wants back with its message, beside the content.
const STATE: [&str; 7] = [
    "reasoning_content",
    "reasoning_summary",
    "reasoning_details",
    "reasoning",
    "_kt_assistant_segments",
    SIGNED,
    "_kt_tool_call_extra",
];
/// Signed parts of one provider, which hold the digest of the message that they belong to.
const SIGNED: &str = "_kt_antigravity_content";
/// The digest of a message without content and calls.
const DIGEST_OF_NOTHING: &str = "ddcd8417ed100fa5d1728d633de34ba2a9a33abd3038f51994afab3dac722ec1";

/// Returns the role of a message.
pub(super) fn role(message: &Value) -> &str {
    text(message, "role")
}

/// Returns a field of a message for change.
pub(super) fn field<'m>(message: &'m mut Value, key: &str) -> Option<&'m mut Value> {
    match message {
        Value::Map(pairs) => pairs.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value),
        _ => None,
    }
}

/// Sets a field of a message.
pub(super) fn set(message: &mut Value, key: &str, value: Value) {
    if let Some(known) = field(message, key) {
        *known = value;
    } else if let Value::Map(pairs) = message {
        pairs.push((key.into(), value));
    }
}

/// Adds an image, as a part of the last message when it `joins` that, else as a message.
pub(super) fn add_image(messages: &mut Vec<Value>, event: &Value, joins: bool) {
    let part = image(event);
    match messages.last_mut() {
        Some(last) if joins && role(last) == "assistant" => {
            let mut parts = match last.get("content") {
                Some(Value::Str(text)) if !text.is_empty() => {
                    vec![record([("type", string("text")), ("text", string(&**text))])]
                }
                Some(Value::List(parts)) => parts.clone(),
                _ => Vec::new(),
            };
            parts.push(part);
            set(last, "content", Value::List(parts));
        }
        _ => messages.push(record([("role", string("assistant")), ("content", Value::List(vec![part]))])),
    }
}

fn image(event: &Value) -> Value {
    let url =
        record([("url", or(event, "url", string(""))), ("detail", or(event, "detail", string("auto")))]);
    let mut part = record([("type", string("image_url")), ("image_url", url)]);
    if truthy(event, "source_type").or_else(|| truthy(event, "source_name")).is_some() {
        let source = |key| or(event, key, Value::Nil);
        let meta = record([("source_type", source("source_type")), ("source_name", source("source_name"))]);
        set(&mut part, "meta", meta);
    }
    part
}

/// Gives the last assistant message the state that its provider wants back. `whole` is the message of the
/// round that is being told: what it has already stays.
pub(super) fn add_reasoning(messages: &mut Vec<Value>, event: &Value, whole: Option<usize>) {
    let last = messages.iter().rposition(|message| role(message) == "assistant");
    let target = match truthy(event, SIGNED) {
        Some(signed) => {
            let known = last.and_then(|at| messages[at].get(SIGNED));
            if last.is_some() && last == whole && known == Some(signed) {
                return;
            }
            signed_target(messages, last, signed)
        }
        None => last,
    };
    let Some(target) = target else { return };
    for key in STATE {
        if let Some(value) = event.get(key).filter(|value| !is_empty(value)) {
            set(&mut messages[target], key, value.clone());
        }
    }
}

/// Finds the message that signed parts belong to, or adds the empty one that they are all of. The digest is
/// not computed here: whoever sends the parts compares it, and leaves out what does not match.
fn signed_target(messages: &mut Vec<Value>, last: Option<usize>, signed: &Value) -> Option<usize> {
    let of_nothing = text(signed, "digest") == DIGEST_OF_NOTHING;
    let open = last.filter(|&at| {
        let message = &messages[at];
        let says = truthy(message, "content").or_else(|| truthy(message, "tool_calls")).is_some();
        message.get(SIGNED).is_none() && says != of_nothing
    });
    if open.is_none() && of_nothing {
        messages.push(record([("role", string("assistant")), ("content", string(""))]));
        return Some(messages.len() - 1);
    }
    open
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(pairs) => pairs.is_empty(),
        _ => false,
    }
}
