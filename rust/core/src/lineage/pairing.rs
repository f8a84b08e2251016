//! Calls and results in messages: providers refuse a chat in which they do not match.

use std::collections::{HashMap, HashSet, VecDeque};

use super::field::{record, string, text};
use super::message::{field, role, set};
use super::resumable::INTERRUPTED;
use crate::codec::Value;

/// What was wrong with the call or the result of this id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The call had no result after it; one was made, with `_synthetic_resume` in its metadata.
    Answered(String),
    /// The result stood apart from its call and was moved to it.
    Moved(String),
    /// No call before the result still waited for it; it was left out.
    Dropped(String),
    /// The call repeated another of its message, or had no id; it was left out.
    Repeated(String),
    /// What stood at this place among the messages is none; it was left out.
    Malformed(String),
}

/// Returns messages in which each call is followed by exactly one result, and what was changed for that.
///
/// A result goes to the first call of its id that waits for one. Messages that match stay as they are. Calls
/// in `running` may wait on.
pub fn pair_tool_calls(messages: Vec<Value>, running: &[String]) -> (Vec<Value>, Vec<Repair>) {
    if is_paired(&messages) {
        return (messages, Vec::new());
    }
    let mut results: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| role(message) == "tool") {
        results.entry(text(message, "tool_call_id").to_owned()).or_default().push_back(at);
    }
    let mut pairing = Pairing {
        results,
        running,
        waiting: Vec::new(),
        told: Vec::with_capacity(messages.len()),
        repairs: Vec::new(),
    };
    pairing.waiting = messages.into_iter().map(Some).collect();
    for at in 0..pairing.waiting.len() {
        let Some(message) = pairing.waiting[at].take() else { continue };
        match role(&message) {
            "tool" => pairing.repairs.push(Repair::Dropped(text(&message, "tool_call_id").to_owned())),
            "assistant" => pairing.exchange(at, message),
            _ if message.as_map().is_none() => pairing.repairs.push(Repair::Malformed(at.to_string())),
            _ => pairing.told.push(message),
        }
    }
    (pairing.told, pairing.repairs)
}

/// Returns whether nothing is to be done, which a look tells in most cases.
fn is_paired(messages: &[Value]) -> bool {
    let mut waiting: Vec<&str> = Vec::new();
    for message in messages {
        let role = role(message);
        if role == "tool" {
            let id = text(message, "tool_call_id");
            let Some(at) = waiting.iter().position(|call| *call == id) else { return false };
            waiting.swap_remove(at);
        } else if !waiting.is_empty() || message.as_map().is_none() {
            return false;
        } else if role == "assistant"
            && let Some(Value::List(calls)) = message.get("tool_calls")
        {
            waiting.extend(calls.iter().map(|call| text(call, "id")));
            let doubled = |at: usize| waiting[at].is_empty() || waiting[..at].contains(&waiting[at]);
            if calls.is_empty() || (0..waiting.len()).any(doubled) {
                return false;
            }
        }
    }
    waiting.is_empty()
}

struct Pairing<'r> {
    running: &'r [String],
    /// Messages that were not told yet, at their positions.
    waiting: Vec<Option<Value>>,
    /// Positions of the results of each id.
    results: HashMap<String, VecDeque<usize>>,
    told: Vec<Value>,
    repairs: Vec<Repair>,
}

impl Pairing<'_> {
    /// Tells an assistant message and the results of its calls.
    fn exchange(&mut self, at: usize, mut message: Value) {
        let calls = self.calls(&mut message);
        self.told.push(message);
        let adjacent = self.waiting[at + 1..].iter();
        let adjacent = adjacent.take_while(|next| next.as_ref().is_none_or(|next| role(next) == "tool"));
        let end = at + 1 + adjacent.count();
        let (mut found, mut made) = (Vec::with_capacity(calls.len()), Vec::new());
        for (id, name) in calls {
            let queue = self.results.entry(id.clone()).or_default();
            while queue.front().is_some_and(|&result| result < at) {
                queue.pop_front();
            }
            if let Some(result) = queue.pop_front() {
                found.push(result);
                if result >= end {
                    self.repairs.push(Repair::Moved(id));
                }
            } else if !self.running.contains(&id) {
                made.push(answer(&id, &name));
                self.repairs.push(Repair::Answered(id));
            }
        }
        found.sort_unstable();
        self.told.extend(found.into_iter().filter_map(|result| self.waiting[result].take()));
        self.told.append(&mut made);
    }

    /// Returns id and name of each call, and takes out of the message those that cannot have a result.
    fn calls(&mut self, message: &mut Value) -> Vec<(String, String)> {
        let Some(Value::List(calls)) = field(message, "tool_calls") else { return Vec::new() };
        let mut seen = HashSet::new();
        let mut found = Vec::with_capacity(calls.len());
        calls.retain(|call| {
            let id = text(call, "id");
            let good = !id.is_empty() && seen.insert(id.to_owned());
            if good {
                let name = call.get("function").map(|function| text(function, "name")).unwrap_or_default();
                found.push((id.to_owned(), name.to_owned()));
            } else {
                self.repairs.push(Repair::Repeated(id.to_owned()));
            }
            good
        });
        if found.is_empty()
            && let Value::Map(pairs) = message
        {
            pairs.retain(|(key, _)| key != "tool_calls");
        }
        found
    }
}

