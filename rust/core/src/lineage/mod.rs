//! What a log of events means: pure rules, events in and values out.
//!
//! No connection, no file, no clock. Each function is one pass over the log, or a fixed number of them.

mod announce;
mod arguments;
mod dedupe;
mod field;
mod path;
mod resumable;
mod round;
mod tool;
pub mod usage;

pub use dedupe::dedupe_adjacent;
pub use resumable::{normalize_resumable_events, resumable_events};
