//! A crypto device of virtio 1.2 in a process of its own, reached by the
//! vfio-user protocol: with rings, DMA into memory that is shared by a memfd,
//! and interrupts by eventfd, but no virtual machine and no IOMMU.
//!
//! [`Model`] dials how long requests take, how many are served at once, and
//! what goes wrong. What is computed is right, unless it is to be wrong: by the
//! CPU's kernels. What it does not do: protect anything. It is for tests.
#![forbid(unsafe_code)]

mod compute;
mod faults;
mod function;
mod queue;
mod registers;
mod serve;
mod unit;

pub use faults::Faults;
pub use serve::serve;

use std::time::Duration;

/// The device that is modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Time of every request.
    pub fixed: Duration,
    /// Further time for its bytes: the rate of one unit. 0 takes none.
    pub bytes_per_second: u64,
    /// Requests served at the same time; a thread for each.
    pub units: usize,
    /// Data queues.
    pub queues: u16,
    /// Descriptors of a queue.
    pub queue_size: u16,
    /// Bytes of the longest request.
    pub request_len_max: u64,
    /// What goes wrong.
    pub faults: Faults,
}

impl Default for Model {
    /// As fast as this machine, with four units and two data queues.
    fn default() -> Model {
        Model {
            fixed: Duration::ZERO,
            bytes_per_second: 0,
            units: 4,
            queues: 2,
            queue_size: 256,
            request_len_max: 1 << 20,
            faults: Faults::default(),
        }
    }
}

impl Model {
    /// How long one unit is busy with so many bytes.
    #[must_use]
    pub fn service(&self, bytes: usize) -> Duration {
        let nanos = (bytes as u64 * 1_000_000_000).checked_div(self.bytes_per_second).unwrap_or(0);
        self.fixed + Duration::from_nanos(nanos)
    }
}
