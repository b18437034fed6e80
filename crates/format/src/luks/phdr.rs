//! The header of LUKS1: one structure of 592 bytes with eight key slots
//! (LUKS1, 3 and figures 2 and 3). Numbers are big-endian.

use super::kdf::{Hash, Kdf};
use super::{CipherSpec, MAGIC, UNIT, limits, set_text, text};
use crate::FormatError;
use crate::error::{exactly, within};
use crate::layout::{Field, layout};

layout! {
    /// The header (LUKS1, figure 2).
    header: 592;
    MAGIC = 0, 6, "magic";
    VERSION = 6, 2, "version";
    CIPHER_NAME = 8, 32, "cipher name";
    CIPHER_MODE = 40, 32, "cipher mode";
    HASH_SPEC = 72, 32, "hash";
    PAYLOAD_OFFSET = 104, 4, "payload offset";
    KEY_BYTES = 108, 4, "key bytes";
    MK_DIGEST = 112, 20, "volume key digest";
    MK_DIGEST_SALT = 132, 32, "salt of the digest";
    MK_DIGEST_ITERATIONS = 164, 4, "iterations of the digest";
    UUID = 168, 40, "UUID";
    SLOTS = 208, 384, "key slots";
}

layout! {
    /// One key slot (LUKS1, figure 3).
    slot: 48;
    ACTIVE = 0, 4, "state";
    ITERATIONS = 4, 4, "iterations";
    SALT = 8, 32, "salt";
    KEY_MATERIAL_OFFSET = 40, 4, "key material offset";
    STRIPES = 44, 4, "stripes";
}

/// Key slots of a header.
pub const SLOTS: usize = 8;
/// State of a slot that opens.
pub const ENABLED: u32 = 0x00AC_71F3;
/// State of a slot that does not.
pub const DISABLED: u32 = 0x0000_DEAD;
/// Bytes of the digest of the volume key.
pub const DIGEST_LEN: usize = 20;
/// Bytes of a salt.
pub const SALT_LEN: usize = 32;
/// Key slots begin at multiples of this many bytes.
pub const SLOT_ALIGNMENT: u64 = 4096;
/// Where data begins in a header that this program makes.
pub const PAYLOAD_ALIGNMENT: u64 = 1 << 20;

const _: () = assert!(SLOTS * slot::LEN == header::SLOTS.len);

/// A key slot of LUKS1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether it opens.
    pub enabled: bool,
    /// Iterations of PBKDF2; 0 in a slot that was never used.
    pub iterations: u32,
    /// Salt of PBKDF2.
    pub salt: [u8; SALT_LEN],
    /// Where its key material begins, in units of 512 bytes.
    pub offset: u32,
    /// Stripes of the anti-forensic splitter.
    pub stripes: u32,
}

/// A LUKS1 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phdr {
    /// The cipher of data and key slots.
    pub cipher: CipherSpec,
    /// The hash of key derivation, digest and splitter.
    pub hash: Hash,
    /// Where data begins, in units of 512 bytes; 0 for a detached header whose
    /// data begins with its device.
    pub payload_offset: u32,
    /// Bytes of the volume key.
    pub key_bytes: u32,
    /// Digest of the volume key.
    pub digest: [u8; DIGEST_LEN],
    /// Its salt.
    pub digest_salt: [u8; SALT_LEN],
    /// Its iterations.
    pub digest_iterations: u32,
    /// UUID, as text.
    pub uuid: String,
    /// The slots.
    pub slots: [Slot; SLOTS],
}

fn be_u32(field: Field, bytes: &[u8]) -> u32 {
    u32::from_be_bytes(field.array(bytes))
}

