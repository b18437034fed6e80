//! A repair that is cut anywhere: before and after every barrier, and at
//! moments between, with what a power cut may leave. The next repair has to
//! end where the first would have.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Parser;
use strongroom_engine::Buffer;
use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Suite;
use strongroom_format::vault::slot::{KdfCost, Label};
use strongroom_keys::slots::{NewVault, SlotOptions, create_header};
use strongroom_keys::{Credential, KeyFile, RootKey, unlock_copies};
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Kind, NodeRef, RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::survey::{Folder, Named, Survey, joined};
use strongroom_vault::namespace::{Creation, Namespace, Opening, Owner, ROOT};
use strongroom_vault::{Vault, read_header_copies};

use super::super::{Subject, check};
use super::*;
use crate::args::{Cli, Command};
use crate::unlock::reread;

const CREATION: Creation = Creation { mode: 0o700, umask: 0, owner: Owner { uid: 0, gid: 0 } };

fn credential() -> Credential {
    Credential::KeyFile(KeyFile::from_content(&[7; 32]).expect("long enough"))
}

fn arguments() -> CheckArgs {
    let Command::Check(args) = Cli::parse_from(["strongroom", "check", "v", "--repair", "--yes"]).command
    else {
        panic!("it says check")
    };
    args
}

fn root_key(store: &dyn Store) -> RootKey {
    let copies = read_header_copies(store).expect("a vault");
    let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
    unlock_copies(&copies, &credential()).expect("its key").1
}

fn subject(store: &Arc<dyn Store>) -> Subject {
    let root = root_key(&**store);
    let (header, copies) = reread(&**store, &root).expect("a copy is sound");
    Subject { store: Arc::clone(store), header, root, copies }
}

fn directory(names: &Namespace, parent: u64, name: &str) -> u64 {
    names.make_directory(parent, name.as_bytes(), &CREATION).expect("a directory").number
}

fn file(names: &Namespace, parent: u64, name: &str, content: &str) {
    let opening = Opening { write: true, ..Opening::default() };
    let (entry, stored) = names.create(parent, name.as_bytes(), &CREATION, opening).expect("a file");
    stored.write_at(0, content.len(), &mut Buffer::copy_of(content.as_bytes())).expect("written");
    names.release(entry.number);
}

/// A vault in memory with something of everything.
fn filled(suite: Suite) -> MemoryStore {
    let store = MemoryStore::new();
    let new = NewVault { suite, block_size: BlockSize::MIN, base32_names: false, created: 1 };
    let cost = KdfCost::new(8 << 10, 1, 1).expect("within bounds");
    let slot = SlotOptions { label: Label::default(), created: 1, cost };
    let (mut header, root) = create_header(&new, &credential(), &slot).expect("a header");
    strongroom_vault::create(&store, &mut header, &root).expect("a vault");
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let engine = Arc::new(CpuEngine::new());
    let vault = Vault::open(shared, engine, header, root, &options(true)).expect("it is new");
    let names = vault.namespace();
    let (docs, above, empty) =
        (directory(names, ROOT, "docs"), directory(names, ROOT, "above"), directory(names, ROOT, "empty"));
    let below = directory(names, above, "below");
    for (parent, name) in [
        (docs, "a"),
        (docs, "b"),
        (docs, "c"),
        (docs, "g"),
        (docs, "i"),
        (below, "d"),
        (below, "h"),
        (ROOT, "e"),
        (empty, "f"),
    ] {
        file(names, parent, name, &format!("what {name} holds"));
    }
    file(names, ROOT, &"n".repeat(240), "what a long name holds");
    names.remove(empty, b"f").expect("removed");
    vault.close().expect("closed");
    store
}

/// Where a plain path stands.
fn place(survey: Survey<'_>, path: &str) -> (NodeRef, Vec<u8>) {
    let mut folder = survey.top();
    let mut names = path.split('/').peekable();
    loop {
        let item = survey.find(&folder, names.next().expect("a name").as_bytes()).expect("it is there");
        if names.peek().is_none() {
            return (folder.node, item.stored);
        }
        folder = survey.enter(&folder, &item).expect("a directory");
    }
}

