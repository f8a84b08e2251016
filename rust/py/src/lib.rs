//! The extension module: converts, releases the GIL, translates errors; decides nothing.

mod bundle;
mod chat;
mod codec;
mod convert;
mod embed;
mod error;
mod index;
mod lineage;
mod migrate;
mod recall;

/// What `python/amberlog` is built on; not for users.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use super::bundle::PyBundle;
    #[pymodule_export]
    use super::bundle::memory::PyBlockHit;
    #[pymodule_export]
    use super::chat::{PyChatLock, PyChatRescue, PyChatStore, PyIdentityLinks, PyTranscriptStore};
    #[pymodule_export]
    use super::codec::{open, pack, pack_pairs, seal, unpack};
    #[pymodule_export]
    use super::embed::{PyPieceTable, check_vectors, hashed_vectors, single_precision};
    #[pymodule_export]
    use super::index::{PyIndex, delete_files, disk_usage, session_files, session_row};
    #[pymodule_export]
    use super::lineage::{
        announced_events, branch_choices, branch_metadata, compact_rules, covered_event_ids, distinct_events,
        finished_events, live_event_ids, parent_paths, replay, replay_settled, selected_branches,
        strict_view, user_groups,
    };
    #[pymodule_export]
    use super::migrate::{migrate, stated_version};
    #[pymodule_export]
    use super::recall::PyRecall;
}
