//! How many distinct callers have batches in flight: the tasks of `aca`.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Places for callers, more than run at once as a rule: two of 64 share one of
/// these in half of all cases, and then count as one.
const PLACES: usize = 4096;

/// Batches in flight by caller.
pub(crate) struct Callers {
    batches: Box<[AtomicU32]>,
    distinct: AtomicU32,
}

/// Where a caller is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerPlace(usize);

impl Callers {
    pub(crate) fn new() -> Callers {
        Callers { batches: (0..PLACES).map(|_| AtomicU32::new(0)).collect(), distinct: AtomicU32::new(0) }
    }

    /// A batch of this caller is in flight.
    pub(crate) fn enters(&self, caller: u32) -> CallerPlace {
        // Fibonacci hashing: Knuth, "The Art of Computer Programming", 6.4.
        let place = (caller.wrapping_mul(0x9e37_79b9) >> 20) as usize % PLACES;
        if self.batches[place].fetch_add(1, Relaxed) == 0 {
            self.distinct.fetch_add(1, Relaxed);
        }
        CallerPlace(place)
    }

    /// It is no longer.
    pub(crate) fn leaves(&self, CallerPlace(place): CallerPlace) {
        if self.batches[place].fetch_sub(1, Relaxed) == 1 {
            self.distinct.fetch_sub(1, Relaxed);
        }
    }

    /// Callers with batches in flight.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_counts_once_however_many_batches_it_has() {
        let callers = Callers::new();
        let places: Vec<_> = [7, 7, 7, 8].map(|caller| callers.enters(caller)).to_vec();
        assert_eq!(callers.distinct(), 2);
        callers.leaves(places[3]);
        callers.leaves(places[0]);
        assert_eq!(callers.distinct(), 1);
        callers.leaves(places[1]);
        callers.leaves(places[2]);
        assert_eq!(callers.distinct(), 0);
        (1000..1032).for_each(|caller| _ = callers.enters(caller));
        assert_eq!(callers.distinct(), 32, "threads that follow each other are told apart");
    }
}
