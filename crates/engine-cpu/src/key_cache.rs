//! The keys derived for the nonce prefixes met lately.
//!
//! A prefix is a write session, so a mount that writes needs one and a file
//! written over many mounts a few. A hit takes one uncontended read lock and
//! allocates nothing. Bounded: a fixed number of sets of a few ways, the
//! oldest way of a set giving way. Dropped keys are wiped by what holds them.

use std::sync::{Arc, PoisonError, RwLock};

use strongroom_memory::in_locked_heap;

const SETS: usize = 16;
const WAYS: usize = 4;

/// See the module.
pub(crate) struct KeyCache<K> {
    sets: [RwLock<Set<K>>; SETS],
}

struct Set<K> {
    ways: [Option<Entry<K>>; WAYS],
    oldest: usize,
}

impl<K> Default for Set<K> {
    fn default() -> Set<K> {
        Set { ways: [const { None }; WAYS], oldest: 0 }
    }
}

struct Entry<K> {
    prefix: [u8; 12],
    key: Arc<K>,
}

impl<K> KeyCache<K> {
    pub(crate) fn new() -> KeyCache<K> {
        KeyCache { sets: std::array::from_fn(|_| RwLock::default()) }
    }

    /// The key for `prefix`, derived if it is not there.
    pub(crate) fn find_or_insert(&self, prefix: [u8; 12], derive: impl FnOnce() -> K) -> Arc<K> {
        let set = &self.sets[usize::from(prefix[0] ^ prefix[11]) % SETS];
        if let Some(key) = set.read().unwrap_or_else(PoisonError::into_inner).find(&prefix) {
            return key;
        }
        let key = in_locked_heap(|| Arc::new(derive()));
        set.write().unwrap_or_else(PoisonError::into_inner).insert(prefix, Arc::clone(&key));
        key
    }
}

impl<K> Set<K> {
    fn find(&self, prefix: &[u8; 12]) -> Option<Arc<K>> {
        self.ways.iter().flatten().find(|entry| entry.prefix == *prefix).map(|entry| Arc::clone(&entry.key))
    }

    /// Two threads may both have missed; the second finds the first's entry.
    fn insert(&mut self, prefix: [u8; 12], key: Arc<K>) {
        if self.find(&prefix).is_none() {
            self.ways[self.oldest] = Some(Entry { prefix, key });
            self.oldest = (self.oldest + 1) % WAYS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> u32 {
        0
    }

    #[test]
    fn a_prefix_seen_lately_is_not_derived_again() {
        let cache = KeyCache::new();
        let first = cache.find_or_insert([1; 12], key);
        let again = cache.find_or_insert([1; 12], || unreachable!("the prefix is in the cache"));
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn the_oldest_of_a_set_gives_way() {
        let cache = KeyCache::new();
        let prefixes: Vec<[u8; 12]> = (0..=WAYS as u8)
            .map(|i| {
                let mut prefix = [0; 12];
                prefix[5] = i;
                prefix
            })
            .collect();
        for prefix in &prefixes {
            cache.find_or_insert(*prefix, key);
        }
        let mut derived = 0;
        cache.find_or_insert(prefixes[WAYS], || unreachable!("the newest stays"));
        cache.find_or_insert(prefixes[0], || {
            derived += 1;
            key()
        });
        assert_eq!(derived, 1);
    }
}
