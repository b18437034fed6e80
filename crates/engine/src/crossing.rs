//! Whole sectors on their way out of memory that others share, such as a mapped
//! file: decrypted in one pass from there to memory of the caller's, instead of
//! copied and then decrypted in place.
//!
//! What is shared has a type of its own, since others, in this program or not,
//! may change it at any moment. An engine reads each byte once and depends on
//! none: where others write meanwhile, the outcome is that of old bytes, new
//! ones, or some of each, as with a file that is read while it is written. It
//! accesses them as the type asks: as atomic bytes, or by instructions that the
//! compiler does not see through, so that this is no data race.

use strongroom_units::SharedBytes;

use crate::{Algorithm, Operation, Refusal, SectorNumbers, Segment, Session};

/// Decrypting whole sectors from one place to another. An [`Engine`](crate::Engine)
/// that has it says so by [`Engine::crossing`](crate::Engine::crossing).
pub trait Cross: Send + Sync {
    /// Computes on the caller's thread and before it returns: what is shared may
    /// be gone afterwards. An engine that does not have it for this session or
    /// length refuses, and the caller copies and submits a batch.
    ///
    /// # Errors
    /// Why not; nothing was written.
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal>;
}

/// What [`Cross::cross`] is asked for. Both sides have the same length.
#[derive(Debug)]
pub struct Crossing<'a> {
    /// The sectors' numbers.
    pub numbers: SectorNumbers,
    /// Bytes of a sector, a multiple of 16.
    pub sector_len: u32,
    /// Ciphertext that is shared; whole sectors.
    pub from: SharedBytes<'a>,
    /// The caller's, for the plaintext.
    pub to: &'a mut [u8],
}

impl Crossing<'_> {
    /// What is done to the sectors.
    pub const OPERATION: Operation = Operation::DecryptSectors;

    /// Checks it against a session's algorithm, as a batch is.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`] for an algorithm that has no sectors,
    /// [`Refusal::Misuse`] for everything else.
    pub fn validate(&self, algorithm: Algorithm) -> Result<(), Refusal> {
        if self.from.len() != self.to.len() {
            return Err(Refusal::Misuse("the sides of a crossing differ in length"));
        }
        let segment = Segment::numbered_sectors(0, self.to.len(), self.numbers, self.sector_len);
        crate::validate::check_sectors(algorithm, &segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU8;

    use crate::{Aead, SectorCipher};

    const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);

    fn validated(
        algorithm: Algorithm,
        first: u64,
        (from, to): (usize, usize),
        sector_len: u32,
    ) -> Result<(), Refusal> {
        let from: Vec<AtomicU8> = (0..from).map(|_| AtomicU8::new(0)).collect();
        let (from, mut to) = (SharedBytes::new(&from), vec![0; to]);
        Crossing { numbers: first.into(), sector_len, from, to: &mut to }.validate(algorithm)
    }

    #[test]
    fn whole_sectors_of_equal_length_pass() {
        assert_eq!(validated(XTS, 7, (1024, 1024), 512), Ok(()));
        for (from, to, sector_len) in [(1024, 512, 512), (512, 1024, 512), (700, 700, 512), (1024, 1024, 0)] {
            let outcome = validated(XTS, 7, (from, to), sector_len);
            assert!(matches!(outcome, Err(Refusal::Misuse(_))), "{from} {to}");
        }
        assert_eq!(validated(XTS, u64::MAX - 1, (512, 512), 256), Ok(()));
        assert!(matches!(validated(XTS, u64::MAX, (512, 512), 256), Err(Refusal::Misuse(_))));
        let aead = Algorithm::Aead(Aead::XAes256Gcm);
        assert_eq!(validated(aead, 0, (512, 512), 256), Err(Refusal::Unsupported));
    }
}
