//! Key material in its area: split, encrypted, and overwritten at its end.

use std::sync::Arc;

use strongroom_engine::{Buffer, Engine, Operation};
use strongroom_format::luks::{CipherSpec, Hash, UNIT, limits};
use strongroom_keys::SecretBytes;
use strongroom_keys::luks::{merge, split};
use strongroom_memory::in_wiped_stack;

use super::Wiped;
use crate::backing::Backing;
use crate::error::{Error, Result};
use crate::sectors::KeyedCipher;

/// Where a slot's key material lies and how it is kept.
pub(super) struct Material<'a> {
    pub(super) offset: u64,
    pub(super) key_len: usize,
    pub(super) hash: Hash,
    pub(super) encryption: &'a CipherSpec,
}

impl Material<'_> {
    fn len(&self) -> usize {
        self.key_len * limits::STRIPES as usize
    }

    fn apply(
        &self,
        operation: Operation,
        engine: &Arc<dyn Engine>,
        area_key: &SecretBytes,
        bytes: &mut Wiped,
    ) -> Result<()> {
        let cipher = KeyedCipher::new(engine, self.encryption, area_key.expose(), UNIT as u32)?;
        let mut list = cipher.list();
        cipher.add(&mut list, 0, bytes.0.len(), 0);
        cipher.apply(operation, &mut bytes.0, list)
    }

    /// The key that the area holds under `area_key`: any bytes, when that is
    /// wrong.
    pub(super) fn read(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        area_key: &SecretBytes,
    ) -> Result<SecretBytes> {
        in_wiped_stack(|| {
            let len = self.len();
            let mut bytes = Wiped(Buffer::new(len.next_multiple_of(UNIT as usize)));
            device.read_at(&mut bytes.0, self.offset).map_err(Error::io("reading a key slot"))?;
            self.apply(Operation::DecryptSectors, engine, area_key, &mut bytes)?;
            Ok(merge(&bytes.0[..len], self.key_len, self.hash))
        })
    }

    /// Writes `key` under `area_key`, durably.
    pub(super) fn write(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        area_key: &SecretBytes,
        key: &SecretBytes,
    ) -> Result<()> {
        in_wiped_stack(|| {
            let material = split(key.expose(), limits::STRIPES, self.hash)?;
            let mut bytes = Wiped(Buffer::new(self.len().next_multiple_of(UNIT as usize)));
            bytes.0[..material.len()].copy_from_slice(material.expose());
            drop(material);
            self.apply(Operation::EncryptSectors, engine, area_key, &mut bytes)?;
            device.write_at(&bytes.0, self.offset).map_err(Error::io("writing a key slot"))
        })?;
        device.sync().map_err(Error::io("writing a key slot"))
    }
}

/// Overwrites a range with random bytes, durably.
pub(super) fn overwrite(device: &dyn Backing, offset: u64, len: u64) -> Result<()> {
    const AT_ONCE: u64 = 1 << 20;
    let mut bytes = vec![0; len.min(AT_ONCE) as usize];
    let mut done = 0;
    while done < len {
        let now = (len - done).min(AT_ONCE) as usize;
        strongroom_keys::random::fill(&mut bytes[..now])?;
        device.write_at(&bytes[..now], offset + done).map_err(Error::io("overwriting key material"))?;
        done += now as u64;
    }
    device.sync().map_err(Error::io("overwriting key material"))
}
