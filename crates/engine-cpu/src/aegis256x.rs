//! AEGIS-256X2 and AEGIS-256X4 through libaegis, which picks its instructions
//! at run time.

use std::marker::PhantomData;

use aegis::aegis256x2::Aegis256X2;
use aegis::aegis256x4::Aegis256X4;
use strongroom_engine::{AEGIS_NONCE_PREFIX, Tag};
use zeroize::Zeroizing;

use crate::process::{AeadCipher, Forged};

/// libaegis for one number of lanes.
pub(crate) trait Lanes: Send + Sync {
    fn seal(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], data: &mut [u8]) -> Tag;
    fn open(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged>;
}

macro_rules! lanes {
    ($($lanes:ident is $cipher:ident, $words:literal;)*) => {$(
        #[doc = $words]
        pub(crate) struct $lanes;

        impl Lanes for $lanes {
            fn seal(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], data: &mut [u8]) -> Tag {
                $cipher::new(key, nonce).encrypt_in_place(data, ad)
            }

            fn open(
                key: &[u8; 32],
                nonce: &[u8; 32],
                ad: &[u8],
                tag: &Tag,
                data: &mut [u8],
            ) -> Result<(), Forged> {
                $cipher::new(key, nonce).decrypt_in_place(data, tag, ad).map_err(|_| Forged)
            }
        }
    )*};
}

lanes! {
    Two is Aegis256X2, "Two states side by side: 32 bytes a step.";
    Four is Aegis256X4, "Four states side by side: 64 bytes a step, a register of AVX-512.";
}

/// A key for AEGIS-256 in parallel lanes.
pub(crate) struct Aegis<L> {
    key: Zeroizing<[u8; 32]>,
    lanes: PhantomData<L>,
}

impl<L: Lanes> Aegis<L> {
    pub(crate) fn new(key: &[u8; 32]) -> Aegis<L> {
        Aegis { key: Zeroizing::new(*key), lanes: PhantomData }
    }
}

/// The cipher's nonce: the fixed prefix, then the contract's.
fn padded(nonce: &[u8; 24]) -> [u8; 32] {
    let mut padded = [0; 32];
    padded[..8].copy_from_slice(&AEGIS_NONCE_PREFIX);
    padded[8..].copy_from_slice(nonce);
    padded
}

impl<L: Lanes> AeadCipher for Aegis<L> {
    type Cursor<'a>
        = ()
    where
        L: 'a;

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        L::seal(&self.key, &padded(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        L::open(&self.key, &padded(nonce), ad, tag, data)
    }

    /// Not asked for: the keystream of AEGIS depends on the data.
    fn keystream(&self, (): &mut (), _nonce: &[u8; 24], data: &mut [u8]) {
        debug_assert!(false, "AEGIS has no keystream operation");
        data.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    /// Tag, first and last bytes of the draft's vector 2, whose nonce does not
    /// begin with our prefix.
    fn draft_vector_2<L: Lanes>(tag: &str, first: &str, last: &str) {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let nonce: [u8; 32] = std::array::from_fn(|i| i as u8 + 0x10);
        let mut data = [4, 5, 6, 7].repeat(30);
        let ad = [1, 2, 3, 4, 1, 2, 3, 4];
        assert_eq!(HEXLOWER.encode(&L::seal(&key, &nonce, &ad, &mut data)), tag);
        assert!(HEXLOWER.encode(&data).starts_with(first));
        assert!(HEXLOWER.encode(&data).ends_with(last));
    }

    #[test]
    fn draft_vectors() {
        draft_vector_2::<Two>(
            "635d391828520bf1512763f0c8f5cdbd",
            "72120c2ea8236180d67859001f472907",
            "6385cd654a19f481cba3b8f25910b42",
        );
        draft_vector_2::<Four>(
            "b63b611b13975e2f3dc3cb6c2397bfcd",
            "bfc2085b7e8017da99b0b6d646ae4d01",
            "13808b81748a490dd656465fed61f09",
        );
    }
}
