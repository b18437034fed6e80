//! Special records (section 4.3): symlinks, FIFOs, sockets and device nodes as
//! regular stored files that are shorter than a page, which no file of a plain
//! length is.
//!
//! A clear head, two sealed slots and, of a symlink, the sealed target. What
//! seals them is another crate's.

use strongroom_units::PAGE_LEN;

use super::names::{SALT_LEN, SIV_LEN};
use super::{DirectoryId, FileId, VERSION, WriteSession};
use crate::error::{FormatError, exactly, within, zero};
use crate::layout::layout;

layout! {
    /// The clear head.
    head: 40;
    MAGIC = 0, 4, "magic `SRsp`";
    VERSION = 4, 1, "format version";
    ZERO = 5, 7, "zero";
    BIRTH = 12, 12, "birth";
    FILE = 24, 16, "file id";
}

layout! {
    /// A slot before it is sealed.
    slot: 72;
    SEQUENCE = 0, 8, "sequence number";
    KIND = 8, 1, "kind";
    FLAGS = 9, 1, "flags";
    TARGET_LEN = 10, 2, "target length";
    ZERO = 12, 4, "zero";
    DEVICE = 16, 8, "device number";
    HOME = 24, 16, "home";
    DIRECTORY = 40, 16, "directory";
    BODY_TAG = 56, 16, "tag of the body";
}

/// The magic of a special record.
pub const MAGIC: [u8; 4] = *b"SRsp";
/// Bytes of a sealed slot.
pub const SLOT_LEN: usize = SIV_LEN + slot::LEN;
/// Where the slots stand: in a sector each, so that one torn sector leaves one.
pub const SLOT_OFFSETS: [usize; 2] = [head::LEN, 512];
/// Where the body stands, and the length of a record without.
pub const BODY_OFFSET: usize = SLOT_OFFSETS[1] + SLOT_LEN;
/// No record is longer: it would be as long as a page.
pub const LEN_MAX: usize = PAGE_LEN - 1;
/// Bytes that sealing adds to a target.
pub const BODY_OVERHEAD: usize = SIV_LEN + SALT_LEN;
/// The longest target in bytes: `PATH_MAX` of Linux, less the zero byte.
pub const TARGET_MAX: usize = 4095;
/// The longest target whose sealed body stands in the record.
pub const INLINE_TARGET_MAX: usize = LEN_MAX - BODY_OFFSET - BODY_OVERHEAD;

const _: () = assert!(SLOT_OFFSETS[0] + SLOT_LEN <= SLOT_OFFSETS[1]);
const _: () = assert!(INLINE_TARGET_MAX < TARGET_MAX);

const LINKED: u8 = 1;

/// Whether a stored file of this length is a special record.
#[must_use]
pub const fn is_special_len(stored: u64) -> bool {
    stored > 0 && stored <= LEN_MAX as u64
}

/// The clear head of a special record. Both slots authenticate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The write session that made it, as the vault header lists it.
    pub birth: WriteSession,
    /// Its id.
    pub file: FileId,
}

impl Head {
    /// Reads the head.
    ///
    /// # Errors
    /// [`FormatError`] when a field is none that this format writes.
    pub fn decode(bytes: &[u8; head::LEN]) -> Result<Head, FormatError> {
        if head::MAGIC.of(bytes) != MAGIC {
            return Err(FormatError::magic("special record", head::MAGIC.of(bytes)));
        }
        let version = head::VERSION.byte(bytes);
        if version != VERSION {
            return Err(FormatError::Unsupported {
                field: "special record version",
                value: u64::from(version),
            });
        }
        zero("special record", head::ZERO.of(bytes), head::ZERO.offset)?;
        Ok(Head { birth: WriteSession(head::BIRTH.array(bytes)), file: FileId(head::FILE.array(bytes)) })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; head::LEN] {
        let mut bytes = [0; head::LEN];
        head::MAGIC.set(&mut bytes, &MAGIC);
        head::VERSION.set(&mut bytes, &[VERSION]);
        head::BIRTH.set(&mut bytes, &self.birth.0);
        head::FILE.set(&mut bytes, &self.file.0);
        bytes
    }
}

/// What a special record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// A symlink.
    Symlink {
        /// Bytes of its target, 1 to [`TARGET_MAX`].
        target_len: u16,
        /// The synthetic IV of the sealed target.
        body_tag: [u8; SIV_LEN],
    },
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device node, by its device number.
    CharacterDevice(u64),
    /// A block device node, by its device number.
    BlockDevice(u64),
}

impl Special {
    /// Numbers on the wire and names, for the document.
    pub const NUMBERS: [(u8, &'static str); 5] =
        [(1, "symlink"), (2, "FIFO"), (3, "socket"), (4, "character device"), (5, "block device")];

    fn number(&self) -> u8 {
        match self {
            Special::Symlink { .. } => 1,
            Special::Fifo => 2,
            Special::Socket => 3,
            Special::CharacterDevice(_) => 4,
            Special::BlockDevice(_) => 5,
        }
    }

    /// Length of the record.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        match *self {
            Special::Symlink { target_len, .. } if usize::from(target_len) <= INLINE_TARGET_MAX => {
                BODY_OFFSET + BODY_OVERHEAD + usize::from(target_len)
            }
            _ => BODY_OFFSET,
        }
    }

