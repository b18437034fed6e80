//! What each engine served, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// The sum of these times in nanoseconds.
    pub latency_ns_sum: u64,
    /// Batches whose time was measured.
    pub latencies: u64,
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

/// The counters behind [`EngineStatistics`], on cache lines of their own so
/// that two engines' counters do not slow each other down. Relaxed: they order
/// nothing.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    /// Batches for each reason.
    placed: [AtomicU64; Reason::ALL.len()],
    bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(&self, count: Count, amount: u64) {
        self.counts[count as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self, bytes: u64, reason: Reason) {
        self.placed[reason as usize].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, latency_ns: u64) {
        self.add(Count::LatencyNs, latency_ns);
        self.add(Count::Latencies, 1);
    }

    pub(crate) fn snapshot(&self, engine: &str, in_flight: u64, quarantined: bool) -> EngineStatistics {
        let load = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        let placements: Vec<PlacementCount> = Reason::ALL
            .iter()
            .zip(&self.placed)
            .map(|(reason, count)| PlacementCount { reason: *reason, count: count.load(Ordering::Relaxed) })
            .filter(|placement| placement.count > 0)
            .collect();
        EngineStatistics {
            engine: engine.to_owned(),
            bytes: self.bytes.load(Ordering::Relaxed),
            // Each has a reason.
            operations: placements.iter().map(|placement| placement.count).sum(),
            busy: load(Count::Busy),
            unsupported: load(Count::Unsupported),
            lost: load(Count::Lost),
            redone: load(Count::Redone),
            in_flight,
            latency_ns_mean: load(Count::LatencyNs) / load(Count::Latencies).max(1),
            latency_ns_sum: load(Count::LatencyNs),
            latencies: load(Count::Latencies),
            checked: load(Count::Checked),
            checked_bytes: load(Count::CheckedBytes),
            mismatches: load(Count::Mismatches),
            quarantined,
            placements,
        }
    }
}
