//! What a log of events means: pure rules, events in and values out.
//!
//! No connection, no file, no clock. Each function is one pass over the log, or a fixed number of them.

mod announce;
mod arguments;
mod branch;
mod checkpoint;
mod choices;
mod chosen;
mod compaction;
mod cover;
mod dedupe;
mod drift;
mod field;
mod group;
mod highest;
mod log;
mod message;
mod pairing;
mod path;
mod replay;
mod resumable;
mod round;
mod settle;
mod tail;
mod tool;
mod turn_start;
mod turns;
pub mod usage;
mod view;

pub(crate) use arguments::arguments;
pub use checkpoint::{Checkpoint, Continued, rewrites, tells};
pub use choices::{BranchChoice, TurnChoices, project_branch_metadata};
pub use compaction::Rule;
pub use cover::{compact_covered_event_ids, compact_rules};
pub use dedupe::{dedupe_adjacent, repeats};
pub use group::{TurnBranches, UserGroup, UserGroups, collect_branch_metadata, collect_user_groups};
pub use highest::Highest;
pub use log::{Log, select_live_event_ids};
pub use pairing::{Repair, pair_tool_calls};
pub use path::{ParentPaths, stamp as stamp_of, stated as pairs_of};
pub use replay::{replay_conversation, replay_with_settled_tools};
pub use resumable::{announced_events, normalize_resumable_events, resumable_events};
pub use tail::continues;
pub use turn_start::{TurnStart, TurnStarts, name_turns};
pub use turns::turns;
pub use view::{View, parse_view, resolve_branch_view_strict};
