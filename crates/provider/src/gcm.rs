//! AES-GCM.

use strongroom_engine_cpu::stream::{AesGcm, GcmKey, Kind};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::cipher::{Cipher, Given, Mode, Shape, Value, by_key_len, fixed_key_len, key_of};
use crate::low::Text;
use crate::reason::Reason;
use crate::record::{self, RecordAd};

/// Bytes of the longest IV, as in OpenSSL's default provider.
const IV_MAX: usize = 128;
const TAG_LEN: usize = 16;
/// Of a record in TLS 1.2 (RFC 5288): what is sent of the nonce, and what is
/// not.
const EXPLICIT_IV_LEN: usize = 8;
const FIXED_IV_LEN: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Iv {
    None,
    /// It was given, and no message has begun with it.
    Fresh,
    /// The message has begun.
    Begun,
    /// The message is at its end: the IV may not be used again.
    Spent,
}

/// With a key of `K` bytes.
#[derive(Clone)]
pub(crate) struct Gcm<const K: usize> {
    key: Option<GcmKey>,
    message: Option<AesGcm>,
    /// The message is still under the key before.
    has_new_key: bool,
    encrypt: bool,
    iv: [u8; IV_MAX],
    iv_len: usize,
    iv_state: Iv,
    /// The explicit part of the last IV that was made, which has gone on since.
    explicit: [u8; IV_MAX],
    /// The message has data, and takes no more associated data.
    has_data: bool,
    tag: [u8; TAG_LEN],
    /// None when there is no tag: of the message, or to compare with.
    tag_len: Option<usize>,
    /// The next update is a record of TLS 1.2 with this associated data.
    record: Option<RecordAd>,
    /// What a record adds to its payload besides the explicit IV.
    record_padding: u64,
    /// IVs are made here, for records.
    makes_ivs: bool,
    /// Records under this key, of which there may be 2^64 - 1.
    records: u64,
}

impl<const K: usize> Gcm<K> {
    /// The message, which begins when it has not begun.
    fn message(&mut self) -> Result<&mut AesGcm, Reason> {
        let key = self.key.as_ref().ok_or(Reason::NoKey)?;
        if self.iv_state == Iv::None && self.encrypt {
            getrandom::fill(&mut self.iv[..self.iv_len]).map_err(|_| Reason::Entropy)?;
            self.iv_state = Iv::Fresh;
        }
        match self.iv_state {
            Iv::Fresh => {
                let iv = &self.iv[..self.iv_len];
                match &mut self.message {
                    Some(message) if self.has_new_key => message.restart_with(key, iv),
                    Some(message) => message.restart(iv),
                    None => self.message = Some(AesGcm::new(key, iv)),
                }
                (self.iv_state, self.has_data, self.has_new_key) = (Iv::Begun, false, false);
            }
            Iv::Begun => {}
            Iv::None | Iv::Spent => return Err(Reason::NoIv),
        }
        self.message.as_mut().ok_or(Reason::Internal)
    }

    /// The tag of the message, or an error when it has to be another.
    fn end(&mut self) -> Result<(), Reason> {
        let tag = self.message()?.tag();
        self.iv_state = Iv::Spent;
        if self.encrypt {
            (self.tag, self.tag_len) = (tag, Some(TAG_LEN));
            return Ok(());
        }
        let len = self.tag_len.ok_or(Reason::TagNotSet)?;
        if bool::from(tag[..len].ct_eq(&self.tag[..len])) { Ok(()) } else { Err(Reason::TagMismatch) }
    }

    fn set_iv_len(&mut self, len: u64) -> Result<(), Reason> {
        let len = usize::try_from(len).map_err(|_| Reason::IvLength)?;
        if !(1..=IV_MAX).contains(&len) {
            return Err(Reason::IvLength);
        }
        if len != self.iv_len {
            // The IV that was given had another length.
            if self.iv_state != Iv::None {
                self.iv_state = Iv::Spent;
            }
            self.iv_len = len;
        }
        Ok(())
    }

