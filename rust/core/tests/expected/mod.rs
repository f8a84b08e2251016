//! The fixtures of real sessions: their events, and what the writer of each file reads from it.

use std::fs;
use std::path::Path;

use amberlog_core::codec::Value;

static NIL: Value = Value::Nil;

/// One session file as its writer sees it.
pub struct Fixture {
    pub name: String,
    body: Value,
}

/// Returns every session in the fixtures, the two sides of the fork and the migrated one among them.
pub fn fixtures() -> Vec<Fixture> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kohaku");
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory).expect("the fixtures are there") {
        let path = entry.expect("a directory lists").path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".expected.json") else { continue };
        let text = fs::read_to_string(&path).expect("a fixture reads");
        let body = value(serde_json::from_str(&text).expect("a fixture is JSON"));
        let parts =
            ["parent", "child", "migrated"].map(|part| (format!("{name}/{part}"), body.get(part).cloned()));
        let sessions = parts.into_iter().filter_map(|(name, body)| Some((name, body?)));
        let whole = std::iter::once((name.to_owned(), body.clone()));
        let with_events = sessions.chain(whole).filter(|(_, body)| body.get("per_agent").is_some());
        found.extend(with_events.map(|(name, body)| Fixture { name, body }));
    }
    assert!(found.len() >= 10, "only {} fixtures", found.len());
    found
}

impl Fixture {
    /// Returns a part of the expectations.
    pub fn get(&self, key: &str) -> &Value {
        self.body.get(key).unwrap_or(&NIL)
    }

    /// Returns the namespaces that there are expectations for.
    pub fn agents(&self) -> Vec<&str> {
        self.get("per_agent").as_map().unwrap_or_default().iter().map(|(agent, _)| &**agent).collect()
    }

    /// Returns one expectation of a namespace.
    pub fn of_agent(&self, agent: &str, key: &str) -> Option<&Value> {
        self.get("per_agent").get(agent)?.get(key)
    }

    /// Returns the events of a namespace in the order of their keys.
    pub fn events(&self, agent: &str) -> Vec<Value> {
        let rows = self.get("events").get(agent).and_then(Value::as_map).unwrap_or_default();
        let mut rows: Vec<_> = rows.iter().collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        rows.into_iter().map(|(_, event)| event.clone()).collect()
    }
}

/// Converts a JSON document.
pub fn value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(flag) => Value::Bool(flag),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap()),
        },
        serde_json::Value::String(text) => Value::Str(text),
        serde_json::Value::Array(items) => Value::List(items.into_iter().map(value).collect()),
        serde_json::Value::Object(pairs) => {
            Value::Map(pairs.into_iter().map(|(key, item)| (key.into(), value(item))).collect())
        }
    }
}

/// Compares as Python does: the order of keys does not matter, and `1` equals `1.0`.
pub fn equal_by_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Map(pairs), Value::Map(others)) => {
            pairs.len() == others.len()
                && pairs
                    .iter()
                    .all(|(key, item)| other.get(key).is_some_and(|found| equal_by_value(item, found)))
        }
        (Value::List(items), Value::List(others)) => {
            items.len() == others.len()
                && items.iter().zip(others).all(|(one, other)| equal_by_value(one, other))
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::float_cmp,
            reason = "the fixtures hold small whole numbers"
        )]
        (Value::Int(whole), Value::Float(float)) | (Value::Float(float), Value::Int(whole)) => {
            *float == *whole as f64
        }
        _ => one == other,
    }
}
