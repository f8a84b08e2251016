//! The chat sessions of one directory for Python.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

mod edits;
mod identity;
mod kinship;
mod rescue;
mod scan;
mod transcript;
mod value;

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use amberlog_core::chat::{Change, Document, Home, Keeping, Name, Options, Store};
use amberlog_core::codec::json::Json;
use amberlog_core::{Error, Result};
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub(crate) use self::identity::PyIdentityLinks;
pub(crate) use self::rescue::{PyChatLock, PyChatRescue};
pub(crate) use self::transcript::PyTranscriptStore;
use crate::error::Raise;

/// The sessions of one directory.
#[pyclass(frozen, name = "ChatStore", module = "amberlog._core")]
pub(crate) struct PyChatStore {
    store: Store,
}

/// A session's id as Python gives it; one that is no Unicode is refused by its name.
struct SessionId(String);

impl<'py> FromPyObject<'_, 'py> for SessionId {
    type Error = PyErr;

    fn extract(id: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let refuse = |error: PyErr| {
            if error.is_instance_of::<PyUnicodeEncodeError>(id.py()) {
                PyValueError::new_err("session_id: text with a lone surrogate, which is no Unicode")
            } else {
                error
            }
        };
        id.extract::<String>().map(Self).map_err(refuse)
    }
}

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The name of a session: the stem of its file as Python's tables of letters have it.
fn name(py: Python<'_>, session_id: &Bound<'_, PyAny>) -> PyResult<Name> {
    let SessionId(id) = session_id.extract()?;
    let mut stem = String::with_capacity(id.len());
    for c in id.chars() {
        let stays = match c {
            '-' | '_' => true,
            _ if c.is_ascii() => c.is_ascii_alphanumeric(),
            _ => pyo3::types::PyString::new(py, c.encode_utf8(&mut [0; 4]))
                .call_method0("isalnum")?
                .extract()?,
        };
        stem.push(if stays { c } else { '_' });
    }
    Name::new(&id, stem).or_raise(py)
}

fn seconds(given: f64) -> Duration {
    Duration::try_from_secs_f64(given.max(0.0)).unwrap_or(Duration::MAX)
}

