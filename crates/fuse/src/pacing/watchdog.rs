//! The thread that looks after workers that others depend on: one that leads,
//! and those that are demoted. It sleeps while there is none.

use super::limits::LEASE;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What there is to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing at the moment.
    Nothing,
    /// Somebody.
    Somebody,
    /// Nothing any more.
    Over,
}

/// Shared with a thread that looks after it.
#[derive(Debug, Default)]
pub(super) struct Watched<S> {
    state: Mutex<S>,
    changed: Condvar,
}

impl<S> Watched<S> {
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be looked after has changed.
    pub(super) fn changed(&self) {
        self.changed.notify_all();
    }

    /// Looks once in a lease while there is somebody to look after, until all
    /// is over.
    pub(super) fn watch(&self, guard: impl Fn(&S) -> Guard, mut look: impl FnMut(&mut S, Instant)) {
        let mut state = self.lock();
        loop {
            state = match guard(&state) {
                Guard::Over => return,
                Guard::Nothing => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Guard::Somebody => {
                    let waited = self.changed.wait_timeout(state, LEASE);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    look(&mut state, Instant::now());
                    state
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_while_there_is_somebody_and_ends() {
        let watched = Watched { state: Mutex::new(Guard::Nothing), changed: Condvar::new() };
        std::thread::scope(|scope| {
            let mut looks = 0;
            let look = move |guard: &mut Guard, _: Instant| {
                looks += 1;
                if looks == 3 {
                    *guard = Guard::Over;
                }
            };
            let watched = &watched;
            scope.spawn(move || watched.watch(|guard| *guard, look));
            *watched.lock() = Guard::Somebody;
            watched.changed();
        });
        assert_eq!(*watched.lock(), Guard::Over);
    }
}
