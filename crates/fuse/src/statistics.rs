//! Counters. Each worker has its own, so that counting costs no cache line
//! that another CPU wants; a snapshot adds them up.

use crate::abi::Opcode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One more than the highest opcode; 0 counts requests of unknown kind.
const KINDS: usize = Opcode::CopyFileRange64 as usize + 1;

#[derive(Debug, Default)]
struct Kind {
    count: AtomicU64,
    errors: AtomicU64,
    nanoseconds: AtomicU64,
}

/// What one worker counts.
#[derive(Debug)]
pub(crate) struct Counters {
    kinds: [Kind; KINDS],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    bytes_prefetched: AtomicU64,
    panics: AtomicU64,
    malformed: AtomicU64,
    unsent: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            kinds: std::array::from_fn(|_| Kind::default()),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            bytes_prefetched: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
        }
    }

    pub(crate) fn request(&self, opcode: u32, failed: bool, latency: Duration) {
        let index = Opcode::from_raw(opcode).map_or(0, |opcode| opcode as usize);
        let kind = &self.kinds[index];
        kind.count.fetch_add(1, Ordering::Relaxed);
        kind.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        // 2^64 ns are five centuries.
        kind.nanoseconds.fetch_add(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn prefetched(&self, bytes: usize) {
        self.bytes_prefetched.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unsent(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was counted for one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationStatistics {
    /// Its usual name; `unknown` for kinds this server does not know.
    pub name: &'static str,
    /// Requests.
    pub count: u64,
    /// Of them, those answered with an error.
    pub errors: u64,
    /// Time from receiving them to handing over the reply, summed up.
    pub latency_sum: Duration,
}

/// What a session has counted so far. Counters are read one by one: totals of
/// a moment in which requests are under way may be off by these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// By kind, those that occurred.
    pub operations: Vec<OperationStatistics>,
    /// Bytes of file data that left in reads.
    pub bytes_read: u64,
    /// Bytes of file data that came in writes.
    pub bytes_written: u64,
    /// Bytes of file data that the kernel was given unasked, around what it
    /// had asked for.
    pub bytes_prefetched: u64,
    /// Requests whose handler panicked.
    pub panics: u64,
    /// Requests that could not be decoded.
    pub malformed: u64,
    /// Replies that the kernel did not take, most of them since the caller had
    /// given up.
    pub unsent: u64,
}

impl Statistics {
    /// What was counted for one kind of request; zeros when none occurred.
    #[must_use]
    pub fn operation(&self, opcode: Opcode) -> OperationStatistics {
        let none =
            OperationStatistics { name: opcode.name(), count: 0, errors: 0, latency_sum: Duration::ZERO };
        self.operations.iter().find(|operation| operation.name == opcode.name()).copied().unwrap_or(none)
    }

    /// Adds up what all workers counted.
    pub(crate) fn sum<'a>(workers: impl Iterator<Item = &'a Counters> + Clone) -> Statistics {
        let total = |of: fn(&Counters) -> &AtomicU64| -> u64 {
            workers.clone().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        let kind_total = |index: usize, of: fn(&Kind) -> &AtomicU64| -> u64 {
            workers.clone().map(|counters| of(&counters.kinds[index]).load(Ordering::Relaxed)).sum()
        };
        let operations = (0..KINDS)
            .map(|index| OperationStatistics {
                // Below the highest opcode, hence a u32.
                name: Opcode::from_raw(index as u32).map_or("unknown", Opcode::name),
                count: kind_total(index, |kind| &kind.count),
                errors: kind_total(index, |kind| &kind.errors),
                latency_sum: Duration::from_nanos(kind_total(index, |kind| &kind.nanoseconds)),
            })
            .filter(|operation| operation.count > 0)
            .collect();
        Statistics {
            operations,
            bytes_read: total(|counters| &counters.bytes_read),
            bytes_written: total(|counters| &counters.bytes_written),
            bytes_prefetched: total(|counters| &counters.bytes_prefetched),
            panics: total(|counters| &counters.panics),
            malformed: total(|counters| &counters.malformed),
            unsent: total(|counters| &counters.unsent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_adds_up_the_workers() {
        let workers = [Counters::new(), Counters::new()];
        workers[0].request(Opcode::Read.raw(), false, Duration::from_micros(3));
        workers[1].request(Opcode::Read.raw(), true, Duration::from_micros(4));
        workers[1].request(9999, true, Duration::ZERO);
        workers[0].read(10);
        workers[1].read(20);
        let sum = Statistics::sum(workers.iter());
        let read = sum.operation(Opcode::Read);
        assert_eq!((read.count, read.errors, read.latency_sum), (2, 1, Duration::from_micros(7)));
        assert_eq!(sum.operations.len(), 2);
        assert_eq!((sum.operations[0].name, sum.bytes_read), ("unknown", 30));
        assert_eq!(sum.operation(Opcode::Write).count, 0);
    }
}
