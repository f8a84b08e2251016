//! (room: lineage)
