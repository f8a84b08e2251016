//! Recording: events and what belongs to them go in together; the conversation comes out.

use std::sync::PoisonError;

use amberlog_core::bundle::{
    ChildRun, Compaction, Messages, Payload, Recorded, Saved, Tag, Unit, UnitSnapshot,
};
use amberlog_core::model::{Draft, Stamps};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::draft::{branch_path, draft};
use super::marks::Marks;
use super::snapshots::{pack, tag_of, value_of};
use super::tables::{changes_of, payload};
use super::{KnownPath, PyBundle, object, text};
use crate::convert;
use crate::error::{Outcome, Raise};

/// Type, fields, turn, branch, parent path, and whether the path may be left out.
type Event<'py> = (String, Bound<'py, PyAny>, Option<i64>, Option<i64>, Option<Bound<'py, PyAny>>, bool);
type Put<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>);
type Delete<'py> = (String, Bound<'py, PyAny>);
/// Messages, branch and compaction counters.
type Snapshot<'py> = (Option<Bound<'py, PyList>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);
/// Parent, name, job, record and conversation.
type Run<'py> = (String, String, String, Bound<'py, PyAny>, Bound<'py, PyAny>);
type Stored = (String, i64, bool, Option<Py<PyAny>>);
type Place = (i64, Option<i64>, Vec<(i64, i64)>);

#[pymethods]
impl PyBundle {
    #[expect(clippy::too_many_arguments, reason = "these are what one moment of a recording may write")]
    #[pyo3(signature = (agent, events, puts, deletes, snapshot=None, run=None, sync=false, stamped=false))]
    fn record(
        &self,
        py: Python<'_>,
        agent: &str,
        events: Vec<Event<'_>>,
        puts: Vec<Put<'_>>,
        deletes: Vec<Delete<'_>>,
        snapshot: Option<Snapshot<'_>>,
        run: Option<Run<'_>>,
        sync: bool,
        stamped: bool,
    ) -> Outcome<Vec<Stored>> {
        let drafts = events.iter().map(|event| self.draft_of(event)).collect::<PyResult<Vec<_>>>()?;
        let changes = changes_of(&puts, &deletes)?;
        let run = run.as_ref().map(run_of).transpose()?;
        let mut unit = Unit { agent, drafts: &drafts, changes: &changes, run, snapshot: None };
        let recorded = match snapshot {
            None => self.store(py, &unit, sync)?,
            Some((messages, branch, state)) => {
                let state = value_of(py, state.as_ref())?;
                let tag = tag_of(py, branch.as_ref(), 0, state)?;
                if let Some(messages) = messages {
                    self.record_with(py, &unit, &messages, tag, sync)?
                } else {
                    unit.snapshot = Some(UnitSnapshot { messages: Messages::Told, tag });
                    self.store(py, &unit, sync)?
                }
            }
        };
        let whole = |body: &[u8]| if stamped { convert::decode(py, body).map(Some) } else { Ok(None) };
        let events = recorded.events.iter();
        events
            .map(|event| Ok((text(&event.key), event.id.0, event.states_path, whole(&event.body)?)))
            .collect()
    }

    #[pyo3(signature = (agent, summary, from_event_id=None, to_event_id=None, fields=None, stamped=false))]
    #[expect(clippy::too_many_arguments, reason = "these are the parts of one checkpoint")]
    fn compact(
        &self,
        py: Python<'_>,
        agent: &str,
        summary: &str,
        from_event_id: Option<i64>,
        to_event_id: Option<i64>,
        fields: Option<&Bound<'_, PyAny>>,
        stamped: bool,
    ) -> Outcome<Option<Stored>> {
        self.settle(py)?;
        let extra = fields.map(|fields| draft("compact_complete", fields, Stamps::default())).transpose()?;
        let (pairs, count) = extra.map_or((Vec::new(), 0), |extra| (extra.pairs, extra.count));
        let compaction =
            Compaction { agent, summary, from: from_event_id, to: to_event_id, pairs: &pairs, count };
        let done = py.detach(|| self.bundle.compact(&compaction)).or_raise(py)?;
        let Some(event) = done else { return Ok(None) };
        let whole = if stamped { Some(convert::decode(py, &event.body)?) } else { None };
        Ok(Some((text(&event.key), event.id.0, event.states_path, whole)))
    }

