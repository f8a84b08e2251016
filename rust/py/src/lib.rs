//! The extension module: converts, releases the GIL, translates errors; decides nothing.

mod bundle;
mod codec;
mod convert;
mod error;

/// What `python/amberlog` is built on; not for users.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use super::bundle::PyBundle;
    #[pymodule_export]
    use super::codec::{open, pack, pack_pairs, seal, unpack};
}
