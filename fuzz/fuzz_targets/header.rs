//! The vault header: whatever decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::vault::header::{Header, LEN, MAC_COVERS};
use strongroom_format::vault::slot::Slot;

fuzz_target!(|data: &[u8]| {
    let _ = Header::decode(data);
    // Short inputs stand for headers that end in zeros.
    let mut bytes = vec![0; LEN];
    let len = data.len().min(MAC_COVERS);
    bytes[..len].copy_from_slice(&data[..len]);
    if let Ok(header) = Header::decode(&bytes) {
        assert_eq!(&header.encode()[..], bytes);
        for slot in header.slots.iter().flatten().filter_map(Slot::known) {
            assert_eq!(header.wrap_context(slot).bytes().len(), 160);
        }
    }
});
