//! The freshness file: whatever is rolled back, deleted, put back or exchanged
//! as a whole is found and named, and can be accepted; and no history, crash
//! or mount raises an alarm by itself.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, NodeRef, RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Namespace, Opening, ROOT};
use strongroom_vault::{
    Damage, Error, Guards, OpenOptions, Recording, Result, Rules, Staleness, Trust, Trusted, Vault,
};
use support::{CREATION, Rng, options, read_all, write};

/// Where these tests keep the freshness file: a name that no vault uses.
const PLACE: &[u8] = b".trusted";

/// The directory of the freshness file in a store.
fn place(store: &dyn Store) -> NodeRef {
    let root = store.root();
    root.lookup(PLACE).or_else(|_| root.make_directory(PLACE, 0o700)).unwrap()
}

fn open(store: &Arc<dyn Store>, trusted: &dyn Store, trust: Trust, options: &OpenOptions) -> Result<Vault> {
    let (header, root) = support::unlock(&**store);
    let trusted = Trusted { directory: place(trusted), name: b"record".to_vec(), trust };
    let engine = support::engine();
    let guards = Guards { trusted: Some(trusted), ..Guards::default() };
    Vault::open(Arc::clone(store), engine, header, root, &OpenOptions { guards, ..options.clone() })
}

/// A vault in memory, and a freshness file in another store.
struct Owned {
    store: MemoryStore,
    trusted: MemoryStore,
}

