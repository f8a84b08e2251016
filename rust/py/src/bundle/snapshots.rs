//! Snapshots: what is new in a list of messages goes in, a whole list comes out.

use amberlog_core::bundle::{BranchPath, Conversation, Payload, Save, Saved, Tag};
use amberlog_core::codec::{Value, msgpack};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};

use super::marks::Marks;
use super::{PyBundle, object};
use crate::convert;
use crate::error::{Outcome, Raise};

#[pymethods]
impl PyBundle {
    #[expect(clippy::too_many_arguments, reason = "these are the parts of one checkpoint")]
    #[pyo3(signature = (agent, messages, branch=None, watermark=None, compact_state=None, tagged=false))]
    fn save_snapshot(
        &self,
        py: Python<'_>,
        agent: &str,
        messages: &Bound<'_, PyList>,
        branch: Option<&Bound<'_, PyAny>>,
        watermark: Option<i64>,
        compact_state: Option<&Bound<'_, PyAny>>,
        tagged: bool,
    ) -> Outcome<()> {
        let tag = if tagged {
            tag_of(py, branch, watermark.unwrap_or(0), value_of(py, compact_state)?)?
        } else {
            Tag::Plain
        };
        let mut marks = self.take_marks(agent);
        let keep = marks.unchanged(messages);
        marks.truncate(keep);
        let saved = self.save(py, agent, messages, &mut marks, &tag)?;
        let saved = match saved {
            Saved::As(id) => id,
            Saved::Outdated => {
                marks = Marks::default();
                match self.save(py, agent, messages, &mut marks, &tag)? {
                    Saved::As(id) => id,
                    Saved::Outdated => return Ok(()),
                }
            }
        };
        marks.snapshot = saved;
        marks.last = Some((messages.clone().unbind(), tag));
        self.put_marks(agent, marks);
        Ok(())
    }

    #[pyo3(signature = (agent, turn=None))]
    fn load_snapshot(&self, py: Python<'_>, agent: &str, turn: Option<i64>) -> Outcome<Option<Py<PyAny>>> {
        self.settle(py)?;
        let found = py.detach(|| self.bundle.load_snapshot(agent, turn)).or_raise(py)?;
        match found {
            None => Ok(None),
            Some(Conversation::Whole(payload)) => whole(py, &payload),
            Some(Conversation::Lists(lists)) => {
                let messages = PyList::empty(py);
                for list in &lists {
                    for message in convert::decode(py, list)?.bind(py).try_iter()? {
                        messages.append(message?)?;
                    }
                }
                Ok(Some(messages.into_any().unbind()))
            }
        }
    }

    fn snapshots<'py>(&self, py: Python<'py>, agent: &str) -> Outcome<Vec<Bound<'py, PyDict>>> {
        let found = py.detach(|| self.bundle.snapshots(agent)).or_raise(py)?;
        found
            .iter()
            .map(|info| {
                let entry = PyDict::new(py);
                entry.set_item("turn", info.turn)?;
                entry.set_item("branch", info.branch)?;
                entry.set_item("watermark", info.watermark)?;
                entry.set_item("messages", info.messages)?;
                entry.set_item("ts", info.ts)?;
                Ok(entry)
            })
            .collect()
    }

    fn load_branch_snapshot(
        &self,
        py: Python<'_>,
        agent: &str,
        view: &Bound<'_, PyDict>,
    ) -> Outcome<Option<Py<PyAny>>> {
        let mut target: BranchPath = Vec::with_capacity(view.len());
        for (turn, branch) in view.iter() {
            let (Ok(turn), Ok(branch)) = (turn.extract::<i64>(), branch.extract::<i64>()) else {
                return Ok(None);
            };
            target.push((turn, branch));
        }
        target.sort_unstable();
        if target.iter().any(|(turn, branch)| *turn <= 0 || *branch <= 0) {
            return Ok(None);
        }
        self.settle(py)?;
        let found = py.detach(|| self.bundle.load_branch_snapshot(agent, &target)).or_raise(py)?;
        found.map(|record| object(py, &Payload::of(&record))).transpose()
    }
}

impl PyBundle {
    /// Looks into every message of the lists that were saved last, and stores what was changed in place.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        for agent in self.partial_marks() {
            let mut marks = self.take_marks(&agent);
            let Some((list, tag)) = marks.last.take() else { continue };
            let list = list.bind(py);
            let count = marks.len();
            let keep = marks.unchanged_wholly(list);
            if keep < count && list.len() >= count {
                marks.truncate(keep);
                let saved = list.get_slice(0, count);
                if let Saved::As(id) = self.save(py, &agent, &saved, &mut marks, &tag)? {
                    marks.snapshot = id;
                }
            }
            marks.is_partial = false;
            marks.last = Some((list.clone().unbind(), tag));
            self.put_marks(&agent, marks);
        }
        Ok(())
    }

    /// Packs what the marks do not know and stores the list.
    fn save(
        &self,
        py: Python<'_>,
        agent: &str,
        messages: &Bound<'_, PyList>,
        marks: &mut Marks,
        tag: &Tag,
    ) -> PyResult<Saved> {
        let keep = marks.len();
        let fresh = pack(py, messages, marks)?;
        let save = Save { agent, keep, base: marks.snapshot, fresh: &fresh, tag };
        py.detach(|| self.bundle.save_snapshot(&save)).or_raise(py)
    }
}

