//! Whole sectors on their way between memory of the caller's and memory that
//! others share, such as a mapped file: computed in one pass from one to the
//! other instead of copied and then computed in place.
//!
//! What is shared has types of its own, since others, in this program or not,
//! may change it at any moment. An engine reads each byte once and depends on
//! none: where others write meanwhile, the outcome is that of old bytes, new
//! ones, or some of each, as with a file that is read while it is written. It
//! accesses them as the types ask: as atomic bytes, or by instructions that the
//! compiler does not see through, so that this is no data race.

use std::ops::Range;
use strongroom_units::{SharedBytes, SharedBytesMut};

use crate::{Algorithm, Operation, Refusal, SectorNumbers, Segment, Session};

/// Which way sectors go. Both sides have the same length.
#[derive(Debug)]
pub enum Way<'a> {
    /// Ciphertext that is shared becomes plaintext of the caller's own.
    Decrypt {
        /// Shared.
        from: SharedBytes<'a>,
        /// The caller's.
        to: &'a mut [u8],
    },
    /// Plaintext of the caller's own, which stays, becomes shared ciphertext.
    Encrypt {
        /// The caller's.
        from: &'a [u8],
        /// Shared.
        to: SharedBytesMut<'a>,
    },
}

/// Computing whole sectors from one place to another. An [`Engine`](crate::Engine)
/// that has it says so by [`Engine::crossing`](crate::Engine::crossing).
pub trait Cross: Send + Sync {
    /// Computes on the caller's thread and before it returns: no engine that
    /// could still write later may do so, since the target is shared. One that
    /// does not have it for this session or length refuses, and the caller
    /// copies and submits a batch.
    ///
    /// # Errors
    /// Why not; nothing was written.
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal>;
}

/// What [`Cross::cross`] is asked for.
#[derive(Debug)]
pub struct Crossing<'a> {
    /// The sectors' numbers.
    pub numbers: SectorNumbers,
    /// Bytes of a sector, a multiple of 16.
    pub sector_len: u32,
    /// From where to where; whole sectors.
    pub way: Way<'a>,
}

impl Way<'_> {
    /// What is done to the sectors.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Way::Decrypt { .. } => Operation::DecryptSectors,
            Way::Encrypt { .. } => Operation::EncryptSectors,
        }
    }

    /// Bytes of the target.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Way::Decrypt { to, .. } => to.len(),
            Way::Encrypt { to, .. } => to.len(),
        }
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn source_len(&self) -> usize {
        match self {
            Way::Decrypt { from, .. } => from.len(),
            Way::Encrypt { from, .. } => from.len(),
        }
    }

    /// The same range of both sides.
    ///
    /// # Panics
    /// When a side has less.
    #[must_use]
    pub fn part(&mut self, range: Range<usize>) -> Way<'_> {
        match self {
            Way::Decrypt { from, to } => Way::Decrypt { from: from.part(range.clone()), to: &mut to[range] },
            Way::Encrypt { from, to } => Way::Encrypt { from: &from[range.clone()], to: to.part(range) },
        }
    }
}

impl Crossing<'_> {
    /// Checks it against a session's algorithm, as a batch is.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`] for an algorithm that has no sectors,
    /// [`Refusal::Misuse`] for everything else.
    pub fn validate(&self, algorithm: Algorithm) -> Result<(), Refusal> {
        if self.way.source_len() != self.way.len() {
            return Err(Refusal::Misuse("the sides of a crossing differ in length"));
        }
        let segment = Segment::numbered_sectors(0, self.way.len(), self.numbers, self.sector_len);
        crate::validate::check_sectors(algorithm, &segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU8;

    use crate::{Aead, SectorCipher};

    const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);

    fn shared(len: usize) -> Vec<AtomicU8> {
        (0..len).map(|_| AtomicU8::new(0)).collect()
    }

    fn decrypting(from: usize, to: usize, sector_len: u32) -> Result<(), Refusal> {
        let (from, mut to) = (shared(from), vec![0; to]);
        let way = Way::Decrypt { from: SharedBytes::new(&from), to: &mut to };
        Crossing { numbers: 7.into(), sector_len, way }.validate(XTS)
    }

    #[test]
    fn whole_sectors_of_equal_length_pass() {
        assert_eq!(decrypting(1024, 1024, 512), Ok(()));
        for (from, to, sector_len) in [(1024, 512, 512), (512, 1024, 512), (700, 700, 512), (1024, 1024, 0)] {
            assert!(matches!(decrypting(from, to, sector_len), Err(Refusal::Misuse(_))), "{from} {to}");
        }
        let to = shared(512);
        let crossing = |number: u64| Crossing {
            numbers: number.into(),
            sector_len: 256,
            way: Way::Encrypt { from: &[1; 512], to: SharedBytesMut::new(&to) },
        };
        assert_eq!(crossing(u64::MAX - 1).validate(XTS), Ok(()));
        assert!(matches!(crossing(u64::MAX).validate(XTS), Err(Refusal::Misuse(_))));
        assert_eq!(crossing(0).validate(Algorithm::Aead(Aead::XAes256Gcm)), Err(Refusal::Unsupported));
    }

    #[test]
    fn a_part_is_of_both_sides() {
        let (from, mut to) = (shared(64), vec![1; 64]);
        let mut way = Way::Decrypt { from: SharedBytes::new(&from), to: &mut to };
        assert_eq!((way.operation(), way.len(), way.is_empty()), (Operation::DecryptSectors, 64, false));
        let part = way.part(16..48);
        assert_eq!((part.len(), part.source_len()), (32, 32));
        let mut way = Way::Encrypt { from: &[1; 64], to: SharedBytesMut::new(&from) };
        assert_eq!(way.operation(), Operation::EncryptSectors);
        assert_eq!(way.part(16..16).len(), 0);
    }
}
