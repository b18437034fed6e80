//! Key slots through the public interface: what opens, what does not, and
//! which error says why.

use strongroom_format::FormatError;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{Kdf, KdfCost, KeySlot, Label, Slot, SlotKind};
use strongroom_format::vault::{Suite, VERSION};
use strongroom_keys::recovery::RecoveryKey;
use strongroom_keys::secret::SecretBytes;
use strongroom_keys::slots::{
    Credential, KeyFile, KeyFileEmpty, NewVault, SlotError, SlotOptions, add_slot, change_slot,
    create_header, list_slots, remove_slot, seal_header, verify_header,
};
use strongroom_keys::unlock::{Damage, UnlockError, trial_work, unlock, unlock_copies};
use strongroom_keys::{DataKeys, PasswordAndKeyFile, RootKey};
use strongroom_units::BlockSize;

fn password(text: &str) -> Credential {
    Credential::Password(SecretBytes::take_string(text.to_owned()))
}

fn key_file(byte: u8) -> Credential {
    Credential::KeyFile(KeyFile::from_content(&[byte; 32]).expect("not empty"))
}

fn both(text: &str, byte: u8) -> Credential {
    let file = KeyFile::from_content(&[byte; 32]).expect("not empty");
    let password = SecretBytes::take_string(text.to_owned());
    Credential::PasswordAndKeyFile(PasswordAndKeyFile::new(&password, &file))
}

fn slot_mut(header: &mut Header, index: usize) -> &mut KeySlot {
    match &mut header.slots[index] {
        Some(Slot::Known(slot)) => slot,
        other => panic!("{other:?}"),
    }
}

/// The least cost that the format allows, so that tests are quick.
fn options(label: &str) -> SlotOptions {
    let cost = KdfCost::new(KdfCost::MEMORY_MIN, 1, 1).expect("in bounds");
    SlotOptions { label: Label::new(label).expect("short"), created: 5, cost }
}

fn vault() -> (Header, RootKey) {
    let new =
        NewVault { suite: Suite::Xaes256Gcm, block_size: BlockSize::MIN, base32_names: false, created: 4 };
    create_header(&new, &password("first"), &options("mine")).expect("memory and entropy")
}

/// Root keys are equal when the same keys come from them.
fn same(header: &Header, a: &RootKey, b: &RootKey) -> bool {
    DataKeys::derive(a, header.vault, 1).blocks() == DataKeys::derive(b, header.vault, 1).blocks()
}

fn error(result: Result<RootKey, UnlockError>) -> Option<UnlockError> {
    result.err()
}

#[test]
fn a_new_vault_opens_with_its_password_alone() {
    let (header, root) = vault();
    assert_eq!(Header::decode(&header.encode()[..]), Ok(header.clone()));
    let opened = unlock(&header, &password("first")).expect("the right password");
    assert!(same(&header, &opened, &root));
    assert_eq!(error(unlock(&header, &password("First"))), Some(UnlockError::WrongSecret));
    assert_eq!(error(unlock(&header, &password(""))), Some(UnlockError::WrongSecret));
    assert_eq!(error(unlock(&header, &key_file(1))), Some(UnlockError::NoSlot(SlotKind::KeyFile)));
}

#[test]
fn every_kind_of_slot_opens_the_same_vault() {
    let (mut header, root) = vault();
    let printed = RecoveryKey::random().expect("entropy");
    let text = printed.to_text();
    add_slot(&mut header, &root, &key_file(1), &options("usb")).expect("room");
    add_slot(&mut header, &root, &Credential::Recovery(printed), &options("paper")).expect("room");
    add_slot(&mut header, &root, &password("second"), &options("hers")).expect("room");
    add_slot(&mut header, &root, &both("second", 9), &options("two factors")).expect("room");
    let typed = Credential::Recovery(RecoveryKey::parse(text.expose()).expect("as printed"));
    for credential in [password("first"), key_file(1), typed, password("second"), both("second", 9)] {
        let opened = unlock(&header, &credential).expect("it has a slot");
        assert!(same(&header, &opened, &root));
    }
    for wrong in [key_file(2), both("second", 8), both("first", 9), both("", 9)] {
        assert_eq!(error(unlock(&header, &wrong)), Some(UnlockError::WrongSecret));
    }
    let labels: Vec<_> = list_slots(&header).map(|(i, slot)| (i, slot.label.as_str())).collect();
    assert_eq!(labels, [(0, "mine"), (1, "usb"), (2, "paper"), (3, "hers"), (4, "two factors")]);
}

