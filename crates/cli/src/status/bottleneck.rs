//! What holds things up: FUSE and the vault, the store, or cryptography.

use crate::daemon::status::TimeStatus;

/// Threads that are busy for less than this share of the time hold nothing up.
const IDLE: f64 = 0.5;

/// Shares of the time that requests took, between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    /// Share of the time of all threads in which they answered requests; above
    /// 1 where more is done in the background.
    pub(crate) busy: f64,
    /// Of this, cryptography's.
    pub(crate) cryptography: f64,
    /// The store's.
    pub(crate) store: f64,
    /// What is left: the kernel's interface, names, the journal, waiting for
    /// locks.
    pub(crate) fuse: f64,
}

/// Where the time went since `before`, in `seconds` of `workers` threads;
/// `None` when nothing was done.
pub(crate) fn shares(before: &TimeStatus, now: &TimeStatus, seconds: f64, workers: u64) -> Option<Shares> {
    let since = |value: fn(&TimeStatus) -> u64| value(now).saturating_sub(value(before)) as f64;
    let (requests, cryptography) = (since(|time| time.requests_ns), since(|time| time.cryptography_ns));
    let store = since(TimeStatus::store_ns);
    // Background work is in these two and not in the requests.
    let all = requests.max(cryptography + store);
    if all < 1.0 {
        return None;
    }
    Some(Shares {
        busy: all / 1e9 / (seconds.max(1e-3) * workers.max(1) as f64),
        cryptography: cryptography / all,
        store: store / all,
        fuse: (all - cryptography - store) / all,
    })
}

impl Shares {
    /// In words.
    pub(crate) fn verdict(&self) -> &'static str {
        let largest = self.cryptography.max(self.store).max(self.fuse);
        if self.busy < IDLE {
            "nothing here: the daemon waits for requests"
        } else if largest == self.cryptography {
            "cryptography"
        } else if largest == self.store {
            "the store"
        } else {
            "FUSE and the vault's own work"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(requests_ns: u64, cryptography_ns: u64, store_write_ns: u64) -> TimeStatus {
        TimeStatus { requests_ns, cryptography_ns, store_write_ns, ..TimeStatus::default() }
    }

    #[test]
    fn the_largest_share_of_a_busy_daemon_is_named() {
        let before = time(5, 5, 5);
        let of = |now: TimeStatus| shares(&before, &now, 1.0, 2).expect("something was done");
        let second = 1_000_000_000;
        assert_eq!(of(time(2 * second, second * 3 / 2, 0)).verdict(), "cryptography");
        assert_eq!(of(time(2 * second, 0, second * 3 / 2)).verdict(), "the store");
        assert!(of(time(2 * second, second / 9, second / 9)).verdict().starts_with("FUSE"));
        assert!(of(time(second / 2, second / 3, 0)).verdict().starts_with("nothing"));
        assert_eq!(shares(&before, &before, 1.0, 2), None);
    }

    #[test]
    fn shares_add_up_with_background_work_too() {
        let found = shares(&TimeStatus::default(), &time(10, 60, 40), 1e-7, 1).expect("something");
        assert!((found.cryptography + found.store + found.fuse - 1.0).abs() < 1e-9 && found.fuse >= 0.0);
    }
}
