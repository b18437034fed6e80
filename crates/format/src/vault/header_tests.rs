//! Tests of [`super`] and of key slots.

use super::*;
use crate::vault::slot::{Kdf, KdfCost, Label, SlotKind};
use proptest::prelude::*;

fn password_slot() -> KeySlot {
    KeySlot {
        kind: SlotKind::Password,
        kdf: Kdf::Argon2id(KdfCost::new(65536, 3, 4).expect("in bounds")),
        salt: [5; 32],
        created: 1000,
        label: Label::new("Käthe's laptop").expect("short"),
        commitment: [6; 32],
        wrapped: [7; 48],
    }
}

fn example() -> Header {
    let mut header = Header {
        suite: Suite::Xaes256Gcm,
        block_size: BlockSize::MIN,
        base32_names: true,
        vault: VaultId([1; 16]),
        sequence: 42,
        generation: 2,
        generation_min: 1,
        created: 999,
        written: 1001,
        has_freshness: true,
        sessions: [const { None }; SESSIONS],
        slots: [const { None }; SLOTS],
        extensions: vec![Extension { kind: 3, content: b"later".to_vec() }],
        mac: [9; 32],
    };
    header.sessions[15] =
        Some(Session { id: WriteSession([3; 12]), state: SessionState::Crashed, opened: 4 });
    header.slots[0] = Some(Slot::Known(password_slot()));
    let recovery = KeySlot { kind: SlotKind::Recovery, kdf: Kdf::Hkdf, ..password_slot() };
    header.slots[11] = Some(Slot::Known(recovery));
    header
}

fn spoiled(at: usize, byte: u8) -> Result<Header, FormatError> {
    let mut bytes = example().encode();
    assert_ne!(bytes[at], byte, "byte {at} is changed");
    bytes[at] = byte;
    Header::decode(&bytes[..])
}

#[test]
fn a_header_comes_back() {
    assert_eq!(Header::decode(&example().encode()[..]), Ok(example()));
    assert!(Header::decode(&example().encode()[1..]).is_err());
    assert!(Header::decode(&[]).is_err());
}

#[test]
fn malformed_headers_are_refused() {
    let session = 96 + 15 * 96;
    let slot = 1632;
    let hkdf = 1632 + 11 * 512;
    let cases = [
        (0, 0, "magic"),
        (8, 1, "version"),
        (12, 0, "suite"),
        (13, 21, "block size"),
        (14, 2, "flags"),
        (40, 0, "generation below the lowest"),
        (44, 0, "lowest generation zero"),
        (40, 65, "too many generations at once"),
        (64, 2, "freshness file neither there nor not"),
        (65, 1, "zero"),
        (96, 1, "a free session that is not zero"),
        (session + 12, 3, "state"),
        (session + 13, 1, "zero"),
        (session + 24, 1, "zero"),
        (session + 95, 1, "zero"),
        (slot, 3, "Argon2id for a recovery key"),
        (hkdf, 4, "HKDF for a password with a key file"),
        (slot + 1, 3, "KDF"),
        (slot + 1, 2, "HKDF for a password"),
        (slot + 2, 1, "zero"),
        (slot + 6, 0, "too little memory"),
        (slot + 7, 255, "too much memory"),
        (slot + 8, 65, "too many passes"),
        (slot + 12, 17, "too many lanes"),
        (slot + 56, 0x1b, "a label that steers the terminal"),
        (slot + 200, 1, "zero"),
        (slot + 513, 1, "a free slot that is not zero"),
        (hkdf + 4, 1, "a cost of HKDF"),
        (7776 + 1, 0x80, "a critical extension"),
        (7776 + 3, 0xff, "an extension beyond its area"),
        (16351, 1, "zero behind the extensions"),
    ];
    for (at, bad, what) in cases {
        assert!(spoiled(at, bad).is_err(), "byte {at} = {bad}: {what}");
    }
    assert!(spoiled(8, 1).is_err_and(|e| e.is_unsupported()));
    assert!(spoiled(0, 0).is_err_and(|e| !e.is_unsupported()));
}

