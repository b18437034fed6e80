//! Attacks on special records: symlinks, FIFOs and device nodes changed,
//! exchanged, put back, and put where they do not belong.

mod attack_model;
mod support;

use attack_model::{Resting, content};
use strongroom_format::vault::Suite;
use strongroom_format::vault::special::{BODY_OFFSET, SLOT_OFFSETS};
use strongroom_store::{Access, Kind, NodeRef, RenameMode, Store};
use strongroom_vault::error::errno;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error, Result};
use support::CREATION;

const LONG: usize = 4000;

/// A vault with symlinks of every sort, a FIFO, device nodes and a file.
fn resting() -> Resting {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("file", content(1, 10))]);
    resting.change(|vault| {
        let names = vault.namespace();
        for (name, target) in [
            ("short", b"some/target".to_vec()),
            ("other", b"else/target".to_vec()),
            ("long", vec![b'x'; LONG]),
            ("longer", vec![b'y'; LONG]),
        ] {
            names.make_symlink(ROOT, name.as_bytes(), &target, &CREATION).unwrap();
        }
        for (name, kind, device) in [
            ("fifo", Kind::Fifo, 0),
            ("null", Kind::CharacterDevice, 0x103),
            ("disk", Kind::BlockDevice, 0x800),
        ] {
            names.make_special(ROOT, name.as_bytes(), kind, device, &CREATION).unwrap();
        }
    });
    resting
}

fn target(resting: &Resting, name: &str) -> Result<Vec<u8>> {
    let mounted = resting.mount();
    let number = mounted.find(name)?.number;
    mounted.vault.namespace().read_link(number)
}

/// What a name is: its kind and device number; an error when it is a file that
/// does not open.
fn sort(resting: &Resting, name: &str) -> Result<(Kind, u64)> {
    let mounted = resting.mount();
    let found = mounted.find(name)?.attributes;
    if found.kind == Kind::File {
        let number = mounted.find(name)?.number;
        mounted.vault.namespace().open(number, Opening::default())?;
    }
    Ok((found.kind, found.device))
}

fn is_damage<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Damaged(Damage::Name(_) | Damage::Home)))
}

