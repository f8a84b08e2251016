//! What it takes to find text again: its words, and the queries that ask for them.

mod chars;
mod scan;
mod stem;
pub mod words;

pub use words::{Words, analyse};
