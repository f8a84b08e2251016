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
            let (left, items) = match self.token()? {
                Token::Nil => (0, Items::Scalar(Value::Nil)),
                Token::Bool(truth) => (0, Items::Scalar(Value::Bool(truth))),
                Token::Int(number) => (0, Items::Scalar(Value::Int(number))),
                Token::UInt(number) => (0, Items::Scalar(Value::UInt(number))),
                Token::Float(number) => (0, Items::Scalar(Value::Float(number))),
                Token::Str(text) => (0, Items::Scalar(Value::from(text))),
                Token::List(count) => (count, Items::List(Vec::with_capacity(count.min(ROOM)))),
                Token::Map(count) => (count, Items::Map(Vec::with_capacity(count.min(ROOM)))),
            };
            if !matches!(items, Items::Scalar(_)) {
                check_depth(start, open.len())?;
            }
            open.push(Frame { left, key: Key::default(), items });
            // What is complete goes into what it stands in, which may complete that.
            while let Some(frame) = open.pop_if(|frame| frame.left == 0) {
                let value = frame.items.close();
                match open.last_mut() {
                    Some(parent) => parent.put(value),
                    None => return Ok(value),
                }
            }
            if let Some(Frame { key, items: Items::Map(_), .. }) = open.last_mut() {
                *key = self.key()?.into();
            }
        }
    }
}

/// An open container that is being filled.
struct Frame {
    left: usize,
    key: Key,
    items: Items,
}

enum Items {
    Scalar(Value),
    List(Vec<Value>),
    Map(Vec<(Key, Value)>),
}

impl Frame {
    fn put(&mut self, value: Value) {
        self.left -= 1;
        match &mut self.items {
            Items::Scalar(scalar) => *scalar = value,
            Items::List(items) => items.push(value),
            Items::Map(entries) => entries.push((mem::take(&mut self.key), value)),
        }
    }
}

impl Items {
    fn close(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => Value::List(items),
            Self::Map(entries) => Value::Map(last_wins(entries)),
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
