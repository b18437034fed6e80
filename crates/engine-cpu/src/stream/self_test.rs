//! Known answers, computed before an algorithm is given out: the compiler, the
//! CPU or its microcode may be broken on this machine.
//!
//! One message of 2,501 bytes (2,496 in CBC), in pieces that take every kernel
//! and every end of one. The answers are OpenSSL 4.0's. The ciphertext stands
//! here as one number, in which every bit of it is.

use super::{AesCbc, AesCtr, AesGcm, CbcKey, ChaCha20Poly1305, GcmKey, XtsKey};

/// What can be had in pieces, with the bytes of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`AesCtr`].
    Ctr(usize),
    /// [`AesCbc`].
    Cbc(usize),
    /// [`XtsKey`].
    Xts(usize),
    /// [`AesGcm`].
    Gcm(usize),
    /// [`ChaCha20Poly1305`].
    ChaCha20Poly1305,
}

const LEN: usize = 2501;
const PIECES: [usize; 7] = [1, 15, 16, 100, 700, 1500, usize::MAX];

/// Of a ciphertext, and the tag as a little-endian number.
struct Answer(u128, u128);

impl Kind {
    fn answer(self) -> Option<Answer> {
        Some(match self {
            Kind::Ctr(16) => Answer(0x52d7_c8ee_20cb_0b16_d682_4bbf_e282_5292, 0),
            Kind::Ctr(24) => Answer(0x0468_3a69_ec77_96ad_7a7f_b67e_b7ac_2e0f, 0),
            Kind::Ctr(32) => Answer(0x5782_5a33_4174_0da6_cd72_9544_d4d0_b044, 0),
            Kind::Cbc(16) => Answer(0xa46c_801d_ae4f_8a5c_a19f_b907_2ba5_f71e, 0),
            Kind::Cbc(24) => Answer(0x9fa7_1198_90b6_4e3d_b29c_d41c_d180_7236, 0),
            Kind::Cbc(32) => Answer(0x570b_8184_ce9a_e328_a14f_6e3c_e6e6_3bf5, 0),
            Kind::Xts(32) => Answer(0x5b10_f5b4_8ed5_7d9a_c0ac_fe19_d429_1885, 0),
            Kind::Xts(64) => Answer(0xe86e_0d91_5862_9b09_d6d9_24a5_1678_612d, 0),
            Kind::Gcm(16) => {
                Answer(0x9493_dd1a_7ad2_006b_58b8_1c28_b27c_f831, 0xb059_4915_a510_5fa1_195e_1f3a_3fef_1c47)
            }
            Kind::Gcm(24) => {
                Answer(0x8dfa_c9e7_5990_438e_e807_7f24_7975_e3d9, 0xc7f1_039f_69a6_4cad_161b_5f20_001e_e146)
            }
            Kind::Gcm(32) => {
                Answer(0x1745_15ae_f094_636e_18f8_fe59_eadc_643a, 0xba08_7c09_9452_a686_4c99_c5e6_9082_dd9b)
            }
            Kind::ChaCha20Poly1305 => {
                Answer(0xf9d4_1e16_28a9_4af4_d00b_416a_6e81_439f, 0x8152_333f_97fa_97bf_59aa_3e40_110c_48ed)
            }
            _ => return None,
        })
    }

    /// True when the known answer comes out, encrypting and decrypting. False
    /// for a key length that the algorithm does not have.
    #[must_use]
    pub fn passes(self) -> bool {
        let Some(Answer(folded, tag)) = self.answer() else { return false };
        let plain: Vec<u8> = (0..LEN).map(|at| (at * 31) as u8).collect();
        let mut data = plain.clone();
        self.run(true, &mut data) == Some(tag)
            && fold(self.used(&data)) == folded
            && self.run(false, &mut data) == Some(tag)
            && data == plain
    }

    /// CBC leaves alone what is no whole block.
    fn used(self, data: &[u8]) -> &[u8] {
        match self {
            Kind::Cbc(_) => &data[..LEN / 16 * 16],
            _ => data,
        }
    }

    /// Encrypts or decrypts the message, and says what the tag is.
    fn run(self, encrypt: bool, data: &mut [u8]) -> Option<u128> {
        let key: [u8; 64] = std::array::from_fn(|at| (at * 7 + 1) as u8);
        let iv: [u8; 16] = std::array::from_fn(|at| (at * 11 + 3) as u8);
        let nonce = iv.first_chunk::<12>().expect("of sixteen");
        let ad: [u8; 21] = std::array::from_fn(|at| (at * 5 + 9) as u8);
        match self {
            Kind::Ctr(len) => {
                let mut ctr = AesCtr::new(&key[..len], &iv)?;
                in_pieces(data, |piece| ctr.apply(piece));
                Some(0)
            }
            Kind::Cbc(len) => {
                let mut cbc = AesCbc::new(&CbcKey::new(&key[..len])?, &iv);
                let (few, rest) = data[..LEN / 16 * 16].split_at_mut(48);
                for piece in [few, rest] {
                    if encrypt { cbc.encrypt(piece) } else { cbc.decrypt(piece) }
                }
                Some(0)
            }
            Kind::Xts(len) => {
                let xts = XtsKey::new(&key[..len])?;
                let tweak = xts.tweak(&iv);
                let done = if encrypt { xts.encrypt(tweak, data) } else { xts.decrypt(tweak, data) };
                done.ok().map(|()| 0)
            }
            Kind::Gcm(len) => {
                let mut gcm = AesGcm::new(&GcmKey::new(&key[..len])?, nonce);
                gcm.associate(&ad);
                let mut done = Ok(());
                in_pieces(data, |piece| {
                    done = done.and(if encrypt { gcm.seal(piece) } else { gcm.open(piece) });
                });
                done.ok().map(|()| u128::from_le_bytes(gcm.tag()))
            }
            Kind::ChaCha20Poly1305 => {
                let mut chacha = ChaCha20Poly1305::new(key.first_chunk().expect("of 64"), nonce);
                chacha.associate(&ad);
                let mut done = Ok(());
                in_pieces(data, |piece| {
                    done = done.and(if encrypt { chacha.seal(piece) } else { chacha.open(piece) });
                });
                done.ok().map(|()| u128::from_le_bytes(chacha.tag()))
            }
        }
    }
}

fn in_pieces(data: &mut [u8], mut work: impl FnMut(&mut [u8])) {
    let mut rest = data;
    for len in PIECES {
        let (piece, others) = rest.split_at_mut(len.min(rest.len()));
        work(piece);
        rest = others;
    }
}

fn fold(data: &[u8]) -> u128 {
    data.chunks(16).fold(0u128, |folded, chunk| {
        let mut block = [0; 16];
        block[..chunk.len()].copy_from_slice(chunk);
        folded.rotate_left(5) ^ u128::from_le_bytes(block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pass_and_other_lengths_do_not() {
        let with_keys =
            [16, 24, 32].into_iter().flat_map(|len| [Kind::Ctr(len), Kind::Cbc(len), Kind::Gcm(len)]);
        for kind in with_keys.chain([Kind::Xts(32), Kind::Xts(64), Kind::ChaCha20Poly1305]) {
            assert!(kind.passes(), "{kind:?}");
        }
        for kind in [Kind::Ctr(17), Kind::Cbc(0), Kind::Gcm(64), Kind::Xts(48)] {
            assert!(!kind.passes(), "{kind:?}");
        }
    }
}
