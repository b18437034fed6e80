//! Batches: operations submitted together, which own their buffer until they
//! complete.

use crate::limits;
use crate::mask::{Brought, Mask, MaskMemory};
use crate::{Buffer, FreshNonce, Origin, StoredNonce};

/// A detached authentication tag.
pub type Tag = [u8; 16];

/// What is to be done with every segment of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Encrypt in place and write the tag into the segment.
    Seal,
    /// Check the segment's tag and decrypt in place. A segment that fails is
    /// zeroed and marked [`Verdict::Forged`].
    Open,
    /// Fill the segment with the keystream that sealing under its nonce would
    /// XOR onto the data (suites built on a counter mode only).
    Keystream,
    /// Encrypt sectors in place.
    EncryptSectors,
    /// Decrypt sectors in place.
    DecryptSectors,
}

/// What became of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not yet processed.
    Pending,
    /// Done; for [`Operation::Open`], the tag was right.
    Done,
    /// The tag was wrong; the segment's bytes are zero.
    Forged,
}

/// Associated data, inline so that a batch needs no allocation per segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AssociatedData {
    bytes: [u8; limits::ASSOCIATED_DATA_MAX],
    len: u8,
}

impl AssociatedData {
    /// Copies `bytes`.
    ///
    /// # Panics
    /// If there are more than [`limits::ASSOCIATED_DATA_MAX`] of them.
    #[must_use]
    pub fn new(bytes: &[u8]) -> AssociatedData {
        let mut inline = [0; limits::ASSOCIATED_DATA_MAX];
        inline[..bytes.len()].copy_from_slice(bytes);
        AssociatedData { bytes: inline, len: bytes.len() as u8 }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for AssociatedData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AssociatedData({:02x?})", self.as_slice())
    }
}

/// How the sectors of a segment are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorNumbers {
    /// The number of the first sector.
    pub first: u128,
    /// What is added from one sector to the next: 1, or 8 where sectors of
    /// 4096 bytes are numbered in units of 512, as LUKS2 does by default.
    pub step: u32,
}

impl From<u64> for SectorNumbers {
    /// Consecutive numbers from `first`.
    fn from(first: u64) -> SectorNumbers {
        SectorNumbers { first: first.into(), step: 1 }
    }
}

impl SectorNumbers {
    /// The number of the sector at `index`, counted from 0. For a segment that
    /// was validated it does not wrap.
    #[must_use]
    pub fn at(self, index: usize) -> u128 {
        self.first.wrapping_add(index as u128 * u128::from(self.step))
    }

    /// The highest number of `count` sectors; `None` above 128 bits.
    #[must_use]
    pub fn last(self, count: usize) -> Option<u128> {
        (count.saturating_sub(1) as u128)
            .checked_mul(u128::from(self.step))
            .and_then(|distance| self.first.checked_add(distance))
    }
}

/// One piece of a batch: a range of its buffer with a nonce (or sector
/// number), associated data and tag of its own. Ranges do not overlap.
///
/// One that is to be sealed has its nonce in it, so that it is no more to be had
/// twice than the nonce is:
///
/// ```
/// use strongroom_engine::{AssociatedData, NonceSource, Segment};
///
/// let nonce = NonceSource::new()?.batch(64)?.draw();
/// let segment = Segment::seal(0, 64, nonce, AssociatedData::new(&[]));
/// # Ok::<(), strongroom_engine::EntropyError>(())
/// ```
///
/// ```compile_fail,E0599
/// use strongroom_engine::{AssociatedData, NonceSource, Segment};
///
/// let nonce = NonceSource::new()?.batch(64)?.draw();
/// let segment = Segment::seal(0, 64, nonce, AssociatedData::new(&[]));
/// let other = segment.clone();
/// # Ok::<(), strongroom_engine::EntropyError>(())
/// ```
///
/// Engines that redo work copy a [whole batch](Batch::duplicate), data included.
#[derive(Debug)]
pub struct Segment {
    start: usize,
    len: usize,
    nonce: [u8; 24],
    associated_data: AssociatedData,
    tag: Tag,
    verdict: Verdict,
    purpose: Purpose,
    mask: Brought,
}

/// What a segment was made for. A nonce read from the store must never seal,
/// and a nonce spent on keystream must not seal as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Seal,
    Open,
    Keystream,
    Sectors,
}

