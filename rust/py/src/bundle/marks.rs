//! Which messages of a list are those of the last snapshot, told without packing them.
//!
//! A list of messages grows at its end, and callers pass the whole of it each time. Strings and
//! numbers cannot change, so a message whose parts are the very objects of last time is unchanged,
//! whoever put it together. The objects are kept alive here, so that an address is never another
//! object's. A message that was changed in place differs in some part, and is packed again.
//!
//! The comparison touches no reference count and no object but the dicts and lists: what they hold is
//! compared by address. Of a list longer than any model reads, a save looks into the newest messages
//! and into a part of the older ones, in turn; the others count as unchanged when they are the same
//! objects. What that passes over is looked at before a flush, a close or a read ([`PyBundle::settle`]).

use std::sync::PoisonError;

use amberlog_core::bundle::Tag;
use pyo3::ffi;
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
    /// What the addresses in `parts` belong to.
    kept: Vec<Py<PyAny>>,
    /// How many objects are kept for the messages up to each.
    keeps: Vec<usize>,
    /// The address of each message.
    addresses: Vec<usize>,
    /// The list that was saved last, and with which tag.
    pub(super) last: Option<(Py<PyList>, Tag)>,
    /// Where the part of the older messages begins that is looked into next.
    turn: usize,
    /// Whether some of the messages were passed over.
    pub(super) is_partial: bool,
}

/// One step through a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A string, a number or None, by address.
    Leaf(usize),
    /// A dict with so many pairs, keys and values following.
    Dict(usize),
    /// A list with so many items following.
    List(usize),
    /// Something that is never the same again.
    Never,
}

/// How many of the newest messages, and of the older ones in turn, one save looks into.
const LOOKED_INTO: usize = 128;

/// How deep a message is compared; a deeper one counts as changed.
const DEPTH: usize = 16;

impl Marks {
    /// How many messages are known.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many messages of `list`, from the first, are unchanged as far as one save looks.
    pub(super) fn unchanged(&mut self, list: &Bound<'_, PyList>) -> usize {
        let known = self.ends.len().min(list.len());
        if known <= LOOKED_INTO * 2 {
            self.is_partial = false;
            return self.unchanged_where(list, |_| true);
        }
        let older = known - LOOKED_INTO;
        let from = if self.turn < older { self.turn } else { 0 };
        let part = from..from + LOOKED_INTO;
        self.turn = part.end;
        self.is_partial = true;
        self.unchanged_where(list, |index| index >= older || part.contains(&index))
    }

    /// How many messages of `list`, from the first, are unchanged, every one looked into.
    pub(super) fn unchanged_wholly(&self, list: &Bound<'_, PyList>) -> usize {
        self.unchanged_where(list, |_| true)
    }

    fn unchanged_where(&self, list: &Bound<'_, PyList>, looks_into: impl Fn(usize) -> bool) -> usize {
        let known = self.ends.len().min(list.len());
        let mut start = 0;
        for (index, end) in self.ends.iter().take(known).enumerate() {
            let mut at = start;
            start = *end;
            let is_unchanged = item_is(list, index, |message| {
                let is_known = message.as_ptr().addr() == self.addresses[index];
                (is_known && !looks_into(index)) || (self.is_same(message, &mut at, 0) && at == *end)
            });
            if !is_unchanged {
                return index;
            }
        }
        known
    }

    fn is_same(&self, value: Borrowed<'_, '_, PyAny>, at: &mut usize, depth: usize) -> bool {
        let Some(part) = self.parts.get(*at) else { return false };
        *at += 1;
        match *part {
            Part::Leaf(address) => address == value.as_ptr().addr(),
            Part::Never => false,
            Part::Dict(pairs) => {
                let Ok(dict) = value.cast_exact::<PyDict>() else { return false };
                let mut left = pairs;
                depth < DEPTH
                    && every_pair(&dict, |key, value| {
                        left = left.wrapping_sub(1);
                        left < pairs && self.is_same(key, at, depth) && self.is_same(value, at, depth + 1)
                    })
                    && left == 0
            }
            Part::List(items) => {
                let Ok(list) = value.cast_exact::<PyList>() else { return false };
                list.len() == items
                    && depth < DEPTH
                    && (0..items).all(|index| item_is(&list, index, |item| self.is_same(item, at, depth + 1)))
            }
        }
    }

