//! AES-256-GCM (NIST SP 800-38D) with a nonce of 12 bytes, on each tier.
//!
//! With AVX-512 and VAES it is own code in one pass ([`OnePass`]), which needs
//! less for a message of one block of a file than AWS-LC. Where the best tier
//! has other AES instructions it is AWS-LC, which picks its code by the CPU and
//! cannot be told to take another. Lower tiers are own code: counter mode by
//! the tier's [`Kernel`], and GHASH as POLYVAL (RFC 8452 appendix A) by
//! [`Polyval`].

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use strongroom_engine::{BlockCipher, Tag};
use subtle::ConstantTimeEq;

use crate::hardware::Tier;
use crate::kernel::{Block, Code, Kernel};
use crate::modes;
use crate::polyval::{Polyval, times_x};
use crate::process::{AeadCipher, Forged, short_nonce};

/// Bytes encrypted before they are hashed, so that they are still in the
/// nearest cache.
const STRIDE: usize = 4096;

/// A key for AES-256-GCM.
pub(crate) enum GcmKey {
    OnePass(Box<dyn OnePass>),
    Library(LessSafeKey),
    Own(Own),
}

/// Counter mode and GHASH in one pass over the data, in place.
pub(crate) trait OnePass: Send + Sync {
    /// Which code this is.
    fn code(&self) -> Code;

    /// Encrypts.
    fn seal(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag;

    /// Decrypts, and gives the tag that belongs to what was there.
    fn open(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag;
}

/// A key for the tier's own code.
pub(crate) struct Own {
    kernel: Box<dyn Kernel>,
    polyval: Box<dyn Polyval>,
}

impl GcmKey {
    pub(crate) fn new(tier: Tier, key: &[u8; 32]) -> GcmKey {
        if let Some(one_pass) = tier.gcm_in_one_pass(key) {
            return GcmKey::OnePass(one_pass);
        }
        if tier != Tier::Portable && tier == Tier::best() {
            let key = UnboundKey::new(&AES_256_GCM, key).expect("an AES-256 key has 32 bytes");
            return GcmKey::Library(LessSafeKey::new(key));
        }
        let kernel = tier.kernel(BlockCipher::Aes, key).expect("every tier has AES");
        let mut hash_key = [[0; 16]];
        kernel.encrypt(&mut hash_key);
        GcmKey::Own(Own { kernel, polyval: tier.polyval(times_x(u128::from_be_bytes(hash_key[0]))) })
    }

    /// Which code computes with it.
    pub(crate) fn code(&self) -> Code {
        match self {
            GcmKey::OnePass(key) => key.code(),
            GcmKey::Library(_) => Code::AWS_LC,
            GcmKey::Own(own) => own.kernel.code(),
        }
    }

    /// Encrypts in place.
    pub(crate) fn seal(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        match self {
            GcmKey::OnePass(key) => key.seal(nonce, ad, data),
            GcmKey::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(ad), data);
                let tag = tag.expect("a segment is shorter than the limit of GCM");
                tag.as_ref().try_into().expect("a tag has 16 bytes")
            }
            GcmKey::Own(key) => key.seal(nonce, ad, data),
        }
    }

    /// Checks the tag and decrypts in place.
    pub(crate) fn open(&self, nonce: &[u8; 12], ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged> {
        match self {
            GcmKey::OnePass(key) => checked(key.open(nonce, ad, data), tag),
            GcmKey::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(*nonce);
                match key.open_in_place_separate_tag(nonce, Aad::from(ad), tag, data) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(Forged),
                }
            }
            GcmKey::Own(key) => key.open(nonce, ad, tag, data),
        }
    }

    /// Fills `data` with what sealing XORs. One pass with a tag that is not
    /// needed is faster than the library's counter mode alone.
    pub(crate) fn keystream(&self, nonce: &[u8; 12], data: &mut [u8]) {
        data.fill(0);
        match self {
            GcmKey::OnePass(_) | GcmKey::Library(_) => {
                let _tag = self.seal(nonce, &[], data);
            }
            GcmKey::Own(key) => key.counter_mode(nonce, 2, data),
        }
    }
}

fn checked(expected: Tag, tag: &Tag) -> Result<(), Forged> {
    // As a number: bytes would be compared one by one.
    let [expected, tag] = [&expected, tag].map(|tag| u128::from_ne_bytes(*tag));
    if bool::from(expected.ct_eq(&tag)) { Ok(()) } else { Err(Forged) }
}

impl Own {
    /// The counter block number `counter`. A segment is too short to wrap it.
    fn counter_block(nonce: &[u8; 12], counter: u32) -> Block {
        let mut block = [0; 16];
        block[..12].copy_from_slice(nonce);
        block[12..].copy_from_slice(&counter.to_be_bytes());
        block
    }

