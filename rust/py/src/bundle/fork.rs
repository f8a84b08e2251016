//! Forks.

use std::path::PathBuf;

use amberlog_core::bundle::{Cut, Edit, Fork};
use amberlog_core::clock::SystemClock;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::tables::payload;
use super::{PyBundle, object};
use crate::convert;
use crate::error::{Outcome, Raise};

type Point<'py> = (Bound<'py, PyBytes>, Py<PyAny>);

/// One value as `MessagePack`.
fn packed(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut body = Vec::new();
    convert::encode(value, &mut body).or_raise(value.py())?;
    Ok(body)
}

#[pymethods]
impl PyBundle {
    fn fork_point<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        at_event_id: i64,
        pending: Vec<String>,
    ) -> Outcome<Option<Point<'py>>> {
        self.settle(py)?;
        let cut = Cut { point: at_event_id, pending: &pending };
        let found = py.detach(|| self.bundle.fork_point(&path, &cut)).or_raise(py)?;
        found.map(|(key, value)| Ok((PyBytes::new(py, &key), object(py, &value)?))).transpose()
    }

    #[pyo3(signature = (path, at_event_id, pending, meta, entry, edit=None))]
    #[expect(clippy::too_many_arguments, reason = "the signature that Python calls")]
    fn fork(
        &self,
        py: Python<'_>,
        path: PathBuf,
        at_event_id: i64,
        pending: Vec<String>,
        meta: Vec<(String, Bound<'_, PyAny>)>,
        entry: Bound<'_, PyAny>,
        edit: Option<(Vec<u8>, Option<Bound<'_, PyAny>>)>,
    ) -> Outcome<Self> {
        self.settle(py)?;
        let edit = edit
            .map(|(key, event)| PyResult::Ok(Edit { key, body: event.as_ref().map(packed).transpose()? }))
            .transpose()?;
        let meta = meta
            .iter()
            .map(|(key, value)| Ok((key.clone().into_bytes(), payload(value)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let cut = Cut { point: at_event_id, pending: &pending };
        let fork = Fork { cut, target: &path, edit, meta, entry: packed(&entry)? };
        py.detach(|| self.bundle.fork(&fork, Box::new(SystemClock))).or_raise(py).map(Self::of)
    }
}
