//! Events: appended, read back, found.

use amberlog_core::bundle::{Filter, Payload, Selection};
use amberlog_core::model::Stamps;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::draft::{branch_path, draft};
use super::{PyBundle, object, text};
use crate::convert;
use crate::error::{Outcome, Raise};

type Appended = (String, i64, Option<Py<PyAny>>);
type Found<'py> = (i64, f64, Bound<'py, PyDict>);

#[pymethods]
impl PyBundle {
    #[expect(clippy::too_many_arguments, reason = "these are the stamps of an event")]
    #[pyo3(signature = (agent, event_type, data, turn_index=None, spawned_in_turn=None, branch_id=None, parent_branch_path=None, stamped=false))]
    fn append(
        &self,
        py: Python<'_>,
        agent: &str,
        event_type: &str,
        data: &Bound<'_, PyAny>,
        turn_index: Option<i64>,
        spawned_in_turn: Option<i64>,
        branch_id: Option<i64>,
        parent_branch_path: Option<&Bound<'_, PyAny>>,
        stamped: bool,
    ) -> Outcome<Appended> {
        let parent_branch_path = branch_path(parent_branch_path)?;
        let stamps = Stamps { turn_index, spawned_in_turn, branch_id, parent_branch_path };
        let drafts = [draft(event_type, data, stamps)?];
        let mut appended = py.detach(|| self.bundle.append(agent, &drafts)).or_raise(py)?;
        let event = appended.remove(0);
        let whole = if stamped { Some(convert::decode(py, &event.body)?) } else { None };
        Ok((text(&event.key), event.id.0, whole))
    }

    #[pyo3(signature = (agent, events, turn_index=None, branch_id=None))]
    fn append_many(
        &self,
        py: Python<'_>,
        agent: &str,
        events: Vec<(String, Bound<'_, PyAny>)>,
        turn_index: Option<i64>,
        branch_id: Option<i64>,
    ) -> Outcome<Vec<(String, i64)>> {
        let stamps = Stamps { turn_index, branch_id, ..Stamps::default() };
        let drafts = events
            .into_iter()
            .enumerate()
            .map(|(at, (kind, payload))| {
                draft(kind, &payload, stamps.clone()).map_err(|error| at_item(py, at, error))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let appended = py.detach(|| self.bundle.append(agent, &drafts)).or_raise(py)?;
        Ok(appended.iter().map(|event| (text(&event.key), event.id.0)).collect())
    }

    #[expect(clippy::too_many_arguments, reason = "each narrows the selection in a way of its own")]
    #[pyo3(signature = (agent, since=None, until=None, types=None, limit=None, reverse=false, after=None))]
    fn events<'py>(
        &self,
        py: Python<'py>,
        agent: &str,
        since: Option<i64>,
        until: Option<i64>,
        types: Option<Vec<String>>,
        limit: Option<usize>,
        reverse: bool,
        after: Option<u64>,
    ) -> Outcome<(Bound<'py, PyList>, Option<u64>)> {
        let wanted = Selection { since, until, types, reverse };
        let limit = limit.unwrap_or(usize::MAX);
        let page = py.detach(|| self.bundle.page(agent, &wanted, after, limit)).or_raise(py)?;
        let events = PyList::empty(py);
        for row in &page.rows {
            events.append(object(py, &row.value)?)?;
        }
        Ok((events, page.next))
    }

    fn all_events<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyList>> {
        let rows = py.detach(|| self.bundle.all_rows()).or_raise(py)?;
        let events = PyList::empty(py);
        for row in &rows {
            events.append((text(&row.key), object(py, &row.value)?))?;
        }
        Ok(events)
    }

    fn event_by_id(&self, py: Python<'_>, agent: &str, event_id: i64) -> Outcome<Option<Py<PyAny>>> {
        let found = py.detach(|| self.bundle.event_by_id(agent, event_id)).or_raise(py)?;
        found.map(|value| object(py, &value)).transpose()
    }

    fn max_event_id(&self, py: Python<'_>) -> Outcome<i64> {
        py.detach(|| self.bundle.max_event_id()).or_raise(py)
    }

    fn max_branch_id(&self, py: Python<'_>, agent: &str, turn_index: i64) -> Outcome<i64> {
        py.detach(|| self.bundle.max_branch(agent, turn_index)).or_raise(py)
    }

    fn resumable_events<'py>(
        &self,
        py: Python<'py>,
        agent: &str,
        live_job_ids: Vec<String>,
        since: Option<i64>,
    ) -> Outcome<Bound<'py, PyList>> {
        let packed = py
            .detach(|| {
                let events = self.bundle.resumable_events(agent, &live_job_ids, since)?;
                Ok(events.iter().map(Payload::of).collect::<Vec<_>>())
            })
            .or_raise(py)?;
        let events = PyList::empty(py);
        for event in &packed {
            events.append(object(py, event)?)?;
        }
        Ok(events)
    }

    fn turns<'py>(&self, py: Python<'py>, agent: &str) -> Outcome<Bound<'py, PyList>> {
        let packed = py
            .detach(|| Ok(self.bundle.turns(agent)?.iter().map(Payload::of).collect::<Vec<_>>()))
            .or_raise(py)?;
        let turns = PyList::empty(py);
        for turn in &packed {
            turns.append(object(py, turn)?)?;
        }
        Ok(turns)
    }

    fn namespaces(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        py.detach(|| self.bundle.namespaces()).or_raise(py)
    }

    #[pyo3(signature = (query, k, agent=None, types=None))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        k: usize,
        agent: Option<&str>,
        types: Option<Vec<String>>,
    ) -> Outcome<Vec<Found<'py>>> {
        let filter = Filter { agent, types: types.as_deref() };
        let hits = py.detach(|| self.bundle.search(query, k, filter)).or_raise(py)?;
        hits.into_iter()
            .map(|hit| {
                let meta = PyDict::new(py);
                if let Some(sender) = hit.sender {
                    meta.set_item("channel_key", hit.source)?;
                    meta.set_item("channel", &hit.owner)?;
                    meta.set_item("agent", hit.owner)?;
                    meta.set_item("sender", sender)?;
                } else {
                    meta.set_item("event_key", hit.source)?;
                    meta.set_item("agent", hit.owner)?;
                    meta.set_item("event_id", hit.event_id)?;
                }
                meta.set_item("type", hit.kind)?;
                Ok((hit.doc_id, hit.score, meta))
            })
            .collect()
    }
}

/// Says which item of a batch was refused.
fn at_item(py: Python<'_>, at: usize, error: PyErr) -> PyErr {
    let message = error.value(py).to_string();
    let placed = format!("events[{at}]: {message}");
    match error.get_type(py).call1((placed,)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => error,
    }
}
