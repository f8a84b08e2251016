//! The core of amberlog: stores sessions and finds what was said in them.
//!
//! Rooms, low to high: `error clock model codec | db files | lineage recall | bundle chat | index`. A
//! room uses
//! only rooms to its left; `tests/house.rs` holds that up.

pub mod bundle;
pub mod chat;
pub mod clock;
pub mod codec;
pub mod db;
pub mod error;
pub mod files;
pub mod index;
pub mod lineage;
pub mod model;
pub mod recall;

pub use error::{Error, Result};
