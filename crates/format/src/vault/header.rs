//! The vault header (section 8).
//!
//! Its bytes are canonical: what decodes encodes to the same bytes, so the MAC
//! can be checked on the decoded header. The MAC itself is another crate's;
//! until it has been checked, nothing here is authentic.

use strongroom_units::BlockSize;

use super::extension::{self, Extension};
use super::page::block_size;
use super::slot::{KeySlot, Slot, WrapContext, slot};
use super::{Suite, VERSION, VaultId, WriteSession};
use crate::error::{FormatError, exactly, within, zero};
use crate::layout::layout;

layout! {
    /// The vault header.
    header: 16384;
    MAGIC = 0, 8, "magic `STRONGRM`";
    VERSION = 8, 4, "format version";
    SUITE = 12, 1, "suite";
    SHIFT = 13, 1, "binary logarithm of the block size";
    FLAGS = 14, 2, "flags";
    VAULT = 16, 16, "vault id";
    SEQUENCE = 32, 8, "sequence number";
    GENERATION = 40, 4, "key generation of new files";
    GENERATION_MIN = 44, 4, "lowest key generation accepted";
    CREATED = 48, 8, "created";
    WRITTEN = 56, 8, "written";
    FRESHNESS = 64, 1, "freshness file";
    ZERO_1 = 65, 31, "zero";
    SESSIONS = 96, 1536, "sessions";
    SLOTS = 1632, 6144, "key slots";
    EXTENSIONS = 7776, 8576, "extensions";
    MAC = 16352, 32, "HMAC-SHA256 of all before it";
}

layout! {
    /// A session in the vault header.
    session: 96;
    ID = 0, 12, "id";
    STATE = 12, 1, "state";
    ZERO_1 = 13, 3, "zero";
    OPENED = 16, 8, "opened";
    ZERO_2 = 24, 72, "zero";
}

/// The magic of a vault header.
pub const MAGIC: [u8; 8] = *b"STRONGRM";
/// Bytes of a vault header.
pub const LEN: usize = header::LEN;
/// Bytes of a vault header that its MAC covers.
pub const MAC_COVERS: usize = header::MAC.offset;
/// Sessions that the header can list.
pub const SESSIONS: usize = 16;
/// Key slots of the header.
pub const SLOTS: usize = 12;
/// Key generations that a header can accept at the same time.
pub const GENERATIONS: u32 = 64;

const FLAG_BASE32: u16 = 1;

const _: () = assert!(header::SESSIONS.len == SESSIONS * session::LEN);
const _: () = assert!(header::SLOTS.len == SLOTS * slot::LEN);

/// Where a write session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SessionState {
    /// Writing, or ended without saying so and not replayed yet.
    Open = 1,
    /// Replayed, its files not all settled yet.
    Crashed = 2,
}

/// A write session that the header lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: WriteSession,
    /// Where it stands.
    pub state: SessionState,
    /// Seconds since 1970.
    pub opened: u64,
}

impl Session {
    fn decode(bytes: &[u8]) -> Result<Option<Session>, FormatError> {
        let state = match session::STATE.byte(bytes) {
            0 => return zero("free session", bytes, 0).map(|()| None),
            1 => SessionState::Open,
            2 => SessionState::Crashed,
            other => {
                return Err(FormatError::Unsupported {
                    field: "state of a session",
                    value: u64::from(other),
                });
            }
        };
        zero("session", session::ZERO_1.of(bytes), session::ZERO_1.offset)?;
        zero("session", session::ZERO_2.of(bytes), session::ZERO_2.offset)?;
        let id = WriteSession(session::ID.array(bytes));
        if id.is_zero() {
            return Err(FormatError::Inconsistent { what: "a session of the vault header has no id" });
        }
        Ok(Some(Session { id, state, opened: session::OPENED.u64(bytes) }))
    }

    fn encode(&self, bytes: &mut [u8]) {
        session::ID.set(bytes, &self.id.0);
        session::STATE.set(bytes, &[self.state as u8]);
        session::OPENED.set(bytes, &self.opened.to_le_bytes());
    }
}

/// The vault header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What seals the vault.
    pub suite: Suite,
    /// Block size of its files.
    pub block_size: BlockSize,
    /// Names are base32hex, for stores that fold case.
    pub base32_names: bool,
    /// The vault's id.
    pub vault: VaultId,
    /// One more at every writing; the higher one of two copies counts.
    pub sequence: u64,
    /// Key generation of new files.
    pub generation: u32,
    /// Lowest key generation accepted: at most `generation`, and less than [`GENERATIONS`] below it.
    pub generation_min: u32,
    /// Seconds since 1970.
    pub created: u64,
    /// When it was written last, in seconds since 1970 by the writer's clock; 0 where that is not known.
    pub written: u64,
    /// The vault has been opened for writing with a freshness file: one that is missing is no new beginning.
    pub has_freshness: bool,
    /// Sessions, in any order.
    pub sessions: [Option<Session>; SESSIONS],
    /// Key slots, by index.
    pub slots: [Option<Slot>; SLOTS],
    /// What a later program has added, in its order.
    pub extensions: Vec<Extension>,
    /// MAC of the rest.
    pub mac: [u8; header::MAC.len],
}