#[pymethods]
impl PyChatStore {
    #[new]
    #[pyo3(signature = (directory, *, sync, kept, index=None, full_text=true))]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        sync: bool,
        kept: usize,
        index: Option<PathBuf>,
        full_text: bool,
    ) -> PyResult<Self> {
        let options = Options { sync, kept };
        let keeping = index.map(|path| {
            let is_file = path.as_os_str() != ":memory:";
            Keeping { home: if is_file { Home::File(path) } else { Home::Memory }, full_text }
        });
        let store = py.detach(|| match keeping {
            Some(keeping) => Store::open_indexed(&directory, options, keeping),
            None => Store::open(&directory, options),
        });
        Ok(Self { store: store.or_raise(py)? })
    }

    #[pyo3(signature = (session_id, edits, *, now, timeout_s, policy=None))]
    fn edit(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        edits: Vec<Bound<'_, PyTuple>>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
    ) -> PyResult<bool> {
        let name = name(py, session_id)?;
        let edits = edits::edits(edits)?;
        let change = Change {
            now,
            policy: edits::policy(policy)?,
            timeout: seconds(timeout_s),
            only_new: false,
            keep_time: false,
        };
        let apply = |document: &mut Document| -> Result<bool> {
            let mut is_changed = false;
            for edit in edits {
                is_changed |= edit.apply(document)?;
            }
            Ok(is_changed)
        };
        py.detach(|| self.store.change(&name, change, apply)).or_raise(py)
    }

    #[pyo3(signature = (session_id, mutate, *, now, timeout_s, policy=None, only_new=false, keep_time=false))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of one write, by name in Python")]
    fn change(
        &self,
        py: Python<'_>,
        session_id: &Bound<'_, PyAny>,
        mutate: Py<PyAny>,
        now: f64,
        timeout_s: f64,
        policy: Option<(String, Option<i64>)>,
        only_new: bool,
        keep_time: bool,
    ) -> PyResult<bool> {
        let name = name(py, session_id)?;
        let change =
            Change { now, policy: edits::policy(policy)?, timeout: seconds(timeout_s), only_new, keep_time };
        let mut raised: Option<PyErr> = None;
        let written = py.detach(|| {
            self.store.change(&name, change, |document| {
                let answer = Python::attach(|py| mutated(py, &mutate, document));
                match answer {
                    Ok(Some(value)) => {
                        *document = value;
                        Ok(true)
                    }
                    Ok(None) => Ok(false),
                    Err(error) => {
                        raised = Some(error);
                        Err(Error::invalid("the change was given up"))
                    }
                }
            })
        });
        match raised {
            Some(error) => Err(error),
            None => written.or_raise(py),
        }
    }

    fn document<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let name = name(py, session_id)?;
        let bytes =
            py.detach(|| self.store.view(&name, |found| found.map(Document::to_bytes))).or_raise(py)?;
        bytes.map(|bytes| value::object(py, &bytes)).transpose()
    }

    fn chat_history<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
        max_messages: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, session_id, |document| document.chat_history(max_messages))
    }

    #[pyo3(signature = (session_id, max_messages, *, with_archive))]
    fn working_history<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
        max_messages: Option<i64>,
        with_archive: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, session_id, |document| document.working_history(max_messages, with_archive))
    }

    fn window<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
        around: Option<i64>,
        window: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, session_id, |document| Store::window(document, around, window))
    }

    /// How many messages were moved out of the window.
    fn archived(&self, py: Python<'_>, session_id: &Bound<'_, PyAny>) -> PyResult<usize> {
        let name = name(py, session_id)?;
        let count = |found: Option<&Document>| found.map_or(0, |document| document.archive.len());
        py.detach(|| self.store.view(&name, count)).or_raise(py)
    }

    fn path(&self, py: Python<'_>, session_id: &Bound<'_, PyAny>) -> PyResult<String> {
        let name = name(py, session_id)?;
        let path = py.detach(|| self.store.file_of(&name)).or_raise(py)?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn exists(&self, py: Python<'_>, session_id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = name(py, session_id)?;
        py.detach(|| self.store.exists(&name)).or_raise(py)
    }

    #[pyo3(signature = (session_id, *, timeout_s))]
    fn delete(&self, py: Python<'_>, session_id: &Bound<'_, PyAny>, timeout_s: f64) -> PyResult<bool> {
        let name = name(py, session_id)?;
        py.detach(|| self.store.delete(&name, seconds(timeout_s))).or_raise(py)
    }

    #[pyo3(signature = (session_id=None))]
    fn forget(&self, py: Python<'_>, session_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let name = session_id.map(|id| name(py, id)).transpose()?;
        py.detach(|| self.store.forget(name.as_ref()));
        Ok(())
    }
}

impl PyChatStore {
    /// Reads a list of a session, which is empty where there is no session.
    fn read<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'_, PyAny>,
        read: impl FnOnce(&Document) -> Json + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let name = name(py, session_id)?;
        let list = py.detach(|| self.store.view(&name, |found| found.map(read))).or_raise(py)?;
        value::build(py, &list.unwrap_or(Json::List(Vec::new())))
    }
}

/// Asks Python for the document that takes the place of one.
fn mutated(py: Python<'_>, mutate: &Py<PyAny>, document: &Document) -> PyResult<Option<Document>> {
    let answer = mutate.bind(py).call1((value::object(py, &document.to_bytes())?,))?;
    if answer.is_none() {
        return Ok(None);
    }
    let value = value::json(&answer)?;
    let built = Document::from_json(value);
    built.map(Some).map_err(|fault| pyo3::exceptions::PyValueError::new_err(fault.what))
}
