//! Headers: reading, making and changing them with their key slots.
//!
//! Reading looks at everything that the format checks, and refuses what is not
//! supported before anything is used or written. Every change writes key
//! material first and the header that names it after, each durably;
//! `docs/format/luks.md` has the order.

mod area;
mod create;
mod v1;
mod v2;

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::luks::{self, CipherSpec, Hash, Kdf, Segment};
use strongroom_keys::SecretBytes;
use zeroize::Zeroize;

pub use create::{NewHeader, Version};
pub use v1::Luks1;
pub use v2::{CopyState, Luks2};

use crate::backing::Backing;
use crate::error::{Error, Result};

/// A header of either version.
#[derive(Clone, Debug)]
pub enum Header {
    /// LUKS1.
    V1(Box<Luks1>),
    /// LUKS2.
    V2(Box<Luks2>),
}

/// What is known of a key slot without its passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its number.
    pub slot: u32,
    /// From passphrase to key.
    pub kdf: Kdf,
    /// What encrypts its area.
    pub encryption: CipherSpec,
    /// Hash of the splitter.
    pub hash: Hash,
    /// 0: only when asked for; 1: as others; 2: first.
    pub priority: u8,
    /// Whether it holds the key of the data. One that does not (unbound, LUKS2
    /// 3.2) holds a key of something else, and opens nothing here.
    pub is_bound: bool,
}

/// An unlocked volume key and the slot that gave it.
pub struct Unlocked {
    /// The slot.
    pub slot: u32,
    /// The volume key, verified by its digest.
    pub key: SecretBytes,
}

impl Header {
    /// Reads the header at the beginning of `device`.
    ///
    /// # Errors
    /// [`Error::NotLuks`]; [`Error::Header`] for damage and for what is not
    /// supported; [`Error::Checksum`]; [`Error::Io`].
    pub fn read(device: &dyn Backing) -> Result<Header> {
        let mut begin = [0; luks::binary::header::LEN];
        let len = device.len().map_err(Error::io("asking for the length"))?;
        let there = begin.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        device.read_at(&mut begin[..there], 0).map_err(Error::io("reading the header"))?;
        match luks::version(&begin) {
            Some(1) => Ok(Header::V1(Box::new(Luks1::decode(&begin)?))),
            // A LUKS2 header without its beginning still has a second copy.
            Some(2) | None => Luks2::read(device).map(Box::new).map(Header::V2),
            Some(other) => {
                let error = strongroom_format::FormatError::Unsupported {
                    field: "LUKS version",
                    value: other.into(),
                };
                Err(error.into())
            }
        }
    }

    /// The format's version: 1 or 2.
    #[must_use]
    pub fn version(&self) -> u8 {
        match self {
            Header::V1(_) => 1,
            Header::V2(_) => 2,
        }
    }

    /// UUID, as text.
    #[must_use]
    pub fn uuid(&self) -> &str {
        match self {
            Header::V1(header) => &header.phdr.uuid,
            Header::V2(header) => &header.binary.uuid,
        }
    }

    /// The segment that holds the data.
    ///
    /// # Errors
    /// [`Error::Header`] when there is none.
    pub fn segment(&self) -> Result<Segment> {
        match self {
            Header::V1(header) => Ok(header.segment()),
            Header::V2(header) => header.segment().map(|(_, segment)| segment.clone()),
        }
    }

    /// Whether two readings found the same state of the same header.
    #[must_use]
    pub fn is_as(&self, other: &Header) -> bool {
        match (self, other) {
            (Header::V1(one), Header::V1(other)) => one.phdr == other.phdr,
            (Header::V2(one), Header::V2(other)) => {
                one.binary.sequence == other.binary.sequence && one.metadata == other.metadata
            }
            _ => false,
        }
    }

    /// The segment that holds the data, on a device that the header may share.
    ///
    /// # Errors
    /// As [`Header::segment`]; [`Error::Overlap`] when writing the data would
    /// overwrite the header: it is one that was made to lie elsewhere.
    pub fn segment_beside(&self, is_same_device: bool) -> Result<Segment> {
        let segment = self.segment()?;
        let end = match self {
            Header::V1(header) => header.phdr.end(),
            Header::V2(_) => self.end(),
        };
        match is_same_device && segment.offset < end {
            true => Err(Error::Overlap { data: segment.offset, header_end: end }),
            false => Ok(segment),
        }
    }

    /// Bytes of the volume key, where a slot or the header says it.
    #[must_use]
    pub fn key_len(&self) -> Option<u32> {
        match self {
            Header::V1(header) => Some(header.phdr.key_bytes),
            Header::V2(header) => header.bound().next().map(|(_, slot)| slot.key_size),
        }
    }

