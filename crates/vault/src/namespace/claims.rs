//! Inodes that are being renamed, each by one thread at a time.
//!
//! A rename binds a file to its new name before the entry moves, and to the old
//! one again when it does not. Two at a time would each take the other's name
//! for the one before, and leave the file bound to names that it has not.

use crate::sync::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::PoisonError;

use strongroom_store::InodeId;

/// Stored inodes that are being renamed.
#[derive(Default)]
pub(super) struct Claims {
    held: Mutex<BTreeSet<InodeId>>,
    freed: Condvar,
}

/// Inodes that nobody else renames.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    inodes: BTreeSet<InodeId>,
}

impl Claims {
    /// Waits until nobody renames any of these inodes, and claims all at once,
    /// so that no two wait for each other. The caller holds no gate.
    pub(super) fn claim(&self, inodes: BTreeSet<InodeId>) -> Claim<'_> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while !held.is_disjoint(&inodes) {
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.extend(&inodes);
        Claim { claims: self, inodes }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut held = self.claims.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|inode| !self.inodes.contains(inode));
        drop(held);
        self.claims.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_inode_is_renamed_by_one_at_a_time() {
        let (claims, inside) = (Claims::default(), [const { AtomicU32::new(0) }; 3]);
        std::thread::scope(|scope| {
            for numbers in [[0, 1], [1, 2], [2, 0], [1, 0]] {
                let (claims, inside) = (&claims, &inside);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let claim = claims
                            .claim(numbers.map(|number| InodeId { device: 1, inode: number as u64 }).into());
                        for number in numbers {
                            assert_eq!(inside[number].fetch_add(1, Ordering::AcqRel), 0);
                        }
                        std::thread::yield_now();
                        for number in numbers {
                            inside[number].fetch_sub(1, Ordering::AcqRel);
                        }
                        drop(claim);
                    }
                });
            }
        });
        assert!(claims.held.lock().expect("nobody panicked").is_empty());
    }
}