impl Phdr {
    /// Reads a header; bytes behind it are not looked at.
    ///
    /// # Errors
    /// What is wrong with it, or not supported.
    pub fn decode(bytes: &[u8]) -> Result<Phdr, FormatError> {
        let found = bytes.len();
        let bytes = bytes.get(..header::LEN).ok_or(FormatError::Length {
            what: "LUKS1 header",
            expected: header::LEN,
            found,
        })?;
        if *header::MAGIC.of(bytes) != MAGIC {
            return Err(FormatError::magic("LUKS header", header::MAGIC.of(bytes)));
        }
        let version = u16::from_be_bytes(header::VERSION.array(bytes));
        if version != 1 {
            return Err(FormatError::Unsupported { field: "LUKS version", value: version.into() });
        }
        let cipher = CipherSpec::new(
            &text("cipher name", header::CIPHER_NAME.of(bytes))?,
            &text("cipher mode", header::CIPHER_MODE.of(bytes))?,
        )?;
        let hash = Hash::parse(&text("hash name", header::HASH_SPEC.of(bytes))?)?;
        let key_bytes = be_u32(header::KEY_BYTES, bytes);
        within("key bytes", key_bytes.into(), limits::KEY_LEN_MIN.into(), limits::KEY_LEN_MAX.into())?;
        let digest_iterations = be_u32(header::MK_DIGEST_ITERATIONS, bytes);
        Kdf::pbkdf2(hash, digest_iterations.into())?;
        let mut slots = header::SLOTS.of(bytes).chunks_exact(slot::LEN).map(Slot::decode);
        let slots: [Result<Slot, FormatError>; SLOTS] =
            core::array::from_fn(|_| slots.next().expect("eight slots"));
        let mut whole = Vec::with_capacity(SLOTS);
        for slot in slots {
            whole.push(slot?);
        }
        let phdr = Phdr {
            cipher,
            hash,
            payload_offset: be_u32(header::PAYLOAD_OFFSET, bytes),
            key_bytes,
            digest: header::MK_DIGEST.array(bytes),
            digest_salt: header::MK_DIGEST_SALT.array(bytes),
            digest_iterations,
            uuid: text("UUID", header::UUID.of(bytes))?,
            slots: whole.try_into().expect("eight slots"),
        };
        phdr.check_areas()?;
        Ok(phdr)
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; header::LEN] {
        let mut bytes = [0; header::LEN];
        header::MAGIC.set(&mut bytes, &MAGIC);
        header::VERSION.set(&mut bytes, &1u16.to_be_bytes());
        set_text(&mut bytes[header::CIPHER_NAME.range()], self.cipher.cipher());
        set_text(&mut bytes[header::CIPHER_MODE.range()], self.cipher.mode());
        set_text(&mut bytes[header::HASH_SPEC.range()], self.hash.name());
        header::PAYLOAD_OFFSET.set(&mut bytes, &self.payload_offset.to_be_bytes());
        header::KEY_BYTES.set(&mut bytes, &self.key_bytes.to_be_bytes());
        header::MK_DIGEST.set(&mut bytes, &self.digest);
        header::MK_DIGEST_SALT.set(&mut bytes, &self.digest_salt);
        header::MK_DIGEST_ITERATIONS.set(&mut bytes, &self.digest_iterations.to_be_bytes());
        set_text(&mut bytes[header::UUID.range()], &self.uuid);
        let slots = bytes[header::SLOTS.range()].chunks_exact_mut(slot::LEN);
        for (bytes, slot) in slots.zip(&self.slots) {
            slot.encode(bytes);
        }
        bytes
    }

    /// Bytes of one slot's key material (LUKS1, 2.4): the key, split.
    #[must_use]
    pub fn material_len(&self) -> u64 {
        u64::from(self.key_bytes) * u64::from(limits::STRIPES)
    }

    /// Bytes that a slot's key material takes, in whole sectors.
    #[must_use]
    pub fn area_len(&self) -> u64 {
        self.material_len().next_multiple_of(UNIT)
    }

    /// The first byte behind everything that belongs to the header.
    #[must_use]
    pub fn end(&self) -> u64 {
        let ends = self.slots.iter().map(|slot| u64::from(slot.offset) * UNIT + self.area_len());
        ends.max().unwrap_or(0).max(header::LEN as u64)
    }

    /// Where the slots of a new header lie and where its data begins, in units
    /// of 512 bytes (LUKS1, figure 4).
    #[must_use]
    pub fn layout(key_bytes: u32, alignment: u64) -> ([u32; SLOTS], u32) {
        let area = (u64::from(key_bytes) * u64::from(limits::STRIPES)).next_multiple_of(SLOT_ALIGNMENT);
        let offset = |index: usize| ((SLOT_ALIGNMENT + index as u64 * area) / UNIT) as u32;
        let end = SLOT_ALIGNMENT + SLOTS as u64 * area;
        (core::array::from_fn(offset), (end.next_multiple_of(alignment) / UNIT) as u32)
    }

    /// Areas lie behind the header, before the data, and apart.
    fn check_areas(&self) -> Result<(), FormatError> {
        let len = self.area_len() / UNIT;
        let mut starts: Vec<u64> = self.slots.iter().map(|slot| slot.offset.into()).collect();
        starts.sort_unstable();
        if starts[0] < (header::LEN as u64).div_ceil(UNIT) {
            return Err(FormatError::Inconsistent { what: "a key slot lies in the LUKS1 header" });
        }
        if starts.windows(2).any(|pair| pair[1] < pair[0] + len) {
            return Err(FormatError::Inconsistent { what: "key slots of LUKS1 overlap" });
        }
        let payload = u64::from(self.payload_offset);
        if payload != 0 && starts[SLOTS - 1] + len > payload {
            return Err(FormatError::Inconsistent { what: "a key slot of LUKS1 lies in the data" });
        }
        Ok(())
    }
}

