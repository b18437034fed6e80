//! Special records: whatever decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::vault::special::{Head, Parts, Slot};

fuzz_target!(|data: &[u8]| {
    if let Ok(parts) = Parts::split(data) {
        assert_eq!(parts.join(), data);
        if let Ok(head) = Head::decode(parts.head) {
            assert_eq!(&head.encode(), parts.head);
        }
    }
    if let Ok(slot) = Slot::decode(data) {
        assert_eq!(&slot.encode()[..], data);
    }
});
