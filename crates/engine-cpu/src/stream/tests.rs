//! Pieces of any length against other code: the libraries behind the reference
//! engine, and block by block.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

use super::gcm::{FEW_MASKS, GcmRuns};
use super::*;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Short, long, and around what is done at once.
    fn piece(&mut self) -> usize {
        match self.below(6) {
            0 => self.below(3),
            1 => self.below(40),
            2 => self.below(600),
            3 => 512 * self.below(4) + self.below(3),
            4 => 16 * self.below(80),
            _ => self.below(5000),
        }
    }

    /// Calls `work` with all of the data, in pieces.
    fn pieces(&mut self, data: &mut [u8], mut work: impl FnMut(&mut [u8])) {
        let mut rest = data;
        while !rest.is_empty() {
            let len = self.piece().min(rest.len());
            let (piece, others) = rest.split_at_mut(len);
            work(piece);
            rest = others;
        }
    }
}

/// One block by the `aes` crate.
fn encrypted(key: &[u8], block: u128) -> u128 {
    let mut array = Array::from(block.to_be_bytes());
    match key.len() {
        16 => aes::Aes128::new_from_slice(key).unwrap().encrypt_block(&mut array),
        24 => aes::Aes192::new_from_slice(key).unwrap().encrypt_block(&mut array),
        _ => aes::Aes256::new_from_slice(key).unwrap().encrypt_block(&mut array),
    }
    u128::from_be_bytes(array.into())
}

#[test]
fn counter_mode_is_that_block_by_block_also_where_the_counter_wraps() {
    let mut rng = Rng(1);
    for round in 0..120 {
        let key = rng.bytes([16, 24, 32][round % 3]);
        let below_wrap = u128::from(rng.next() % 200);
        let first = match round % 4 {
            0 => u128::MAX - below_wrap,
            1 => (u128::from(rng.next()) << 64) | (u128::from(u64::MAX) - below_wrap),
            _ => u128::from(rng.next()) << 64 | u128::from(rng.next()),
        };
        let (plain, skipped) = (rng.bytes(4000), rng.below(16));
        let mut data = plain.clone();
        let mut ctr = AesCtr::new(&key, &[0; 16]).unwrap();
        ctr.apply(&mut [0; 77]);
        ctr.restart(&first.to_be_bytes(), skipped);
        let mut done = skipped;
        rng.pieces(&mut data, |piece| {
            ctr.apply(piece);
            done += piece.len();
            let next = first.wrapping_add(done.div_ceil(16) as u128).to_be_bytes();
            assert_eq!(ctr.position(), (next, done % 16));
        });
        for (at, (byte, plain)) in data.iter().zip(plain).enumerate() {
            let block = encrypted(&key, first.wrapping_add(((at + skipped) / 16) as u128)).to_be_bytes();
            assert_eq!(*byte, plain ^ block[(at + skipped) % 16], "round {round}, byte {at}");
        }
    }
}

/// GHASH by the book: bit by bit (SP 800-38D, algorithm 1).
fn ghash(key: u128, blocks: &[u8]) -> u128 {
    blocks.chunks(16).fold(0, |hash, chunk| {
        let mut block = [0; 16];
        block[..chunk.len()].copy_from_slice(chunk);
        let x = hash ^ u128::from_be_bytes(block);
        let mut v = key;
        (0..128).fold(0, |z, bit| {
            let z = if x >> (127 - bit) & 1 == 1 { z ^ v } else { z };
            v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
            z
        })
    })
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(16), 0);
    padded
}

