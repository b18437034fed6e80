//! What each engine served, counted without a lock but once in half a million batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::Reason;

/// What one engine served since it was taken into the scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStatistics {
    /// The engine's name.
    pub engine: String,
    /// Bytes of the batches it accepted.
    pub bytes: u64,
    /// Batches it accepted.
    pub operations: u64,
    /// Times it was busy.
    pub busy: u64,
    /// Times it did not support what its session was opened for.
    pub unsupported: u64,
    /// Batches it accepted and did not complete: the device was lost, the
    /// batch vanished, or the deadline passed.
    pub lost: u64,
    /// Batches it completed that another engine had lost, or had got wrong.
    /// These are among its operations.
    pub redone: u64,
    /// Batches it was given and has not answered.
    pub in_flight: u64,
    /// Mean time from submission to answer in nanoseconds, of those measured.
    pub latency_ns_mean: u64,
    /// Results that were recomputed on the CPU and compared.
    pub checked: u64,
    /// Bytes of these.
    pub checked_bytes: u64,
    /// Of these, how many were wrong.
    pub mismatches: u64,
    /// Whether it gets no work at present.
    pub quarantined: bool,
    /// Why batches were placed here, reasons that occurred.
    pub placements: Vec<PlacementCount>,
}

/// How often something was a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementCount {
    /// The reason.
    pub reason: Reason,
    /// How often.
    pub count: u64,
}

/// A snapshot of all engines. The figures of one batch may be counted in part.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The engines that batches are placed on, in their order.
    pub engines: Vec<EngineStatistics>,
    /// The engine asked when none of them can.
    pub fallback: EngineStatistics,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Busy,
    Unsupported,
    Lost,
    Redone,
    Checked,
    CheckedBytes,
    Mismatches,
    LatencyNs,
    Latencies,
}

const COUNTS: usize = Count::Latencies as usize + 1;

/// How many batches were placed for one reason, and their bytes. Each batch is counted with both in one word: a
/// second locked addition would be a good part of what the scheduler costs a small batch.
#[derive(Default)]
struct Placed {
    /// Bytes above `COUNT_BITS`, batches below.
    recent: AtomicU64,
    /// Batches and bytes that `recent` held whenever it was emptied. Locked for that and for reading, so that
    /// nobody sees them twice or not at all.
    before: Mutex<(u64, u64)>,
}

/// Bits of `recent` for batches; it is emptied from half of what they and the bytes have room for, 2^19 batches
/// or 8 TiB. Threads that count meanwhile fill the other half by far less.
const COUNT_BITS: u32 = 20;
const HALF: u64 = 1 << 63 | 1 << (COUNT_BITS - 1);

impl Placed {
    fn add(&self, bytes: u64) {
        let one = bytes << COUNT_BITS | 1;
        if self.recent.fetch_add(one, Ordering::Relaxed).wrapping_add(one) & HALF != 0 {
            self.empty();
        }
    }

    #[cold]
    fn empty(&self) {
        let mut before = self.before();
        let (batches, bytes) = Placed::parts(self.recent.swap(0, Ordering::Relaxed));
        *before = (before.0 + batches, before.1 + bytes);
    }

    /// Batches and bytes.
    fn load(&self) -> (u64, u64) {
        let before = self.before();
        let (batches, bytes) = Placed::parts(self.recent.load(Ordering::Relaxed));
        (before.0 + batches, before.1 + bytes)
    }

    fn before(&self) -> MutexGuard<'_, (u64, u64)> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(recent: u64) -> (u64, u64) {
        (recent & ((1 << COUNT_BITS) - 1), recent >> COUNT_BITS)
    }
}

/// The counters behind [`EngineStatistics`], on cache lines of their own so
/// that two engines' counters do not slow each other down. Relaxed: they order
/// nothing.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    placed: [Placed; Reason::ALL.len()],
}

impl Counters {
    pub(crate) fn add(&self, count: Count, amount: u64) {
        self.counts[count as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self, bytes: u64, reason: Reason) {
        self.placed[reason as usize].add(bytes);
    }

    pub(crate) fn answered(&self, latency_ns: u64) {
        self.add(Count::LatencyNs, latency_ns);
        self.add(Count::Latencies, 1);
    }

    pub(crate) fn snapshot(&self, engine: &str, in_flight: u64, quarantined: bool) -> EngineStatistics {
        let load = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        let placed = self.placed.each_ref().map(Placed::load);
        let placements: Vec<PlacementCount> = Reason::ALL
            .into_iter()
            .zip(placed)
            .map(|(reason, (count, _))| PlacementCount { reason, count })
            .filter(|placement| placement.count > 0)
            .collect();
        EngineStatistics {
            engine: engine.to_owned(),
            bytes: placed.iter().map(|(_, bytes)| bytes).sum(),
            // Each has a reason.
            operations: placements.iter().map(|placement| placement.count).sum(),
            busy: load(Count::Busy),
            unsupported: load(Count::Unsupported),
            lost: load(Count::Lost),
            redone: load(Count::Redone),
            in_flight,
            latency_ns_mean: load(Count::LatencyNs) / load(Count::Latencies).max(1),
            checked: load(Count::Checked),
            checked_bytes: load(Count::CheckedBytes),
            mismatches: load(Count::Mismatches),
            quarantined,
            placements,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_in_one_word_is_not_lost_when_that_is_full() {
        let (small, large) = (Placed::default(), Placed::default());
        (0..3 << COUNT_BITS).for_each(|_| small.add(1));
        assert_eq!(small.load(), (3 << COUNT_BITS, 3 << COUNT_BITS));
        (0..100).for_each(|_| large.add(1 << 40));
        assert_eq!(large.load(), (100, 100 << 40));
    }

    #[test]
    fn threads_that_count_while_it_is_emptied_lose_nothing() {
        let placed = Placed::default();
        let count = || (0..1 << COUNT_BITS).for_each(|_| placed.add(7));
        std::thread::scope(|scope| {
            let counting: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            let mut seen = (0, 0);
            while !counting.iter().all(|thread| thread.is_finished()) {
                let now = placed.load();
                assert!(now >= seen && now.1 == 7 * now.0, "{now:?} after {seen:?}");
                seen = now;
            }
        });
        assert_eq!(placed.load(), (4 << COUNT_BITS, 28 << COUNT_BITS));
    }
}
