//! The stacks of threads that work with keys.

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{Advice, MlockFlags, madvise, mlock, mlock_with};

use super::STACK_REFUSED;

/// How far below the caller of [`lock_stack`] a stack is locked. Ciphers and
/// hashes go some 10 KiB deep; all above is locked too.
const DEPTH: usize = 128 << 10;

/// How much [`wipe_stack`] wipes.
const WIPED: usize = 64 << 10;

/// How much [`wipe_frames`] wipes: what a cipher goes deep. Without
/// optimisation frames have room for every copy of a value.
const FRAMES: usize = if cfg!(debug_assertions) { 16 << 10 } else { 8 << 10 };

const _: () = assert!(FRAMES < WIPED && WIPED < DEPTH);

thread_local! {
    static IS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Locks the used part of this thread's stack, from its beginning to 128 KiB
/// below the caller, and leaves it out of core dumps. The first call of a
/// thread does it; the others cost nothing. To be called by whatever computes
/// with keys, since what it spills stays behind on the stack.
#[inline]
pub fn lock_stack() {
    if !IS_LOCKED.get() {
        lock();
    }
}

#[cold]
#[inline(never)]
fn lock() {
    IS_LOCKED.set(true);
    let done = bounds().is_some_and(|(low, high)| {
        let here = (&raw const low).addr();
        let page = rustix::param::page_size();
        let start = here.saturating_sub(DEPTH).max(low).next_multiple_of(page);
        let end = high / page * page;
        if start >= end {
            return false;
        }
        // The main thread's stack is not mapped below where it has been.
        touch();
        let at: *mut c_void = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: whole pages of this thread's own stack; advice and locks
        // change no byte of them.
        unsafe {
            let _ = madvise(at, end - start, Advice::LinuxDontDump);
            // Pages that are never touched take no memory.
            let locked = mlock_with(at, end - start, MlockFlags::ONFAULT);
            locked.is_ok() || mlock(at, end - start).is_ok()
        }
    });
    if !done {
        STACK_REFUSED.store(true, Relaxed);
    }
}

/// Has the kernel map a stack as deep as it is to be locked, which it does for
/// the main thread alone when a page is touched.
fn touch() {
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    if is_main {
        fill::<DEPTH>();
    }
}

/// The lowest and the first address behind this thread's stack.
fn bounds() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised by the first call, read by the
    // second and destroyed by the third, each only when the first succeeded.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let told = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut len);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (told == 0).then(|| (start.addr(), start.addr() + len))
    }
}

/// Overwrites the 64 KiB of stack below the caller.
#[inline(never)]
pub fn wipe_stack() {
    fill::<WIPED>();
}

/// Overwrites the stack below the caller, as deep as a cipher goes.
#[inline(never)]
pub(crate) fn wipe_frames() {
    fill::<FRAMES>();
}

#[inline(never)]
fn fill<const LEN: usize>() {
    let mut room = [0_u8; LEN];
    // The compiler has to suppose that somebody reads them.
    black_box(&mut room);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::tests::flags_of;

    /// Leaves a secret on the stack, and says where.
    #[inline(never)]
    fn spill(secret: u8) -> usize {
        let mut spilled = [0_u8; 512];
        spilled.fill(black_box(secret));
        black_box(&mut spilled).as_ptr().expose_provenance()
    }

    fn at(address: usize) -> u8 {
        let byte: *const u8 = std::ptr::with_exposed_provenance(address);
        // SAFETY: a page of this thread's stack that was in use a moment ago
        // and stays mapped; whatever it holds now is a byte.
        unsafe { byte.add(256).read_volatile() }
    }

    #[test]
    fn what_a_function_left_behind_is_wiped() {
        let address = spill(0x5a);
        let left = at(address);
        let address = spill(0x5a);
        wipe_stack();
        assert_eq!((left, at(address)), (0x5a, 0), "the first proves that the second can fail");
        let address = crate::in_wiped_frames(|| spill(0x5a));
        assert_eq!(at(address), 0);
    }

    #[test]
    fn stacks_of_threads_are_locked_and_left_out_of_dumps() {
        let flags = std::thread::spawn(|| {
            lock_stack();
            lock_stack();
            let local = [1_u8; 64];
            flags_of(&local)
        });
        let flags = flags.join().expect("no panic");
        assert!(flags.contains("dd"), "{flags}");
        assert!(flags.contains("lo") || !crate::standing().stacks_locked, "{flags}");
        let untouched = std::thread::spawn(|| flags_of(&[1_u8; 64])).join().expect("no panic");
        assert!(!untouched.contains("dd"), "{untouched}");
    }
}
