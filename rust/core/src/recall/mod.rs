//! (room: recall)
