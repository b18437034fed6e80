//! AEGIS-256X after draft-irtf-cfrg-aegis-aead: sections "The AEGIS-256
//! Algorithm" and "Parallel Modes", with two or four lanes: D in the draft.

use aes::hazmat;
use strongroom_engine::{AEGIS_NONCE_PREFIX, Tag};

use crate::process::{AeadCipher, Forged};

/// The Fibonacci sequence modulo 256, as the draft's constants C0 and C1.
const C0: u128 = u128::from_be_bytes([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 121, 98]);
const C1: u128 = u128::from_be_bytes([219, 61, 24, 85, 109, 194, 47, 241, 32, 17, 49, 66, 115, 181, 40, 221]);

/// A block of 128 bits, big-endian: the operations used do not mind.
type Block = u128;

/// V in the draft, as `v[lane][register]`.
struct State<const LANES: usize> {
    v: [[Block; 6]; LANES],
}

fn aes_round(input: Block, round_key: Block) -> Block {
    let mut block = input.to_be_bytes().into();
    hazmat::cipher_round(&mut block, &round_key.to_be_bytes().into());
    Block::from_be_bytes(block.into())
}

/// Sixteen bytes for each lane; what is missing at the end is zero.
fn split<const LANES: usize>(bytes: &[u8]) -> [Block; LANES] {
    let mut chunks = bytes.chunks(16);
    std::array::from_fn(|_| {
        let mut block = [0; 16];
        let chunk = chunks.next().unwrap_or_default();
        block[..chunk.len()].copy_from_slice(chunk);
        Block::from_be_bytes(block)
    })
}

fn xor<const LANES: usize>(data: &mut [u8], mask: [Block; LANES]) {
    for (byte, mask) in data.iter_mut().zip(mask.map(Block::to_be_bytes).as_flattened()) {
        *byte ^= mask;
    }
}

impl<const LANES: usize> State<LANES> {
    /// Bytes absorbed at once, R in the draft.
    const RATE: usize = 16 * LANES;

    fn init(key: &[u8; 32], nonce: &[u8; 32]) -> State<LANES> {
        let [k0, k1] = split::<2>(key);
        let [n0, n1] = split::<2>(nonce);
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
        for chunk in ad.chunks(Self::RATE) {
            self.update(split(chunk));
        }
    }

    fn mask(&self) -> [Block; LANES] {
        self.v.map(|v| v[1] ^ v[4] ^ v[5] ^ (v[2] & v[3]))
    }

    fn encrypt(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(Self::RATE) {
            let mask = self.mask();
            self.update(split(chunk));
            xor(chunk, mask);
        }
    }

    /// Dec for whole chunks and DecPartial for the last.
    fn decrypt(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(Self::RATE) {
            xor(chunk, self.mask());
            self.update(split(chunk));
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

fn encrypt<const LANES: usize>(key: &[u8; 32], nonce: &[u8; 32], ad: &[u8], data: &mut [u8]) -> Tag {
    let mut state = State::<LANES>::init(key, nonce);
    state.absorb(ad);
    state.encrypt(data);
    state.finalize(ad.len(), data.len())
}

fn decrypt<const LANES: usize>(
    key: &[u8; 32],
    nonce: &[u8; 32],
    ad: &[u8],
    tag: &Tag,
    data: &mut [u8],
) -> Result<(), Forged> {
    let mut state = State::<LANES>::init(key, nonce);
    state.absorb(ad);
    state.decrypt(data);
    match state.finalize(ad.len(), data.len()) == *tag {
        true => Ok(()),
        false => Err(Forged),
    }
}

/// A key for AEGIS-256 in parallel lanes.
pub(super) struct Aegis<const LANES: usize> {
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl<const LANES: usize> Aegis<LANES> {
    pub(super) fn new(key: &[u8; 32]) -> Aegis<LANES> {
        Aegis { key: zeroize::Zeroizing::new(*key) }
    }
}

fn padded(nonce: &[u8; 24]) -> [u8; 32] {
    let mut padded = [0; 32];
    padded[..8].copy_from_slice(&AEGIS_NONCE_PREFIX);
    padded[8..].copy_from_slice(nonce);
    padded
}

impl<const LANES: usize> AeadCipher for Aegis<LANES> {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        encrypt::<LANES>(&self.key, &padded(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        decrypt::<LANES>(&self.key, &padded(nonce), ad, tag, data)
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
    fn draft_vectors<const LANES: usize>(tag_1: &str, ciphertext_2: &str, tag_2: &str) {
        let key = std::array::from_fn(|i| i as u8);
        let nonce = std::array::from_fn(|i| i as u8 + 0x10);
        assert_eq!(HEXLOWER.encode(&encrypt::<LANES>(&key, &nonce, &[], &mut [])), tag_1);

        let ad = [1, 2, 3, 4, 1, 2, 3, 4];
        let plaintext = [4, 5, 6, 7].repeat(30);
        let mut data = plaintext.clone();
        let tag = encrypt::<LANES>(&key, &nonce, &ad, &mut data);
        assert_eq!(HEXLOWER.encode(&tag), tag_2);
        assert_eq!(HEXLOWER.encode(&data), ciphertext_2);
        assert!(decrypt::<LANES>(&key, &nonce, &ad, &tag, &mut data).is_ok());
        assert_eq!(data, plaintext);
    }

    #[test]
    fn two_lanes() {
        draft_vectors::<2>(
            "62cdbab084c83dacdb945bb446f049c8",
            "72120c2ea8236180d67859001f4729077b7064c414384fe3a7b52f1571f4f8a7d0f01e18db4f3bc0\
             adb150702e5d147a8d36522132761b994c1bd395589e2ccf0790dfe2a3d12d61cd666b2859827739\
             db4037dd3124c78424459376f6cac08e1a7223a2a43e398ce6385cd654a19f481cba3b8f25910b42",
            "635d391828520bf1512763f0c8f5cdbd",
        );
    }

    #[test]
    fn four_lanes() {
        draft_vectors::<4>(
            "3b7fee6cee7bf17888ad11ed2397beb4",
            "bfc2085b7e8017da99b0b6d646ae4d01f4ba8f2e7dfca1d759ae48a135139b9aaac6b4f5db810d42\
             6be1fdaff4e1454153a34b11da78ed7e418ee2ee9853042e95536aecbb694cea1b16a478eb0d4d1b\
             f6509b1ce652a45af58e0e46ffccfa2d0426e702391d2ff5813808b81748a490dd656465fed61f09",
            "b63b611b13975e2f3dc3cb6c2397bfcd",
        );
    }
}
