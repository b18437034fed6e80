//! Page-aligned memory that a batch owns: the process's, or an engine's.

use std::any::Any;

/// Bytes whose first lies on a page boundary, so that the kernel moves whole
/// pages and devices can address them. Fresh memory is zero.
pub struct Buffer(Memory);

enum Memory {
    Own { storage: Vec<u8>, start: usize, len: usize },
    Lent(Loan),
}

const ALIGNMENT: usize = 4096;

/// Memory that an engine lends through [`Engine::buffer`](crate::Engine::buffer):
/// pinned, registered, or mapped by a device. Dropping it returns it to the
/// engine; a [`Buffer`] wipes it before that. A batch may go to another engine
/// than the one that lent its buffer, and any thread may drop it.
pub trait LentMemory: Any + Send + Sync {
    /// All of it. The first byte lies on a page boundary, and the place does
    /// not change.
    fn bytes(&self) -> &[u8];

    /// The same, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Lent memory until it is returned.
struct Loan(Box<dyn LentMemory>);

impl Drop for Loan {
    fn drop(&mut self) {
        // Nothing of this is left out: what becomes of the memory afterwards is
        // behind a pointer that the compiler does not see through.
        self.0.bytes_mut().fill(0);
        std::hint::black_box(self.0.bytes());
    }
}

impl Buffer {
    /// `len` zero bytes. Large buffers come from the system untouched, so
    /// that pages never used cost nothing.
    #[must_use]
    pub fn new(len: usize) -> Buffer {
        let storage = vec![0; len + ALIGNMENT];
        let start = storage.as_ptr().align_offset(ALIGNMENT);
        Buffer(Memory::Own { storage, start, len })
    }

    /// For engines: all bytes of `memory`, which are zero and are wiped when
    /// the buffer is dropped.
    ///
    /// # Panics
    /// When the first byte does not lie on a page boundary.
    #[must_use]
    pub fn lent(memory: Box<dyn LentMemory>) -> Buffer {
        assert!(memory.bytes().as_ptr().align_offset(ALIGNMENT) == 0, "lent memory is page-aligned");
        Buffer(Memory::Lent(Loan(memory)))
    }

    /// For engines: the memory behind this buffer, if it is of type `T`, which
    /// it is when this engine has lent it.
    #[must_use]
    pub fn memory<T: LentMemory>(&self) -> Option<&T> {
        match &self.0 {
            Memory::Own { .. } => None,
            Memory::Lent(loan) => (&*loan.0 as &dyn Any).downcast_ref(),
        }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// A buffer of no bytes, which allocates nothing.
    #[must_use]
    pub fn empty() -> Buffer {
        Buffer(Memory::Own { storage: Vec::new(), start: 0, len: 0 })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Memory::Own { len, .. } => *len,
            Memory::Lent(loan) => loan.0.bytes().len(),
        }
    }

    /// True when it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the bytes out, leaving an empty buffer: how a buffer moves into a
    /// batch and back without being copied.
    #[must_use]
    pub fn take(&mut self) -> Buffer {
        std::mem::replace(self, Buffer::empty())
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own { storage, start, len } => &storage[*start..*start + *len],
            Memory::Lent(loan) => loan.0.bytes(),
        }
    }
}

impl std::ops::DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own { storage, start, len } => &mut storage[*start..*start + *len],
            Memory::Lent(loan) => loan.0.bytes_mut(),
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_page_aligned_and_zero() {
        for len in [0, 1, 4095, 4096, 1 << 20] {
            let buffer = Buffer::new(len);
            assert_eq!(buffer.as_ptr().align_offset(4096), 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    /// What came back to the lender.
    type Returned = std::sync::Arc<std::sync::Mutex<Vec<Vec<u8>>>>;

    struct Page {
        own: Buffer,
        returned: Returned,
    }

    impl LentMemory for Page {
        fn bytes(&self) -> &[u8] {
            &self.own
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.own
        }
    }

    impl Drop for Page {
        fn drop(&mut self) {
            self.returned.lock().unwrap().push(self.own.to_vec());
        }
    }

    #[test]
    fn lent_memory_is_known_to_its_lender_and_comes_back_wiped() {
        let returned = Returned::default();
        let memory = Page { own: Buffer::new(4096), returned: returned.clone() };
        let mut buffer = Buffer::lent(Box::new(memory));
        assert!(buffer.memory::<Page>().is_some() && Buffer::new(1).memory::<Page>().is_none());
        buffer.fill(7);
        assert_eq!(buffer.len(), 4096);
        let moved = buffer.take();
        assert!(buffer.is_empty() && moved.iter().all(|&byte| byte == 7));
        assert!(returned.lock().unwrap().is_empty());
        drop(moved);
        assert_eq!(*returned.lock().unwrap(), [vec![0; 4096]]);
    }
}
