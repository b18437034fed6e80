//! AEGIS-256X2 after draft-irtf-cfrg-aegis-aead: sections "The AEGIS-256
//! Algorithm" and "Parallel Modes", with two lanes.

use aes::hazmat;
use strongroom_engine::{AEGIS_NONCE_PREFIX, Tag};

use crate::process::{AeadCipher, Forged};

/// Lanes, D in the draft.
const LANES: usize = 2;

/// Bytes absorbed at once, R in the draft.
const RATE: usize = 16 * LANES;

/// The Fibonacci sequence modulo 256, as the draft's constants C0 and C1.
const C0: u128 = u128::from_be_bytes([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 121, 98]);
const C1: u128 = u128::from_be_bytes([219, 61, 24, 85, 109, 194, 47, 241, 32, 17, 49, 66, 115, 181, 40, 221]);

/// A block of 128 bits, big-endian: the operations used do not mind.
type Block = u128;

/// V in the draft, as `v[lane][register]`.
struct State {
    v: [[Block; 6]; LANES],
}

fn aes_round(input: Block, round_key: Block) -> Block {
    let mut block = input.to_be_bytes().into();
    hazmat::cipher_round(&mut block, &round_key.to_be_bytes().into());
    Block::from_be_bytes(block.into())
}

fn split(bytes: &[u8; RATE]) -> [Block; LANES] {
    std::array::from_fn(|lane| {
        Block::from_be_bytes(bytes[16 * lane..16 * lane + 16].try_into().expect("sixteen bytes"))
    })
}

fn join(blocks: [Block; LANES]) -> [u8; RATE] {
    let mut bytes = [0; RATE];
    for (bytes, block) in bytes.chunks_exact_mut(16).zip(blocks) {
        bytes.copy_from_slice(&block.to_be_bytes());
    }
    bytes
}

fn zero_pad(bytes: &[u8]) -> [u8; RATE] {
    let mut padded = [0; RATE];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}

impl State {
    fn init(key: &[u8; 32], nonce: &[u8; 32]) -> State {
        let [k0, k1] = split(key);
        let [n0, n1] = split(nonce);
        let mut state = State { v: [[k0 ^ n0, k1 ^ n1, C1, C0, k0 ^ C0, k1 ^ C1]; LANES] };
        for _ in 0..4 {
            for message in [k0, k1, k0 ^ n0, k1 ^ n1] {
                for (lane, registers) in state.v.iter_mut().enumerate() {
                    let context = (lane as Block) << 120 | (LANES as Block - 1) << 112;
                    registers[3] ^= context;
                    registers[5] ^= context;
                }
                state.update([message; LANES]);
            }
        }
        state
    }

    fn update(&mut self, message: [Block; LANES]) {
        for (v, m) in self.v.iter_mut().zip(message) {
            *v = [
                aes_round(v[5], v[0] ^ m),
                aes_round(v[0], v[1]),
                aes_round(v[1], v[2]),
                aes_round(v[2], v[3]),
                aes_round(v[3], v[4]),
                aes_round(v[4], v[5]),
            ];
        }
    }

    fn absorb(&mut self, ad: &[u8]) {
        for chunk in ad.chunks(RATE) {
            self.update(split(&zero_pad(chunk)));
        }
    }

    fn mask(&self) -> [u8; RATE] {
        join(self.v.map(|v| v[1] ^ v[4] ^ v[5] ^ (v[2] & v[3])))
    }

    fn encrypt(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(RATE) {
            let mask = self.mask();
            self.update(split(&zero_pad(chunk)));
            xor(chunk, &mask);
        }
    }

    /// Dec for whole chunks and DecPartial for the last.
    fn decrypt(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(RATE) {
            xor(chunk, &self.mask());
            self.update(split(&zero_pad(chunk)));
        }
    }

    fn finalize(mut self, ad_len: usize, data_len: usize) -> Tag {
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(ad_len as u64 * 8).to_le_bytes());
        lengths[8..].copy_from_slice(&(data_len as u64 * 8).to_le_bytes());
        let lengths = Block::from_be_bytes(lengths);
        let message = self.v.map(|v| v[3] ^ lengths);
        for _ in 0..7 {
            self.update(message);
        }
        self.v.iter().flatten().fold(0, |tag, block| tag ^ block).to_be_bytes()
    }
}

fn xor(data: &mut [u8], mask: &[u8]) {
    for (byte, mask) in data.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

fn encrypt(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], data: &mut [u8]) -> Tag {
    let mut state = State::init(key, nonce);
    state.absorb(ad);
    state.encrypt(data);
    state.finalize(ad.len(), data.len())
}

fn decrypt(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged> {
    let mut state = State::init(key, nonce);
    state.absorb(ad);
    state.decrypt(data);
    match state.finalize(ad.len(), data.len()) == *tag {
        true => Ok(()),
        false => Err(Forged),
    }
}

/// A key for AEGIS-256X2.
pub(super) struct Aegis {
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl Aegis {
    pub(super) fn new(key: &[u8; 32]) -> Aegis {
        Aegis { key: zeroize::Zeroizing::new(*key) }
    }
}

fn padded(nonce: &[u8; 24]) -> [u8; 32] {
    let mut padded = [0; 32];
    padded[..8].copy_from_slice(&AEGIS_NONCE_PREFIX);
    padded[8..].copy_from_slice(nonce);
    padded
}

impl AeadCipher for Aegis {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        encrypt(&self.key, &padded(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        decrypt(&self.key, &padded(nonce), ad, tag, data)
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

    /// The draft's vectors 1 and 2, whose nonce does not begin with our prefix.
    #[test]
    fn draft_vectors() {
        let key = std::array::from_fn(|i| i as u8);
        let nonce = std::array::from_fn(|i| i as u8 + 0x10);
        assert_eq!(HEXLOWER.encode(&encrypt(&key, &nonce, &[], &mut [])), "62cdbab084c83dacdb945bb446f049c8");

        let ad = [1, 2, 3, 4, 1, 2, 3, 4];
        let plaintext = [4, 5, 6, 7].repeat(30);
        let mut data = plaintext.clone();
        let tag = encrypt(&key, &nonce, &ad, &mut data);
        assert_eq!(HEXLOWER.encode(&tag), "635d391828520bf1512763f0c8f5cdbd");
        assert_eq!(
            HEXLOWER.encode(&data),
            "72120c2ea8236180d67859001f4729077b7064c414384fe3a7b52f1571f4f8a7d0f01e18db4f3bc0\
             adb150702e5d147a8d36522132761b994c1bd395589e2ccf0790dfe2a3d12d61cd666b2859827739\
             db4037dd3124c78424459376f6cac08e1a7223a2a43e398ce6385cd654a19f481cba3b8f25910b42"
        );
        assert!(decrypt(&key, &nonce, &ad, &tag, &mut data).is_ok());
        assert_eq!(data, plaintext);
    }
}
