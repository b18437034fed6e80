//! Journal segments (section 6): the header in slot 0, and the clear part of
//! records. What a record says is [`super::record`].

use strongroom_units::PAGE_LEN;

use super::{NONCE_LEN, TAG_LEN, VERSION, WriteSession};
use crate::error::{FormatError, exactly, within, zero};
use crate::layout::layout;

layout! {
    /// Slot 0 of a segment, as far as it is not zero.
    segment: 104;
    MAGIC = 0, 4, "magic `SRjs`";
    VERSION = 4, 1, "format version";
    ZERO = 5, 3, "zero";
    EPOCH = 8, 8, "epoch";
    SESSION = 16, 12, "session";
    SLOTS = 28, 4, "slots in the segment";
    NONCE = 32, 24, "nonce";
    TAG = 56, 16, "tag";
    SEALED = 72, 32, "sealed";
}

layout! {
    /// The sealed part of a segment header.
    start: super::segment::SEALED.len;
    CHAIN = 0, 16, "tag of the last record before this epoch";
    NEXT = 16, 8, "next record sequence number";
    ZERO = 24, 8, "zero";
}

layout! {
    /// The clear part of a record.
    record: 72;
    MAGIC = 0, 4, "magic `SRjr`";
    SEALED_LEN = 4, 4, "length of the sealed part";
    EPOCH = 8, 8, "epoch";
    SEQUENCE = 16, 8, "sequence number";
    ZERO = 24, 8, "zero";
    NONCE = 32, 24, "nonce";
    TAG = 56, 16, "tag";
}

/// Bytes of a slot, in which segments are counted.
pub const SLOT_LEN: usize = PAGE_LEN;
/// Segments of a session.
pub const SEGMENTS: u8 = 2;
/// The magic of a segment header.
pub const SEGMENT_MAGIC: [u8; 4] = *b"SRjs";
/// The magic of a record.
pub const RECORD_MAGIC: [u8; 4] = *b"SRjr";
/// Bytes of the clear part of a segment header or a record.
pub const CLEAR_LEN: usize = record::LEN;
/// Bytes of the clear part that the associated data repeat.
pub const BOUND_LEN: usize = record::TAG.offset;
/// Bytes of a record's associated data.
pub const RECORD_ASSOCIATED_LEN: usize = BOUND_LEN + WriteSession::LEN + 4;
/// The longest sealed part of a record, in bytes.
pub const SEALED_MAX: usize = 1 << 20;
/// The shortest sealed part of a record, in bytes.
pub const SEALED_MIN: usize = super::record::body::LEN;

const _: () = assert!(segment::SEALED.offset == CLEAR_LEN && segment::TAG.offset == BOUND_LEN);
const _: () = assert!(record::NONCE.len == NONCE_LEN && record::TAG.len == TAG_LEN);
const _: () = assert!(segment::LEN <= SLOT_LEN && SEALED_MIN <= SEALED_MAX);

/// Slots that a record with a sealed part of `sealed_len` bytes takes.
#[must_use]
pub const fn record_slots(sealed_len: usize) -> u32 {
    (CLEAR_LEN + sealed_len).div_ceil(SLOT_LEN) as u32
}

/// The clear part of a segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Counts the uses of the session's segments, from 1.
    pub epoch: u64,
    /// The session that writes here.
    pub session: WriteSession,
    /// Slots of the segment, this one included; at least 2.
    pub slots: u32,
    /// Nonce of the sealed part.
    pub nonce: [u8; NONCE_LEN],
    /// Tag of the sealed part.
    pub tag: [u8; TAG_LEN],
}

impl SegmentHeader {
    /// Reads slot 0 of a segment; the sealed part comes back as it stands.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it, and when it is
    /// not a slot long.
    pub fn decode(slot: &[u8]) -> Result<(SegmentHeader, [u8; segment::SEALED.len]), FormatError> {
        let slot = exactly::<SLOT_LEN>("journal segment header", slot)?;
        if segment::MAGIC.of(slot) != SEGMENT_MAGIC {
            return Err(FormatError::magic("journal segment", segment::MAGIC.of(slot)));
        }
        let version = segment::VERSION.byte(slot);
        if version != VERSION {
            return Err(FormatError::Unsupported { field: "journal version", value: u64::from(version) });
        }
        zero("journal segment header", segment::ZERO.of(slot), segment::ZERO.offset)?;
        zero("journal segment header", &slot[segment::LEN..], segment::LEN)?;
        let slots = segment::SLOTS.u32(slot);
        within("slots of a journal segment", u64::from(slots), 2, u64::from(u32::MAX))?;
        let header = SegmentHeader {
            epoch: within("journal epoch", segment::EPOCH.u64(slot), 1, u64::MAX)?,
            session: WriteSession(segment::SESSION.array(slot)),
            slots,
            nonce: segment::NONCE.array(slot),
            tag: segment::TAG.array(slot),
        };
        Ok((header, segment::SEALED.array(slot)))
    }

