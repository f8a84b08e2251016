//! The sidecar over many bundles: listed, searched, counted, and kept level with the disk.

mod cursor;
mod entry;
mod exchange;
mod family;
mod fill;
mod follow;
mod handle;
mod list;
mod meta;
mod moment;
mod name;
mod print;
mod read;
pub mod recall;
mod reconcile;
mod rows;
mod sidecar;
mod tail;
mod threads;
mod usage;
mod walk;
mod write;

pub use self::family::family;
pub use self::handle::{Index, SIDECAR, row_of_file};
pub use self::list::{Page, Query, Sort};
pub use self::name::{MIRROR, rank, stem};
pub use self::reconcile::{Options, Progress, Report};
pub use self::usage::disk_usage;
