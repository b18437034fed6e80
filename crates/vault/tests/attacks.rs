//! Attacks on stored contents: bytes flipped, moved, zeroed, cut, and put back
//! from an earlier time. Nothing gives wrong data.

mod attack_model;
mod support;

use attack_model::{BLOCK, Resting, content, geometry, node_at};
use strongroom_format::vault::{PageKind, Suite};
use strongroom_store::{RenameMode, Store};
use strongroom_vault::namespace::ROOT;
use strongroom_vault::{Damage, Error};
use support::{create_file, options, write};

/// Two groups: header, 128 blocks, map 0, node 1, 3 blocks, the last one partial.
const TWO_GROUPS: usize = 130 * BLOCK + 1000;

/// Stored units of such a file that attacks are made on, by offset.
fn units() -> Vec<u64> {
    let block = |index| geometry().block_offset(strongroom_units::BlockIndex(index)).0;
    vec![0, block(0), block(1), block(64), block(127), node_at(1), block(128), block(129)]
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_file_is_an_error() {
    for suite in Suite::ALL {
        let right = content(1, 5000);
        let resting = Resting::with(suite, &[("f", right.clone())]);
        let (file, mounted) = (resting.file("f"), resting.mount());
        mounted.demand_whole("f", &right);
        let first = BLOCK as u64;
        for at in 0..file.len() {
            file.flip(at);
            mounted.demand_damage("f", &right, &format!("{suite:?}, byte {at}"));
            match mounted.look("f") {
                Err(Error::Damaged(Damage::Page(_))) => assert!(at < first, "byte {at} is a block's"),
                Ok(seen) => {
                    assert!(at >= first, "byte {at} is the header page's");
                    let damaged = usize::from(at >= 2 * first);
                    assert!(seen.blocks[damaged].is_err() && seen.blocks[1 - damaged].is_ok());
                }
                Err(error) => panic!("byte {at}: {error}"),
            }
            file.flip(at);
        }
        mounted.demand_whole("f", &right);
    }
}

#[test]
fn a_flipped_bit_in_a_node_page_is_an_error() {
    for suite in Suite::ALL {
        let right = content(2, TWO_GROUPS);
        let resting = Resting::with(suite, &[("f", right.clone())]);
        let (file, mounted) = (resting.file("f"), resting.mount());
        // Every byte of the clear part and the table, every fifth behind.
        for at in (0..300).chain((300..BLOCK as u64).step_by(5)).map(|at| node_at(1) + at) {
            file.flip(at);
            mounted.demand_damage("f", &right, &format!("{suite:?}, byte {at}"));
            file.flip(at);
        }
        mounted.demand_whole("f", &right);
    }
}

#[test]
fn a_flipped_bit_in_a_map_is_an_error_and_never_a_hole() {
    for suite in Suite::ALL {
        let resting = Resting::with(suite, &[]);
        let far = 512 * 128 * BLOCK as u64;
        resting.change(|vault| {
            let (_, content) = create_file(vault.namespace(), "f");
            write(&content, 0, &[1; 100]).unwrap();
            write(&content, far, &[2; 100]).unwrap();
        });
        let (file, mounted) = (resting.file("f"), resting.mount());
        let number = mounted.find("f").unwrap().number;
        let names = mounted.vault.namespace();
        let middle = geometry().page_offset(PageKind::MiddleMap, 0).0;
        let map = geometry().page_offset(PageKind::Map, 1).0;
        for (page, name) in [(middle, "middle map"), (map, "map"), (node_at(512), "node")] {
            for at in (page..page + 80).chain((page + 80..page + BLOCK as u64).step_by(9)) {
                file.flip(at);
                let content = names.open(number, Default::default()).unwrap();
                let read = support::read(&content, far, 100);
                assert!(matches!(read, Err(Error::Damaged(_))), "{name}, byte {at}: {read:?}");
                assert_eq!(support::read(&content, 0, 100).unwrap(), [1; 100]);
                assert_ne!(content.verify(&mut |_| {}).unwrap().damage, []);
                drop(content);
                names.release(number);
                file.flip(at);
            }
        }
        let content = names.open(number, Default::default()).unwrap();
        assert_eq!(support::read(&content, far, 100).unwrap(), [2; 100]);
        assert_eq!(support::read(&content, far / 2, 100).unwrap(), [0; 100], "a hole that is one");
    }
}

#[test]
fn pages_and_blocks_in_each_others_places_are_errors() {
    for suite in Suite::ALL {
        let right = content(3, TWO_GROUPS);
        let resting = Resting::with(suite, &[("f", right.clone())]);
        let (file, mounted) = (resting.file("f"), resting.mount());
        for &one in &units() {
            for &other in units().iter().filter(|&&other| other != one) {
                let (a, b) = (file.part(one, BLOCK), file.part(other, BLOCK));
                file.put(one, &b);
                mounted.demand_damage("f", &right, &format!("{other} copied to {one}"));
                file.put(other, &a);
                mounted.demand_damage("f", &right, &format!("{one} and {other} swapped"));
                file.put(one, &a);
                file.put(other, &b);
            }
        }
        mounted.demand_whole("f", &right);
    }
}

#[test]
fn pages_and_blocks_of_another_file_are_errors() {
    for suite in Suite::ALL {
        let (right, other) = (content(4, TWO_GROUPS), content(5, TWO_GROUPS));
        let resting = Resting::with(suite, &[("f", right.clone()), ("g", other.clone())]);
        let (file, from, mounted) = (resting.file("f"), resting.file("g"), resting.mount());
        for &at in &units() {
            for &source in &units() {
                let before = file.part(at, BLOCK);
                file.put(at, &from.part(source, BLOCK));
                mounted.demand_damage("f", &right, &format!("{source} of another file at {at}"));
                file.put(at, &before);
            }
        }
        // A whole group, page and blocks, of another file.
        let tail = (file.len() - node_at(1)) as usize;
        let before = file.part(node_at(1), tail);
        file.put(node_at(1), &from.part(node_at(1), tail));
        mounted.demand_damage("f", &right, "another file's group");
        file.put(node_at(1), &before);
        mounted.demand_whole("f", &right);
        mounted.demand_whole("g", &other);
    }
}

#[test]
fn zeros_and_punched_holes_are_errors() {
    for suite in Suite::ALL {
        let right = content(6, TWO_GROUPS);
        let resting = Resting::with(suite, &[("f", right.clone())]);
        let (file, mounted) = (resting.file("f"), resting.mount());
        let len = file.len();
        let mut ranges: Vec<(u64, u64)> = units().into_iter().map(|at| (at, BLOCK as u64)).collect();
        ranges.extend([(0, len), (0, node_at(1)), (node_at(1), len), (5 * 4096, 40 * 4096), (100, 512)]);
        for (start, count) in ranges {
            let end = len.min(start + count);
            let before = file.part(start, (end - start) as usize);
            file.put(start, &vec![0; before.len()]);
            mounted.demand_damage("f", &right, &format!("zeros at {start}"));
            file.punch(start, end - start);
            mounted.demand_damage("f", &right, &format!("a hole at {start}"));
            file.put(start, &before);
        }
        mounted.demand_whole("f", &right);
    }
}

#[test]
fn every_other_stored_length_is_an_error_at_open() {
    for suite in Suite::ALL {
        let right = content(7, TWO_GROUPS);
        let resting = Resting::with(suite, &[("f", right), ("empty", Vec::new())]);
        let mounted = resting.mount();
        for name in ["f", "empty"] {
            let file = resting.file(name);
            let bytes = file.bytes();
            let right = bytes.len() as u64;
            let mut lens: Vec<u64> = units().into_iter().chain([right, 2 * 4096, right + 4096]).collect();
            lens = lens.iter().flat_map(|&len| [len.saturating_sub(1), len, len + 1, len + 512]).collect();
            lens.extend([1, 511, 512, 1 << 20, node_at(2), node_at(2) + 5000, node_at(64), 1 << 40]);
            for len in lens.into_iter().filter(|&len| len != right) {
                file.0.set_len(len).unwrap();
                let found = mounted.look(name);
                let damaged = matches!(found, Err(Error::Damaged(_)));
                assert!(damaged, "{name} cut or extended from {right} to {len}: {found:?}");
                file.replace(&bytes);
            }
            assert!(mounted.look(name).is_ok());
        }
    }
}

#[test]
fn a_clean_vault_that_looks_crashed_is_damaged_and_left_alone() {
    type Look = Box<dyn Fn(&attack_model::Stored)>;
    let right = content(8, 3 * BLOCK + 5);
    let base = Resting::with(Suite::Xaes256Gcm, &[("f", right)]);
    let cuts: [u64; 6] = [0, 100, 512, 4095, 2 * 4096, 3 * 4096 + 1];
    let mut looks: Vec<(String, Look)> = Vec::new();
    for cut in cuts {
        looks.push((format!("length {cut}"), Box::new(move |file| file.0.set_len(cut).unwrap())));
    }
    for sector in 0..8 {
        let zero = move |file: &attack_model::Stored| file.put(sector * 512, &[0; 512]);
        looks.push((format!("sector {sector} never written"), Box::new(zero)));
    }
    looks.push(("extended".into(), Box::new(|file| file.0.set_len(file.len() + 4096).unwrap())));
    looks.push(("a torn block".into(), Box::new(|file| file.put(2 * 4096 + 512, &[0; 3584]))));
    for (what, look) in looks {
        let resting = base.copy();
        let file = resting.file("f");
        look(&file);
        let before = file.bytes();
        resting.change(|vault| {
            assert!(!vault.is_settling());
            let names = vault.namespace();
            let read = names
                .lookup(ROOT, b"f")
                .and_then(|entry| names.open(entry.number, Default::default()))
                .and_then(|content| support::read_all(&content));
            assert!(matches!(read, Err(Error::Damaged(_))), "{what}: {read:?}");
            assert!(vault.recovered().is_empty(), "{what} was taken for a crash");
        });
        assert!(file.bytes() == before, "{what}: the evidence was changed");
    }
}

#[test]
fn a_crash_does_not_excuse_damage_of_what_was_synced() {
    type Attack = fn(&attack_model::Stored);
    let right = content(9, TWO_GROUPS);
    let base = Resting::with(Suite::Xaes256Gcm, &[("f", right.clone())]);
    let attacks: [(&str, Attack); 6] = [
        ("a flipped header", |file| file.flip(100)),
        ("a flipped node", |file| file.flip(node_at(1) + 100)),
        ("a flipped block", |file| file.flip(4096 + 77)),
        ("a block of zeros", |file| file.put(2 * 4096, &[0; 4096])),
        ("cut off", |file| file.0.set_len(file.len() - 1).unwrap()),
        ("cut to a group", |file| file.0.set_len(node_at(1)).unwrap()),
    ];
    for (what, attack) in attacks {
        let resting = base.copy();
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(resting.store.clone());
        let vault = support::open_with(store, support::engine(), &options()).unwrap();
        let names = vault.namespace();
        let entry = names.lookup(ROOT, b"f").unwrap();
        drop(names.open(entry.number, Default::default()).unwrap());
        vault.abandon();
        attack(&resting.file("f"));
        let mounted = resting.mount();
        assert!(mounted.vault.is_settling());
        mounted.demand_damage("f", &right, what);
    }
}

#[test]
fn a_file_under_another_name_or_in_another_directory_does_not_open() {
    let resting = Resting::with(Suite::Aegis256X2, &[("f", content(1, 9000)), ("g", content(2, 9000))]);
    let root = resting.store.root();
    let (f, g) = (resting.stored_name("f"), resting.stored_name("g"));
    let mounted = resting.mount();
    root.rename(&f, &*root, &g, RenameMode::Exchange).unwrap();
    for name in ["f", "g"] {
        assert_eq!(mounted.look(name).unwrap_err(), Error::Damaged(Damage::Home), "{name} exchanged");
    }
    root.rename(&g, &*root, &f, RenameMode::Replace).unwrap();
    let mounted = resting.mount();
    mounted.demand_whole("f", &resting.files["f"]);
    assert!(mounted.look("g").unwrap_err().is_not_found(), "what was deleted is missing, and not listed");
    // A copy of a file does not open under another name either.
    let bytes = resting.file("f").bytes();
    let (_, copy) = root.create(&g, 0o600).unwrap();
    copy.write_at(&bytes, 0).unwrap();
    assert_eq!(resting.mount().look("g").unwrap_err(), Error::Damaged(Damage::Home));
}

#[test]
fn an_older_page_with_its_blocks_is_an_error_at_every_read() {
    for suite in Suite::ALL {
        let (old, mut new) = (content(1, TWO_GROUPS), content(1, TWO_GROUPS));
        let resting = Resting::with(suite, &[("f", old)]);
        let file = resting.file("f");
        let before = file.bytes();
        new[129 * BLOCK..130 * BLOCK].fill(9);
        resting.change(|vault| {
            let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
            let writing = strongroom_vault::namespace::Opening { write: true, ..Default::default() };
            let content = vault.namespace().open(entry.number, writing).unwrap();
            write(&content, 129 * BLOCK as u64, &[9; BLOCK]).unwrap();
        });
        let mounted = resting.mount();
        mounted.demand_whole("f", &new);
        // The page alone: its block does not open.
        let after = file.bytes();
        let group = node_at(1) as usize;
        file.put(node_at(1), &before[group..group + BLOCK]);
        mounted.demand_damage("f", &new, "an older page");
        // The block alone.
        file.replace(&after);
        let block = geometry().block_offset(strongroom_units::BlockIndex(129)).0;
        file.put(block, &before[block as usize..block as usize + BLOCK]);
        mounted.demand_damage("f", &new, "an older block");
        // The group as a whole opens, and is older than its map says: each of
        // its blocks is an error by itself.
        file.replace(&after);
        file.put(node_at(1), &before[group..]);
        let seen = mounted.look("f").unwrap();
        assert_ne!(seen.verification.damage, [], "an older group, found by verifying");
        assert!(matches!(seen.whole, Err(Error::Damaged(_))), "an older group, found by a full read");
        let of_group = |block: usize| block >= 128;
        assert!(seen.blocks.iter().enumerate().all(|(block, read)| read.is_err() == of_group(block)));
        // The same with its map.
        let map = geometry().page_offset(PageKind::Map, 0).0;
        file.put(map, &before[map as usize..]);
        let seen = mounted.look("f").unwrap();
        assert!(seen.blocks.iter().enumerate().all(|(block, read)| read.is_err() == of_group(block)));
        // The header page alone.
        file.replace(&after);
        file.put(0, &before[..BLOCK]);
        assert_ne!(resting.mount().look("f").unwrap().verification.damage, [], "an older header page");
    }
}

/// Section 1 of the format aims at finding this by a trusted counter alone.
#[test]
fn a_file_rolled_back_as_a_whole_is_its_older_self() {
    let mut resting = Resting::with(Suite::XChaCha20Poly1305, &[("f", content(1, 9000))]);
    let before = resting.file("f").bytes();
    let stored = resting.stored_name("f");
    resting.put("f", &content(2, 5000));
    assert_eq!(resting.stored_name("f"), stored);
    resting.file("f").replace(&before);
    let seen = resting.mount().look("f").unwrap();
    assert!(seen.whole.unwrap() == content(1, 9000));
    assert_eq!(seen.verification.damage, []);
}

/// What the kernel has cached of a file is of the state that was read last: while
/// it may have something, no other state is shown beside it.
#[test]
fn a_file_put_back_under_a_mount_is_an_error_until_it_is_forgotten() {
    let mut resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, TWO_GROUPS))]);
    let before = resting.file("f").bytes();
    resting.put("f", &content(2, 5000));
    let (file, mounted) = (resting.file("f"), resting.mount());
    let after = file.bytes();
    // Known to the kernel from here on.
    let names = mounted.vault.namespace();
    let entry = names.lookup(ROOT, b"f").unwrap();
    assert!(mounted.look("f").unwrap().whole.unwrap() == content(2, 5000));
    file.replace(&before);
    assert!(matches!(mounted.look("f").err(), Some(Error::Damaged(Damage::Page(_)))));
    file.replace(&after);
    assert!(mounted.look("f").unwrap().whole.unwrap() == content(2, 5000));
    file.replace(&before);
    names.forget(entry.number, 1);
    assert!(mounted.look("f").unwrap().whole.unwrap() == content(1, TWO_GROUPS));
}
