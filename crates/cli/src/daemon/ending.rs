//! How the daemon ends, for those who wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failure::Failure;

/// How long those who wait for the end may take to hear of it.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// The outcome, once there is one, and who still has to pass it on.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The kernel's connection has ended.
    served: bool,
    outcome: Option<Result<(), Failure>>,
    waiting: usize,
}

impl Ending {
    /// The kernel's connection has ended: the vault is being closed.
    pub(crate) fn served(&self) {
        self.lock().served = true;
        self.changed.notify_all();
    }

    /// Waits until the kernel's connection has ended, or for `limit`; true
    /// when it has.
    pub(crate) fn served_within(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |state| !state.served);
        waited.unwrap_or_else(PoisonError::into_inner).0.served
    }

    /// The vault is closed, or could not be.
    fn set(&self, outcome: Result<(), Failure>) {
        let mut state = self.lock();
        (state.served, state.outcome) = (true, Some(outcome));
        drop(state);
        self.changed.notify_all();
    }

    /// As [`Ending::set`], and lets those who wait hear of it.
    ///
    /// # Errors
    /// The outcome.
    pub(crate) fn conclude(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        self.set(outcome.clone());
        self.drain(DRAIN_LIMIT);
        outcome
    }

    /// The process is not to end before the witness has gone, or told.
    pub(crate) fn witness(&self) -> Witness<'_> {
        self.lock().waiting += 1;
        Witness(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is an outcome, or for `limit`; true when there is.
    pub(crate) fn wait_within(&self, limit: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, limit, |state| state.outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.outcome.is_some()
    }

    /// Waits until everybody who waited has been told, but no longer than `limit`.
    fn drain(&self, limit: Duration) {
        let state = self.lock();
        let _ = self.changed.wait_timeout_while(state, limit, |state| state.waiting > 0);
    }
}

/// Somebody who is to be told of the end.
pub(crate) struct Witness<'a>(&'a Ending);

impl Witness<'_> {
    /// Waits for the outcome.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let waited = self.0.changed.wait_while(self.0.lock(), |state| state.outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).outcome.clone().expect("waited for")
    }
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_passed_on_before_the_end() {
        let ending = Ending::default();
        assert!(!ending.wait_within(Duration::from_millis(1)));
        assert!(!ending.served_within(Duration::from_millis(1)));
        ending.served();
        assert!(ending.served_within(Duration::ZERO) && !ending.wait_within(Duration::ZERO));
        let told = Mutex::new(false);
        std::thread::scope(|scope| {
            let witness = ending.witness();
            let told = &told;
            scope.spawn(move || {
                let outcome = witness.wait();
                std::thread::sleep(Duration::from_millis(20));
                *told.lock().expect("sound") = outcome.is_ok();
                drop(witness);
            });
            ending.set(Ok(()));
            ending.drain(Duration::from_secs(10));
            assert!(*told.lock().expect("sound"));
        });
        assert!(ending.wait_within(Duration::ZERO));
    }
}
