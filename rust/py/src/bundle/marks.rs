//! Which messages of a list are those of the last snapshot, told without packing them.
//!
//! A list of messages grows at its end, and callers pass the whole of it each time. Strings and
//! numbers cannot change, so a message whose parts are the very objects of last time is unchanged,
//! whoever put it together. The objects are kept alive here, so that an address is never another
//! object's. A message that was changed in place differs in some part, and is packed again.

use std::sync::PoisonError;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use super::PyBundle;

/// What the messages of a snapshot were made of.
#[derive(Default)]
pub(super) struct Marks {
    /// The snapshot.
    pub(super) snapshot: i64,
    /// The parts of all messages, one after the other.
    parts: Vec<Part>,
    /// Where the parts of each message end.
    ends: Vec<usize>,
}

/// One step through a message.
enum Part {
    /// A string, a number or None: the object itself.
    Leaf(Py<PyAny>),
    /// A dict with so many pairs, keys and values following.
    Dict(usize),
    /// A list with so many items following.
    List(usize),
}

/// How deep a message is compared; a deeper one counts as changed.
const DEPTH: usize = 16;

impl Marks {
    /// How many messages of `list`, from the first, are unchanged.
    pub(super) fn unchanged(&self, list: &Bound<'_, PyList>) -> PyResult<usize> {
        let mut at = 0;
        for (index, (message, end)) in list.iter().zip(&self.ends).enumerate() {
            if !self.is_same(&message, &mut at, 0)? || at != *end {
                return Ok(index);
            }
        }
        Ok(self.ends.len().min(list.len()))
    }

    fn is_same(&self, value: &Bound<'_, PyAny>, at: &mut usize, depth: usize) -> PyResult<bool> {
        let Some(part) = self.parts.get(*at) else { return Ok(false) };
        *at += 1;
        match part {
            Part::Leaf(leaf) => Ok(leaf.is(value)),
            Part::Dict(pairs) => {
                let Ok(dict) = value.cast_exact::<PyDict>() else { return Ok(false) };
                if dict.len() != *pairs || depth >= DEPTH {
                    return Ok(false);
                }
                for (key, value) in dict.iter() {
                    if !self.is_same(&key, at, depth)? || !self.is_same(&value, at, depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Part::List(items) => {
                let Ok(list) = value.cast_exact::<PyList>() else { return Ok(false) };
                if list.len() != *items || depth >= DEPTH {
                    return Ok(false);
                }
                for item in list.iter() {
                    if !self.is_same(&item, at, depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// How many messages are known.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Forgets the messages after the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.parts.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Notes the parts of one more message.
    pub(super) fn push(&mut self, message: &Bound<'_, PyAny>) {
        if !self.add(message, 0) {
            // Nothing equals an empty run of parts, so this message is packed each time.
            self.parts.truncate(self.ends.last().copied().unwrap_or(0));
        }
        self.ends.push(self.parts.len());
    }

    fn add(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> bool {
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.parts.push(Part::Dict(dict.len()));
            return depth < DEPTH
                && dict.iter().all(|(key, value)| self.add(&key, depth) && self.add(&value, depth + 1));
        }
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.parts.push(Part::List(list.len()));
            return depth < DEPTH && list.iter().all(|item| self.add(&item, depth + 1));
        }
        let is_fixed = value.is_exact_instance_of::<PyString>()
            || value.is_none()
            || value.is_exact_instance_of::<PyBool>()
            || value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>();
        self.parts.push(Part::Leaf(value.clone().unbind()));
        is_fixed
    }
}

impl PyBundle {
    /// Takes the marks of an agent out; nothing of Python runs while the map is locked.
    pub(super) fn take_marks(&self, agent: &str) -> Marks {
        let taken = self.marks.lock().unwrap_or_else(PoisonError::into_inner).remove(agent);
        taken.unwrap_or_default()
    }

    /// Puts the marks of an agent back.
    pub(super) fn put_marks(&self, agent: &str, marks: Marks) {
        let mut all = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = all.insert(agent.to_owned(), marks);
        drop(all);
        drop(replaced);
    }

    /// Lets go of every object that is kept.
    pub(super) fn forget_marks(&self) {
        let all = std::mem::take(&mut *self.marks.lock().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }
}
