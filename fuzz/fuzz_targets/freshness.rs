//! The freshness file: whatever decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::freshness::{FileHeader, FrameHeader, Operation};

fuzz_target!(|data: &[u8]| {
    if let Ok(operations) = Operation::decode_all(data) {
        let mut again = Vec::new();
        for operation in operations {
            operation.encode(&mut again).expect("what is read can be written");
        }
        assert_eq!(again, data);
    }
    if let Some(bytes) = data.first_chunk() {
        if let Ok(header) = FileHeader::decode(bytes) {
            assert_eq!(&header.encode(), bytes);
        }
    }
    if let Some(bytes) = data.first_chunk() {
        if let Ok(frame) = FrameHeader::decode(bytes) {
            assert_eq!(&frame.encode(), bytes);
        }
    }
});
