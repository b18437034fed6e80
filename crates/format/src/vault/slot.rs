//! Key slots of the vault header (section 8): how one secret gives the root
//! key. The cryptography is another crate's.

mod cost;

pub use cost::KdfCost;

use super::VaultId;
use crate::error::{FormatError, within, zero};
use crate::layout::layout;

layout! {
    /// A key slot.
    slot: 512;
    KIND = 0, 1, "kind";
    KDF = 1, 1, "KDF";
    ZERO_1 = 2, 2, "zero";
    MEMORY = 4, 4, "Argon2id memory in KiB";
    PASSES = 8, 4, "Argon2id passes";
    LANES = 12, 4, "Argon2id lanes";
    SALT = 16, 32, "salt";
    CREATED = 48, 8, "created";
    LABEL = 56, 64, "label";
    COMMITMENT = 120, 32, "commitment";
    WRAPPED = 152, 48, "root key wrapped";
    ZERO_2 = 200, 312, "zero";
}

/// Bytes of a slot that its wrap is bound to.
pub const BOUND_LEN: usize = slot::COMMITMENT.offset;
/// Bytes of a salt.
pub const SALT_LEN: usize = slot::SALT.len;

const KDF_ARGON2ID: u8 = 1;
const KDF_HKDF: u8 = 2;

/// What secret opens a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SlotKind {
    /// A password that a person chose.
    Password = 1,
    /// A file.
    KeyFile = 2,
    /// 32 random bytes, printed.
    Recovery = 3,
    /// A password and a file, both of which it takes.
    PasswordAndKeyFile = 4,
}

impl SlotKind {
    /// Every kind, by number.
    pub const ALL: [SlotKind; 4] =
        [SlotKind::Password, SlotKind::KeyFile, SlotKind::Recovery, SlotKind::PasswordAndKeyFile];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl core::fmt::Display for SlotKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            SlotKind::Password => "password",
            SlotKind::KeyFile => "key file",
            SlotKind::Recovery => "recovery key",
            SlotKind::PasswordAndKeyFile => "password with key file",
        })
    }
}

/// How a secret becomes the key that wraps the root key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// Argon2id, for secrets that can be guessed.
    Argon2id(KdfCost),
    /// HKDF-SHA256, for secrets that are uniform.
    Hkdf,
}

/// Text of at most 64 bytes without control characters, stored zero-padded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    /// Most bytes of UTF-8.
    pub const MAX: usize = slot::LABEL.len;

    /// A label with this text.
    ///
    /// # Errors
    /// [`FormatError`] when it is longer than [`Label::MAX`] bytes or has
    /// control characters, which could steer a terminal.
    pub fn new(text: &str) -> Result<Label, FormatError> {
        within("length of a label", text.len() as u64, 0, Self::MAX as u64)?;
        if text.contains(char::is_control) {
            return Err(FormatError::text("label", text.as_bytes()));
        }
        Ok(Label(text.to_owned()))
    }

    /// A label with as much of this text as can be kept, for texts that only
    /// inform.
    #[must_use]
    pub fn lossy(text: &str) -> Label {
        let mut kept = String::new();
        for c in text.chars().filter(|c| !c.is_control()) {
            if kept.len() + c.len_utf8() > Self::MAX {
                break;
            }
            kept.push(c);
        }
        Label(kept)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Label, FormatError> {
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        zero("label", &bytes[len..], len)?;
        let text =
            core::str::from_utf8(&bytes[..len]).map_err(|_| FormatError::text("label", &bytes[..len]))?;
        Label::new(text)
    }

    pub(crate) fn encode(&self) -> [u8; Self::MAX] {
        let mut bytes = [0; Self::MAX];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        bytes
    }
}

/// A key slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    /// What secret opens it.
    pub kind: SlotKind,
    /// How. Argon2id exactly when the kind is a password.
    pub kdf: Kdf,
    /// The KDF's salt.
    pub salt: [u8; SALT_LEN],
    /// Seconds since 1970.
    pub created: u64,
    /// What its owner calls it.
    pub label: Label,
    /// Tells a right secret from a wrong one, and binds the wrapping key.
    pub commitment: [u8; slot::COMMITMENT.len],
    /// The root key, wrapped.
    pub wrapped: [u8; slot::WRAPPED.len],
}

impl KeySlot {
    fn decode(kind: SlotKind, bytes: &[u8]) -> Result<KeySlot, FormatError> {
        zero("key slot", slot::ZERO_1.of(bytes), slot::ZERO_1.offset)?;
        zero("key slot", slot::ZERO_2.of(bytes), slot::ZERO_2.offset)?;
        Ok(KeySlot {
            kind,
            kdf: decode_kdf(kind, bytes)?,
            salt: slot::SALT.array(bytes),
            created: slot::CREATED.u64(bytes),
            label: Label::decode(slot::LABEL.of(bytes))?,
            commitment: slot::COMMITMENT.array(bytes),
            wrapped: slot::WRAPPED.array(bytes),
        })
    }

