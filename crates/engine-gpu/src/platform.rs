//! What a device looks like to the rest of the crate, whoever's driver it has.
//!
//! A [`Lane`] is an in-order queue with device memory of its own: one launch is in flight on it at a time. The block of
//! pinned memory that a launch reads from and writes to belongs to the lane until the launch has ended, and is never
//! freed if it does not end: a device that comes late then writes to nobody's memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::sys::Block;

/// Through what a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// The CUDA driver.
    Cuda,
    /// An OpenCL driver, 1.2 or later.
    OpenCl,
}

impl std::fmt::Display for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Api::Cuda => "CUDA",
            Api::OpenCl => "OpenCL",
        })
    }
}

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Through what it is reached.
    pub api: Api,
    /// As its driver calls it.
    pub name: String,
    /// The driver: its platform and version.
    pub driver: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// False for an OpenCL driver that computes on the CPU.
    pub is_gpu: bool,
}

/// A device and its driver.
pub(crate) trait Device: Send + Sync {
    fn info(&self) -> &Info;

    /// Has the driver compile a cipher's kernels, unless it has.
    fn prepare(&self, cipher: Cipher) -> Result<(), Failure>;

    /// A new queue with device memory for the largest launch.
    fn lane(&self) -> Result<Box<dyn Lane>, Failure>;

    /// Pinned memory for one launch, of [`crate::plan::BLOCK_LEN`] bytes, all zero.
    fn block(&self) -> Result<Block, Failure>;
}

/// See the module. Dropped while a launch is in flight it leaks what that uses.
pub(crate) trait Lane: Send {
    /// Queues all of a launch: what goes to the device, the kernels, what comes back, and the wiping of the device's
    /// memory. Nothing else may be in flight. After an error some of it may be queued, and the lane is good for
    /// nothing but to be dropped.
    fn launch(&mut self, plan: &Plan, block: Block) -> Result<(), Failure>;

    /// The block once all of the launch has ended, and the device's memory is wiped.
    fn poll(&mut self) -> Result<Option<Block>, Failure>;

    /// Raised when a launch ends, well or not.
    fn signal(&self) -> &Arc<Signal>;

    /// All device memory of the lane, as it is now: for tests of the wiping.
    #[cfg(test)]
    fn remains(&mut self) -> Result<Vec<u8>, Failure>;
}

/// Wakes the one who waits for a launch.
#[derive(Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// From any thread, a driver's too.
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Until it is raised, at most so long, and lowers it.
    pub(crate) fn wait(&self, limit: Duration) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(raised, limit, |raised| !*raised);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}
