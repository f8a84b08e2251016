//! (room: db)
