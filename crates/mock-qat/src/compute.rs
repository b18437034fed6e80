//! Sessions, and what the device computes with them, by the CPU's kernels.

use strongroom_engine_cpu::stream::{AesCbc, AesCtr, AesGcm, CbcKey, GcmKey, XtsKey};
use strongroom_engine_qat::cpa::{cipher, direction};
use subtle::ConstantTimeEq;

/// A key and what it is for.
pub(crate) struct Cipher {
    encrypts: bool,
    key: Key,
    /// Bytes of associated data, of an AEAD.
    pub(crate) ad_len: usize,
}

enum Key {
    Ctr(Box<AesCtr>),
    Cbc(CbcKey),
    Xts(XtsKey),
    Gcm(GcmKey),
}

/// What a request is about.
pub(crate) struct Input {
    pub(crate) iv: Vec<u8>,
    pub(crate) ad: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) tag: [u8; 16],
}

/// What comes of it: data, the tag where one is made, and whether a tag that was
/// to be checked is right.
pub(crate) struct Output {
    pub(crate) data: Vec<u8>,
    pub(crate) tag: Option<[u8; 16]>,
    pub(crate) is_verified: bool,
}

impl Cipher {
    /// None where the device does not have it.
    pub(crate) fn new(algorithm: u32, toward: u32, key: &[u8], ad_len: usize) -> Option<Cipher> {
        let key = match algorithm {
            cipher::AES_CTR if toward == direction::ENCRYPT => {
                Key::Ctr(Box::new(AesCtr::new(key, &[0; 16])?))
            }
            cipher::AES_CBC => Key::Cbc(CbcKey::new(key)?),
            // It has no keys of twice 24 bytes.
            cipher::AES_XTS if key.len() != 48 => Key::Xts(XtsKey::new(key)?),
            cipher::AES_GCM => Key::Gcm(GcmKey::new(key)?),
            _ => return None,
        };
        Some(Cipher { encrypts: toward == direction::ENCRYPT, key, ad_len })
    }

    /// Bytes of the IVs that it takes.
    pub(crate) fn iv_len(&self) -> u32 {
        if self.is_aead() { 12 } else { 16 }
    }

    pub(crate) fn is_aead(&self) -> bool {
        matches!(self.key, Key::Gcm(_))
    }

    /// Bytes that lengths are multiples of.
    pub(crate) fn unit(&self) -> usize {
        if matches!(self.key, Key::Cbc(_) | Key::Xts(_)) { 16 } else { 1 }
    }

    /// None for what the algorithm does not take.
    pub(crate) fn compute(&self, input: Input) -> Option<Output> {
        let Input { iv, ad, mut data, tag } = input;
        let block = || <&[u8; 16]>::try_from(&iv[..]).ok();
        let (mut made, mut is_verified) = (None, true);
        match &self.key {
            Key::Ctr(keystream) => {
                let mut keystream = keystream.clone();
                keystream.restart(block()?, 0);
                keystream.apply(&mut data);
            }
            Key::Cbc(key) => {
                let mut cbc = AesCbc::new(key, block()?);
                if self.encrypts { cbc.encrypt(&mut data) } else { cbc.decrypt(&mut data) }
            }
            Key::Xts(key) => {
                let tweak = key.tweak(block()?);
                let done =
                    if self.encrypts { key.encrypt(tweak, &mut data) } else { key.decrypt(tweak, &mut data) };
                done.ok()?;
            }
            Key::Gcm(key) => {
                let mut gcm = AesGcm::new(key, &iv);
                gcm.associate(&ad);
                if self.encrypts {
                    gcm.seal(&mut data).ok()?;
                    made = Some(gcm.tag());
                } else {
                    gcm.open(&mut data).ok()?;
                    is_verified = gcm.tag().ct_eq(&tag).into();
                }
            }
        }
        Some(Output { data, tag: made, is_verified })
    }
}
