//! (room: files)