impl Header {
    /// Reads a vault header. Nothing of it is authenticated until its MAC has
    /// been checked, for which the root key must be had through a slot.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it; KDF costs
    /// outside the bounds among them.
    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let bytes = exactly::<LEN>("vault header", bytes)?;
        if header::MAGIC.of(bytes) != MAGIC {
            return Err(FormatError::magic("vault header", header::MAGIC.of(bytes)));
        }
        let version = header::VERSION.u32(bytes);
        if version != u32::from(VERSION) {
            return Err(FormatError::Unsupported {
                field: "vault format version",
                value: u64::from(version),
            });
        }
        zero("vault header", header::ZERO_1.of(bytes), header::ZERO_1.offset)?;
        let flags = header::FLAGS.u16(bytes);
        if flags & !FLAG_BASE32 != 0 {
            return Err(FormatError::Unsupported { field: "vault flags", value: u64::from(flags) });
        }
        let generation = header::GENERATION.u32(bytes);
        let generation_min = header::GENERATION_MIN.u32(bytes);
        within("key generation", u64::from(generation), 1, u64::from(u32::MAX))?;
        let freshness = header::FRESHNESS.byte(bytes);
        within("freshness file", u64::from(freshness), 0, 1)?;
        let lowest = (u64::from(generation) + 1).saturating_sub(u64::from(GENERATIONS)).max(1);
        within("lowest key generation", u64::from(generation_min), lowest, u64::from(generation))?;
        Ok(Header {
            suite: Suite::from_number(header::SUITE.byte(bytes))?,
            block_size: block_size(header::SHIFT.byte(bytes))?,
            base32_names: flags & FLAG_BASE32 != 0,
            vault: VaultId(header::VAULT.array(bytes)),
            sequence: header::SEQUENCE.u64(bytes),
            generation,
            generation_min,
            created: header::CREATED.u64(bytes),
            written: header::WRITTEN.u64(bytes),
            has_freshness: freshness == 1,
            sessions: decode_sessions(header::SESSIONS.of(bytes))?,
            slots: table(header::SLOTS.of(bytes), slot::LEN, Slot::decode)?,
            extensions: extension::decode(header::EXTENSIONS.of(bytes))?,
            mac: header::MAC.array(bytes),
        })
    }

    /// The header as stored, with the MAC that it has.
    #[must_use]
    pub fn encode(&self) -> Box<[u8; LEN]> {
        let mut bytes = Box::new([0; LEN]);
        let b = &mut bytes[..];
        header::MAGIC.set(b, &MAGIC);
        header::VERSION.set(b, &u32::from(VERSION).to_le_bytes());
        header::SUITE.set(b, &[self.suite.number()]);
        header::SHIFT.set(b, &[self.block_size.shift()]);
        header::FLAGS.set(b, &if self.base32_names { FLAG_BASE32 } else { 0 }.to_le_bytes());
        header::VAULT.set(b, &self.vault.0);
        header::SEQUENCE.set(b, &self.sequence.to_le_bytes());
        header::GENERATION.set(b, &self.generation.to_le_bytes());
        header::GENERATION_MIN.set(b, &self.generation_min.to_le_bytes());
        header::CREATED.set(b, &self.created.to_le_bytes());
        header::WRITTEN.set(b, &self.written.to_le_bytes());
        header::FRESHNESS.set(b, &[u8::from(self.has_freshness)]);
        for (i, entry) in self.sessions.iter().enumerate() {
            if let Some(entry) = entry {
                entry.encode(&mut b[header::SESSIONS.range()][i * session::LEN..][..session::LEN]);
            }
        }
        for (i, key_slot) in self.slots.iter().enumerate() {
            if let Some(key_slot) = key_slot {
                b[header::SLOTS.range()][i * slot::LEN..][..slot::LEN].copy_from_slice(&key_slot.encode());
            }
        }
        extension::encode(&self.extensions, &mut b[header::EXTENSIONS.range()]);
        header::MAC.set(b, &self.mac);
        bytes
    }

    /// What the wrap of `slot` is bound to in this vault.
    #[must_use]
    pub fn wrap_context(&self, slot: &KeySlot) -> WrapContext {
        let bytes = self.encode();
        let mut fixed = [0; WrapContext::HEADER_LEN];
        let (before, after) = fixed.split_at_mut(header::VAULT.end());
        before.copy_from_slice(&bytes[..header::VAULT.end()]);
        after.copy_from_slice(header::CREATED.of(&bytes[..]));
        WrapContext::new(fixed, slot)
    }

    /// The listed session with this id.
    #[must_use]
    pub fn session(&self, id: WriteSession) -> Option<&Session> {
        self.sessions.iter().flatten().find(|session| session.id == id)
    }
}

/// Reads a table of equal rows.
fn table<T, const N: usize>(
    bytes: &[u8],
    row: usize,
    decode: impl Fn(&[u8]) -> Result<Option<T>, FormatError>,
) -> Result<[Option<T>; N], FormatError> {
    let mut rows = [const { None }; N];
    for (place, bytes) in rows.iter_mut().zip(bytes.chunks_exact(row)) {
        *place = decode(bytes)?;
    }
    Ok(rows)
}

fn decode_sessions(bytes: &[u8]) -> Result<[Option<Session>; SESSIONS], FormatError> {
    let sessions: [Option<Session>; SESSIONS] = table(bytes, session::LEN, Session::decode)?;
    for (i, listed) in sessions.iter().enumerate() {
        let again =
            sessions[..i].iter().flatten().any(|before| listed.as_ref().is_some_and(|s| s.id == before.id));
        if again {
            return Err(FormatError::Inconsistent { what: "the vault header lists a session twice" });
        }
    }
    Ok(sessions)
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
