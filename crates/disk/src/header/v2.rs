//! LUKS2 headers: both copies, their choice and their writing; slots.

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::FormatError;
use strongroom_format::luks::{
    Area, BinaryHeader, CipherSpec, Copy, Digest, Hash, Kdf, Keyslot, Metadata, Segment, binary, limits,
};
use strongroom_keys::SecretBytes;
use strongroom_keys::luks::{derive, digest, hash};
use strongroom_keys::random;

use super::SlotInfo;
use super::area::{Material, overwrite};
use crate::backing::Backing;
use crate::error::{Error, Result};

/// Bytes of a salt that this program makes.
const SALT_LEN: usize = 32;

/// What a copy of a header is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Sound, and the newest.
    Current,
    /// Sound, and of an earlier state.
    Older,
    /// Not readable as a header, or with a wrong checksum.
    Damaged,
}

impl CopyState {
    /// For reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CopyState::Current => "current",
            CopyState::Older => "older",
            CopyState::Damaged => "damaged",
        }
    }
}

/// A LUKS2 header.
#[derive(Clone, Debug)]
pub struct Luks2 {
    /// The binary header of the copy that counts.
    pub binary: BinaryHeader,
    /// Its JSON area.
    pub metadata: Metadata,
    /// What the first and the second copy were worth when they were read.
    pub copies: [CopyState; 2],
}

/// A copy whose checksum is right.
struct Sound {
    binary: BinaryHeader,
    metadata: std::result::Result<Metadata, FormatError>,
}

impl Luks2 {
    pub(super) fn read(device: &dyn Backing) -> Result<Luks2> {
        let first = read_copy(device, 0, Copy::First);
        if let Err(error @ Error::Io { .. }) = first {
            return Err(error);
        }
        let second = match &first {
            Ok(sound) => read_copy(device, sound.binary.size, Copy::Second),
            // Where it stands is told by the copy itself: no two can be right.
            Err(_) => limits::HEADER_SIZES
                .into_iter()
                .map(|offset| read_copy(device, offset, Copy::Second))
                .find(|copy| copy.is_ok())
                .unwrap_or(Err(Error::Checksum)),
        };
        choose(first, second)
    }

    /// The segment that holds the data, with its number.
    pub(super) fn segment(&self) -> Result<(u32, &Segment)> {
        let lowest = self.metadata.segments().iter().next().map(|(id, segment)| (*id, segment));
        lowest.ok_or(Error::Header(FormatError::Inconsistent { what: "there is no segment" }))
    }

    pub(super) fn slots(&self) -> Vec<SlotInfo> {
        let slots = self.metadata.keyslots().iter();
        slots
            .map(|(slot, keyslot)| SlotInfo {
                slot: *slot,
                kdf: keyslot.kdf,
                encryption: keyslot.area.encryption.clone(),
                hash: keyslot.af_hash,
                priority: keyslot.priority,
                is_bound: self.digest_of(*slot).is_some(),
            })
            .collect()
    }

    /// The digest that verifies the key of a slot as the key of the data.
    fn digest_of(&self, slot: u32) -> Option<&Digest> {
        let (segment, _) = self.segment().ok()?;
        let digests = self.metadata.digests().values();
        digests.into_iter().find(|known| known.keyslots.contains(&slot) && known.segments.contains(&segment))
    }

    /// The slots that hold the key of the data.
    pub(super) fn bound(&self) -> impl Iterator<Item = (u32, &Keyslot)> {
        let slots = self.metadata.keyslots().iter().map(|(slot, keyslot)| (*slot, keyslot));
        slots.filter(|(slot, _)| self.digest_of(*slot).is_some())
    }

    pub(super) fn open_slot(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        passphrase: &[u8],
        slot: u32,
    ) -> Result<SecretBytes> {
        let keyslot = self.metadata.keyslots().get(&slot).ok_or(Error::NoSlot(slot))?;
        let expected = self.digest_of(slot).ok_or(Error::Unbound(slot))?;
        let area_key = derive(keyslot.kdf, passphrase, &keyslot.salt, keyslot.area.key_size as usize)?;
        let key = material(keyslot).read(device, engine, &area_key)?;
        let Digest { hash, iterations, salt, digest: value, .. } = expected;
        if !digest(*hash, key.expose(), salt, *iterations, value) {
            return Err(Error::WrongPassphrase);
        }
        Ok(key)
    }