impl Segment {
    /// To be sealed. The nonce is taken by value: it cannot be used again.
    #[must_use]
    pub fn seal(start: usize, len: usize, nonce: FreshNonce, associated_data: AssociatedData) -> Segment {
        Segment {
            start,
            len,
            nonce: nonce.into_bytes(),
            associated_data,
            tag: [0; 16],
            verdict: Verdict::Pending,
            purpose: Purpose::Seal,
            mask: Brought::default(),
        }
    }

    /// To be opened.
    #[must_use]
    pub fn open(
        start: usize,
        len: usize,
        nonce: StoredNonce,
        associated_data: AssociatedData,
        tag: Tag,
    ) -> Segment {
        Segment {
            start,
            len,
            nonce: nonce.into_bytes(),
            associated_data,
            tag,
            verdict: Verdict::Pending,
            purpose: Purpose::Open,
            mask: Brought::default(),
        }
    }

    /// To be sealed under a mask's nonce, with the mask as a help.
    ///
    /// # Panics
    /// When the mask is shorter than the segment.
    #[must_use]
    pub fn seal_masked(
        start: usize,
        len: usize,
        mask: Mask<FreshNonce>,
        associated_data: AssociatedData,
    ) -> Segment {
        assert!(len <= mask.len(), "a mask covers its segment");
        let (nonce, memory) = mask.into_parts();
        let segment = Segment::seal(start, len, nonce, associated_data);
        Segment { mask: Brought(Some(memory)), ..segment }
    }

    /// Brings a mask as a help for opening, where it is of this segment's nonce
    /// and long enough; nothing otherwise.
    pub fn bring(&mut self, mask: Mask<StoredNonce>) {
        let is_of_this = self.purpose == Purpose::Open && mask.nonce().into_bytes() == self.nonce;
        if is_of_this && mask.len() >= self.len {
            self.mask = Brought(Some(mask.into_parts().1));
        }
    }

    /// The same piece of work, computed without a mask: for copies of a batch,
    /// which have the same data.
    fn again(&self) -> Segment {
        let Segment { start, len, nonce, associated_data, tag, verdict, purpose, mask: _ } = *self;
        Segment { start, len, nonce, associated_data, tag, verdict, purpose, mask: Brought::default() }
    }

    /// To be filled with keystream, which takes the nonce as sealing does.
    #[must_use]
    pub fn keystream(start: usize, len: usize, nonce: FreshNonce) -> Segment {
        let sealing = Segment::seal(start, len, nonce, AssociatedData::new(&[]));
        Segment { purpose: Purpose::Keystream, ..sealing }
    }

    /// To be filled with keystream of a nonce that was spent before: to open
    /// what it sealed, or to check a mask of it.
    #[must_use]
    pub fn keystream_again(start: usize, len: usize, nonce: StoredNonce) -> Segment {
        let opening = Segment::open(start, len, nonce, AssociatedData::new(&[]), [0; 16]);
        Segment { purpose: Purpose::Keystream, ..opening }
    }

    /// One or more whole sectors of `sector_len` bytes from number `first`,
    /// numbered consecutively.
    #[must_use]
    pub fn sectors(start: usize, len: usize, first: u64, sector_len: u32) -> Segment {
        Segment::numbered_sectors(start, len, SectorNumbers::from(first), sector_len)
    }

    /// One or more whole sectors of `sector_len` bytes, numbered as `numbers`
    /// says.
    #[must_use]
    pub fn numbered_sectors(start: usize, len: usize, numbers: SectorNumbers, sector_len: u32) -> Segment {
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(&numbers.first.to_le_bytes());
        nonce[16..20].copy_from_slice(&numbers.step.to_le_bytes());
        nonce[20..].copy_from_slice(&sector_len.to_le_bytes());
        Segment {
            start,
            len,
            nonce,
            associated_data: AssociatedData::new(&[]),
            tag: [0; 16],
            verdict: Verdict::Pending,
            purpose: Purpose::Sectors,
            mask: Brought::default(),
        }
    }

    /// First byte in the batch's buffer.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes; may be 0 for an AEAD.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a segment of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The range in the batch's buffer.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }

    /// The nonce's 24 bytes.
    #[must_use]
    pub fn nonce(&self) -> &[u8; 24] {
        &self.nonce
    }

    /// The sectors' numbers, for a segment of sectors.
    #[must_use]
    pub fn sector_numbers(&self) -> SectorNumbers {
        SectorNumbers {
            first: u128::from_le_bytes(self.nonce[..16].try_into().expect("sixteen bytes")),
            step: u32::from_le_bytes(self.nonce[16..20].try_into().expect("four bytes")),
        }
    }

