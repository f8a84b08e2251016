//! What the events of the first format are in the present one. Works on values alone.

use std::collections::HashMap;

use crate::codec::{Key, Value};
use crate::lineage::arguments;

/// An event of the new log, before it is numbered.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// Its type.
    pub kind: String,
    /// Its fields, without those that every migrated event gets.
    pub fields: Vec<(Key, Value)>,
    /// Its turn; 0 before the first one, which all of that counts to in the end.
    pub turn: i64,
}

/// Translates the log of an agent, in order. Events without a type have no place in the new log.
pub fn events(log: Vec<Value>) -> Vec<Translated> {
    let mut translation = Translation::default();
    for event in log {
        translation.take(event);
    }
    translation.announce();
    translation.done
}

/// Makes up the log of an agent of whom only the messages are left.
pub fn messages(messages: &[Value]) -> Vec<Translated> {
    let mut translation = Translation::default();
    for message in messages {
        translation.take_message(message);
    }
    // Unlike in a log, what is said before the user is of the first turn.
    translation.done.iter_mut().for_each(|event| event.turn = event.turn.max(1));
    translation.done
}

/// The event that a system prompt at the head of a snapshot is in the log.
pub fn system_prompt(messages: &[Value], ts: Option<&Value>) -> Option<Translated> {
    let first = messages.first().filter(|message| role_of(message) == "system")?;
    let mut fields = vec![pair("content", field(first, "content"))];
    fields.extend(ts.map(|ts| pair("ts", ts.clone())));
    Some(Translated { kind: "system_prompt_set".to_owned(), fields, turn: 0 })
}