#[test]
fn slots_of_later_kinds_are_kept_and_open_nothing() {
    let mut bytes = example().encode();
    let slot = 1632 + 512;
    bytes[slot..slot + 512].fill(0x5a);
    bytes[slot] = 5;
    let header = Header::decode(&bytes[..]).expect("a later slot is no error");
    let Some(Slot::Later(later)) = &header.slots[1] else { panic!("{:?}", header.slots[1]) };
    assert_eq!((later.kind(), later.reserved_for()), (5, Some("age recipient")));
    assert!(header.slots[1].as_ref().is_some_and(|slot| slot.known().is_none()));
    assert_eq!(header.encode(), bytes, "it is kept byte for byte");
}

#[test]
fn a_session_stands_in_the_header_once_and_has_an_id() {
    let mut twice = example();
    twice.sessions[0] = twice.sessions[15].clone();
    assert!(Header::decode(&twice.encode()[..]).is_err());
    let mut bytes = example().encode();
    bytes[96 + 15 * 96..][..12].fill(0);
    assert!(Header::decode(&bytes[..]).is_err());
}

#[test]
fn a_wrap_is_bound_to_the_vault_and_the_slot_and_not_to_what_changes() {
    let header = example();
    let slot = password_slot();
    let base = header.wrap_context(&slot);
    let bytes = header.encode();
    let expected = [&bytes[..32], &bytes[48..56], &slot.encode()[..120]].concat();
    assert_eq!(base.bytes(), expected);

    let later = Header { sequence: 43, generation: 3, sessions: [const { None }; SESSIONS], ..example() };
    assert_eq!(later.wrap_context(&slot), base);
    assert_eq!(header.wrap_context(&KeySlot { commitment: [0; 32], wrapped: [0; 48], ..slot.clone() }), base);
    assert_ne!(Header { vault: VaultId([2; 16]), ..example() }.wrap_context(&slot), base);
    assert_ne!(Header { base32_names: false, ..example() }.wrap_context(&slot), base);
    let cheaper = Kdf::Argon2id(KdfCost::new(65536, 2, 4).expect("in bounds"));
    assert_ne!(header.wrap_context(&KeySlot { kdf: cheaper, ..slot }), base);
}

#[test]
fn costs_are_bounded_both_ways() {
    let ok = |m, t, p| KdfCost::new(m, t, p).is_ok();
    assert!(ok(8 << 10, 1, 1) && ok(4 << 20, 4, 16) && ok(256 << 10, 64, 1));
    assert!(!ok((8 << 10) - 1, 1, 1) && !ok((4 << 20) + 1, 1, 1));
    assert!(!ok(8 << 10, 0, 1) && !ok(8 << 10, 65, 1));
    assert!(!ok(8 << 10, 1, 0) && !ok(8 << 10, 1, 17));
    assert!(!ok(4 << 20, 5, 1), "memory times passes");
}

#[test]
fn labels_fit_64_bytes_of_utf_8_without_control_characters() {
    assert!(Label::new(&"a".repeat(64)).is_ok());
    assert!(Label::new(&"a".repeat(65)).is_err());
    assert!(Label::new("a\nb").is_err() && Label::new("a\0").is_err());
    assert_eq!(Label::lossy("a\nb").as_str(), "ab");
    assert_eq!(Label::lossy(&"ä".repeat(40)).as_str(), "ä".repeat(32));
    assert_eq!(Label::lossy(&format!("{}ä", "a".repeat(63))).as_str(), "a".repeat(63));
}

proptest! {
    #[test]
    fn changed_headers_decode_to_themselves_or_not_at_all(
        changes in proptest::collection::vec((0usize..8200, 0u8..6), 1..3),
    ) {
        let mut bytes = example().encode();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(header) = Header::decode(&bytes[..]) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn arbitrary_slots_and_sessions_never_panic(bytes in proptest::collection::vec(any::<u8>(), 512)) {
        let _ = Slot::decode(&bytes);
        let _ = Session::decode(&bytes[..96]);
        let _ = Header::decode(&bytes);
    }
}
