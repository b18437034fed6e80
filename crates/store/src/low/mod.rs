//! All unsafe code of the crate: files mapped into memory, and what happens
//! when a mapped page cannot be had.
//!
//! Invariant: the address range of a [`Mapping`] stays mapped as long as the
//! value lives, whatever becomes of the file: where a page cannot be had, a
//! page of zeros takes its place and the mapping says so.
#![allow(unsafe_code)]

mod fault;
mod mapping;
mod writing;

pub(crate) use mapping::{Mapping, WINDOW_LEN};
pub(crate) use writing::write_shared;
