//! Histories with masks: a device beside the CPU makes keystream ahead, and what
//! it is used for is watched, over all images of the history and what is done
//! with them.

use std::sync::Arc;
use std::time::Duration;

use strongroom_engine_sim::Faults;
use strongroom_format::vault::Suite;

use super::Trial;
use crate::mask_model::{Spent, Watched, on};
use crate::support;

/// Suites that have keystream, those for which masks pay twice as often.
const SUITES: [Suite; 6] = [
    Suite::Serpent256Poly1305,
    Suite::Cascade,
    Suite::Xaes256Gcm,
    Suite::Serpent256Poly1305,
    Suite::Cascade,
    Suite::XChaCha20Poly1305,
];

/// Bytes of a write or read.
const PIECE: u64 = 64 << 10;

/// One in how many histories has masks.
pub(crate) const ONE_IN: u64 = 16;

/// The first of them.
pub(crate) const FIRST: u64 = 5;

/// Whether a history has masks.
pub(super) fn is(seed: u64) -> bool {
    seed % ONE_IN == FIRST
}

pub(super) fn suite(seed: u64) -> Suite {
    SUITES[(seed / ONE_IN % SUITES.len() as u64) as usize]
}

/// A device beside the CPU that loses some work.
pub(super) fn engine() -> Arc<Watched> {
    let faults = Faults { lost_ppm: 20_000, ..Faults::default() };
    Watched::new(faults, on(), &Arc::new(Spent::default()))
}

/// In which masks that were ordered are made.
pub(crate) fn make_time() {
    std::thread::sleep(Duration::from_millis(1));
}

impl Trial {
    /// What else there is with masks: so much is written that they are ordered,
    /// read in sequence, and the session renewed, as after a copy of the machine.
    pub(super) fn step_with_masks(&mut self) {
        match self.rng.below(60) {
            0..=8 => self.write_much(),
            9..=11 => self.read_in_sequence(),
            12 => {
                self.note("renew the session".into());
                self.vault().renew_sessions().unwrap();
                self.masks.as_ref().expect("it has masks").spent.end_session();
            }
            _ => {}
        }
    }

    fn write_much(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        let first = self.rng.below(4) * self.size;
        for part in 0..3 {
            let data = self.data(PIECE);
            self.change(id, &content, first + part * PIECE, &data);
            make_time();
        }
    }

    /// Compares what it reads.
    fn read_in_sequence(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        self.note(format!("read #{id}"));
        let expected = self.latest(id);
        for offset in (0..expected.len.min(16 * PIECE)).step_by(PIECE as usize) {
            let found = support::read(&content, offset, PIECE as usize).unwrap();
            assert!(expected.is_at(offset, &found), "#{id} at {offset}");
            make_time();
        }
    }
}
