//! What a log of events means: pure rules, events in and values out.
//!
//! No connection, no file, no clock. Each function is one pass over the log, or a fixed number of them.

mod announce;
mod arguments;
mod branch;
mod checkpoint;
mod chosen;
mod compaction;
mod cover;
mod dedupe;
mod drift;
mod field;
mod group;
mod log;
mod message;
mod pairing;
mod path;
mod replay;
mod resumable;
mod round;
mod settle;
mod tool;
mod turns;
pub mod usage;
mod view;

pub use checkpoint::{Checkpoint, Continued, rewrites, tells};
pub use dedupe::dedupe_adjacent;
pub use group::{TurnBranches, UserGroup, UserGroups, collect_branch_metadata, collect_user_groups};
pub use log::{Log, select_live_event_ids};
pub use pairing::{Repair, pair_tool_calls};
pub use path::ParentPaths;
pub use replay::{replay_conversation, replay_with_settled_tools};
pub use resumable::{normalize_resumable_events, resumable_events};
pub use turns::{TurnStart, TurnStarts, name_turns};
pub use view::{View, parse_view, resolve_branch_view_strict};