    /// Bytes of a sector, for a segment of sectors.
    #[must_use]
    pub fn sector_len(&self) -> u32 {
        u32::from_le_bytes(self.nonce[20..].try_into().expect("four bytes"))
    }

    /// The associated data.
    #[must_use]
    pub fn associated_data(&self) -> &[u8] {
        self.associated_data.as_slice()
    }

    /// The tag: an output of sealing, an input of opening.
    #[must_use]
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// What became of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether it brings a mask.
    #[must_use]
    pub fn has_mask(&self) -> bool {
        self.mask.0.is_some()
    }

    /// For engines: the mask that it brings, at least as long as the segment.
    #[must_use]
    pub fn take_mask(&mut self) -> Option<Box<dyn MaskMemory>> {
        self.mask.0.take()
    }

    /// For engines: the segment is done, with this tag when it was sealed.
    pub fn set_done(&mut self, tag: Option<Tag>) {
        if let Some(tag) = tag {
            self.tag = tag;
        }
        self.verdict = Verdict::Done;
    }

    /// For engines: the tag was wrong. The engine zeroes the bytes.
    pub fn set_forged(&mut self) {
        self.verdict = Verdict::Forged;
    }

    /// For engines that redo work elsewhere: as if never processed.
    pub fn set_pending(&mut self) {
        self.verdict = Verdict::Pending;
    }
}

/// Operations of one kind on one session, with the buffer they work in.
#[derive(Debug)]
pub struct Batch {
    /// What is done with every segment.
    pub operation: Operation,
    /// The bytes, owned by the batch until it completes.
    pub buffer: Buffer,
    /// The pieces; their vector is handed back for reuse.
    pub segments: Vec<Segment>,
    /// The request that it is a part of.
    pub origin: Origin,
}

impl Batch {
    /// A batch of `operation` over `segments` of `buffer`, for the request that
    /// this thread serves ([`Origin::here`]).
    #[must_use]
    pub fn new(operation: Operation, buffer: Buffer, segments: Vec<Segment>) -> Batch {
        Batch { operation, buffer, segments, origin: Origin::here() }
    }

    /// Bytes in all segments.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    /// Whether any segment brings a mask.
    #[must_use]
    pub fn has_masks(&self) -> bool {
        self.segments.iter().any(Segment::has_mask)
    }

    /// A copy with a buffer of its own, as it stands: for engines that may
    /// have to redo the work elsewhere, and get the same result since nonces
    /// and data are the same. Never a way to seal something else.
    #[must_use]
    pub fn duplicate(&self) -> Batch {
        Batch {
            operation: self.operation,
            buffer: Buffer::copy_of(&self.buffer),
            segments: self.segments.iter().map(Segment::again).collect(),
            origin: self.origin,
        }
    }

    /// A copy of the segments in `range`, packed into a buffer of its own with
    /// every start a multiple of `alignment` bytes: for engines that divide
    /// the work. As with [`Batch::duplicate`], nonces and data are the same,
    /// so that it may be redone.
    ///
    /// # Panics
    /// When `range` names segments that there are not, or `alignment` is 0.
    #[must_use]
    pub fn part(&self, range: std::ops::Range<usize>, alignment: usize) -> Batch {
        let originals = &self.segments[range];
        let mut segments: Vec<Segment> = originals.iter().map(Segment::again).collect();
        let mut end = 0usize;
        for segment in &mut segments {
            segment.start = end.next_multiple_of(alignment);
            end = segment.start + segment.len;
        }
        let mut buffer = Buffer::new(end);
        for (copy, original) in segments.iter().zip(originals) {
            buffer[copy.range()].copy_from_slice(&self.buffer[original.range()]);
        }
        Batch { operation: self.operation, buffer, segments, origin: self.origin }
    }

    /// Takes the results of a part that was made of this batch's segments from
    /// `first` on: bytes, tags and verdicts.
    ///
    /// # Panics
    /// When the part has other lengths than those segments.
    pub fn absorb(&mut self, first: usize, part: &Batch) {
        for (segment, done) in self.segments[first..].iter_mut().zip(&part.segments) {
            self.buffer[segment.range()].copy_from_slice(&part.buffer[done.range()]);
            segment.tag = done.tag;
            segment.verdict = done.verdict;
        }
    }
}
