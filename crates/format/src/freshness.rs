//! The freshness file, version 1 (`docs/format/freshness.md`): its header, its
//! frames, and the operations in a frame's sealed part.

use crate::error::{FormatError, within, zero};
use crate::layout::layout;
use crate::vault::{DirectoryId, FileId, NONCE_LEN, Suite, TAG_LEN, VaultId};

layout! {
    /// The header of the file.
    file: 48;
    MAGIC = 0, 4, "magic";
    VERSION = 4, 1, "format version";
    SUITE = 5, 1, "suite";
    ZERO_1 = 6, 2, "zero";
    GENERATION = 8, 4, "key generation";
    ZERO_2 = 12, 4, "zero";
    VAULT = 16, 16, "vault id";
    RECORD = 32, 16, "record id";
}

layout! {
    /// The clear part of a frame.
    frame: 56;
    LENGTH = 0, 4, "length of the sealed part";
    ZERO = 4, 4, "zero";
    NUMBER = 8, 8, "number";
    NONCE = 16, 24, "nonce";
    TAG = 40, 16, "tag";
}

/// The first bytes of a freshness file.
pub const MAGIC: [u8; 4] = *b"SRfr";
/// The version of the freshness file that this program reads and writes.
pub const VERSION: u8 = 1;
/// Longest sealed part of a frame in bytes.
pub const SEALED_MAX: usize = 1 << 16;
/// Longest plain name in bytes.
pub const NAME_MAX: usize = 255;
/// Bytes of a frame's associated data.
pub const ASSOCIATED_DATA_LEN: usize = file::LEN + frame::NONCE.offset + TAG_LEN;

const FRAME: &str = "frame of a freshness file";
const OPERATION: &str = "operation in a freshness file";

/// The header of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// What seals the frames.
    pub suite: Suite,
    /// Of their key.
    pub generation: u32,
    /// The vault that is recorded.
    pub vault: VaultId,
    /// Tells this writing of the file from others.
    pub record: [u8; 16],
}

impl FileHeader {
    /// The stored bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; file::LEN] {
        let mut bytes = [0; file::LEN];
        file::MAGIC.set(&mut bytes, &MAGIC);
        file::VERSION.set(&mut bytes, &[VERSION]);
        file::SUITE.set(&mut bytes, &[self.suite.number()]);
        file::GENERATION.set(&mut bytes, &self.generation.to_le_bytes());
        file::VAULT.set(&mut bytes, &self.vault.0);
        file::RECORD.set(&mut bytes, &self.record);
        bytes
    }

    /// Reads the header, which the first frame authenticates.
    ///
    /// # Errors
    /// [`FormatError`] when it is none, or of another version.
    pub fn decode(bytes: &[u8; file::LEN]) -> Result<FileHeader, FormatError> {
        if file::MAGIC.of(bytes) != MAGIC {
            return Err(FormatError::magic("freshness file", file::MAGIC.of(bytes)));
        }
        let version = file::VERSION.byte(bytes);
        if version != VERSION {
            return Err(FormatError::Unsupported {
                field: "freshness file's version",
                value: version.into(),
            });
        }
        zero("freshness file", file::ZERO_1.of(bytes), file::ZERO_1.offset)?;
        zero("freshness file", file::ZERO_2.of(bytes), file::ZERO_2.offset)?;
        Ok(FileHeader {
            suite: Suite::from_number(file::SUITE.byte(bytes))?,
            generation: file::GENERATION.u32(bytes),
            vault: VaultId(file::VAULT.array(bytes)),
            record: file::RECORD.array(bytes),
        })
    }
}

/// The clear part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the sealed part, 1 to [`SEALED_MAX`].
    pub sealed_len: usize,
    /// Counts the frames of the file from 0.
    pub number: u64,
    /// Nonce of the sealed part.
    pub nonce: [u8; NONCE_LEN],
    /// Tag of the sealed part.
    pub tag: [u8; TAG_LEN],
}

