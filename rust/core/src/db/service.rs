//! The one background thread of a process: it syncs and checkpoints, and never touches Python.

use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::fork::PerProcess;

/// Something with work to do a while after it was written to.
pub trait Attended: Send + Sync {
    /// Does what is due and returns when to come again; `None` when nothing is left to do.
    fn attend(&self) -> Option<Duration>;
}

struct Visit {
    due: Instant,
    whom: Weak<dyn Attended>,
}

#[derive(Default)]
struct Service {
    visits: Mutex<Option<Vec<Visit>>>,
    woken: Condvar,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

/// Asks the thread to attend to `whom` after `delay`, and again for as long as it asks to.
pub fn visit(whom: Weak<dyn Attended>, delay: Duration) -> std::io::Result<()> {
    let service = SERVICE.get();
    let mut visits = service.visits.lock().unwrap_or_else(PoisonError::into_inner);
    if visits.is_none() {
        std::thread::Builder::new().name("amberlog-service".to_owned()).spawn(|| run(service))?;
    }
    visits.get_or_insert_default().push(Visit { due: Instant::now() + delay, whom });
    drop(visits);
    service.woken.notify_one();
    Ok(())
}

fn run(service: &'static Service) {
    loop {
        for visit in wait_for_due(service) {
            let again = visit.whom.upgrade().and_then(|whom| whom.attend());
            if let Some(delay) = again {
                let mut visits = service.visits.lock().unwrap_or_else(PoisonError::into_inner);
                visits.get_or_insert_default().push(Visit { due: Instant::now() + delay, whom: visit.whom });
            }
        }
    }
}

fn wait_for_due(service: &Service) -> Vec<Visit> {
    let mut visits = service.visits.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        let all = visits.get_or_insert_default();
        let (due, later): (Vec<_>, Vec<_>) = all.drain(..).partition(|visit| visit.due <= now);
        *all = later;
        if !due.is_empty() {
            return due;
        }
        let next = all.iter().map(|visit| visit.due).min();
        visits = match next {
            Some(due) => {
                service.woken.wait_timeout(visits, due - now).unwrap_or_else(PoisonError::into_inner).0
            }
            None => service.woken.wait(visits).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
