//! (room: codec)