#[test]
fn changed_and_removed_slots_open_no_more() {
    let (mut header, root) = vault();
    let sequence = header.sequence;
    change_slot(&mut header, &root, 0, &password("new"), &options("mine")).expect("it is there");
    assert!(header.sequence > sequence && verify_header(&header, &root));
    assert_eq!(error(unlock(&header, &password("first"))), Some(UnlockError::WrongSecret));
    assert!(unlock(&header, &password("new")).is_ok());

    assert_eq!(remove_slot(&mut header, &root, 0), Err(SlotError::Last));
    assert_eq!(remove_slot(&mut header, &root, 1), Err(SlotError::Empty { index: 1 }));
    assert_eq!(remove_slot(&mut header, &root, 12), Err(SlotError::Empty { index: 12 }));
    let index = add_slot(&mut header, &root, &key_file(1), &options("usb")).expect("room");
    assert_eq!(remove_slot(&mut header, &root, 0), Ok(()));
    assert_eq!(error(unlock(&header, &password("new"))), Some(UnlockError::NoSlot(SlotKind::Password)));
    assert!(unlock(&header, &key_file(1)).is_ok());
    assert_eq!(remove_slot(&mut header, &root, index), Err(SlotError::Last));
}

#[test]
fn there_are_twelve_slots() {
    let (mut header, root) = vault();
    for byte in 1..12 {
        add_slot(&mut header, &root, &key_file(byte), &options("")).expect("room");
    }
    let before = header.clone();
    assert_eq!(add_slot(&mut header, &root, &key_file(99), &options("")), Err(SlotError::Full));
    assert_eq!(header, before);
}

#[test]
fn a_changed_header_is_damage_and_not_a_wrong_password() {
    let (header, _) = vault();
    let damaged = |change: &dyn Fn(&mut Header)| {
        let mut changed = header.clone();
        change(&mut changed);
        error(unlock(&changed, &password("first")))
    };
    let slot = |header: &mut Header, change: &dyn Fn(&mut [u8; 48])| {
        change(&mut slot_mut(header, 0).wrapped);
    };
    let (wrap, mac) = (Some(UnlockError::Damaged(Damage::Wrap)), Some(UnlockError::Damaged(Damage::Mac)));
    assert_eq!(damaged(&|h| slot(h, &|wrapped| wrapped[20] ^= 1)), wrap);
    assert_eq!(damaged(&|h| slot_mut(h, 0).created += 1), wrap);
    assert_eq!(damaged(&|h| h.suite = Suite::Aegis256X2), wrap, "a weaker suite cannot be slipped in");
    assert_eq!(damaged(&|h| h.vault.0[0] ^= 1), wrap);
    assert_eq!(damaged(&|h| h.sequence += 1), mac);
    assert_eq!(damaged(&|h| h.mac[0] ^= 1), mac);
    assert_eq!(damaged(&|h| h.generation = 2), mac);
}

#[test]
fn a_slot_of_another_vault_does_not_open_here() {
    let (mut header, _) = vault();
    let (other, _) = vault();
    header.slots = other.slots;
    assert_eq!(error(unlock(&header, &password("first"))), Some(UnlockError::Damaged(Damage::Wrap)));
}

#[test]
fn the_newest_copy_that_verifies_counts() {
    let (older, root) = vault();
    let mut newer = older.clone();
    seal_header(&mut newer, &root);
    let (old, new) = (older.encode(), newer.encode());
    let open = |copies: &[&[u8]]| unlock_copies(copies, &password("first")).map(|(header, _)| header);
    assert_eq!(open(&[&old[..], &new[..]]), Ok(newer.clone()));
    assert_eq!(open(&[&new[..], &old[..]]), Ok(newer.clone()));
    assert_eq!(open(&[&new[..], &new[..]]), Ok(newer));

    for at in [0, 33, 100, 1632 + 130, 1632 + 160, 16383] {
        let mut torn = new.clone();
        torn[at] ^= 0x40;
        assert_eq!(open(&[&torn[..], &old[..]]), Ok(older.clone()), "byte {at}");
    }
    assert_eq!(open(&[&new[..100], &old[..]]), Ok(older.clone()));
    assert_eq!(open(&[&old[..]]), Ok(older));
}

