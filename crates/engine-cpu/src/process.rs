//! The loop over a batch's segments, the same for every cipher and for the
//! reference engine.

use strongroom_engine::{Batch, Completed, Operation, Outcome, SectorNumbers, Segment, Tag};

/// Segments of a batch that a cipher is told of at once.
pub(crate) const AHEAD: usize = 16;

/// The tag was wrong. The data may hold anything; the loop zeroes it.
pub(crate) struct Forged;

/// An authenticated cipher under one key.
pub(crate) trait AeadCipher: Send + Sync {
    /// What is kept from one segment to the next, such as the key derived for
    /// a nonce prefix.
    type Cursor<'a>
    where
        Self: 'a;

    /// For the first segment of a batch.
    fn cursor(&self) -> Self::Cursor<'_>;

    /// Told of the next segments to be sealed or opened, at most [`AHEAD`]: a
    /// cipher may do for all of them at once what each needs.
    fn ahead(&self, _cursor: &mut Self::Cursor<'_>, _segments: &[Segment]) {}

    /// Encrypts `data` in place.
    fn seal(&self, cursor: &mut Self::Cursor<'_>, nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag;

    /// Checks the tag and decrypts `data` in place.
    fn open(
        &self,
        cursor: &mut Self::Cursor<'_>,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged>;

    /// As [`AeadCipher::seal`], with a mask that covers the data, where that
    /// spares work.
    fn seal_masked(
        &self,
        cursor: &mut Self::Cursor<'_>,
        nonce: &[u8; 24],
        ad: &[u8],
        data: &mut [u8],
        _mask: &[u8],
    ) -> Tag {
        self.seal(cursor, nonce, ad, data)
    }

    /// As [`AeadCipher::open`], likewise.
    fn open_masked(
        &self,
        cursor: &mut Self::Cursor<'_>,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
        _mask: &[u8],
    ) -> Result<(), Forged> {
        self.open(cursor, nonce, ad, tag, data)
    }

    /// Replaces `data` by the bytes that sealing XORs onto its data. Not
    /// called for ciphers that have no such operation.
    fn keystream(&self, cursor: &mut Self::Cursor<'_>, nonce: &[u8; 24], data: &mut [u8]);
}

/// A segment of whole sectors.
pub(crate) struct SectorSegment<'d> {
    /// The sectors' numbers.
    pub(crate) numbers: SectorNumbers,
    /// Bytes of a sector, a multiple of 16.
    pub(crate) sector_len: usize,
    /// A multiple of `sector_len`.
    pub(crate) data: &'d mut [u8],
}

/// A cipher for sectors under one key.
pub(crate) trait SectorCipher: Send + Sync {
    /// Encrypts or decrypts the sectors of one segment in place.
    fn sectors(&self, operation: Operation, segment: SectorSegment<'_>);
}

/// What an algorithm with a nonce of 12 bytes takes of the contract's.
pub(crate) fn short_nonce(nonce: &[u8; 24]) -> [u8; 12] {
    nonce[12..].try_into().expect("twelve bytes")
}

/// Processes a batch that has been validated for an authenticated cipher.
pub(crate) fn aead<C: AeadCipher>(cipher: &C, mut batch: Batch) -> Completed {
    let mut outcome = Outcome::Done;
    let mut cursor = cipher.cursor();
    for segments in batch.segments.chunks_mut(AHEAD) {
        if batch.operation != Operation::Keystream {
            cipher.ahead(&mut cursor, segments);
        }
        for segment in segments {
            let data = &mut batch.buffer[segment.range()];
            let mask = segment.take_mask();
            let mask = mask.as_ref().map(|mask| mask.bytes());
            match batch.operation {
                Operation::Seal => {
                    let (nonce, ad) = (segment.nonce(), segment.associated_data());
                    let tag = match mask {
                        Some(mask) => cipher.seal_masked(&mut cursor, nonce, ad, data, mask),
                        None => cipher.seal(&mut cursor, nonce, ad, data),
                    };
                    segment.set_done(Some(tag));
                }
                Operation::Keystream => {
                    cipher.keystream(&mut cursor, segment.nonce(), data);
                    segment.set_done(None);
                }
                _ => {
                    let (nonce, ad, tag) = (segment.nonce(), segment.associated_data(), segment.tag());
                    let opened = match mask {
                        Some(mask) => cipher.open_masked(&mut cursor, nonce, ad, tag, data, mask),
                        None => cipher.open(&mut cursor, nonce, ad, tag, data),
                    };
                    match opened {
                        Ok(()) => segment.set_done(None),
                        Err(Forged) => {
                            data.fill(0);
                            segment.set_forged();
                            outcome = Outcome::AuthenticationFailed;
                        }
                    }
                }
            }
        }
    }
    Completed { batch, outcome }
}

/// Processes a batch that has been validated for a sector cipher.
pub(crate) fn sectors<C: SectorCipher>(cipher: &C, mut batch: Batch) -> Completed {
    for segment in &mut batch.segments {
        let part = SectorSegment {
            numbers: segment.sector_numbers(),
            sector_len: segment.sector_len() as usize,
            data: &mut batch.buffer[segment.range()],
        };
        cipher.sectors(batch.operation, part);
        segment.set_done(None);
    }
    Completed { batch, outcome: Outcome::Done }
}
