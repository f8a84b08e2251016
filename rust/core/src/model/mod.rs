//! (room: model)
