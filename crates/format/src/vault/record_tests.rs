//! Tests of [`super`].

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::vault::geometry::{MAX_GROUPS, MAX_MAPS};

fn place() -> impl Strategy<Value = Place> {
    (0u8..2, 1u32..).prop_map(|(segment, slot)| Place { segment, slot })
}

fn page() -> impl Strategy<Value = PageImage> {
    let kind = prop_oneof![
        Just((PageKind::Header, 0)),
        (1..MAX_GROUPS).prop_map(|n| (PageKind::Node, n)),
        (0..MAX_MAPS).prop_map(|n| (PageKind::Map, n)),
        Just((PageKind::RootMap, 0)),
    ];
    (kind, place(), any::<[u8; 16]>()).prop_map(|((kind, number), place, tag)| PageImage {
        kind,
        number,
        place,
        tag,
    })
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..NANOSECONDS).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn commit() -> impl Strategy<Value = Commit> {
    let block = (0..MAX_BLOCKS, place()).prop_map(|(b, place)| BlockImage { block: BlockIndex(b), place });
    let range = (0..MAX_BLOCKS - 1000, 1u64..1000)
        .prop_map(|(first, count)| BlockRange { first: BlockIndex(first), count });
    let path = vec("[a-z~_-]{1,9}", 0..4).prop_map(|parts| parts.join("/").into_bytes());
    let lists = (vec(page(), 0..5), vec(block, 0..5), vec(range, 0..3));
    let rest = (any::<bool>(), 4096..=MAX_STORED_LEN, time(), time());
    (any::<[u8; 16]>(), path, lists, rest).prop_map(|(file, path_hint, (pages, blocks, punched), rest)| {
        Commit {
            file: FileId(file),
            path_hint,
            pages,
            blocks,
            punched,
            set_len: rest.0,
            stored_len: StoredLen(rest.1),
            accessed: rest.2,
            modified: rest.3,
        }
    })
}

fn record() -> impl Strategy<Value = Record> {
    let change = prop_oneof![
        4 => commit().prop_map(Change::Commit),
        1 => any::<[u8; 16]>().prop_map(|id| Change::Removal(FileId(id))),
    ];
    (any::<[u8; 16]>(), any::<u64>(), change).prop_map(|(chain, durable, change)| Record {
        chain,
        durable,
        change,
    })
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out).expect("well-formed");
    out
}

fn example() -> Commit {
    Commit {
        file: FileId([1; 16]),
        path_hint: b"a/b".to_vec(),
        pages: vec![PageImage {
            kind: PageKind::Node,
            number: 3,
            place: Place { segment: 1, slot: 2 },
            tag: [9; 16],
        }],
        blocks: vec![BlockImage { block: BlockIndex(400), place: Place { segment: 0, slot: 7 } }],
        punched: vec![BlockRange { first: BlockIndex(5), count: 6 }],
        set_len: true,
        stored_len: StoredLen(8192),
        accessed: Timestamp { seconds: -1, nanoseconds: 5 },
        modified: Timestamp { seconds: 1, nanoseconds: 6 },
    }
}

fn example_record(commit: Commit) -> Record {
    Record { chain: [0; 16], durable: 0, change: Change::Commit(commit) }
}

#[test]
fn the_lists_stand_as_the_document_says() {
    let bytes = encoded(&example_record(example()));
    assert_eq!(bytes[24..28], [1, 3, 3, 0]);
    assert_eq!(bytes[88..91], *b"a/b");
    assert_eq!(bytes[91..107], [2, 1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[107..123], [9; 16]);
    assert_eq!(bytes[123..139], [0x90, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(bytes[139..155], [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 155);
}

#[test]
fn malformed_records_are_refused() {
    let good = encoded(&example_record(example()));
    let cases = [
        (24, 3, "kind"),
        (25, 1, "ranges without the intent"),
        (25, 7, "an unknown intent"),
        (26, 2, "a shorter hint"),
        (28, 2, "more pages than there are"),
        (39, 255, "more ranges than any record has"),
        (57, 0, "a stored length below a page"),
        (63, 1, "a stored length beyond the largest"),
        (75, 255, "more than a second of nanoseconds"),
        (88, b'/', "an absolute path"),
        (88, 0, "a path with a zero byte"),
        (91, 5, "no such kind of page"),
        (91, 1, "a header page with a number"),
        (92, 2, "no such segment"),
        (93, 1, "a page's zero field"),
        (95, 0, "slot 0"),
        (131, 2, "no such segment"),
        (132, 1, "a block's zero field"),
        (130, 1, "a block beyond the largest file"),
        (147, 0, "an empty range"),
        (154, 1, "a range beyond the largest file"),
    ];
    assert!(Record::decode(&good).is_ok());
    for (at, bad, what) in cases {
        let mut bytes = good.clone();
        bytes[at] = bad;
        assert!(Record::decode(&bytes).is_err(), "{what}");
    }
    assert!(Record::decode(&good[..good.len() - 1]).is_err());
    assert!(Record::decode(&[]).is_err());
}

#[test]
fn a_removal_holds_the_file_and_nothing_else() {
    let record = Record { chain: [1; 16], durable: 2, change: Change::Removal(FileId([3; 16])) };
    let good = encoded(&record);
    assert_eq!(Record::decode(&good), Ok(record));
    for at in (25..40).chain(56..88) {
        let mut bytes = good.clone();
        bytes[at] = 1;
        assert!(Record::decode(&bytes).is_err(), "byte {at}");
    }
    assert!(Record::decode(&[good, vec![0; 16]].concat()).is_err());
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut out = vec![7];
    for path in ["/a", "a//b", "a/", "..", "a/../b", "./a", "a\0b"] {
        let commit = Commit { path_hint: path.into(), ..example() };
        assert!(example_record(commit).encode(&mut out).is_err(), "{path}");
    }
    let commit = Commit { path_hint: vec![b'a'; HINT_MAX + 1], ..example() };
    assert!(example_record(commit).encode(&mut out).is_err());
    let commit = Commit { blocks: vec![example().blocks[0]; SEALED_MAX / ITEM_LEN], ..example() };
    assert!(example_record(commit).encode(&mut out).is_err());
    assert_eq!(out, [7]);
}

proptest! {
    #[test]
    fn records_come_back(record in record()) {
        let bytes = encoded(&record);
        prop_assert_eq!(bytes.len(), record.encoded_len());
        prop_assert_eq!(Record::decode(&bytes), Ok(record));
    }

    #[test]
    fn changed_records_decode_to_themselves_or_not_at_all(
        record in record(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&record);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(decoded) = Record::decode(&bytes) {
            prop_assert_eq!(encoded(&decoded), bytes.clone());
        }
        let _ = Record::decode(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = Record::decode(&bytes);
    }
}
