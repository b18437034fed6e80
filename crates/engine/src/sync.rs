//! The locks and threads of this crate: the standard library's, or, in tests
//! that are built as a model (`cargo xtask model`), those of a scheduler which
//! tries many orders of the threads that use them.

#[cfg(not(all(test, strongroom_model)))]
pub(crate) use std::sync::{Condvar, Mutex};

#[cfg(all(test, strongroom_model))]
pub(crate) use strongroom_model::sync::{Condvar, Mutex};

#[cfg(all(any(feature = "conformance", feature = "unruly"), not(all(test, strongroom_model))))]
pub(crate) use std::{sync::MutexGuard, thread};

#[cfg(all(any(feature = "conformance", feature = "unruly"), test, strongroom_model))]
pub(crate) use strongroom_model::{sync::MutexGuard, thread};
