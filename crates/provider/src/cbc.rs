//! AES in CBC with the padding of PKCS #7, and as TLS uses it.

use strongroom_engine_cpu::stream::{AesCbc, CbcKey, Kind};
use subtle::{ConstantTimeEq, ConstantTimeGreater};
use zeroize::Zeroize;

use crate::cipher::{Cipher, Given, Mode, Shape, Value, by_key_len, fixed_key_len, iv_of, key_of};
use crate::low::Text;
use crate::reason::Reason;
use crate::tls_cbc::{self, Records};

const BLOCK: usize = 16;

/// With a key of `K` bytes.
#[derive(Clone)]
pub(crate) struct Cbc<const K: usize> {
    message: Option<AesCbc>,
    encrypt: bool,
    /// As it was given.
    iv: [u8; BLOCK],
    /// Of the next block, when it was last asked for, or before there is a key.
    next: [u8; BLOCK],
    /// What came and is no whole block, or may be the last one.
    waiting: [u8; BLOCK],
    waiting_len: usize,
    pads: bool,
    records: Option<Records>,
    mac_len: usize,
}

impl<const K: usize> Drop for Cbc<K> {
    fn drop(&mut self) {
        self.waiting.zeroize();
    }
}

impl<const K: usize> Cbc<K> {
    fn chained(&self) -> [u8; BLOCK] {
        self.message.as_ref().map_or(self.next, |message| *message.last())
    }

    fn process(&mut self, blocks: &mut [u8]) -> Result<(), Reason> {
        let message = self.message.as_mut().ok_or(Reason::NoKey)?;
        if self.encrypt {
            message.encrypt(blocks)
        } else {
            message.decrypt(blocks)
        }
        Ok(())
    }

    /// Bytes of output when `len` more come: whole blocks, but not one that may
    /// be padding.
    fn output_len(&self, len: usize) -> usize {
        let all = self.waiting_len + len;
        let kept_back = !self.encrypt && self.pads && all > 0 && all.is_multiple_of(BLOCK);
        all / BLOCK * BLOCK - if kept_back { BLOCK } else { 0 }
    }

    /// A record of TLS, in place, which gets its padding or loses it.
    fn process_record(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        let (Some(mut records), true) = (self.records.take(), self.pads) else {
            return Err(Reason::Parameter);
        };
        let len = text.len();
        let done = match self.encrypt {
            true => text.in_place_with(BLOCK - len % BLOCK).and_then(|record| {
                tls_cbc::pad(record, len);
                self.process(record).map(|()| record.len())
            }),
            false => text.in_place().and_then(|record| {
                if !len.is_multiple_of(BLOCK) {
                    return Err(Reason::DataLength);
                }
                self.process(record)?;
                records.open(record, self.mac_len)
            }),
        };
        self.records = Some(records);
        done
    }

    fn set_records(&mut self) -> &mut Records {
        self.records.get_or_insert_with(Records::new)
    }
}

impl<const K: usize> Cipher for Cbc<K> {
    const SHAPE: Shape = Shape {
        names: by_key_len!(
            K,
            c"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2",
            c"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22",
            c"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42"
        ),
        description: c"AES in CBC",
        kind: Kind::Cbc(K),
        key_len: K,
        iv_len: BLOCK,
        block_len: BLOCK,
        mode: Mode::Cbc,
        is_aead: false,
        has_custom_iv: false,
    };

