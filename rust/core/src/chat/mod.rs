//! Chat sessions: one JSON document a session in a directory shared with the peer's processes.

mod answers;
mod cell;
mod document;
mod edit;
mod entry;
mod fork;
mod history;
mod identity;
mod name;
mod proof;
mod register;
mod rescue;
mod retention;
mod scan;
mod search;
mod snapshot;
mod stamp;
mod store;
mod tally;
mod transcript;

pub use answers::Field;
pub use document::{Document, Message};
pub use edit::{Checkpoint, Edit};
pub use entry::Entry;
pub use identity::Links;
pub use name::Name;
pub use register::{Home, Keeping, Register, Routed};
pub use rescue::Spills;
pub use retention::{Policy, Retention};
pub use scan::{Listing, Unreadable};
pub use search::Query;
pub use snapshot::Snapshot;
pub use store::{Change, Options, Store};
pub use transcript::Transcripts;