    /// Whether the body stands in a file of its own.
    #[must_use]
    pub fn has_side(&self) -> bool {
        matches!(*self, Special::Symlink { target_len, .. } if usize::from(target_len) > INLINE_TARGET_MAX)
    }
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// One more than that of the slot before; from 1.
    pub sequence: u64,
    /// It has had more than one name, and opens under any.
    pub linked: bool,
    /// The MAC over directory id and plain name.
    pub home: [u8; 16],
    /// The id of the home's directory.
    pub directory: DirectoryId,
    /// What it is; the same in both slots.
    pub special: Special,
}

impl Slot {
    /// Reads an opened slot.
    ///
    /// # Errors
    /// [`FormatError`] when a field is none that this format writes.
    pub fn decode(bytes: &[u8]) -> Result<Slot, FormatError> {
        let bytes: &[u8; slot::LEN] = exactly("slot of a special record", bytes)?;
        zero("slot of a special record", slot::ZERO.of(bytes), slot::ZERO.offset)?;
        let flags = slot::FLAGS.byte(bytes);
        within("flags of a special record", u64::from(flags), 0, u64::from(LINKED))?;
        let sequence = within("sequence of a special record", slot::SEQUENCE.u64(bytes), 1, u64::MAX)?;
        Ok(Slot {
            sequence,
            linked: flags & LINKED != 0,
            home: slot::HOME.array(bytes),
            directory: DirectoryId(slot::DIRECTORY.array(bytes)),
            special: special(bytes)?,
        })
    }

    /// The bytes to be sealed.
    #[must_use]
    pub fn encode(&self) -> [u8; slot::LEN] {
        let mut bytes = [0; slot::LEN];
        slot::SEQUENCE.set(&mut bytes, &self.sequence.to_le_bytes());
        slot::KIND.set(&mut bytes, &[self.special.number()]);
        slot::FLAGS.set(&mut bytes, &[u8::from(self.linked) * LINKED]);
        match self.special {
            Special::Symlink { target_len, body_tag } => {
                slot::TARGET_LEN.set(&mut bytes, &target_len.to_le_bytes());
                slot::BODY_TAG.set(&mut bytes, &body_tag);
            }
            Special::CharacterDevice(device) | Special::BlockDevice(device) => {
                slot::DEVICE.set(&mut bytes, &device.to_le_bytes());
            }
            Special::Fifo | Special::Socket => {}
        }
        slot::HOME.set(&mut bytes, &self.home);
        slot::DIRECTORY.set(&mut bytes, &self.directory.0);
        bytes
    }
}

fn special(bytes: &[u8; slot::LEN]) -> Result<Special, FormatError> {
    let without = |fields: &[crate::layout::Field]| {
        fields.iter().try_for_each(|field| zero(field.name, field.of(bytes), field.offset))
    };
    let device = slot::DEVICE.u64(bytes);
    let kind = slot::KIND.byte(bytes);
    if kind == 1 {
        without(&[slot::DEVICE])?;
        let target_len = slot::TARGET_LEN.u16(bytes);
        within("target length", u64::from(target_len), 1, TARGET_MAX as u64)?;
        return Ok(Special::Symlink { target_len, body_tag: slot::BODY_TAG.array(bytes) });
    }
    without(&[slot::TARGET_LEN, slot::BODY_TAG])?;
    match kind {
        2 | 3 => {
            without(&[slot::DEVICE])?;
            Ok(if kind == 2 { Special::Fifo } else { Special::Socket })
        }
        4 => Ok(Special::CharacterDevice(device)),
        5 => Ok(Special::BlockDevice(device)),
        _ => Err(FormatError::Unsupported { field: "kind of a special record", value: u64::from(kind) }),
    }
}

/// A special record taken apart; nothing of it is opened yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The clear head as it stands there.
    pub head: &'a [u8; head::LEN],
    /// The sealed slots; one that was never written is zeros.
    pub slots: [&'a [u8; SLOT_LEN]; 2],
    /// The sealed target, empty where there is none here.
    pub body: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a stored file apart.
    ///
    /// # Errors
    /// [`FormatError`] when it has not the length of a special record, or not
    /// zeros where there is nothing.
    pub fn split(stored: &'a [u8]) -> Result<Parts<'a>, FormatError> {
        let len = stored.len() as u64;
        within("length of a special record", len, BODY_OFFSET as u64, LEN_MAX as u64)?;
        let [first, second] = SLOT_OFFSETS;
        zero("special record", &stored[first + SLOT_LEN..second], first + SLOT_LEN)?;
        let slot = |at: usize| stored[at..at + SLOT_LEN].try_into().expect("a slot's length");
        Ok(Parts {
            head: stored.first_chunk().expect("it is longer"),
            slots: [slot(first), slot(second)],
            body: &stored[BODY_OFFSET..],
        })
    }

    /// A whole record of these parts.
    #[must_use]
    pub fn join(&self) -> Vec<u8> {
        let mut bytes = vec![0; BODY_OFFSET];
        bytes[..head::LEN].copy_from_slice(self.head);
        for (at, slot) in SLOT_OFFSETS.into_iter().zip(self.slots) {
            bytes[at..at + SLOT_LEN].copy_from_slice(slot);
        }
        bytes.extend_from_slice(self.body);
        bytes
    }
}

#[cfg(test)]
#[path = "special_tests.rs"]
mod tests;
