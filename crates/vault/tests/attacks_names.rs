//! Attacks on names, directory records, attributes and the vault header.

mod attack_model;
mod support;

use std::sync::Arc;

use attack_model::{Resting, content, stored_entries};
use strongroom_format::vault::Suite;
use strongroom_format::vault::names::{NameEncoding, StoredName};
use strongroom_keys::unlock_copies;
use strongroom_store::{Access, Kind, NodeRef, RenameMode, Store, XattrMode};
use strongroom_vault::namespace::ROOT;
use strongroom_vault::{Damage, Error, OpenOptions, Vault, read_header_copies};
use support::{CREATION, options};

/// Every string that differs from `text` in one character at or behind `from`.
fn variants(text: &[u8], from: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
    (from..text.len()).map(|at| {
        let mut other = text.to_vec();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        other
    })
}

fn is_name_damage<T: std::fmt::Debug>(result: &strongroom_vault::Result<T>) -> bool {
    matches!(result, Err(Error::Damaged(Damage::Name(_))))
}

#[test]
fn a_changed_name_is_left_out_and_reported() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("a file", content(1, 10)), ("b", content(2, 10))]);
    let root = resting.store.root();
    let stored = resting.stored_name("a file");
    for other in variants(&stored, 0) {
        root.rename(&stored, &*root, &other, RenameMode::Replace).unwrap();
        let mounted = resting.mount();
        assert_eq!(mounted.names(ROOT).unwrap(), ["b"]);
        assert_eq!(mounted.reports().len(), 1, "somebody is told");
        assert!(mounted.find("a file").unwrap_err().is_not_found());
        root.rename(&other, &*root, &stored, RenameMode::Replace).unwrap();
    }
    assert_eq!(resting.mount().names(ROOT).unwrap(), ["a file", "b"]);
}

/// A vault with two directories, each with one file of the same name.
fn two_directories() -> (Resting, [NodeRef; 2]) {
    let resting = Resting::with(Suite::Xaes256Gcm, &[]);
    resting.change(|vault| {
        for name in [&b"one"[..], b"two"] {
            let made = vault.namespace().make_directory(ROOT, name, &CREATION).unwrap();
            let (entry, content) = vault.namespace().create(made.number, b"f", &CREATION, writing()).unwrap();
            support::write(&content, 0, name).unwrap();
            drop(content);
            vault.namespace().release(entry.number);
        }
    });
    let nodes = ["one", "two"].map(|name| resting.store.root().lookup(&resting.stored_name(name)).unwrap());
    (resting, nodes)
}

fn writing() -> strongroom_vault::namespace::Opening {
    strongroom_vault::namespace::Opening { write: true, ..Default::default() }
}

/// The directory that holds a directory's record, and the names in it.
fn record(directory: &NodeRef) -> (NodeRef, Vec<Vec<u8>>) {
    let record = directory.lookup(b".id").unwrap();
    let names = record.entries().unwrap().into_iter().map(|entry| entry.name).collect();
    (record, names)
}

#[test]
fn a_changed_directory_record_is_an_error() {
    let (resting, [one, two]) = two_directories();
    let (held, names) = record(&one);
    let [name] = &names[..] else { panic!("one home") };
    for other in variants(name, 0) {
        held.rename(name, &*held, &other, RenameMode::Replace).unwrap();
        let mounted = resting.mount();
        let number = mounted.find("one").unwrap().number;
        assert!(is_name_damage(&mounted.names(number)), "{}", String::from_utf8_lossy(&other));
        assert!(is_name_damage(&mounted.find("one/f")));
        held.rename(&other, &*held, name, RenameMode::Replace).unwrap();
    }
    // Names that are nobody's, as synchronisation programs leave them, change
    // nothing.
    let copy = [&name[..], b" (conflicted copy 2026-01-01)"].concat();
    held.create(&copy, 0o600).unwrap();
    assert!(resting.mount().find("one/f").is_ok());
    held.remove(&copy).unwrap();
    // Another directory's record is genuine, and says that it belongs elsewhere.
    held.remove(name).unwrap();
    held.create(&record(&two).1[0], 0o600).unwrap();
    let mounted = resting.mount();
    assert_eq!(mounted.find("one/f").unwrap_err(), Error::Damaged(Damage::Home));
    held.remove(&record(&two).1[0]).unwrap();
    assert!(is_name_damage(&resting.mount().find("one/f")), "empty");
    one.remove_directory(b".id").unwrap();
    assert!(is_name_damage(&resting.mount().find("one/f")), "gone");
    one.make_symlink(b".id", b"1whatever").unwrap();
    assert!(is_name_damage(&resting.mount().find("one/f")), "a symlink");
}

