//! Forks and parents of sessions, and their portable form.

use amberlog_core::chat::{Change, Document};
use amberlog_core::codec::json::Json;
use pyo3::prelude::*;

use super::{PyChatStore, edits, name, seconds, value};
use crate::error::Raise;

#[pymethods]
impl PyChatStore {
    #[pyo3(signature = (session_id, child_id, at, title, *, now, timeout_s, policy=None))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of one write, by name in Python")]
    fn fork(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        child_id: &Bound<'_, PyAny>,
        at: Option<i64>,
        title: Option<&str>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
    ) -> PyResult<()> {
        let (parent, child) = (name(py, session_id)?, name(py, child_id)?);
        let policy = edits::policy(policy)?;
        let change = Change { now, policy, timeout: seconds(timeout_s), only_new: false, keep_time: false };
        py.detach(|| self.store.fork(&parent, &child, at, title, change)).or_raise(py)
    }

    #[pyo3(signature = (session_id, child_id, *, now, timeout_s))]
    fn adopt(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        child_id: &Bound<'_, PyAny>,
        now: f64,
        timeout_s: f64,
    ) -> PyResult<()> {
        let (parent, child) = (name(py, session_id)?, name(py, child_id)?);
        let timeout = seconds(timeout_s);
        let change = Change { now, policy: None, timeout, only_new: false, keep_time: false };
        py.detach(|| self.store.adopt(&parent, &child, change)).or_raise(py)
    }

    /// A session as it is stored, with the transcripts of its snapshots in their places.
    fn portable<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let name = name(py, session_id)?;
        let text = py.detach(|| {
            let whole = self.store.view(&name, |found| found.map(Document::portable))?;
            Ok(whole.transpose()?.as_ref().map(Json::to_text))
        });
        text.or_raise(py)?.map(|text| value::object(py, text.as_bytes())).transpose()
    }
}
