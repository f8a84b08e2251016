//! Assistant rounds: a whole message and the pieces of it that were streamed before.

use std::collections::HashMap;

use super::announce::Step;
use super::field::{int, text};
use super::path::stated;
use crate::codec::Value;

/// What an event is to the rounds of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not the edge of a round that can be told whole.
    Plain,
    /// The start of a round whose message is that of the event at this position.
    Start(usize),
    /// The end of a round; its message is told at the start.
    End,
}

/// Finds the rounds that have one start, one end and a well-formed message.
///
/// A round is refused when an id occurs twice, when its edges lie on different branches, or when another
/// round or a user message begins within it. Its streamed pieces then stand for it.
pub(super) fn rounds(steps: &[Step<'_>], eligible: impl Fn(usize) -> bool) -> Vec<Mark> {
    let mut marks = vec![Mark::Plain; steps.len()];
    let edges = Edges::of(steps);
    for (&start, found) in &edges.starts {
        let Found::Once(first) = *found else { continue };
        let Some(&Found::Once(last)) = edges.ends.get(&start) else { continue };
        let undisturbed = first < last && edges.breaks[first] == edges.breaks[last];
        if undisturbed && eligible(first) && eligible(last) && fits(&steps[first].event, &steps[last].event) {
            marks[first] = Mark::Start(last);
            marks[last] = Mark::End;
        }
    }
    marks
}

/// How often an id was found, and where.
#[derive(Debug, Clone, Copy)]
enum Found {
    Once(usize),
    Again,
}

#[derive(Default)]
struct Edges {
    /// Round starts by their id.
    starts: HashMap<i64, Found>,
    /// Round ends by the id of the start that they name.
    ends: HashMap<i64, Found>,
    /// How many round starts and user messages there were up to and with each event.
    breaks: Vec<usize>,
}

impl Edges {
    fn of(steps: &[Step<'_>]) -> Self {
        let mut edges = Self::default();
        let mut seen = 0;
        let mut candidates: HashMap<i64, (Found, Option<i64>)> = HashMap::new();
        for (at, Step { event, kind, .. }) in steps.iter().enumerate() {
            seen += usize::from(matches!(&**kind, "assistant_round_start" | "user_message"));
            edges.breaks.push(seen);
            if !matches!(&**kind, "assistant_round_start" | "assistant_message") {
                continue;
            }
            match (&**kind, int(event, "event_id").filter(|id| *id > 0)) {
                ("assistant_round_start", Some(id)) => {
                    edges
                        .starts
                        .entry(id)
                        .and_modify(|found| *found = Found::Again)
                        .or_insert(Found::Once(at));
                }
                ("assistant_message", Some(id)) => {
                    let Some(start) = int(event, "round_start_event_id").filter(|start| *start > 0) else {
                        continue;
                    };
                    candidates
                        .entry(id)
                        .and_modify(|(found, _)| *found = Found::Again)
                        .or_insert((Found::Once(at), Some(start)));
                }
                _ => {}
            }
        }
        for (found, start) in candidates.into_values() {
            if let (Found::Once(_), Some(start)) = (found, start) {
                edges.ends.entry(start).and_modify(|found| *found = Found::Again).or_insert(found);
            }
        }
        edges
    }
}

fn fits(start: &Value, end: &Value) -> bool {
    let same = |key| start.get(key) == end.get(key);
    same("turn_index")
        && same("branch_id")
        && stated(start).eq(stated(end))
        && end.get("message").is_some_and(is_well_formed)
}

fn is_well_formed(message: &Value) -> bool {
    let content = matches!(message.get("content"), None | Some(Value::Nil | Value::Str(_) | Value::List(_)));
    let calls = match message.get("tool_calls") {
        None | Some(Value::Nil) => true,
        Some(Value::List(calls)) => calls.iter().all(|call| !text(call, "id").is_empty()),
        Some(_) => false,
    };
    text(message, "role") == "assistant" && content && calls
}

/// Returns the provider's ids of the calls that a message or an announcement makes.
pub(super) fn call_ids(message: &Value) -> impl Iterator<Item = &str> {
    let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    calls.iter().map(|call| text(call, "id"))
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::*;

    fn start(id: i64) -> Value {
        record([
            ("type", string("assistant_round_start")),
            ("event_id", Value::Int(id)),
            ("turn_index", Value::Int(1)),
        ])
    }

    fn end(id: i64, start: i64, turn: i64) -> Value {
        record([
            ("type", string("assistant_message")),
            ("event_id", Value::Int(id)),
            ("round_start_event_id", Value::Int(start)),
            ("turn_index", Value::Int(turn)),
            ("message", record([("role", string("assistant")), ("content", Value::Nil)])),
        ])
    }

    fn steps(events: &[Value]) -> Vec<Step<'_>> {
        events.iter().cloned().map(Step::made).collect()
    }

    fn marks(events: &[Value]) -> Vec<Mark> {
        rounds(&steps(events), |_| true)
    }

    #[test]
    fn a_start_and_its_end_are_a_round() {
        assert_eq!(marks(&[start(1), end(2, 1, 1)]), [Mark::Start(1), Mark::End]);
    }

    #[test]
    fn what_is_ambiguous_is_no_round() {
        let other_turn = [start(1), end(2, 1, 2)];
        let two_ends = [start(1), end(2, 1, 1), end(3, 1, 1)];
        let two_starts = [start(1), start(1), end(2, 1, 1)];
        let another_begins = [start(1), start(5), end(2, 1, 1)];
        let before_its_start = [end(2, 1, 1), start(1)];

        for events in [&other_turn[..], &two_ends, &two_starts, &another_begins, &before_its_start] {
            assert!(marks(events).iter().all(|mark| *mark == Mark::Plain), "{events:?}");
        }
    }

    #[test]
    fn an_edge_that_is_not_shown_makes_no_round() {
        let events = [start(1), end(2, 1, 1)];

        let marks = rounds(&steps(&events), |at| at == 0);

        assert_eq!(marks, [Mark::Plain, Mark::Plain]);
    }

    #[test]
    fn a_message_that_no_provider_would_send_is_no_round() {
        let message = |calls: Value| record([("role", string("assistant")), ("tool_calls", calls)]);

        assert!(is_well_formed(&message(Value::Nil)));
        assert!(!is_well_formed(&message(string("x"))));
        assert!(!is_well_formed(&message(Value::List(vec![record([("id", string(""))])]))));
        assert!(!is_well_formed(&record([("role", string("user"))])));
    }
}
