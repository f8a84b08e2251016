//! Embedders that need no model, for Python; and the check of matrices that others made.

#![expect(clippy::needless_pass_by_value, reason = "arguments are extracted from Python as owned values")]

use std::path::PathBuf;

use amberlog_core::recall::embed::{self, Table, Width};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::error::{Outcome, Raise};

/// A table of word pieces and their vectors.
#[pyclass(frozen, name = "PieceTable", module = "amberlog._core")]
pub(crate) struct PyPieceTable {
    table: Table,
}

#[pymethods]
impl PyPieceTable {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> Outcome<Self> {
        py.detach(|| Table::load(&path)).or_raise(py).map(|table| Self { table })
    }

    #[getter]
    fn id(&self) -> String {
        self.table.id()
    }

    #[getter]
    fn dimensions(&self) -> usize {
        self.table.dimensions()
    }

    fn pieces(&self, text: &Bound<'_, PyString>) -> Vec<u32> {
        self.table.pieces(&text.to_string_lossy())
    }

    fn encode<'py>(&self, texts: &Bound<'py, PyList>, dimensions: usize) -> Outcome<Bound<'py, PyBytes>> {
        let py = texts.py();
        let texts = Texts::of(texts)?;
        let numbers = py.detach(|| {
            let mut out = Vec::with_capacity(texts.ends.len() * dimensions.min(self.table.dimensions()));
            self.table.encode(texts.iter(), dimensions, &mut out);
            out
        });
        bytes(py, &numbers)
    }
}

/// Returns the lexical vectors of texts.
#[pyfunction]
pub(crate) fn hashed_vectors<'py>(
    texts: &Bound<'py, PyList>,
    dimensions: usize,
) -> Outcome<Bound<'py, PyBytes>> {
    let py = texts.py();
    let texts = Texts::of(texts)?;
    let numbers = py.detach(|| {
        let mut out = Vec::with_capacity(texts.ends.len() * dimensions);
        embed::hashed(texts.iter(), dimensions, &mut out);
        out
    });
    bytes(py, &numbers)
}

/// Returns numbers of `e`, `f` or `d`, as `struct` has them, in single precision.
#[pyfunction]
pub(crate) fn single_precision<'py>(
    py: Python<'py>,
    numbers: &[u8],
    code: char,
) -> Outcome<Bound<'py, PyBytes>> {
    let width = match code {
        'e' => Width::Half,
        'f' => Width::Single,
        'd' => Width::Double,
        _ => return Err(PyTypeError::new_err(format!("numbers of the form {code:?} are no floats"))),
    };
    let numbers = py.detach(|| embed::floats(numbers, width)).or_raise(py)?;
    bytes(py, &numbers)
}

/// Refuses vectors that hold NaN or an infinity.
#[pyfunction]
pub(crate) fn check_vectors(py: Python<'_>, numbers: &[u8], dimensions: usize) -> Outcome<()> {
    py.detach(|| embed::check(numbers, dimensions)).or_raise(py)
}

/// Texts in one piece of memory, so that they can be read without the interpreter.
struct Texts {
    joined: String,
    ends: Vec<usize>,
}

impl Texts {
    fn of(list: &Bound<'_, PyList>) -> Outcome<Self> {
        let mut texts = Self { joined: String::new(), ends: Vec::with_capacity(list.len()) };
        for (at, item) in list.iter().enumerate() {
            let text = item
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err(format!("texts[{at}] is not a str")))?;
            // Half of a surrogate pair has no UTF-8: it becomes U+FFFD, which every embedder passes over.
            texts.joined.push_str(&text.to_string_lossy());
            texts.ends.push(texts.joined.len());
        }
        Ok(texts)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let mut begin = 0;
        self.ends.iter().map(move |end| &self.joined[std::mem::replace(&mut begin, *end)..*end])
    }
}

fn bytes<'py>(py: Python<'py>, numbers: &[f32]) -> Outcome<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, size_of_val(numbers), |out| {
        for (four, number) in out.chunks_exact_mut(4).zip(numbers) {
            four.copy_from_slice(&number.to_ne_bytes());
        }
        Ok(())
    })
}
