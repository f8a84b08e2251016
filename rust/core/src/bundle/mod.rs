//! One session on disk: append, read, snapshot, search, verify, back up.

mod agents;
mod append;
mod backup;
mod create;
mod delete;
mod fork;
mod handle;
mod kv;
mod ledger;
mod numbers;
mod open;
mod order;
mod read;
mod snapshot;
pub(crate) mod source;
mod sync;
mod text;
mod upkeep;
mod value;
mod verify;

pub use self::agents::SubagentRun;
pub use self::append::Appended;
pub use self::delete::delete;
pub use self::fork::{Cut, Edit, Fork};
pub use self::handle::{Durability, Options};
pub use self::kv::Change;
pub use self::open::Bundle;
pub use self::read::{Page, Row, Selection};
pub use self::snapshot::{BranchPath, Conversation, Save, Saved, SnapshotInfo, Tag};
pub use self::text::{Filter, Hit};
pub use self::value::Payload;
pub use self::verify::{Problem, Report};
pub use crate::db::schema::Table;
