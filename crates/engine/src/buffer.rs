//! Page-aligned memory that a batch owns.

/// Bytes whose first lies on a page boundary, so that the kernel moves whole
/// pages and devices can address them. Fresh memory is zero.
pub struct Buffer {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

const ALIGNMENT: usize = 4096;

impl Buffer {
    /// `len` zero bytes. Large buffers come from the system untouched, so
    /// that pages never used cost nothing.
    #[must_use]
    pub fn new(len: usize) -> Buffer {
        let storage = vec![0; len + ALIGNMENT];
        let start = storage.as_ptr().align_offset(ALIGNMENT);
        Buffer { storage, start, len }
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
        Buffer { storage: Vec::new(), start: 0, len: 0 }
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
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

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
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
}
