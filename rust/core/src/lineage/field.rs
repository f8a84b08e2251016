//! Reading the fields of an event and building new ones.

use std::borrow::Cow;

use crate::codec::Value;

/// The names under which a call or its result carries the id of its job.
pub(super) const JOB: &[&str] = &["call_id", "job_id"];
/// The names under which a call carries the id that the provider knows it by.
pub(super) const PROVIDER: &[&str] = &["tool_call_id", "call_id", "job_id"];

/// Returns the type of an event, or nothing for one that has none.
pub(super) fn kind(event: &Value) -> &str {
    text(event, "type")
}

/// Returns a string field, or an empty string.
pub(super) fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an integer field. A boolean is not one, and neither is a float.
pub(super) fn int(event: &Value, key: &str) -> Option<i64> {
    match event.get(key) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }
}

/// Returns a field that is present and true in the sense of Python.
pub(super) fn truthy<'a>(event: &'a Value, key: &str) -> Option<&'a Value> {
    event.get(key).filter(|value| value.truthy())
}

/// Returns the first of `keys` that holds an id, as text; empty when none does.
pub(super) fn identity<'a>(event: &'a Value, keys: &[&str]) -> Cow<'a, str> {
    let found = keys.iter().find_map(|key| truthy(event, key));
    match found {
        Some(Value::Str(text)) => Cow::Borrowed(text),
        Some(Value::Int(number)) => Cow::Owned(number.to_string()),
        _ => Cow::Borrowed(""),
    }
}

/// Returns a field as it stands, or `default` when there is none.
pub(super) fn or(event: &Value, key: &str, default: Value) -> Value {
    event.get(key).cloned().unwrap_or(default)
}

/// Builds a string value.
pub(super) fn string(text: impl Into<String>) -> Value {
    Value::Str(text.into())
}

/// Builds a map in the order given.
pub(super) fn record<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_first_field_that_is_not_empty() {
        let event =
            record([("tool_call_id", string("")), ("call_id", Value::Int(7)), ("job_id", string("j"))]);

        assert_eq!(identity(&event, PROVIDER), "7");
        assert_eq!(identity(&event, &["job_id"]), "j");
        assert_eq!(identity(&event, &["tool_call_id"]), "");
    }

    #[test]
    fn a_boolean_is_not_an_integer() {
        let event = record([("turn_index", Value::Bool(true)), ("branch_id", Value::Int(2))]);

        assert_eq!(int(&event, "turn_index"), None);
        assert_eq!(int(&event, "branch_id"), Some(2));
    }
}
