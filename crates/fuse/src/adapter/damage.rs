//! What was found damaged since the mount, by plain path, for `status`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use strongroom_vault::Error;
use strongroom_vault::namespace::{Namespace, Observer};

/// Files and directories remembered; the oldest makes room.
const REMEMBERED_MAX: usize = 64;

/// Something damaged, as it was found last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Plain path from the mount, without a leading slash; `None` when it had
    /// no known name.
    pub path: Option<Vec<u8>>,
    /// What is wrong.
    pub what: String,
    /// How often a request met it.
    pub times: u64,
}

/// Remembers damage. It is there before the vault is open, and told of its
/// namespace afterwards.
#[derive(Default)]
pub struct DamageLog {
    namespace: OnceLock<Weak<Namespace>>,
    found: Mutex<VecDeque<Damaged>>,
    total: AtomicU64,
}

impl DamageLog {
    /// Nothing was found yet.
    #[must_use]
    pub fn new() -> DamageLog {
        DamageLog::default()
    }

    /// From now on paths are known.
    pub fn attach(&self, namespace: Weak<Namespace>) {
        // A second vault on one log would be the caller's mistake; the first stays.
        let _ = self.namespace.set(namespace);
    }

    /// What was found, the oldest first.
    #[must_use]
    pub fn found(&self) -> Vec<Damaged> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// How often something was found, by requests and in listings, from which
    /// what does not open is left out.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn path(&self, number: u64) -> Option<Vec<u8>> {
        self.namespace.get()?.upgrade()?.path(number)
    }
}

impl Observer for DamageLog {
    fn damaged(&self, number: u64, error: &Error) {
        let (path, what) = (self.path(number), error.to_string());
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.iter_mut().find(|known| known.path == path && known.what == what) {
            known.times += 1;
            return;
        }
        if found.len() == REMEMBERED_MAX {
            found.pop_front();
        }
        found.push_back(Damaged { path, what, times: 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_vault::Damage;

    #[test]
    fn damage_is_counted_once_per_kind_and_bounded() {
        let log = DamageLog::new();
        let error = Error::Damaged(Damage::Home);
        log.damaged(7, &error);
        log.damaged(7, &error);
        assert_eq!(log.found(), [Damaged { path: None, what: error.to_string(), times: 2 }]);
        for stored in 0..2 * REMEMBERED_MAX as u64 {
            log.damaged(7, &Error::Damaged(Damage::Length { stored }));
        }
        assert_eq!(log.found().len(), REMEMBERED_MAX);
        assert_eq!(log.total(), 2 + 2 * REMEMBERED_MAX as u64);
    }
}