    /// Forgets the messages after the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.keeps.truncate(count);
        self.addresses.truncate(count);
        self.parts.truncate(self.ends.last().copied().unwrap_or(0));
        self.kept.truncate(self.keeps.last().copied().unwrap_or(0));
    }

    /// Notes the parts of one more message.
    pub(super) fn push(&mut self, message: &Bound<'_, PyAny>) {
        self.add(message, 0);
        self.kept.push(message.clone().unbind());
        self.addresses.push(message.as_ptr().addr());
        self.ends.push(self.parts.len());
        self.keeps.push(self.kept.len());
    }

    fn add(&mut self, value: &Bound<'_, PyAny>, depth: usize) {
        if depth > DEPTH {
            self.parts.push(Part::Never);
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.parts.push(Part::Dict(dict.len()));
            for (key, value) in dict.iter() {
                self.add(&key, depth);
                self.add(&value, depth + 1);
            }
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.parts.push(Part::List(list.len()));
            for item in list.iter() {
                self.add(&item, depth + 1);
            }
        } else if is_fixed(value) {
            self.parts.push(Part::Leaf(value.as_ptr().addr()));
            self.kept.push(value.clone().unbind());
        } else {
            self.parts.push(Part::Never);
        }
    }
}

/// Whether an object can never change.
fn is_fixed(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
        || value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
}

/// Asks about one item of a list; one that is gone by now is no match.
fn item_is(
    list: &Bound<'_, PyList>,
    index: usize,
    ask: impl FnOnce(Borrowed<'_, '_, PyAny>) -> bool,
) -> bool {
    #[cfg(not(Py_GIL_DISABLED))]
    {
        let Ok(position) = ffi::Py_ssize_t::try_from(index) else { return false };
        // SAFETY: this thread is attached and runs no Python code before `ask` returns, so the list
        // keeps the item alive; an index out of range gives null and an error that is cleared.
        unsafe {
            let item = ffi::PyList_GetItem(list.as_ptr(), position);
            if item.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            ask(Borrowed::from_ptr(list.py(), item))
        }
    }
    #[cfg(Py_GIL_DISABLED)]
    list.get_item(index).is_ok_and(|item| ask(item.as_borrowed()))
}

/// Asks about every pair of a dict in its order, until one is refused.
fn every_pair(
    dict: &Bound<'_, PyDict>,
    mut ask: impl FnMut(Borrowed<'_, '_, PyAny>, Borrowed<'_, '_, PyAny>) -> bool,
) -> bool {
    #[cfg(not(Py_GIL_DISABLED))]
    {
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: this thread is attached and `ask` runs no Python code, so that the dict cannot
        // change between two steps and keeps its keys and values alive.
        unsafe {
            while ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, &raw mut value) != 0 {
                let key = Borrowed::from_ptr(dict.py(), key);
                let value = Borrowed::from_ptr(dict.py(), value);
                if !ask(key, value) {
                    return false;
                }
            }
        }
        true
    }
    #[cfg(Py_GIL_DISABLED)]
    dict.iter().all(|(key, value)| ask(key.as_borrowed(), value.as_borrowed()))
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

    /// Agents of whose last list a save passed over some messages.
    pub(super) fn partial_marks(&self) -> Vec<String> {
        let all = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, marks)| marks.is_partial).map(|(agent, _)| agent.clone()).collect()
    }

    /// Lets go of every object that is kept.
    pub(super) fn forget_marks(&self) {
        let all = std::mem::take(&mut *self.marks.lock().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }
}