#[test]
fn a_removed_password_does_not_come_back_through_the_older_copy() {
    let (older, root) = vault();
    let mut newer = older.clone();
    change_slot(&mut newer, &root, 0, &password("new"), &options("mine")).expect("it is there");
    let (old, new) = (older.encode(), newer.encode());
    let copies = [&new[..], &old[..]];
    assert_eq!(unlock_copies(&copies, &password("first")).err(), Some(UnlockError::WrongSecret));
    assert_eq!(unlock_copies(&copies, &password("new")).map(|(header, _)| header), Ok(newer));
}

#[test]
fn what_is_wrong_with_all_copies_is_said() {
    let (header, _) = vault();
    let good = header.encode();
    let open = |copies: &[&[u8]]| unlock_copies(copies, &password("first")).err();
    assert_eq!(open(&[]), Some(UnlockError::Damaged(Damage::Missing)));
    let mut newer = good.clone();
    newer[8] = VERSION + 1;
    let unsupported =
        FormatError::Unsupported { field: "vault format version", value: u64::from(VERSION) + 1 };
    assert_eq!(open(&[&newer[..]]), Some(UnlockError::Unsupported(unsupported)));
    assert!(matches!(open(&[&good[1..], b""]), Some(UnlockError::Damaged(Damage::Malformed(_)))));
    let mut costly = good.clone();
    costly[1632 + 4..1632 + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(open(&[&costly[..]]), Some(UnlockError::Damaged(Damage::Malformed(_)))));
}

#[test]
fn key_files_that_could_be_guessed_are_stretched() {
    assert_eq!(KeyFile::from_content(&[]).err(), Some(KeyFileEmpty));
    let kdf = |content: &[u8]| {
        let (mut header, root) = vault();
        let credential = || Credential::KeyFile(KeyFile::from_content(content).expect("not empty"));
        let index = add_slot(&mut header, &root, &credential(), &options("")).expect("room");
        assert!(same(&header, &unlock(&header, &credential()).expect("its slot"), &root));
        slot_mut(&mut header, index).kdf
    };
    assert_eq!(kdf(&[0x80; 32]), Kdf::Hkdf);
    let guessable: [&[u8]; 4] = [b"x", b"a password of thirty-two letters", &[0x80; 31], &[0x80; 64]];
    for content in guessable {
        assert_eq!(kdf(content), Kdf::Argon2id(options("").cost), "{content:?}");
    }
}

#[test]
fn the_work_of_all_slots_and_copies_counts_and_of_equal_ones_once() {
    let (one, root) = vault();
    let each = u64::from(KdfCost::MEMORY_MIN);
    let work = |headers: &[Header]| trial_work(headers, SlotKind::Password);
    assert_eq!(work(&[]), 0);
    assert_eq!(work(&[one.clone(), one.clone()]), each);
    let mut two = one.clone();
    add_slot(&mut two, &root, &password("second"), &options("")).expect("room");
    add_slot(&mut two, &root, &key_file(1), &options("")).expect("room");
    assert_eq!(work(&[one.clone(), two.clone()]), 2 * each);
    let mut other = one.clone();
    change_slot(&mut other, &root, 0, &password("third"), &options("")).expect("it is there");
    assert_eq!(work(&[other, two]), 3 * each);
    assert_eq!(trial_work(&[one], SlotKind::Recovery), 0);
}

#[test]
fn a_slot_that_only_a_later_program_opens_is_no_way_in() {
    let (header, root) = vault();
    let mut bytes = header.encode();
    bytes[1632 + 512] = 6;
    let mut header = Header::decode(&bytes[..]).expect("kept");
    seal_header(&mut header, &root);
    assert!(unlock(&header, &password("first")).is_ok());
    assert_eq!(remove_slot(&mut header, &root, 0), Err(SlotError::Last), "it alone would open nothing here");
    let added = add_slot(&mut header, &root, &key_file(1), &options("")).expect("room");
    assert_eq!(added, 2, "its place is taken");
    assert_eq!(remove_slot(&mut header, &root, 1), Ok(()));
}
