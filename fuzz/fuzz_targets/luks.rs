//! LUKS headers: what decodes encodes to what decodes to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::luks::{BinaryHeader, Copy, Metadata, Phdr, binary, phdr};

fuzz_target!(|data: &[u8]| {
    // Short inputs stand for headers that end in zeros.
    let mut bytes = vec![0; phdr::header::LEN];
    let len = data.len().min(bytes.len());
    bytes[..len].copy_from_slice(&data[..len]);
    if let Ok(header) = Phdr::decode(&bytes) {
        assert_eq!(Phdr::decode(&header.encode()).as_ref(), Ok(&header));
        assert!(header.end() >= phdr::header::LEN as u64);
    }
    bytes.resize(binary::header::LEN, 0);
    for copy in [Copy::First, Copy::Second] {
        if let Ok(header) = BinaryHeader::decode(&bytes, copy) {
            assert_eq!(BinaryHeader::decode(&header.encode(), copy).as_ref(), Ok(&header));
        }
    }
    let mut area = data.to_vec();
    area.resize((0x4000 - binary::header::LEN).max(data.len()), 0);
    if let Ok(mut metadata) = Metadata::decode(&area, 0x4000) {
        if let Ok(encoded) = metadata.encode() {
            assert_eq!(Metadata::decode(&encoded, 0x4000).as_ref(), Ok(&metadata));
        }
        let ids: Vec<u32> = metadata.keyslots().keys().copied().collect();
        ids.into_iter().for_each(|id| metadata.remove_keyslot(id));
        assert!(metadata.keyslots().is_empty());
        let _ = (metadata.free_area(0x4000, 258_048), metadata.tokens(), metadata.free_keyslot());
    }
});