#[test]
fn directories_exchanged_or_moved_do_not_open() {
    let (resting, [_, two]) = two_directories();
    let root = resting.store.root();
    let [first, second] = ["one", "two"].map(|name| resting.stored_name(name));
    root.rename(&first, &*root, &second, RenameMode::Exchange).unwrap();
    let mounted = resting.mount();
    for name in ["one", "two"] {
        let number = mounted.find(name).unwrap().number;
        assert_eq!(mounted.names(number).unwrap_err(), Error::Damaged(Damage::Home), "{name}");
        assert_eq!(mounted.find(&format!("{name}/f")).unwrap_err(), Error::Damaged(Damage::Home));
    }
    root.rename(&first, &*root, &second, RenameMode::Exchange).unwrap();
    assert!(resting.mount().find("one/f").is_ok());
    // Under a name that it had, and has no more.
    resting.change(|vault| {
        vault.namespace().rename(ROOT, b"two", ROOT, b"three", RenameMode::Replace).unwrap();
    });
    assert_eq!(record(&two).1.len(), 1, "the home before is forgotten");
    assert!(resting.mount().find("three/f").is_ok());
    root.rename(&resting.stored_name("three"), &*root, &second, RenameMode::Replace).unwrap();
    assert_eq!(resting.mount().find("two/f").unwrap_err(), Error::Damaged(Damage::Home));
}

#[test]
fn two_homes_of_one_id_are_both_right() {
    let (resting, [one, _]) = two_directories();
    let (held, _) = record(&one);
    let before = record(&one).1[0].clone();
    resting.change(|vault| {
        vault.namespace().rename(ROOT, b"one", ROOT, b"three", RenameMode::Replace).unwrap();
    });
    held.create(&before, 0o600).unwrap();
    assert!(resting.mount().find("three/f").is_ok());
    resting.change(|vault| {
        let number = vault.namespace().lookup(ROOT, b"three").unwrap().number;
        vault.namespace().lookup(number, b"f").unwrap();
        vault.sync().unwrap();
    });
    assert_eq!(record(&one).1.len(), 1, "a mount for writing removes what a crash has left");
}

