//! The turns of a conversation, put together from the events that are shown.

use std::collections::{BTreeMap, HashSet};

use super::dedupe::dedupe_adjacent;
use super::field::{int, kind, or, record, string, text, truthy};
use super::log::select_live_event_ids;
use crate::codec::Value;

/// Returns what was asked and answered in each turn, oldest first: maps of `user_text`,
/// `assistant_text`, `tool_calls`, `source` and `ts`. Only the newest branches are looked at.
pub fn turns(events: Vec<Value>) -> Vec<Value> {
    let events = dedupe_adjacent(events);
    let live: HashSet<i64> = select_live_event_ids(&events, &BTreeMap::new()).into_iter().collect();
    let mut done = Vec::new();
    let mut open: Option<Turn<'_>> = None;
    for event in events.iter().filter(|event| int(event, "event_id").is_none_or(|id| live.contains(&id))) {
        if matches!(kind(event), "user_input" | "trigger_fired") {
            done.extend(open.replace(Turn::of(event)).and_then(Turn::close));
        } else if let Some(turn) = open.as_mut() {
            turn.take(event);
        }
    }
    done.extend(open.and_then(Turn::close));
    done
}

struct Turn<'e> {
    opening: &'e Value,
    said: String,
    calls: Vec<Value>,
    /// What was said and called by whole messages, which counts where it is not told piece by piece.
    told: String,
    announced: Vec<Value>,
}

impl<'e> Turn<'e> {
    fn of(opening: &'e Value) -> Self {
        Self { opening, said: String::new(), calls: Vec::new(), told: String::new(), announced: Vec::new() }
    }

    fn take(&mut self, event: &Value) {
        match kind(event) {
            "text" | "text_chunk" => self.said.push_str(text(event, "content")),
            "tool_call" => {
                let args = or(event, "args", Value::Map(Vec::new()));
                self.calls.push(call(or(event, "name", string("")), args));
            }
            "assistant_message" => {
                let message = event.get("message").unwrap_or(&Value::Nil);
                self.told.push_str(text(message, "content"));
                self.announce(message);
            }
            "assistant_tool_calls" => self.announce(event),
            _ => {}
        }
    }

    fn announce(&mut self, message: &Value) {
        let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
        self.announced.extend(calls.iter().filter_map(|announced| {
            let function = announced.get("function")?;
            Some(call(or(function, "name", string("")), or(function, "arguments", string("{}"))))
        }));
    }

    /// The turn, unless nothing was said in it.
    fn close(self) -> Option<Value> {
        let said = if self.said.is_empty() { self.told } else { self.said };
        let calls = if self.calls.is_empty() { self.announced } else { self.calls };
        if truthy(self.opening, "content").is_none() && said.is_empty() {
            return None;
        }
        Some(record([
            ("user_text", or(self.opening, "content", string(""))),
            ("assistant_text", string(said)),
            ("tool_calls", Value::List(calls)),
            ("source", or(self.opening, "source", string(kind(self.opening)))),
            ("ts", or(self.opening, "ts", Value::Float(0.0))),
        ]))
    }
}

fn call(name: Value, args: Value) -> Value {
    record([("name", name), ("args", args)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: i64, kind: &str, branch: i64, content: &str) -> Value {
        record([
            ("type", string(kind)),
            ("event_id", Value::Int(id)),
            ("turn_index", Value::Int(1)),
            ("branch_id", Value::Int(branch)),
            ("content", string(content)),
        ])
    }

    #[test]
    fn only_the_newest_branch_of_a_turn_is_shown() {
        let log = vec![
            event(1, "user_input", 1, "one"),
            event(2, "user_message", 1, "one"),
            event(3, "text_chunk", 1, "first"),
            event(4, "user_input", 2, "two"),
            event(5, "user_message", 2, "two"),
            event(6, "text_chunk", 2, "sec"),
            event(7, "text_chunk", 2, "ond"),
        ];

        let shown = turns(log);

        let texts: Vec<_> =
            shown.iter().map(|turn| (text(turn, "user_text"), text(turn, "assistant_text"))).collect();
        assert_eq!(texts, [("two", "second")]);
    }
}
