//! What a journal record says (section 6): its sealed part.

use strongroom_units::{BlockIndex, StoredLen};

use super::geometry::MAX_BLOCKS;
use super::journal::{SEALED_MAX, SEGMENTS};
use super::{FileId, PageKind, TAG_LEN};
use crate::error::{FormatError, within, zero};
use crate::layout::layout;

layout! {
    /// The fixed part of a record's sealed part.
    body: 88;
    CHAIN = 0, 16, "tag of the record before";
    DURABLE = 16, 8, "every record up to this sequence number";
    KIND = 24, 1, "kind";
    INTENTS = 25, 1, "intents";
    HINT_LEN = 26, 2, "length of the path hint";
    PAGES = 28, 4, "pages";
    BLOCKS = 32, 4, "blocks";
    PUNCHED = 36, 4, "punched ranges";
    FILE = 40, 16, "file id";
    STORED_LEN = 56, 8, "stored length after the commit";
    ACCESSED = 64, 8, "accessed, seconds";
    ACCESSED_NS = 72, 4, "accessed, nanoseconds";
    MODIFIED_NS = 76, 4, "modified, nanoseconds";
    MODIFIED = 80, 8, "modified, seconds";
}

/// Bytes of each page behind the path hint.
pub const PAGE_ITEM_LEN: usize = 32;
/// Bytes of each block and each range behind the pages.
pub const ITEM_LEN: usize = 16;
/// The longest stored file, in bytes: with every page, the largest plain one
/// stays below.
pub const MAX_STORED_LEN: u64 = 1 << 47;

const KIND_COMMIT: u8 = 1;
const KIND_REMOVAL: u8 = 2;
const INTENT_SET_LEN: u8 = 1;
const INTENT_PUNCH: u8 = 2;
const NANOSECONDS: u32 = 1_000_000_000;

const _: () = assert!(MAX_STORED_LEN / 2 * 129 / 128 + 4096 * 16384 < MAX_STORED_LEN);

/// A time, as of the stored inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanoseconds: u32,
}

/// Where an image stands in the session's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment, 0 or 1.
    pub segment: u8,
    /// Its first slot, from 1.
    pub slot: u32,
}

/// The image of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// What the page is.
    pub kind: PageKind,
    /// Its number among its kind.
    pub number: u64,
    /// Where its image stands.
    pub place: Place,
    /// The page's tag: the slot may hold an older image of the same page, which
    /// opens as well, when a crash has lost the write of this one.
    pub tag: [u8; TAG_LEN],
}

/// The image of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockImage {
    /// The block.
    pub block: BlockIndex,
    /// Where its image stands.
    pub place: Place,
}

/// Blocks that the commit makes holes and whose places are punched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The first block.
    pub first: BlockIndex,
    /// How many; at least 1.
    pub count: u64,
}

/// A file's new durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The file.
    pub file: FileId,
    /// Where it was last seen: the stored path from the vault, without a
    /// leading slash; empty when unknown.
    pub path_hint: Vec<u8>,
    /// Images of pages.
    pub pages: Vec<PageImage>,
    /// Images of blocks.
    pub blocks: Vec<BlockImage>,
    /// Ranges to be punched; not empty exactly when that intent is set.
    pub punched: Vec<BlockRange>,
    /// The stored length is to be set.
    pub set_len: bool,
    /// The stored length after the commit.
    pub stored_len: StoredLen,
    /// When the file was last read.
    pub accessed: Timestamp,
    /// When the file was last changed.
    pub modified: Timestamp,
}

/// What a record says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new durable state.
    Commit(Commit),
    /// What came before for this file is void.
    Removal(FileId),
}

/// The sealed part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Tag of the record before; zero for the first of the session.
    pub chain: [u8; TAG_LEN],
    /// Every record up to this sequence number was durable when this one was
    /// written.
    pub durable: u64,
    /// What it says.
    pub change: Change,
}

