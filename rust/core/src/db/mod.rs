//! (room: db)

pub mod pages;
