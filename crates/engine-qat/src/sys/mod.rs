//! Everything unsafe: QATlib's functions, memory that the device reaches, and
//! the calls of an instance.
//!
//! Invariants:
//! - functions are called with the types of the headers (`cpa`, and the test
//!   `interface`), and the libraries are never unloaded;
//! - whatever an instance uses is made, used and dropped by one thread, since
//!   its part of the interface, the data plane, is for one: an [`Instance`], its
//!   [`Context`]s and [`Flight`]s cannot leave theirs;
//! - memory that a request names belongs to its [`Flight`] until the library has
//!   answered it. One that is dropped before is leaked, its session with it: the
//!   device may still write there.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::cpa::{Address, Boolean, OpData, Status};

mod instance;
mod library;
mod memory;

pub(crate) use instance::{Answer, Context, Flight, Instance, Message, Setup};
pub use library::Library;

/// `CpaVirtualToPhysical`.
pub type Translate = unsafe extern "C" fn(*mut c_void) -> Address;
/// `CpaCySymDpCbFunc`.
pub type Callback = unsafe extern "C" fn(*mut OpData, Status, Boolean);
