//! Who sees that a composition hangs: it is named, and the run fails.
//!
//! Time is counted in the watchdog's own naps, so that a process that is
//! stopped for a while does not look like one that hangs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// What a worker does: the seed of a history, and the composition's number;
/// none while the history is played.
pub(crate) type Task = (u64, Option<u64>);

/// What each worker does, and for how many naps it has.
#[derive(Default)]
pub(crate) struct Watchdog(Mutex<HashMap<ThreadId, (Task, u32)>>);

impl Watchdog {
    /// The calling thread begins something else.
    pub(crate) fn begin(&self, task: Task) {
        self.lock().insert(std::thread::current().id(), (task, 0));
    }

    /// The calling thread has nothing more to do.
    pub(crate) fn end(&self) {
        self.lock().remove(&std::thread::current().id());
    }

    /// Watches until no worker is left, or one has been at the same task for
    /// `naps` naps: gives that task. The workers have begun.
    pub(crate) fn watch(&self, nap: Duration, naps: u32) -> Option<Task> {
        loop {
            std::thread::sleep(nap);
            let mut tasks = self.lock();
            if tasks.is_empty() {
                return None;
            }
            for (task, napped) in tasks.values_mut() {
                *napped += 1;
                if *napped > naps {
                    return Some(*task);
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, (Task, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