    fn counter_mode(&self, nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
        let (blocks, rest) = data.as_chunks_mut::<16>();
        if !blocks.is_empty() {
            let first = [Own::counter_block(nonce, counter)];
            modes::ctr(&*self.kernel, &first, blocks.len(), blocks);
        }
        if !rest.is_empty() {
            let mut mask = [Own::counter_block(nonce, counter + blocks.len() as u32)];
            self.kernel.encrypt(&mut mask);
            rest.iter_mut().zip(mask[0]).for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    fn hash(&self, state: &mut u128, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        self.polyval.update(state, blocks);
        if !rest.is_empty() {
            let mut padded = [0; 16];
            padded[..rest.len()].copy_from_slice(rest);
            self.polyval.update(state, &[padded]);
        }
    }

    fn tag(&self, nonce: &[u8; 12], mut state: u128, ad_len: usize, data_len: usize) -> Tag {
        let lengths = ((ad_len as u128 * 8) << 64) | (data_len as u128 * 8);
        self.polyval.update(&mut state, &[lengths.to_be_bytes()]);
        let mut mask = [Own::counter_block(nonce, 1)];
        self.kernel.encrypt(&mut mask);
        (state ^ u128::from_be_bytes(mask[0])).to_be_bytes()
    }

    fn seal(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        let mut state = 0;
        self.hash(&mut state, ad);
        for (counter, part) in (2..).step_by(STRIDE / 16).zip(data.chunks_mut(STRIDE)) {
            self.counter_mode(nonce, counter, part);
            self.hash(&mut state, part);
        }
        self.tag(nonce, state, ad.len(), data.len())
    }

    fn open(&self, nonce: &[u8; 12], ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged> {
        let mut state = 0;
        self.hash(&mut state, ad);
        for (counter, part) in (2..).step_by(STRIDE / 16).zip(data.chunks_mut(STRIDE)) {
            self.hash(&mut state, part);
            self.counter_mode(nonce, counter, part);
        }
        checked(self.tag(nonce, state, ad.len(), data.len()), tag)
    }
}

/// AES-256-GCM as an algorithm of the contract.
pub(crate) struct AesGcm(GcmKey);

impl AesGcm {
    pub(crate) fn new(tier: Tier, key: &[u8; 32]) -> AesGcm {
        AesGcm(GcmKey::new(tier, key))
    }
}

impl AeadCipher for AesGcm {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        self.0.seal(&short_nonce(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        self.0.open(&short_nonce(nonce), ad, tag, data)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        self.0.keystream(&short_nonce(nonce), data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of blocks up to two groups of strides, whole and not, and
    /// associated data of none to several registers.
    #[test]
    fn one_pass_is_what_the_library_computes() {
        let key = std::array::from_fn(|i| i as u8);
        let Some(own) = Tier::best().gcm_in_one_pass(&key) else { return };
        let library = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("32 bytes"));
        let (own, library) = (GcmKey::OnePass(own), GcmKey::Library(library));
        let plain: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let lens = (0..1100).chain((2000..4200).step_by(13)).chain([4095, 4096, 4097, 65_536, 69_999]);
        for len in lens {
            for ad_len in [0, 1, 16, 17, 48, 63, 64, 65, 130] {
                let (nonce, ad) = ([len as u8; 12], &plain[..ad_len]);
                let (mut ours, mut theirs) = (plain[..len].to_vec(), plain[..len].to_vec());
                let tag = own.seal(&nonce, ad, &mut ours);
                assert_eq!(tag, library.seal(&nonce, ad, &mut theirs), "{len} bytes, {ad_len} of them");
                assert_eq!(ours, theirs, "{len} bytes");
                assert!(own.open(&nonce, ad, &tag, &mut ours).is_ok(), "{len} bytes, {ad_len} of them");
                assert_eq!(ours, plain[..len], "{len} bytes");
            }
        }
    }

    /// Whichever bit is wrong.
    #[test]
    fn one_pass_refuses_what_was_not_sealed() {
        let Some(own) = Tier::best().gcm_in_one_pass(&[5; 32]).map(GcmKey::OnePass) else { return };
        let (nonce, ad) = ([7; 12], [9; 20]);
        let mut sealed = vec![3; 600];
        let tag = own.seal(&nonce, &ad, &mut sealed);
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(own.open(&nonce, &ad, &tag, &mut forged).is_err(), "bit {bit}");
        }
        for bit in 0..128 {
            let mut wrong = tag;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(own.open(&nonce, &ad, &wrong, &mut sealed.clone()).is_err(), "bit {bit} of the tag");
        }
        assert!(own.open(&[8; 12], &ad, &tag, &mut sealed.clone()).is_err());
        assert!(own.open(&nonce, &[9; 19], &tag, &mut sealed.clone()).is_err());
        assert!(own.open(&nonce, &ad, &tag, &mut sealed).is_ok());
    }
}
