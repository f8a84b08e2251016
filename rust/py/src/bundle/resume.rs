//! Coming back to a session.

use amberlog_core::bundle::{Asked, Obtained, Payload};
use amberlog_core::lineage::{Repair, View};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{PyBundle, object};
use crate::convert;
use crate::error::{Outcome, Raise};
use crate::lineage::view as view_of;

#[pymethods]
impl PyBundle {
    #[pyo3(signature = (agent, view=None, live_job_ids=Vec::new()))]
    fn resume<'py>(
        &self,
        py: Python<'py>,
        agent: &str,
        view: Option<&Bound<'_, PyAny>>,
        live_job_ids: Vec<String>,
    ) -> Outcome<Bound<'py, PyDict>> {
        self.settle(py)?;
        let view = view.map(|view| view_of(py, Some(view))).transpose()?;
        let asked = Asked { agent, view: view.as_ref(), live_jobs: &live_job_ids };
        let found = py.detach(|| self.bundle.resume(&asked)).or_raise(py)?;
        let answer = PyDict::new(py);
        answer.set_item("source", name_of(found.obtained))?;
        answer.set_item("messages", joined(py, &found.lists)?)?;
        answer.set_item("position", found.position)?;
        answer.set_item("repairs", found.repairs.iter().map(parts_of).collect::<Vec<_>>())?;
        answer.set_item("watermark", found.watermark)?;
        answer.set_item("context_cutoff_event_id", found.cutoff)?;
        answer.set_item("told", found.told)?;
        answer.set_item("events_read", found.read)?;
        let triggers = PyList::empty(py);
        for event in &found.triggers {
            triggers.append(object(py, &Payload::of(event))?)?;
        }
        answer.set_item("triggers", triggers)?;
        Ok(answer)
    }

    #[pyo3(signature = (agent, view=None))]
    fn branch_path(&self, py: Python<'_>, agent: &str, view: Option<&Bound<'_, PyAny>>) -> Outcome<View> {
        let view = view.map(|view| view_of(py, Some(view))).transpose()?;
        py.detach(|| self.bundle.branch_path(agent, view.as_ref())).or_raise(py)
    }

    fn agent_state<'py>(&self, py: Python<'py>, agent: &str) -> Outcome<Bound<'py, PyDict>> {
        let slots = py.detach(|| self.bundle.agent_state(agent)).or_raise(py)?;
        let state = PyDict::new(py);
        for (slot, payload) in &slots {
            state.set_item(slot, object(py, payload)?)?;
        }
        Ok(state)
    }
}

fn joined<'py>(py: Python<'py>, lists: &[Vec<u8>]) -> Outcome<Bound<'py, PyList>> {
    if let [list] = lists {
        return Ok(convert::decode(py, list)?.into_bound(py).cast_into::<PyList>()?);
    }
    let messages = PyList::empty(py);
    for list in lists {
        for message in convert::decode(py, list)?.bind(py).try_iter()? {
            messages.append(message?)?;
        }
    }
    Ok(messages)
}

fn name_of(obtained: Obtained) -> &'static str {
    match obtained {
        Obtained::Nothing => "nothing",
        Obtained::Snapshot => "snapshot",
        Obtained::SnapshotAndTail => "snapshot+tail",
        Obtained::Branch => "branch snapshot",
        Obtained::BranchAndTail => "branch snapshot+tail",
        Obtained::Cleared => "cleared context",
        Obtained::Replay => "replay",
    }
}

fn parts_of(repair: &Repair) -> (&'static str, String) {
    match repair {
        Repair::Answered(id) => ("answered", id.clone()),
        Repair::Moved(id) => ("moved", id.clone()),
        Repair::Dropped(id) => ("dropped", id.clone()),
        Repair::Repeated(id) => ("repeated", id.clone()),
        Repair::Malformed(place) => ("malformed", place.clone()),
    }
}