impl FrameHeader {
    /// The stored bytes.
    ///
    /// # Panics
    /// When the sealed part is longer than 4 GiB, which no frame's is.
    #[must_use]
    pub fn encode(&self) -> [u8; frame::LEN] {
        let mut bytes = [0; frame::LEN];
        let len = u32::try_from(self.sealed_len).expect("a frame is at most 64 KiB long");
        frame::LENGTH.set(&mut bytes, &len.to_le_bytes());
        frame::NUMBER.set(&mut bytes, &self.number.to_le_bytes());
        frame::NONCE.set(&mut bytes, &self.nonce);
        frame::TAG.set(&mut bytes, &self.tag);
        bytes
    }

    /// Reads the clear part of a frame.
    ///
    /// # Errors
    /// [`FormatError`] when it is not a frame's.
    pub fn decode(bytes: &[u8; frame::LEN]) -> Result<FrameHeader, FormatError> {
        let len = within(FRAME, frame::LENGTH.u32(bytes).into(), 1, SEALED_MAX as u64)?;
        zero(FRAME, frame::ZERO.of(bytes), frame::ZERO.offset)?;
        Ok(FrameHeader {
            sealed_len: len as usize,
            number: frame::NUMBER.u64(bytes),
            nonce: frame::NONCE.array(bytes),
            tag: frame::TAG.array(bytes),
        })
    }

    /// What the frame is bound to; nonce and tag do not matter to it.
    #[must_use]
    pub fn associated_data(
        &self,
        header: &FileHeader,
        tag_before: &[u8; TAG_LEN],
    ) -> [u8; ASSOCIATED_DATA_LEN] {
        let mut bytes = [0; ASSOCIATED_DATA_LEN];
        let clear = frame::NONCE.offset;
        bytes[..file::LEN].copy_from_slice(&header.encode());
        bytes[file::LEN..file::LEN + clear].copy_from_slice(&self.encode()[..clear]);
        bytes[file::LEN + clear..].copy_from_slice(tag_before);
        bytes
    }
}

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// A file; an id of zeros is any.
    File(FileId),
    /// A directory.
    Directory(DirectoryId),
    /// A symlink, by the mark of its stored target.
    Symlink([u8; 16]),
    /// A special file.
    Special(Special),
    /// Whatever is found.
    Unknown,
}

/// The kind of a special file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// Named pipe.
    Fifo = 1,
    /// Unix socket.
    Socket = 2,
    /// Block device node.
    BlockDevice = 3,
    /// Character device node.
    CharacterDevice = 4,
}

impl Special {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Special; 4] =
        [Special::Fifo, Special::Socket, Special::BlockDevice, Special::CharacterDevice];
}

/// One step of what a freshness file records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The vault header with this sequence number is durable.
    Header(u64),
    /// The entries of a directory may differ from what is recorded; the id
    /// zero stands for the whole tree.
    Unsettle(DirectoryId),
    /// They are as recorded.
    Settle(DirectoryId),
    /// A directory has this entry.
    Entry {
        /// The directory.
        directory: DirectoryId,
        /// The plain name.
        name: Vec<u8>,
        /// What it leads to.
        object: Object,
    },
    /// A directory has no such entry any more.
    Removal {
        /// The directory.
        directory: DirectoryId,
        /// The plain name.
        name: Vec<u8>,
    },
    /// A file's header page with this sequence number and tag is durable.
    Version {
        /// The file.
        file: FileId,
        /// The page's sequence number.
        sequence: u64,
        /// The page's tag.
        tag: [u8; TAG_LEN],
    },
}

/// Numbers of the operations, with the document's names.
pub const OPERATIONS: [(u8, &str); 6] = [
    (HEADER, "header"),
    (UNSETTLE, "unsettle"),
    (SETTLE, "settle"),
    (ENTRY, "entry"),
    (REMOVAL, "removal"),
    (VERSION_OF, "version"),
];

/// Numbers of the objects, with the document's names.
pub const OBJECTS: [(u8, &str); 5] =
    [(1, "file"), (2, "directory"), (3, "symlink"), (4, "other"), (5, "unknown")];

const HEADER: u8 = 1;
const UNSETTLE: u8 = 2;
const SETTLE: u8 = 3;
const ENTRY: u8 = 4;
const REMOVAL: u8 = 5;
const VERSION_OF: u8 = 6;

