//! Errors of the core as the exceptions of `amberlog.errors`.

use amberlog_core::Error;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The result of everything that Python calls.
pub(crate) type Outcome<T> = PyResult<T>;

/// Returns the exception for an error of the core. A new variant does not compile until it has a class.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let text = error.to_string();
    let fields = PyDict::new(py);
    let class = match error {
        Error::Busy { path } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionBusyError"
        }
        Error::Locked { path, holder_pid } => {
            fields.set_item("path", path.to_string_lossy())?;
            fields.set_item("holder_pid", holder_pid)?;
            "SessionLockedError"
        }
        Error::Damaged { path, at, what } => {
            fields.set_item("path", path.to_string_lossy())?;
            fields.set_item("at", at)?;
            fields.set_item("what", what)?;
            "SessionDamagedError"
        }
        Error::Version { path, found, supported } | Error::Outdated { path, found, present: supported } => {
            fields.set_item("path", path.to_string_lossy())?;
            fields.set_item("found", found)?;
            fields.set_item("supported", supported)?;
            "SessionVersionError"
        }
        Error::ReadOnly { path, .. } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionReadOnlyError"
        }
        Error::Gone { path } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionGoneError"
        }
        Error::Closed { path, .. } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionClosedError"
        }
        Error::NotFound { path } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionNotFoundError"
        }
        Error::Exists { path } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionExistsError"
        }
        Error::ForkNotStable { path, .. } => {
            fields.set_item("path", path.to_string_lossy())?;
            "ForkNotStableError"
        }
        Error::Mixed { path, .. } => {
            fields.set_item("path", path.to_string_lossy())?;
            "SessionMigrationError"
        }
        Error::BranchView { .. } => "InvalidBranchViewError",
        Error::Io { path, reason, errno, .. } => {
            fields.set_item("path", path.to_string_lossy())?;
            fields.set_item("errno", errno)?;
            fields.set_item("reason", reason)?;
            "SessionWriteError"
        }
        Error::Invalid { .. } | Error::Unstorable { by_type: false, .. } => {
            return Ok(PyValueError::new_err(text));
        }
        Error::Unstorable { by_type: true, .. } => return Ok(PyTypeError::new_err(text)),
    };
    let exception = py.import("amberlog.errors")?.getattr(class)?.call((text,), Some(&fields))?;
    Ok(PyErr::from_value(exception))
}

/// Turns an error of the core into an exception.
pub(crate) trait Raise<T> {
    /// Returns the value, or raises.
    fn or_raise(self, py: Python<'_>) -> Outcome<T>;
}

impl<T> Raise<T> for amberlog_core::Result<T> {
    fn or_raise(self, py: Python<'_>) -> Outcome<T> {
        self.map_err(|error| raise(py, &error))
    }
}
