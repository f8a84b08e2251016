//! What is kept of sessions that cannot be read or written, and the lock that keeps others out.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use amberlog_core::chat::{Change, Document, Spills};
use amberlog_core::files::exclusion::Exclusion;
use amberlog_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{PyChatStore, edits, name, seconds, value};
use crate::error::Raise;

/// The rescue of one store's sessions.
#[pyclass(frozen, name = "ChatRescue", module = "amberlog._core")]
pub(crate) struct PyChatRescue {
    store: Py<PyChatStore>,
    spills: Spills,
}

#[pymethods]
impl PyChatRescue {
    #[new]
    #[pyo3(signature = (store, spills))]
    fn new(store: Py<PyChatStore>, spills: PathBuf) -> Self {
        Self { store, spills: Spills::at(&spills) }
    }

    #[pyo3(signature = (session_id, message, *, now))]
    fn keep(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        message: &Bound<'_, PyAny>,
        now: f64,
    ) -> PyResult<String> {
        let name = name(py, session_id)?;
        let messages = vec![edits::value_of(message)?];
        let store = &self.store.get().store;
        let path = py.detach(|| self.spills.keep(store, &name, messages, now)).or_raise(py)?;
        Ok(path.to_string_lossy().into_owned())
    }

    #[pyo3(signature = (session_id, *, now, timeout_s, policy=None))]
    fn recover(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
    ) -> PyResult<usize> {
        let name = name(py, session_id)?;
        let change = change(now, seconds(timeout_s), policy)?;
        let store = &self.store.get().store;
        py.detach(|| self.spills.recover(store, &name, change)).or_raise(py)
    }

    #[pyo3(signature = (path, *, now, timeout_s))]
    fn set_aside(&self, py: Python<'_>, path: PathBuf, now: f64, timeout_s: f64) -> PyResult<Option<String>> {
        let store = &self.store.get().store;
        let aside = py.detach(|| store.set_aside(&path, now, seconds(timeout_s))).or_raise(py)?;
        Ok(aside.map(|aside| aside.to_string_lossy().into_owned()))
    }

    #[pyo3(signature = (session_id, edits, *, now, policy=None))]
    fn preview<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
        edits: Vec<Bound<'_, PyTuple>>,
        now: f64,
        policy: Option<(String, Option<i64>)>,
    ) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        let name = name(py, session_id)?;
        let edits = edits::edits(edits)?;
        let change = change(now, Duration::ZERO, policy)?;
        let apply = |document: &mut Document| -> Result<bool> {
            let mut is_changed = false;
            for edit in edits {
                is_changed |= edit.apply(document)?;
            }
            Ok(is_changed)
        };
        let store = &self.store.get().store;
        let found = py.detach(|| store.preview(&name, change, apply)).or_raise(py)?;
        found
            .map(|(path, document)| {
                Ok((path.to_string_lossy().into_owned(), value::object(py, &document.to_bytes())?))
            })
            .transpose()
    }

    fn put(&self, py: Python<'_>, path: PathBuf, document: &Bound<'_, PyAny>) -> PyResult<()> {
        let built = Document::from_json(edits::value_of(document)?);
        let built = built.map_err(|fault| pyo3::exceptions::PyValueError::new_err(fault.what))?;
        let store = &self.store.get().store;
        py.detach(|| store.put(&path, &built)).or_raise(py)
    }
}

fn change(now: f64, timeout: Duration, policy: Option<(String, Option<i64>)>) -> PyResult<Change> {
    Ok(Change { now, policy: edits::policy(policy)?, timeout, only_new: false, keep_time: false })
}

/// The lock around one plain file, by the peer's protocol.
#[pyclass(frozen, name = "ChatLock", module = "amberlog._core")]
pub(crate) struct PyChatLock {
    path: PathBuf,
    timeout: Duration,
    held: Mutex<Option<Exclusion>>,
}

#[pymethods]
impl PyChatLock {
    #[new]
    #[pyo3(signature = (path, *, timeout_s))]
    fn new(path: PathBuf, timeout_s: f64) -> Self {
        Self { path, timeout: seconds(timeout_s), held: Mutex::default() }
    }

    fn acquire(&self, py: Python<'_>) -> PyResult<bool> {
        let taken = py.detach(|| match Exclusion::take(&self.path, self.timeout) {
            Err(Error::Busy { .. }) => Ok(None),
            taken => taken.map(Some),
        });
        let taken = taken.or_raise(py)?;
        let is_taken = taken.is_some();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        Ok(is_taken)
    }

    fn release(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
