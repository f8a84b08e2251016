//! Python objects to JSON values and back.

use amberlog_core::Error;
use amberlog_core::codec::json::{Json, MAX_DEPTH};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::convert::refused;

/// Why a value is refused; boxed, since every level of a value hands one on.
struct Refused(Box<Refusal>);

struct Refusal {
    /// The steps to the value, the innermost first.
    steps: Vec<String>,
    what: String,
    by_type: bool,
}

type Outcome<T> = std::result::Result<T, Refused>;

/// Returns the JSON value of an object, or raises `TypeError` or `ValueError` that names the place.
pub(crate) fn json(object: &Bound<'_, PyAny>) -> PyResult<Json> {
    of(object, 0).map_err(|refused_for| {
        let refusal = refused_for.0;
        let at = format!("${}", refusal.steps.iter().rev().map(String::as_str).collect::<String>());
        refused(&Error::Unstorable { at, what: refusal.what, by_type: refusal.by_type })
    })
}

/// Returns the Python object of a JSON text, as Python itself reads it.
pub(crate) fn object<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(py, "json", "loads")?;
    loads.call1((String::from_utf8_lossy(text),))
}

/// Returns the Python object of a value: the same as [`object`] of its text, without the text.
// Recursion, bounded by `MAX_DEPTH`.
pub(crate) fn build<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Json::Text(text) => PyString::new(py, text).into_any(),
        Json::Number(spelling) => match spelling.parse::<i64>() {
            Ok(number) => number.into_pyobject(py)?.into_any(),
            Err(_) => object(py, spelling.as_bytes())?,
        },
        Json::Odd(spelling) => object(py, spelling.as_bytes())?,
        Json::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(build(py, item)?)?;
            }
            list.into_any()
        }
        Json::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, item) in pairs {
                dict.set_item(PyString::intern(py, key), build(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

// Recursion, bounded by `MAX_DEPTH`.
fn of(object: &Bound<'_, PyAny>, depth: usize) -> Outcome<Json> {
    if object.is_none() {
        Ok(Json::Null)
    } else if let Ok(truth) = object.cast::<PyBool>() {
        Ok(Json::Bool(truth.is_true()))
    } else if let Some(text) = exact::<PyString>(object) {
        Ok(Json::Text(text_of(text)?.into()))
    } else if let Some(number) = exact::<PyInt>(object) {
        spelled(number, "int")
    } else if let Some(number) = exact::<PyFloat>(object) {
        float(number)
    } else if let Some(dict) = exact::<PyDict>(object) {
        map(dict, deeper(depth)?)
    } else if let Some(list) = exact::<PyList>(object) {
        list_of(list, deeper(depth)?)
    } else {
        Err(refusal(format!("a {} cannot be stored so that it comes back equal", type_name(object)), true))
    }
}

fn exact<'a, 'py, T: pyo3::PyTypeInfo>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, T>> {
    object.cast_exact::<T>().ok()
}

fn list_of(items: &Bound<'_, PyList>, depth: usize) -> Outcome<Json> {
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        values.push(of(&item, depth).map_err(|refusal| within(refusal, format!("[{index}]")))?);
    }
    Ok(Json::List(values))
}

fn map(dict: &Bound<'_, PyDict>, depth: usize) -> Outcome<Json> {
    let mut pairs = Vec::with_capacity(dict.len());
    for (key, item) in dict.iter() {
        let Some(name) = exact::<PyString>(&key) else {
            return Err(refusal(format!("a key is a {}, not a str", type_name(&key)), true));
        };
        let name = text_of(name)?;
        let item = of(&item, depth).map_err(|refusal| within(refusal, step(&name)))?;
        pairs.push((name.into(), item));
    }
    Ok(Json::Map(pairs))
}

fn spelled(number: &Bound<'_, PyAny>, class: &str) -> Outcome<Json> {
    let spell = || number.py().import("builtins")?.getattr(class)?.getattr("__repr__")?.call1((number,));
    let text = spell().and_then(|text| text.extract::<String>());
    text.map(|text| Json::Number(text.into())).map_err(|error| refusal(error.to_string(), false))
}

fn float(number: &Bound<'_, PyFloat>) -> Outcome<Json> {
    let value = number.value();
    if value.is_finite() {
        return spelled(number, "float");
    }
    Err(refusal(format!("{value} is no number of JSON"), false))
}

fn text_of(text: &Bound<'_, PyString>) -> Outcome<String> {
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| refusal("text with a lone surrogate, which is no Unicode".into(), false))
}

fn deeper(depth: usize) -> Outcome<usize> {
    // A message stands a few levels deep in its document.
    if depth + 8 < MAX_DEPTH { Ok(depth + 1) } else { Err(refusal("nested too deeply".into(), false)) }
}

fn step(key: &str) -> String {
    let is_word = !key.is_empty() && key.len() < 64 && key.chars().all(|c| c == '_' || c.is_alphanumeric());
    if is_word { format!(".{key}") } else { format!("[{:?}]", key.chars().take(64).collect::<String>()) }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

#[cold]
fn refusal(what: String, by_type: bool) -> Refused {
    Refused(Box::new(Refusal { steps: Vec::new(), what, by_type }))
}

#[cold]
fn within(mut refusal: Refused, step: String) -> Refused {
    refusal.0.steps.push(step);
    refusal
}
