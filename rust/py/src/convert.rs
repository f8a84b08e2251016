//! Python objects to MessagePack and back, without a tree in between.
//!
//! What cannot come back equal in value and type is refused before anything is written.

mod decode;
mod encode;
mod place;
mod tree;

pub(crate) use decode::{decode, objects};
pub(crate) use encode::{Top, encode, encode_pairs, encode_top};
pub(crate) use tree::tree;

use amberlog_core::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyTypeError, PyValueError};

/// Returns the exception for a value that was refused.
pub(crate) fn refused(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Unstorable { by_type: true, .. } => PyTypeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
