//! Plain files beside the database: locks, atomic replacement, safe names, fingerprints.

pub mod artifact;
pub mod aside;
pub mod closing;
pub mod corrupt;
pub mod exclusion;
pub mod fingerprint;
#[cfg(target_os = "linux")]
mod fork;
pub mod journal;
pub mod lock;
pub mod replace;
pub mod watch;
