//! Builds values of the core from Python objects that are only looked at, never stored.

use amberlog_core::Result;
use amberlog_core::codec::msgpack::MAX_DEPTH;
use amberlog_core::codec::{Key, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyStringMethods, PyTuple};

use super::encode::{exact, pairs, type_name};
use super::place::{Refusal, Step};

/// A step of the way to what was refused, the innermost first.
enum Taken {
    Key(Key),
    Index(usize),
}

/// Why and where; boxed, since every level of a value hands one on.
struct Refused(Box<(Refusal, Vec<Taken>)>);

type Outcome<T> = std::result::Result<T, Refused>;

/// Returns the value of an object; `number` is its place in the list that it comes from.
///
/// More is taken than may be stored: tuples as lists, subclasses as what they derive from, every float.
pub(crate) fn tree(object: &Bound<'_, PyAny>, number: usize) -> Result<Value> {
    fields(object).and_then(|fields| of_dict(&fields, 0)).map_err(|refused| {
        let (refusal, taken) = *refused.0;
        let mut steps = vec![Step::Index(number)];
        steps.extend(taken.iter().rev().map(|step| match step {
            Taken::Key(key) => Step::Key(key),
            Taken::Index(index) => Step::Index(*index),
        }));
        refusal.at(steps)
    })
}

/// Only an event itself may be another mapping than a dict.
fn fields<'py>(event: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyDict>> {
    let refused = || type_refused(format!("a dict is needed, not a {}", type_name(event)));
    if let Ok(fields) = event.cast::<PyDict>() {
        return Ok(fields.clone());
    }
    let mapping = event.cast::<PyMapping>().map_err(|_| refused())?;
    let fields = PyDict::new(event.py());
    fields.update(mapping).map_err(|_| refused())?;
    Ok(fields)
}

// Recursion, bounded by `MAX_DEPTH`: the drop of a value recurses as deep.
fn of(object: &Bound<'_, PyAny>, depth: usize) -> Outcome<Value> {
    if let Some(text) = exact::<PyString>(object) {
        Ok(Value::from(str_of(text)?))
    } else if let Some(number) = exact::<PyInt>(object) {
        integer(number)
    } else if let Some(dict) = exact::<PyDict>(object) {
        of_dict(dict, depth)
    } else if let Some(list) = exact::<PyList>(object) {
        of_items(list.iter(), depth)
    } else if let Some(number) = exact::<PyFloat>(object) {
        Ok(Value::Float(number.value()))
    } else if object.is_none() {
        Ok(Value::Nil)
    } else if let Some(truth) = exact::<PyBool>(object) {
        Ok(Value::Bool(truth.is_true()))
    } else {
        of_derived(object, depth)
    }
}

fn of_derived(object: &Bound<'_, PyAny>, depth: usize) -> Outcome<Value> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        of_items(tuple.iter(), depth)
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok(Value::from(str_of(text)?))
    } else if let Ok(number) = object.cast::<PyInt>() {
        integer(number)
    } else if let Ok(dict) = object.cast::<PyDict>() {
        of_dict(dict, depth)
    } else if let Ok(list) = object.cast::<PyList>() {
        of_items(list.iter(), depth)
    } else if let Ok(number) = object.cast::<PyFloat>() {
        Ok(Value::Float(number.value()))
    } else {
        Err(type_refused(format!("{} is no part of an event", type_name(object))))
    }
}

fn integer(number: &Bound<'_, PyInt>) -> Outcome<Value> {
    let large = |_| number.extract::<u64>().map(Value::from);
    let value = number.extract::<i64>().map(Value::Int).or_else(large);
    value.map_err(|_| value_refused("an integer beyond 64 bits"))
}

fn of_dict(dict: &Bound<'_, PyDict>, depth: usize) -> Outcome<Value> {
    let depth = deeper(depth)?;
    let mut entries = Vec::with_capacity(dict.len());
    for (key, item) in pairs(dict) {
        let name = key.cast::<PyString>().map_err(|_| {
            type_refused(format!("a key is a {}, and events have only str keys", type_name(&key)))
        })?;
        let name = Key::from(str_of(name)?);
        match of(&item, depth) {
            Ok(value) => entries.push((name, value)),
            Err(refused) => return Err(beneath(refused, Taken::Key(name))),
        }
    }
    Ok(Value::Map(entries))
}

fn of_items<'py>(items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>, depth: usize) -> Outcome<Value> {
    let depth = deeper(depth)?;
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.enumerate() {
        values.push(of(&item, depth).map_err(|refused| beneath(refused, Taken::Index(index)))?);
    }
    Ok(Value::List(values))
}

fn deeper(depth: usize) -> Outcome<usize> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(value_refused(&format!("nested deeper than {MAX_DEPTH} containers")))
    }
}

fn str_of<'t>(text: &'t Bound<'_, PyString>) -> Outcome<&'t str> {
    text.to_str().map_err(|_| value_refused("text with a lone surrogate, which is no Unicode"))
}

#[cold]
fn type_refused(what: String) -> Refused {
    Refused(Box::new((Refusal::of_type(what), Vec::new())))
}

#[cold]
fn value_refused(what: &str) -> Refused {
    Refused(Box::new((Refusal::of_value(what), Vec::new())))
}

#[cold]
fn beneath(mut refused: Refused, step: Taken) -> Refused {
    refused.0.1.push(step);
    refused
}
