//! Where a batch comes from: who asked for what it is a part of, and how much.
//! Whoever takes requests says so once for its thread; batches that are made
//! there carry it, so that nobody between has to hand it on.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Threads that ask for themselves are numbered above what the system gives a
/// process: PID_MAX_LIMIT is 2^22 (proc_sys_kernel(5), `pid_max`).
const OWN: u32 = 1 << 31;

thread_local! {
    static OWN_NUMBER: u32 = own_number();
    static HERE: Cell<Origin> = Cell::new(Origin { caller: OWN_NUMBER.with(|own| *own), bytes: 0 });
}

/// A number that no other thread of this process and no process has.
fn own_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    OWN | NEXT.fetch_add(1, Relaxed)
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Tells those who ask apart: a thread's number in the system, or one of
    /// this process's own threads.
    pub caller: u32,
    /// Bytes of the request; 0 where a batch is all there is of it.
    pub bytes: u64,
}

impl Origin {
    /// Of batches that this thread makes now.
    #[must_use]
    pub fn here() -> Origin {
        HERE.get()
    }

    /// This thread serves a request of so many bytes, from now on and until it
    /// is told otherwise. Caller 0, of requests that the kernel makes on its own
    /// account, is this thread.
    pub fn serves(caller: u32, bytes: u64) {
        let caller = if caller == 0 { OWN_NUMBER.with(|own| *own) } else { caller };
        HERE.set(Origin { caller, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Buffer, Operation};

    #[test]
    fn batches_carry_whom_their_thread_serves() {
        let batch = || Batch::new(Operation::Seal, Buffer::new(16), Vec::new());
        let own = batch().origin;
        Origin::serves(7, 65536);
        assert_eq!(batch().origin, Origin { caller: 7, bytes: 65536 });
        let other = std::thread::spawn(move || batch().origin).join().expect("it ended");
        assert!(other.caller != own.caller && other.caller >= OWN && other.bytes == 0);
        assert_eq!(batch().duplicate().origin.caller, 7);
        Origin::serves(0, 4096);
        let written_back = batch().origin;
        assert_eq!((written_back.caller, written_back.bytes), (own.caller, 4096));
    }
}
