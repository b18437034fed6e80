//! The loop over a batch's segments, the same for every cipher and for the
//! reference engine.

use strongroom_engine::{Batch, Completed, Operation, Outcome, Tag};

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

    /// Replaces `data` by the bytes that sealing XORs onto its data. Not
    /// called for ciphers that have no such operation.
    fn keystream(&self, cursor: &mut Self::Cursor<'_>, nonce: &[u8; 24], data: &mut [u8]);
}

/// A cipher for sectors under one key.
pub(crate) trait SectorCipher: Send + Sync {
    /// What one batch needs for itself.
    type Cursor<'a>
    where
        Self: 'a;

    /// For the sectors of a batch of this direction.
    fn cursor(&self, operation: Operation) -> Self::Cursor<'_>;

    /// Encrypts or decrypts one sector in place.
    fn sector(&self, cursor: &mut Self::Cursor<'_>, number: u64, data: &mut [u8]);
}

/// Processes a batch that has been validated for an authenticated cipher.
pub(crate) fn aead<C: AeadCipher>(cipher: &C, mut batch: Batch) -> Completed {
    let mut outcome = Outcome::Done;
    let mut cursor = cipher.cursor();
    for segment in &mut batch.segments {
        let data = &mut batch.buffer[segment.range()];
        match batch.operation {
            Operation::Seal => {
                let tag = cipher.seal(&mut cursor, segment.nonce(), segment.associated_data(), data);
                segment.set_done(Some(tag));
            }
            Operation::Keystream => {
                cipher.keystream(&mut cursor, segment.nonce(), data);
                segment.set_done(None);
            }
            _ => {
                let ad = segment.associated_data();
                match cipher.open(&mut cursor, segment.nonce(), ad, segment.tag(), data) {
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
    Completed { batch, outcome }
}

/// Processes a batch that has been validated for a sector cipher.
pub(crate) fn sectors<C: SectorCipher>(cipher: &C, mut batch: Batch) -> Completed {
    let mut cursor = cipher.cursor(batch.operation);
    for segment in &mut batch.segments {
        let sectors = batch.buffer[segment.range()].chunks_exact_mut(segment.sector_len() as usize);
        for (number, sector) in (segment.first_sector()..=u64::MAX).zip(sectors) {
            cipher.sector(&mut cursor, number, sector);
        }
        segment.set_done(None);
    }
    Completed { batch, outcome: Outcome::Done }
}