/// Gives announcements of tool calls what was said before them in their turn.
pub fn fill_announcements(events: &mut [Translated]) {
    let mut said: HashMap<i64, String> = HashMap::new();
    for event in events {
        let content = event.fields.iter_mut().find(|(name, _)| name == "content");
        let Some((_, content)) = content else { continue };
        match (event.kind.as_str(), &content) {
            ("text_chunk", Value::Str(text)) => said.entry(event.turn).or_default().push_str(text),
            ("assistant_tool_calls", empty) if !empty.truthy() => {
                if let Some(text) = said.get(&event.turn) {
                    *content = Value::Str(text.clone());
                }
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct Translation {
    done: Vec<Translated>,
    turn: i64,
    chunk: i64,
    /// Calls that are announced together, before whatever comes next of the conversation.
    calls: Vec<Value>,
}

impl Translation {
    fn take(&mut self, event: Value) {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "" => {}
            "user_input" => self.user_input(&event),
            "text" | "text_chunk" => self.text(&event),
            "tool_call" => self.calls.push(event),
            "tool_result" => self.tool_result(&event),
            "compact_complete" => self.compaction(&event),
            _ => {
                let fields = match event {
                    Value::Map(fields) => fields,
                    _ => Vec::new(),
                };
                self.put(&kind, fields);
            }
        }
    }

    fn user_input(&mut self, event: &Value) {
        self.announce();
        self.turn += 1;
        self.chunk = 0;
        let fields = vec![pair("content", field(event, "content"))];
        self.put_dated("user_input", fields.clone(), event);
        self.put_dated("user_message", fields, event);
    }

    fn text(&mut self, event: &Value) {
        self.announce();
        let number = event.get("chunk_seq").cloned().unwrap_or(Value::Int(self.chunk));
        self.chunk = match &number {
            Value::Int(number) => number.saturating_add(1),
            Value::Bool(truth) => i64::from(*truth) + 1,
            _ => self.chunk + 1,
        };
        let fields = vec![pair("content", field(event, "content")), pair("chunk_seq", number)];
        self.put_dated("text_chunk", fields, event);
    }

    fn tool_result(&mut self, event: &Value) {
        self.announce();
        let call = truthy(event, "call_id").unwrap_or_else(|| field(event, "job_id"));
        let fields = vec![
            pair("name", field(event, "name")),
            pair("call_id", call),
            pair("output", field(event, "output")),
            pair("error", field(event, "error")),
        ];
        self.put_dated("tool_result", fields, event);
    }

    fn compaction(&mut self, event: &Value) {
        self.announce();
        let summary = truthy(event, "summary").or_else(|| truthy(event, "content"));
        let summary = summary.unwrap_or_else(|| Value::from(""));
        let to = truthy(event, "replaced_to_event_id").or_else(|| truthy(event, "event_id"));
        let number = |name| event.get(name).cloned().unwrap_or(Value::Int(0));
        let (round, count) = (number("round"), number("messages_compacted"));
        let replace = vec![
            pair("summary_text", summary.clone()),
            pair("replaced_from_event_id", truthy(event, "replaced_from_event_id").unwrap_or(Value::Int(1))),
            pair("replaced_to_event_id", to.unwrap_or(Value::Int(0))),
            pair("messages_compacted", count.clone()),
            pair("round", round.clone()),
        ];
        self.put_dated("compact_replace", replace, event);
        let complete =
            vec![pair("summary", summary), pair("round", round), pair("messages_compacted", count)];
        self.put_dated("compact_complete", complete, event);
    }

    /// Writes the calls that were waiting as one announcement.
    fn announce(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let Some(first) = calls.first() else { return };
        let announced = calls.iter().map(|call| {
            let id = truthy(call, "call_id").or_else(|| truthy(call, "id"));
            let function = Value::Map(vec![
                pair("name", field(call, "name")),
                pair("arguments", Value::Str(arguments(call.get("args")))),
            ]);
            Value::Map(vec![
                pair("id", id.unwrap_or_else(|| Value::from(""))),
                pair("type", Value::from("function")),
                pair("function", function),
            ])
        });
        let fields =
            vec![pair("tool_calls", Value::List(announced.collect())), pair("content", Value::from(""))];
        self.put_dated("assistant_tool_calls", fields, first);
    }

    fn take_message(&mut self, message: &Value) {
        let content = field(message, "content");
        match role_of(message).as_str() {
            "system" => self.put("system_prompt_set", vec![pair("content", content)]),
            "user" => {
                self.turn += 1;
                self.put("user_message", vec![pair("content", content)]);
            }
            "assistant" => self.answer(message, content),
            "tool" => {
                let call = truthy(message, "tool_call_id").unwrap_or_else(|| field(message, "call_id"));
                let fields = vec![
                    pair("name", field(message, "name")),
                    pair("call_id", call),
                    pair("output", content),
                ];
                self.put("tool_result", fields);
            }
            _ => {}
        }
    }

    fn answer(&mut self, message: &Value, content: Value) {
        let text = if matches!(content, Value::Str(_)) { content } else { Value::from("") };
        let calls = truthy(message, "tool_calls");
        if text.truthy() || calls.is_none() {
            self.put("text_chunk", vec![pair("content", text.clone()), pair("chunk_seq", Value::Int(0))]);
        }
        if let Some(calls) = calls {
            self.put("assistant_tool_calls", vec![pair("tool_calls", calls), pair("content", text)]);
        }
    }

    fn put(&mut self, kind: &str, fields: Vec<(Key, Value)>) {
        self.done.push(Translated { kind: kind.to_owned(), fields, turn: self.turn });
    }

    /// Writes an event made of another one, at the time of that one.
    fn put_dated(&mut self, kind: &str, mut fields: Vec<(Key, Value)>, event: &Value) {
        fields.extend(event.get("ts").map(|ts| pair("ts", ts.clone())));
        self.put(kind, fields);
    }
}

fn pair(name: &str, value: Value) -> (Key, Value) {
    (name.into(), value)
}

/// A field, or the empty text where there is none.
fn field(map: &Value, name: &str) -> Value {
    map.get(name).cloned().unwrap_or_else(|| Value::from(""))
}

fn truthy(map: &Value, name: &str) -> Option<Value> {
    map.get(name).filter(|value| value.truthy()).cloned()
}

fn role_of(message: &Value) -> String {
    message.get("role").and_then(Value::as_str).unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, fields: &[(&str, Value)]) -> Value {
        let given = fields.iter().map(|(name, value)| pair(name, value.clone()));
        Value::Map(std::iter::once(pair("type", Value::from(kind))).chain(given).collect())
    }

    fn kinds(events: &[Translated]) -> Vec<(&str, i64)> {
        events.iter().map(|event| (event.kind.as_str(), event.turn)).collect()
    }

    #[test]
    fn calls_are_announced_together_before_what_comes_next() {
        let log = vec![
            event("user_input", &[("content", "go".into())]),
            event("text", &[("content", "I look.".into())]),
            event("tool_call", &[("call_id", "a".into())]),
            event("token_usage", &[]),
            event("tool_call", &[("id", "b".into())]),
            event("tool_result", &[("call_id", "a".into())]),
        ];

        let mut done = events(log);
        fill_announcements(&mut done);

        let expected = [
            ("user_input", 1),
            ("user_message", 1),
            ("text_chunk", 1),
            ("token_usage", 1),
            ("assistant_tool_calls", 1),
            ("tool_result", 1),
        ];
        assert_eq!(kinds(&done), expected);
        assert_eq!(done[4].fields[1].1, Value::from("I look."));
        let ids = done[4].fields[0].1.as_list().unwrap().iter().map(|call| call.get("id").unwrap().clone());
        assert_eq!(ids.collect::<Vec<_>>(), [Value::from("a"), Value::from("b")]);
    }

    #[test]
    fn what_was_said_before_the_user_is_not_part_of_the_first_turn() {
        let log = vec![
            event("text", &[("content", "Hello.".into())]),
            event("user_input", &[]),
            event("tool_call", &[]),
            event("user_input", &[]),
        ];

        let mut done = events(log);
        fill_announcements(&mut done);

        let turns: Vec<i64> = done.iter().map(|event| event.turn).collect();
        assert_eq!(turns, [0, 1, 1, 1, 2, 2]);
        assert_eq!(done[3].fields[1].1, Value::from(""));
    }

    #[test]
    fn a_compaction_replaces_up_to_its_own_id_where_it_does_not_say() {
        let log = vec![event("compact_complete", &[("event_id", 7_i64.into()), ("content", "all".into())])];

        let done = events(log);

        let of = |name: &str| done[0].fields.iter().find(|(field, _)| field == name).unwrap().1.clone();
        assert_eq!(kinds(&done), [("compact_replace", 0), ("compact_complete", 0)]);
        assert_eq!(of("replaced_from_event_id"), Value::Int(1));
        assert_eq!(of("replaced_to_event_id"), Value::Int(7));
        assert_eq!(of("summary_text"), Value::from("all"));
    }
}
