//! The arithmetic of journal space: two segments used in turn, and slots that
//! are promised to a change before it takes any lock, so that a commit never
//! finds the journal full. Pure; the journal guards it with a mutex.

use strongroom_format::vault::record::Place;

/// What is used and promised.
#[derive(Debug)]
pub(crate) struct Space {
    slots: u32,
    active: u8,
    next: u32,
    promised: u32,
    other_ready: bool,
    /// Somebody waits for slots that the active segment does not have.
    starved: bool,
}

/// Slots of a segment that promises may not take: records of commits that
/// were promised too little draw on them.
const fn reserve(slots: u32) -> u32 {
    slots / 8
}

impl Space {
    /// Two empty segments of `slots` slots each.
    pub(crate) fn new(slots: u32) -> Space {
        Space { slots, active: 0, next: 1, promised: 0, other_ready: true, starved: false }
    }

    /// True when nothing more can be promised before a rotation.
    pub(crate) fn promise(&mut self, slots: u32) -> bool {
        let limit = self.slots - reserve(self.slots);
        // A change larger than a segment could never begin; it draws on the
        // reserve instead, alone.
        let fits = self.next + self.promised + slots <= limit || (self.next == 1 && self.promised == 0);
        if fits {
            self.promised += slots;
        }
        self.starved |= !fits;
        fits
    }

    /// Takes back what a change did not need.
    pub(crate) fn release(&mut self, slots: u32) {
        debug_assert!(self.promised >= slots, "no more is released than was promised");
        self.promised = self.promised.saturating_sub(slots);
    }

    #[cfg(all(test, strongroom_model))]
    pub(crate) fn promised(&self) -> u32 {
        self.promised
    }

    /// Takes consecutive slots, of which `promised` had been promised.
    pub(crate) fn take(&mut self, slots: u32, promised: u32) -> Option<Place> {
        if self.next + slots > self.slots {
            return None;
        }
        self.release(promised);
        let place = Place { segment: self.active, slot: self.next };
        self.next += slots;
        Some(place)
    }

    /// True when a segment is to be emptied: three quarters of the active one
    /// are spoken for, a promise was refused, or the other one has not been
    /// emptied yet.
    pub(crate) fn wants_rotation(&self) -> bool {
        !self.other_ready || self.starved || self.next + self.promised > self.slots / 4 * 3
    }

    /// The segment that is to be emptied.
    pub(crate) fn emptying(&self) -> Option<u8> {
        (!self.other_ready).then_some(self.active ^ 1)
    }

    /// True when the other segment can take over.
    pub(crate) fn can_rotate(&self) -> bool {
        self.other_ready
    }

    /// Lets the other segment take over; gives the one to be emptied.
    pub(crate) fn rotate(&mut self) -> u8 {
        debug_assert!(self.other_ready, "the other segment is ready");
        let old = self.active;
        self.active ^= 1;
        self.next = 1;
        self.other_ready = false;
        self.starved = false;
        old
    }

    /// The other segment has been emptied and has its new header.
    pub(crate) fn emptied(&mut self) {
        self.other_ready = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_stop_before_the_reserve() {
        let mut space = Space::new(80);
        assert!(space.promise(60));
        assert!(!space.promise(20));
        assert_eq!(space.take(60, 60), Some(Place { segment: 0, slot: 1 }));
        assert!(space.take(19, 0).is_some(), "commits may use the reserve");
        assert!(space.take(1, 0).is_none());
    }

    #[test]
    fn a_rotation_moves_promises_to_the_other_segment() {
        let mut space = Space::new(80);
        assert!(space.promise(59));
        assert!(!space.wants_rotation());
        assert!(space.promise(10));
        assert!(space.wants_rotation());
        assert_eq!(space.rotate(), 0);
        assert!(!space.can_rotate());
        assert!(!space.promise(10), "the promises hold in the new segment");
        assert_eq!(space.take(1, 1), Some(Place { segment: 1, slot: 1 }));
        space.emptied();
        assert!(space.can_rotate());
    }

    #[test]
    fn a_refused_promise_asks_for_a_rotation() {
        let mut space = Space::new(80);
        assert!(space.take(40, 0).is_some());
        assert!(!space.wants_rotation());
        assert!(!space.promise(30));
        assert!(space.wants_rotation());
        space.rotate();
        assert!(space.promise(30));
    }
}
