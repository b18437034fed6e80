use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn specials() -> impl Strategy<Value = Special> {
    prop_oneof![
        (1..=TARGET_MAX as u16, any::<[u8; SIV_LEN]>())
            .prop_map(|(target_len, body_tag)| Special::Symlink { target_len, body_tag }),
        Just(Special::Fifo),
        Just(Special::Socket),
        any::<u64>().prop_map(Special::CharacterDevice),
        any::<u64>().prop_map(Special::BlockDevice),
    ]
}

fn slots() -> impl Strategy<Value = Slot> {
    (1..=u64::MAX, any::<bool>(), any::<[u8; 16]>(), any::<[u8; 16]>(), specials()).prop_map(
        |(sequence, linked, home, directory, special)| Slot {
            sequence,
            linked,
            home,
            directory: DirectoryId(directory),
            special,
        },
    )
}

const FIFO: Slot = Slot {
    sequence: 1,
    linked: false,
    home: [1; 16],
    directory: DirectoryId([2; 16]),
    special: Special::Fifo,
};

#[test]
fn fields_that_have_to_be_zero_are_refused_otherwise() {
    for at in [slot::ZERO, slot::DEVICE, slot::TARGET_LEN, slot::BODY_TAG] {
        let mut bytes = FIFO.encode();
        assert_eq!(Slot::decode(&bytes), Ok(FIFO));
        bytes[at.offset] = 1;
        assert!(Slot::decode(&bytes).is_err(), "{}", at.name);
    }
    for (field, value) in [(slot::KIND, 0), (slot::KIND, 6), (slot::FLAGS, 2), (slot::SEQUENCE, 0)] {
        let mut bytes = FIFO.encode();
        bytes[field.offset] = value;
        assert!(Slot::decode(&bytes).is_err(), "{} {value}", field.name);
    }
}

#[test]
fn a_symlink_has_a_target_of_a_possible_length() {
    let symlink = |target_len| Slot { special: Special::Symlink { target_len, body_tag: [7; 16] }, ..FIFO };
    for len in [1, INLINE_TARGET_MAX as u16, TARGET_MAX as u16] {
        assert_eq!(Slot::decode(&symlink(len).encode()), Ok(symlink(len)));
    }
    for len in [0, TARGET_MAX as u16 + 1] {
        assert!(Slot::decode(&symlink(len).encode()).is_err(), "{len}");
    }
    let longest = Special::Symlink { target_len: INLINE_TARGET_MAX as u16, body_tag: [0; 16] };
    assert_eq!(longest.stored_len(), LEN_MAX);
    assert!(!longest.has_side());
    let longer = Special::Symlink { target_len: INLINE_TARGET_MAX as u16 + 1, body_tag: [0; 16] };
    assert_eq!(longer.stored_len(), BODY_OFFSET);
    assert!(longer.has_side());
}

#[test]
fn a_record_has_its_length_and_zeros_between() {
    let head = Head { generation: 1, birth: WriteSession([3; 12]), file: FileId([4; 16]) }.encode();
    let record = Parts { head: &head, slots: [&[5; SLOT_LEN], &[6; SLOT_LEN]], body: b"body" }.join();
    assert!(Parts::split(&record).is_ok());
    assert!(Parts::split(&record[..BODY_OFFSET - 1]).is_err());
    assert!(Parts::split(&[0; PAGE_LEN]).is_err());
    let mut changed = record.clone();
    changed[SLOT_OFFSETS[0] + SLOT_LEN] = 1;
    assert!(Parts::split(&changed).is_err());
    assert!(is_special_len(1) && is_special_len(4095) && !is_special_len(0) && !is_special_len(4096));
}

#[test]
fn another_version_or_magic_is_no_head() {
    let head = Head { generation: 1, birth: WriteSession([3; 12]), file: FileId([4; 16]) };
    let bytes = head.encode();
    assert_eq!(Head::decode(&bytes), Ok(head));
    for field in [head::MAGIC, head::VERSION, head::ZERO] {
        let mut changed = bytes;
        changed[field.offset] ^= 0x40;
        assert!(Head::decode(&changed).is_err(), "{}", field.name);
    }
}

proptest! {
    #[test]
    fn slots_come_back(slot in slots()) {
        prop_assert_eq!(Slot::decode(&slot.encode()), Ok(slot));
    }

    #[test]
    fn records_come_back(body in vec(any::<u8>(), 0..LEN_MAX - BODY_OFFSET), one in any::<u8>()) {
        let head = Head { generation: 1, birth: WriteSession([one; 12]), file: FileId([4; 16]) }.encode();
        let parts = Parts { head: &head, slots: [&[one; SLOT_LEN], &[0; SLOT_LEN]], body: &body };
        let record = parts.join();
        prop_assert_eq!(Parts::split(&record), Ok(parts));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..5000)) {
        if let Ok(parts) = Parts::split(&bytes) {
            let _ = Head::decode(parts.head);
        }
        let _ = Slot::decode(&bytes);
    }
}
