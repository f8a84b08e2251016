//! The only opener of SQLite: flags, schema, transactions, locks.

pub mod chat_index;
pub mod fault;
pub mod ffi;
pub mod fork;
pub mod fts;
pub mod open;
pub mod pages;
pub mod registry;
pub mod schema;
pub mod service;
pub mod sidecar;
pub mod transcript;
mod vfs;
