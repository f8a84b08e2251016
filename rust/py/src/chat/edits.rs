//! Edits and policies as Python writes them: tuples that begin with a word.

use amberlog_core::chat::{Checkpoint, Edit, Policy, Retention, Snapshot};
use amberlog_core::codec::json::{Json, parse};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::value::json;

/// Returns the edits of a list of tuples.
pub(super) fn edits(items: Vec<Bound<'_, PyTuple>>) -> PyResult<Vec<Edit>> {
    items.iter().map(|item| edit(item)).collect()
}

/// A value, or the bytes of its text: what Python's own writer of JSON made of one.
pub(super) fn value_of(given: &Bound<'_, PyAny>) -> PyResult<Json> {
    let Ok(text) = given.cast::<PyBytes>() else { return json(given) };
    parse(text.as_bytes()).map_err(|fault| PyValueError::new_err(fault.what))
}

fn edit(item: &Bound<'_, PyTuple>) -> PyResult<Edit> {
    let word: String = item.get_item(0)?.extract()?;
    let value = |index: usize| value_of(&item.get_item(index)?);
    let path = || -> PyResult<Vec<Box<str>>> {
        let keys: Vec<String> = item.get_item(1)?.extract()?;
        Ok(keys.into_iter().map(Into::into).collect())
    };
    Ok(match word.as_str() {
        "append" => Edit::Append(value(1)?),
        "replace" => {
            let messages: Vec<Bound<'_, PyAny>> = item.get_item(1)?.extract()?;
            Edit::Replace(messages.iter().map(value_of).collect::<PyResult<_>>()?)
        }
        "checkpoint" => Edit::Checkpoint(Checkpoint {
            summary: value(1)?,
            role: value(2)?,
            tokens: [value(3)?, value(4)?],
            timestamp: value(5)?,
            metadata: value(6)?,
        }),
        "set" => Edit::Set { path: path()?, value: Some(value(2)?) },
        "remove" => Edit::Set { path: path()?, value: None },
        "merge" => Edit::Merge { path: path()?, defaults: value(2)?, updates: value(3)? },
        "partial" => {
            Edit::Partial { content: value(1)?, timestamp: value(2)?, finalize: item.get_item(3)?.extract()? }
        }
        "discard" => Edit::Discard,
        "snapshot" => Edit::Snapshot(Snapshot {
            id: value(1)?,
            session_id: value(2)?,
            created_at: value(3)?,
            label: value(4)?,
            metadata: value(5)?,
        }),
        "revert_to_snapshot" => Edit::RevertToSnapshot(value(1)?),
        "revert_to_message" => Edit::RevertToMessage(item.get_item(1)?.extract()?),
        _ => return Err(PyValueError::new_err(format!("there is no edit {word:?}"))),
    })
}

/// Returns the policy of a retention and a window.
pub(super) fn policy(given: Option<(String, Option<i64>)>) -> PyResult<Option<Policy>> {
    let Some((retention, window)) = given else { return Ok(None) };
    let retention = match retention.as_str() {
        "compact" => Retention::Compact,
        "truncate" => Retention::Truncate,
        "keep_all" => Retention::KeepAll,
        _ => return Err(PyValueError::new_err(format!("there is no retention {retention:?}"))),
    };
    Ok(Some(Policy { retention, window: window.unwrap_or(0) }))
}
