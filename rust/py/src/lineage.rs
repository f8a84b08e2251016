//! The rules of `lineage` for Python: events in, values out, and the GIL released in between.

use std::collections::{BTreeMap, BTreeSet};

use amberlog_core::codec::{Key, Value};
use amberlog_core::lineage::{self, Log, ParentPaths, Rule, TurnBranches, TurnChoices, UserGroups, View};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyMapping, PySet, PyString};

use crate::convert;
use crate::error::{Outcome, Raise};

type Path = Vec<(i64, i64)>;
type RuleRow = (i64, i64, Option<Path>, String, Option<Path>, bool, Vec<i64>);

#[pyfunction]
#[pyo3(signature = (events, branch_view=None, include_metadata=false))]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
    include_metadata: bool,
) -> Outcome<Bound<'py, PyList>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    answer(py, move || lineage::replay_conversation(&events, &view, include_metadata))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None, include_metadata=false, interrupted=None))]
pub(crate) fn replay_settled<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
    include_metadata: bool,
    interrupted: Option<Vec<String>>,
) -> Outcome<Bound<'py, PyList>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    answer(py, move || {
        lineage::replay_with_settled_tools(&events, &view, include_metadata, interrupted.as_deref())
    })
}

#[pyfunction]
#[pyo3(signature = (events, live_job_ids, covered=BTreeSet::new()))]
pub(crate) fn finished_events<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    live_job_ids: Vec<String>,
    covered: BTreeSet<i64>,
) -> Outcome<Bound<'py, PyList>> {
    let events = read(events)?;
    answer(py, move || lineage::announced_events(events, &covered, Some(&live_job_ids)))
}

#[pyfunction]
#[pyo3(signature = (events, covered=BTreeSet::new()))]
pub(crate) fn announced_events<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    covered: BTreeSet<i64>,
) -> Outcome<Bound<'py, PyList>> {
    let events = read(events)?;
    answer(py, move || lineage::announced_events(events, &covered, None))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn compact_rules(
    py: Python<'_>,
    events: &Bound<'_, PyAny>,
    branch_view: Option<&Bound<'_, PyAny>>,
) -> Outcome<Vec<RuleRow>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    let row = |rule: Rule| {
        let Rule { from, to, path, summary, source, results, source_is_recorded } = rule;
        (from, to, path, summary, source, source_is_recorded, results)
    };
    Ok(py.detach(move || lineage::compact_rules(&events, &view).into_iter().map(row).collect()))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn covered_event_ids<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PySet>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    PySet::new(py, py.detach(move || lineage::compact_covered_event_ids(&events, &view)))
}

#[pyfunction]
pub(crate) fn distinct_events<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
) -> Outcome<Bound<'py, PyList>> {
    let events = read(events)?;
    answer(py, move || lineage::dedupe_adjacent(events))
}

#[pyfunction]
pub(crate) fn parent_paths(py: Python<'_>, events: &Bound<'_, PyAny>) -> Outcome<BTreeMap<i64, Path>> {
    let events = read(events)?;
    Ok(py.detach(move || {
        let paths = ParentPaths::of(&events);
        let ids = events.iter().filter_map(|event| event.get("event_id")?.as_i64());
        ids.filter_map(|id| Some((id, paths.get(id)?))).collect()
    }))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn selected_branches(
    py: Python<'_>,
    events: &Bound<'_, PyAny>,
    branch_view: Option<&Bound<'_, PyAny>>,
) -> Outcome<View> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    Ok(py.detach(move || Log::read(&events, &view).selected_branches().clone()))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn strict_view(
    py: Python<'_>,
    events: &Bound<'_, PyAny>,
    branch_view: Option<&Bound<'_, PyAny>>,
) -> Outcome<View> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    py.detach(move || lineage::resolve_branch_view_strict(&events, &view)).or_raise(py)
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn live_event_ids<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PySet>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    PySet::new(py, py.detach(move || lineage::select_live_event_ids(&events, &view)))
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn branch_metadata<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyDict>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    let turns = py.detach(move || lineage::collect_branch_metadata(&events, &view));
    let found = PyDict::new(py);
    for (turn, branches) in turns {
        found.set_item(turn, of_branches(py, branches)?)?;
    }
    Ok(found)
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn branch_choices<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyDict>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    let turns = py.detach(move || lineage::project_branch_metadata(&events, &view)).or_raise(py)?;
    let found = PyDict::new(py);
    for (turn, choices) in turns {
        found.set_item(turn, of_choices(py, choices)?)?;
    }
    Ok(found)
}