    /// The slot as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; slot::LEN] {
        let mut bytes = [0; slot::LEN];
        slot::KIND.set(&mut bytes, &[self.kind.number()]);
        match self.kdf {
            Kdf::Hkdf => slot::KDF.set(&mut bytes, &[KDF_HKDF]),
            Kdf::Argon2id(cost) => {
                slot::KDF.set(&mut bytes, &[KDF_ARGON2ID]);
                slot::MEMORY.set(&mut bytes, &cost.memory_kib().to_le_bytes());
                slot::PASSES.set(&mut bytes, &cost.passes().to_le_bytes());
                slot::LANES.set(&mut bytes, &cost.lanes().to_le_bytes());
            }
        }
        slot::SALT.set(&mut bytes, &self.salt);
        slot::CREATED.set(&mut bytes, &self.created.to_le_bytes());
        slot::LABEL.set(&mut bytes, &self.label.encode());
        slot::COMMITMENT.set(&mut bytes, &self.commitment);
        slot::WRAPPED.set(&mut bytes, &self.wrapped);
        bytes
    }

    /// The part of the slot that its wrap is bound to, which holds neither the
    /// commitment nor the wrap.
    #[must_use]
    pub fn bound(&self) -> [u8; BOUND_LEN] {
        self.encode()[..BOUND_LEN].try_into().expect("the bound part is a prefix")
    }
}

fn decode_kdf(kind: SlotKind, bytes: &[u8]) -> Result<Kdf, FormatError> {
    let costs = &bytes[slot::MEMORY.offset..slot::LANES.end()];
    match (kind, slot::KDF.byte(bytes)) {
        (SlotKind::Password | SlotKind::KeyFile | SlotKind::PasswordAndKeyFile, KDF_ARGON2ID) => {
            let [memory, passes, lanes] =
                [slot::MEMORY, slot::PASSES, slot::LANES].map(|field| field.u32(bytes));
            Ok(Kdf::Argon2id(KdfCost::new(memory, passes, lanes)?))
        }
        (SlotKind::KeyFile | SlotKind::Recovery, KDF_HKDF) => {
            zero("Argon2id cost of an HKDF slot", costs, slot::MEMORY.offset)?;
            Ok(Kdf::Hkdf)
        }
        (_, KDF_ARGON2ID | KDF_HKDF) => {
            Err(FormatError::Inconsistent { what: "a key slot's KDF is not the one of its kind" })
        }
        (_, other) => Err(FormatError::Unsupported { field: "KDF", value: u64::from(other) }),
    }
}

/// A slot that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Of a kind that this program opens.
    Known(KeySlot),
    /// Of another kind.
    Later(LaterSlot),
}

/// A slot of a kind that this program does not open. It is kept as it is, byte
/// for byte, so that a program that opens it finds it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterSlot(Box<[u8; slot::LEN]>);

impl Slot {
    /// Reads a slot; `None` when it is free.
    ///
    /// # Errors
    /// [`FormatError`] for a slot of a known kind that is not as this format
    /// writes it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Slot>, FormatError> {
        let number = slot::KIND.byte(bytes);
        if number == 0 {
            zero("free key slot", bytes, 0)?;
            return Ok(None);
        }
        Ok(Some(match SlotKind::ALL.into_iter().find(|kind| kind.number() == number) {
            Some(kind) => Slot::Known(KeySlot::decode(kind, bytes)?),
            None => Slot::Later(LaterSlot(Box::new(bytes.try_into().expect("a slot's bytes")))),
        }))
    }

    /// The slot as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; slot::LEN] {
        match self {
            Slot::Known(slot) => slot.encode(),
            Slot::Later(slot) => *slot.0,
        }
    }

    /// The slot, if it is of a kind that this program opens.
    #[must_use]
    pub fn known(&self) -> Option<&KeySlot> {
        match self {
            Slot::Known(slot) => Some(slot),
            Slot::Later(_) => None,
        }
    }
}

impl LaterSlot {
    /// The number of its kind.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.0[slot::KIND.offset]
    }

    /// What the format reserves the kind for, if it does.
    #[must_use]
    pub fn reserved_for(&self) -> Option<&'static str> {
        RESERVED_KINDS.into_iter().find(|(number, _)| *number == self.kind()).map(|(_, name)| name)
    }
}

/// Kinds that the format names and does not define yet.
pub const RESERVED_KINDS: [(u8, &str); 2] = [(5, "age recipient"), (6, "token")];

/// What a wrap is bound to: the vault header's fixed part, and its slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrapContext([u8; Self::HEADER_LEN + BOUND_LEN]);

impl WrapContext {
    /// Bytes of the vault header that are part of it.
    pub const HEADER_LEN: usize = 16 + VaultId::LEN + 8;

    pub(crate) fn new(header: [u8; Self::HEADER_LEN], slot: &KeySlot) -> WrapContext {
        let mut bytes = [0; Self::HEADER_LEN + BOUND_LEN];
        bytes[..Self::HEADER_LEN].copy_from_slice(&header);
        bytes[Self::HEADER_LEN..].copy_from_slice(&slot.bound());
        WrapContext(bytes)
    }

    /// The associated data.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
