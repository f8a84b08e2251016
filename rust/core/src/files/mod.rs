//! Plain files beside the database: locks, atomic replacement, safe names, fingerprints.

pub mod artifact;
pub mod fingerprint;
pub mod lock;
pub mod replace;
