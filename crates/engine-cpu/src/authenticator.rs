//! Poly1305 over a message in the order of RFC 8439 section 2.8: associated
//! data, ciphertext, each padded with zeros to whole blocks, then both lengths.
//!
//! Constant time: no address and no branch depends on key or data.

use strongroom_engine::Tag;
use subtle::ConstantTimeEq;

use crate::kernel::Block;
use crate::poly1305::{Key, Limbs};
use crate::process::Forged;

/// Bytes from which on powers of the one-time key are worth their making.
const POWERS_WORTH: usize = 256;

/// Poly1305 on some instructions, which the value proves to be there.
pub(crate) trait Sums: Copy + Send + Sync + 'static {
    /// Powers of a key of Poly1305, wiped when dropped.
    type Powers;

    /// Prepares [`Sums::sum`].
    fn powers(self, r: Limbs) -> Self::Powers;

    /// Adds the first blocks, as many as it can, and says how many these are.
    fn sum(self, powers: &Self::Powers, sum: Limbs, blocks: &[Block]) -> (Limbs, usize);
}

/// A message's Poly1305.
pub(crate) struct Authenticator<S: Sums> {
    sums: S,
    key: Key,
    powers: Option<S::Powers>,
    sum: Limbs,
}

impl<S: Sums> Authenticator<S> {
    /// With the associated data added.
    pub(crate) fn new(sums: S, key: &[u8; 32], ad: &[u8], data_len: usize) -> Authenticator<S> {
        let key = Key::new(key);
        let powers = (ad.len().max(data_len) >= POWERS_WORTH).then(|| sums.powers(key.r));
        let mut authenticator = Authenticator { sums, key, powers, sum: Limbs::default() };
        authenticator.add(ad);
        authenticator
    }

    /// With nothing added, for a message whose length is not known yet.
    pub(crate) fn in_pieces(sums: S, key: &[u8; 32]) -> Authenticator<S> {
        Authenticator { sums, key: Key::new(key), powers: None, sum: Limbs::default() }
    }

    /// Another one that has added the same.
    pub(crate) fn fork(&self) -> Authenticator<S> {
        Authenticator { sums: self.sums, key: self.key.clone(), powers: None, sum: self.sum }
    }

    /// Adds bytes, the last block of them padded with zeros.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (mut blocks, rest) = bytes.as_chunks::<16>();
        if bytes.len() >= POWERS_WORTH {
            let powers = self.powers.get_or_insert_with(|| self.sums.powers(self.key.r));
            let (sum, added) = self.sums.sum(powers, self.sum, blocks);
            self.sum = sum;
            blocks = &blocks[added..];
        }
        self.sum = self.sum.absorb(self.key.r, blocks);
        if !rest.is_empty() {
            let mut padded = [0; 16];
            padded[..rest.len()].copy_from_slice(rest);
            self.sum = self.sum.absorb(self.key.r, &[padded]);
        }
    }

    pub(crate) fn tag(self, ad_len: usize, data_len: usize) -> Tag {
        let lengths = ad_len as u128 | (data_len as u128) << 64;
        self.key.tag(self.sum.absorb(self.key.r, &[lengths.to_le_bytes()]))
    }
}

/// Compares in constant time.
pub(crate) fn same(expected: &Tag, tag: &Tag) -> Result<(), Forged> {
    if bool::from(expected.ct_eq(tag)) { Ok(()) } else { Err(Forged) }
}

/// The fastest [`Sums`] of this CPU, found when it runs.
#[derive(Clone, Copy)]
pub(crate) struct SumsOfThisCpu {
    #[cfg(target_arch = "x86_64")]
    ifma: Option<crate::low::cpu::Avx512Ifma>,
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Block, Limbs, Sums, SumsOfThisCpu};
    use crate::low::cpu::Avx512Ifma;
    use crate::low::poly1305::{self, Powers};

    impl Sums for Avx512Ifma {
        type Powers = Powers;

        fn powers(self, r: Limbs) -> Powers {
            Powers::new(r)
        }

        fn sum(self, powers: &Powers, sum: Limbs, blocks: &[Block]) -> (Limbs, usize) {
            let (groups, rest) = blocks.as_chunks();
            (poly1305::sum(self, powers, sum, groups), blocks.len() - rest.len())
        }
    }

    impl SumsOfThisCpu {
        pub(crate) fn detect() -> SumsOfThisCpu {
            SumsOfThisCpu { ifma: Avx512Ifma::detect() }
        }
    }

    /// Without IFMA every block is added by [`Limbs::absorb`].
    impl Sums for SumsOfThisCpu {
        type Powers = Option<Powers>;

        fn powers(self, r: Limbs) -> Option<Powers> {
            self.ifma.map(|ifma| ifma.powers(r))
        }

        fn sum(self, powers: &Option<Powers>, sum: Limbs, blocks: &[Block]) -> (Limbs, usize) {
            match (self.ifma, powers) {
                (Some(ifma), Some(powers)) => ifma.sum(powers, sum, blocks),
                _ => (sum, 0),
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::{Block, Limbs, Sums, SumsOfThisCpu};

    impl SumsOfThisCpu {
        pub(crate) fn detect() -> SumsOfThisCpu {
            SumsOfThisCpu {}
        }
    }

    impl Sums for SumsOfThisCpu {
        type Powers = ();

        fn powers(self, _r: Limbs) {}

        fn sum(self, (): &(), sum: Limbs, _blocks: &[Block]) -> (Limbs, usize) {
            (sum, 0)
        }
    }
}
