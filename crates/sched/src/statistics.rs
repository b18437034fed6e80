//! What each engine served, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one engine served since it was taken into the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Batches it completed that another engine had lost. These are among
    /// its operations.
    pub redone: u64,
}

/// A snapshot of all engines. The figures of one batch may be counted in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The engine asked first.
    pub primary: EngineStatistics,
    /// The engine asked when the first cannot.
    pub fallback: EngineStatistics,
}

/// The counters behind [`EngineStatistics`], on a cache line of their own so
/// that two engines' counters do not slow each other down. Relaxed: they order
/// nothing.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    bytes: AtomicU64,
    operations: AtomicU64,
    busy: AtomicU64,
    unsupported: AtomicU64,
    lost: AtomicU64,
    redone: AtomicU64,
}

impl Counters {
    pub(crate) fn accepted(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unsupported(&self) {
        self.unsupported.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn redone(&self) {
        self.redone.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, engine: &str) -> EngineStatistics {
        EngineStatistics {
            engine: engine.to_owned(),
            bytes: self.bytes.load(Ordering::Relaxed),
            operations: self.operations.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
            unsupported: self.unsupported.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            redone: self.redone.load(Ordering::Relaxed),
        }
    }
}
