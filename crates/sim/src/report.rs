//! What a run shows.

use strongroom_sched::policy::Reason;

/// What one engine served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineReport {
    /// Its name in the host.
    pub engine: String,
    /// Bytes placed there.
    pub bytes: u64,
    /// Batches and parts of split batches placed there.
    pub operations: u64,
    /// How often it was busy.
    pub busy: u64,
    /// Why batches were placed there, by [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
}

/// A part of the run, for pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Bytes that each engine finished.
    pub bytes: Vec<u64>,
    /// CPU time used.
    pub busy_ns: u64,
}

/// See the module. Times are virtual.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Length of the run.
    pub duration_ns: u64,
    /// Bytes a second over the whole run.
    pub bytes_per_second: f64,
    /// The same over its last quarter.
    pub steady_bytes_per_second: f64,
    /// Requests answered.
    pub requests: u64,
    /// Mean time from a request to its answer.
    pub latency_ns_mean: u64,
    /// Half of the requests took no longer; to 3 %.
    pub latency_ns_p50: u64,
    /// 99 in 100 took no longer.
    pub latency_ns_p99: u64,
    /// 999 in 1000 took no longer.
    pub latency_ns_p999: u64,
    /// Share of the CPU time that nobody used.
    pub cpu_idle: f64,
    /// In the host's order.
    pub engines: Vec<EngineReport>,
    /// The run in equal parts.
    pub intervals: Vec<Interval>,
}

/// Bytes between the first and the last answer of a stretch of time, so that
/// a request at its edge does not count in part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    first_ns: Option<u64>,
    last_ns: u64,
    bytes: u64,
}

impl Rate {
    pub(crate) fn add(&mut self, now_ns: u64, bytes: u64) {
        match self.first_ns {
            None => self.first_ns = Some(now_ns),
            Some(_) => self.bytes += bytes,
        }
        self.last_ns = now_ns;
    }

    pub(crate) fn bytes_per_second(&self) -> f64 {
        let span = self.last_ns - self.first_ns.unwrap_or(self.last_ns);
        if span == 0 { 0.0 } else { self.bytes as f64 * 1e9 / span as f64 }
    }
}
