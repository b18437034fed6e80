//! ChaCha20-Poly1305 (RFC 8439 section 2.8): own kernels where the CPU has
//! their instructions and the message is long enough for them to be faster,
//! AWS-LC elsewhere.
//!
//! Constant time: no address and no branch depends on key or data. Keys, what
//! is derived from them and pieces of keystream are wiped.

#[cfg(target_arch = "x86_64")]
mod x86_64;

use strongroom_engine::Tag;
use zeroize::Zeroizing;

use crate::authenticator::{Authenticator, Sums, same};
use crate::chacha20::State;
#[cfg(test)]
use crate::kernel::Block;
use crate::kernel::Code;
use crate::low::aws_lc;
#[cfg(test)]
use crate::poly1305::{Key, Limbs};
use crate::process::Forged;

/// Bytes encrypted before they are hashed, so that they are still in the
/// nearest cache. A multiple of what every kernel takes at once.
const STRIDE: usize = 8192;

/// ChaCha20 and Poly1305 on some instructions, which the value proves to be
/// there.
pub(crate) trait Kernels: Sums {
    /// Which code this is.
    const CODE: Code;

    /// Bytes of a message from which on it is faster than AWS-LC.
    const WORTH: usize;

    /// XORs the keystream that begins at block `counter`.
    fn xor(self, state: &State, counter: u32, data: &mut [u8]);
}

/// [`Kernels`] whose kind is known when it runs.
pub(crate) trait Own: Send + Sync {
    fn code(&self) -> Code;
    fn worth(&self) -> usize;
    fn seal(&self, state: &State, ad: &[u8], data: &mut [u8]) -> Tag;
    fn open(&self, state: &State, ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged>;
    fn xor(&self, state: &State, counter: u32, data: &mut [u8]);

    /// Fails unless blocks are added as one by one.
    #[cfg(test)]
    fn adds_as_one_by_one(&self, key: &[u8; 32], blocks: &[Block]);
}

/// The kernels of this CPU, if it has their instructions.
fn own() -> Option<Box<dyn Own>> {
    #[cfg(target_arch = "x86_64")]
    let own = x86_64::own();
    #[cfg(not(target_arch = "x86_64"))]
    let own = None;
    own
}

/// Counters of the blocks of keystream for a message's strides; the one before
/// is that of the one-time key.
fn counters() -> impl Iterator<Item = u32> {
    (1..).step_by(STRIDE / 64)
}

/// The one-time key (RFC 8439 section 2.6), in a block of its own.
fn one_time_key<K: Kernels>(kernels: K, state: &State) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    kernels.xor(state, 0, &mut key[..]);
    key
}

impl<K: Kernels> Own for K {
    fn code(&self) -> Code {
        K::CODE
    }

    fn worth(&self) -> usize {
        K::WORTH
    }

    fn seal(&self, state: &State, ad: &[u8], data: &mut [u8]) -> Tag {
        let key = one_time_key(*self, state);
        let mut authenticator = Authenticator::new(*self, &key, ad, data.len());
        for (counter, part) in counters().zip(data.chunks_mut(STRIDE)) {
            Kernels::xor(*self, state, counter, part);
            authenticator.add(part);
        }
        authenticator.tag(ad.len(), data.len())
    }

    fn open(&self, state: &State, ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged> {
        let key = one_time_key(*self, state);
        let mut authenticator = Authenticator::new(*self, &key, ad, data.len());
        for (counter, part) in counters().zip(data.chunks_mut(STRIDE)) {
            authenticator.add(part);
            Kernels::xor(*self, state, counter, part);
        }
        same(&authenticator.tag(ad.len(), data.len()), tag)
    }

    fn xor(&self, state: &State, counter: u32, data: &mut [u8]) {
        Kernels::xor(*self, state, counter, data);
    }

    #[cfg(test)]
    fn adds_as_one_by_one(&self, key: &[u8; 32], blocks: &[Block]) {
        let key = Key::new(key);
        let powers = self.powers(key.r);
        for len in 0..=blocks.len() {
            let start = Limbs::of(u128::MAX);
            let (sum, added) = self.sum(&powers, start, &blocks[..len]);
            assert!(len - added < 8, "{}, {len}", K::CODE.name);
            let one_by_one = start.absorb(key.r, &blocks[..added]);
            assert_eq!(key.tag(sum), key.tag(one_by_one), "{}, {len}", K::CODE.name);
        }
    }
}

/// What computes ChaCha20-Poly1305 on this CPU.
pub(crate) struct ChaCha20Poly1305 {
    own: Option<Box<dyn Own>>,
}

impl ChaCha20Poly1305 {
    /// The fastest of this CPU.
    pub(crate) fn of_this_cpu() -> ChaCha20Poly1305 {
        ChaCha20Poly1305 { own: own() }
    }

    /// Which code this is, for messages that are long enough.
    pub(crate) fn code(&self) -> Code {
        self.own.as_ref().map_or(Code::AWS_LC, |own| own.code())
    }

    /// The own kernels where they are worth it for so many bytes.
    fn own(&self, len: usize) -> Option<&dyn Own> {
        self.own.as_deref().filter(|own| len >= own.worth())
    }

    /// Encrypts in place.
    pub(crate) fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        match self.own(data.len()) {
            Some(own) => own.seal(&State::new(key, nonce), ad, data),
            None => aws_lc::chacha20_poly1305_seal(key, nonce, ad, data),
        }
    }

