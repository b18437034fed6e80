//! AES in XTS: each update is a data unit, under the IV that was given last.

use strongroom_engine_cpu::stream::{Kind, Tweak, XtsError, XtsKey};
use subtle::ConstantTimeEq;

use crate::cipher::{Cipher, Given, Mode, Shape, Value, fixed_key_len, iv_of, key_of};
use crate::low::Text;
use crate::reason::Reason;

/// With two keys of together `K` bytes.
#[derive(Clone)]
pub(crate) struct Xts<const K: usize> {
    key: Option<XtsKey>,
    iv: Option<[u8; 16]>,
    /// Of this key and IV.
    tweak: Option<Tweak>,
    encrypt: bool,
    /// Both keys are the same: only what others wrote may be read with it.
    has_equal_keys: bool,
}

impl<const K: usize> Cipher for Xts<K> {
    const SHAPE: Shape = Shape {
        names: match K {
            32 => c"AES-128-XTS:1.3.111.2.1619.0.1.1",
            _ => c"AES-256-XTS:1.3.111.2.1619.0.1.2",
        },
        description: c"AES in XTS",
        kind: Kind::Xts(K),
        key_len: K,
        iv_len: 16,
        block_len: 1,
        mode: Mode::Xts,
        is_aead: false,
        has_custom_iv: true,
    };

    fn new() -> Self {
        Xts { key: None, iv: None, tweak: None, encrypt: true, has_equal_keys: false }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        if let Some(iv) = iv {
            self.iv = Some(iv_of(iv)?);
            self.tweak = None;
        }
        if let Some(key) = key {
            let (data, tweak) = key_of(key, K)?.split_at(K / 2);
            self.has_equal_keys = data.ct_eq(tweak).into();
            (self.key, self.tweak) = (None, None);
            if self.has_equal_keys && encrypt {
                return Err(Reason::DuplicatedKeys);
            }
            self.key = XtsKey::new(key);
        }
        Ok(())
    }

    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        let key = self.key.as_ref().ok_or(Reason::NoKey)?;
        let iv = self.iv.as_ref().ok_or(Reason::NoIv)?;
        if self.has_equal_keys && self.encrypt {
            return Err(Reason::DuplicatedKeys);
        }
        let tweak = *self.tweak.get_or_insert_with(|| key.tweak(iv));
        let unit = text.moved(0, 0)?;
        let done = if self.encrypt { key.encrypt(tweak, unit) } else { key.decrypt(tweak, unit) };
        match done {
            Ok(()) => Ok(unit.len()),
            Err(XtsError::TooShort | XtsError::TooLong) => Err(Reason::DataLength),
        }
    }

    fn finish(&mut self, _output: &mut [u8]) -> Result<usize, Reason> {
        Ok(0)
    }

    fn parameter(&mut self, name: &[u8], _wanted: usize) -> Result<Option<Value<'_>>, Reason> {
        const NONE: [u8; 16] = [0; 16];
        Ok(Some(match name {
            b"keylen" => Value::Number(K as u64),
            b"ivlen" => Value::Number(16),
            b"num" => Value::Number(0),
            b"padding" => Value::Number(1),
            b"iv" | b"updated-iv" => Value::Bytes(self.iv.as_ref().unwrap_or(&NONE)),
            _ => return Ok(None),
        }))
    }

    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason> {
        match name {
            b"keylen" => fixed_key_len(given, K),
            _ => Ok(()),
        }
    }
}