    /// The number of the digest that verifies `key` for the data; made where
    /// there is none.
    fn digest_for(&mut self, key: &SecretBytes) -> Result<u32> {
        let (segment, _) = self.segment()?;
        let known = self.metadata.digests().iter().find(|(_, known)| {
            known.segments.contains(&segment)
                && digest(known.hash, key.expose(), &known.salt, known.iterations, &known.digest)
        });
        if let Some((id, _)) = known {
            return Ok(*id);
        }
        let id = (0..limits::OBJECTS_MAX as u32).find(|id| !self.metadata.digests().contains_key(id));
        let id = id.ok_or(Error::Full)?;
        let salt = random::array::<SALT_LEN>()?.to_vec();
        let iterations = limits::PBKDF2_ITERATIONS_FLOOR;
        let mut value = vec![0; Hash::Sha256.digest_len()];
        // The key is random: iterations add nothing to what it is worth.
        strongroom_keys::luks::pbkdf2(Hash::Sha256, key.expose(), &salt, iterations, &mut value);
        self.metadata.set_digest(
            id,
            &Digest {
                keyslots: Vec::new(),
                segments: vec![segment],
                hash: Hash::Sha256,
                iterations,
                salt,
                digest: value,
            },
        );
        Ok(id)
    }

    /// What a slot shall be encrypted with: as another slot, or else as the
    /// data where that is a mode for it.
    fn area_encryption(&self, key: &SecretBytes) -> Result<(CipherSpec, u32)> {
        if let Some((_, other)) = self.bound().next() {
            return Ok((other.area.encryption.clone(), other.area.key_size));
        }
        let (_, segment) = self.segment()?;
        Ok((segment.encryption.clone(), key.len() as u32))
    }

    /// Writes key material to a free area, and gives the slot that describes
    /// it; no header names it yet.
    fn new_keyslot(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
    ) -> Result<Keyslot> {
        let (encryption, area_key_len) = self.area_encryption(key)?;
        let size = (key.len() as u64 * u64::from(limits::STRIPES)).next_multiple_of(4096);
        let offset = self.metadata.free_area(self.binary.size, size).ok_or(Error::Full)?;
        let keyslot = Keyslot {
            key_size: key.len() as u32,
            af_hash: Hash::Sha256,
            area: Area { offset, size, encryption, key_size: area_key_len },
            kdf,
            salt: random::array::<SALT_LEN>()?.to_vec(),
            priority: 1,
        };
        let area_key = derive(kdf, passphrase, &keyslot.salt, area_key_len as usize)?;
        material(&keyslot).write(device, engine, &area_key, key)?;
        Ok(keyslot)
    }

    pub(super) fn add_slot(
        &mut self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
        slot: Option<u32>,
    ) -> Result<u32> {
        let slot = match slot {
            Some(slot) if slot as usize >= limits::KEYSLOTS_MAX => return Err(Error::NoSlot(slot)),
            Some(slot) if self.metadata.has_keyslot(slot) => return Err(Error::SlotInUse(slot)),
            Some(slot) => slot,
            None => self.metadata.free_keyslot().ok_or(Error::Full)?,
        };
        let keyslot = self.new_keyslot(device, engine, key, passphrase, kdf)?;
        let digest = self.digest_for(key)?;
        self.metadata.set_keyslot(slot, &keyslot, digest);
        self.write(device)?;
        Ok(slot)
    }

    pub(super) fn change_slot(
        &mut self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
        slot: u32,
    ) -> Result<u32> {
        let old = self.metadata.keyslots().get(&slot).cloned().ok_or(Error::NoSlot(slot))?;
        let new = self.new_keyslot(device, engine, key, passphrase, kdf)?;
        let digest = self.digest_for(key)?;
        self.metadata.set_keyslot(slot, &Keyslot { priority: old.priority, ..new }, digest);
        self.write(device)?;
        overwrite(device, old.area.offset, old.area.size)?;
        Ok(slot)
    }

    pub(super) fn remove_slot(&mut self, device: &dyn Backing, slot: u32) -> Result<()> {
        let old = self.metadata.keyslots().get(&slot).cloned().ok_or(Error::NoSlot(slot))?;
        self.metadata.remove_keyslot(slot);
        self.write(device)?;
        overwrite(device, old.area.offset, old.area.size)
    }