    /// The key slots that can be tried.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotInfo> {
        match self {
            Header::V1(header) => header.slots(),
            Header::V2(header) => header.slots(),
        }
    }

    /// The first byte behind everything that belongs to the header on its
    /// device: what a backup holds.
    #[must_use]
    pub fn end(&self) -> u64 {
        match self {
            Header::V1(header) => header.phdr.end().next_multiple_of(4096),
            Header::V2(header) => header.metadata.areas(header.binary.size).1,
        }
    }

    /// Opens a slot: the named one, or the first that the passphrase opens,
    /// by priority and number. Slots that hold no key of the data are not
    /// tried. `device` holds the header.
    ///
    /// # Errors
    /// [`Error::WrongPassphrase`]; [`Error::NoSlot`], [`Error::Unbound`] for
    /// the named one; [`Error::NoUsableSlot`] when there is none to be tried;
    /// [`Error::Memory`] when no slot opens and one could not be tried;
    /// [`Error::Cipher`].
    pub fn unlock(
        &self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        passphrase: &[u8],
        slot: Option<u32>,
    ) -> Result<Unlocked> {
        let mut slots = self.slots();
        match slot {
            Some(slot) => slots.retain(|info| info.slot == slot),
            None => slots.retain(|info| info.priority > 0 && info.is_bound),
        }
        match (slots.first(), slot) {
            (None, Some(slot)) => return Err(Error::NoSlot(slot)),
            (Some(info), Some(slot)) if !info.is_bound => return Err(Error::Unbound(slot)),
            (None, None) => return Err(Error::NoUsableSlot),
            _ => {}
        }
        slots.sort_by_key(|info| (std::cmp::Reverse(info.priority), info.slot));
        let mut failed = Error::WrongPassphrase;
        for info in slots {
            let opened = match self {
                Header::V1(header) => header.open_slot(device, engine, passphrase, info.slot),
                Header::V2(header) => header.open_slot(device, engine, passphrase, info.slot),
            };
            match opened {
                Ok(key) => return Ok(Unlocked { slot: info.slot, key }),
                Err(Error::WrongPassphrase) => {}
                Err(error @ (Error::Memory(_) | Error::Cipher { .. })) => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// Adds a slot that `passphrase` opens: the named one, or the lowest that
    /// is free. The header is written when the slot's key material is durable.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::SlotInUse`], and what the device reports.
    pub fn add_slot(
        &mut self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
        slot: Option<u32>,
    ) -> Result<u32> {
        match self {
            Header::V1(header) => header.add_slot(device, engine, key, passphrase, kdf, slot),
            Header::V2(header) => header.add_slot(device, engine, key, passphrase, kdf, slot),
        }
    }

    /// Replaces what opens slot `slot`, and gives the number that it has then:
    /// the same in LUKS2, another in LUKS1.
    ///
    /// # Errors
    /// As [`Header::add_slot`].
    pub fn change_slot(
        &mut self,
        device: &dyn Backing,
        engine: &Arc<dyn Engine>,
        key: &SecretBytes,
        passphrase: &[u8],
        kdf: Kdf,
        slot: u32,
    ) -> Result<u32> {
        if !self.slots().iter().any(|info| info.slot == slot) {
            return Err(Error::NoSlot(slot));
        }
        match self {
            Header::V1(header) => {
                let added = header.add_slot(device, engine, key, passphrase, kdf, None)?;
                header.remove_slot(device, slot)?;
                Ok(added)
            }
            Header::V2(header) => header.change_slot(device, engine, key, passphrase, kdf, slot),
        }
    }

    /// Removes a slot: first from the header, then its key material.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::LastSlot`] for the last that holds the key
    /// of the data, unless `even_the_last`; what the device reports.
    pub fn remove_slot(&mut self, device: &dyn Backing, slot: u32, even_the_last: bool) -> Result<()> {
        let slots = self.slots();
        if !slots.iter().any(|info| info.slot == slot) {
            return Err(Error::NoSlot(slot));
        }
        let bound: Vec<u32> = slots.iter().filter(|info| info.is_bound).map(|info| info.slot).collect();
        let is_last = bound == [slot];
        if is_last && !even_the_last {
            return Err(Error::LastSlot);
        }
        match self {
            Header::V1(header) => header.remove_slot(device, slot),
            Header::V2(header) => header.remove_slot(device, slot),
        }
    }

    /// Removes every slot and overwrites the whole area of key material, so
    /// that nothing opens the data any more.
    ///
    /// # Errors
    /// What the device reports.
    pub fn erase(&mut self, device: &dyn Backing) -> Result<()> {
        for info in self.slots() {
            self.remove_slot(device, info.slot, true)?;
        }
        let (start, end) = match self {
            Header::V1(header) => (u64::from(header.phdr.slots[0].offset) * luks::UNIT, self.end()),
            Header::V2(header) => header.metadata.areas(header.binary.size),
        };
        area::overwrite(device, start, end - start)
    }
}

/// Zeros on drop, for bytes of key material.
pub(crate) struct Wiped(pub(crate) strongroom_engine::Buffer);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
