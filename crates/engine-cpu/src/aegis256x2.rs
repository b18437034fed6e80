//! AEGIS-256X2 through libaegis, which picks its instructions at run time.

use aegis::aegis256x2::Aegis256X2;
use strongroom_engine::{AEGIS_NONCE_PREFIX, Tag};
use zeroize::Zeroizing;

use crate::process::{AeadCipher, Forged};

/// A key for AEGIS-256X2.
pub(crate) struct Aegis {
    key: Zeroizing<[u8; 32]>,
}

impl Aegis {
    pub(crate) fn new(key: &[u8; 32]) -> Aegis {
        Aegis { key: Zeroizing::new(*key) }
    }

    fn with_nonce(&self, nonce: &[u8; 24]) -> Aegis256X2<16> {
        let mut padded = [0; 32];
        padded[..8].copy_from_slice(&AEGIS_NONCE_PREFIX);
        padded[8..].copy_from_slice(nonce);
        Aegis256X2::new(&self.key, &padded)
    }
}

impl AeadCipher for Aegis {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        self.with_nonce(nonce).encrypt_in_place(data, ad)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        self.with_nonce(nonce).decrypt_in_place(data, tag, ad).map_err(|_| Forged)
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

    /// The published vector, whose nonce does not begin with our prefix.
    #[test]
    fn draft_vector_2() {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let nonce: [u8; 32] = std::array::from_fn(|i| i as u8 + 0x10);
        let mut data = [4, 5, 6, 7].repeat(30);
        let ad = [1, 2, 3, 4, 1, 2, 3, 4];
        let tag = Aegis256X2::<16>::new(&key, &nonce).encrypt_in_place(&mut data, &ad);
        assert_eq!(HEXLOWER.encode(&tag), "635d391828520bf1512763f0c8f5cdbd");
        assert!(HEXLOWER.encode(&data).starts_with("72120c2ea8236180d67859001f472907"));
        assert!(HEXLOWER.encode(&data).ends_with("6385cd654a19f481cba3b8f25910b42"));
    }
}