    fn new() -> Self {
        Cbc {
            message: None,
            encrypt: true,
            iv: [0; BLOCK],
            next: [0; BLOCK],
            waiting: [0; BLOCK],
            waiting_len: 0,
            pads: true,
            records: None,
            mac_len: 0,
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        (self.encrypt, self.waiting_len) = (encrypt, 0);
        let key = key.map(|key| key_of(key, K)).transpose()?;
        if let Some(iv) = iv {
            self.iv = iv_of(iv)?;
        }
        self.next = self.iv;
        match (key, &mut self.message) {
            (Some(key), _) => self.message = CbcKey::new(key).map(|key| AesCbc::new(&key, &self.iv)),
            (None, Some(message)) => message.restart(&self.iv),
            (None, None) => {}
        }
        Ok(())
    }

    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
        if self.records.is_some() {
            return self.process_record(text);
        }
        if self.message.is_none() {
            return Err(Reason::NoKey);
        }
        let (len, before) = (text.len(), self.waiting_len);
        let output_len = self.output_len(len);
        if output_len == 0 {
            // At most a block: what may be padding is one.
            text.copy_to(0, &mut self.waiting[before..before + len]);
            self.waiting_len += len;
            return Ok(0);
        }
        if before == 0 && output_len == len {
            let output = text.moved(0, 0)?;
            return self.process(output).map(|()| len);
        }
        // All is read before anything is written, whose place may be the same.
        let mut after = [0; BLOCK];
        let after_len = before + len - output_len;
        text.copy_to(len - after_len, &mut after[..after_len]);
        let output = text.moved(before, after_len)?;
        output[..before].copy_from_slice(&self.waiting[..before]);
        self.process(output)?;
        (self.waiting, self.waiting_len) = (after, after_len);
        Ok(output_len)
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<usize, Reason> {
        if self.message.is_none() {
            return Err(Reason::NoKey);
        }
        if self.records.is_some() {
            // Every record was whole.
            return Ok(0);
        }
        let len = self.waiting_len;
        if self.encrypt && self.pads {
            self.waiting[len..].fill((BLOCK - len) as u8);
        } else if len == 0 && !self.pads {
            return Ok(0);
        } else if len != BLOCK {
            return Err(Reason::WrongFinalBlockLength);
        }
        if self.encrypt && output.len() < BLOCK {
            return Err(Reason::OutputTooSmall);
        }
        let mut block = self.waiting;
        self.process(&mut block)?;
        self.waiting_len = 0;
        let len = if self.encrypt || !self.pads { BLOCK } else { unpadded(&block)? };
        output.get_mut(..len).ok_or(Reason::OutputTooSmall)?.copy_from_slice(&block[..len]);
        block.zeroize();
        Ok(len)
    }

    fn raw(&mut self, text: Text<'_>) -> Option<Result<usize, Reason>> {
        Some(match text.len() {
            len if !len.is_multiple_of(BLOCK) => Err(Reason::WrongFinalBlockLength),
            len => text.moved(0, 0).and_then(|blocks| self.process(blocks)).map(|()| len),
        })
    }

    fn parameter(&mut self, name: &[u8], _wanted: usize) -> Result<Option<Value<'_>>, Reason> {
        Ok(Some(match name {
            b"keylen" => Value::Number(K as u64),
            b"ivlen" => Value::Number(BLOCK as u64),
            b"padding" => Value::Number(self.pads.into()),
            b"num" => Value::Number(0),
            b"iv" => Value::Bytes(&self.iv),
            b"updated-iv" => {
                self.next = self.chained();
                Value::Bytes(&self.next)
            }
            b"tls-mac" => match &self.records {
                Some(records) => Value::Bytes(records.mac()),
                None => return Err(Reason::Parameter),
            },
            _ => return Ok(None),
        }))
    }

    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason> {
        match name {
            b"keylen" => fixed_key_len(given, K),
            b"padding" => {
                self.pads = given.number()? != 0;
                Ok(())
            }
            b"tls-version" => self.set_records().set_version(given.number()?),
            b"tls-mac-size" => {
                self.mac_len = tls_cbc::mac_len(given.number()?)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// How much of the last block is data (RFC 5652 section 6.3). In constant time
/// but for the answer itself, which whoever asked may tell all the same.
fn unpadded(block: &[u8; BLOCK]) -> Result<usize, Reason> {
    let padding = block[BLOCK - 1];
    let mut is_good = !padding.ct_eq(&0) & !padding.ct_gt(&(BLOCK as u8));
    for (at, byte) in block.iter().rev().enumerate() {
        is_good &= byte.ct_eq(&padding) | !padding.ct_gt(&(at as u8));
    }
    if bool::from(is_good) { Ok(BLOCK - usize::from(padding)) } else { Err(Reason::BadDecrypt) }
}
