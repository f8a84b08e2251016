//! The chat sessions of one database for Python, with the verbs of those of a directory.

use std::path::PathBuf;
use std::time::Duration;

use amberlog_core::chat::{Change, Document, Entry, Options, Query, Store, Transcripts};
use amberlog_core::codec::json::Json;
use amberlog_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::{SessionId, edits, mutated, seconds, value};
use crate::error::Raise;

/// The sessions of one database.
#[pyclass(frozen, name = "TranscriptStore", module = "amberlog._core")]
pub(crate) struct PyTranscriptStore {
    store: Transcripts,
}

#[pymethods]
impl PyTranscriptStore {
    #[new]
    #[pyo3(signature = (path, directory, *, sync, kept, now))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        directory: PathBuf,
        sync: bool,
        kept: usize,
        now: f64,
    ) -> PyResult<Self> {
        let open = || Transcripts::open(&path, &directory, Options { sync, kept }, now);
        Ok(Self { store: py.detach(open).or_raise(py)? })
    }

    #[pyo3(signature = (session_id, edits, *, now, timeout_s, policy=None))]
    fn edit(
        &self,
        py: Python<'_>,
        session_id: SessionId,
        edits: Vec<Bound<'_, PyTuple>>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
    ) -> PyResult<bool> {
        let edits = edits::edits(edits)?;
        let change = change_of(now, timeout_s, policy)?;
        let apply = |document: &mut Document| -> Result<bool> {
            let mut is_changed = false;
            for edit in edits {
                is_changed |= edit.apply(document)?;
            }
            Ok(is_changed)
        };
        py.detach(|| self.store.change(&session_id, change, apply)).or_raise(py)
    }

    #[pyo3(signature = (session_id, mutate, *, now, timeout_s, policy=None, only_new=false, keep_time=false))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of one write, by name in Python")]
    fn change(
        &self,
        py: Python<'_>,
        session_id: SessionId,
        mutate: Py<PyAny>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
        only_new: bool,
        keep_time: bool,
    ) -> PyResult<bool> {
        let change = Change { only_new, keep_time, ..change_of(now, timeout_s, policy)? };
        let mut raised: Option<PyErr> = None;
        let written = py.detach(|| {
            self.store.change(&session_id, change, |document| {
                match Python::attach(|py| mutated(py, &mutate, document)) {
                    Ok(Some(value)) => {
                        *document = value;
                        Ok(true)
                    }
                    Ok(None) => Ok(false),
                    Err(error) => {
                        raised = Some(error);
                        Err(Error::invalid("the change was given up"))
                    }
                }
            })
        });
        match raised {
            Some(error) => Err(error),
            None => written.or_raise(py),
        }
    }

    fn document<'py>(&self, py: Python<'py>, session_id: SessionId) -> PyResult<Option<Bound<'py, PyAny>>> {
        let bytes = py.detach(|| self.store.view(&session_id, |found| found.map(Document::to_bytes)));
        bytes.or_raise(py)?.map(|bytes| value::object(py, &bytes)).transpose()
    }

    /// The documents of the database, or those that go on with the same conversation as a session.
    #[pyo3(signature = (session_id=None, *, now))]
    fn documents<'py>(
        &self,
        py: Python<'py>,
        session_id: Option<SessionId>,
        now: f64,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        // Nothing of a database depends on how young it is.
        let _ = now;
        let found = py.detach(|| match session_id {
            None => self.store.documents(),
            Some(id) => match self.store.document(&id)? {
                Some(document) => self.store.relatives(&document),
                None => Ok(Vec::new()),
            },
        });
        let object = |document: &Document| value::object(py, &document.to_bytes());
        found.or_raise(py)?.iter().map(object).collect()
    }

    fn chat_history<'py>(
        &self,
        py: Python<'py>,
        session_id: SessionId,
        max_messages: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, &session_id, |document| document.chat_history(max_messages))
    }

    #[pyo3(signature = (session_id, max_messages, *, with_archive))]
    fn working_history<'py>(
        &self,
        py: Python<'py>,
        session_id: SessionId,
        max_messages: Option<i64>,
        with_archive: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, &session_id, |document| document.working_history(max_messages, with_archive))
    }

    fn window<'py>(
        &self,
        py: Python<'py>,
        session_id: SessionId,
        around: Option<i64>,
        window: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, &session_id, |document| Store::window(document, around, window))
    }

    fn path(&self, session_id: SessionId) -> String {
        drop(session_id);
        self.store.path().to_string_lossy().into_owned()
    }

    fn exists(&self, py: Python<'_>, session_id: SessionId) -> PyResult<bool> {
        py.detach(|| self.store.exists(&session_id)).or_raise(py)
    }

    #[pyo3(signature = (session_id, *, timeout_s))]
    fn delete(&self, py: Python<'_>, session_id: SessionId, timeout_s: f64) -> PyResult<bool> {
        py.detach(|| self.store.delete(&session_id, seconds(timeout_s))).or_raise(py)
    }

    #[pyo3(signature = (session_id=None))]
    fn forget(&self, py: Python<'_>, session_id: Option<SessionId>) -> PyResult<()> {
        py.detach(|| self.store.forget(session_id.as_deref())).or_raise(py)
    }

    /// What SQLite finds wrong with the database, one line a fault.
    fn faults(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.store.faults()).or_raise(py)
    }
}