/// Does a bit of everything to it that can be repaired.
fn damage(store: &MemoryStore) {
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let subject = subject(&shared);
    let vault = open_read_only(shared, &subject.header, subject.root.duplicate()).expect("it is sound");
    let survey = vault.namespace().survey();
    let at = |path: &str| place(survey, path);
    let enter = |path: &str| {
        let (node, stored) = at(path);
        node.lookup(&stored).expect("it is there")
    };
    let (docs, above, empty) = (enter("docs"), enter("above"), enter("empty"));
    // Two files exchanged, one under the name of another, one elsewhere.
    let ((_, a), (top, e)) = (at("docs/a"), at("e"));
    docs.rename(&a, &*top, &e, RenameMode::Exchange).expect("exchanged");
    let ((_, b), (below, d)) = (at("docs/b"), at("above/below/d"));
    docs.rename(&b, &*below, &d, RenameMode::Replace).expect("moved");
    let (_, c) = at("docs/c");
    docs.rename(&c, &*above, &c, RenameMode::Replace).expect("moved");
    // A long name, records with and without what tells the id, a header copy.
    let (_, long) = at(&"n".repeat(240));
    top.remove(&[b".n", &long[..]].concat()).expect("removed");
    for directory in [&docs, &above, &empty] {
        let record = directory.lookup(b".id").expect("a record");
        for entry in record.entries().expect("a directory") {
            record.remove(&entry.name).expect("removed");
        }
    }
    let private = store.root().lookup(b".strongroom").expect("a vault");
    private.remove(b"header.1").expect("removed");
}

/// What is where, by plain path, and that nothing is damaged.
fn tree(store: &Arc<dyn Store>) -> BTreeMap<String, String> {
    let subject = subject(store);
    let findings = Findings::default();
    let document = check(&arguments(), &subject, &findings, &Interrupt::default(), Extent::Whole)
        .expect("it can be read");
    assert_eq!(document.damage, []);
    assert!(!subject.has_damaged_copy());
    let vault =
        open_read_only(Arc::clone(store), &subject.header, subject.root.duplicate()).expect("it is sound");
    let survey = vault.namespace().survey();
    let mut tree = BTreeMap::new();
    collect(survey, &survey.top(), &mut tree);
    tree
}

fn collect(survey: Survey<'_>, folder: &Folder, tree: &mut BTreeMap<String, String>) {
    for listed in survey.list(folder).expect("a directory").entries {
        let item = survey.look(folder, listed).expect("a store").expect("it is there");
        let Named::Plain(name) = &item.name else { panic!("a name is lost") };
        let path = String::from_utf8_lossy(&joined(&folder.plain, name)).into_owned();
        if item.node.kind() == Kind::Directory {
            tree.insert(path, "directory".to_owned());
            collect(survey, &survey.enter(folder, &item).expect("a directory"), tree);
        } else {
            let opened = survey.open(&item).expect("a file");
            let mut buffer = Buffer::new(100);
            let len = opened.content.read_at(0, 100, &mut buffer).expect("it can be read");
            tree.insert(path, String::from_utf8_lossy(&buffer[..len]).into_owned());
            opened.close();
        }
    }
}

/// Checks and repairs, as the command does.
fn repair(store: &Arc<dyn Store>) -> Result<()> {
    let (args, output) = (arguments(), Output { json: true });
    let mut subject = subject(store);
    let recovery = recover(&args, &mut subject, output)?;
    let (findings, interrupt) = (Findings::new(true), Interrupt::default());
    let document = check(&args, &subject, &findings, &interrupt, Extent::Whole)?;
    let facts = findings.take_facts();
    if let Some(repair) = run(&args, &mut subject, &document, facts, recovery, &interrupt, output)? {
        assert_eq!(repair.remaining, []);
    }
    Ok(())
}

