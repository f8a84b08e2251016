//! Channels, sub-agents, rollups, token counts.

use amberlog_core::bundle::{Payload, SubagentRun};
use amberlog_core::model::Stamps;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::draft::{dict, draft};
use super::{PyBundle, object, text};
use crate::convert;
use crate::error::{Outcome, Raise};

type Run = (String, String, i64, Py<PyAny>);

fn run_of(py: Python<'_>, run: SubagentRun) -> PyResult<Run> {
    Ok((run.parent, run.name, run.run, object(py, &run.record)?))
}

type Attached = (i64, String, Py<PyAny>);

#[pymethods]
impl PyBundle {
    fn attach(&self, py: Python<'_>, host: &str, role: &str, data: &Bound<'_, PyAny>) -> Outcome<Attached> {
        let draft = draft("agent_attached", data, Stamps::default())?;
        let (number, event) = py.detach(|| self.bundle.attach(host, role, draft)).or_raise(py)?;
        Ok((number, text(&event.key), convert::decode(py, &event.body)?))
    }

    fn append_message(&self, py: Python<'_>, channel: &str, data: &Bound<'_, PyAny>) -> Outcome<String> {
        let fields = dict(data)?;
        let mut pairs = Vec::new();
        let count = convert::encode_pairs(&fields, &[], &mut pairs).or_raise(py)?;
        let has_ts = fields.contains(intern!(py, "ts"))?;
        let key = py.detach(|| self.bundle.append_message(channel, &pairs, count, has_ts)).or_raise(py)?;
        Ok(text(&key))
    }

    fn messages<'py>(&self, py: Python<'py>, channel: &str) -> Outcome<Bound<'py, PyList>> {
        let messages = PyList::empty(py);
        let mut from = Some(0);
        while let Some(number) = from {
            let page = py.detach(|| self.bundle.message_page(channel, number, usize::MAX)).or_raise(py)?;
            for row in &page.rows {
                messages.append(object(py, &row.value)?)?;
            }
            from = page.next;
        }
        Ok(messages)
    }

    fn rollups(&self, py: Python<'_>, agent: &str) -> Outcome<Vec<Py<PyAny>>> {
        let rows = py.detach(|| self.bundle.rollups(agent)).or_raise(py)?;
        rows.iter().map(|row| object(py, row)).collect()
    }

    fn next_subagent_run(&self, py: Python<'_>, parent: &str, name: &str) -> Outcome<i64> {
        py.detach(|| self.bundle.next_subagent_run(parent, name)).or_raise(py)
    }

    #[pyo3(signature = (parent=None, name=None))]
    fn subagent_runs(&self, py: Python<'_>, parent: Option<&str>, name: Option<&str>) -> Outcome<Vec<Run>> {
        let runs = py.detach(|| self.bundle.subagent_runs(parent, name)).or_raise(py)?;
        runs.into_iter().map(|run| run_of(py, run)).collect()
    }

    #[pyo3(signature = (job_id, parent=None))]
    fn find_subagent_run(&self, py: Python<'_>, job_id: &str, parent: Option<&str>) -> Outcome<Option<Run>> {
        let found = py.detach(|| self.bundle.find_subagent_run(job_id, parent)).or_raise(py)?;
        found.map(|run| run_of(py, run)).transpose()
    }

    fn token_usage(
        &self,
        py: Python<'_>,
        agent: &str,
        include_subagents: bool,
        include_attached: bool,
        by_turn: bool,
    ) -> Outcome<Py<PyAny>> {
        let usage = py
            .detach(|| self.bundle.token_usage(agent, include_subagents, include_attached, by_turn))
            .or_raise(py)?;
        object(py, &Payload::of(&usage))
    }

    fn token_usage_all_loops(&self, py: Python<'_>) -> Outcome<Vec<(String, Py<PyAny>)>> {
        let loops = py.detach(|| self.bundle.token_usage_all_loops()).or_raise(py)?;
        loops.into_iter().map(|(path, usage)| Ok((path, object(py, &Payload::of(&usage))?))).collect()
    }
}