impl Object {
    fn encode(&self) -> (u8, [u8; 16]) {
        match *self {
            Object::File(id) => (OBJECTS[0].0, id.0),
            Object::Directory(id) => (OBJECTS[1].0, id.0),
            Object::Symlink(mark) => (OBJECTS[2].0, mark),
            Object::Special(kind) => {
                let mut bytes = [0; 16];
                bytes[0] = kind as u8;
                (OBJECTS[3].0, bytes)
            }
            Object::Unknown => (OBJECTS[4].0, [0; 16]),
        }
    }

    fn decode(kind: u8, bytes: [u8; 16]) -> Result<Object, FormatError> {
        Ok(match kind {
            1 => Object::File(FileId(bytes)),
            2 => Object::Directory(DirectoryId(bytes)),
            3 => Object::Symlink(bytes),
            4 => {
                zero(OPERATION, &bytes[1..], 1)?;
                let number = within("kind of special file", bytes[0].into(), 1, 4)?;
                Object::Special(Special::ALL[number as usize - 1])
            }
            5 => {
                zero(OPERATION, &bytes, 0)?;
                Object::Unknown
            }
            other => {
                return Err(FormatError::Unsupported { field: "kind of object", value: other.into() });
            }
        })
    }
}

impl Operation {
    /// Bytes of the operation in a sealed part.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        1 + match self {
            Operation::Header(_) => 8,
            Operation::Unsettle(_) | Operation::Settle(_) => 16,
            Operation::Entry { name, .. } => 16 + 1 + 16 + 2 + name.len(),
            Operation::Removal { name, .. } => 16 + 2 + name.len(),
            Operation::Version { .. } => 16 + 8 + TAG_LEN,
        }
    }

    /// Appends the operation to a sealed part.
    ///
    /// # Errors
    /// [`FormatError`] for a name that an entry cannot have.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        match self {
            Operation::Header(sequence) => {
                out.push(HEADER);
                out.extend(sequence.to_le_bytes());
            }
            Operation::Unsettle(directory) => {
                out.push(UNSETTLE);
                out.extend(directory.0);
            }
            Operation::Settle(directory) => {
                out.push(SETTLE);
                out.extend(directory.0);
            }
            Operation::Entry { directory, name, object } => {
                check_name(name)?;
                let (kind, bytes) = object.encode();
                out.push(ENTRY);
                out.extend(directory.0);
                out.push(kind);
                out.extend(bytes);
                put_name(out, name);
            }
            Operation::Removal { directory, name } => {
                check_name(name)?;
                out.push(REMOVAL);
                out.extend(directory.0);
                put_name(out, name);
            }
            Operation::Version { file, sequence, tag } => {
                out.push(VERSION_OF);
                out.extend(file.0);
                out.extend(sequence.to_le_bytes());
                out.extend(tag);
            }
        }
        Ok(())
    }

    /// Reads all operations of a sealed part.
    ///
    /// # Errors
    /// [`FormatError`] when they are not as this format writes them.
    pub fn decode_all(sealed: &[u8]) -> Result<Vec<Operation>, FormatError> {
        let mut reader = Reader(sealed);
        let mut operations = Vec::new();
        while !reader.0.is_empty() {
            operations.push(reader.operation()?);
        }
        Ok(operations)
    }
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    // Checked to be at most 255 bytes long.
    out.extend((name.len() as u16).to_le_bytes());
    out.extend(name);
}

fn check_name(name: &[u8]) -> Result<(), FormatError> {
    within("length of a name", name.len() as u64, 1, NAME_MAX as u64)?;
    let reserved = name == b"." || name == b"..";
    if reserved || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(FormatError::text("plain name", name));
    }
    Ok(())
}

