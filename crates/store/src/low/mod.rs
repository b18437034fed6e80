//! All unsafe code of the crate: files mapped into memory, what happens when a
//! mapped page cannot be had, and system calls that no library has safely.
//!
//! Invariant: the address range of a [`Mapping`] stays mapped as long as the
//! value lives, whatever becomes of the file: where a page cannot be had, a
//! page of zeros takes its place and the mapping says so.
#![allow(unsafe_code)]

mod claiming;
mod fault;
mod flushing;
mod mapping;
mod replacing;
mod writing;

pub(crate) use claiming::{lock_byte, loop_status};
pub(crate) use flushing::flush;
pub(crate) use mapping::{Mapping, WINDOW_LEN};
pub(crate) use replacing::replace;
pub(crate) use writing::write_shared;
