//! (room: bundle)