impl Slot {
    /// A slot that opens nothing, with its area at `offset`.
    #[must_use]
    pub fn disabled(offset: u32) -> Slot {
        Slot { enabled: false, iterations: 0, salt: [0; SALT_LEN], offset, stripes: limits::STRIPES }
    }

    fn decode(bytes: &[u8]) -> Result<Slot, FormatError> {
        let bytes: &[u8; slot::LEN] = exactly("key slot", bytes)?;
        let enabled = match be_u32(slot::ACTIVE, bytes) {
            ENABLED => true,
            DISABLED => false,
            other => {
                return Err(FormatError::OutOfRange {
                    field: "state of a key slot",
                    value: other.into(),
                    min: DISABLED.into(),
                    max: ENABLED.into(),
                });
            }
        };
        let iterations = be_u32(slot::ITERATIONS, bytes);
        if enabled {
            Kdf::pbkdf2(Hash::Sha1, iterations.into())?;
        }
        let stripes = be_u32(slot::STRIPES, bytes);
        within("stripes", stripes.into(), limits::STRIPES.into(), limits::STRIPES.into())?;
        let offset = be_u32(slot::KEY_MATERIAL_OFFSET, bytes);
        Ok(Slot { enabled, iterations, salt: slot::SALT.array(bytes), offset, stripes })
    }

    fn encode(&self, bytes: &mut [u8]) {
        let active = if self.enabled { ENABLED } else { DISABLED };
        slot::ACTIVE.set(bytes, &active.to_be_bytes());
        slot::ITERATIONS.set(bytes, &self.iterations.to_be_bytes());
        slot::SALT.set(bytes, &self.salt);
        slot::KEY_MATERIAL_OFFSET.set(bytes, &self.offset.to_be_bytes());
        slot::STRIPES.set(bytes, &self.stripes.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Phdr {
        let (offsets, payload_offset) = Phdr::layout(64, PAYLOAD_ALIGNMENT);
        let mut slots = offsets.map(Slot::disabled);
        slots[2] = Slot { enabled: true, iterations: 1000, salt: [7; 32], ..slots[2].clone() };
        Phdr {
            cipher: CipherSpec::parse("aes-xts-plain64").expect("known"),
            hash: Hash::Sha256,
            payload_offset,
            key_bytes: 64,
            digest: [3; 20],
            digest_salt: [4; 32],
            digest_iterations: 1000,
            uuid: "0b2b3c4d-0000-4000-8000-123456789abc".to_owned(),
            slots,
        }
    }

    #[test]
    fn headers_come_back() {
        let phdr = sample();
        assert_eq!(Phdr::decode(&phdr.encode()), Ok(phdr.clone()));
        assert_eq!(phdr.payload_offset, 4096, "cryptsetup's own layout for 512 bits");
        assert_eq!((phdr.slots[0].offset, phdr.slots[1].offset), (8, 512));
        assert!(phdr.end() <= u64::from(phdr.payload_offset) * UNIT);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let change = |change: &dyn Fn(&mut Phdr)| {
            let mut phdr = sample();
            change(&mut phdr);
            Phdr::decode(&phdr.encode())
        };
        assert!(change(&|_| ()).is_ok());
        assert!(change(&|phdr| phdr.payload_offset = 0).is_ok(), "detached");
        assert!(change(&|phdr| phdr.payload_offset = 100).is_err(), "slots in the data");
        assert!(change(&|phdr| phdr.slots[0].offset = 1).is_err(), "a slot in the header");
        assert!(change(&|phdr| phdr.slots[1].offset = 9).is_err(), "overlap");
        assert!(change(&|phdr| phdr.slots[7].offset = u32::MAX).is_err(), "far outside");
        assert!(change(&|phdr| phdr.slots[2].iterations = 0).is_err());
        assert!(change(&|phdr| phdr.slots[2].iterations = u32::MAX).is_err());
        assert!(change(&|phdr| phdr.slots[5].stripes = 3999).is_err());
        assert!(change(&|phdr| phdr.key_bytes = 0).is_err());
        assert!(change(&|phdr| phdr.key_bytes = 65).is_err());
        assert!(change(&|phdr| phdr.digest_iterations = 0).is_err());
        let mut bytes = sample().encode();
        bytes[7] = 3;
        assert!(Phdr::decode(&bytes).is_err_and(|error| error.is_unsupported()));
        bytes[0] = 0;
        assert!(Phdr::decode(&bytes).is_err());
        assert!(Phdr::decode(&sample().encode()[..591]).is_err());
    }
}
