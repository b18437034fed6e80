//! A library that plays QATlib, and a device behind it, for tests: the functions
//! of its C interface that `engine-qat` calls, with real cryptography and faults
//! that are dialled. No hardware and no code of Intel's is in it, and nobody has
//! compared it with a device.
//!
//! It is opened as QATlib is, under both of its names. What it is to do stands in
//! the file [`DIALS`] in its directory ([`Dials`]); a copy in a directory of its
//! own is a device of its own.
//!
//! It is strict, so that a test fails where a device might: it ends the process
//! when an instance is used by two threads, computes only in memory that it gave
//! out itself and by the addresses that it gave for it, which are not those of
//! the process, and refuses what the headers forbid.
//!
//! `sys` is the interface and that memory, `device` rings and what answers them,
//! `compute` the cryptography.
#![deny(unsafe_code)]

mod compute;
mod device;
mod dials;
mod low;
mod sys;

pub use dials::{DIALS, Dials};
