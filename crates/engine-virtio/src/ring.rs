//! A split ring (2.7), the driver's side: a place for each of a fixed number of
//! chains. What the device writes is an index or a number that is looked at
//! before it is used.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

use crate::request::{CHAIN, Link};
use crate::spec::{DESCRIPTOR_LEN, available_len, has_passed, used_len};
use crate::transport::QueuePlaces;
use crate::{Error, Memory};

/// Looks before it sleeps, in [`Ring::wait`].
const LOOKS: u32 = 2000;
const PAUSE: Duration = Duration::from_micros(50);

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
    let driver = (usize::from(size) * DESCRIPTOR_LEN + available_len(size)).next_multiple_of(4);
    (driver + used_len(size)).next_multiple_of(64)
}

impl Ring {
    /// Clears its memory, which begins at a multiple of 64.
    pub(crate) fn new(memory: &Arc<Memory>, at: usize, size: u16) -> Result<Ring, Error> {
        let available = at + usize::from(size) * DESCRIPTOR_LEN;
        let used = (available + available_len(size)).next_multiple_of(4);
        memory.write(at, &vec![0; ring_len(size)])?;
        let memory = Arc::clone(memory);
        Ok(Ring { memory, size, descriptors: at, available, used, next: 0, told: 0, seen: 0 })
    }

    /// Where its parts are, as the device sees them.
    pub(crate) fn places(&self) -> QueuePlaces {
        let [descriptors, available, used] =
            [self.descriptors, self.available, self.used].map(|at| self.memory.base() + at as u64);
        QueuePlaces { descriptors, available, used }
    }

    /// Chains that it has a place for.
    pub(crate) fn chains(&self) -> u16 {
        self.size / CHAIN
    }

    /// Writes the chain with the number `slot` and offers it; the device does
    /// not see it yet. Empty parts are left out.
    pub(crate) fn offer_chain(&mut self, slot: u16, chain: &[Link]) -> Result<(), Error> {
        let head = slot * CHAIN;
        let parts = || chain.iter().filter(|(_, len, _)| *len > 0);
        let count = parts().count();
        for (at, (place, len, is_written)) in parts().enumerate() {
            let index = head + at as u16;
            let mut descriptor = [0; DESCRIPTOR_LEN];
            descriptor[..8].copy_from_slice(&(self.memory.base() + *place as u64).to_le_bytes());
            descriptor[8..12].copy_from_slice(&(*len as u32).to_le_bytes());
            let flags = u16::from(at + 1 < count) | u16::from(*is_written) << 1;
            descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
            descriptor[14..].copy_from_slice(&(index + 1).to_le_bytes());
            self.memory.write(self.descriptors + usize::from(index) * DESCRIPTOR_LEN, &descriptor)?;
        }
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
    pub(crate) fn take(&mut self) -> Result<Option<u16>, Error> {
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
        let head = u32::from_le_bytes(entry);
        if !head.is_multiple_of(CHAIN.into()) || head >= u32::from(self.chains() * CHAIN) {
            return Err(Error::Device("it gave back what is no chain"));
        }
        Ok(Some(head as u16 / CHAIN))
    }

    /// Waits for the one chain that is out.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<(), Error> {
        let began = Instant::now();
        for look in 0u32.. {
            if self.take()?.is_some() {
                return Ok(());
            }
            if began.elapsed() > limit {
                break;
            }
            match look < LOOKS {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(PAUSE),
            }
        }
        Err(Error::Late)
    }

    /// Asks for an interrupt when `after` more have come back, at least one.
    /// True when something has come back already.
    pub(crate) fn ask(&mut self, after: u16) -> Result<bool, Error> {
        self.ask_at(self.seen.wrapping_add(after.max(1) - 1))?;
        Ok(self.memory.load(self.used + 2)? != self.seen)
    }

    /// Asks for no interrupt: for one at an index that has just passed.
    pub(crate) fn ask_nothing(&mut self) -> Result<(), Error> {
        self.ask_at(self.seen.wrapping_sub(1))
    }

    fn ask_at(&mut self, index: u16) -> Result<(), Error> {
        self.memory.store(self.available + 4 + 2 * usize::from(self.size), index)?;
        fence(SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u16 = 16;

    fn ring() -> (Arc<Memory>, Ring) {
        let memory = Arc::new(Memory::create(1 << 32, 4096).expect("memory").0);
        let ring = Ring::new(&memory, 0, SIZE).expect("it has room");
        (memory, ring)
    }

    /// As a device gives back.
    fn give_back(memory: &Memory, ring: &Ring, index: u16, head: u32) {
        let entry = ring.used + 4 + 8 * usize::from(index % SIZE);
        memory.write(entry, &head.to_le_bytes()).expect("within");
        memory.store(ring.used + 2, index.wrapping_add(1)).expect("within");
    }

    #[test]
    fn what_a_device_makes_up_is_an_error() {
        for (head, used) in [(0, 2), (1, 1), (15, 1), (u32::MAX, 1)] {
            let (memory, mut ring) = ring();
            ring.offer_chain(0, &[(2048, 16, false), (2064, 0, false), (2080, 1, true)]).expect("within");
            assert!(ring.publish().expect("within") && !ring.publish().expect("within"));
            assert!(ring.take().expect("nothing yet").is_none());
            give_back(&memory, &ring, used - 1, head);
            assert!(matches!(ring.take(), Err(Error::Device(_))), "{head} at {used}");
        }
    }

    #[test]
    fn the_index_wraps() {
        let (memory, mut ring) = ring();
        for round in 0..70_000u32 {
            let slot = (round % 3) as u16;
            ring.offer_chain(slot, &[(2048, 1, true)]).expect("within");
            ring.publish().expect("within");
            give_back(&memory, &ring, ring.seen, u32::from(slot * CHAIN));
            assert_eq!(ring.take().expect("sound"), Some(slot));
            assert!(ring.take().expect("sound").is_none());
        }
    }

    #[test]
    fn interrupts_are_asked_for_by_index() {
        let (memory, mut ring) = ring();
        let event = |ring: &Ring| memory.load(ring.available + 4 + 2 * usize::from(SIZE)).expect("within");
        for _ in 0..3 {
            ring.offer_chain(0, &[(2048, 1, true)]).expect("within");
        }
        ring.publish().expect("within");
        assert!(!ring.ask(3).expect("within"));
        // Not at the first or second, and at the third.
        assert!(!has_passed(event(&ring), 0, 1) && !has_passed(event(&ring), 1, 2));
        assert!(has_passed(event(&ring), 2, 3));
        ring.ask_nothing().expect("within");
        assert!((0..3).all(|index| !has_passed(event(&ring), index, index + 1)));
        give_back(&memory, &ring, 0, 0);
        assert!(ring.ask(1).expect("within"), "one is there already");
    }
}
