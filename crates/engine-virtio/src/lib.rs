//! A driver for crypto devices of virtio 1.2 (section 5.9) in user space, as an
//! engine.
//!
//! [`Bus`] is the way to a device: [`VfioUser`] reaches one in another process,
//! [`Vfio`] one of this machine.
//! `transport` and `function` set a device up, `control` opens sessions, and
//! `lanes` makes requests of batches and batches of answers. Callers make
//! requests and ring; one thread (`driver`) sleeps on the interrupt, takes
//! answers and hands batches back. What this crate does not do: compute, check
//! results, or redo what was lost; the scheduler does.
//!
//! Invariants: a device sees memory of its own alone, into which requests are
//! copied and out of which results are, so that one that lies or is late writes
//! nowhere else; what it writes is checked before it is used; it is offered
//! only what it advertises and has computed right; a batch is handed back
//! exactly once, also when the device is reset or gone; no caller waits for a
//! device within `submit`, `flush` or `session`.
#![deny(unsafe_code)]

mod arena;
mod bus;
mod control;
mod driver;
mod engine;
mod function;
mod lanes;
mod memory;
mod request;
mod ring;
mod session;
mod shared;
pub mod spec;
mod sys;
mod transport;
mod vfio;
mod vfio_user;
mod wire;

pub use bus::Bus;
pub use engine::VirtioEngine;
pub use memory::{Memory, OutOfBounds};
pub use shared::{Counters, Options};
pub use vfio::Vfio;
pub use vfio_user::VfioUser;

use std::fmt;
use std::io;

/// Why a device cannot be used, or no longer.
#[derive(Debug)]
pub enum Error {
    /// The way to it failed: it is gone.
    Bus(io::Error),
    /// It is no crypto device of virtio 1.2, or wrote what that does not allow.
    Device(&'static str),
    /// It did not answer in time.
    Late,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(error) => write!(f, "the device cannot be reached: {error}"),
            Error::Device(what) => write!(f, "the device does not keep to virtio 1.2: {what}"),
            Error::Late => f.write_str("the device does not answer"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Bus(error) => Some(error),
            Error::Device(_) | Error::Late => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Bus(error)
    }
}

impl From<OutOfBounds> for Error {
    fn from(_: OutOfBounds) -> Error {
        Error::Device("an address outside of its memory")
    }
}