impl Owned {
    fn new() -> Owned {
        let store = MemoryStore::new();
        support::create(&store, Suite::Xaes256Gcm, BlockSize::MIN);
        Owned { store, trusted: MemoryStore::new() }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn open(&self, trust: Trust, writable: bool) -> Result<Vault> {
        open(
            &self.store(),
            &self.trusted,
            trust,
            &OpenOptions { writable, journal_len: 1 << 20, ..options() },
        )
    }

    /// Does something in a recorded session that ends cleanly.
    fn change<T>(&self, change: impl FnOnce(&Vault) -> T) -> T {
        let vault = self.open(Trust::Record, true).unwrap();
        let result = change(&vault);
        vault.close().unwrap();
        result
    }

    /// The same without the freshness file.
    fn change_unrecorded<T>(&self, change: impl FnOnce(&Vault) -> T) -> T {
        let vault = support::open(self.store());
        let result = change(&vault);
        vault.close().unwrap();
        result
    }

    fn audit(&self) -> BTreeSet<(String, Staleness)> {
        audit(&self.open(Trust::Record, false).unwrap())
    }

    fn demand(&self, findings: &[(&str, Staleness)]) {
        let found = self.audit();
        let wanted = findings.iter().map(|(path, what)| ((*path).to_owned(), *what)).collect();
        assert_eq!(found, wanted);
    }

    fn accept(&self, path: Option<&str>) -> Result<u64> {
        let vault = self.open(Trust::Vault { whole: path.is_none() }, true)?;
        let accepted = vault.accept(path.map(str::as_bytes));
        vault.close()?;
        accepted
    }

    /// The stored node of a plain path.
    fn stored(&self, path: &str) -> (NodeRef, Vec<u8>) {
        let vault = support::open_with(
            self.store(),
            support::engine(),
            &OpenOptions { writable: false, ..options() },
        );
        let vault = vault.unwrap();
        let names = vault.namespace();
        let mut parent = self.store.root();
        let mut number = ROOT;
        let mut found = None;
        for name in path.split('/') {
            if let Some((node, _)) = found.take() {
                parent = node;
            }
            let entry = names.lookup(number, name.as_bytes()).unwrap();
            number = entry.number;
            let entries = parent.entries().unwrap();
            let stored = entries
                .into_iter()
                .map(|entry| entry.name)
                .find(|name| parent.lookup(name).unwrap().id() == entry.attributes.id);
            let stored = stored.unwrap();
            found = Some((parent.lookup(&stored).unwrap(), stored));
        }
        (parent, found.unwrap().1)
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let (parent, name) = self.stored(path);
        let file = parent.lookup(&name).unwrap().open(Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }
}

fn audit(vault: &Vault) -> BTreeSet<(String, Staleness)> {
    let mut found = BTreeSet::new();
    let mut report = |path: &[u8], what| {
        found.insert((String::from_utf8_lossy(path).into_owned(), what));
    };
    vault.audit(&mut report).unwrap();
    found
}

fn put_bytes(parent: &NodeRef, name: &[u8], bytes: &[u8]) {
    let file = match parent.lookup(name) {
        Ok(node) => node.open(Access::ReadWrite).unwrap(),
        Err(_) => parent.create(name, 0o600).unwrap().1,
    };
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

fn find(names: &Namespace, path: &str) -> Result<u64> {
    let mut number = ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        number = names.lookup(number, name.as_bytes())?.number;
    }
    Ok(number)
}

fn parent_of(names: &Namespace, path: &str) -> Result<(u64, Vec<u8>)> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((find(names, parent)?, name.as_bytes().to_vec()))
}

fn put(vault: &Vault, path: &str, bytes: &[u8]) {
    let names = vault.namespace();
    let (parent, name) = parent_of(names, path).unwrap();
    let (entry, content) =
        names.create(parent, &name, &CREATION, Opening { write: true, ..Opening::default() }).unwrap();
    content.set_len(0).unwrap();
    write(&content, 0, bytes).unwrap();
    drop(content);
    names.release(entry.number);
}

fn look(vault: &Vault, path: &str) -> Result<Vec<u8>> {
    let names = vault.namespace();
    let number = find(names, path)?;
    let content = names.open(number, Opening::default())?;
    let bytes = read_all(&content);
    drop(content);
    names.release(number);
    bytes
}

fn make_directory(vault: &Vault, path: &str) {
    let (parent, name) = parent_of(vault.namespace(), path).unwrap();
    vault.namespace().make_directory(parent, &name, &CREATION).unwrap();
}

fn stale<T>(what: Staleness) -> Result<T> {
    Err(Error::Damaged(Damage::Stale(what)))
}

/// `f`, `d/g`, `d/sub/h` and `s`, recorded.
fn small_tree() -> Owned {
    let owned = Owned::new();
    owned.change(|vault| {
        assert_eq!(vault.recording(), Some(Recording::New));
        put(vault, "f", &[1; 9000]);
        make_directory(vault, "d");
        put(vault, "d/g", &[2; 100]);
        make_directory(vault, "d/sub");
        put(vault, "d/sub/h", &[3; 100]);
        for (name, target) in [("s", &b"one"[..]), ("t", b"two")] {
            vault.namespace().make_symlink(ROOT, name.as_bytes(), target, &CREATION).unwrap();
        }
    });
    owned.demand(&[]);
    owned
}

#[test]
fn a_file_rolled_back_as_a_whole_is_an_error_at_open_and_found() {
    let owned = small_tree();
    let before = owned.bytes("d/g");
    owned.change(|vault| {
        assert_eq!(vault.recording(), Some(Recording::Current));
        put(vault, "d/g", b"newer");
    });
    let (parent, name) = owned.stored("d/g");
    put_bytes(&parent, &name, &before);
    owned.demand(&[("d/g", Staleness::RolledBack)]);
    owned.change(|vault| assert_eq!(look(vault, "d/g"), stale(Staleness::RolledBack)));
    // Without the freshness file it is its older self.
    owned.change_unrecorded(|vault| assert_eq!(look(vault, "d/g"), Ok(vec![2; 100])));
    assert_eq!(owned.accept(Some("d/g")), Ok(1));
    owned.demand(&[]);
    owned.change(|vault| {
        assert_eq!(look(vault, "d/g"), Ok(vec![2; 100]));
        put(vault, "d/g", b"newest");
    });
    owned.demand(&[]);
}

#[test]
fn a_deleted_file_and_a_deleted_directory_are_missing() {
    let owned = small_tree();
    let (parent, name) = owned.stored("d/g");
    parent.remove(&name).unwrap();
    owned.demand(&[("d/g", Staleness::Missing)]);
    owned.change(|vault| {
        assert_eq!(look(vault, "d/g"), stale(Staleness::Missing));
        assert_eq!(look(vault, "d/sub/h"), Ok(vec![3; 100]));
        assert!(look(vault, "never").unwrap_err().is_not_found());
    });
    let (parent, name) = owned.stored("d");
    parent
        .rename(&name, &*owned.store.root().lookup(b".strongroom").unwrap(), b"gone", RenameMode::Replace)
        .unwrap();
    owned.demand(&[("d", Staleness::Missing)]);
    owned.change_unrecorded(|vault| assert!(look(vault, "d/sub/h").unwrap_err().is_not_found()));
    assert_eq!(owned.accept(Some("d/g")).unwrap_err().errno(), 2, "the directory above is missing");
    assert_eq!(owned.accept(Some("d")), Ok(1));
    owned.demand(&[]);
}

#[test]
fn what_is_put_back_is_unrecorded_or_exchanged() {
    let owned = small_tree();
    let (old_f, old_g) = (owned.bytes("f"), owned.bytes("d/g"));
    let (names_of_f, names_of_g) = (owned.stored("f"), owned.stored("d/g"));
    owned.change(|vault| {
        let names = vault.namespace();
        names.remove(ROOT, b"f").unwrap();
        let d = find(names, "d").unwrap();
        names.remove(d, b"g").unwrap();
        put(vault, "d/g", b"another file of that name");
    });
    owned.demand(&[]);
    put_bytes(&names_of_f.0, &names_of_f.1, &old_f);
    put_bytes(&names_of_g.0, &names_of_g.1, &old_g);
    owned.demand(&[("f", Staleness::Unrecorded), ("d/g", Staleness::Exchanged)]);
    owned.change(|vault| {
        assert_eq!(look(vault, "f"), stale(Staleness::Unrecorded));
        assert_eq!(look(vault, "d/g"), stale(Staleness::Exchanged));
    });
    owned.change_unrecorded(|vault| {
        assert_eq!(look(vault, "f"), Ok(vec![1; 9000]));
        assert_eq!(look(vault, "d/g"), Ok(vec![2; 100]));
    });
    assert_eq!(owned.accept(None), Ok(2));
    owned.demand(&[]);
}

/// The content of a stored directory, to be put back.
fn copy_tree(from: &NodeRef, to: &NodeRef) {
    for entry in from.entries().unwrap() {
        let node = from.lookup(&entry.name).unwrap();
        match node.kind() {
            strongroom_store::Kind::Directory => {
                copy_tree(&node, &to.make_directory(&entry.name, 0o700).unwrap());
            }
            strongroom_store::Kind::Symlink => {
                to.make_symlink(&entry.name, &node.read_link().unwrap()).unwrap();
            }
            _ => {
                let file = node.open(Access::Read).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_at(&mut bytes, 0).unwrap();
                to.create(&entry.name, 0o600).unwrap().1.write_at(&bytes, 0).unwrap();
            }
        }
    }
}

#[test]
fn a_directory_rolled_back_as_a_whole_is_found_entry_by_entry() {
    let owned = small_tree();
    let old = MemoryStore::new();
    let (parent, name) = owned.stored("d");
    copy_tree(&parent.lookup(&name).unwrap(), &old.root());
    owned.change(|vault| {
        let names = vault.namespace();
        put(vault, "d/g", b"newer");
        put(vault, "d/new", b"new");
        let sub = find(names, "d/sub").unwrap();
        names.remove(sub, b"h").unwrap();
    });
    owned.demand(&[]);
    parent
        .rename(&name, &*owned.store.root().lookup(b".strongroom").unwrap(), b"gone", RenameMode::Replace)
        .unwrap();
    copy_tree(&old.root(), &parent.make_directory(&name, 0o700).unwrap());
    owned.demand(&[
        ("d/g", Staleness::RolledBack),
        ("d/new", Staleness::Missing),
        ("d/sub/h", Staleness::Unrecorded),
    ]);
    owned.change_unrecorded(|vault| assert_eq!(look(vault, "d/sub/h"), Ok(vec![3; 100])));
    assert_eq!(owned.accept(Some("d/sub")), Ok(1));
    owned.demand(&[("d/g", Staleness::RolledBack), ("d/new", Staleness::Missing)]);
    assert_eq!(owned.accept(Some("d")), Ok(2));
    owned.demand(&[]);
}

#[test]
fn a_vault_rolled_back_as_a_whole_is_refused_at_mount() {
    let mut owned = small_tree();
    let before = owned.store.snapshot();
    owned.change(|vault| put(vault, "f", b"newer"));
    owned.store = before;
    for writable in [false, true] {
        assert_eq!(owned.open(Trust::Record, writable).map(drop), stale(Staleness::Vault));
    }
    owned.change_unrecorded(|vault| assert_eq!(look(vault, "f"), Ok(vec![1; 9000])));
    // To accept a part of it is to accept it all.
    let rolled_back = Owned { store: owned.store.snapshot(), trusted: owned.trusted.snapshot() };
    rolled_back.change_unrecorded(|_| ());
    owned.accept(None).unwrap();
    owned.demand(&[]);
    owned.change(|vault| assert_eq!(look(vault, "f"), Ok(vec![1; 9000])));
}

#[test]
fn an_older_vault_is_not_accepted_by_accepting_one_path() {
    let mut owned = small_tree();
    let before = owned.store.snapshot();
    owned.change(|vault| put(vault, "f", b"newer"));
    owned.change(|_| ());
    owned.store = before;
    assert_eq!(owned.accept(Some("f")), stale(Staleness::Vault));
    // An older header alone does not hide behind newer ones either: what is in
    // the vault is compared, not how often it was mounted.
    for _ in 0..4 {
        owned.change_unrecorded(|_| ());
    }
    assert_eq!(owned.open(Trust::Record, false).unwrap().recording(), Some(Recording::Bypassed));
    owned.demand(&[("f", Staleness::RolledBack)]);
}

#[test]
fn exchanged_directories_and_symlinks_are_errors_when_met() {
    let owned = small_tree();
    owned.change(|vault| make_directory(vault, "e"));
    let root = owned.store.root();
    for (one, other) in [("d", "e"), ("s", "t")] {
        let (one, other) = (owned.stored(one).1, owned.stored(other).1);
        root.rename(&one, &*root, &other, RenameMode::Exchange).unwrap();
    }
    let exchanged = Staleness::Exchanged;
    // The symlinks do not open under each other's names anyway.
    owned.demand(&[("d", exchanged), ("e", exchanged)]);
    let read = |vault: &Vault| {
        let names = vault.namespace();
        names.read_link(names.lookup(ROOT, b"s").unwrap().number)
    };
    owned.change(|vault| {
        assert_eq!(vault.namespace().lookup(ROOT, b"e").map(drop), stale(exchanged));
        assert_eq!(read(vault), Err(Error::Damaged(Damage::Home)));
    });
    owned.change_unrecorded(|vault| {
        assert_eq!(look(vault, "e/g"), Err(Error::Damaged(Damage::Home)));
        assert_eq!(read(vault), Err(Error::Damaged(Damage::Home)));
    });
    owned.accept(None).unwrap();
    owned.demand(&[]);
}

/// Without the file it is as it once was: a state of its own, under its name.
#[test]
fn a_symlink_that_was_put_back_is_an_error_when_it_is_met() {
    let owned = small_tree();
    let (root, stored) = owned.stored("s");
    root.rename(&stored, &*root, b"kept", RenameMode::Replace).unwrap();
    owned.change_unrecorded(|vault| {
        vault.namespace().make_symlink(ROOT, b"s", b"elsewhere", &CREATION).unwrap();
    });
    owned.accept(None).unwrap();
    owned.demand(&[]);
    root.rename(b"kept", &*root, &stored, RenameMode::Replace).unwrap();
    owned.change_unrecorded(|vault| {
        let names = vault.namespace();
        let number = names.lookup(ROOT, b"s").unwrap().number;
        assert_ne!(names.read_link(number), Ok(b"elsewhere".to_vec()));
        names.forget(number, 1);
    });
    owned.demand(&[("s", Staleness::Exchanged)]);
    owned.change(|vault| {
        assert_eq!(vault.namespace().lookup(ROOT, b"s").map(drop), stale(Staleness::Exchanged));
    });
}

#[test]
fn a_file_with_several_names_that_was_moved_is_found() {
    let owned = small_tree();
    owned.change(|vault| {
        let names = vault.namespace();
        let f = find(names, "f").unwrap();
        let d = find(names, "d").unwrap();
        names.link(f, d, b"l").unwrap();
    });
    owned.demand(&[]);
    let ((d, stored), g) = (owned.stored("d/l"), owned.stored("d/g").1);
    d.rename(&stored, &*d, &g, RenameMode::Exchange).unwrap();
    // The file with one name does not open under another one anyway.
    owned.demand(&[("d/g", Staleness::Exchanged)]);
    owned.change_unrecorded(|vault| {
        assert_eq!(look(vault, "d/g"), Ok(vec![1; 9000]));
        assert_eq!(look(vault, "d/l"), Err(Error::Damaged(Damage::Home)));
    });
}

/// Also where all names are looked up before one is opened, and where the mount
/// is for writing.
#[test]
fn names_of_files_with_several_do_not_lead_to_each_others() {
    let owned = small_tree();
    owned.change(|vault| {
        put(vault, "e", &[4; 100]);
        let names = vault.namespace();
        for (file, further) in [("e", "e2"), ("f", "f2")] {
            names.link(find(names, file).unwrap(), ROOT, further.as_bytes()).unwrap();
        }
    });
    owned.demand(&[]);
    let ((top, e), f) = (owned.stored("e"), owned.stored("f").1);
    top.rename(&e, &*top, &f, RenameMode::Exchange).unwrap();
    owned.change(|vault| {
        let names = vault.namespace();
        for file in [["e", "e2"], ["f", "f2"]] {
            let found = file.map(|name| find(names, name));
            let refused = found
                .iter()
                .filter(|found| matches!(found, Err(Error::Damaged(Damage::Stale(Staleness::Exchanged)))));
            assert_eq!(refused.count(), 1, "{found:?}");
            assert!(found.iter().any(Result::is_ok), "{found:?}");
        }
    });
}

#[test]
fn a_mount_without_the_file_is_told_of_and_newer_versions_are_in_order() {
    let owned = small_tree();
    owned.change_unrecorded(|vault| {
        put(vault, "f", b"newer, by another host");
        put(vault, "made", b"by another host");
    });
    owned.change(|vault| {
        assert_eq!(vault.recording(), Some(Recording::Bypassed));
        assert_eq!(look(vault, "f").unwrap(), b"newer, by another host");
        assert_eq!(look(vault, "made"), stale(Staleness::Unrecorded));
    });
    owned.demand(&[("made", Staleness::Unrecorded)]);
    assert_eq!(owned.accept(Some("made")), Ok(1));
    owned.demand(&[]);
}

#[test]
fn a_freshness_file_that_is_not_this_vaults_is_refused() {
    let owned = small_tree();
    let other = Owned::new();
    let refused = |owned: &Owned| owned.open(Trust::Record, true).map(drop);
    let swapped = Owned { store: owned.store.snapshot(), trusted: MemoryStore::new() };
    other.change(|_| ());
    copy_tree(&other.trusted.root(), &swapped.trusted.root());
    assert!(matches!(refused(&swapped), Err(Error::Damaged(Damage::Record(_)))));
    // Missing: refused, and made for who begins anew.
    let missing = Owned { store: owned.store.snapshot(), trusted: MemoryStore::new() };
    assert!(matches!(
        missing.open(Trust::Record, false).map(drop),
        Err(Error::Damaged(Damage::RecordMissing))
    ));
    let begun = missing.open(Trust::Begin, true).unwrap();
    assert_eq!(begun.recording(), Some(Recording::New));
    begun.close().unwrap();
    missing.demand(&[]);
    // Any byte changed in its first frame.
    let record = place(&owned.trusted).lookup(b"record").unwrap().open(Access::ReadWrite).unwrap();
    for at in 0..record.len().unwrap().min(400) {
        let mut byte = [0];
        record.read_at(&mut byte, at).unwrap();
        record.write_at(&[byte[0] ^ 1], at).unwrap();
        match refused(&owned) {
            Err(Error::Damaged(Damage::Record(_))) => {}
            // Bytes of a later frame: the file ends there, and is older.
            Ok(()) => assert!(at >= 48 + 56, "byte {at}"),
            Err(error) => panic!("byte {at}: {error}"),
        }
        if refused(&owned).is_ok() {
            break;
        }
        record.write_at(&byte, at).unwrap();
    }
}

/// The vault's header says that it had one, so that this holds on any machine.
#[test]
fn a_freshness_file_that_is_missing_is_no_beginning_where_there_was_one() {
    let owned = small_tree();
    let lost = Owned { store: owned.store.snapshot(), trusted: MemoryStore::new() };
    for trust in [Trust::Record, Trust::Vault { whole: false }] {
        let opened = lost.open(trust, true).map(drop);
        assert!(matches!(opened, Err(Error::Damaged(Damage::RecordMissing))), "{trust:?}: {opened:?}");
        assert!(place(&lost.trusted).lookup(b"record").is_err_and(|error| error.is_not_found()));
    }
    let vault = lost.open(Trust::Begin, true).unwrap();
    assert_eq!(vault.recording(), Some(Recording::New));
    vault.close().unwrap();
    // Where there is one, it is believed also by who would begin anew.
    let before = lost.store.snapshot();
    lost.change(|vault| put(vault, "f", b"newer"));
    let rolled_back = Owned { store: before, trusted: lost.trusted.snapshot() };
    let opened = rolled_back.open(Trust::Begin, true).map(drop);
    assert!(matches!(opened, Err(Error::Damaged(Damage::Stale(Staleness::Vault)))), "{opened:?}");
    // One that was never used with a file may begin with any.
    let never = Owned::new();
    never.change_unrecorded(|vault| put(vault, "f", b"text"));
    never.change(|vault| assert_eq!(vault.recording(), Some(Recording::New)));
}

#[test]
fn relaxed_rules_are_refused() {
    let owned = Owned::new();
    let options = OpenOptions { rules: Rules::RELAXED, ..options() };
    let opened = open(&owned.store(), &owned.trusted, Trust::Record, &options);
    assert_eq!(opened.map(drop), Err(Error::Refused(22)));
}

#[test]
fn a_freshness_file_that_fails_refuses_changes_of_entries_until_it_is_back() {
    let owned = small_tree();
    let faulty = FaultyStore::injecting(owned.trusted.clone());
    let vault = open(&owned.store(), &faulty, Trust::Record, &options()).unwrap();
    let names = vault.namespace();
    let f = find(names, "f").unwrap();
    let content = names.open(f, Opening { write: true, ..Opening::default() }).unwrap();
    for call in [Call::Write, Call::SyncData, Call::SetLen, Call::Create, Call::Rename] {
        faulty.fail(Plan::from(0, 28).of(call));
    }
    let made = names.make_directory(ROOT, b"x", &CREATION);
    assert!(matches!(made, Err(Error::Freshness(_))), "{made:?}");
    assert!(find(names, "x").unwrap_err().is_not_found());
    write(&content, 0, b"contents are written on").unwrap();
    content.sync().unwrap();
    assert!(matches!(vault.sync(), Err(Error::Freshness(_))));
    faulty.heal();
    names.make_directory(ROOT, b"x", &CREATION).unwrap();
    drop(content);
    names.release(f);
    vault.close().unwrap();
    owned.demand(&[]);
}

#[test]
fn the_file_is_written_anew_when_it_has_grown() {
    let owned = small_tree();
    let len = || place(&owned.trusted).lookup(b"record").unwrap().attributes().unwrap().len;
    owned.change(|vault| {
        let names = vault.namespace();
        let mut longest = 0;
        for round in 0..200 {
            for index in 0..20 {
                put(vault, &format!("a file with a rather long name, {index}"), &[round; 10]);
            }
            for index in 0..20 {
                names.remove(ROOT, format!("a file with a rather long name, {index}").as_bytes()).unwrap();
            }
            vault.sync().unwrap();
            longest = longest.max(len());
        }
        assert!((200 << 10..600 << 10).contains(&longest), "{longest}");
    });
    owned.demand(&[]);
}

/// Plays random histories on a store that forgets what was not synced, cuts
/// them anywhere, and demands that nothing is found.
#[test]
fn no_history_and_no_crash_raises_an_alarm() {
    let histories: u64 = std::env::var("STRONGROOM_FRESHNESS_HISTORIES").map_or(24, |n| n.parse().unwrap());
    let mut images = 0;
    for seed in 0..histories {
        images += Play::new(seed).run();
    }
    println!("{histories} histories, {images} images, no alarm");
}

struct Play {
    seed: u64,
    rng: Rng,
    store: Arc<FaultyStore>,
    vault: Vault,
}

impl Play {
    fn new(seed: u64) -> Play {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::ALL[(seed % 3) as usize], BlockSize::MIN);
        place(&memory);
        let store = Arc::new(FaultyStore::new(memory));
        let vault = Self::open(&(Arc::clone(&store) as Arc<dyn Store>), &*store).unwrap();
        Play { seed, rng: Rng(seed ^ 0xf4e5), store, vault }
    }