impl Record {
    /// Bytes of the sealed part.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match &self.change {
            Change::Removal(_) => body::LEN,
            Change::Commit(c) => {
                let items = c.blocks.len() + c.punched.len();
                body::LEN + c.path_hint.len() + c.pages.len() * PAGE_ITEM_LEN + items * ITEM_LEN
            }
        }
    }

    /// Appends the sealed part, to be sealed, to `out`.
    ///
    /// # Errors
    /// [`FormatError`] when the record says what no record can, or is longer
    /// than [`SEALED_MAX`]: it must be split. `out` is unchanged then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let len = self.encoded_len();
        within("length of a journal record", len as u64, 0, SEALED_MAX as u64)?;
        if let Change::Commit(commit) = &self.change {
            commit.check()?;
        }
        let mut fixed = [0; body::LEN];
        body::CHAIN.set(&mut fixed, &self.chain);
        body::DURABLE.set(&mut fixed, &self.durable.to_le_bytes());
        out.reserve(len);
        match &self.change {
            Change::Removal(file) => {
                body::KIND.set(&mut fixed, &[KIND_REMOVAL]);
                body::FILE.set(&mut fixed, &file.0);
                out.extend_from_slice(&fixed);
            }
            Change::Commit(commit) => {
                commit.encode_fixed(&mut fixed);
                out.extend_from_slice(&fixed);
                commit.encode_items(out);
            }
        }
        Ok(())
    }

    /// Reads the opened sealed part.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it.
    pub fn decode(bytes: &[u8]) -> Result<Record, FormatError> {
        if bytes.len() < body::LEN || bytes.len() > SEALED_MAX {
            return Err(FormatError::Length {
                what: "journal record",
                expected: body::LEN,
                found: bytes.len(),
            });
        }
        let (fixed, items) = bytes.split_at(body::LEN);
        let change = match body::KIND.byte(fixed) {
            KIND_COMMIT => Change::Commit(Commit::decode(fixed, items)?),
            KIND_REMOVAL => Change::Removal(decode_removal(fixed, items)?),
            other => {
                return Err(FormatError::Unsupported {
                    field: "kind of a journal record",
                    value: u64::from(other),
                });
            }
        };
        Ok(Record { chain: body::CHAIN.array(fixed), durable: body::DURABLE.u64(fixed), change })
    }
}

fn decode_removal(fixed: &[u8], items: &[u8]) -> Result<FileId, FormatError> {
    let before = body::INTENTS.offset..body::FILE.offset;
    zero("removal record", &fixed[before.clone()], before.start)?;
    zero("removal record", &fixed[body::FILE.end()..], body::FILE.end())?;
    if !items.is_empty() {
        return Err(FormatError::Length {
            what: "removal record",
            expected: body::LEN,
            found: body::LEN + items.len(),
        });
    }
    Ok(FileId(body::FILE.array(fixed)))
}

impl Commit {
    fn decode(fixed: &[u8], items: &[u8]) -> Result<Commit, FormatError> {
        let hint_len = usize::from(body::HINT_LEN.u16(fixed));
        let counts = [body::PAGES, body::BLOCKS, body::PUNCHED].map(|count| u64::from(count.u32(fixed)));
        let item_lens = [PAGE_ITEM_LEN, ITEM_LEN, ITEM_LEN];
        let lists = counts.iter().zip(item_lens).map(|(count, len)| count * len as u64);
        let expected = hint_len as u64 + lists.sum::<u64>();
        if expected != items.len() as u64 {
            return Err(FormatError::Inconsistent { what: "a journal record is not as long as its lists" });
        }
        // The sum fits the record, so each count fits a usize.
        let [pages, blocks, punched] = counts.map(|count| count as usize);
        let (pages, blocks, punched) = (pages * PAGE_ITEM_LEN, blocks * ITEM_LEN, punched * ITEM_LEN);
        let (path_hint, rest) = items.split_at(hint_len);
        let (pages, rest) = rest.split_at(pages);
        let (blocks, rest) = rest.split_at(blocks);
        let (punched, _) = rest.split_at(punched);
        let intents = body::INTENTS.byte(fixed);
        let intents = within("intents of a journal record", u64::from(intents), 0, 3)? as u8;
        let commit = Commit {
            file: FileId(body::FILE.array(fixed)),
            path_hint: path_hint.to_vec(),
            pages: pages.chunks_exact(PAGE_ITEM_LEN).map(PageImage::decode).collect::<Result<_, _>>()?,
            blocks: blocks.chunks_exact(ITEM_LEN).map(BlockImage::decode).collect::<Result<_, _>>()?,
            punched: punched.chunks_exact(ITEM_LEN).map(BlockRange::decode).collect(),
            set_len: intents & INTENT_SET_LEN != 0,
            stored_len: StoredLen(body::STORED_LEN.u64(fixed)),
            accessed: timestamp(body::ACCESSED.array(fixed), body::ACCESSED_NS.u32(fixed)),
            modified: timestamp(body::MODIFIED.array(fixed), body::MODIFIED_NS.u32(fixed)),
        };
        if (intents & INTENT_PUNCH != 0) == commit.punched.is_empty() {
            return Err(FormatError::Inconsistent {
                what: "a journal record's intent to punch has no ranges",
            });
        }
        commit.check()?;
        Ok(commit)
    }

