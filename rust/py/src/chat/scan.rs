//! Lists and searches of a directory.

use std::sync::Arc;

use amberlog_core::chat::{Document, Entry, Listing, Query};
use amberlog_core::codec::json::Json;
use pyo3::prelude::*;

use super::value::{self, json};
use super::{PyChatStore, name};
use crate::error::Raise;

#[pymethods]
impl PyChatStore {
    #[pyo3(signature = (limit, *, now))]
    fn rows<'py>(&self, py: Python<'py>, limit: Option<i64>, now: f64) -> PyResult<Bound<'py, PyAny>> {
        let text = py.detach(|| {
            let listing = self.store.list(now)?;
            let rows: Vec<&str> = cut(&listing.newest, limit).iter().map(|entry| &*entry.row).collect();
            Ok(format!("[{}]", rows.join(",")))
        });
        value::object(py, text.or_raise(py)?.as_bytes())
    }

    #[pyo3(signature = (field, wanted, *, now))]
    fn ids_where<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        wanted: &Bound<'_, PyAny>,
        now: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted = json(wanted)?;
        let listing = self.list(py, now)?;
        let value = |entry: &Entry| match field {
            "agent_name" => entry.agent_name.clone(),
            "gateway_session_id" => entry.gateway_session_id.clone(),
            _ => entry.agent_id.clone(),
        };
        let found = listing.entries.iter().filter(|entry| value(entry) == wanted);
        let ids = Json::List(found.map(|entry| entry.session_id.clone()).collect());
        value::object(py, ids.to_text().as_bytes())
    }

    #[pyo3(signature = (*, now))]
    fn unreadable(&self, py: Python<'_>, now: f64) -> PyResult<Vec<(String, String)>> {
        let listing = self.list(py, now)?;
        let pair =
            |path: &std::path::Path, reason: &str| (path.to_string_lossy().into_owned(), reason.to_owned());
        Ok(listing.unreadable.iter().map(|file| pair(&file.path, &file.reason)).collect())
    }

    /// The documents of the directory, or those that go on with the same conversation as a session.
    #[pyo3(signature = (session_id=None, *, now))]
    fn documents<'py>(
        &self,
        py: Python<'py>,
        session_id: Option<&Bound<'_, PyAny>>,
        now: f64,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let name = session_id.map(|id| name(py, id)).transpose()?;
        let found = py.detach(|| match &name {
            None => self.store.documents(now),
            Some(name) => match self.store.document(name)? {
                Some(document) => self.store.relatives(&document, now),
                None => Ok(Vec::new()),
            },
        });
        let object = |document: &Document| value::object(py, &document.to_bytes());
        found.or_raise(py)?.iter().map(object).collect()
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
        let Some(query) = Query::new(query, usize::try_from(window).unwrap_or(0)) else {
            return value::object(py, b"[]");
        };
        let limit = usize::try_from(limit).unwrap_or(0);
        let hits = py.detach(|| self.store.search(&query, limit, now)).or_raise(py)?;
        value::object(py, hits.to_text().as_bytes())
    }
}

impl PyChatStore {
    fn list(&self, py: Python<'_>, now: f64) -> PyResult<Listing> {
        py.detach(|| self.store.list(now)).or_raise(py)
    }
}

/// The first entries, as Python cuts a list: all without a limit, and a negative one counts from the end.
fn cut(entries: &[Arc<Entry>], limit: Option<i64>) -> &[Arc<Entry>] {
    let length = entries.len();
    let end = match limit {
        None => length,
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) => limit.min(length),
            Err(_) => length.saturating_sub(usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX)),
        },
    };
    entries.get(..end).unwrap_or_default()
}