    fn open(store: &Arc<dyn Store>, trusted: &dyn Store) -> Result<Vault> {
        open(store, trusted, Trust::Record, &OpenOptions { journal_len: 512 << 10, ..options() })
    }

    fn run(mut self) -> u64 {
        let steps = 60 + self.rng.below(60);
        for step in 0..steps {
            self.step(step);
            if self.rng.below(30) == 0 {
                // Killed, it leaves what the system has not stored yet.
                match self.rng.below(2) {
                    0 => self.vault.close().unwrap(),
                    _ => self.vault.abandon(),
                }
                let store = Arc::clone(&self.store) as Arc<dyn Store>;
                self.vault = Self::open(&store, &*self.store).unwrap();
            }
        }
        assert_eq!(audit(&self.vault), BTreeSet::new(), "seed {}: the mount itself", self.seed);
        if self.rng.below(2) == 0 {
            self.vault.close().unwrap();
        } else {
            self.vault.abandon();
        }
        let end = self.store.position() as u64;
        let cuts = 30;
        for _ in 0..cuts {
            let cut = self.rng.below(end + 1) as usize;
            let seeds = (self.rng.below(64), self.rng.below(64));
            self.check(cut, seeds);
        }
        cuts
    }

    /// The vault and the freshness file stand on disks of their own.
    fn check(&mut self, cut: usize, seeds: (u64, u64)) {
        let at = format!("history {}, cut {cut}, images {seeds:?}", self.seed);
        let image = self.store.image(cut, seeds.0);
        let trusted = self.store.image(cut, seeds.1);
        if place(&trusted).lookup(b"record").is_err() {
            return;
        }
        let store: Arc<dyn Store> = Arc::new(FaultyStore::new(image));
        let reading = OpenOptions { writable: false, ..options() };
        let reader = open(&store, &trusted, Trust::Record, &reading).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(audit(&reader), BTreeSet::new(), "{at}, read-only");
        drop(reader);
        for again in ["recovered", "mounted again"] {
            let vault = Self::open(&store, &trusted).unwrap_or_else(|error| panic!("{at}, {again}: {error}"));
            assert_eq!(audit(&vault), BTreeSet::new(), "{at}, {again}");
            vault.settle().unwrap();
            assert_eq!(audit(&vault), BTreeSet::new(), "{at}, {again} and settled");
            vault.close().unwrap();
        }
    }

