//! Which turn each message of the user began, for snapshots that do not say.

use super::field::{int, text};
use super::log::Log;
use super::message::{field, role, set};
use crate::codec::Value;

/// The kind of user message that carries results of tools and begins no turn.
const FEEDBACK: &str = "tool_results";

/// What began a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnStart {
    /// The turn.
    pub turn: i64,
    /// Its branch.
    pub branch: i64,
    /// The user message; a turn that only has the input that went before it has none.
    pub event_id: Option<i64>,
}

impl Log<'_> {
    /// Returns what began each turn that is shown, in the order of the log.
    pub fn turn_starts(&self) -> Vec<TurnStart> {
        let mut starts = TurnStarts::default();
        for (line, live) in self.lines.iter().zip(&self.live) {
            if *live || line.id.is_none() {
                starts.pass(line.kind, line.place, line.id);
            }
        }
        starts.found
    }
}

/// Collects what began each turn while events go by, first to last.
#[derive(Debug, Default)]
pub struct TurnStarts {
    found: Vec<TurnStart>,
    index: std::collections::HashMap<(i64, i64), usize>,
}

impl TurnStarts {
    /// Takes the next event. Of two user messages of one turn the first began it.
    pub fn pass(&mut self, kind: &str, place: Option<(i64, i64)>, id: Option<i64>) {
        let is_message = kind == "user_message";
        let Some(place) = place.filter(|_| is_message || kind == "user_input") else { return };
        match self.index.get(&place) {
            Some(&at) if is_message && self.found[at].event_id.is_none() => self.found[at].event_id = id,
            Some(_) => {}
            None => {
                self.index.insert(place, self.found.len());
                let event_id = id.filter(|_| is_message);
                self.found.push(TurnStart { turn: place.0, branch: place.1, event_id });
            }
        }
    }

    /// Returns what was found, in the order in which the turns began.
    pub fn found(self) -> Vec<TurnStart> {
        self.found
    }
}

/// Returns whether a message is one of the user's own words.
pub(super) fn begins_turn(message: &Value) -> bool {
    role(message) == "user" && message.get("metadata").is_none_or(|about| text(about, "kind") != FEEDBACK)
}

/// Returns the turn and branch that a message says it belongs to.
pub(super) fn place(message: &Value) -> Option<(i64, i64)> {
    let about = message.get("metadata")?;
    let positive = |key| int(about, key).filter(|number| *number > 0);
    Some((positive("turn_index")?, positive("branch_id")?))
}

/// Gives messages of the user that do not say their turn the turn they began.
///
/// Compaction keeps the newest turns, so the last message began the last turn, and so on backwards.
pub fn name_turns(messages: &mut [Value], starts: &[TurnStart]) {
    let begin = |message: &&mut Value| begins_turn(message);
    for (message, start) in messages.iter_mut().rev().filter(begin).zip(starts.iter().rev()) {
        if place(message).is_some() {
            continue;
        }
        if !matches!(message.get("metadata"), Some(Value::Map(_))) {
            set(message, "metadata", Value::Map(Vec::new()));
        }
        let Some(about) = field(message, "metadata") else { continue };
        set(about, "turn_index", Value::Int(start.turn));
        set(about, "branch_id", Value::Int(start.branch));
        match (start.event_id, &mut *about) {
            (Some(id), about) => set(about, "event_id", Value::Int(id)),
            (None, Value::Map(pairs)) => pairs.retain(|(key, _)| key != "event_id"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::super::view::View;
    use super::*;

    fn event(kind: &str, id: i64, turn: i64) -> Value {
        let mut event = record([("turn_index", Value::Int(turn)), ("branch_id", Value::Int(1))]);
        set(&mut event, "type", string(kind));
        set(&mut event, "event_id", Value::Int(id));
        event
    }

    fn user(said: &str) -> Value {
        record([("role", string("user")), ("content", string(said))])
    }

    #[test]
    fn the_last_messages_began_the_last_turns() {
        let events = [
            event("user_message", 1, 1),
            event("user_input", 2, 2),
            event("user_message", 3, 2),
            event("user_message", 4, 2),
            event("user_input", 5, 3),
        ];
        let mut messages = vec![user("two"), user("three")];

        name_turns(&mut messages, &Log::read(&events, &View::new()).turn_starts());

        assert_eq!(messages.iter().map(place).collect::<Vec<_>>(), [Some((2, 1)), Some((3, 1))]);
        let ids: Vec<_> = messages
            .iter()
            .map(|message| message.get("metadata").and_then(|about| int(about, "event_id")))
            .collect();
        assert_eq!(ids, [Some(3), None]);
    }

    #[test]
    fn results_that_a_user_message_carries_begin_no_turn() {
        let mut feedback = user("[Tool x completed]");
        set(&mut feedback, "metadata", record([("kind", string(FEEDBACK))]));
        let mut messages = vec![user("one"), feedback.clone()];

        name_turns(&mut messages, &[TurnStart { turn: 7, branch: 2, event_id: Some(9) }]);

        assert_eq!(place(&messages[0]), Some((7, 2)));
        assert_eq!(messages[1], feedback);
        assert!(begins_turn(&user("one")) && !begins_turn(&feedback));
    }
}