/// Two machines have made the same directory, and a synchronisation program
/// has put both into one.
#[test]
fn of_two_ids_one_is_taken_by_all() {
    let (resting, [one, _]) = two_directories();
    let (held, names) = record(&one);
    assert_eq!(names.len(), 1);
    // Made as `one` by another machine: its record under this name.
    let other = resting.copy();
    other.change(|vault| {
        let names = vault.namespace();
        let number = names.lookup(ROOT, b"one").unwrap().number;
        names.remove(number, b"f").unwrap();
        names.remove_directory(ROOT, b"one").unwrap();
        names.make_directory(ROOT, b"one", &CREATION).unwrap();
    });
    let made = other.store.root().lookup(&other.stored_name("one")).unwrap();
    let theirs = record(&made).1[0].clone();
    held.create(&theirs, 0o600).unwrap();
    let mounted = resting.mount();
    let number = mounted.find("one").unwrap().number;
    let listed = mounted.names(number).unwrap();
    let bytes = |name: &[u8]| match NameEncoding::Base64Url.parse(name) {
        Ok(StoredName::Short(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    let ours = bytes(&names[0]) < bytes(&theirs);
    assert_eq!(listed.len(), usize::from(ours), "the lower id is taken: names of the other do not open");
    assert_eq!(mounted.reports().len(), usize::from(!ours));
}

#[test]
fn entries_exchanged_between_directories_do_not_open() {
    let (resting, [one, two]) = two_directories();
    let [first, second] = [&one, &two].map(|node| stored_entries(node, Kind::File).remove(0));
    // Under the stored names that they had: sealed for the other directory.
    one.rename(&first, &*two, &first, RenameMode::Replace).unwrap();
    two.rename(&second, &*one, &second, RenameMode::Replace).unwrap();
    let mounted = resting.mount();
    for name in ["one", "two"] {
        let number = mounted.find(name).unwrap().number;
        assert_eq!(mounted.names(number).unwrap(), Vec::<String>::new());
        assert!(mounted.find(&format!("{name}/f")).unwrap_err().is_not_found());
    }
    assert_eq!(mounted.reports().len(), 2);
    // Under the names that belong there: the files are bound to their homes.
    two.rename(&first, &*two, &second, RenameMode::Replace).unwrap();
    one.rename(&second, &*one, &first, RenameMode::Replace).unwrap();
    let mounted = resting.mount();
    for name in ["one/f", "two/f"] {
        assert_eq!(mounted.look(name).unwrap_err(), Error::Damaged(Damage::Home));
    }
}

#[test]
fn attributes_changed_or_moved_are_errors() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 10)), ("g", content(2, 10))]);
    let set = |file: &[u8], name: &[u8], value: &[u8]| {
        resting.change(|vault| {
            let names = vault.namespace();
            let number = names.lookup(ROOT, file).unwrap().number;
            names.set_xattr(number, name, value, XattrMode::Any, false).unwrap();
        });
    };
    set(b"f", b"user.one", b"first value");
    set(b"g", b"user.one", b"first value");
    let (f, g) = (resting.node("f"), resting.node("g"));
    let [one, on_g] = [&f, &g].map(|node| node.xattr_names().unwrap().remove(0));
    assert_ne!(one, on_g, "equal names do not show");
    set(b"f", b"user.two", b"other value");
    let two = f.xattr_names().unwrap().into_iter().find(|name| *name != one).unwrap();
    let value = |file: &str, name: &[u8]| {
        let mounted = resting.mount();
        let number = mounted.find(file).unwrap().number;
        mounted.vault.namespace().xattr(number, name)
    };
    let right = f.xattr(&one).unwrap();
    for at in 0..right.len() {
        let mut other = right.clone();
        other[at] ^= 1 << (at % 8);
        f.set_xattr(&one, &other, XattrMode::Any).unwrap();
        assert!(is_name_damage(&value("f", b"user.one")), "byte {at}");
    }
    for len in 0..right.len() {
        f.set_xattr(&one, &right[..len], XattrMode::Any).unwrap();
        assert!(is_name_damage(&value("f", b"user.one")), "length {len}");
    }
    f.set_xattr(&one, &g.xattr(&on_g).unwrap(), XattrMode::Any).unwrap();
    assert!(is_name_damage(&value("f", b"user.one")), "the value of another file");
    f.set_xattr(&one, &f.xattr(&two).unwrap(), XattrMode::Any).unwrap();
    assert!(is_name_damage(&value("f", b"user.one")), "the value of another name");
    f.set_xattr(&one, &right, XattrMode::Any).unwrap();
    assert_eq!(value("f", b"user.one").unwrap(), b"first value");
    // A name that does not open is none.
    let number = |mounted: &attack_model::Mounted| mounted.find("f").unwrap().number;
    f.remove_xattr(&two).unwrap();
    for other in variants(&one, b"user.strongroom.".len()) {
        f.remove_xattr(&one).unwrap();
        f.set_xattr(&other, &right, XattrMode::Any).unwrap();
        let mounted = resting.mount();
        let listed = mounted.vault.namespace().xattr_names(number(&mounted));
        assert!(listed.map_or(true, |names| names.is_empty()), "a forged name is listed");
        f.remove_xattr(&other).unwrap();
        f.set_xattr(&one, &right, XattrMode::Any).unwrap();
    }
}

