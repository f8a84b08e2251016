//! The index over the sessions of a directory, for Python.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use amberlog_core::bundle::delete;
use amberlog_core::codec::Value;
use amberlog_core::codec::msgpack;
use amberlog_core::index::{self, Index, Options, Progress, Query, Report, Sort};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert;
use crate::error::{Outcome, Raise};

type Unreadable = Vec<(String, String)>;
type Listed<'py> = (Bound<'py, PyList>, u64, Option<String>, Unreadable);

/// The sidecar of one session directory.
#[pyclass(frozen, name = "Index", module = "amberlog._core")]
pub(crate) struct PyIndex {
    index: Index,
}

#[pymethods]
impl PyIndex {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Outcome<Self> {
        py.detach(|| Index::open(&path)).or_raise(py).map(|index| Self { index })
    }

    #[getter]
    fn path(&self) -> OsString {
        self.index.path().as_os_str().to_owned()
    }

    fn is_in_memory(&self, py: Python<'_>) -> Outcome<bool> {
        py.detach(|| self.index.is_in_memory()).or_raise(py)
    }

    fn is_bootstrapped(&self, py: Python<'_>) -> Outcome<bool> {
        py.detach(|| self.index.is_bootstrapped()).or_raise(py)
    }

    fn close(&self, py: Python<'_>) -> Outcome<()> {
        py.detach(|| self.index.close()).or_raise(py)
    }

    #[expect(clippy::too_many_arguments, reason = "these are the arguments of a listing")]
    #[pyo3(signature = (search, status, config_type, node_id, sort, ascending, limit, offset, cursor))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        search: String,
        status: Option<String>,
        config_type: Option<String>,
        node_id: Option<String>,
        sort: &str,
        ascending: bool,
        limit: u32,
        offset: u64,
        cursor: Option<String>,
    ) -> Outcome<Listed<'py>> {
        let sort = Sort::named(sort)
            .ok_or_else(|| PyValueError::new_err(format!("sort: {sort:?} is not a column to sort by")))?;
        let query = Query { search, status, config_type, node_id, sort, ascending, limit, offset, cursor };
        let (page, unreadable) = py.detach(|| self.index.list(&query)).or_raise(py)?;
        Ok((dicts(py, &page.rows)?, page.total, page.next, unreadable))
    }

    fn get(&self, py: Python<'_>, filename: &str) -> Outcome<Option<Py<PyAny>>> {
        let row = py.detach(|| self.index.get(filename)).or_raise(py)?;
        row.map(|row| convert::decode(py, &row)).transpose()
    }

    fn named(&self, py: Python<'_>, name: &str) -> Outcome<Option<Py<PyAny>>> {
        let row = py.detach(|| self.index.named(name)).or_raise(py)?;
        row.map(|row| convert::decode(py, &row)).transpose()
    }

    fn unreadable(&self, py: Python<'_>) -> Outcome<Unreadable> {
        py.detach(|| self.index.unreadable()).or_raise(py)
    }

    fn count(&self, py: Python<'_>) -> Outcome<u64> {
        py.detach(|| self.index.count()).or_raise(py)
    }

    fn filenames(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        py.detach(|| self.index.filenames()).or_raise(py)
    }

    fn children<'py>(&self, py: Python<'py>, filename: &str) -> Outcome<Bound<'py, PyList>> {
        let rows = py.detach(|| self.index.children(filename)).or_raise(py)?;
        dicts(py, &rows)
    }

    fn parent(&self, py: Python<'_>, filename: &str) -> Outcome<Option<Py<PyAny>>> {
        let row = py.detach(|| self.index.parent(filename)).or_raise(py)?;
        row.map(|row| convert::decode(py, &row)).transpose()
    }

    fn stats(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let stats = py.detach(|| self.index.stats()).or_raise(py)?;
        object(py, &stats)
    }

    fn upsert(&self, py: Python<'_>, filename: &str, fields: &Bound<'_, PyDict>) -> Outcome<()> {
        let fields = value(fields)?;
        py.detach(|| self.index.upsert(filename, &fields)).or_raise(py)
    }

    fn delete(&self, py: Python<'_>, filename: &str) -> Outcome<bool> {
        py.detach(|| self.index.delete(filename)).or_raise(py)
    }

    fn forget(&self, py: Python<'_>, path: &str) -> Outcome<()> {
        py.detach(|| self.index.forget(path)).or_raise(py)
    }

    fn meta(&self, py: Python<'_>, key: &str) -> Outcome<Option<Py<PyAny>>> {
        let found = py.detach(|| self.index.meta(key)).or_raise(py)?;
        found.map(|found| object(py, &found)).transpose()
    }

    fn put_meta(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> Outcome<()> {
        let value = self::value(value)?;
        py.detach(|| self.index.put_meta(key, &value)).or_raise(py)
    }

    fn push(&self, py: Python<'_>, directory: PathBuf, path: PathBuf) -> Outcome<()> {
        py.detach(|| self.index.push(&directory, &path)).or_raise(py)
    }

    fn follow(&self, py: Python<'_>, directory: PathBuf, changed: Vec<String>) -> Outcome<bool> {
        py.detach(|| self.index.follow(&directory, &changed)).or_raise(py)
    }

    #[pyo3(signature = (directory, full, workers, shared, progress))]
    fn reconcile<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        full: bool,
        workers: Option<usize>,
        shared: bool,
        progress: Option<Py<PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let options = Options { full, workers };
        let done = with_progress(py, progress, |told| {
            if shared {
                self.index.refresh(&directory, options, told)
            } else {
                self.index.reconcile(&directory, options, told)
            }
        })?;
        report(py, done)
    }
}