#[pyfunction]
#[pyo3(signature = (events, branch_view=None))]
pub(crate) fn user_groups<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    branch_view: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyDict>> {
    let (events, view) = (read(events)?, view(py, branch_view)?);
    let turns = py.detach(move || lineage::collect_user_groups(&events, &view));
    let found = PyDict::new(py);
    for (turn, groups) in turns {
        found.set_item(turn, of_groups(py, groups)?)?;
    }
    Ok(found)
}

/// Reads the events of any iterable; what is wrong with one is named by its place: `$[3].args`.
fn read(events: &Bound<'_, PyAny>) -> Outcome<Vec<Value>> {
    let mut values = Vec::with_capacity(events.len().unwrap_or_default());
    for (number, event) in events.try_iter()?.enumerate() {
        values.push(convert::tree(&event?, number).or_raise(events.py())?);
    }
    Ok(values)
}

/// Reads a view: the map from turn to branch that a caller holds, or one that went through JSON.
pub(crate) fn view(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> Outcome<View> {
    let Some(given) = given else { return Ok(View::new()) };
    let Ok(mapping) = given.cast::<PyMapping>() else {
        return lineage::parse_view(&Value::Nil).or_raise(py);
    };
    let mut pairs = Vec::new();
    for pair in mapping.items()? {
        let (turn, branch) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        // What is no number is left for the core to refuse.
        let turn = match number(&turn) {
            Value::Int(turn) => turn.to_string().into(),
            Value::Str(digits) => digits.into(),
            _ => Key::default(),
        };
        pairs.push((turn, number(&branch)));
    }
    lineage::parse_view(&Value::Map(pairs)).or_raise(py)
}

fn number(object: &Bound<'_, PyAny>) -> Value {
    let value = if object.is_instance_of::<PyBool>() {
        None
    } else if let Ok(number) = object.cast::<PyInt>() {
        number.extract().ok().map(Value::Int)
    } else {
        object.cast::<PyString>().ok().and_then(|digits| digits.extract().ok()).map(Value::Str)
    };
    value.unwrap_or_default()
}

/// Makes values without the GIL and returns them as Python objects.
fn answer(py: Python<'_>, make: impl FnOnce() -> Vec<Value> + Send) -> Outcome<Bound<'_, PyList>> {
    let values = py.detach(make);
    let objects = convert::objects(py, &values);
    // What is large is let go of without the GIL too.
    py.detach(move || drop(values));
    objects
}

fn of_branches(py: Python<'_>, found: TurnBranches) -> Outcome<Bound<'_, PyDict>> {
    let turn = PyDict::new(py);
    turn.set_item("branches", found.branches)?;
    turn.set_item("latest_branch", found.latest_branch)?;
    turn.set_item("events_by_branch", found.events_by_branch)?;
    Ok(turn)
}

fn of_choices(py: Python<'_>, found: TurnChoices) -> Outcome<Bound<'_, PyDict>> {
    let latest = found.branches.last().map(|choice| choice.branch);
    let branches = PyList::empty(py);
    for choice in found.branches {
        let row = PyDict::new(py);
        let pair = |(turn, branch)| vec![turn, branch];
        let paths =
            choice.parent_paths.into_iter().map(|path| path.into_iter().map(pair).collect::<Vec<_>>());
        row.set_item("branch_id", choice.branch)?;
        row.set_item("parent_branch_paths", paths.collect::<Vec<_>>())?;
        row.set_item("selected", found.selected == Some(choice.branch))?;
        branches.append(row)?;
    }
    let turn = PyDict::new(py);
    turn.set_item("branches", branches)?;
    turn.set_item("latest", latest)?;
    turn.set_item("selected", found.selected)?;
    Ok(turn)
}

fn of_groups(py: Python<'_>, found: UserGroups) -> Outcome<Bound<'_, PyDict>> {
    let groups = PyList::empty(py);
    for group in found.groups {
        let row = PyDict::new(py);
        match &group.content {
            Value::Str(text) => row.set_item("content", text)?,
            // The peer labels a group of messages that are not text by their printed form.
            parts => row.set_item(
                "content",
                convert::objects(py, std::slice::from_ref(parts))?.get_item(0)?.str()?,
            )?,
        }
        row.set_item("branches", group.branches)?;
        groups.append(row)?;
    }
    let turn = PyDict::new(py);
    turn.set_item("groups", groups)?;
    turn.set_item("selected_group_idx", found.selected_group_idx)?;
    Ok(turn)
}