#[test]
fn a_changed_vault_header_opens_from_the_other_copy_or_not_at_all() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 10))]);
    let copies = read_header_copies(&resting.store).unwrap().map(Option::unwrap);
    let (right, _) = unlock_copies(&[&copies[0], &copies[1]], &support::credential()).unwrap();
    for at in 0..copies[0].len() {
        let flipped = |copy: &Vec<u8>| {
            let mut bytes = copy.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        };
        let [first, second] = [flipped(&copies[0]), flipped(&copies[1])];
        for (zero, one) in [(&first, &copies[1]), (&copies[0], &second)] {
            let (header, _) = unlock_copies(&[zero, one], &support::credential())
                .unwrap_or_else(|error| panic!("byte {at} of one copy: {error}"));
            assert_eq!(header.encode(), right.encode(), "byte {at} of one copy");
        }
        let both = unlock_copies(&[&first, &second], &support::credential());
        assert!(both.is_err(), "byte {at} of both copies");
    }
}

#[test]
fn a_missing_cut_or_older_header_copy_is_made_up_for_by_the_other() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 10))]);
    let older = read_header_copies(&resting.store).unwrap()[0].clone().unwrap();
    resting.change(|_| {});
    let private = resting.store.root().lookup(b".strongroom").unwrap();
    for name in [&b"header.0"[..], b"header.1"] {
        let file = private.lookup(name).unwrap().open(Access::ReadWrite).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        for len in [0, 1, 4096, bytes.len() as u64 - 1, bytes.len() as u64 + 1] {
            file.set_len(len).unwrap();
            resting.mount().demand_whole("f", &resting.files["f"]);
            file.set_len(0).unwrap();
            file.write_at(&bytes, 0).unwrap();
        }
        file.write_at(&older, 0).unwrap();
        assert_eq!(resting.mount().vault.header().sequence, {
            let (header, _) = support::unlock(&resting.store);
            header.sequence
        });
        assert_ne!(support::unlock(&resting.store).0.encode()[..], older[..], "the older copy is not used");
        file.write_at(&bytes, 0).unwrap();
        private.remove(name).unwrap();
        resting.mount().demand_whole("f", &resting.files["f"]);
        let (_, anew) = private.create(name, 0o600).unwrap();
        anew.write_at(&bytes, 0).unwrap();
    }
    for name in [&b"header.0"[..], b"header.1"] {
        private.lookup(name).unwrap().open(Access::ReadWrite).unwrap().set_len(0).unwrap();
    }
    let copies = read_header_copies(&resting.store).unwrap();
    let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
    assert!(unlock_copies(&copies, &support::credential()).is_err());
}

#[test]
fn another_vaults_header_or_file_does_not_open_here() {
    let ours = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 10))]);
    let theirs = Resting::with(Suite::Xaes256Gcm, &[("f", content(2, 10))]);
    ours.file("f").replace(&theirs.file("f").bytes());
    assert!(matches!(ours.mount().look("f"), Err(Error::Damaged(Damage::Page(_)))));
    let (header, _) = support::unlock(&theirs.store);
    let (_, root) = support::unlock(&ours.store);
    // The right secret with a foreign header gives keys that open nothing.
    let store: Arc<dyn Store> = Arc::new(ours.store.clone());
    let read_only = OpenOptions { writable: false, ..options() };
    let vault = Vault::open(store, support::engine(), header, root, &read_only).unwrap();
    assert!(vault.namespace().lookup(ROOT, b"f").unwrap_err().is_not_found());
}

