//! Memory for secrets: locked, so that it does not reach swap; left out of core
//! dumps and of forked processes; and wiped when it is given back.
//!
//! A leaf, so that whatever holds keys can use it: `keys` for secrets, engines
//! for key schedules, `disk` for key material. Three ways lead here:
//!
//! - [`Bytes`] and [`Locked`] hold one secret each;
//! - [`in_locked_heap`] sends every allocation of a computation here, in code
//!   that knows nothing of it too, where the program has [`Allocator`] as its
//!   global allocator;
//! - [`in_wiped_stack`] does that and besides wipes the stack that was used.
//!
//! Key schedules are used on many threads, and what a cipher spills stays on
//! the stack: [`lock_stack`] locks the part of a thread's stack that is in use.
//!
//! **Invariant:** what cannot be locked is used all the same, and [`standing`]
//! says so. A limit (`RLIMIT_MEMLOCK`) is no reason not to open a vault.

mod low;

use std::ops::{Deref, DerefMut};

pub use low::{Allocator, Bytes, Region, foreign, lock_stack, wipe_stack};

/// What could be locked so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Bytes of memory for secrets, stacks not counted.
    pub bytes: usize,
    /// All of it is locked.
    pub secrets_locked: bool,
    /// So is the stack of every thread that has worked with keys.
    pub stacks_locked: bool,
}

/// What could be locked so far.
#[must_use]
pub fn standing() -> Standing {
    low::standing()
}

/// Overwrites bytes with zeros as fast as memory is filled, whatever becomes of
/// them then. `zeroize` writes byte by byte, which for megabytes of keystream
/// takes longer than making them does.
#[inline]
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // The compiler has to take it for one that reads the bytes, so that it
    // cannot leave out what was written.
    std::hint::black_box(&*bytes);
}

/// A value in locked memory. It is made where the caller makes it and moved
/// here, so it is best made within [`in_wiped_stack`]; it is dropped, and its
/// bytes are wiped.
pub struct Locked<T>(low::Place<T>);

impl<T> Locked<T> {
    /// Moves `value` to locked memory.
    pub fn new(value: T) -> Locked<T> {
        Locked(low::Place::new(value))
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.value()
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.value_mut()
    }
}

/// Runs `compute`; whatever it allocates on this thread is in locked memory,
/// also after it has returned, and is wiped when it is freed.
///
/// Does nothing more than `compute` where [`Allocator`] is not the program's
/// global allocator.
pub fn in_locked_heap<R>(compute: impl FnOnce() -> R) -> R {
    let _scope = low::Scope::enter();
    compute()
}

/// As [`in_locked_heap`], on a stack that is locked, and wiped afterwards:
/// for what handles secrets by value.
pub fn in_wiped_stack<R>(compute: impl FnOnce() -> R) -> R {
    /// Wipes when `compute` panics too.
    struct Wipe;
    impl Drop for Wipe {
        fn drop(&mut self) {
            wipe_stack();
        }
    }
    lock_stack();
    let _wipe = Wipe;
    // Frames of `compute` have to lie below this one.
    below(|| in_locked_heap(compute))
}

/// Runs `compute` on a stack that is locked, of which its frames are wiped when
/// it returns, as deep as ciphers go (8 KiB): for one operation of a hash or cipher, where
/// [`in_wiped_stack`] would cost more than the operation. What stays on a stack
/// does not stay there: values with room that is not initialised are copied to
/// the heap with whatever was in it.
#[inline]
pub fn in_wiped_frames<R>(compute: impl FnOnce() -> R) -> R {
    lock_stack();
    let result = below(compute);
    low::wipe_frames();
    result
}

#[inline(never)]
fn below<R>(compute: impl FnOnce() -> R) -> R {
    compute()
}
