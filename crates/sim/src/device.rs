//! A device at work: units, and a queue before them.

use std::collections::VecDeque;

use crate::host::Device;
use crate::random::Random;

/// What it is given: who waits for it, whether it is a write, and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) client: usize,
    pub(crate) is_write: bool,
    pub(crate) bytes: u64,
}

/// See the module.
pub(crate) struct DeviceAtWork<'h> {
    pub(crate) model: &'h Device,
    queue: VecDeque<Job>,
    /// Batches accepted and not answered.
    outstanding: u32,
    serving: u32,
}

impl<'h> DeviceAtWork<'h> {
    pub(crate) fn new(model: &'h Device) -> DeviceAtWork<'h> {
        DeviceAtWork { model, queue: VecDeque::new(), outstanding: 0, serving: 0 }
    }

    /// Room for one more, taken if there is.
    pub(crate) fn accepts(&mut self) -> bool {
        let accepts = self.outstanding < self.model.queue_max;
        self.outstanding += u32::from(accepts);
        accepts
    }

    /// A job arrives, for which there was room; when it begins at once, how
    /// long it takes.
    pub(crate) fn arrives(&mut self, job: Job, now: u64, jitter: f64, random: &mut Random) -> Option<u64> {
        if self.serving == self.model.units {
            self.queue.push_back(job);
            return None;
        }
        self.serving += 1;
        Some(self.service_ns(job, now, jitter, random))
    }

    /// A job is done. The next one begins, with how long it takes.
    pub(crate) fn done(&mut self, now: u64, jitter: f64, random: &mut Random) -> Option<(Job, u64)> {
        self.outstanding -= 1;
        let Some(job) = self.queue.pop_front() else {
            self.serving -= 1;
            return None;
        };
        Some((job, self.service_ns(job, now, jitter, random)))
    }

    fn service_ns(&self, job: Job, now: u64, jitter: f64, random: &mut Random) -> u64 {
        let cost = if job.is_write { &self.model.write } else { &self.model.read };
        varied(cost.ns(job.bytes) * self.model.drift.factor(now), jitter, random)
    }
}

/// A time that varies evenly by a share up and down, at least a nanosecond.
pub(crate) fn varied(ns: f64, jitter: f64, random: &mut Random) -> u64 {
    let factor = if jitter > 0.0 { 1.0 + jitter * (2.0 * random.unit() - 1.0) } else { 1.0 };
    ((ns * factor) as u64).max(1)
}