/// A session that is listed has a journal: without it, or with nothing in it
/// that opens, what it said would be lost silently.
#[test]
fn a_journal_that_was_deleted_is_damage() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 20_000))]);
    let shared: Arc<dyn Store> = Arc::new(resting.store.clone());
    let options = OpenOptions { journal_len: 1 << 20, ..options() };
    support::open_with(shared, support::engine(), &options).unwrap().abandon();
    type Attack = fn(&dyn strongroom_store::Node, &[u8], &[u8]);
    let attacks: [Attack; 4] = [
        |private, first, _| private.remove(first).unwrap(),
        |private, _, second| private.remove(second).unwrap(),
        |private, first, second| {
            private.remove(first).unwrap();
            private.remove(second).unwrap();
        },
        |private, first, second| {
            for name in [first, second] {
                let file = private.lookup(name).unwrap().open(Access::ReadWrite).unwrap();
                file.write_at(&[0; 4096], 0).unwrap();
            }
        },
    ];
    for attack in attacks {
        let store = resting.store.snapshot();
        let private = store.root().lookup(b".strongroom").unwrap();
        let mut journal: Vec<_> = private.entries().unwrap().into_iter().map(|entry| entry.name).collect();
        journal.retain(|name| name.starts_with(b"journal."));
        journal.sort();
        let [first, second] = &journal[..] else { panic!("two segments") };
        attack(&*private, first, second);
        for writable in [false, true] {
            let (header, root) = support::unlock(&store);
            let options = OpenOptions { writable, ..options.clone() };
            let shared: Arc<dyn Store> = Arc::new(store.clone());
            let opened = Vault::open(shared, support::engine(), header, root, &options);
            assert!(matches!(opened.map(drop), Err(Error::Damaged(Damage::Journal(_)))));
        }
        // Its owner can give it up.
        let (header, root) = support::unlock(&store);
        let shared: Arc<dyn Store> = Arc::new(store);
        let giving_up = OpenOptions { damaged_journals: true, ..options.clone() };
        let vault = Vault::open(Arc::clone(&shared), support::engine(), header, root, &giving_up).unwrap();
        assert_eq!(vault.damage().len(), 1);
        vault.settle().unwrap();
        vault.close().unwrap();
        support::open_with(shared, support::engine(), &options).unwrap().close().unwrap();
    }
}

/// The journal of a crashed session: what is flipped in it is not replayed.
#[test]
fn a_changed_journal_gives_nothing_but_what_was_durable() {
    let mut resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 20_000))]);
    let store: Arc<dyn Store> = Arc::new(resting.store.clone());
    let options = OpenOptions { journal_len: 1 << 20, ..options() };
    let vault = support::open_with(store, support::engine(), &options).unwrap();
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let open = vault.namespace().open(entry.number, writing()).unwrap();
    let mut states = vec![content(1, 20_000)];
    for round in 0..3u8 {
        let mut next = states.last().unwrap().clone();
        next[4096..8192].fill(0x80 + round);
        support::write(&open, 4096, &next[4096..8192]).unwrap();
        open.sync().unwrap();
        states.push(next);
    }
    vault.abandon();
    drop((open, vault));
    let newest = states.last().unwrap().clone();
    resting.files.insert("f", newest.clone());
    resting.mount().demand_whole("f", &newest);
    let private = resting.store.root().lookup(b".strongroom").unwrap();
    let mut journal = private.entries().unwrap().into_iter().map(|entry| entry.name);
    let journal = journal.find(|name| name.starts_with(b"journal.") && name.ends_with(b".0")).unwrap();
    let file = attack_model::Stored(private.lookup(&journal).unwrap().open(Access::ReadWrite).unwrap());
    // Slots that are used: header, and for each round an image of a block,
    // the header page and the record.
    for at in (0..16 * 4096).step_by(61) {
        file.flip(at);
        let (header, root) = support::unlock(&resting.store);
        let store: Arc<dyn Store> = Arc::new(resting.store.clone());
        let read_only = OpenOptions { writable: false, ..options.clone() };
        let opened = Vault::open(store, support::engine(), header, root, &read_only);
        match opened {
            Err(Error::Damaged(Damage::Journal(_))) => {}
            Err(error) => panic!("byte {at}: {error}"),
            Ok(_) => match resting.mount().look("f") {
                Err(Error::Damaged(_)) => {}
                Err(error) => panic!("byte {at}: {error}"),
                Ok(seen) => match seen.whole {
                    Ok(bytes) => assert!(states.contains(&bytes), "byte {at}: never written"),
                    Err(error) => assert!(matches!(error, Error::Damaged(_)), "byte {at}: {error}"),
                },
            },
        }
        file.flip(at);
    }
}
