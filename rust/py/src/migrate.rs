//! Migration to the present format.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

use std::path::PathBuf;

use amberlog_core::bundle::{self, Migration, MigrationReport};
use amberlog_core::clock::SystemClock;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Outcome, Raise};

/// Migrates a session, or with `dry_run` tells what would be made.
#[pyfunction]
pub(crate) fn migrate(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    migrated_at: String,
    dry_run: bool,
) -> Outcome<Bound<'_, PyDict>> {
    let migration =
        Migration { source: &source, target: &target, at: &migrated_at, clock: || Box::new(SystemClock) };
    let done = py.detach(|| if dry_run { bundle::plan(&migration) } else { bundle::migrate(&migration) });
    described(py, done.or_raise(py)?)
}

/// The format version that a session states, where that is told without opening it.
#[pyfunction]
pub(crate) fn stated_version(py: Python<'_>, path: PathBuf) -> Option<i64> {
    py.detach(|| bundle::stated_version(&path))
}

fn described(py: Python<'_>, report: MigrationReport) -> PyResult<Bound<'_, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("agents", report.agents)?;
    fields.set_item("events_read", report.read)?;
    fields.set_item("events_written", report.written)?;
    fields.set_item("turns", report.turns)?;
    fields.set_item("snapshots", report.snapshots)?;
    fields.set_item("channel_messages", report.channels)?;
    fields.set_item("subagent_runs", report.subagents)?;
    fields.set_item("jobs", report.jobs)?;
    fields.set_item("artifacts", report.artifacts)?;
    fields.set_item("preserved", report.is_preserved)?;
    fields.set_item("reused", report.is_reused)?;
    Ok(fields)
}
