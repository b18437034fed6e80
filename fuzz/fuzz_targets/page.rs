//! Pages: whatever decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::vault::PageKind;
use strongroom_format::vault::map::Map;
use strongroom_format::vault::node::{ENTRIES, Node};
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader, SEALED_LEN};

fuzz_target!(|data: &[u8]| {
    if let Some(clear) = data.first_chunk::<CLEAR_LEN>() {
        if let Ok(header) = PageHeader::decode(clear) {
            assert_eq!(&header.encode(), clear);
        }
    }
    // Short inputs stand for pages that end in zeros.
    let mut sealed = [0; SEALED_LEN];
    let len = data.len().min(SEALED_LEN);
    sealed[..len].copy_from_slice(&data[..len]);
    for kind in PageKind::ALL {
        if let Ok(node) = Node::decode(kind, &sealed) {
            check_node(node, &sealed);
        }
        if let Ok(map) = Map::decode(kind, &sealed) {
            assert_eq!(map.encoded(), &sealed);
            assert_eq!(map.present().count(), map.count());
        }
    }
});

/// Setting every entry and the header fields to what they are changes nothing.
fn check_node(mut node: Node, sealed: &[u8; SEALED_LEN]) {
    assert_eq!(node.encoded(), sealed);
    assert_eq!((0..ENTRIES).filter(|&i| !node.is_hole(i)).count(), node.live_entries());
    if let Some(header) = node.header() {
        node.set_header(&header);
        assert_eq!(node.encoded(), sealed);
    }
    for i in 0..ENTRIES {
        if let Some(entry) = node.entry(i) {
            node.set_entry(i, &entry).expect("its session is in the table");
            assert_eq!(node.entry(i), Some(entry));
        }
    }
}
