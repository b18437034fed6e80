//! Sessions, and what the device computes with them.

use strongroom_engine_cpu::stream::{AesCbc, AesCtr, AesGcm, CbcKey, GcmKey, XtsKey};
use strongroom_engine_virtio::spec::{
    self, CONTROL_LEN, Request, TAG_LEN, algorithm, answer, opcode, service,
};
use subtle::ConstantTimeEq;

/// A key and what it is for.
pub(crate) struct Session {
    service: u32,
    encrypts: bool,
    key: Key,
}

enum Key {
    Ctr(Box<AesCtr>),
    Cbc(CbcKey),
    Xts(XtsKey),
    Gcm(GcmKey),
}

/// Ciphers and AEADs that it has, a bit each.
pub(crate) const CIPHERS: u32 = 1 << algorithm::AES_CBC | 1 << algorithm::AES_CTR | 1 << algorithm::AES_XTS;
pub(crate) const AEADS: u32 = 1 << algorithm::AES_GCM;

impl Session {
    /// Of a control request and the key behind it; none when it is not had.
    pub(crate) fn open(request: &[u8; CONTROL_LEN], key: &[u8]) -> Option<Session> {
        let service = spec::word(request, 0) >> 8;
        let (number, key_len) = (spec::word(request, 16), spec::word(request, 20) as usize);
        let direction = spec::word(request, if service == service::AEAD { 32 } else { 24 });
        let key = key.get(..key_len)?;
        let key = match (service, number) {
            (service::CIPHER, algorithm::AES_CTR) => Key::Ctr(Box::new(AesCtr::new(key, &[0; 16])?)),
            (service::CIPHER, algorithm::AES_CBC) => Key::Cbc(CbcKey::new(key)?),
            (service::CIPHER, algorithm::AES_XTS) => Key::Xts(XtsKey::new(key)?),
            (service::AEAD, algorithm::AES_GCM) => Key::Gcm(GcmKey::new(key)?),
            _ => return None,
        };
        matches!(direction, spec::ENCRYPTS | spec::DECRYPTS).then(|| Session {
            service,
            encrypts: direction == spec::ENCRYPTS,
            key,
        })
    }

    /// The output of a request, and how it ended.
    pub(crate) fn compute(&self, request: &Request, iv: &[u8], source: &[u8], ad: &[u8]) -> (Vec<u8>, u8) {
        let wanted = if self.encrypts { opcode::ENCRYPT } else { opcode::DECRYPT };
        if request.opcode != self.service << 8 | wanted {
            return (Vec::new(), answer::ERROR);
        }
        let mut data = Vec::with_capacity(source.len() + TAG_LEN);
        data.extend_from_slice(source);
        match self.run(&mut data, iv, ad) {
            Some(true) => (data, answer::OK),
            Some(false) => (Vec::new(), answer::BAD_MESSAGE),
            None => (Vec::new(), answer::ERROR),
        }
    }

    /// None for what the algorithm does not take; false for a wrong tag.
    fn run(&self, data: &mut Vec<u8>, iv: &[u8], ad: &[u8]) -> Option<bool> {
        let block = || <&[u8; 16]>::try_from(iv).ok();
        match &self.key {
            Key::Ctr(keystream) => {
                let mut keystream = keystream.clone();
                keystream.restart(block()?, 0);
                keystream.apply(data);
            }
            Key::Cbc(key) => {
                let mut cbc = AesCbc::new(key, block()?);
                if !data.len().is_multiple_of(16) {
                    return None;
                }
                if self.encrypts { cbc.encrypt(data) } else { cbc.decrypt(data) }
            }
            Key::Xts(key) => {
                let tweak = key.tweak(block()?);
                let done = if self.encrypts { key.encrypt(tweak, data) } else { key.decrypt(tweak, data) };
                done.ok()?;
            }
            Key::Gcm(key) => {
                let mut gcm = AesGcm::new(key, (!iv.is_empty()).then_some(iv)?);
                gcm.associate(ad);
                if self.encrypts {
                    gcm.seal(data).ok()?;
                    data.extend(gcm.tag());
                } else {
                    let tag = data.split_off(data.len().checked_sub(TAG_LEN)?);
                    gcm.open(data).ok()?;
                    return Some(gcm.tag().ct_eq(&tag).into());
                }
            }
        }
        Some(true)
    }
}