/// What is left of a sealed part.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(FormatError::Length {
            what: OPERATION,
            expected: len,
            found: self.0.len(),
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn name(&mut self) -> Result<Vec<u8>, FormatError> {
        let len = u16::from_le_bytes(self.array()?);
        let name = self.take(len.into())?;
        check_name(name)?;
        Ok(name.to_vec())
    }

    fn operation(&mut self) -> Result<Operation, FormatError> {
        let [kind] = self.array()?;
        Ok(match kind {
            HEADER => Operation::Header(u64::from_le_bytes(self.array()?)),
            UNSETTLE => Operation::Unsettle(DirectoryId(self.array()?)),
            SETTLE => Operation::Settle(DirectoryId(self.array()?)),
            ENTRY => {
                let directory = DirectoryId(self.array()?);
                let [kind] = self.array()?;
                let object = Object::decode(kind, self.array()?)?;
                Operation::Entry { directory, name: self.name()?, object }
            }
            REMOVAL => Operation::Removal { directory: DirectoryId(self.array()?), name: self.name()? },
            VERSION_OF => Operation::Version {
                file: FileId(self.array()?),
                sequence: u64::from_le_bytes(self.array()?),
                tag: self.array()?,
            },
            other => {
                return Err(FormatError::Unsupported {
                    field: "operation of a freshness file",
                    value: other.into(),
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(1u8..=255, 1..=NAME_MAX)
            .prop_filter("a plain name", |name| check_name(name).is_ok())
    }

    fn object() -> impl Strategy<Value = Object> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(|id| Object::File(FileId(id))),
            any::<[u8; 16]>().prop_map(|id| Object::Directory(DirectoryId(id))),
            any::<[u8; 16]>().prop_map(Object::Symlink),
            (0..4usize).prop_map(|kind| Object::Special(Special::ALL[kind])),
            Just(Object::Unknown),
        ]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let directory = || any::<[u8; 16]>().prop_map(DirectoryId);
        prop_oneof![
            any::<u64>().prop_map(Operation::Header),
            directory().prop_map(Operation::Unsettle),
            directory().prop_map(Operation::Settle),
            (directory(), name(), object()).prop_map(|(directory, name, object)| Operation::Entry {
                directory,
                name,
                object
            }),
            (directory(), name()).prop_map(|(directory, name)| Operation::Removal { directory, name }),
            any::<([u8; 16], u64, [u8; 16])>().prop_map(|(file, sequence, tag)| Operation::Version {
                file: FileId(file),
                sequence,
                tag
            }),
        ]
    }

    proptest! {
        #[test]
        fn operations_read_as_they_were_written(operations in proptest::collection::vec(operation(), 0..20)) {
            let mut sealed = Vec::new();
            for operation in &operations {
                let before = sealed.len();
                operation.encode(&mut sealed).expect("well-formed");
                prop_assert_eq!(sealed.len() - before, operation.encoded_len());
            }
            prop_assert_eq!(&Operation::decode_all(&sealed).expect("well-formed"), &operations);
            // Cut anywhere, it is an error or ends with an operation.
            for cut in 0..sealed.len() {
                if let Ok(read) = Operation::decode_all(&sealed[..cut]) {
                    prop_assert_eq!(&read[..], &operations[..read.len()]);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Operation::decode_all(&bytes);
            if let Some(header) = bytes.first_chunk() {
                let _ = FileHeader::decode(header);
            }
            if let Some(clear) = bytes.first_chunk()
                && let Ok(frame) = FrameHeader::decode(clear)
            {
                prop_assert_eq!(&frame.encode(), clear);
            }
        }
    }

    #[test]
    fn headers_read_as_they_were_written_and_others_are_refused() {
        let header =
            FileHeader { suite: Suite::Aegis256X2, generation: 1, vault: VaultId([3; 16]), record: [4; 16] };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(header));
        for at in [0, 4, 5, 6, 7, 12, 15] {
            let mut changed = bytes;
            changed[at] ^= 0x80;
            assert!(FileHeader::decode(&changed).is_err(), "byte {at}");
        }
        let frame = FrameHeader { sealed_len: SEALED_MAX, number: 7, nonce: [1; 24], tag: [2; 16] };
        assert_eq!(FrameHeader::decode(&frame.encode()), Ok(frame));
        for len in [0, SEALED_MAX + 1] {
            assert!(FrameHeader::decode(&FrameHeader { sealed_len: len, ..frame }.encode()).is_err());
        }
        let bound = frame.associated_data(&header, &[9; 16]);
        assert_eq!((&bound[..48], &bound[64..]), (&bytes[..], &[9; 16][..]));
    }

    #[test]
    fn names_that_no_entry_has_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            let removal = Operation::Removal { directory: DirectoryId([1; 16]), name: name.to_vec() };
            assert!(removal.encode(&mut Vec::new()).is_err(), "{name:?}");
            let mut sealed = [&[REMOVAL][..], &[1; 16]].concat();
            put_name(&mut sealed, name);
            assert!(Operation::decode_all(&sealed).is_err(), "{name:?}");
        }
    }
}
