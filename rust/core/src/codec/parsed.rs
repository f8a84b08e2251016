//! Reads JSON text, as older files keep some values.

use super::stored::Fault;
use super::value::Value;

/// Returns the value of JSON text.
pub fn from_json(text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text)
        .map(value_of)
        .map_err(|error| Fault::new(format!("JSON that cannot be read: {error}")))
}

/// Returns the value of parsed JSON. The parser itself stops at 128 levels, so the recursion does.
pub(super) fn value_of(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(truth) => Value::Bool(truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::UInt(number),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::Str(text),
        serde_json::Value::Array(items) => Value::List(items.into_iter().map(value_of).collect()),
        serde_json::Value::Object(fields) => {
            Value::Map(fields.into_iter().map(|(name, value)| (name.into(), value_of(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_back_as_the_value_it_says() {
        let read = from_json(r#"[{"a": [1, -2.5, null, true, 18446744073709551615]}]"#);

        let items =
            vec![Value::Int(1), Value::Float(-2.5), Value::Nil, Value::Bool(true), Value::UInt(u64::MAX)];
        assert_eq!(read.ok(), Some(Value::List(vec![Value::Map(vec![("a".into(), Value::List(items))])])));
        assert!(from_json("[1,").is_err());
    }
}