fn answer(id: &str, name: &str) -> Value {
    let mut message =
        record([("role", string("tool")), ("content", string(INTERRUPTED)), ("tool_call_id", string(id))]);
    set(&mut message, "name", string(name));
    set(&mut message, "metadata", record([("_synthetic_resume", Value::Bool(true))]));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Value {
        let call =
            |id: &&str| record([("id", string(*id)), ("function", record([("name", string("bash"))]))]);
        record([("role", string("assistant")), ("tool_calls", Value::List(ids.iter().map(call).collect()))])
    }

    fn result(id: &str) -> Value {
        record([("role", string("tool")), ("content", string("out")), ("tool_call_id", string(id))])
    }

    fn paired(messages: Vec<Value>) -> (Vec<Value>, Vec<Repair>) {
        pair_tool_calls(messages, &[])
    }

    fn user() -> Value {
        record([("role", string("user")), ("content", string("go on"))])
    }

    #[test]
    fn messages_that_match_stay_as_they_are() {
        let messages = vec![user(), calls(&["a", "b"]), result("b"), result("a"), user()];

        assert_eq!(paired(messages.clone()), (messages, Vec::new()));
    }

    #[test]
    fn a_result_apart_from_its_call_is_moved_to_it() {
        let (messages, repairs) = paired(vec![calls(&["a"]), user(), result("a")]);

        assert_eq!(messages, [calls(&["a"]), result("a"), user()]);
        assert_eq!(repairs, [Repair::Moved("a".into())]);
    }

    #[test]
    fn a_call_without_a_result_is_answered_and_a_result_without_a_call_dropped() {
        let (messages, repairs) = paired(vec![result("x"), calls(&["a"]), result("y")]);

        assert_eq!(messages, [calls(&["a"]), answer("a", "bash")]);
        let expected =
            [Repair::Dropped("x".into()), Repair::Answered("a".into()), Repair::Dropped("y".into())];
        assert_eq!(repairs, expected);
    }

    #[test]
    fn an_id_that_is_used_again_has_a_result_each_time() {
        let messages = vec![calls(&["a"]), result("a"), calls(&["a"]), result("a"), result("a")];

        let (paired, repairs) = paired(messages.clone());

        assert_eq!(paired, messages[..4]);
        assert_eq!(repairs, [Repair::Dropped("a".into())]);
    }

    #[test]
    fn a_call_that_no_result_can_name_is_left_out() {
        let (messages, repairs) = paired(vec![calls(&["", ""]), calls(&["a", "a"]), result("a")]);

        assert_eq!(messages, [record([("role", string("assistant"))]), calls(&["a"]), result("a")]);
        assert_eq!(repairs.len(), 3);
    }

    #[test]
    fn a_call_that_still_runs_may_wait() {
        let running = ["a".to_owned()];

        let (messages, repairs) = pair_tool_calls(vec![calls(&["a", "b"])], &running);

        assert_eq!(messages, [calls(&["a", "b"]), answer("b", "bash")]);
        assert_eq!(repairs, [Repair::Answered("b".into())]);
    }

    #[test]
    fn what_is_no_message_is_left_out() {
        let (messages, repairs) = paired(vec![user(), string("text")]);

        assert_eq!(messages, [user()]);
        assert_eq!(repairs, [Repair::Malformed("1".into())]);
    }
}