    /// Checks the tag and decrypts in place.
    pub(crate) fn open(
        &self,
        key: &[u8; 32],
        nonce: &[u8; 12],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        match self.own(data.len()) {
            Some(own) => own.open(&State::new(key, nonce), ad, tag, data),
            None if aws_lc::chacha20_poly1305_open(key, nonce, ad, tag, data) => Ok(()),
            None => Err(Forged),
        }
    }

    /// XORs the keystream of ChaCha20 that begins at block `counter`.
    pub(crate) fn xor(&self, key: &[u8; 32], nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
        match &self.own {
            Some(own) => own.xor(&State::new(key, nonce), counter, data),
            None => aws_lc::chacha20_xor(key, nonce, counter, data),
        }
    }

    /// Fills `data` with what sealing XORs.
    pub(crate) fn keystream(&self, key: &[u8; 32], nonce: &[u8; 12], data: &mut [u8]) {
        data.fill(0);
        match self.own(data.len()) {
            Some(own) => own.xor(&State::new(key, nonce), 1, data),
            None => aws_lc::chacha20_xor(key, nonce, 1, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    struct Rng(u64);

    impl Rng {
        fn bytes(&mut self, len: usize) -> Vec<u8> {
            (0..len)
                .map(|_| {
                    self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    ((z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8
                })
                .collect()
        }

        fn array<const N: usize>(&mut self) -> [u8; N] {
            self.bytes(N).try_into().expect("as many")
        }
    }

    /// One message by own code and by AWS-LC, and back, and with each kind of
    /// forgery.
    fn agrees(own: &dyn Own, rng: &mut Rng, len: usize, ad_len: usize) {
        let (key, nonce, ad, plain) = (rng.array(), rng.array(), rng.bytes(ad_len), rng.bytes(len));
        let what = format!("{}, {len} bytes, {ad_len} associated", own.code().name);
        let state = State::new(&key, &nonce);
        let (mut expected, mut data) = (plain.clone(), plain.clone());
        let expected_tag = aws_lc::chacha20_poly1305_seal(&key, &nonce, &ad, &mut expected);
        let tag = own.seal(&state, &ad, &mut data);
        assert!(data == expected && tag == expected_tag, "{what}");
        for forgery in 0..3 {
            let (mut forged, mut forged_ad, mut forged_tag) = (data.clone(), ad.clone(), tag);
            let at = usize::from(rng.array::<1>()[0]);
            match forgery {
                0 => forged_tag[at % 16] ^= 1 << (at % 8),
                1 if len > 0 => forged[at * len / 256] ^= 1 << (at % 8),
                2 if ad_len > 0 => forged_ad[at * ad_len / 256] ^= 1 << (at % 8),
                _ => continue,
            }
            assert!(own.open(&state, &forged_ad, &forged_tag, &mut forged).is_err(), "{what}, {forgery}");
        }
        assert!(own.open(&state, &ad, &tag, &mut data).is_ok(), "{what}");
        assert_eq!(data, plain, "{what}");
        let mut keystream = vec![0; len];
        own.xor(&state, 1, &mut keystream);
        keystream.iter_mut().zip(&plain).for_each(|(mask, byte)| *mask ^= byte);
        assert_eq!(keystream, expected, "{what}");
    }

    #[test]
    fn every_length_is_as_aws_lc_has_it() {
        if let Some(own) = own() {
            let mut rng = Rng(20);
            for len in 0..=2100 {
                agrees(&*own, &mut rng, len, [0, 1, 12, 13, 16, 17, 32, 33, 63, 255, 256, 271][len % 12]);
            }
        }
    }

    #[test]
    fn every_length_of_associated_data_and_long_messages_are_too() {
        if let Some(own) = own() {
            let mut rng = Rng(21);
            (0..=600).for_each(|ad_len| agrees(&*own, &mut rng, 100, ad_len));
            for len in [4096, 8191, 8192, 8193, 8192 + 255, 9000, 16384, 65535, 65536, 100_003] {
                agrees(&*own, &mut rng, len, 32);
                agrees(&*own, &mut rng, len, 5003);
            }
        }
    }

    /// Keys and blocks of ones alone make every limb and every carry as large
    /// as it can be.
    #[test]
    fn the_largest_limbs_carry() {
        if let Some(own) = own() {
            own.adds_as_one_by_one(&[0xff; 32], &[[0xff; 16]; 200]);
            own.adds_as_one_by_one(&[0xff; 32], &[[0; 16]; 200]);
            let mut blocks = [[0xff; 16]; 200];
            blocks.iter_mut().step_by(3).for_each(|block| *block = [0; 16]);
            own.adds_as_one_by_one(&[0xff; 32], &blocks);
            own.adds_as_one_by_one(&[0x01; 32], &blocks);
        }
    }

    #[test]
    fn a_counter_is_where_it_says() {
        if let Some(own) = own() {
            let state = State::new(&[3; 32], &[4; 12]);
            let mut whole = vec![0; 64 * 100];
            own.xor(&state, 7, &mut whole);
            for skipped in 0..40 {
                let mut part = vec![0; 64 * 50];
                own.xor(&state, 7 + skipped, &mut part);
                assert_eq!(part, whole[64 * skipped as usize..][..64 * 50], "{}", own.code().name);
            }
        }
    }
}