/// GCM by the book: ciphertext and tag (SP 800-38D, algorithm 4).
fn gcm_by_the_book(key: &[u8], iv: &[u8], ad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let hash_key = encrypted(key, 0);
    let lengths = |a: usize, b: usize| (((a as u128 * 8) << 64) | (b as u128 * 8)).to_be_bytes();
    let first = match iv.len() {
        12 => u128::from_be_bytes(std::array::from_fn(|at| *iv.get(at).unwrap_or(&u8::from(at == 15)))),
        len => ghash(hash_key, &[padded(iv), lengths(0, len).to_vec()].concat()),
    };
    let counter = |at: usize| first >> 32 << 32 | u128::from((first as u32).wrapping_add(at as u32));
    let mut data = plain.to_vec();
    for (at, chunk) in data.chunks_mut(16).enumerate() {
        let mask = encrypted(key, counter(at + 1)).to_be_bytes();
        chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    let hashed = [padded(ad), padded(&data), lengths(ad.len(), data.len()).to_vec()].concat();
    let tag = ghash(hash_key, &hashed) ^ encrypted(key, first);
    (data, tag.to_be_bytes())
}

#[test]
fn gcm_is_that_of_the_book_on_every_tier() {
    let mut rng = Rng(2);
    for round in 0..150 {
        let key_bytes = rng.bytes([16, 24, 32][round % 3]);
        let iv_len = [12, 12, 12, 8, 16, 1, 33][round % 7];
        let iv = rng.bytes(iv_len);
        let ad_len = [0, 13, 1, 16, 17, 600][round % 6];
        let ad = rng.bytes(ad_len);
        let len = rng.below(7000);
        let plain = rng.bytes(len);
        let (expected, expected_tag) = gcm_by_the_book(&key_bytes, &iv, &ad, &plain);
        for tier in Tier::ALL.into_iter().filter(|tier| *tier <= Tier::best()) {
            let key = GcmKey::of_tier(tier, &key_bytes).unwrap();
            let mut gcm = AesGcm::new(&key, &[1; 12]);
            gcm.seal(&mut [0; 100]).unwrap();
            gcm.restart(&iv);
            let mut data = plain.clone();
            rng.pieces(&mut ad.clone(), |piece| gcm.associate(piece));
            rng.pieces(&mut data, |piece| gcm.seal(piece).unwrap());
            assert!(data == expected, "round {round}, {tier:?}, {len} bytes");
            assert_eq!(gcm.tag(), expected_tag, "round {round}, {tier:?}, {len} bytes");
            gcm.restart(&iv);
            gcm.associate(&ad);
            let half = len / 2;
            gcm.open(&mut data[..half]).unwrap();
            let mut other = gcm.clone();
            gcm.open(&mut data[half..]).unwrap();
            assert!(data == plain, "round {round}, {tier:?}");
            assert_eq!(gcm.tag(), expected_tag);
            // A clone goes on from where it was made.
            let mut rest = expected[half..].to_vec();
            rng.pieces(&mut rest, |piece| other.open(piece).unwrap());
            assert!(rest == plain[half..] && other.tag() == expected_tag, "round {round}");
        }
    }
}

/// An IV of other than 12 bytes may begin anywhere, the wrap of the counter's
/// 32 bits included; such IVs are looked for by what they hash to.
#[test]
fn the_counter_of_gcm_wraps_within_its_word() {
    let mut rng = Rng(3);
    let key_bytes = rng.bytes(32);
    let hash_key = encrypted(&key_bytes, 0);
    let wraps_soon = |iv: &[u8]| {
        let lengths = (iv.len() as u128 * 8).to_be_bytes();
        let first = ghash(hash_key, &[padded(iv), lengths.to_vec()].concat()) as u32;
        first > u32::MAX - (1 << 18)
    };
    // One in 16,384.
    let iv = (0u64..).map(|n| n.to_be_bytes()).find(|iv| wraps_soon(iv)).unwrap();
    let lengths = (iv.len() as u128 * 8).to_be_bytes();
    let first = ghash(hash_key, &[padded(&iv), lengths.to_vec()].concat());
    let before_wrap = u64::from(u32::MAX - first as u32);
    for tier in Tier::ALL.into_iter().filter(|tier| *tier <= Tier::best()) {
        let key = GcmKey::of_tier(tier, &key_bytes).unwrap();
        let mut gcm = AesGcm::new(&key, &iv);
        let mut data = vec![0; (before_wrap as usize + 200) * 16];
        rng.pieces(&mut data, |piece| gcm.seal(piece).unwrap());
        let mut at_once = vec![0; data.len()];
        gcm.restart(&iv);
        gcm.seal(&mut at_once).unwrap();
        assert!(data == at_once, "{tier:?}");
        for block in before_wrap - 3..before_wrap + 100 {
            let counter = first >> 32 << 32 | u128::from((first as u32).wrapping_add(block as u32 + 1));
            let expected = encrypted(&key_bytes, counter).to_be_bytes();
            assert_eq!(data[block as usize * 16..][..16], expected, "{tier:?}, block {block}");
        }
    }
}

#[test]
fn masks_of_gcm_are_what_runs_use() {
    for tier in Tier::ALL.into_iter().filter(|tier| *tier <= Tier::best()) {
        if let Some(runs) = tier.gcm_runs(&[7; 24]) {
            let runs: &dyn GcmRuns = &*runs;
            let (mut few, mut many) = ([[0; 16]; FEW_MASKS], [[0; 16]; gcm::MANY_MASKS]);
            let mut run = [0; gcm::STRIDE];
            runs.few_masks(&[9; 16], &mut few);
            runs.many_masks(&[9; 16], &mut many);
            runs.seal(&[9; 16], &mut 0, &mut run);
            assert_eq!((few.as_slice(), many.as_flattened()), (&many[..FEW_MASKS], run.as_slice()));
        }
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_untouched() {
    let key = GcmKey::new(&[1; 16]).unwrap();
    let mut gcm = AesGcm::new(&key, &[2; 12]);
    gcm.pretend_len((1 << 36) - 32 - 5);
    let mut data = [3; 6];
    assert_eq!((gcm.seal(&mut data), data), (Err(TooLong), [3; 6]));
    assert_eq!((gcm.open(&mut data), data), (Err(TooLong), [3; 6]));
    assert_eq!(gcm.open(&mut data[..5]), Ok(()));
}

#[test]
fn chacha_in_pieces_is_chacha_at_once() {
    use chacha20poly1305::aead::{AeadInOut, KeyInit as _};
    let mut rng = Rng(4);
    for round in 0..200 {
        let (key, nonce): ([u8; 32], [u8; 12]) =
            (rng.bytes(32).try_into().unwrap(), rng.bytes(12).try_into().unwrap());
        let ad_len = [0, 13, 1, 16, 17, 700][round % 6];
        let ad = rng.bytes(ad_len);
        let len = rng.below(20_000);
        let plain = rng.bytes(len);
        let mut expected = plain.clone();
        let expected_tag = chacha20poly1305::ChaCha20Poly1305::new(&key.into())
            .encrypt_inout_detached(&nonce.into(), &ad, expected.as_mut_slice().into())
            .unwrap();
        let mut chacha = ChaCha20Poly1305::new(&key, &[0; 12]);
        chacha.seal(&mut [0; 333]).unwrap();
        chacha.restart(&nonce);
        let mut data = plain.clone();
        rng.pieces(&mut ad.clone(), |piece| chacha.associate(piece));
        rng.pieces(&mut data, |piece| chacha.seal(piece).unwrap());
        assert!(data == expected, "round {round}");
        assert_eq!(chacha.tag()[..], expected_tag[..], "round {round}");
        chacha.restart(&nonce);
        chacha.associate(&ad);
        chacha.open(&mut data[..len / 3]).unwrap();
        let mut other = chacha.clone();
        let mut rest = data[len / 3..].to_vec();
        rng.pieces(&mut rest, |piece| other.open(piece).unwrap());
        assert!(data[..len / 3] == plain[..len / 3] && rest == plain[len / 3..], "round {round}");
        assert_eq!(other.tag()[..], expected_tag[..], "round {round}");
    }
}

#[test]
fn cbc_is_that_block_by_block() {
    let mut rng = Rng(5);
    for round in 0..120 {
        let key = rng.bytes([16, 24, 32][round % 3]);
        let iv: [u8; 16] = rng.bytes(16).try_into().unwrap();
        let blocks = rng.below(200);
        let plain = rng.bytes(16 * blocks);
        let mut expected = plain.clone();
        let mut last = u128::from_be_bytes(iv);
        for block in expected.as_chunks_mut::<16>().0 {
            last = encrypted(&key, last ^ u128::from_be_bytes(*block));
            *block = last.to_be_bytes();
        }
        let mut cbc = AesCbc::new(&CbcKey::new(&key).unwrap(), &iv);
        let mut data = plain.clone();
        for encrypt in [true, false] {
            cbc.restart(&iv);
            let mut rest = &mut data[..];
            while !rest.is_empty() {
                let len = (rng.piece() / 16 * 16).min(rest.len());
                let (piece, others) = rest.split_at_mut(len);
                if encrypt {
                    cbc.encrypt(piece)
                } else {
                    cbc.decrypt(piece)
                }
                rest = others;
            }
            assert!(data == *if encrypt { &expected } else { &plain }, "round {round}, {encrypt}");
            assert_eq!(*cbc.last(), last.to_be_bytes(), "round {round}");
        }
    }
}

/// IEEE 1619, its two vectors with a last block that is not whole, and every
/// length against whole blocks and the last two by hand.
#[test]
fn xts_steals_ciphertext() {
    use data_encoding::HEXLOWER;
    let hex = |text: &str| HEXLOWER.decode(text.as_bytes()).unwrap();
    let key = [hex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0"), hex("bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0")].concat();
    let xts = XtsKey::new(&key).unwrap();
    let mut iv = [0; 16];
    iv[..5].copy_from_slice(&[0x9a, 0x78, 0x56, 0x34, 0x12]);
    for (len, expected) in [
        (17, "6c1625db4671522d3d7599601de7ca09ed"),
        (18, "d069444b7a7e0cab09e24447d24deb1fedbf"),
        (19, "e5df1351c0544ba1350b3363cd8ef4beedbf9d"),
        (20, "9d84c813f719aa2c7be3f66171c7c5c2edbf9dac"),
    ] {
        let plain: Vec<u8> = (0..len).collect();
        let mut data = plain.clone();
        xts.encrypt(xts.tweak(&iv), &mut data).unwrap();
        assert_eq!(HEXLOWER.encode(&data), expected);
        xts.decrypt(xts.tweak(&iv), &mut data).unwrap();
        assert_eq!(data, plain);
    }
}

#[test]
fn xts_is_that_block_by_block() {
    let mut rng = Rng(6);
    for round in 0..60 {
        let key = rng.bytes([32, 64][round % 2]);
        let (data_key, tweak_key) = key.split_at(key.len() / 2);
        let xts = XtsKey::new(&key).unwrap();
        let iv: [u8; 16] = rng.bytes(16).try_into().unwrap();
        let len = if round < 40 { 16 + round * 7 } else { 16 + rng.below(6000) };
        let plain = rng.bytes(len);
        let mut tweak = encrypted(tweak_key, u128::from_be_bytes(iv)).swap_bytes();
        let mut expected = plain.clone();
        let mut one = |block: &mut [u8; 16]| {
            let masked = u128::from_le_bytes(*block) ^ tweak;
            *block = (encrypted(data_key, masked.swap_bytes()).swap_bytes() ^ tweak).to_le_bytes();
            tweak = (tweak << 1) ^ ((tweak >> 127) * 0x87);
        };
        expected.as_chunks_mut::<16>().0.iter_mut().for_each(&mut one);
        let (whole, rest) = (len / 16 * 16, len % 16);
        if rest > 0 {
            let mut last: [u8; 16] = expected[whole - 16..whole].try_into().unwrap();
            let stolen = last;
            last[..rest].copy_from_slice(&plain[whole..]);
            one(&mut last);
            expected[whole - 16..whole].copy_from_slice(&last);
            expected[whole..].copy_from_slice(&stolen[..rest]);
        }
        let mut data = plain.clone();
        xts.encrypt(xts.tweak(&iv), &mut data).unwrap();
        assert!(data == expected, "round {round}, {len} bytes");
        xts.decrypt(xts.tweak(&iv), &mut data).unwrap();
        assert!(data == plain, "round {round}, {len} bytes");
    }
    let xts = XtsKey::new(&[1; 32]).unwrap();
    let tweak = xts.tweak(&[0; 16]);
    assert_eq!(xts.encrypt(tweak, &mut [0; 15]), Err(XtsError::TooShort));
    assert_eq!(xts.decrypt(tweak, &mut vec![0; (16 << 20) + 1]), Err(XtsError::TooLong));
}

/// The state of a message that is dropped holds keystream and hashed text.
#[test]
fn masks_are_wiped_when_another_message_begins() {
    let mut masks = masks::Masks::new();
    struct Ones;
    impl masks::Source for Ones {
        const UNIT: usize = 16;
        const FEW: usize = 32;
        fn fill(&self, _place: u64, masks: &mut [u8; masks::MANY], len: usize) {
            masks[..len].fill(1);
        }
    }
    assert_eq!(masks.at(3, 7, &Ones), [1; 29]);
    assert_eq!(masks.at(32, 7, &Ones).len(), masks::MANY, "what goes on gets more");
    assert_eq!(masks.at(32 + 500, 1, &Ones).len(), 12);
    masks.forget();
    assert!(masks.is_wiped());
}
