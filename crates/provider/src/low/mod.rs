//! All unsafe code of the crate: OpenSSL's tables and pointers.
//!
//! Invariants: what crosses to the rest of the crate are slices and numbers;
//! every function that OpenSSL can call catches panics; what OpenSSL hands in
//! is used as provider-base(7) and provider-cipher(7) describe it.
#![allow(unsafe_code)]

mod abi;
mod context;
mod errors;
mod parameters;
mod provider;
mod table;
mod text;

pub(crate) use text::Text;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what OpenSSL called; `failed` where it panics.
fn guarded<R>(failed: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}
