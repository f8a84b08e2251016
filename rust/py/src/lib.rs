//! The extension module: converts, releases the GIL, translates errors; decides nothing.

mod bundle;
mod chat;
mod codec;
mod convert;
mod error;
mod lineage;

/// What `python/amberlog` is built on; not for users.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use super::bundle::PyBundle;
    #[pymodule_export]
    use super::chat::{PyChatStore, PyIdentityLinks};
    #[pymodule_export]
    use super::codec::{open, pack, pack_pairs, seal, unpack};
    #[pymodule_export]
    use super::lineage::{
        branch_metadata, distinct_events, finished_events, live_event_ids, parent_paths, replay,
        replay_settled, selected_branches, strict_view, user_groups,
    };
}
