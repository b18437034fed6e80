//! Intel QAT as an engine: AES in CTR, CBC, XTS and GCM by an instance of
//! QATlib, which is opened at run time.
//!
//! **It has never run on hardware.** It was written against QATlib's headers and
//! is tested with a library of ours that plays QATlib (`mock-qat`); what a
//! device does otherwise is unknown.
//!
//! An instance is asked for published answers before its first byte, whatever
//! its version. What it does not have is not offered; one that answers wrong
//! is refused, and so is all else of it.
//!
//! `sys` has all that is unsafe: the libraries, memory that the device reaches,
//! and an instance's calls. `known` has the answers, `lane` makes requests of
//! batches and batches of answers, `engine` takes batches. One thread makes all
//! calls of an instance, since QATlib's data plane is for one; callers wake it.
//!
//! Invariants: a device sees memory of QATlib's alone, into which requests are
//! copied and out of which results are; memory of a request that was never
//! answered is not used again; a batch is handed back exactly once, also when
//! the device restarts or is silent; no caller waits for a device within
//! `submit`, `flush` or `session`.
//!
//! What this crate does not do: check results, or redo what was lost (the
//! scheduler does), wait for interrupts (QATlib's instances are polled), or reset
//! a device (QATlib does).
#![deny(unsafe_code)]

pub mod cpa;
mod engine;
mod known;
mod lane;
mod session;
mod sys;
mod wire;

pub use engine::{Options, QatEngine};
pub use sys::Library;

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an instance cannot be used.
#[derive(Debug)]
pub enum Error {
    /// A library cannot be opened, and what the system says of it.
    NoLibrary(PathBuf, String),
    /// It has no function of this name.
    NoFunction(PathBuf, &'static str),
    /// The library finds no device.
    NoDevice,
    /// There is no instance of this number.
    NoInstance {
        /// The one that was asked for, counted from 0.
        number: u16,
        /// How many there are.
        count: u16,
    },
    /// An engine of this process has it.
    InUse,
    /// A function of the library failed, with this status.
    Call(&'static str, cpa::Status),
    /// It answered wrong, or not at all, when it was asked for what is published
    /// of this algorithm.
    Wrong(String),
    /// It has none of the algorithms.
    ComputesNothing,
    /// No thread can be started.
    NoThread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoLibrary(library, error) => write!(
                f,
                "there is no {}: QATlib has it (Debian's libqat4 and libusdm0): {error}",
                library.display()
            ),
            Error::NoFunction(library, name) => {
                write!(f, "{} has no {name}: it is another QATlib than this was made for", library.display())
            }
            Error::NoDevice => f.write_str("QATlib finds no device that it may use"),
            Error::NoInstance { number, count } => {
                write!(f, "QATlib has {count} instances for cryptography, and none has number {number}")
            }
            Error::InUse => f.write_str("another engine of this process has it"),
            Error::Call(function, status) => write!(f, "{function} failed: {}", meaning(*status)),
            Error::Wrong(algorithm) => write!(f, "it computes {algorithm} otherwise than is published"),
            Error::ComputesNothing => f.write_str("it has no AES in CTR, CBC, XTS or GCM"),
            Error::NoThread(error) => write!(f, "no thread can be started: {error}"),
        }
    }
}

fn meaning(status: cpa::Status) -> String {
    use cpa::status;
    let name = match status {
        status::FAIL => "FAIL",
        status::RETRY => "RETRY",
        status::RESOURCE => "RESOURCE",
        status::INVALID_PARAM => "INVALID_PARAM",
        status::FATAL => "FATAL",
        status::UNSUPPORTED => "UNSUPPORTED",
        status::RESTARTING => "RESTARTING",
        other => return format!("status {other}"),
    };
    format!("CPA_STATUS_{name}")
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::NoThread(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether this machine has QATlib and a device that it may use.
///
/// # Errors
/// What is missing.
pub fn probe() -> Result<(), Error> {
    Library::system()?.probe()
}
