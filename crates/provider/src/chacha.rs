//! ChaCha20-Poly1305.

use strongroom_engine_cpu::stream::{ChaCha20Poly1305, Kind};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{Cipher, Given, Mode, Shape, Value, fixed_key_len, key_of};
use crate::low::Text;
use crate::reason::Reason;
use crate::record::{self, RecordAd};

const KEY_LEN: usize = 32;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No message may begin: there is no nonce, or it was used.
    None,
    /// A message may begin.
    Ready,
    /// It takes associated data and data.
    Begun,
    /// It takes data alone.
    HasData,
}

/// A context.
#[derive(Clone)]
pub(crate) struct ChaCha {
    key: Option<Zeroizing<[u8; KEY_LEN]>>,
    message: Option<ChaCha20Poly1305>,
    state: State,
    encrypt: bool,
    nonce: [u8; NONCE_LEN],
    tag: [u8; TAG_LEN],
    tag_len: Option<usize>,
    /// The next update is a record of TLS 1.2 with this associated data.
    record: Option<RecordAd>,
    record_padding: u64,
}

impl ChaCha {
    /// Begins a message.
    fn restart(&mut self, nonce: [u8; NONCE_LEN]) -> Result<&mut ChaCha20Poly1305, Reason> {
        let key = self.key.as_ref().ok_or(Reason::NoKey)?;
        match &mut self.message {
            Some(message) => message.restart(&nonce),
            None => self.message = Some(ChaCha20Poly1305::new(key, &nonce)),
        }
        self.state = State::Begun;
        self.message.as_mut().ok_or(Reason::Internal)
    }

    /// The message, which begins when it has not begun.
    fn message(&mut self) -> Result<&mut ChaCha20Poly1305, Reason> {
        if self.key.is_none() {
            return Err(Reason::NoKey);
        }
        match self.state {
            State::None => Err(Reason::NoIv),
            State::Ready => self.restart(self.nonce),
            State::Begun | State::HasData => self.message.as_mut().ok_or(Reason::Internal),
        }
    }

    fn set_nonce(&mut self, nonce: &[u8]) -> Result<(), Reason> {
        self.nonce = nonce.try_into().map_err(|_| Reason::IvLength)?;
        self.state = State::Ready;
        Ok(())
    }

    fn set_tag(&mut self, given: &Given<'_>) -> Result<(), Reason> {
        if given.len > TAG_LEN || given.bytes.is_some() && (self.encrypt || given.len == 0) {
            return Err(Reason::Tag);
        }
        if let Some(bytes) = given.bytes {
            self.tag[..given.len].copy_from_slice(bytes);
            self.tag_len = Some(given.len);
        }
        Ok(())
    }

    fn set_record(&mut self, ad: &[u8]) -> Result<(), Reason> {
        let around = if self.encrypt { 0 } else { TAG_LEN };
        let ad = record::associated_data(ad, around)?;
        (self.record, self.record_padding) = (Some(ad), TAG_LEN as u64);
        Ok(())
    }

    /// A record of TLS 1.2 (RFC 7905) in place, its tag behind it. Its nonce is
    /// the IV with the sequence number, the first eight bytes of `ad`, on it.
    fn process_record(&mut self, ad: RecordAd, text: Text<'_>) -> Result<usize, Reason> {
        let place = text.in_place()?;
        let len = record::payload_len(&ad);
        if place.len() != len + TAG_LEN {
            return Err(Reason::DataLength);
        }
        if self.state == State::None {
            return Err(Reason::NoIv);
        }
        let mut nonce = self.nonce;
        nonce[4..].iter_mut().zip(ad).for_each(|(byte, sequence)| *byte ^= sequence);
        let encrypt = self.encrypt;
        let (payload, tag) = place.split_at_mut(len);
        let message = self.restart(nonce)?;
        message.associate(&ad);
        let done = if encrypt { message.seal(payload) } else { message.open(payload) };
        let made = message.tag();
        // Each record brings a nonce of its own.
        self.state = State::Ready;
        done.map_err(|_| Reason::DataLength)?;
        if encrypt {
            tag.copy_from_slice(&made);
            return Ok(len + TAG_LEN);
        }
        if !bool::from(made.ct_eq(tag)) {
            payload.zeroize();
            return Err(Reason::TagMismatch);
        }
        Ok(len)
    }
}

impl Cipher for ChaCha {
    const SHAPE: Shape = Shape {
        names: c"ChaCha20-Poly1305",
        description: c"ChaCha20-Poly1305",
        kind: Kind::ChaCha20Poly1305,
        key_len: KEY_LEN,
        iv_len: NONCE_LEN,
        block_len: 1,
        mode: Mode::Stream,
        is_aead: true,
        has_custom_iv: true,
    };

    fn new() -> Self {
        ChaCha {
            key: None,
            message: None,
            state: State::None,
            encrypt: true,
            nonce: [0; NONCE_LEN],
            tag: [0; TAG_LEN],
            tag_len: None,
            record: None,
            record_padding: 0,
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        if let Some(key) = key {
            let key = key_of(key, KEY_LEN)?.try_into().map_err(|_| Reason::KeyLength)?;
            (self.key, self.message) = (Some(Zeroizing::new(key)), None);
            if self.state != State::Ready {
                self.state = State::None;
            }
        }
        iv.map_or(Ok(()), |iv| self.set_nonce(iv))
    }

    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        if let Some(ad) = self.record.take() {
            return self.process_record(ad, text);
        }
        self.message()?;
        let encrypt = self.encrypt;
        let message = self.message.as_mut().ok_or(Reason::Internal)?;
        match text.associated() {
            Some(_) if self.state == State::HasData => Err(Reason::DataLength),
            Some(ad) => {
                message.associate(ad);
                Ok(ad.len())
            }
            None => {
                self.state = State::HasData;
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
        let tag = self.message()?.tag();
        self.state = State::None;
        if self.encrypt {
            (self.tag, self.tag_len) = (tag, Some(TAG_LEN));
            return Ok(0);
        }
        let len = self.tag_len.ok_or(Reason::TagNotSet)?;
        if bool::from(tag[..len].ct_eq(&self.tag[..len])) { Ok(0) } else { Err(Reason::TagMismatch) }
    }

    fn parameter(&mut self, name: &[u8], wanted: usize) -> Result<Option<Value<'_>>, Reason> {
        Ok(Some(match name {
            b"keylen" => Value::Number(KEY_LEN as u64),
            b"ivlen" => Value::Number(NONCE_LEN as u64),
            b"taglen" => Value::Number(self.tag_len.unwrap_or(TAG_LEN) as u64),
            b"tlsaadpad" => Value::Number(self.record_padding),
            b"iv" | b"updated-iv" => Value::Bytes(&self.nonce),
            b"tag" => match self.tag_len {
                Some(_) if self.encrypt && (1..=TAG_LEN).contains(&wanted) => {
                    Value::Bytes(&self.tag[..wanted])
                }
                _ => return Err(Reason::Tag),
            },
            _ => return Ok(None),
        }))
    }

    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason> {
        match name {
            b"keylen" => fixed_key_len(given, KEY_LEN),
            b"ivlen" if given.number()? == NONCE_LEN as u64 => Ok(()),
            b"ivlen" => Err(Reason::IvLength),
            b"tag" => self.set_tag(given),
            b"tlsaad" => self.set_record(given.bytes()?),
            b"tlsivfixed" => self.set_nonce(given.bytes()?),
            _ => Ok(()),
        }
    }
}