/// Runs work without the GIL that tells Python how far it has got; what is raised there stops it.
pub(crate) fn with_progress(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut Progress<'_>) -> amberlog_core::Result<Report> + Send,
) -> Outcome<Report> {
    let mut raised: Option<PyErr> = None;
    let outcome = py.detach(|| {
        work(&mut |done: usize, total: usize| {
            // Also where a signal such as Ctrl-C is noticed, which no loop in the core would.
            let told = Python::attach(|py| {
                py.check_signals()?;
                match &progress {
                    Some(progress) => progress.call1(py, (done, total)).map(drop),
                    None => Ok(()),
                }
            });
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    outcome.or_raise(py)
}

pub(crate) fn report(py: Python<'_>, report: Report) -> Outcome<Bound<'_, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("read", report.read)?;
    fields.set_item("deleted", report.deleted)?;
    fields.set_item("total", report.total)?;
    fields.set_item("unchanged", report.unchanged)?;
    fields.set_item("unreadable", report.unreadable)?;
    fields.set_item("elapsed_ms", report.elapsed.as_secs_f64() * 1e3)?;
    fields.set_item("aborted", report.aborted)?;
    Ok(fields)
}

/// What the sessions of a directory take on disk.
#[pyfunction]
pub(crate) fn disk_usage(py: Python<'_>, directory: PathBuf) -> Outcome<Py<PyAny>> {
    let usage = py.detach(|| index::disk_usage(&directory)).or_raise(py)?;
    object(py, &usage)
}

/// What a listing would say of one session's file.
#[pyfunction]
pub(crate) fn session_row(py: Python<'_>, path: PathBuf) -> Outcome<Py<PyAny>> {
    let row = py.detach(|| index::row_of_file(&path)).or_raise(py)?;
    convert::decode(py, &row)
}

/// The files that an exact name means in a session directory.
#[pyfunction]
pub(crate) fn session_files(py: Python<'_>, directory: PathBuf, name: &str) -> Outcome<Vec<OsString>> {
    let files = py.detach(|| index::family(&directory, name)).or_raise(py)?;
    Ok(files.into_iter().map(PathBuf::into_os_string).collect())
}

/// Deletes the files of a session with all that belongs to them.
#[pyfunction]
pub(crate) fn delete_files(py: Python<'_>, files: Vec<PathBuf>) -> Outcome<Vec<OsString>> {
    let removed = py.detach(|| delete(&files)).or_raise(py)?;
    Ok(removed.into_iter().map(PathBuf::into_os_string).collect())
}

fn dicts<'py>(py: Python<'py>, rows: &[Vec<u8>]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for row in rows {
        list.append(convert::decode(py, row)?)?;
    }
    Ok(list)
}

fn object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    let mut body = Vec::new();
    msgpack::put_value(&mut body, value);
    convert::decode(py, &body)
}

fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let mut body = Vec::new();
    convert::encode(object, &mut body).map_err(|error| convert::refused(&error))?;
    msgpack::decode(&body).map_err(|fault| PyValueError::new_err(fault.to_string()))
}
