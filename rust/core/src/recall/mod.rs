//! What it takes to find text again: its words, and the queries that ask for them.

pub mod blocks;
mod chars;
pub mod common;
pub mod embed;
mod every;
pub mod fuse;
pub mod query;
pub mod rank;
mod scan;
pub mod snippet;
mod stem;
mod stop;
pub mod vectors;
pub mod words;

pub use common::Plan;
pub use every::every_word;
pub use query::{Options, Query, parse, parse_with};
pub use words::{Words, analyse};
