//! The file of identity links for Python.

use std::path::PathBuf;
use std::time::Duration;

use amberlog_core::chat::Links;
use pyo3::prelude::*;

use crate::error::Raise;

/// One file of links.
#[pyclass(frozen, name = "IdentityLinks", module = "amberlog._core")]
pub(crate) struct PyIdentityLinks {
    links: Links,
}

#[pymethods]
impl PyIdentityLinks {
    #[new]
    #[pyo3(signature = (path, *, timeout_s))]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python as an owned value")]
    fn new(path: PathBuf, timeout_s: f64) -> Self {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0)).unwrap_or(Duration::MAX);
        Self { links: Links::at(&path, timeout) }
    }

    fn all(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        py.detach(|| self.links.all()).or_raise(py)
    }

    fn get(&self, py: Python<'_>, key: &str) -> PyResult<Option<String>> {
        py.detach(|| self.links.get(key)).or_raise(py)
    }

    #[pyo3(signature = (key, target, *, replace))]
    fn link(&self, py: Python<'_>, key: &str, target: &str, replace: bool) -> PyResult<()> {
        py.detach(|| self.links.link(key, target, replace)).or_raise(py)
    }

    fn unlink(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        py.detach(|| self.links.unlink(key)).or_raise(py)
    }
}
