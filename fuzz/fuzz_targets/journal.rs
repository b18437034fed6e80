//! Journal segments and records: whatever decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::vault::journal::{CLEAR_LEN, RecordHeader, SLOT_LEN, SegmentHeader, SegmentStart};
use strongroom_format::vault::names;
use strongroom_format::vault::record::Record;

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = Record::decode(data) {
        let mut again = Vec::new();
        record.encode(&mut again).expect("what is read can be written");
        assert_eq!(again, data);
    }
    if let Some(clear) = data.first_chunk::<CLEAR_LEN>() {
        if let Ok(header) = RecordHeader::decode(clear) {
            assert_eq!(&header.encode(), clear);
        }
    }
    if let Some(start) = data.first_chunk() {
        if let Ok(decoded) = SegmentStart::decode(start) {
            assert_eq!(&decoded.encode(), start);
        }
    }
    let mut slot = [0; SLOT_LEN];
    let len = data.len().min(SLOT_LEN);
    slot[..len].copy_from_slice(&data[..len]);
    if let Ok((header, _)) = SegmentHeader::decode(&slot) {
        assert_eq!(header.encode(), slot[..CLEAR_LEN]);
    }
    if let Some((session, segment)) = names::parse_journal_name(data) {
        assert_eq!(names::journal_name(session, segment).as_bytes(), data);
    }
});
