//! Verifying a whole file on one thread. How a file is looked at stands in
//! `examine`.

use strongroom_engine::Buffer;

use super::Content;
use super::examine::Loss;
use crate::error::Result;

/// What verifying a file has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Plain bytes that were opened; holes do not count.
    pub bytes: u64,
    /// Everything that is lost, in the order of the file.
    pub damage: Vec<Loss>,
}

impl Verification {
    /// Where the first damage begins, or might; `None` when there is none.
    #[must_use]
    pub fn good_len(&self) -> Option<u64> {
        let first = self.damage.first()?;
        Some(first.range.as_ref().map_or(0, |range| range.start))
    }
}

impl Content {
    /// Opens every page and block, and tells `progress` the bytes opened since
    /// its last call.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verification> {
        let examination = self.examination()?;
        let mut sink = |_: u64, bytes: &[u8]| {
            progress(bytes.len() as u64);
            true
        };
        let examined = self.examine(examination.groups(), &mut Buffer::empty(), &mut sink)?;
        let bytes = examined.bytes;
        Ok(Verification { bytes, damage: Self::conclude(examination, examined) })
    }
}
