//! Memory that the device lends, as one does whose memory is pinned or mapped:
//! kept when it comes back, and lent again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strongroom_engine::{Buffer, LentMemory};

/// Blocks that are kept, at most.
const KEPT_MAX: usize = 64;

/// What became of the memory that a device lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// Buffers that are out.
    pub out: usize,
    /// Buffers that were made; others were lent again.
    pub made: usize,
    /// Batches that came in the device's own memory.
    pub batches: usize,
    /// Nothing came back that was not zero.
    pub is_clean: bool,
}

#[derive(Default)]
pub(crate) struct Lender {
    kept: Mutex<Vec<Buffer>>,
    out: AtomicUsize,
    made: AtomicUsize,
    batches: AtomicUsize,
    has_leaked: AtomicBool,
}

/// A block that is out. It is of the process's memory: there is no device.
struct Block {
    memory: Buffer,
    lender: Arc<Lender>,
}

impl Lender {
    /// A block of exactly `len` bytes.
    pub(crate) fn lend(lender: &Arc<Lender>, len: usize) -> Buffer {
        lender.out.fetch_add(1, Relaxed);
        let mut kept = lender.kept();
        let fitting = kept.iter().position(|block| block.len() == len).map(|at| kept.swap_remove(at));
        drop(kept);
        let memory = fitting.unwrap_or_else(|| {
            lender.made.fetch_add(1, Relaxed);
            Buffer::new(len)
        });
        Buffer::lent(Box::new(Block { memory, lender: Arc::clone(lender) }))
    }

    /// A batch has come in this buffer.
    pub(crate) fn note(&self, buffer: &Buffer) {
        if buffer.memory::<Block>().is_some() {
            self.batches.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn lending(&self) -> Lending {
        Lending {
            out: self.out.load(Relaxed),
            made: self.made.load(Relaxed),
            batches: self.batches.load(Relaxed),
            is_clean: !self.has_leaked.load(Relaxed),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LentMemory for Block {
    fn bytes(&self) -> &[u8] {
        &self.memory
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = self.memory.take();
        let is_clean = memory.iter().all(|&byte| byte == 0);
        self.lender.has_leaked.fetch_or(!is_clean, Relaxed);
        self.lender.out.fetch_sub(1, Relaxed);
        let mut kept = self.lender.kept();
        if is_clean && kept.len() < KEPT_MAX {
            kept.push(memory);
        }
    }
}
