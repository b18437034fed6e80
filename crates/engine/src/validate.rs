//! The checks that every engine makes before it touches a batch.
//!
//! They cost one pass over the segments and no allocation for segments in
//! ascending order, which is how consumers build them.

use crate::batch::Purpose;
use crate::{Aead, Algorithm, Batch, Operation, Refusal, Segment, Verdict};

/// Bytes of an AES block, the unit of a sector's length.
const CIPHER_BLOCK_LEN: usize = 16;

impl Algorithm {
    /// True when the algorithm has this operation at all, on any engine.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        match self {
            Algorithm::Aead(aead) => match operation {
                Operation::Seal | Operation::Open => true,
                Operation::Keystream => !matches!(aead, Aead::Aegis256X2 | Aead::Aegis256X4),
                Operation::EncryptSectors | Operation::DecryptSectors => false,
            },
            Algorithm::Sector(_) => {
                matches!(operation, Operation::EncryptSectors | Operation::DecryptSectors)
            }
        }
    }
}

impl Batch {
    /// Checks the batch against a session's algorithm: that the algorithm has
    /// the operation, that segments lie in the buffer and do not overlap, were
    /// made for this operation, and were not processed before (which would use
    /// a nonce twice).
    ///
    /// # Errors
    /// [`Refusal::Unsupported`] for an operation the algorithm does not have,
    /// [`Refusal::Misuse`] for everything else.
    pub fn validate(&self, algorithm: Algorithm) -> Result<(), Refusal> {
        if !algorithm.has(self.operation) {
            return Err(Refusal::Unsupported);
        }
        let purpose = match self.operation {
            Operation::Seal => Purpose::Seal,
            Operation::Open => Purpose::Open,
            Operation::Keystream => Purpose::Keystream,
            Operation::EncryptSectors | Operation::DecryptSectors => Purpose::Sectors,
        };
        let mut end_of_last = 0;
        let mut ascending = true;
        for segment in &self.segments {
            if segment.purpose() != purpose {
                return Err(Refusal::Misuse("a segment was made for another operation"));
            }
            if segment.verdict() != Verdict::Pending {
                return Err(Refusal::Misuse("a segment was processed before"));
            }
            let end = match segment.start().checked_add(segment.len()) {
                Some(end) if end <= self.buffer.len() => end,
                _ => return Err(Refusal::Misuse("a segment lies outside the buffer")),
            };
            if let Algorithm::Aead(aead) = algorithm
                && segment.nonce()[..24 - aead.nonce_len()].iter().any(|&byte| byte != 0)
            {
                return Err(Refusal::Misuse("the algorithm's nonce has 12 bytes, after 12 of zero"));
            }
            if purpose == Purpose::Sectors {
                check_sectors(algorithm, segment)?;
            }
            ascending &= segment.start() >= end_of_last;
            end_of_last = end;
        }
        if !ascending && overlap(&self.segments) {
            return Err(Refusal::Misuse("segments overlap"));
        }
        Ok(())
    }
}

pub(crate) fn check_sectors(algorithm: Algorithm, segment: &Segment) -> Result<(), Refusal> {
    let Algorithm::Sector(sector) = algorithm else {
        return Err(Refusal::Unsupported);
    };
    let sector_len = segment.sector_len() as usize;
    if sector_len == 0 || !sector_len.is_multiple_of(CIPHER_BLOCK_LEN) {
        return Err(Refusal::Misuse("a sector is not a multiple of 16 bytes"));
    }
    if !segment.len().is_multiple_of(sector_len) {
        return Err(Refusal::Misuse("a segment is not a whole number of sectors"));
    }
    match segment.sector_numbers().last(segment.len() / sector_len) {
        Some(last) if last <= sector.iv.number_max() => Ok(()),
        _ => Err(Refusal::Misuse("sector numbers exceed the bits of the IV")),
    }
}

