//! Rows that were recorded twice in a row.

use super::field::kind;
use crate::codec::{Key, Value};

/// What a row may differ in and still be the same fact written twice.
const PER_ROW: [&str; 2] = ["event_id", "ts"];

/// Drops each event that equals the one before it in all but id and time.
///
/// Two recorders attached to one session write every fact twice; the log keeps both, readers want one.
pub fn dedupe_adjacent(mut events: Vec<Value>) -> Vec<Value> {
    events.dedup_by(|event, previous| repeats(event, previous));
    events
}

/// Returns whether an event says only what the one before it said.
pub fn repeats(event: &Value, previous: &Value) -> bool {
    match (event, previous) {
        // Neighbours mostly differ in type, while their parent paths, which are long, mostly do not.
        (Value::Map(one), Value::Map(other)) => {
            kind(event) == kind(previous) && same_pairs(one, other, &PER_ROW)
        }
        _ => event == previous,
    }
}

fn same_pairs(one: &[(Key, Value)], other: &[(Key, Value)], ignored: &[&str]) -> bool {
    let counted = |pairs: &[(Key, Value)]| pairs.iter().filter(|(key, _)| !ignored.contains(&&**key)).count();
    let matches = |at: usize, key: &str, value: &Value| {
        // Rows of one writer have their fields in one order, so the guess is nearly always right.
        let guess = other.get(at).filter(|(name, _)| name == key);
        guess
            .or_else(|| other.iter().find(|(name, _)| name == key))
            .is_some_and(|(_, found)| same(value, found))
    };
    one.iter().enumerate().all(|(at, (key, value))| ignored.contains(&&**key) || matches(at, key, value))
        && counted(one) == counted(other)
}

/// Compares values; the order of a map's keys does not matter.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Map(one), Value::Map(other)) => same_pairs(one, other, &[]),
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::*;

    fn chunk(id: i64, content: &str) -> Value {
        record([("type", string("text_chunk")), ("content", string(content)), ("event_id", Value::Int(id))])
    }

    #[test]
    fn neighbours_that_differ_only_in_id_are_one() {
        let events = vec![chunk(1, "a"), chunk(2, "a"), chunk(3, "b"), chunk(4, "a")];

        let kept = dedupe_adjacent(events);

        assert_eq!(kept, [chunk(1, "a"), chunk(3, "b"), chunk(4, "a")]);
    }

    #[test]
    fn the_order_of_fields_does_not_make_a_difference() {
        let one = record([("a", record([("x", Value::Int(1)), ("y", Value::Nil)])), ("b", Value::Int(2))]);
        let other = record([("b", Value::Int(2)), ("a", record([("y", Value::Nil), ("x", Value::Int(1))]))]);

        assert_eq!(dedupe_adjacent(vec![one.clone(), other]), [one]);
    }

    #[test]
    fn a_field_more_makes_a_difference() {
        let one = record([("a", Value::Int(1))]);
        let other = record([("a", Value::Int(1)), ("b", Value::Nil)]);

        assert_eq!(dedupe_adjacent(vec![one.clone(), other.clone()]).len(), 2);
        assert_eq!(dedupe_adjacent(vec![other, one]).len(), 2);
    }
}