    fn set_tag(&mut self, given: &Given<'_>) -> Result<(), Reason> {
        if given.len == 0 || given.len > TAG_LEN || given.bytes.is_some() && self.encrypt {
            return Err(Reason::Tag);
        }
        if let Some(bytes) = given.bytes {
            self.tag[..given.len].copy_from_slice(bytes);
        }
        self.tag_len = Some(given.len);
        Ok(())
    }

    /// The associated data of the next record, whose length field is that of
    /// what is sent.
    fn set_record(&mut self, ad: &[u8]) -> Result<(), Reason> {
        let around = if self.encrypt { EXPLICIT_IV_LEN } else { EXPLICIT_IV_LEN + TAG_LEN };
        let ad = record::associated_data(ad, around)?;
        (self.record, self.record_padding) = (Some(ad), TAG_LEN as u64);
        Ok(())
    }

    /// The part of the IV that is not sent. Who encrypts begins the other one
    /// at random, and counts it up.
    fn set_fixed_iv(&mut self, fixed: &[u8]) -> Result<(), Reason> {
        let counted = self.iv_len.checked_sub(fixed.len());
        if fixed.len() < FIXED_IV_LEN || counted.is_none_or(|len| len < EXPLICIT_IV_LEN) {
            return Err(Reason::IvLength);
        }
        self.iv[..fixed.len()].copy_from_slice(fixed);
        if self.encrypt {
            let counted = &mut self.iv[fixed.len()..self.iv_len];
            getrandom::fill(counted).map_err(|_| Reason::Entropy)?;
        }
        (self.makes_ivs, self.iv_state) = (true, Iv::Fresh);
        Ok(())
    }

    /// The explicit part of the next IV, which is begun with; the one after it
    /// is counted up.
    fn next_iv(&mut self, len: usize) -> Result<&[u8], Reason> {
        if !self.makes_ivs || !self.encrypt {
            return Err(Reason::NoIv);
        }
        self.iv_state = Iv::Fresh;
        self.message()?;
        self.explicit[..len].copy_from_slice(&self.iv[self.iv_len - len..self.iv_len]);
        let counter = &mut self.iv[self.iv_len - 8..self.iv_len];
        let next = u64::from_be_bytes((&*counter).try_into().expect("eight bytes")).wrapping_add(1);
        counter.copy_from_slice(&next.to_be_bytes());
        Ok(&self.explicit[..len])
    }

    /// Takes the explicit part of an IV that was received, and begins with it.
    fn take_iv(&mut self, explicit: &[u8]) -> Result<(), Reason> {
        if !self.makes_ivs || self.encrypt || explicit.len() > self.iv_len {
            return Err(Reason::NoIv);
        }
        self.iv[self.iv_len - explicit.len()..self.iv_len].copy_from_slice(explicit);
        self.iv_state = Iv::Fresh;
        self.message().map(|_| ())
    }

    /// A record of TLS 1.2 in place: explicit IV, payload, tag.
    fn process_record(&mut self, ad: RecordAd, text: Text<'_>) -> Result<usize, Reason> {
        let done = text.in_place().and_then(|record| {
            if record.len() < EXPLICIT_IV_LEN + TAG_LEN {
                return Err(Reason::DataLength);
            }
            self.records = self.records.checked_add(1).ok_or(Reason::TooManyRecords)?;
            let (explicit, rest) = record.split_at_mut(EXPLICIT_IV_LEN);
            let (payload, tag) = rest.split_at_mut(rest.len() - TAG_LEN);
            if self.encrypt {
                explicit.copy_from_slice(self.next_iv(EXPLICIT_IV_LEN)?);
            } else {
                self.take_iv(explicit)?;
            }
            let encrypt = self.encrypt;
            let message = self.message()?;
            message.associate(&ad);
            if encrypt {
                message.seal(payload).map_err(|_| Reason::DataLength)?;
                tag.copy_from_slice(&message.tag());
                return Ok(EXPLICIT_IV_LEN + payload.len() + TAG_LEN);
            }
            message.open(payload).map_err(|_| Reason::DataLength)?;
            if !bool::from(message.tag().ct_eq(tag)) {
                payload.zeroize();
                return Err(Reason::TagMismatch);
            }
            Ok(payload.len())
        });
        self.iv_state = Iv::Spent;
        done
    }
}