    /// The clear part as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; CLEAR_LEN] {
        let mut clear = [0; CLEAR_LEN];
        segment::MAGIC.set(&mut clear, &SEGMENT_MAGIC);
        segment::VERSION.set(&mut clear, &[VERSION]);
        segment::EPOCH.set(&mut clear, &self.epoch.to_le_bytes());
        segment::SESSION.set(&mut clear, &self.session.0);
        segment::SLOTS.set(&mut clear, &self.slots.to_le_bytes());
        segment::NONCE.set(&mut clear, &self.nonce);
        segment::TAG.set(&mut clear, &self.tag);
        clear
    }

    /// Associated data of the sealed part; the tag is not part of it.
    #[must_use]
    pub fn associated_data(&self) -> [u8; BOUND_LEN] {
        self.encode()[..BOUND_LEN].try_into().expect("the bound part is a prefix")
    }
}

/// The sealed part of a segment header: where the chain of records goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentStart {
    /// Tag of the last record before this epoch; zero for none.
    pub chain: [u8; TAG_LEN],
    /// Sequence number of the next record.
    pub next_sequence: u64,
}

impl SegmentStart {
    /// Reads the opened sealed part.
    ///
    /// # Errors
    /// [`FormatError::NotZero`].
    pub fn decode(bytes: &[u8; start::LEN]) -> Result<SegmentStart, FormatError> {
        zero("journal segment header", start::ZERO.of(bytes), segment::SEALED.offset + start::ZERO.offset)?;
        Ok(SegmentStart { chain: start::CHAIN.array(bytes), next_sequence: start::NEXT.u64(bytes) })
    }

    /// The sealed part, to be sealed.
    #[must_use]
    pub fn encode(&self) -> [u8; start::LEN] {
        let mut bytes = [0; start::LEN];
        start::CHAIN.set(&mut bytes, &self.chain);
        start::NEXT.set(&mut bytes, &self.next_sequence.to_le_bytes());
        bytes
    }
}

/// The clear part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the sealed part, [`SEALED_MIN`] to [`SEALED_MAX`].
    pub sealed_len: usize,
    /// Epoch of the segment.
    pub epoch: u64,
    /// One more than the record's before, across segments.
    pub sequence: u64,
    /// Nonce of the sealed part.
    pub nonce: [u8; NONCE_LEN],
    /// Tag of the sealed part.
    pub tag: [u8; TAG_LEN],
}

impl RecordHeader {
    /// Reads the clear part.
    ///
    /// # Errors
    /// [`FormatError`] when no record begins here; slots of images and of
    /// earlier epochs look like anything.
    pub fn decode(clear: &[u8; CLEAR_LEN]) -> Result<RecordHeader, FormatError> {
        if record::MAGIC.of(clear) != RECORD_MAGIC {
            return Err(FormatError::magic("journal record", record::MAGIC.of(clear)));
        }
        zero("journal record", record::ZERO.of(clear), record::ZERO.offset)?;
        let len = u64::from(record::SEALED_LEN.u32(clear));
        let len = within("length of a journal record", len, SEALED_MIN as u64, SEALED_MAX as u64)?;
        Ok(RecordHeader {
            sealed_len: len as usize,
            epoch: within("journal epoch", record::EPOCH.u64(clear), 1, u64::MAX)?,
            sequence: record::SEQUENCE.u64(clear),
            nonce: record::NONCE.array(clear),
            tag: record::TAG.array(clear),
        })
    }

