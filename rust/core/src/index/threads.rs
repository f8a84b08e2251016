//! Threads for the length of one call, woken only when there is enough to do.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

const MOST: usize = 8;

/// The threads of one call. A pool for the whole process would not survive a fork.
#[derive(Debug, Default)]
pub struct Threads {
    count: usize,
    pool: OnceLock<Option<ThreadPool>>,
}

impl Threads {
    /// So many threads; `None` for one a processor, up to eight.
    pub fn new(wanted: Option<usize>) -> Self {
        let available = || std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        Self { count: wanted.unwrap_or_else(available), pool: OnceLock::new() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The threads; `None` where one is enough, or the system gives no more.
    pub fn pool(&self) -> Option<&ThreadPool> {
        let make = || {
            let builder = ThreadPoolBuilder::new().num_threads(self.count);
            builder.thread_name(|number| format!("amberlog-read-{number}")).build().ok()
        };
        self.pool.get_or_init(|| if self.count < 2 { None } else { make() }).as_ref()
    }
}