impl<const K: usize> Cipher for Gcm<K> {
    const SHAPE: Shape = Shape {
        names: by_key_len!(
            K,
            c"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6",
            c"AES-192-GCM:id-aes192-GCM:2.16.840.1.101.3.4.1.26",
            c"AES-256-GCM:id-aes256-GCM:2.16.840.1.101.3.4.1.46"
        ),
        description: c"AES-GCM",
        kind: Kind::Gcm(K),
        key_len: K,
        iv_len: 12,
        block_len: 1,
        mode: Mode::Gcm,
        is_aead: true,
        has_custom_iv: true,
    };

    fn new() -> Self {
        Gcm {
            key: None,
            message: None,
            has_new_key: false,
            encrypt: true,
            iv: [0; IV_MAX],
            iv_len: 12,
            iv_state: Iv::None,
            explicit: [0; IV_MAX],
            has_data: false,
            tag: [0; TAG_LEN],
            tag_len: None,
            record: None,
            record_padding: 0,
            makes_ivs: false,
            records: 0,
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        if let Some(iv) = iv {
            if !(1..=IV_MAX).contains(&iv.len()) {
                return Err(Reason::IvLength);
            }
            self.iv[..iv.len()].copy_from_slice(iv);
            (self.iv_len, self.iv_state) = (iv.len(), Iv::Fresh);
        }
        if let Some(key) = key {
            self.key = GcmKey::new(key_of(key, K)?);
            (self.has_new_key, self.records) = (true, 0);
            // What began under another key does not go on.
            if self.iv_state == Iv::Begun {
                self.iv_state = Iv::Spent;
            }
        }
        Ok(())
    }

    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        if let Some(ad) = self.record.take() {
            return self.process_record(ad, text);
        }
        let encrypt = self.encrypt;
        self.message()?;
        let message = self.message.as_mut().ok_or(Reason::Internal)?;
        match text.associated() {
            Some(_) if self.has_data => Err(Reason::DataLength),
            Some(ad) => {
                message.associate(ad);
                Ok(ad.len())
            }
            None => {
                self.has_data = true;
                text.by_parts(|part| {
                    let done = if encrypt { message.seal(part) } else { message.open(part) };
                    done.map_err(|_| Reason::DataLength)
                })
            }
        }
    }

    fn finish(&mut self, _output: &mut [u8]) -> Result<usize, Reason> {
        if self.record.is_some() {
            return Err(Reason::DataLength);
        }
        self.end().map(|()| 0)
    }

    fn parameter(&mut self, name: &[u8], wanted: usize) -> Result<Option<Value<'_>>, Reason> {
        Ok(Some(match name {
            b"keylen" => Value::Number(K as u64),
            b"ivlen" => Value::Number(self.iv_len as u64),
            b"taglen" => Value::Number(self.tag_len.unwrap_or(TAG_LEN) as u64),
            b"tlsaadpad" => Value::Number(self.record_padding),
            b"iv" | b"updated-iv" if self.iv_state == Iv::None => return Err(Reason::NoIv),
            b"iv" | b"updated-iv" => Value::Bytes(&self.iv[..self.iv_len]),
            b"tag" => match self.tag_len {
                Some(_) if self.encrypt && (1..=TAG_LEN).contains(&wanted) => {
                    Value::Bytes(&self.tag[..wanted])
                }
                _ => return Err(Reason::Tag),
            },
            b"tlsivgen" => {
                let len = if wanted == 0 { self.iv_len } else { wanted.min(self.iv_len) };
                Value::Bytes(self.next_iv(len)?)
            }
            _ => return Ok(None),
        }))
    }

    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason> {
        match name {
            b"keylen" => fixed_key_len(given, K),
            b"ivlen" => self.set_iv_len(given.number()?),
            b"tag" => self.set_tag(given),
            b"tlsaad" => self.set_record(given.bytes()?),
            b"tlsivfixed" => self.set_fixed_iv(given.bytes()?),
            b"tlsivinv" => self.take_iv(given.bytes()?),
            _ => Ok(()),
        }
    }
}
