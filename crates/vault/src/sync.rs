//! The locks, atomics and threads of this crate: the standard library's, or, in tests
//! that are built as a model (`cargo xtask model`), those of a scheduler which
//! tries many orders of the threads that use them.
//!
//! What comes from here may be held while something else is locked. Locks of
//! other crates are leaves: nothing of this crate runs under them.

#[cfg(not(all(test, strongroom_model)))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread,
};

#[cfg(all(test, strongroom_model))]
pub(crate) use strongroom_model::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread,
};
