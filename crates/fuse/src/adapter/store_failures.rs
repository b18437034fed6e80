//! Requests that failed because the store did, for `status`: whoever asked was told, and whoever looks after the
//! mount is to see it too.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use strongroom_vault::Error;

/// What is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFailures {
    /// How many requests.
    pub requests: u64,
    /// The call that failed last, with its error, and how long ago that was.
    pub last: Option<(String, Duration)>,
}

/// Counts them, and remembers the last.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    requests: u64,
    last: Option<(String, Instant)>,
}

impl FailureLog {
    /// Notes the error of a request, where the store or that of the freshness file has failed.
    pub(super) fn note(&self, error: &Error) {
        let (Error::Store(of_store) | Error::Freshness(of_store)) = error else { return };
        if of_store.is_failure() {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.requests += 1;
            known.last = Some((of_store.to_string(), Instant::now()));
        }
    }

    pub(super) fn known(&self) -> StoreFailures {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known.last.as_ref().map(|(what, at)| (what.clone(), at.elapsed()));
        StoreFailures { requests: known.requests, last }
    }
}

#[cfg(test)]
mod tests {
    use strongroom_store as store;

    use super::*;

    #[test]
    fn failures_of_a_store_count_and_refusals_and_damage_do_not() {
        let log = FailureLog::default();
        let missing = store::Error::new(2, "openat");
        for error in [Error::Store(missing), Error::Refused(17), Error::TakenOver] {
            log.note(&error);
        }
        assert_eq!(log.known(), StoreFailures::default());
        log.note(&Error::Store(store::Error::new(107, "openat")));
        log.note(&Error::Freshness(store::Error::new(5, "fsync")));
        let known = log.known();
        assert_eq!(known.requests, 2);
        assert!(known.last.is_some_and(|(what, ago)| what.contains("fsync") && ago.as_secs() < 60));
    }
}