fn bytes(node: &NodeRef) -> Vec<u8> {
    let file = node.open(Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn put(node: &NodeRef, bytes: &[u8]) {
    let file = node.open(Access::ReadWrite).unwrap();
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

fn links(resting: &Resting) -> NodeRef {
    resting.store.root().lookup(b".strongroom").unwrap().lookup(b"links").unwrap()
}

#[test]
fn every_changed_byte_of_a_record_is_an_error() {
    let resting = resting();
    for (name, whole) in [("short", (Kind::Symlink, 0)), ("null", (Kind::CharacterDevice, 0x103))] {
        let node = resting.node(name);
        let record = bytes(&node);
        // The second slot was never written, and changing it changes nothing.
        let free = SLOT_OFFSETS[1]..BODY_OFFSET;
        for at in (0..record.len()).filter(|at| !free.contains(at)) {
            let mut changed = record.clone();
            changed[at] ^= 1;
            put(&node, &changed);
            let found = sort(&resting, name);
            assert!(is_damage(&found), "{name}, byte {at}: {found:?}");
        }
        for len in [1, 39, 40, SLOT_OFFSETS[1], BODY_OFFSET - 1] {
            put(&node, &record[..len]);
            assert!(is_damage(&sort(&resting, name)), "{name}, length {len}");
        }
        put(&node, &[&record[..], b"x"].concat());
        assert!(is_damage(&sort(&resting, name)), "{name}, longer");
        put(&node, &record);
        assert_eq!(sort(&resting, name).unwrap(), whole);
    }
    assert_eq!(target(&resting, "short").unwrap(), b"some/target");
}

#[test]
fn records_exchanged_or_under_another_name_are_errors() {
    let resting = resting();
    let root = resting.store.root();
    for (one, other) in [("short", "other"), ("fifo", "null"), ("null", "disk"), ("short", "file")] {
        let stored = [one, other].map(|name| resting.stored_name(name));
        root.rename(&stored[0], &*root, &stored[1], RenameMode::Exchange).unwrap();
        for name in [one, other] {
            let found = sort(&resting, name);
            assert!(is_damage(&found), "{name}: {found:?}");
        }
        root.rename(&stored[0], &*root, &stored[1], RenameMode::Exchange).unwrap();
    }
    let copy = bytes(&resting.node("null"));
    put(&resting.node("fifo"), &copy);
    assert!(is_damage(&sort(&resting, "fifo")), "a copy under another name");
}

#[test]
fn bodies_are_those_of_their_records() {
    let resting = resting();
    let [short, other] = ["short", "other"].map(|name| resting.node(name));
    let [one, two] = [bytes(&short), bytes(&other)];
    put(&short, &[&one[..BODY_OFFSET], &two[BODY_OFFSET..]].concat());
    assert!(is_damage(&target(&resting, "short")), "the body of another");
    put(&short, &[&two[..BODY_OFFSET], &one[BODY_OFFSET..]].concat());
    assert!(is_damage(&target(&resting, "short")), "the head of another");
    put(&short, &one);

    let links = links(&resting);
    let files: Vec<NodeRef> =
        links.entries().unwrap().iter().map(|entry| links.lookup(&entry.name).unwrap()).collect();
    let [first, second] = [bytes(&files[0]), bytes(&files[1])];
    put(&files[0], &second);
    put(&files[1], &first);
    for name in ["long", "longer"] {
        assert!(is_damage(&target(&resting, name)), "{name}: bodies exchanged");
    }
    for file in &files {
        put(file, &one[BODY_OFFSET..]);
    }
    for name in ["long", "longer"] {
        assert!(is_damage(&target(&resting, name)), "{name}: a sealed short target");
    }
    put(&files[0], &first);
    put(&files[1], &second);
    for at in (0..first.len()).step_by(97) {
        let mut changed = first.clone();
        changed[at] ^= 1;
        put(&files[0], &changed);
        let damaged = ["long", "longer"].into_iter().filter(|name| is_damage(&target(&resting, name)));
        assert_eq!(damaged.count(), 1, "byte {at}");
    }
    put(&files[0], &first);
    assert_eq!(target(&resting, "long").unwrap(), vec![b'x'; LONG]);
    for entry in links.entries().unwrap() {
        links.remove(&entry.name).unwrap();
    }
    let gone = target(&resting, "long");
    assert!(is_damage(&gone), "{gone:?}");
}

#[test]
fn a_record_put_back_opens_under_the_name_it_then_had() {
    let resting = resting();
    let before = bytes(&resting.node("short"));
    let stored = resting.stored_name("short");
    resting.change(|vault| {
        vault.namespace().rename(ROOT, b"short", ROOT, b"renamed", RenameMode::Replace).unwrap();
        vault.namespace().rename(ROOT, b"renamed", ROOT, b"again", RenameMode::Replace).unwrap();
    });
    assert_eq!(target(&resting, "again").unwrap(), b"some/target");
    let node = resting.node("again");
    let after = bytes(&node);
    put(&node, &before);
    assert!(is_damage(&target(&resting, "again")), "an older record under a newer name");
    // Each slot alone is a state that it had.
    let mut mixed = after.clone();
    mixed[..BODY_OFFSET].copy_from_slice(&before[..BODY_OFFSET]);
    put(&node, &mixed);
    assert!(is_damage(&target(&resting, "again")), "mixed");
    put(&node, &after);
    let root = resting.store.root();
    let now = resting.stored_name("again");
    root.rename(&now, &*root, &stored, RenameMode::Replace).unwrap();
    assert!(is_damage(&target(&resting, "short")), "a newer record under an older name");
    put(&root.lookup(&stored).unwrap(), &before);
    assert_eq!(target(&resting, "short").unwrap(), b"some/target", "a whole state it once had");
}

#[test]
fn stored_inodes_of_other_kinds_are_nobodys() {
    let resting = resting();
    let root = resting.store.root();
    for name in ["file", "short", "fifo"] {
        let stored = resting.stored_name(name);
        root.remove(&stored).unwrap();
        for kind in [Some(Kind::Fifo), Some(Kind::Socket), Some(Kind::CharacterDevice), None] {
            match kind {
                Some(kind) => root.make_special(&stored, kind, 0o600, 0x105).unwrap(),
                None => root.make_symlink(&stored, b"/etc/passwd").unwrap(),
            };
            let mounted = resting.mount();
            let found = mounted.find(name);
            assert!(is_damage(&found), "{name} as {kind:?}: {found:?}");
            assert_eq!(found.unwrap_err().errno(), errno::EIO);
            assert!(!mounted.names(ROOT).unwrap().contains(&name.to_owned()), "{name} is not listed");
            assert!(!mounted.reports().is_empty(), "somebody is told");
            root.remove(&stored).unwrap();
        }
    }
}