    /// Refuses what no record can say, in what is read and in what is written.
    fn check(&self) -> Result<(), FormatError> {
        check_path(&self.path_hint)?;
        within("stored length", self.stored_len.0, 4096, MAX_STORED_LEN)?;
        for time in [self.accessed, self.modified] {
            within("nanoseconds", u64::from(time.nanoseconds), 0, u64::from(NANOSECONDS - 1))?;
        }
        for page in &self.pages {
            page.kind.check_number(page.number)?;
            page.place.check()?;
        }
        for image in &self.blocks {
            within("block", image.block.0, 0, MAX_BLOCKS - 1)?;
            image.place.check()?;
        }
        for range in &self.punched {
            within("block", range.first.0, 0, MAX_BLOCKS - 1)?;
            within("punched blocks", range.count, 1, MAX_BLOCKS - range.first.0)?;
        }
        Ok(())
    }

    fn encode_fixed(&self, fixed: &mut [u8; body::LEN]) {
        let set_len = if self.set_len { INTENT_SET_LEN } else { 0 };
        let punch = if self.punched.is_empty() { 0 } else { INTENT_PUNCH };
        body::KIND.set(fixed, &[KIND_COMMIT]);
        body::INTENTS.set(fixed, &[set_len | punch]);
        // The record's length, checked before, bounds all four.
        body::HINT_LEN.set(fixed, &(self.path_hint.len() as u16).to_le_bytes());
        body::PAGES.set(fixed, &(self.pages.len() as u32).to_le_bytes());
        body::BLOCKS.set(fixed, &(self.blocks.len() as u32).to_le_bytes());
        body::PUNCHED.set(fixed, &(self.punched.len() as u32).to_le_bytes());
        body::FILE.set(fixed, &self.file.0);
        body::STORED_LEN.set(fixed, &self.stored_len.0.to_le_bytes());
        body::ACCESSED.set(fixed, &self.accessed.seconds.to_le_bytes());
        body::ACCESSED_NS.set(fixed, &self.accessed.nanoseconds.to_le_bytes());
        body::MODIFIED_NS.set(fixed, &self.modified.nanoseconds.to_le_bytes());
        body::MODIFIED.set(fixed, &self.modified.seconds.to_le_bytes());
    }

    fn encode_items(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.path_hint);
        for page in &self.pages {
            out.extend_from_slice(&[page.kind.number(), page.place.segment, 0, 0]);
            out.extend_from_slice(&page.place.slot.to_le_bytes());
            out.extend_from_slice(&page.number.to_le_bytes());
            out.extend_from_slice(&page.tag);
        }
        for image in &self.blocks {
            out.extend_from_slice(&image.block.0.to_le_bytes());
            out.extend_from_slice(&[image.place.segment, 0, 0, 0]);
            out.extend_from_slice(&image.place.slot.to_le_bytes());
        }
        for range in &self.punched {
            out.extend_from_slice(&range.first.0.to_le_bytes());
            out.extend_from_slice(&range.count.to_le_bytes());
        }
    }
}

/// The longest path hint, in bytes: the longest path of the kernel.
pub const HINT_MAX: usize = 4096;

/// Refuses path hints that could lead out of the vault.
fn check_path(path: &[u8]) -> Result<(), FormatError> {
    within("length of a path hint", path.len() as u64, 0, HINT_MAX as u64)?;
    let is_component = |c: &[u8]| !c.is_empty() && c != b"." && c != b".." && !c.contains(&0);
    if path.is_empty() || path.split(|&b| b == b'/').all(is_component) {
        Ok(())
    } else {
        Err(FormatError::text("path inside the vault", path))
    }
}

impl Place {
    fn check(&self) -> Result<(), FormatError> {
        within("journal segment", u64::from(self.segment), 0, u64::from(SEGMENTS - 1))?;
        within("journal slot", u64::from(self.slot), 1, u64::from(u32::MAX))?;
        Ok(())
    }
}

impl PageImage {
    fn decode(item: &[u8]) -> Result<PageImage, FormatError> {
        zero("page of a journal record", &item[2..4], 2)?;
        let place = Place { segment: item[1], slot: u32_of(&item[4..8]) };
        let tag = *item[16..].first_chunk().expect("an item has 32 bytes");
        Ok(PageImage { kind: PageKind::from_number(item[0])?, number: u64_of(&item[8..16]), place, tag })
    }
}

impl BlockImage {
    fn decode(item: &[u8]) -> Result<BlockImage, FormatError> {
        zero("block of a journal record", &item[9..12], 9)?;
        let place = Place { segment: item[8], slot: u32_of(&item[12..]) };
        Ok(BlockImage { block: BlockIndex(u64_of(&item[..8])), place })
    }
}

impl BlockRange {
    fn decode(item: &[u8]) -> BlockRange {
        BlockRange { first: BlockIndex(u64_of(&item[..8])), count: u64_of(&item[8..]) }
    }
}

fn timestamp(seconds: [u8; 8], nanoseconds: u32) -> Timestamp {
    Timestamp { seconds: i64::from_le_bytes(seconds), nanoseconds }
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
