//! The search over the sessions of a directory, for Python.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

use std::path::PathBuf;

use amberlog_core::index::Options;
use amberlog_core::index::recall::{Filter, Hit, Recall};
use amberlog_core::recall::blocks::Kind;
use amberlog_core::recall::parse;
use amberlog_core::recall::snippet::snippet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::{Outcome, Raise};
use crate::index::{report, with_progress};

/// The search over one session directory.
#[pyclass(frozen, name = "Recall", module = "amberlog._core")]
pub(crate) struct PyRecall {
    recall: Recall,
}

#[pymethods]
impl PyRecall {
    #[staticmethod]
    fn open(directory: PathBuf) -> Self {
        Self { recall: Recall::open(&directory) }
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.recall.close());
    }

    #[pyo3(signature = (full, workers, progress))]
    fn refresh<'py>(
        &self,
        py: Python<'py>,
        full: bool,
        workers: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let options = Options { full, workers };
        let done = with_progress(py, progress, |told| self.recall.refresh(options, told))?;
        report(py, done)
    }

    #[expect(clippy::too_many_arguments, reason = "these are the arguments of a search")]
    #[pyo3(signature = (query, most, session, agent, kinds, tool, since, until, turns, by_session, level))]
    fn find<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        most: usize,
        session: Option<String>,
        agent: Option<String>,
        kinds: Option<Vec<String>>,
        tool: Option<String>,
        since: Option<f64>,
        until: Option<f64>,
        turns: Option<(i64, i64)>,
        by_session: bool,
        level: bool,
    ) -> Outcome<Bound<'py, PyList>> {
        let kinds = kinds.map(|names| names.iter().map(|name| kind(name)).collect()).transpose()?;
        let filter = Filter { session, agent, kinds, tool, since, until, turns };
        let query = parse(query);
        let found = py.detach(|| {
            if by_session {
                self.recall.find_sessions(&query, &filter, most, !level)
            } else {
                self.recall.find(&query, &filter, most, !level)
            }
        });
        let hits = PyList::empty(py);
        for hit in found.or_raise(py)? {
            let shown = fields(py, &hit)?;
            shown.set_item("snippet", snippet(&hit.content, &query))?;
            hits.append(shown)?;
        }
        Ok(hits)
    }

    fn block<'py>(&self, py: Python<'py>, session: &str, name: &str) -> Outcome<Option<Bound<'py, PyDict>>> {
        let found = py.detach(|| self.recall.block(session, name)).or_raise(py)?;
        let Some(hit) = found else { return Ok(None) };
        let shown = fields(py, &hit)?;
        shown.set_item("snippet", "")?;
        Ok(Some(shown))
    }

    fn counts<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyDict>> {
        let counts = py.detach(|| self.recall.counts()).or_raise(py)?;
        let fields = PyDict::new(py);
        fields.set_item("sessions", counts.sessions)?;
        fields.set_item("blocks", counts.blocks)?;
        fields.set_item("unreadable", counts.unreadable)?;
        fields.set_item("bytes", counts.bytes)?;
        fields.set_item("in_memory", counts.in_memory)?;
        Ok(fields)
    }
}

fn kind(name: &str) -> Result<Kind, PyErr> {
    let known = Kind::named(name).filter(|kind| *kind != Kind::Other);
    known.ok_or_else(|| PyValueError::new_err(format!("kinds: {name:?} is not a kind of block")))
}

fn fields<'py>(py: Python<'py>, hit: &Hit) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("session", &hit.session)?;
    fields.set_item("path", &hit.path)?;
    fields.set_item("block_id", &hit.block_id)?;
    fields.set_item("agent", &hit.agent)?;
    fields.set_item("block_type", hit.kind.name())?;
    fields.set_item("round_num", hit.round)?;
    fields.set_item("block_num", hit.block)?;
    fields.set_item("turn", hit.turn)?;
    fields.set_item("ts", hit.ts)?;
    fields.set_item("event_id", hit.event_id)?;
    fields.set_item("event_key", &hit.event_key)?;
    fields.set_item("tool_name", &hit.tool_name)?;
    fields.set_item("channel", &hit.channel)?;
    fields.set_item("content", &hit.content)?;
    fields.set_item("score", hit.score)?;
    Ok(fields)
}
