//! SIGBUS: the kernel's answer to a touch of a mapped page that the file does
//! not have any more, or that cannot be read or given room.
//!
//! The handler looks whether the address lies in a [`Mapping`](super::Mapping).
//! If so, it counts the fault there, puts a page of zeros in the page's place,
//! and the instruction goes on. Every other SIGBUS is what it was before.
//!
//! What runs in the handler takes no lock, allocates nothing and calls nothing
//! but the kernel (signal-safety(7)).

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::mapping::WINDOW_LEN;

/// Most mappings of a process.
const SLOTS: usize = 64;

/// One mapping, as the handler knows it. All have the same length, so that
/// no mixture of an old and a new one can be seen.
pub(super) struct Slot {
    /// Its first address; 0 when the slot is free.
    start: AtomicUsize,
    /// Pages that could not be had.
    faults: AtomicU32,
}

static REGISTRY: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), faults: AtomicU32::new(0) } }; SLOTS];
static CLAIMING: Mutex<()> = Mutex::new(());

/// Bytes of a page, for the handler.
static PAGE_LEN: AtomicUsize = AtomicUsize::new(4096);

/// What handled the signal before; none when the handler could not be set.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

impl Slot {
    /// Has the handler know the mapping that begins at `start`; none when
    /// there are too many, or there is no handler.
    pub(super) fn claim(start: usize) -> Option<&'static Slot> {
        BEFORE.get_or_init(|| install().ok()).as_ref()?;
        let _claiming = CLAIMING.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = REGISTRY.iter().find(|slot| slot.start.load(Ordering::Relaxed) == 0)?;
        slot.faults.store(0, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        Some(slot)
    }

    /// Has the handler forget it.
    pub(super) fn free(&self) {
        self.start.store(0, Ordering::Release);
    }

    /// Whether a page could not be had since it was claimed. Whoever has seen
    /// anything of a page of zeros sees this too.
    pub(super) fn has_faulted(&self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.faults.load(Ordering::Acquire) != 0
    }
}

/// Sets the handler and tells what was there before.
fn install() -> io::Result<libc::sigaction> {
    PAGE_LEN.store(rustix::param::page_size(), Ordering::Relaxed);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a `sigaction` of zeros is a valid value; it is filled in before
    // it is used.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the thread's alternate stack, as the handlers of Rust's library.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to a `sigaction`; the handler keeps the rules of
    // signal-safety(7), and has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction(2) has filled it in; zeros would be valid too.
    Ok(unsafe { before.assume_init() })
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a `siginfo_t`. Above 0 the code
    // says that the kernel raised it, for an address, which is given then.
    let address = unsafe { if (*info).si_code > 0 { (*info).si_addr() as usize } else { 0 } };
    if address != 0 && replace_page(address) {
        return;
    }
    hand_on(signal, info, context);
}

/// Puts a page of zeros where `address` lies, if that is in a mapping.
fn replace_page(address: usize) -> bool {
    let contains = |slot: &&Slot| {
        let start = slot.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < WINDOW_LEN
    };
    let Some(slot) = REGISTRY.iter().find(contains) else { return false };
    // Before the page is there: who reads it has to find the fault.
    slot.faults.fetch_add(1, Ordering::SeqCst);
    let len = PAGE_LEN.load(Ordering::Relaxed);
    let page = (address & !(len - 1)) as *mut c_void;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the page lies in a mapping of ours, which is atomic bytes that
    // may change at any moment, and which is accessed at present, so that
    // nobody unmaps it. What was written to it before stays in the file.
    unsafe { mmap_anonymous(page, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_ok()
}

/// Has the signal handled as if there were no handler of ours.
fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Another thread may have the signal before the handler has been noted.
    let before = BEFORE.get().and_then(Option::as_ref);
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: zeros are the default action without flags, and a null
        // pointer says that the old one is not wanted. Raised here, the signal
        // comes when the handler has returned, and ends the process.
        unsafe {
            let action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(signal, &raw const action, null_mut());
            libc::raise(signal);
        }
        return;
    }
    let with_info = before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    let handler = handler as *const c_void;
    if with_info {
        // SAFETY: a handler that was set with SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler that was set without SA_SIGINFO has this one.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}