    fn path(&mut self) -> String {
        let name = self.rng.below(5);
        match self.rng.below(4) {
            0 => format!("f{name}"),
            1 => format!("a/f{name}"),
            2 => format!("b/f{name}"),
            _ => format!("a/c/f{name}"),
        }
    }

    fn directory(&mut self) -> &'static str {
        ["a", "b", "a/c", "e", "b/e"][self.rng.below(5) as usize]
    }

    fn step(&mut self, step: u64) {
        let (path, other) = (self.path(), self.path());
        let (directory, other_directory) = (self.directory(), self.directory());
        let operation = if step < 3 { 20 + step } else { self.rng.below(24) };
        let names = Arc::clone(self.vault.namespace());
        // What does not go (no such directory, not empty) is no step.
        let _: Result<()> = (|| {
            match operation {
                0..=7 => {
                    let (parent, name) = parent_of(&names, &path)?;
                    let opening = Opening { write: true, ..Opening::default() };
                    let (entry, content) = names.create(parent, &name, &CREATION, opening)?;
                    if self.rng.below(8) > 0 {
                        let bytes = vec![step as u8; self.rng.below(20000) as usize];
                        write(&content, self.rng.below(9000), &bytes)?;
                    }
                    if self.rng.below(3) == 0 {
                        content.sync()?;
                    }
                    drop(content);
                    names.release(entry.number);
                }
                8 | 9 => {
                    let (parent, name) = parent_of(&names, &path)?;
                    names.remove(parent, &name)?;
                }
                10..=12 => {
                    let (from, name) = parent_of(&names, &path)?;
                    let (to, to_name) = parent_of(&names, &other)?;
                    let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                    names.rename(from, &name, to, &to_name, mode[self.rng.below(3) as usize])?;
                }
                13 => {
                    let (from, name) = parent_of(&names, directory)?;
                    let (to, to_name) = parent_of(&names, other_directory)?;
                    names.rename(from, &name, to, &to_name, RenameMode::Replace)?;
                }
                14 => {
                    let (parent, name) = parent_of(&names, directory)?;
                    names.remove_directory(parent, &name)?;
                }
                15 => {
                    let (parent, name) = parent_of(&names, &other)?;
                    names.link(find(&names, &path)?, parent, &name)?;
                }
                16 => {
                    let (parent, name) = parent_of(&names, &path)?;
                    names.make_symlink(parent, &name, b"somewhere", &CREATION)?;
                }
                17 => {
                    let number = find(&names, &path)?;
                    let opening = Opening { write: true, ..Opening::default() };
                    let content = names.open(number, opening)?;
                    content.set_len(self.rng.below(9000))?;
                    drop(content);
                    names.release(number);
                }
                18 => names.sync_directory(find(&names, directory)?)?,
                19 => self.vault.sync()?,
                _ => {
                    let (parent, name) = parent_of(&names, directory)?;
                    names.make_directory(parent, &name, &CREATION)?;
                }
            }
            Ok(())
        })()
        .inspect_err(|error| assert!(!matches!(error, Error::Damaged(_)), "step {step}: {error}"));
    }
}