    #[pyo3(signature = (agent, limit=None))]
    fn working_history<'py>(
        &self,
        py: Python<'py>,
        agent: &str,
        limit: Option<usize>,
    ) -> Outcome<Bound<'py, PyList>> {
        self.settle(py)?;
        let packed = py
            .detach(|| {
                let messages = self.bundle.working_history(agent, limit)?;
                Ok(messages.iter().map(Payload::of).collect::<Vec<_>>())
            })
            .or_raise(py)?;
        let messages = PyList::empty(py);
        for message in &packed {
            messages.append(object(py, message)?)?;
        }
        Ok(messages)
    }

    fn place_of(&self, py: Python<'_>, agent: &str) -> Outcome<Option<Place>> {
        let place = py.detach(|| self.bundle.place_of(agent)).or_raise(py)?;
        Ok(place.map(|place| (place.turn, place.branch, place.path)))
    }
}

impl PyBundle {
    fn draft_of(&self, event: &Event<'_>) -> PyResult<Draft> {
        let (kind, fields, turn_index, branch_id, path, may_omit_path) = event;
        let parent_branch_path = path.as_ref().map(|path| self.path_of(path)).transpose()?;
        let stamps = Stamps {
            turn_index: *turn_index,
            branch_id: *branch_id,
            parent_branch_path,
            ..Stamps::default()
        };
        Ok(Draft { may_omit_path: *may_omit_path, ..draft(kind.as_str(), fields, stamps)? })
    }

    /// Reads a parent path; a tuple of tuples that was read last is not read again.
    fn path_of(&self, path: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, i64)>> {
        let fixed = path.cast_exact::<PyTuple>().ok();
        if let Some(tuple) = fixed
            && let Some(known) = &*self.path.lock().unwrap_or_else(PoisonError::into_inner)
            && known.object.is(tuple)
        {
            return Ok(known.pairs.clone());
        }
        let pairs = branch_path(Some(path))?.unwrap_or_default();
        if let Some(tuple) =
            fixed.filter(|tuple| tuple.iter().all(|pair| pair.is_exact_instance_of::<PyTuple>()))
        {
            let known = KnownPath { object: tuple.clone().unbind(), pairs: pairs.clone() };
            let before = self.path.lock().unwrap_or_else(PoisonError::into_inner).replace(known);
            drop(before);
        }
        Ok(pairs)
    }

    fn store(&self, py: Python<'_>, unit: &Unit<'_>, sync: bool) -> PyResult<Recorded> {
        py.detach(|| if sync { self.bundle.end_turn(unit) } else { self.bundle.record(unit) }).or_raise(py)
    }

    /// Stores a unit whose messages the caller has; those of the last snapshot are not packed again.
    fn record_with(
        &self,
        py: Python<'_>,
        unit: &Unit<'_>,
        messages: &Bound<'_, PyList>,
        tag: Tag,
        sync: bool,
    ) -> PyResult<Recorded> {
        let mut marks = self.take_marks(unit.agent);
        let keep = marks.unchanged(messages);
        marks.truncate(keep);
        loop {
            let (keep, base) = (marks.len(), marks.snapshot);
            let fresh = pack(py, messages, &mut marks)?;
            let given =
                UnitSnapshot { messages: Messages::Given { keep, base, fresh: &fresh }, tag: tag.clone() };
            let one = Unit {
                agent: unit.agent,
                drafts: unit.drafts,
                changes: unit.changes,
                run: unit.run.clone(),
                snapshot: Some(given),
            };
            let recorded = self.store(py, &one, sync)?;
            match recorded.saved {
                Some(Saved::Outdated) => marks = Marks::default(),
                Some(Saved::As(id)) => {
                    marks.snapshot = id;
                    marks.last = Some((messages.clone().unbind(), tag));
                    self.put_marks(unit.agent, marks);
                    return Ok(recorded);
                }
                None => return Ok(recorded),
            }
        }
    }
}

fn run_of<'a>(run: &'a Run<'_>) -> PyResult<ChildRun<'a>> {
    let (parent, name, job, record, conversation) = run;
    Ok(ChildRun { parent, name, job, record: payload(record)?, conversation: payload(conversation)? })
}
