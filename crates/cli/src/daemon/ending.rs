//! How the daemon ends, for those who wait for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::failure::Failure;

/// The outcome, once there is one, and who still has to pass it on.
#[derive(Debug, Default)]
pub(super) struct Ending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Result<(), Failure>>,
    waiting: usize,
}

impl Ending {
    /// The vault is closed, or could not be.
    pub(super) fn set(&self, outcome: Result<(), Failure>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outcome = Some(outcome);
        self.changed.notify_all();
    }

    /// Waits for the outcome and has `pass_on` tell somebody, before which the
    /// process should not end.
    pub(super) fn wait<T>(&self, pass_on: impl FnOnce(Result<(), Failure>) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        let state = self
            .changed
            .wait_while(state, |state| state.outcome.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        let outcome = state.outcome.clone().expect("waited for");
        drop(state);
        let passed = pass_on(outcome);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting -= 1;
        self.changed.notify_all();
        passed
    }

    /// Waits until there is an outcome, or for `limit`; true when there is.
    pub(super) fn wait_within(&self, limit: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, limit, |state| state.outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.outcome.is_some()
    }

    /// Waits until everybody who waited has been told, but no longer than `limit`.
    pub(super) fn drain(&self, limit: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(state, limit, |state| state.waiting > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_passed_on_before_the_end() {
        let ending = Ending::default();
        assert!(!ending.wait_within(Duration::from_millis(1)));
        let told = Mutex::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ending.wait(|outcome| {
                    std::thread::sleep(Duration::from_millis(20));
                    *told.lock().expect("sound") = outcome.is_ok();
                });
            });
            while ending.state.lock().expect("sound").waiting == 0 {
                std::thread::yield_now();
            }
            ending.set(Ok(()));
            ending.drain(Duration::from_secs(10));
            assert!(*told.lock().expect("sound"));
        });
        assert!(ending.wait_within(Duration::ZERO));
    }
}