    /// Writes both copies under the next sequence number: the first durably,
    /// then the second.
    pub(super) fn write(&mut self, device: &dyn Backing) -> Result<()> {
        let json = self.metadata.encode()?;
        let next = self.binary.sequence.checked_add(1);
        self.binary.sequence = next
            .ok_or(Error::Header(FormatError::Inconsistent { what: "the sequence number is at its end" }))?;
        for copy in [Copy::First, Copy::Second] {
            let binary = self.binary.as_copy(copy, random::array()?);
            let mut bytes = binary.encode();
            bytes.extend_from_slice(&json);
            let checksum = checksum(&bytes);
            binary::set_checksum(&mut bytes, &checksum);
            let offset = if copy == Copy::First { 0 } else { binary.size };
            device.write_at(&bytes, offset).map_err(Error::io("writing the header"))?;
            device.sync().map_err(Error::io("writing the header"))?;
        }
        self.copies = [CopyState::Current; 2];
        Ok(())
    }
}

fn material(keyslot: &Keyslot) -> Material<'_> {
    Material {
        offset: keyslot.area.offset,
        key_len: keyslot.key_size as usize,
        hash: keyslot.af_hash,
        encryption: &keyslot.area.encryption,
    }
}

fn checksum(bytes: &[u8]) -> [u8; binary::CHECKSUM_LEN] {
    let mut sum = [0; binary::CHECKSUM_LEN];
    hash(Hash::Sha256, &[bytes], &mut sum);
    sum
}

/// Reads one copy whole. Damage of any kind is [`Error::NotLuks`] when not even
/// its magic is there, a header error or [`Error::Checksum`] otherwise.
fn read_copy(device: &dyn Backing, offset: u64, copy: Copy) -> Result<Sound> {
    let read = |bytes: &mut [u8], offset| match device.read_at(bytes, offset) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::NotLuks),
        other => other.map_err(Error::io("reading the header")),
    };
    let mut bytes = vec![0; binary::header::LEN];
    read(&mut bytes, offset)?;
    let binary = match BinaryHeader::decode(&bytes, copy) {
        Ok(binary) => binary,
        Err(FormatError::Magic { .. }) => return Err(Error::NotLuks),
        Err(error) => return Err(error.into()),
    };
    if copy == Copy::Second && binary.size != offset {
        return Err(FormatError::Inconsistent { what: "the second header copy is out of place" }.into());
    }
    bytes.resize(binary.size as usize, 0);
    read(&mut bytes[binary::header::LEN..], offset + binary::header::LEN as u64)?;
    let expected = binary::take_checksum(&mut bytes);
    if checksum(&bytes) != expected {
        return Err(Error::Checksum);
    }
    let metadata = Metadata::decode(&bytes[binary::header::LEN..], binary.size);
    Ok(Sound { binary, metadata })
}

/// The newer of two sound copies. What it does not support is an error: an
/// older copy must not get round that.
fn choose(first: Result<Sound>, second: Result<Sound>) -> Result<Luks2> {
    let sequence = |copy: &Result<Sound>| copy.as_ref().ok().map(|sound| sound.binary.sequence);
    let well_formed = |copy: &Result<Sound>| {
        copy.as_ref().is_ok_and(|sound| !matches!(&sound.metadata, Err(e) if !e.is_unsupported()))
    };
    let newest = sequence(&first).max(sequence(&second));
    let state = |copy: &Result<Sound>| match sequence(copy) {
        _ if !well_formed(copy) => CopyState::Damaged,
        sequence if sequence == newest => CopyState::Current,
        _ => CopyState::Older,
    };
    let copies = [state(&first), state(&second)];
    let better = |copy: CopyState| match copy {
        CopyState::Current => 2,
        CopyState::Older => 1,
        CopyState::Damaged => 0,
    };
    let chosen = if better(copies[1]) > better(copies[0]) { second } else { first };
    let sound = match (chosen, copies) {
        (Err(Error::NotLuks), _) => return Err(Error::NotLuks),
        (chosen, _) => chosen?,
    };
    Ok(Luks2 { metadata: sound.metadata?, binary: sound.binary, copies })
}
