//! What was said last in a conversation, for a listing: read from the packed messages, decoding
//! only the ones that are shown.

use crate::codec::msgpack::{self, Reader, Token};
use crate::codec::{Value, from_json};

/// Characters of a preview.
pub const PREVIEW: usize = 200;
/// Characters of the last question and of its answer.
pub const QUOTE: usize = 400;
/// Marks a user's message that only carries the results of tools.
const TOOL_FEEDBACK: &str = "tool_results";

/// The last exchange of a conversation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The user's newest message, shortened; empty when there is none.
    pub user: String,
    /// The same as a preview is cut.
    pub preview: String,
    /// The last answer to it, shortened.
    pub reply: String,
    /// How many messages the user wrote.
    pub prompts: i64,
}

impl Exchange {
    /// Reads the messages of a snapshot: a list, a map that holds one, or either as JSON text.
    /// `None` when it is none of these.
    pub fn of_snapshot(body: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        match reader.token().ok()? {
            Token::List(count) => Self::of_messages(reader, count),
            Token::Map(_) => {
                let mut inner = Reader::new(msgpack::field(body, "messages")?);
                match inner.token().ok()? {
                    Token::List(count) => Self::of_messages(inner, count),
                    _ => None,
                }
            }
            Token::Str(text) => Self::of_json(text.as_bytes()),
            _ => None,
        }
    }

    /// Reads messages that are stored as JSON text, as old sessions keep them.
    pub fn of_json(text: &[u8]) -> Option<Self> {
        let parsed = from_json(std::str::from_utf8(text).ok()?).ok()?;
        if !matches!(parsed, Value::List(_) | Value::Map(_)) {
            return None;
        }
        let mut body = Vec::with_capacity(text.len());
        msgpack::put_value(&mut body, &parsed);
        Self::of_snapshot(&body)
    }

    fn of_messages(mut reader: Reader<'_>, count: usize) -> Option<Self> {
        let mut exchange = Self::default();
        for _ in 0..count {
            // Whoever opened the value has checked its texts.
            let message = reader.pass().ok()?;
            let Some(role) = msgpack::field(message, "role").and_then(msgpack::as_str) else { continue };
            match role {
                "user" if !is_feedback(message) => exchange.ask(msgpack::field(message, "content")),
                "assistant" => exchange.answer(msgpack::field(message, "content")),
                _ => {}
            }
        }
        Some(exchange)
    }

    /// Takes a message of the user; one without text is none.
    pub fn ask(&mut self, content: Option<&[u8]>) {
        let preview = flatten(content, PREVIEW);
        if preview.trim().is_empty() {
            return;
        }
        self.prompts += 1;
        flatten(content, QUOTE).trim().clone_into(&mut self.user);
        preview.trim().clone_into(&mut self.preview);
        self.reply.clear();
    }

    /// Takes a message of the assistant.
    pub fn answer(&mut self, content: Option<&[u8]>) {
        if self.prompts == 0 {
            return;
        }
        let reply = flatten(content, QUOTE);
        if !reply.trim().is_empty() {
            reply.trim().clone_into(&mut self.reply);
        }
    }
}

fn is_feedback(message: &[u8]) -> bool {
    let metadata = msgpack::field(message, "metadata");
    let kind = metadata.and_then(|map| msgpack::field(map, "kind")).and_then(msgpack::as_str);
    kind == Some(TOOL_FEEDBACK)
}

/// The text of a content, cut to `limit` characters. Parts that are no text become `[image]`,
/// `[file]` or the like, so that no picture is listed byte by byte.
pub fn flatten(content: Option<&[u8]>, limit: usize) -> String {
    let Some(content) = content else { return String::new() };
    let mut reader = Reader::new(content);
    match reader.token() {
        Ok(Token::Str(text)) => cut(text, limit).to_owned(),
        Ok(Token::List(count)) => {
            let mut joined = String::new();
            for _ in 0..count {
                let Ok(part) = reader.raw() else { break };
                join(&mut joined, &part_text(part, limit));
                if joined.chars().nth(limit).is_some() {
                    break;
                }
            }
            cut(&joined, limit).to_owned()
        }
        Ok(Token::Map(_)) => cut(&part_text(content, limit), limit).to_owned(),
        Ok(Token::Bool(truth)) => if truth { "True" } else { "False" }.to_owned(),
        Ok(Token::Int(number)) => number.to_string(),
        Ok(Token::UInt(number)) => number.to_string(),
        Ok(Token::Float(number)) => format!("{number:?}"),
        Ok(Token::Nil) | Err(_) => String::new(),
    }
}

fn join(joined: &mut String, part: &str) {
    if !part.is_empty() {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(part);
    }
}

fn part_text(part: &[u8], limit: usize) -> String {
    if let Some(text) = msgpack::as_str(part) {
        return cut(text, limit).to_owned();
    }
    if !matches!(Reader::new(part).token(), Ok(Token::Map(_))) {
        return String::new();
    }
    match msgpack::field(part, "type").and_then(msgpack::as_str).unwrap_or_default() {
        "text" => flatten(msgpack::field(part, "text"), limit),
        "image_url" | "image" => "[image]".to_owned(),
        "file" => "[file]".to_owned(),
        "" => "[attachment]".to_owned(),
        other => format!("[{}]", cut(other, limit)),
    }
}

/// The first `limit` characters.
pub fn cut(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(json: &str) -> Exchange {
        Exchange::of_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn the_last_question_and_its_last_answer_are_shown() {
        let exchange = snapshot(
            r#"[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":"a"},
                {"role":"user","content":[{"type":"text","text":" two "},{"type":"image_url"},"x"]},
                {"role":"assistant","content":"b"},{"role":"tool","content":"t"},{"role":"assistant","content":"c"},
                {"role":"assistant","content":null},
                {"role":"user","content":"r","metadata":{"kind":"tool_results"}},{"role":"user","content":"  "}]"#,
        );

        assert_eq!((exchange.user.as_str(), exchange.reply.as_str()), ("two  [image] x", "c"));
        assert_eq!(exchange.prompts, 2);
    }

    #[test]
    fn a_question_without_an_answer_has_none() {
        let exchange =
            snapshot(r#"{"messages":[{"role":"assistant","content":"hi"},{"role":"user","content":"q"}]}"#);

        assert_eq!((exchange.user.as_str(), exchange.reply.as_str(), exchange.prompts), ("q", "", 1));
    }

    #[test]
    fn long_texts_are_cut_by_characters() {
        let exchange = snapshot(&format!(r#"[{{"role":"user","content":"{}"}}]"#, "é".repeat(1000)));

        assert_eq!((exchange.preview.chars().count(), exchange.user.chars().count()), (PREVIEW, QUOTE));
    }

    #[test]
    fn what_is_no_conversation_is_none() {
        assert_eq!(Exchange::of_json(b"3"), None);
        assert_eq!(Exchange::of_json(b"[1, 2"), None);
        assert_eq!(Exchange::of_snapshot(&[0xc0]), None);
        assert_eq!(snapshot("[]"), Exchange::default());
    }
}
