//! A caller's dict on its way into the log: packed, without the fields that are stamped.

use amberlog_core::model::{Draft, Stamps};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyMapping};

use crate::convert;
use crate::error::Raise;

/// Packs an event. The dict is read, never changed.
pub(super) fn draft(
    event_type: impl Into<String>,
    payload: &Bound<'_, PyAny>,
    stamps: Stamps,
) -> PyResult<Draft> {
    let py = payload.py();
    let fields = &dict(payload)?;
    let mut skip = vec!["type", "event_id"];
    skip.extend(stamps.fields());
    let mut pairs = Vec::with_capacity(256);
    let count = convert::encode_pairs(fields, &skip, &mut pairs).or_raise(py)?;
    let given = integer(fields, intern!(py, "event_id"))?.filter(|id| *id > 0);
    Ok(Draft {
        event_type: event_type.into(),
        pairs,
        count,
        given_id: given,
        has_ts: fields.contains(intern!(py, "ts"))?,
        has_spawned: fields.contains(intern!(py, "spawned_in_turn"))?,
        own_turn: integer(fields, intern!(py, "turn_index"))?,
        own_branch: integer(fields, intern!(py, "branch_id"))?,
        stamps,
        may_omit_path: false,
    })
}

/// The fields of a payload: a dict as it is, another mapping as a dict of its items.
pub(super) fn dict<'py>(payload: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(fields) = payload.cast::<PyDict>() {
        return Ok(fields.clone());
    }
    if let Ok(mapping) = payload.cast::<PyMapping>() {
        let fields = PyDict::new(payload.py());
        fields.update(mapping)?;
        return Ok(fields);
    }
    let kind = payload.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Err(PyTypeError::new_err(format!("$: a dict is needed, not {kind}")))
}

fn integer(fields: &Bound<'_, PyDict>, name: &Bound<'_, pyo3::types::PyString>) -> PyResult<Option<i64>> {
    match fields.get_item(name)? {
        Some(value) => match value.cast_exact::<PyInt>() {
            Ok(number) => Ok(number.extract().ok()),
            Err(_) => Ok(None),
        },
        None => Ok(None),
    }
}

/// Reads `[(turn, branch), …]`, pairs as tuples or lists.
pub(super) fn branch_path(path: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<(i64, i64)>>> {
    let Some(path) = path else { return Ok(None) };
    let mut pairs = Vec::new();
    for pair in path.try_iter()? {
        let numbers: Vec<i64> = pair?.extract()?;
        let [turn, branch] = numbers[..] else {
            return Err(PyValueError::new_err("parent_branch_path: each item is a pair (turn, branch)"));
        };
        pairs.push((turn, branch));
    }
    Ok(Some(pairs))
}
