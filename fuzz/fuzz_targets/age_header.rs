//! Headers of age: whatever is read has that one spelling, and the reader of
//! streams takes as much as the header is long.
#![no_main]

use std::io::{BufRead, Cursor};

use libfuzzer_sys::fuzz_target;
use strongroom_format::age::Header;

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = Header::decode(data) {
        assert_eq!(header.encode(), data);
    }
    let mut input = Cursor::new(data);
    if let Ok(header) = strongroom_file::read_header(&mut input) {
        let encoded = header.encode();
        assert_eq!(encoded, data[..encoded.len()]);
        assert_eq!(input.fill_buf().expect("memory"), &data[encoded.len()..]);
    }
});