/// For segments out of order, which is rare enough to allocate for.
fn overlap(segments: &[Segment]) -> bool {
    let mut ranges: Vec<_> =
        segments.iter().filter(|segment| !segment.is_empty()).map(Segment::range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AssociatedData, Buffer, NonceSource, SectorCipher, SectorIv, SectorNumbers, StoredNonce};

    const XAES: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);
    const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);

    fn open_batch(ranges: &[(usize, usize)]) -> Batch {
        let segments = ranges
            .iter()
            .map(|&(start, len)| {
                Segment::open(start, len, StoredNonce::new([7; 24]), AssociatedData::new(&[]), [0; 16])
            })
            .collect();
        Batch::new(Operation::Open, Buffer::new(100), segments)
    }

    fn sector_batch(len: usize, first: u64, sector_len: u32) -> Batch {
        let segments = vec![Segment::sectors(0, len, first, sector_len)];
        Batch::new(Operation::EncryptSectors, Buffer::new(4096), segments)
    }

    #[test]
    fn disjoint_segments_pass_in_any_order() {
        for ranges in [&[(0, 10), (10, 90)][..], &[(50, 50), (0, 50), (10, 0)], &[(100, 0)], &[]] {
            assert_eq!(open_batch(ranges).validate(XAES), Ok(()), "{ranges:?}");
        }
    }

    #[test]
    fn overlapping_and_outlying_segments_are_misuse() {
        for ranges in
            [&[(0, 11), (10, 90)][..], &[(50, 50), (0, 51)], &[(101, 0)], &[(1, 100)], &[(usize::MAX, 2)]]
        {
            let refusal = open_batch(ranges).validate(XAES).unwrap_err();
            assert!(matches!(refusal, Refusal::Misuse(_)), "{ranges:?}");
        }
    }

    #[test]
    fn a_stored_nonce_never_seals_and_a_segment_is_sealed_once() {
        let mut batch = open_batch(&[(0, 10)]);
        batch.operation = Operation::Seal;
        assert!(matches!(batch.validate(XAES), Err(Refusal::Misuse(_))));

        let nonce = NonceSource::new().unwrap().batch(10).unwrap().draw();
        let segment = Segment::seal(0, 10, nonce, AssociatedData::new(&[]));
        let mut batch = Batch::new(Operation::Seal, Buffer::new(10), vec![segment]);
        assert_eq!(batch.validate(XAES), Ok(()));
        batch.segments[0].set_done(None);
        assert!(matches!(batch.validate(XAES), Err(Refusal::Misuse(_))));
    }

    #[test]
    fn operations_that_an_algorithm_lacks_are_unsupported() {
        assert_eq!(open_batch(&[]).validate(XTS), Err(Refusal::Unsupported));
        assert_eq!(sector_batch(0, 0, 512).validate(XAES), Err(Refusal::Unsupported));
        let keystream = Batch::new(Operation::Keystream, Buffer::empty(), Vec::new());
        for aead in [Aead::Aegis256X2, Aead::Aegis256X4] {
            assert_eq!(keystream.validate(Algorithm::Aead(aead)), Err(Refusal::Unsupported));
        }
        assert_eq!(keystream.validate(XAES), Ok(()));
    }

    #[test]
    fn a_short_nonce_has_zeros_before_it() {
        let batch = |nonce| {
            let segment = Segment::open(0, 10, nonce, AssociatedData::new(&[]), [0; 16]);
            Batch::new(Operation::Open, Buffer::new(10), vec![segment])
        };
        let chacha = Algorithm::Aead(Aead::ChaCha20Poly1305);
        assert_eq!(batch(StoredNonce::of_stream(u64::MAX, true)).validate(chacha), Ok(()));
        let drawn = NonceSource::new().unwrap().batch(10).unwrap().draw();
        let refusal = batch(StoredNonce::new(drawn.bytes())).validate(chacha);
        assert!(matches!(refusal, Err(Refusal::Misuse(_))));
    }

    #[test]
    fn numbers_fit_the_rule_of_the_iv() {
        let last_of = |first, step| {
            let numbers = SectorNumbers { first, step };
            let segments = vec![Segment::numbered_sectors(0, 1024, numbers, 512)];
            Batch::new(Operation::EncryptSectors, Buffer::new(1024), segments)
        };
        let above = u128::from(u64::MAX);
        let wide =
            Algorithm::Sector(SectorCipher { iv: SectorIv::Plain128, ..SectorCipher::AES_XTS_PLAIN64 });
        assert_eq!(last_of(above - 8, 8).validate(XTS), Ok(()));
        assert!(matches!(last_of(above - 8, 9).validate(XTS), Err(Refusal::Misuse(_))));
        assert_eq!(last_of(above, 9).validate(wide), Ok(()));
        assert!(matches!(last_of(u128::MAX, 1).validate(wide), Err(Refusal::Misuse(_))));
        assert_eq!(last_of(u128::MAX, 0).validate(wide), Ok(()));
    }

    #[test]
    fn sectors_are_whole_and_numbered_in_64_bits() {
        assert_eq!(sector_batch(4096, 0, 512).validate(XTS), Ok(()));
        assert_eq!(sector_batch(512, u64::MAX, 512).validate(XTS), Ok(()));
        for (len, first, sector_len) in [(4096, 0, 0), (4095, 0, 512), (510, 0, 510), (1024, u64::MAX, 512)] {
            assert!(matches!(sector_batch(len, first, sector_len).validate(XTS), Err(Refusal::Misuse(_))));
        }
    }
}
