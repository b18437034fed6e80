//! An engine that computes on GPUs, for ciphers that a CPU has no instructions for: keystream of the suites built on a
//! counter mode, and disk sectors in XTS whole.
//!
//! One source of kernels (`kernels/`) with two short preludes is compiled for OpenCL C 1.2 by the device's driver, and
//! for CUDA to PTX that stands in `ptx/`. Both drivers are opened at run time: everything builds, installs and runs
//! without them, and [`survey`] says what is missing.
//!
//! A batch is one launch: it goes through a block of pinned memory to the device, where kernels expand the keys and
//! compute, and comes back; then keys, tweaks and results in device memory are overwritten with zeros, and only after
//! that is the launch complete. At least two launches are in flight ([`Options::lanes`]).
//!
//! Invariants: kernels address memory by position alone, never by keys or data; no algorithm is used before it passed its
//! known-answer test on the device; what a device might still write to is never used for anything else; unsafe code
//! is in `sys` alone.
#![deny(unsafe_code)]

mod cipher;
mod engine;
mod failure;
pub mod figures;
mod find;
mod keystream;
mod launcher;
pub mod limits;
mod plan;
mod platform;
pub mod ptx;
mod sectors;
mod self_test;
pub mod source;
mod suite;
#[allow(unsafe_code)]
mod sys;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use cipher::Cipher;
pub use engine::GpuEngine;
pub use failure::Failure;
pub use find::{Found, Survey, survey};
pub use keystream::{Context, Mask, Order, OrderError};
pub use platform::{Api, Info};

/// How a launch's end is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The driver wakes the lane's thread.
    Event,
    /// The lane's thread asks again and again: less delay, more CPU time.
    Poll,
}

/// How a device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Launches in flight, 1 to [`limits::LANES_MAX`].
    pub lanes: usize,
    /// How their ends are noticed.
    pub completion: Completion,
    /// How long a launch may take before the device counts as lost.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { lanes: limits::LANES_DEFAULT, completion: Completion::Event, deadline: limits::DEADLINE }
    }
}