    /// The clear part as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; CLEAR_LEN] {
        let mut clear = [0; CLEAR_LEN];
        record::MAGIC.set(&mut clear, &RECORD_MAGIC);
        record::SEALED_LEN.set(&mut clear, &(self.sealed_len as u32).to_le_bytes());
        record::EPOCH.set(&mut clear, &self.epoch.to_le_bytes());
        record::SEQUENCE.set(&mut clear, &self.sequence.to_le_bytes());
        record::NONCE.set(&mut clear, &self.nonce);
        record::TAG.set(&mut clear, &self.tag);
        clear
    }

    /// Associated data of the sealed part of the record at `slot` of a segment
    /// of `session`; the tag is not part of it.
    #[must_use]
    pub fn associated_data(&self, session: WriteSession, slot: u32) -> [u8; RECORD_ASSOCIATED_LEN] {
        let mut data = [0; RECORD_ASSOCIATED_LEN];
        data[..BOUND_LEN].copy_from_slice(&self.encode()[..BOUND_LEN]);
        data[BOUND_LEN..BOUND_LEN + WriteSession::LEN].copy_from_slice(&session.0);
        data[BOUND_LEN + WriteSession::LEN..].copy_from_slice(&slot.to_le_bytes());
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment_header() -> SegmentHeader {
        SegmentHeader { epoch: 3, session: WriteSession([1; 12]), slots: 4096, nonce: [2; 24], tag: [3; 16] }
    }

    fn record_header() -> RecordHeader {
        RecordHeader { sealed_len: 200, epoch: 3, sequence: 9, nonce: [2; 24], tag: [3; 16] }
    }

    fn slot() -> [u8; SLOT_LEN] {
        let mut slot = [0; SLOT_LEN];
        slot[..CLEAR_LEN].copy_from_slice(&segment_header().encode());
        slot[CLEAR_LEN..segment::LEN].fill(9);
        slot
    }

    #[test]
    fn segment_headers_come_back_and_malformed_ones_do_not() {
        assert_eq!(SegmentHeader::decode(&slot()), Ok((segment_header(), [9; 32])));
        for (at, bad) in [(0, 0), (4, 1), (5, 1), (7, 1), (8, 0), (29, 0), (104, 1), (4095, 1)] {
            let mut bytes = slot();
            bytes[at] = bad;
            assert!(SegmentHeader::decode(&bytes).is_err(), "byte {at} = {bad}");
        }
        assert!(SegmentHeader::decode(&slot()[1..]).is_err());
        let start = SegmentStart { chain: [4; 16], next_sequence: 77 };
        assert_eq!(SegmentStart::decode(&start.encode()), Ok(start));
        let mut bytes = start.encode();
        bytes[31] = 1;
        assert!(SegmentStart::decode(&bytes).is_err());
    }

    #[test]
    fn record_headers_come_back_and_malformed_ones_do_not() {
        let good = record_header().encode();
        assert_eq!(RecordHeader::decode(&good), Ok(record_header()));
        for (at, bad) in [(0, 0), (4, 87), (7, 1), (8, 0), (24, 1), (31, 1)] {
            let mut bytes = good;
            bytes[at] = bad;
            assert!(RecordHeader::decode(&bytes).is_err(), "byte {at} = {bad}");
        }
    }

    #[test]
    fn a_record_is_bound_to_its_session_and_slot() {
        let header = record_header();
        let base = header.associated_data(WriteSession([1; 12]), 5);
        assert_ne!(base, header.associated_data(WriteSession([2; 12]), 5));
        assert_ne!(base, header.associated_data(WriteSession([1; 12]), 6));
        assert_ne!(base, RecordHeader { epoch: 4, ..header }.associated_data(WriteSession([1; 12]), 5));
        assert_eq!(base, RecordHeader { tag: [0; 16], ..header }.associated_data(WriteSession([1; 12]), 5));
    }

    #[test]
    fn records_take_whole_slots() {
        assert_eq!(record_slots(88), 1);
        assert_eq!(record_slots(SLOT_LEN - CLEAR_LEN), 1);
        assert_eq!(record_slots(SLOT_LEN - CLEAR_LEN + 1), 2);
    }

    proptest! {
        #[test]
        fn changed_bytes_decode_to_themselves_or_not_at_all(at in 0..SLOT_LEN, byte: u8) {
            let mut bytes = slot();
            bytes[at] = byte;
            if let Ok((header, sealed)) = SegmentHeader::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..CLEAR_LEN]);
                prop_assert_eq!(&sealed[..], &bytes[CLEAR_LEN..segment::LEN]);
            }
            let mut clear = record_header().encode();
            clear[at % CLEAR_LEN] = byte;
            if let Ok(header) = RecordHeader::decode(&clear) {
                prop_assert_eq!(header.encode(), clear);
            }
        }
    }
}
