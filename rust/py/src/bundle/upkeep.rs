//! Opening, closing and what lies between.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use amberlog_core::bundle::{Bundle, Durability, Options};
use amberlog_core::clock::SystemClock;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::PyBundle;
use crate::error::{Outcome, Raise};

type Problem = (String, String, String);

impl PyBundle {
    pub(super) fn of(bundle: Bundle) -> Self {
        Self {
            bundle,
            closed: AtomicBool::new(false),
            marks: Mutex::new(HashMap::new()),
            path: Mutex::new(None),
        }
    }
}

#[pymethods]
impl PyBundle {
    #[staticmethod]
    #[pyo3(signature = (path, *, durability="process", writer_lock=false, peer_fts=true, present_only=false))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        durability: &str,
        writer_lock: bool,
        peer_fts: bool,
        present_only: bool,
    ) -> Outcome<Self> {
        let durability = match durability {
            "process" => Durability::Process,
            "tail" => Durability::Tail,
            "power" => Durability::Power,
            "batch" => Durability::Batch,
            other => {
                return Err(PyValueError::new_err(format!(
                    "durability: one of 'process', 'power' and 'batch' is needed, not {other:?}"
                )));
            }
        };
        let options = Options { durability, exclusive: writer_lock, peer_text: peer_fts, present_only };
        py.detach(|| Bundle::open(&path, options, Box::new(SystemClock))).or_raise(py).map(Self::of)
    }

    #[staticmethod]
    fn open_readonly(py: Python<'_>, path: PathBuf) -> Outcome<Self> {
        py.detach(|| Bundle::open_readonly(&path, Box::new(SystemClock))).or_raise(py).map(Self::of)
    }

    #[getter]
    fn path(&self) -> OsString {
        self.bundle.path().as_os_str().to_owned()
    }

    #[getter]
    fn readonly(&self) -> bool {
        self.bundle.is_readonly()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn flush(&self, py: Python<'_>) -> Outcome<()> {
        self.settle(py)?;
        py.detach(|| self.bundle.flush()).or_raise(py)
    }

    fn checkpoint(&self, py: Python<'_>) -> Outcome<()> {
        self.settle(py)?;
        py.detach(|| self.bundle.checkpoint()).or_raise(py)
    }

    fn close(&self, py: Python<'_>) -> Outcome<()> {
        let settled = if self.closed.swap(true, Ordering::AcqRel) { Ok(()) } else { self.settle(py) };
        self.forget_marks();
        let closed = py.detach(|| self.bundle.close()).or_raise(py);
        settled.and(closed)
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> Outcome<()> {
        self.settle(py)?;
        py.detach(|| self.bundle.backup(&path)).or_raise(py)
    }

    fn verify(&self, py: Python<'_>) -> Outcome<(BTreeMap<String, u64>, Vec<Problem>)> {
        let report = py.detach(|| self.bundle.verify()).or_raise(py)?;
        let problems =
            report.problems.into_iter().map(|problem| (problem.table, problem.key, problem.what)).collect();
        Ok((report.counts, problems))
    }
}
