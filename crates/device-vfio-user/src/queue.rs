//! A split ring (virtio 1.2, section 2.7), the device's side.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use strongroom_engine_virtio::spec::{DESCRIPTOR_LEN, DESCRIPTOR_NEXT, DESCRIPTOR_WRITE, has_passed};
use strongroom_engine_virtio::{Memory, OutOfBounds};

/// Bytes of a request, at most.
const REQUEST_MAX: usize = 32 << 20;

/// A queue that is enabled.
pub(crate) struct Queue {
    pub(crate) memory: Arc<Memory>,
    pub(crate) size: u16,
    pub(crate) descriptors: usize,
    pub(crate) available: usize,
    pub(crate) used: usize,
    pub(crate) seen: u16,
    pub(crate) done: u16,
    /// The vector of its interrupt.
    pub(crate) vector: u16,
}

/// What a chain of descriptors has: what is read, and where may be written.
pub(crate) struct Chain {
    pub(crate) readable: Vec<u8>,
    pub(crate) writable: Vec<(usize, usize)>,
}

impl Queue {
    /// The next chain that the driver has offered.
    pub(crate) fn next(&mut self) -> Result<Option<u16>, OutOfBounds> {
        if self.memory.load(self.available + 2)? == self.seen {
            // Whatever comes from now on is to be told.
            self.memory.store(self.used + 4 + 8 * usize::from(self.size), self.seen)?;
            fence(SeqCst);
            if self.memory.load(self.available + 2)? == self.seen {
                return Ok(None);
            }
        }
        let mut head = [0; 2];
        self.memory.read(self.available + 4 + 2 * usize::from(self.seen % self.size), &mut head)?;
        self.seen = self.seen.wrapping_add(1);
        Ok(Some(u16::from_le_bytes(head)))
    }

    pub(crate) fn chain(&self, head: u16) -> Result<Chain, OutOfBounds> {
        let mut chain = Chain { readable: Vec::new(), writable: Vec::new() };
        let mut index = head;
        // A chain has no more descriptors than the queue.
        for _ in 0..self.size {
            if index >= self.size {
                return Err(OutOfBounds);
            }
            let mut descriptor = [0; DESCRIPTOR_LEN];
            self.memory.read(self.descriptors + usize::from(index) * DESCRIPTOR_LEN, &mut descriptor)?;
            let address = u64::from_le_bytes(descriptor[..8].try_into().expect("eight bytes"));
            let len = u32::from_le_bytes(descriptor[8..12].try_into().expect("four bytes")) as usize;
            let flags = u16::from_le_bytes([descriptor[12], descriptor[13]]);
            let place = self.memory.place(address)?;
            if len > REQUEST_MAX || chain.readable.len() + len > REQUEST_MAX {
                return Err(OutOfBounds);
            }
            if flags & DESCRIPTOR_WRITE != 0 {
                chain.writable.push((place, len));
            } else {
                let start = chain.readable.len();
                chain.readable.resize(start + len, 0);
                self.memory.read(place, &mut chain.readable[start..])?;
            }
            if flags & DESCRIPTOR_NEXT == 0 {
                return Ok(chain);
            }
            index = u16::from_le_bytes([descriptor[14], descriptor[15]]);
        }
        Err(OutOfBounds)
    }

    /// Writes over what the chain lets be written, from its beginning on.
    pub(crate) fn write(&self, chain: &Chain, bytes: &[u8]) -> Result<usize, OutOfBounds> {
        let mut rest = bytes;
        for (place, len) in &chain.writable {
            let (now, later) = rest.split_at((*len).min(rest.len()));
            self.memory.write(*place, now)?;
            rest = later;
        }
        if rest.is_empty() { Ok(bytes.len()) } else { Err(OutOfBounds) }
    }

    /// Writes the last byte that the chain lets be written.
    pub(crate) fn write_last(&self, chain: &Chain, byte: u8) -> Result<(), OutOfBounds> {
        let (place, len) = chain.writable.last().ok_or(OutOfBounds)?;
        self.memory.write(*place + len.checked_sub(1).ok_or(OutOfBounds)?, &[byte])
    }

    /// Gives a chain back; true when the driver wants an interrupt for it.
    pub(crate) fn give_back(&mut self, head: u16, written: usize) -> Result<bool, OutOfBounds> {
        let entry = self.used + 4 + 8 * usize::from(self.done % self.size);
        self.memory.write(entry, &u32::from(head).to_le_bytes())?;
        self.memory.write(entry + 4, &(written as u32).to_le_bytes())?;
        let before = self.done;
        self.done = self.done.wrapping_add(1);
        self.memory.store(self.used + 2, self.done)?;
        fence(SeqCst);
        let event = self.memory.load(self.available + 4 + 2 * usize::from(self.size))?;
        Ok(has_passed(event, before, self.done))
    }
}
