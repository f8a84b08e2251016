//! The key-value tables.

use amberlog_core::bundle::{Change, Payload, Table};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{PyBundle, key_bytes, object, text};
use crate::convert::{self, Top};
use crate::error::{Outcome, Raise};

type Item<'py> = (Bound<'py, PyBytes>, Py<PyAny>);

fn table(name: &str) -> PyResult<Table> {
    Table::named(name).ok_or_else(|| PyValueError::new_err(format!("table: there is no table `{name}`")))
}

pub(super) fn payload(value: &Bound<'_, PyAny>) -> PyResult<Payload> {
    let mut body = Vec::new();
    Ok(match convert::encode_top(value, &mut body).or_raise(value.py())? {
        Top::Object => Payload::Object(body),
        Top::Bytes => Payload::Bytes(body),
    })
}

fn change(table: Table, key: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Change> {
    let key = key_bytes(key)?;
    let value = value
        .map(|value| payload(value).map_err(|error| at_key(value.py(), table, &key, error)))
        .transpose()?;
    Ok(Change { table, key, value })
}

/// What is stored and what is deleted, over several tables.
pub(super) fn changes_of(
    items: &[(String, Bound<'_, PyAny>, Bound<'_, PyAny>)],
    delete: &[(String, Bound<'_, PyAny>)],
) -> PyResult<Vec<Change>> {
    let mut changes = Vec::with_capacity(items.len() + delete.len());
    for (name, key, value) in items {
        changes.push(change(table(name)?, key, Some(value))?);
    }
    for (name, key) in delete {
        changes.push(change(table(name)?, key, None)?);
    }
    Ok(changes)
}

/// Says under which key a value was refused.
fn at_key(py: Python<'_>, table: Table, key: &[u8], error: PyErr) -> PyErr {
    let placed = format!("{}[{:?}]: {}", table.name(), text(key), error.value(py));
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(placed)
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(placed)
    } else {
        error
    }
}

#[pymethods]
impl PyBundle {
    fn get(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = table_of)] table: Table,
        key: &Bound<'_, PyAny>,
    ) -> Outcome<Py<PyAny>> {
        let bytes = key_bytes(key)?;
        match py.detach(|| self.bundle.get(table, &bytes)).or_raise(py)? {
            Some(value) => object(py, &value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn put(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = table_of)] table: Table,
        items: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> Outcome<()> {
        let changes =
            items.iter().map(|(key, value)| change(table, key, Some(value))).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.bundle.apply(&changes)).or_raise(py).map(drop)
    }

    fn note(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = table_of)] table: Table,
        items: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> Outcome<()> {
        let changes =
            items.iter().map(|(key, value)| change(table, key, Some(value))).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.bundle.note(&changes)).or_raise(py)
    }

    #[pyo3(signature = (items, delete=Vec::new()))]
    fn put_across(
        &self,
        py: Python<'_>,
        items: Vec<(String, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        delete: Vec<(String, Bound<'_, PyAny>)>,
    ) -> Outcome<()> {
        let changes = changes_of(&items, &delete)?;
        py.detach(|| self.bundle.apply(&changes)).or_raise(py).map(drop)
    }

    fn delete(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = table_of)] table: Table,
        key: &Bound<'_, PyAny>,
    ) -> Outcome<bool> {
        let changes = [change(table, key, None)?];
        py.detach(|| self.bundle.apply(&changes)).or_raise(py).map(|found| found > 0)
    }

    #[pyo3(signature = (table, prefix=None, limit=None, reverse=false))]
    fn keys<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = table_of)] table: Table,
        prefix: Option<&Bound<'py, PyAny>>,
        limit: Option<usize>,
        reverse: bool,
    ) -> Outcome<Vec<Bound<'py, PyBytes>>> {
        let prefix = prefix.map_or(Ok(Vec::new()), key_bytes)?;
        let bound = if reverse { usize::MAX } else { limit.unwrap_or(usize::MAX) };
        let mut keys = py.detach(|| self.bundle.keys(table, &prefix, bound)).or_raise(py)?;
        if reverse {
            keys.reverse();
            keys.truncate(limit.unwrap_or(usize::MAX));
        }
        Ok(keys.iter().map(|key| PyBytes::new(py, key)).collect())
    }

    #[pyo3(signature = (table, prefix=None, limit=None))]
    fn items<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = table_of)] table: Table,
        prefix: Option<&Bound<'py, PyAny>>,
        limit: Option<usize>,
    ) -> Outcome<Vec<Item<'py>>> {
        let prefix = prefix.map_or(Ok(Vec::new()), key_bytes)?;
        let limit = limit.unwrap_or(usize::MAX);
        let items = py.detach(|| self.bundle.items(table, &prefix, limit)).or_raise(py)?;
        items.iter().map(|(key, value)| Ok((PyBytes::new(py, key), object(py, value)?))).collect()
    }

    fn count(&self, py: Python<'_>, #[pyo3(from_py_with = table_of)] table: Table) -> Outcome<u64> {
        py.detach(|| self.bundle.count(table)).or_raise(py)
    }
}

fn table_of(name: &Bound<'_, PyAny>) -> PyResult<Table> {
    table(&name.extract::<String>()?)
}
