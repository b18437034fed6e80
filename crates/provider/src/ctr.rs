//! AES in counter mode.

use strongroom_engine_cpu::stream::{AesCtr, Kind};

use crate::cipher::{Cipher, Given, Mode, Shape, Value, by_key_len, fixed_key_len, iv_of, key_of};
use crate::low::Text;
use crate::reason::Reason;

/// With a key of `K` bytes.
#[derive(Clone)]
pub(crate) struct Ctr<const K: usize> {
    keystream: Option<AesCtr>,
    /// As it was given.
    iv: [u8; 16],
    /// The counter of the next block, when it was last asked for, or before
    /// there is a key.
    next: [u8; 16],
}

impl<const K: usize> Ctr<K> {
    /// The counter of the next block, and how much of the one before is spent.
    fn position(&self) -> ([u8; 16], usize) {
        self.keystream.as_ref().map_or((self.next, 0), AesCtr::position)
    }
}

impl<const K: usize> Cipher for Ctr<K> {
    const SHAPE: Shape = Shape {
        names: by_key_len!(K, c"AES-128-CTR", c"AES-192-CTR", c"AES-256-CTR"),
        description: c"AES in counter mode",
        kind: Kind::Ctr(K),
        key_len: K,
        iv_len: 16,
        block_len: 1,
        mode: Mode::Ctr,
        is_aead: false,
        has_custom_iv: false,
    };

    fn new() -> Self {
        Ctr { keystream: None, iv: [0; 16], next: [0; 16] }
    }

    fn init(&mut self, _encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        let key = key.map(|key| key_of(key, K)).transpose()?;
        match iv {
            Some(iv) => {
                self.iv = iv_of(iv)?;
                self.next = self.iv;
            }
            // What is left of a block is dropped.
            None => self.next = self.position().0,
        }
        match (key, &mut self.keystream) {
            (Some(key), _) => self.keystream = AesCtr::new(key, &self.next),
            (None, Some(keystream)) => keystream.restart(&self.next, 0),
            (None, None) => {}
        }
        Ok(())
    }

    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        let keystream = self.keystream.as_mut().ok_or(Reason::NoKey)?;
        text.by_parts(|part| {
            keystream.apply(part);
            Ok(())
        })
    }

    fn finish(&mut self, _output: &mut [u8]) -> Result<usize, Reason> {
        if self.keystream.is_some() { Ok(0) } else { Err(Reason::NoKey) }
    }

    fn parameter(&mut self, name: &[u8], _wanted: usize) -> Result<Option<Value<'_>>, Reason> {
        Ok(Some(match name {
            b"keylen" => Value::Number(K as u64),
            b"ivlen" => Value::Number(16),
            b"num" => Value::Number(self.position().1 as u64),
            b"padding" => Value::Number(1),
            b"iv" => Value::Bytes(&self.iv),
            b"updated-iv" => {
                self.next = self.position().0;
                Value::Bytes(&self.next)
            }
            _ => return Ok(None),
        }))
    }

    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason> {
        match name {
            b"keylen" => fixed_key_len(given, K),
            b"num" => match (given.number()?, self.position()) {
                (number, (_, spent)) if number == spent as u64 => Ok(()),
                (0, (next, _)) => {
                    self.next = next;
                    if let Some(keystream) = &mut self.keystream {
                        keystream.restart(&next, 0);
                    }
                    Ok(())
                }
                // The keystream of a block that was never begun.
                _ => Err(Reason::Parameter),
            },
            _ => Ok(()),
        }
    }
}
