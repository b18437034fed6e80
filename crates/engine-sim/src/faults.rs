//! What goes wrong, drawn from a seed.

use std::time::Duration;

use strongroom_engine::{Batch, Completed, Outcome};

use crate::State;

/// How often each fault happens, in batches of a million, and what it is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Refused as busy, besides those for whom the queue is full.
    pub busy_ppm: u32,
    /// Answered as done with one bit wrong, in the data or in a tag.
    pub wrong_ppm: u32,
    /// Answered as lost, the buffer full of noise.
    pub lost_ppm: u32,
    /// Answered only after [`Faults::stall`].
    pub stall_ppm: u32,
    /// How long a stall is.
    pub stall: Duration,
    /// The device is gone after so many batches: what is there and what comes
    /// is never answered. None when it stays.
    pub gone_after: Option<u64>,
}

/// What becomes of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Well,
    Wrong(u64),
    Lost(u64),
    Stalled,
    Gone,
}

impl State {
    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.draw() % 1_000_000 < u64::from(ppm)
    }

    pub(crate) fn is_busy(&mut self, faults: &Faults) -> bool {
        self.happens(faults.busy_ppm)
    }

    /// For the next batch that is accepted.
    pub(crate) fn fate(&mut self, faults: &Faults) -> Fate {
        self.accepted += 1;
        if faults.gone_after.is_some_and(|last| self.accepted > last) {
            return Fate::Gone;
        }
        if self.happens(faults.wrong_ppm) {
            return Fate::Wrong(self.draw());
        }
        if self.happens(faults.lost_ppm) {
            return Fate::Lost(self.draw());
        }
        if self.happens(faults.stall_ppm) { Fate::Stalled } else { Fate::Well }
    }
}

/// One bit of the result is wrong: of the data, or where there is none or the
/// draw says so, of a tag.
pub(crate) fn corrupt(batch: &mut Batch, draw: u64) {
    let segments = batch.segments.len();
    if segments == 0 {
        return;
    }
    let chosen = draw as usize % segments;
    let segment = &mut batch.segments[chosen];
    if segment.is_empty() || draw >> 32 & 7 == 0 {
        let mut tag = *segment.tag();
        tag[(draw >> 40 & 15) as usize] ^= 1;
        segment.set_done(Some(tag));
    } else {
        let at = segment.start() + (draw >> 8) as usize % segment.len();
        batch.buffer[at] ^= 1 << (draw >> 61);
    }
}

/// What a device that failed half-way leaves behind.
pub(crate) fn ruin(mut batch: Batch, draw: u64) -> Completed {
    for (byte, noise) in batch.buffer.iter_mut().zip(draw.to_le_bytes().into_iter().cycle()) {
        *byte ^= noise | 1;
    }
    for segment in batch.segments.iter_mut().step_by(2) {
        segment.set_done(Some([draw as u8; 16]));
    }
    Completed { batch, outcome: Outcome::DeviceLost }
}
