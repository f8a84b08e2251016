//! The extension module.

mod codec;
mod convert;

/// What `python/amberlog` is built on; not for users.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use super::codec::{open, pack, pack_pairs, seal, unpack};
}
