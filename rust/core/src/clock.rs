//! Time as an argument: nothing in the core asks the system for it directly.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where a store takes the time of its stamps from.
pub trait Clock: Send + Sync + 'static {
    /// Returns seconds since 1970, UTC, with fractions.
    fn now(&self) -> f64;
}

/// The wall clock of the system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }
}
