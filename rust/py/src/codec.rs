//! The codec by itself, for tests that judge it from outside: not part of the public package.

use amberlog_core::codec::{self, Stored};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::convert::{self, Top, refused};

/// Room for an event of the usual size.
const ROOM: usize = 1024;

/// Packs a value into one MessagePack object.
#[pyfunction]
pub(crate) fn pack<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut body = Vec::with_capacity(ROOM);
    convert::encode(value, &mut body).map_err(|error| refused(&error))?;
    Ok(PyBytes::new(value.py(), &body))
}

/// Packs the pairs of a dict but those named, without a header in front; returns their number too.
#[pyfunction]
pub(crate) fn pack_pairs<'py>(
    value: &Bound<'py, PyDict>,
    skip: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let skip: Vec<String> = skip.extract()?;
    let skip: Vec<&str> = skip.iter().map(String::as_str).collect();
    let mut body = Vec::with_capacity(ROOM);
    let count = convert::encode_pairs(value, &skip, &mut body).map_err(|error| refused(&error))?;
    Ok((PyBytes::new(value.py(), &body), count))
}

/// Unpacks bytes that are exactly one MessagePack object.
#[pyfunction]
pub(crate) fn unpack(py: Python<'_>, body: &[u8]) -> PyResult<Py<PyAny>> {
    convert::decode(py, body)
}

/// Returns the stored form of a value under a key; bytes are stored as they are.
#[pyfunction]
pub(crate) fn seal<'py>(
    table: &str,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut body = Vec::with_capacity(ROOM);
    let stored = match convert::encode_top(value, &mut body).map_err(|error| refused(&error))? {
        Top::Object => codec::seal(table, key_bytes(key)?, &body),
        Top::Bytes => body,
    };
    Ok(PyBytes::new(value.py(), &stored))
}

/// Returns the value of a stored form, or raises `ValueError` that says what is wrong with it.
#[pyfunction]
pub(crate) fn open(
    py: Python<'_>,
    table: &str,
    key: &Bound<'_, PyAny>,
    stored: &[u8],
) -> PyResult<Py<PyAny>> {
    match codec::open(table, key_bytes(key)?, stored) {
        Ok(Stored::Object(body)) => convert::decode(py, &body),
        Ok(Stored::Bytes(bytes)) => Ok(PyBytes::new(py, bytes).into_any().unbind()),
        Err(fault) => Err(PyValueError::new_err(fault.to_string())),
    }
}

fn key_bytes<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(bytes) = key.cast::<PyBytes>() {
        Ok(bytes.as_bytes())
    } else if let Ok(text) = key.cast::<PyString>() {
        Ok(text.to_str()?.as_bytes())
    } else {
        Err(PyTypeError::new_err("a key is bytes or str"))
    }
}