#[test]
fn it_may_be_cut_anywhere_and_done_again() {
    for suite in [Suite::Xaes256Gcm, Suite::Aegis256X2, Suite::Aegis256X4] {
        let memory = filled(suite);
        damage(&memory);
        let store = Arc::new(FaultyStore::new(memory));
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        repair(&shared).expect("repaired");
        let expected = tree(&shared);
        let lost = expected.keys().filter(|path| path.starts_with("lost+found/")).count();
        assert_eq!(lost, 4, "b, the long name, and a directory with a file: {expected:#?}");
        assert_eq!(expected["docs/a"], "what a holds", "{expected:#?}");
        assert_eq!(expected["docs/c"], "what c holds", "{expected:#?}");
        let mut cuts: Vec<usize> = store.barriers().into_iter().flat_map(|at| [at, at + 1]).collect();
        cuts.extend((0..store.position()).step_by(7));
        cuts.sort_unstable();
        cuts.dedup();
        for (index, &cut) in cuts.iter().enumerate() {
            for seed in [0, 1, 2 + index as u64] {
                let image: Arc<dyn Store> = Arc::new(store.image(cut, seed));
                repair(&image).unwrap_or_else(|failure| panic!("cut {cut}, seed {seed}: {failure}"));
                assert_eq!(tree(&image), expected, "cut {cut}, seed {seed}");
            }
        }
    }
}

/// Whoever has the store may put any number of names into a directory's record:
/// what a check notes of them grows as their number does.
#[test]
fn names_in_a_record_that_are_not_the_vaults_are_kept_once() {
    const NAMES: usize = 3000;
    let memory = filled(Suite::Xaes256Gcm);
    let store: Arc<dyn Store> = Arc::new(memory);
    let subject = subject(&store);
    let vault =
        open_read_only(Arc::clone(&store), &subject.header, subject.root.duplicate()).expect("it is sound");
    let (top, docs) = place(vault.namespace().survey(), "docs");
    let record = top.lookup(&docs).expect("a directory").lookup(b".id").expect("a record");
    for number in 0..NAMES {
        record.create(format!("{number:030}").as_bytes(), 0o600).expect("a file");
    }
    let findings = Findings::new(true);
    let document = check(&arguments(), &subject, &findings, &Interrupt::default(), Extent::Whole)
        .expect("it can be read");
    assert_eq!(document.damage.len(), NAMES);
    let (mut count, mut lists) = (0, BTreeMap::new());
    for fact in findings.take_facts() {
        let folder = match fact {
            Fact::Foreign { folder, .. } => {
                count += 1;
                folder
            }
            Fact::Folder(folder) => folder,
            _ => continue,
        };
        lists.insert(folder.foreign.as_ptr(), folder.foreign.len());
        // So that no two lists have one place.
        std::mem::forget(folder);
    }
    assert_eq!(count, NAMES);
    assert_eq!(lists.values().sum::<usize>(), NAMES, "names that are kept");
}

/// What was not begun when the user wants it to end stays as it is, and is told
/// as damage.
#[test]
fn an_interrupted_repair_does_no_further_step() {
    let memory = filled(Suite::Xaes256Gcm);
    damage(&memory);
    let store: Arc<dyn Store> = Arc::new(memory);
    let (args, interrupt) = (arguments(), Interrupt::default());
    let mut subject = subject(&store);
    let findings = Findings::new(true);
    let mut document = check(&args, &subject, &findings, &interrupt, Extent::Whole).expect("it can be read");
    let facts = findings.take_facts();
    interrupt.ask();
    let output = Output { json: true };
    let repair = run(&args, &mut subject, &document, facts, None, &interrupt, output).expect("no error");
    let repair = repair.expect("there is damage");
    assert!(!repair.steps.is_empty());
    assert!(repair.steps.iter().all(|step| step.outcome == "planned"), "{:#?}", repair.steps);
    assert!(document.damage.iter().all(|finding| repair.remaining.contains(finding)));
    assert!(repair.text().contains("Interrupted"), "{}", repair.text());
    document.repair = Some(repair);
    assert!(matches!(document.exit(), Exit::RepairIncomplete));
    let again = check(&args, &subject, &Findings::default(), &Interrupt::default(), Extent::Whole);
    assert_eq!(again.expect("it can be read").damage, document.damage);
}
