//! A split ring (2.7), the driver's side. What the device writes is an index or
//! a number that is looked at before it is used.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use crate::spec::{DESCRIPTOR_LEN, available_len, has_passed, used_len};
use crate::transport::QueuePlaces;
use crate::{Error, Memory};

/// See the module.
pub(crate) struct Ring {
    memory: Arc<Memory>,
    size: u16,
    descriptors: usize,
    available: usize,
    used: usize,
    /// The index of the next entry that is offered.
    next: u16,
    /// That of what the device has been told.
    told: u16,
    /// That of the next entry that comes back.
    seen: u16,
}

/// Bytes of memory that a ring takes.
pub(crate) fn ring_len(size: u16) -> usize {
    (usize::from(size) * DESCRIPTOR_LEN + available_len(size)).next_multiple_of(4) + used_len(size) + 4
}

impl Ring {
    /// Clears its memory, which begins at a multiple of 16.
    pub(crate) fn new(memory: &Arc<Memory>, at: usize, size: u16) -> Result<Ring, Error> {
        let available = at + usize::from(size) * DESCRIPTOR_LEN;
        let used = (available + available_len(size)).next_multiple_of(4);
        memory.write(at, &vec![0; ring_len(size)])?;
        let memory = Arc::clone(memory);
        Ok(Ring { memory, size, descriptors: at, available, used, next: 0, told: 0, seen: 0 })
    }

    pub(crate) fn places(&self) -> QueuePlaces {
        let [descriptors, available, used] =
            [self.descriptors, self.available, self.used].map(|at| self.memory.base() + at as u64);
        QueuePlaces { descriptors, available, used }
    }

    /// Writes a chain of descriptors from `first` on: place, bytes, and whether
    /// the device writes there. Empty parts are left out.
    pub(crate) fn describe(&self, first: u16, chain: &[(usize, usize, bool)]) -> Result<(), Error> {
        let parts = || chain.iter().filter(|(_, len, _)| *len > 0);
        let count = parts().count();
        for (at, (place, len, is_written)) in parts().enumerate() {
            let index = first + at as u16;
            let mut descriptor = [0; DESCRIPTOR_LEN];
            descriptor[..8].copy_from_slice(&(self.memory.base() + *place as u64).to_le_bytes());
            descriptor[8..12].copy_from_slice(&(*len as u32).to_le_bytes());
            let flags = u16::from(at + 1 < count) | u16::from(*is_written) << 1;
            descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
            descriptor[14..].copy_from_slice(&(index + 1).to_le_bytes());
            self.memory.write(self.descriptors + usize::from(index) * DESCRIPTOR_LEN, &descriptor)?;
        }
        Ok(())
    }

    /// Offers a chain; the device does not see it yet.
    pub(crate) fn offer(&mut self, head: u16) -> Result<(), Error> {
        let entry = self.available + 4 + 2 * usize::from(self.next % self.size);
        self.memory.write(entry, &head.to_le_bytes())?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Shows what was offered; true when the device wants its doorbell rung.
    pub(crate) fn publish(&mut self) -> Result<bool, Error> {
        if self.told == self.next {
            return Ok(false);
        }
        self.memory.store(self.available + 2, self.next)?;
        fence(SeqCst);
        let event = self.memory.load(self.used + 4 + 8 * usize::from(self.size))?;
        let wants = has_passed(event, self.told, self.next);
        self.told = self.next;
        Ok(wants)
    }

    /// A chain that the device is done with, if there is one.
    pub(crate) fn take(&mut self) -> Result<Option<u32>, Error> {
        let used = self.memory.load(self.used + 2)?;
        if used == self.seen {
            return Ok(None);
        }
        if used.wrapping_sub(self.seen) > self.told.wrapping_sub(self.seen) {
            return Err(Error::Device("it gave back more than it got"));
        }
        let mut entry = [0; 4];
        self.memory.read(self.used + 4 + 8 * usize::from(self.seen % self.size), &mut entry)?;
        self.seen = self.seen.wrapping_add(1);
        Ok(Some(u32::from_le_bytes(entry)))
    }

    /// Asks for an interrupt when `after` more have come back, at least one.
    /// True when something has come back meanwhile.
    pub(crate) fn ask(&mut self, after: u16) -> Result<bool, Error> {
        let event = self.seen.wrapping_add(after.max(1) - 1);
        self.memory.store(self.available + 4 + 2 * usize::from(self.size), event)?;
        fence(SeqCst);
        Ok(self.memory.load(self.used + 2)? != self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (Arc<Memory>, Ring) {
        let memory = Arc::new(Memory::create(1 << 32, 4096).unwrap().0);
        let ring = Ring::new(&memory, 0, 8).unwrap();
        (memory, ring)
    }

    #[test]
    fn what_a_device_makes_up_is_an_error() {
        let (memory, mut ring) = ring();
        ring.describe(0, &[(2048, 16, false), (2064, 0, false), (2080, 1, true)]).unwrap();
        ring.offer(0).unwrap();
        assert!(ring.publish().unwrap() && !ring.publish().unwrap());
        assert!(ring.take().unwrap().is_none());
        // One was offered, and two are said to be used.
        memory.store(ring.used + 2, 2).unwrap();
        assert!(matches!(ring.take(), Err(Error::Device(_))));
    }

    #[test]
    fn the_index_wraps() {
        let (memory, mut ring) = ring();
        for round in 0..70_000u32 {
            ring.offer((round % 8) as u16).unwrap();
            ring.publish().unwrap();
            let index = ring.seen;
            memory.write(ring.used + 4 + 8 * usize::from(index % 8), &(round % 8).to_le_bytes()).unwrap();
            memory.store(ring.used + 2, index.wrapping_add(1)).unwrap();
            assert_eq!(ring.take().unwrap(), Some(round % 8));
            assert!(ring.take().unwrap().is_none());
        }
    }
}