/// Packs the messages that the marks do not know, and marks them.
pub(super) fn pack(
    py: Python<'_>,
    messages: &Bound<'_, PyList>,
    marks: &mut Marks,
) -> PyResult<Vec<Vec<u8>>> {
    let mut fresh = Vec::new();
    for (at, message) in messages.iter().enumerate().skip(marks.len()) {
        let mut body = Vec::with_capacity(256);
        convert::encode(&message, &mut body)
            .map_err(|error| crate::error::raise(py, &at_message(at, error)))?;
        fresh.push(body);
        marks.push(&message);
    }
    Ok(fresh)
}

fn at_message(at: usize, error: amberlog_core::Error) -> amberlog_core::Error {
    match error {
        amberlog_core::Error::Unstorable { at: place, what, by_type } => {
            let place = format!("$[{at}]{}", place.strip_prefix('$').unwrap_or(&place));
            amberlog_core::Error::Unstorable { at: place, what, by_type }
        }
        other => other,
    }
}

/// A value that the core looks into.
pub(super) fn value_of(py: Python<'_>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Value> {
    let Some(value) = value else { return Ok(Value::Nil) };
    let mut body = Vec::new();
    convert::encode(value, &mut body).or_raise(py)?;
    msgpack::decode(&body).map_err(|fault| pyo3::exceptions::PyValueError::new_err(fault.to_string()))
}

/// Reads a branch tag. Its parents are one pair a turn, so they are read without a tree in between.
pub(super) fn tag_of(
    py: Python<'_>,
    branch: Option<&Bound<'_, PyAny>>,
    watermark: i64,
    compact_state: Value,
) -> PyResult<Tag> {
    let Some(fields) = branch.and_then(|branch| branch.cast_exact::<PyDict>().ok()) else {
        return Ok(Tag::of_branch(value_of(py, branch)?, watermark, compact_state));
    };
    let given = fields.get_item(intern!(py, "parent_branch_path"))?;
    let Some(parents) = given.as_ref().and_then(pairs) else {
        let branch = value_of(py, branch)?;
        return Ok(Tag::of_branch(branch, watermark, compact_state));
    };
    let rest = fields.copy()?;
    rest.del_item(intern!(py, "parent_branch_path"))?;
    let branch = value_of(py, Some(rest.as_any()))?;
    Ok(Tag::Branch { branch, parents: Some(parents), watermark, compact_state })
}

/// The pairs of a path, given as lists or tuples; `None` unless they are a sound lineage.
fn pairs(path: &Bound<'_, PyAny>) -> Option<BranchPath> {
    let mut found = BranchPath::new();
    for pair in path.try_iter().ok()? {
        let pair = pair.ok()?;
        let (turn, branch) = if let Ok(tuple) = pair.cast_exact::<PyTuple>() {
            (tuple.len() == 2).then(|| Some((tuple.get_item(0).ok()?, tuple.get_item(1).ok()?)))??
        } else {
            let list = pair.cast_exact::<PyList>().ok()?;
            (list.len() == 2).then(|| Some((list.get_item(0).ok()?, list.get_item(1).ok()?)))??
        };
        let number = |value: &Bound<'_, PyAny>| value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok();
        found.push((number(&turn)?, number(&branch)?));
    }
    let is_sound = found.iter().all(|(turn, branch)| *turn > 0 && *branch > 0)
        && found.windows(2).all(|pair| pair[0].0 < pair[1].0);
    is_sound.then_some(found)
}

/// A conversation that another program wrote: a list, or JSON of one, bare or under `messages`.
fn whole(py: Python<'_>, payload: &Payload) -> PyResult<Option<Py<PyAny>>> {
    let stored = match payload {
        Payload::Object(body) => convert::decode(py, body)?.into_bound(py),
        Payload::Bytes(bytes) => pyo3::types::PyString::new(py, &String::from_utf8_lossy(bytes)).into_any(),
    };
    let parsed = if stored.is_instance_of::<pyo3::types::PyString>() {
        py.import("json")?.call_method1("loads", (stored,))?
    } else {
        stored
    };
    if parsed.is_instance_of::<PyList>() {
        return Ok(Some(parsed.unbind()));
    }
    match parsed.cast::<PyDict>() {
        Ok(fields) => Ok(fields.get_item("messages")?.map(Bound::unbind)),
        Err(_) => Ok(None),
    }
}
