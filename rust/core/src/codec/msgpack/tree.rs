//! Builds the tree of a decoded object.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::Malformed;
use super::read::{Reader, Token, check_depth};
use crate::codec::{Key, Value};

/// How many items are made room for before any of them was seen.
const ROOM: usize = 1024;

/// Decodes bytes that are exactly one object.
pub fn decode(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader::new(bytes);
    let value = reader.value()?;
    match reader.remaining() {
        0 => Ok(value),
        _ => Err(Malformed { at: reader.position(), what: "bytes behind the object" }),
    }
}

impl Reader<'_> {
    /// Decodes one whole object.
    pub fn value(&mut self) -> Result<Value, Malformed> {
        let mut open: Vec<Frame> = Vec::new();
        loop {
            let start = self.position();
            let mut value = match self.token()? {
                Token::Nil => Value::Nil,
                Token::Bool(truth) => Value::Bool(truth),
                Token::Int(number) => Value::Int(number),
                Token::UInt(number) => Value::UInt(number),
                Token::Float(number) => Value::Float(number),
                Token::Str(text) => Value::from(text),
                Token::List(count) => {
                    check_depth(start, open.len())?;
                    let items = Vec::with_capacity(count.min(ROOM));
                    if count > 0 {
                        open.push(Frame { left: count, items: Items::List(items) });
                        continue;
                    }
                    Value::List(items)
                }
                Token::Map(count) => {
                    check_depth(start, open.len())?;
                    let entries = Vec::with_capacity(count.min(ROOM));
                    if count > 0 {
                        let key = self.key()?.into();
                        open.push(Frame { left: count, items: Items::Map(entries, key) });
                        continue;
                    }
                    Value::Map(entries)
                }
            };
            // What is complete goes into what it stands in, which may complete that.
            loop {
                let Some(frame) = open.last_mut() else { return Ok(value) };
                frame.put(value);
                if frame.left > 0 {
                    if let Items::Map(_, key) = &mut frame.items {
                        *key = self.key()?.into();
                    }
                    break;
                }
                let Some(full) = open.pop() else { break };
                value = full.items.close();
            }
        }
    }
}

/// An open container that is being filled.
struct Frame {
    left: usize,
    items: Items,
}

enum Items {
    List(Vec<Value>),
    /// With the key of the value that comes next.
    Map(Vec<(Key, Value)>, Key),
}

impl Frame {
    fn put(&mut self, value: Value) {
        self.left -= 1;
        match &mut self.items {
            Items::List(items) => items.push(value),
            Items::Map(entries, key) => entries.push((mem::take(key), value)),
        }
    }
}

impl Items {
    fn close(self) -> Value {
        match self {
            Self::List(items) => Value::List(items),
            Self::Map(entries, _) => Value::Map(last_wins(entries)),
        }
    }
}

// A repeated key keeps its first place and takes its last value, as a Python dict does.
fn last_wins(entries: Vec<(Key, Value)>) -> Vec<(Key, Value)> {
    if are_distinct(&entries) {
        return entries;
    }
    let mut places = HashMap::with_capacity(entries.len());
    let mut kept: Vec<(Key, Value)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let place = *places.entry(key.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(entry) => entry.1 = value,
            None => kept.push((key, value)),
        }
    }
    kept
}

fn are_distinct(entries: &[(Key, Value)]) -> bool {
    // Comparing all pairs is quicker than hashing for the few keys of an event.
    if entries.len() <= 16 {
        let mut behind = entries.iter();
        while let Some((key, _)) = behind.next() {
            if behind.as_slice().iter().any(|(other, _)| other == key) {
                return false;
            }
        }
        return true;
    }
    let mut seen = HashSet::with_capacity(entries.len());
    entries.iter().all(|(key, _)| seen.insert(key.as_str()))
}
