//! New headers.

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::luks::{
    BinaryHeader, CipherSpec, Config, Copy, Hash, Kdf, Metadata, Phdr, Segment, Slot, UNIT, binary, limits,
    phdr,
};
use strongroom_keys::SecretBytes;
use strongroom_keys::luks::{CostTarget, fit, pbkdf2};
use strongroom_keys::random;

use super::{CopyState, Header, Luks1, Luks2};
use crate::backing::Backing;
use crate::cipher;
use crate::error::{Error, Result};

/// Bytes of each copy of a new LUKS2 header.
const HEADER_SIZE: u64 = limits::HEADER_SIZES[0];
/// Where data begins behind a new LUKS2 header.
const DATA_OFFSET: u64 = 16 << 20;

/// Which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// LUKS1.
    Luks1,
    /// LUKS2.
    Luks2,
}

/// What a new header shall say.
#[derive(Clone, Debug)]
pub struct NewHeader {
    /// Which format.
    pub version: Version,
    /// The cipher of the data, and of key slots.
    pub cipher: CipherSpec,
    /// Bytes of the volume key.
    pub key_len: u32,
    /// Bytes of a sector; LUKS1 has 512.
    pub sector_size: u32,
    /// LUKS1: the hash of everything.
    pub hash: Hash,
    /// LUKS2: a label.
    pub label: String,
    /// UUID as text; none for a random one.
    pub uuid: Option<String>,
    /// The header lies on a device of its own, and data begins with the data
    /// device.
    pub detached: bool,
}

impl NewHeader {
    /// Refuses what cannot be made, before anything is asked for or written.
    ///
    /// # Errors
    /// [`Error::Cipher`]; [`Error::Engine`] with what does not fit together.
    pub fn check(&self, engine: &Arc<dyn Engine>) -> Result<()> {
        if !cipher::is_available(engine, &self.cipher, self.key_len as usize) {
            return Err(Error::Cipher { name: self.cipher.to_string(), key_bits: self.key_len * 8 });
        }
        if self.version == Version::Luks1 && u64::from(self.sector_size) != UNIT {
            return Err(Error::Engine("LUKS1 has sectors of 512 bytes alone"));
        }
        Ok(())
    }

    /// Bytes before the data.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match (self.detached, self.version) {
            (true, _) => 0,
            (false, Version::Luks1) => {
                u64::from(Phdr::layout(self.key_len, phdr::PAYLOAD_ALIGNMENT).1) * UNIT
            }
            (false, Version::Luks2) => DATA_OFFSET,
        }
    }

    /// Bytes that the header takes on its device.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        NewHeader { detached: false, ..self.clone() }.data_offset()
    }

    /// Makes the header on `device` with one slot. What was at its place is
    /// overwritten; the header comes last, so that nothing half-made is taken
    /// for one.
    ///
    /// # Errors
    /// As [`NewHeader::check`]; [`Error::TooSmall`]; what the device reports.
    pub fn create(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        passphrase: &[u8],
        kdf: Kdf,
    ) -> Result<Header> {
        self.check(engine)?;
        let found = device.len().map_err(Error::io("asking for the length"))?;
        let sector = if self.detached { 0 } else { u64::from(self.sector_size) };
        let needed = self.header_len() + sector;
        if found < needed {
            return Err(Error::TooSmall { found, needed });
        }
        let key = self.random_key()?;
        clear(device, self.header_len(), found)?;
        let mut header = match self.version {
            Version::Luks1 => Header::V1(Box::new(Luks1 { phdr: self.phdr(&key)? })),
            Version::Luks2 => Header::V2(Box::new(self.luks2()?)),
        };
        header.add_slot(device, engine, &key, passphrase, kdf, Some(0))?;
        Ok(header)
    }

    /// A volume key. Its halves differ, as XTS demands, but for a chance that
    /// never comes.
    fn random_key(&self) -> Result<SecretBytes> {
        let mut key = SecretBytes::zeroed(self.key_len as usize);
        random::fill(key.expose_mut())?;
        Ok(key)
    }

    fn uuid(&self) -> Result<String> {
        match &self.uuid {
            Some(uuid) => Ok(uuid.clone()),
            None => random_uuid(),
        }
    }

    fn phdr(&self, key: &SecretBytes) -> Result<Phdr> {
        let (offsets, payload_offset) = Phdr::layout(self.key_len, phdr::PAYLOAD_ALIGNMENT);
        let digest_salt = random::array()?;
        // As for a slot in an eighth of the time: LUKS1's own proportion.
        let fitted = fit(CostTarget::Pbkdf2(self.hash), std::time::Duration::from_millis(125))?;
        let Kdf::Pbkdf2 { iterations, .. } = fitted else { unreachable!("PBKDF2 was asked for") };
        let mut digest = [0; phdr::DIGEST_LEN];
        pbkdf2(self.hash, key.expose(), &digest_salt, iterations, &mut digest);
        Ok(Phdr {
            cipher: self.cipher.clone(),
            hash: self.hash,
            payload_offset: if self.detached { 0 } else { payload_offset },
            key_bytes: self.key_len,
            digest,
            digest_salt,
            digest_iterations: iterations,
            uuid: self.uuid()?,
            slots: offsets.map(Slot::disabled),
        })
    }

    fn luks2(&self) -> Result<Luks2> {
        let config = Config {
            json_size: HEADER_SIZE - binary::header::LEN as u64,
            keyslots_size: DATA_OFFSET - 2 * HEADER_SIZE,
        };
        let segment = Segment {
            offset: self.data_offset(),
            size: None,
            iv_tweak: 0,
            encryption: self.cipher.clone(),
            sector_size: self.sector_size,
        };
        Ok(Luks2 {
            binary: BinaryHeader {
                copy: Copy::First,
                size: HEADER_SIZE,
                sequence: 0,
                label: self.label.clone(),
                salt: random::array()?,
                uuid: self.uuid()?,
                subsystem: String::new(),
            },
            metadata: Metadata::new(config, &segment),
            copies: [CopyState::Current; 2],
        })
    }
}

/// A random UUID (RFC 9562, 5.4), as text.
///
/// # Errors
/// [`Error::Entropy`].
fn random_uuid() -> Result<String> {
    let mut bytes: [u8; 16] = random::array()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Takes away what would be recognised as something else: zeros over the
/// header's place, and over the end, where partition tables keep a copy.
fn clear(device: &dyn Backing, len: u64, device_len: u64) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    let zero = |from: u64, to: u64| -> Result<()> {
        let mut at = from;
        while at < to {
            let now = (to - at).min(zeros.len() as u64);
            device.write_at(&zeros[..now as usize], at).map_err(Error::io("clearing the header's place"))?;
            at += now;
        }
        Ok(())
    };
    zero(0, len)?;
    zero(device_len.saturating_sub(64 << 10).max(len), device_len)?;
    device.sync().map_err(Error::io("clearing the header's place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_well_formed() {
        let (a, b) = (random_uuid().expect("entropy"), random_uuid().expect("entropy"));
        assert_ne!(a, b);
        assert_eq!((a.len(), &a[14..15]), (36, "4"));
        assert!("89ab".contains(&a[19..20]), "{a}");
    }
}
