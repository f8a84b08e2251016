//! Lists and searches of a directory.

use amberlog_core::chat::{Document, Field, Query, Register, Unreadable};
use amberlog_core::codec::json::Json;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::value::json;
use super::{PyChatStore, name, value};
use crate::error::Raise;

#[pymethods]
impl PyChatStore {
    #[pyo3(signature = (limit, *, now))]
    fn rows<'py>(&self, py: Python<'py>, limit: Option<i64>, now: f64) -> PyResult<Bound<'py, PyAny>> {
        let text = py.detach(|| Ok(format!("[{}]", self.store.rows(limit, now)?.join(","))));
        value::object(py, text.or_raise(py)?.as_bytes())
    }

    #[pyo3(signature = (field, wanted, limit=None, *, now))]
    fn ids_where<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        wanted: &str,
        limit: Option<i64>,
        now: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let field = match field {
            "agent_name" => Field::AgentName,
            "gateway_session_id" => Field::Gateway,
            _ => Field::Agent,
        };
        let ids = py.detach(|| self.store.ids_where(field, wanted, limit, now)).or_raise(py)?;
        value::build(py, &Json::List(ids))
    }

    /// The session that an id from outside leads to: its short values, and all of it as JSON.
    #[pyo3(signature = (gateway_session_id, *, now))]
    fn route<'py>(
        &self,
        py: Python<'py>,
        gateway_session_id: &str,
        now: f64,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyBytes>)>> {
        let found = py.detach(|| self.store.route(gateway_session_id, now)).or_raise(py)?;
        let Some(found) = found else { return Ok(None) };
        let head = PyDict::new(py);
        for (key, item) in found.head.iter() {
            head.set_item(PyString::intern(py, key), value::build(py, item)?)?;
        }
        Ok(Some((head, PyBytes::new(py, &found.bytes))))
    }

    #[pyo3(signature = (*, now))]
    fn unreadable(&self, py: Python<'_>, now: f64) -> PyResult<Vec<(String, String)>> {
        let found = py.detach(|| self.store.unreadable(now)).or_raise(py)?;
        let pair = |file: Unreadable| (file.path.to_string_lossy().into_owned(), file.reason);
        Ok(found.into_iter().map(pair).collect())
    }

    /// Why the index could not be used when it was last asked.
    fn index_fault(&self) -> Option<String> {
        self.store.register().and_then(Register::fault)
    }

    /// Brings the index level, and what the peer reads of it.
    #[pyo3(signature = (*, now))]
    fn settle_index(&self, py: Python<'_>, now: f64) -> PyResult<()> {
        let Some(register) = self.store.register() else { return Ok(()) };
        py.detach(|| register.settle(now)).or_raise(py)
    }

    /// Runs a statement of somebody else's on the index, and returns its rows.
    fn ask_index<'py>(
        &self,
        py: Python<'py>,
        statement: &str,
        values: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(register) = self.store.register() else { return value::object(py, b"[]") };
        let values = values.iter().map(json).collect::<PyResult<Vec<_>>>()?;
        let rows = py.detach(|| register.query(statement, &values)).or_raise(py)?;
        value::build(py, &rows)
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