#[pymethods]
impl PyTranscriptStore {
    #[pyo3(signature = (limit, *, now))]
    fn rows<'py>(&self, py: Python<'py>, limit: Option<i64>, now: f64) -> PyResult<Bound<'py, PyAny>> {
        let _ = now;
        let text = py.detach(|| {
            // A negative limit counts from the end, as Python cuts a list.
            let end = limit.and_then(|limit| usize::try_from(limit).ok());
            let entries = self.store.newest(end)?;
            let short = limit.filter(|limit| *limit < 0).map_or(0, i64::unsigned_abs);
            let count = entries.len().saturating_sub(usize::try_from(short).unwrap_or(usize::MAX));
            let rows: Vec<&str> = entries.iter().take(count).map(|entry: &Entry| &*entry.row).collect();
            Ok(format!("[{}]", rows.join(",")))
        });
        value::object(py, text.or_raise(py)?.as_bytes())
    }

    #[pyo3(signature = (field, wanted, limit=None, *, now))]
    fn ids_where(
        &self,
        py: Python<'_>,
        field: &str,
        wanted: &str,
        limit: Option<usize>,
        now: f64,
    ) -> PyResult<Vec<String>> {
        let _ = now;
        py.detach(|| self.store.ids_where(field, wanted, limit)).or_raise(py)
    }

    /// The session that an id from outside leads to: no short values, and all of it as JSON.
    #[pyo3(signature = (gateway_session_id, *, now))]
    fn route<'py>(
        &self,
        py: Python<'py>,
        gateway_session_id: &str,
        now: f64,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyBytes>)>> {
        let _ = now;
        let found = py.detach(|| {
            let ids = self.store.ids_where("gateway_session_id", gateway_session_id, Some(1))?;
            let Some(id) = ids.first() else { return Ok(None) };
            self.store.view(id, |found| found.map(Document::to_bytes))
        });
        let found: Option<Vec<u8>> = found.or_raise(py)?;
        Ok(found.map(|bytes| (PyDict::new(py), PyBytes::new(py, &bytes))))
    }

    #[pyo3(signature = (*, now))]
    fn unreadable(&self, py: Python<'_>, now: f64) -> PyResult<Vec<(String, String)>> {
        let _ = now;
        let found = py.detach(|| self.store.unreadable()).or_raise(py)?;
        Ok(found.into_iter().map(|one| (one.path.to_string_lossy().into_owned(), one.reason)).collect())
    }

    #[pyo3(signature = (query, *, limit, window, now))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        limit: i64,
        window: i64,
        now: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = now;
        let Some(query) = Query::new(query, usize::try_from(window).unwrap_or(0)) else {
            return value::object(py, b"[]");
        };
        let limit = usize::try_from(limit).unwrap_or(0);
        let hits = py.detach(|| self.store.search(&query, limit)).or_raise(py)?;
        value::object(py, hits.to_text().as_bytes())
    }
}

impl PyTranscriptStore {
    /// Reads a list of a session, which is empty where there is no session.
    fn read<'py>(
        &self,
        py: Python<'py>,
        session_id: &str,
        read: impl FnOnce(&Document) -> Json + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let list = py.detach(|| self.store.view(session_id, |found| found.map(read))).or_raise(py)?;
        value::build(py, &list.unwrap_or(Json::List(Vec::new())))
    }
}

fn change_of(now: f64, timeout_s: f64, policy: Option<(String, Option<i64>)>) -> PyResult<Change> {
    let timeout: Duration = seconds(timeout_s);
    Ok(Change { now, policy: edits::policy(policy)?, timeout, only_new: false, keep_time: false })
}
