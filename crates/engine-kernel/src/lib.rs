//! Ciphers that the kernel's drivers compute, as an engine: AES in CBC, CTR and
//! XTS through `AF_ALG`, for kernels and boards that still give their devices
//! to it (CESA, CAAM, CCP, virtio-crypto).
//!
//! A driver is named as `/proc/crypto` does, and what it computes is found out
//! by asking it for known answers; neither the kernel's version nor what the
//! driver says of itself counts. `socket` speaks to the kernel, `known` has the
//! answers, `engine` hands batches to threads that wait for it, since it takes
//! one request at a time from each socket and answers when that is done.
//!
//! What this crate does not do: AEADs and ESSIV, and keep keys, which the
//! kernel has from [`Engine::session`](strongroom_engine::Engine::session) on.
#![forbid(unsafe_code)]

mod engine;
mod known;
mod socket;

pub use engine::KernelEngine;

use std::fmt;
use std::io;

/// Why a driver cannot be used.
#[derive(Debug)]
pub enum Error {
    /// The kernel has no `AF_ALG`, or keeps it from this process.
    NoInterface(io::Error),
    /// It has no cipher of a driver with this name, or gives none to programs.
    NoDriver(io::Error),
    /// The driver computes none of the known answers.
    ComputesNothing,
    /// No thread can be started.
    NoThread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoInterface(error) => write!(f, "the kernel gives programs no ciphers (AF_ALG): {error}"),
            Error::NoDriver(error) => {
                write!(f, "the kernel gives programs no cipher of this driver: {error}")
            }
            Error::ComputesNothing => f.write_str("it computes no AES in CBC, CTR or XTS as is published"),
            Error::NoThread(error) => write!(f, "no thread can be started: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::NoInterface(error) | Error::NoDriver(error) | Error::NoThread(error) => Some(error),
            Error::ComputesNothing => None,
        }
    }
}

/// Whether the kernel has the interface, whatever drivers it has.
///
/// # Errors
/// [`Error::NoInterface`].
pub fn probe() -> Result<(), Error> {
    socket::open().map(drop)
}
