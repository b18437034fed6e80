//! LUKS1 headers and their slots.

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::luks::{Kdf, Phdr, Segment, Slot, UNIT};
use strongroom_keys::SecretBytes;
use strongroom_keys::luks::{derive, digest};
use strongroom_keys::random;

use super::SlotInfo;
use super::area::{Material, overwrite};
use crate::backing::Backing;
use crate::error::{Error, Result};

/// A LUKS1 header.
#[derive(Clone, Debug)]
pub struct Luks1 {
    /// What it says.
    pub phdr: Phdr,
}

impl Luks1 {
    pub(super) fn decode(bytes: &[u8]) -> Result<Luks1> {
        Ok(Luks1 { phdr: Phdr::decode(bytes)? })
    }

    /// The data, as LUKS2 would describe it.
    pub(super) fn segment(&self) -> Segment {
        Segment {
            offset: u64::from(self.phdr.payload_offset) * UNIT,
            size: None,
            iv_tweak: 0,
            encryption: self.phdr.cipher.clone(),
            sector_size: UNIT as u32,
        }
    }

    pub(super) fn slots(&self) -> Vec<SlotInfo> {
        let enabled = self.phdr.slots.iter().enumerate().filter(|(_, slot)| slot.enabled);
        enabled
            .map(|(index, slot)| SlotInfo {
                slot: index as u32,
                kdf: Kdf::Pbkdf2 { hash: self.phdr.hash, iterations: slot.iterations },
                encryption: self.phdr.cipher.clone(),
                hash: self.phdr.hash,
                priority: 1,
                is_bound: true,
            })
            .collect()
    }

    fn material(&self, slot: &Slot) -> Material<'_> {
        Material {
            offset: u64::from(slot.offset) * UNIT,
            key_len: self.phdr.key_bytes as usize,
            hash: self.phdr.hash,
            encryption: &self.phdr.cipher,
        }
    }

    pub(super) fn open_slot(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        passphrase: &[u8],
        index: u32,
    ) -> Result<SecretBytes> {
        let phdr = &self.phdr;
        let slot = phdr.slots.get(index as usize).filter(|slot| slot.enabled).ok_or(Error::NoSlot(index))?;
        let kdf = Kdf::Pbkdf2 { hash: phdr.hash, iterations: slot.iterations };
        let area_key = derive(kdf, passphrase, &slot.salt, phdr.key_bytes as usize)?;
        let key = self.material(slot).read(device, engine, &area_key)?;
        let right = digest(phdr.hash, key.expose(), &phdr.digest_salt, phdr.digest_iterations, &phdr.digest);
        if right { Ok(key) } else { Err(Error::WrongPassphrase) }
    }

    pub(super) fn add_slot(
        &mut self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
        index: Option<u32>,
    ) -> Result<u32> {
        let index = match index {
            Some(index) => index as usize,
            None => self.phdr.slots.iter().position(|slot| !slot.enabled).ok_or(Error::Full)?,
        };
        let slot = self.phdr.slots.get(index).ok_or(Error::NoSlot(index as u32))?;
        if slot.enabled {
            return Err(Error::SlotInUse(index as u32));
        }
        let Kdf::Pbkdf2 { iterations, .. } = kdf else {
            return Err(Error::Engine("LUKS1 has no KDF but PBKDF2"));
        };
        let new = Slot { enabled: true, iterations, salt: random::array()?, ..slot.clone() };
        let kdf = Kdf::Pbkdf2 { hash: self.phdr.hash, iterations };
        let area_key = derive(kdf, passphrase, &new.salt, self.phdr.key_bytes as usize)?;
        self.material(&new).write(device, engine, &area_key, key)?;
        self.phdr.slots[index] = new;
        self.write(device)?;
        Ok(index as u32)
    }

    pub(super) fn remove_slot(&mut self, device: &dyn Backing, index: u32) -> Result<()> {
        let slot = &mut self.phdr.slots[index as usize];
        *slot = Slot::disabled(slot.offset);
        let offset = u64::from(slot.offset) * UNIT;
        self.write(device)?;
        overwrite(device, offset, self.phdr.area_len())
    }

    /// Writes the header, durably. It takes two sectors of 512 bytes, and LUKS1
    /// has no second copy: a power cut between the two can leave a slot table
    /// that is half of the old.
    pub(super) fn write(&self, device: &dyn Backing) -> Result<()> {
        device.write_at(&self.phdr.encode(), 0).map_err(Error::io("writing the header"))?;
        device.sync().map_err(Error::io("writing the header"))
    }
}
