//! A look at packed messages: whether they can be handed on as they are.

use crate::codec::msgpack::{self, Reader, Token, as_i64, as_str, field};

/// More calls in one message are left to a look that does not compare each with all others.
const CALLS: usize = 64;

/// What a look at packed messages found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether each call is followed by its result, each result stands behind its call, and every item is
    /// a message.
    pub is_paired: bool,
    /// Whether a message of the user does not say which turn it began.
    pub lacks_turns: bool,
    /// Whether all messages are those of the system.
    pub is_bare: bool,
}

impl Look {
    /// Looks at the messages of packed lists, once. Their texts were checked, or will be by who makes them.
    pub fn at(lists: &[Vec<u8>]) -> Self {
        let mut pairs = Pairs::default();
        let mut look = Self { is_paired: true, is_bare: true, ..Self::default() };
        for list in lists {
            let mut reader = Reader::new(list);
            let Ok(Token::List(count)) = reader.token() else { return Self::default() };
            for _ in 0..count {
                let Some(message) = Message::read(&mut reader) else { return Self::default() };
                look.is_paired &= pairs.pass(&message);
                look.is_bare &= message.role == "system";
                look.lacks_turns |= message.begins_turn() && !message.has_turn();
            }
        }
        look.is_paired &= pairs.waiting.is_empty();
        look
    }
}

/// The fields of a message that are looked at.
#[derive(Default)]
struct Message<'m> {
    role: &'m str,
    call_id: &'m str,
    calls: Option<&'m [u8]>,
    about: Option<&'m [u8]>,
}

impl<'m> Message<'m> {
    fn read(reader: &mut Reader<'m>) -> Option<Self> {
        let Ok(Token::Map(count)) = reader.token() else { return None };
        let mut message = Self::default();
        for _ in 0..count {
            let (key, value) = (reader.raw_key().ok()?, reader.pass().ok()?);
            match key {
                b"role" => message.role = as_str(value).unwrap_or_default(),
                b"tool_call_id" => message.call_id = as_str(value).unwrap_or_default(),
                b"tool_calls" => message.calls = Some(value),
                b"metadata" => message.about = Some(value),
                _ => {}
            }
        }
        Some(message)
    }

    fn begins_turn(&self) -> bool {
        let kind = || self.about.and_then(|about| field(about, "kind")).and_then(as_str);
        self.role == "user" && kind() != Some("tool_results")
    }

    fn has_turn(&self) -> bool {
        ["turn_index", "branch_id"].iter().all(|key| {
            self.about.and_then(|about| field(about, key)).and_then(as_i64).is_some_and(|number| number > 0)
        })
    }
}

/// The calls of the last assistant message that have no result yet.
#[derive(Default)]
struct Pairs<'m> {
    waiting: Vec<&'m str>,
}

impl<'m> Pairs<'m> {
    /// Takes the next message; whether all is well up to it.
    fn pass(&mut self, message: &Message<'m>) -> bool {
        match message.role {
            "tool" => self.answer(message.call_id),
            _ if !self.waiting.is_empty() => false,
            "assistant" => message.calls.is_none_or(|calls| self.await_calls(calls)),
            _ => true,
        }
    }

    fn answer(&mut self, id: &str) -> bool {
        let at = self.waiting.iter().position(|waiting| *waiting == id);
        at.map(|at| self.waiting.swap_remove(at)).is_some()
    }

    fn await_calls(&mut self, calls: &'m [u8]) -> bool {
        let mut reader = Reader::new(calls);
        let count = match reader.token() {
            Ok(Token::List(count)) => count,
            Ok(Token::Nil) => return true,
            _ => return false,
        };
        let is_new = |waiting: &[&str], id: &str| !id.is_empty() && !waiting.contains(&id);
        (1..=CALLS).contains(&count)
            && (0..count).all(|_| {
                let id = call_id(&mut reader).filter(|id| is_new(&self.waiting, id));
                id.map(|id| self.waiting.push(id)).is_some()
            })
    }
}

/// Passes over a call and returns its id.
fn call_id<'m>(reader: &mut Reader<'m>) -> Option<&'m str> {
    let Ok(Token::Map(count)) = reader.token() else { return None };
    let mut id = None;
    for _ in 0..count {
        let (key, value) = (reader.raw_key().ok()?, reader.pass().ok()?);
        if key == b"id" {
            id = as_str(value);
        }
    }
    id
}

/// Packs messages as one list.
pub fn packed(messages: &[crate::codec::Value]) -> Vec<u8> {
    let mut body = Vec::new();
    msgpack::put_list_header(&mut body, messages.len());
    for message in messages {
        msgpack::put_value(&mut body, message);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Value, from_json};

    fn look(json: &str) -> Look {
        let Ok(Value::List(messages)) = from_json(json) else { return Look::default() };
        Look::at(&[packed(&messages)])
    }

    #[test]
    fn calls_with_their_results_behind_them_are_paired() {
        let found = look(
            r#"[{"role": "user", "metadata": {"turn_index": 1, "branch_id": 1}},
                {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]},
                {"role": "tool", "tool_call_id": "b"}, {"role": "tool", "tool_call_id": "a"},
                {"role": "assistant", "content": "done", "tool_calls": null}]"#,
        );

        assert_eq!(found, Look { is_paired: true, lacks_turns: false, is_bare: false });
    }

    #[test]
    fn what_does_not_match_is_not_paired() {
        for messages in [
            r#"[{"role": "tool", "tool_call_id": "a"}]"#,
            r#"[{"role": "assistant", "tool_calls": [{"id": "a"}]}]"#,
            r#"[{"role": "assistant", "tool_calls": [{"id": "a"}]}, {"role": "user"}]"#,
            r#"[{"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "a"}]}]"#,
            r#"[{"role": "assistant", "tool_calls": [{}]}]"#,
            r#"[{"role": "assistant", "tool_calls": []}]"#,
            r#"["text"]"#,
        ] {
            assert!(!look(messages).is_paired, "{messages}");
        }
    }

    #[test]
    fn a_message_without_its_turn_is_noticed_and_feedback_is_none() {
        let found = look(r#"[{"role": "user"}, {"role": "user", "metadata": {"kind": "tool_results"}}]"#);

        assert_eq!(found, Look { is_paired: true, lacks_turns: true, is_bare: false });
    }
}
