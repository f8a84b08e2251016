//! One bundle for Python: its methods by what they are about.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

mod agents;
mod draft;
mod fork;
mod log;
mod marks;
pub(crate) mod memory;
mod record;
mod resume;
mod snapshots;
mod tables;
mod upkeep;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amberlog_core::bundle::{Bundle, Payload};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use self::marks::Marks;
use crate::convert;

/// One session's file.
#[pyclass(frozen, name = "Bundle", module = "amberlog._core")]
pub(crate) struct PyBundle {
    bundle: Bundle,
    closed: AtomicBool,
    marks: Mutex<HashMap<String, Marks>>,
    /// The parent path that was given last: all events of a turn are given the same.
    path: Mutex<Option<KnownPath>>,
}

/// A path as an object that cannot change, and what it says.
struct KnownPath {
    object: Py<PyTuple>,
    pairs: Vec<(i64, i64)>,
}

/// A key as bytes: text keys are UTF-8.
fn key_bytes(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = key.cast::<PyString>() {
        Ok(text.to_str()?.as_bytes().to_vec())
    } else if let Ok(bytes) = key.cast::<PyBytes>() {
        Ok(bytes.as_bytes().to_vec())
    } else {
        Err(PyTypeError::new_err("a key is str or bytes"))
    }
}

/// The Python object of a stored value.
fn object(py: Python<'_>, payload: &Payload) -> PyResult<Py<PyAny>> {
    match payload {
        Payload::Object(body) => convert::decode(py, body),
        Payload::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any().unbind()),
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}
