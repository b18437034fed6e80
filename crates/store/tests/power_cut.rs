//! What the images of a power cut may and may not hold.

use std::collections::{BTreeMap, BTreeSet};

use strongroom_store::faulty::{EVERYTHING, FaultyStore, FileSync, NOTHING, SECTOR};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, AllocateMode, FileRef, Node, NodeRef, RenameMode, SetTime, Store, Timestamp};

/// Images drawn where all possible states are to be seen.
const SEEDS: u64 = 4_000;

/// A recorded store with a durable file of the given content.
fn with_file(content: &[u8]) -> (FaultyStore, FileRef) {
    let memory = MemoryStore::new();
    let (_, file) = memory.root().create(b"file", 0o600).unwrap();
    file.write_at(content, 0).unwrap();
    let store = FaultyStore::new(memory);
    let file = store.root().lookup(b"file").unwrap().open(Access::ReadWrite).unwrap();
    (store, file)
}

fn read(directory: &dyn Node, name: &str) -> Option<Vec<u8>> {
    let file = directory.lookup(name.as_bytes()).ok()?.open(Access::Read).unwrap();
    let mut content = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut content, 0).unwrap(), content.len());
    Some(content)
}

/// All contents that `file` has in the images of one cut.
fn contents(store: &FaultyStore, cut: usize) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS).map(|seed| read(&*store.image(cut, seed).root(), "file")).collect()
}

fn names(directory: &NodeRef) -> Vec<String> {
    directory.entries().unwrap().into_iter().map(|e| String::from_utf8(e.name).unwrap()).collect()
}

/// One letter per sector.
fn letters(content: &[u8]) -> String {
    let letter = |sector: &[u8]| {
        assert!(sector.iter().all(|&byte| byte == sector[0]), "a sector is torn");
        if sector[0] == 0 { '.' } else { sector[0] as char }
    };
    content.chunks(SECTOR).map(letter).collect()
}

fn sectors(text: &str) -> Vec<u8> {
    text.bytes().flat_map(|byte| [if byte == b'.' { 0 } else { byte }; SECTOR]).collect()
}

#[test]
fn unsynced_write_is_absent_torn_or_whole() {
    let (store, file) = with_file(&sectors("aaa"));
    file.write_at(&sectors("bbb"), 0).unwrap();
    let seen: BTreeSet<String> = contents(&store, 1).into_iter().map(|c| letters(&c.unwrap())).collect();
    let all = ["aaa", "aab", "aba", "abb", "baa", "bab", "bba", "bbb"];
    assert!(seen.iter().eq(all), "{seen:?}");
    // Before the write there is but one state.
    assert_eq!(contents(&store, 0), [Some(sectors("aaa"))].into());
}

#[test]
fn every_version_of_a_sector_may_survive() {
    let (store, file) = with_file(&sectors("aa"));
    for version in ["bb", "cc", "dd"] {
        file.write_at(&sectors(version), 0).unwrap();
    }
    let seen: BTreeSet<String> = contents(&store, 3).into_iter().map(|c| letters(&c.unwrap())).collect();
    assert_eq!(seen.len(), 16, "{seen:?}");
    // Part of a sector: the version has the bytes around as they were.
    let (store, file) = with_file(&sectors("a"));
    file.write_at(b"x", 0).unwrap();
    file.write_at(b"y", 511).unwrap();
    let ends = |content: Option<Vec<u8>>| {
        let content = content.unwrap();
        (content[0] as char, content[511] as char)
    };
    let seen: BTreeSet<(char, char)> = contents(&store, 2).into_iter().map(ends).collect();
    assert_eq!(seen, [('a', 'a'), ('x', 'a'), ('x', 'y')].into());
}

#[test]
fn synced_content_is_always_there() {
    let (store, file) = with_file(&sectors("aaaa"));
    file.write_at(&sectors("bbbb"), 0).unwrap();
    file.write_at(&sectors("cc"), 4 * SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&store, store.position()), [Some(sectors("bbbbcc"))].into());
    file.write_at(&sectors("d"), 0).unwrap();
    let seen = contents(&store, store.position());
    assert_eq!(seen, [Some(sectors("bbbbcc")), Some(sectors("dbbbcc"))].into());
    // A cut between the writes and the barrier still knows the old content.
    assert!(contents(&store, 2).contains(&Some(sectors("aaaa"))));
    assert_eq!(store.barriers(), [3]);
}

#[test]
fn a_barrier_covers_its_file_alone() {
    let (store, file) = with_file(&sectors("a"));
    let (_, other) = store.root().create(b"other", 0o600).unwrap();
    other.write_at(&sectors("o"), 0).unwrap();
    file.write_at(&sectors("b"), 0).unwrap();
    other.sync_all().unwrap();
    let cut = store.position();
    assert_eq!(contents(&store, cut), [Some(sectors("a")), Some(sectors("b"))].into());
    for seed in 0..SEEDS {
        assert_eq!(read(&*store.image(cut, seed).root(), "other"), Some(sectors("o")));
    }
    store.sync_all().unwrap();
    assert_eq!(contents(&store, store.position()), [Some(sectors("b"))].into());
}

#[test]
fn growth_comes_with_data_without_it_or_not_at_all() {
    let (store, file) = with_file(b"");
    file.write_at(&sectors("ab"), 0).unwrap();
    let seen: BTreeSet<String> = contents(&store, 1).into_iter().map(|c| letters(&c.unwrap())).collect();
    assert!(seen.iter().eq(["", "..", ".b", "a.", "ab"]), "{seen:?}");
    // A long write may stop at any page.
    let (store, file) = with_file(b"");
    file.write_at(&[1; 20_000], 0).unwrap();
    let lengths: BTreeSet<usize> = contents(&store, 1).into_iter().map(|c| c.unwrap().len()).collect();
    assert_eq!(lengths, [0, 4096, 8192, 12288, 16384, 20_000].into());
}

#[test]
fn nothing_lies_in_wait_behind_the_length() {
    let (store, file) = with_file(&[b'a'; 100]);
    file.write_at(&[b'b'; 9_000], 0).unwrap();
    for seed in 0..200 {
        let image = store.image(1, seed);
        let file = image.root().lookup(b"file").unwrap().open(Access::ReadWrite).unwrap();
        let len = file.len().unwrap() as usize;
        file.set_len(20_000).unwrap();
        let content = read(&*image.root(), "file").unwrap();
        assert!(content[len..].iter().all(|&byte| byte == 0), "seed {seed}, length {len}");
    }
}

#[test]
fn cuts_happen_whole_and_in_order() {
    let (store, file) = with_file(&sectors("aaaa"));
    file.set_len(SECTOR as u64).unwrap();
    file.set_len(4 * SECTOR as u64).unwrap();
    let seen: BTreeSet<String> = contents(&store, 2).into_iter().map(|c| letters(&c.unwrap())).collect();
    assert!(seen.iter().eq(["a", "a...", "aaaa"]), "{seen:?}");

    // What is written behind a cut is there only if the cut is.
    let (store, file) = with_file(&sectors("aaaa"));
    file.set_len(0).unwrap();
    file.write_at(&sectors("bb"), 0).unwrap();
    let seen: BTreeSet<String> = contents(&store, 2).into_iter().map(|c| letters(&c.unwrap())).collect();
    assert!(seen.iter().eq(["", "..", ".b", "aaaa", "b.", "bb"]), "{seen:?}");

    // What was written before the cut leaves no trace behind it.
    let (store, file) = with_file(&sectors("aaa"));
    file.write_at(&sectors("bbb"), 0).unwrap();
    file.allocate(AllocateMode::Punch, SECTOR as u64, SECTOR as u64).unwrap();
    let seen: BTreeSet<String> = contents(&store, 2).into_iter().map(|c| letters(&c.unwrap())).collect();
    let middle: BTreeSet<char> = seen.iter().map(|text| text.chars().nth(1).unwrap()).collect();
    assert_eq!(middle, ['.', 'a', 'b'].into());
    assert_eq!(seen.len(), 12, "{seen:?}");
}

#[test]
fn a_cut_inside_a_sector_exposes_no_old_bytes() {
    let (store, file) = with_file(&[b'a'; 1000]);
    file.set_len(600).unwrap();
    file.set_len(1000).unwrap();
    for content in contents(&store, 2) {
        let content = content.unwrap();
        let old = content.iter().filter(|&&byte| byte == b'a').count();
        assert!(content[..600].iter().all(|&byte| byte == b'a'));
        // All the old bytes, or those that were not cut; between them the
        // zeroed sector without the cut.
        assert!(matches!((content.len(), old), (600, 600) | (1000, 600 | 1000)), "{} {old}", content.len());
    }
}

/// Makes a history of directory operations and returns what it looks like
/// after each.
fn directory_history(store: &FaultyStore) -> Vec<Vec<String>> {
    let root = store.root();
    let mut states = vec![names(&root)];
    let mut note = |root: &NodeRef| states.push(names(root));
    root.create(b"a", 0o600).unwrap();
    note(&root);
    let b = root.make_directory(b"b", 0o700).unwrap();
    note(&root);
    root.make_symlink(b"c", b"a").unwrap();
    note(&root);
    root.link(&*root.lookup(b"a").unwrap(), b"d").unwrap();
    note(&root);
    root.rename(b"a", &*b, b"inner", RenameMode::Replace).unwrap();
    note(&root);
    root.remove(b"c").unwrap();
    note(&root);
    states
}

#[test]
fn directory_operations_survive_as_a_prefix() {
    let store = FaultyStore::new(MemoryStore::new());
    let states = directory_history(&store);
    for cut in 0..states.len() {
        let seen: BTreeSet<Vec<String>> =
            (0..500).map(|seed| names(&store.image(cut, seed).root())).collect();
        assert_eq!(seen, states[..=cut].iter().cloned().collect(), "cut {cut}");
    }
    store.root().sync().unwrap();
    for seed in 0..100 {
        let image = store.image(store.position(), seed);
        assert_eq!(names(&image.root()), *states.last().unwrap());
        let inner = image.root().lookup(b"b").unwrap().lookup(b"inner").unwrap();
        assert_eq!(inner.attributes().unwrap().links, 2);
    }
}

#[test]
fn rename_over_is_atomic() {
    let (store, file) = with_file(&sectors("a"));
    file.sync_all().unwrap();
    let root = store.root();
    let (_, new) = root.create(b"new", 0o600).unwrap();
    new.write_at(&sectors("n"), 0).unwrap();
    new.sync_all().unwrap();
    root.rename(b"new", &*root, b"file", RenameMode::Replace).unwrap();
    let cut = store.position();
    let both: BTreeSet<(Option<Vec<u8>>, bool)> = (0..SEEDS)
        .map(|seed| store.image(cut, seed).root())
        .map(|root| (read(&*root, "file"), root.lookup(b"new").is_ok()))
        .collect();
    assert_eq!(both, [(Some(sectors("a")), true), (Some(sectors("n")), false)].into());
    // Without the barrier the new name may show a file of nothing.
    let (store, _file) = with_file(&sectors("a"));
    let root = store.root();
    let (_, new) = root.create(b"new", 0o600).unwrap();
    new.write_at(&sectors("n"), 0).unwrap();
    root.rename(b"new", &*root, b"file", RenameMode::Replace).unwrap();
    let seen = contents(&store, store.position());
    assert_eq!(seen, [Some(vec![]), Some(sectors(".")), Some(sectors("a")), Some(sectors("n"))].into());
}

#[test]
fn exchange_and_whiteout_survive_whole() {
    let (store, _file) = with_file(b"1");
    let root = store.root();
    let (_, second) = root.create(b"second", 0o600).unwrap();
    second.write_at(b"2", 0).unwrap();
    store.sync_all().unwrap();
    root.rename(b"file", &*root, b"second", RenameMode::Exchange).unwrap();
    let pair = |root: NodeRef| (read(&*root, "file"), read(&*root, "second"));
    let seen: BTreeSet<_> = (0..200).map(|seed| pair(store.image(store.position(), seed).root())).collect();
    let (one, two) = (Some(b"1".to_vec()), Some(b"2".to_vec()));
    assert_eq!(seen, [(one.clone(), two.clone()), (two, one)].into());
}

/// Whether a rename before a barrier on a preallocated file may be lost.
fn rename_may_be_lost(model: FileSync, grow: bool, all: bool) -> bool {
    let memory = MemoryStore::new();
    let (_, journal) = memory.root().create(b"journal", 0o600).unwrap();
    journal.allocate(AllocateMode::Extend, 0, 4096).unwrap();
    memory.root().create(b"a", 0o600).unwrap();
    let store = FaultyStore::with_model(memory, model);
    let root = store.root();
    let journal = root.lookup(b"journal").unwrap().open(Access::ReadWrite).unwrap();
    root.rename(b"a", &*root, b"b", RenameMode::Replace).unwrap();
    journal.write_at(&[1; 512], if grow { 4096 } else { 0 }).unwrap();
    if all { journal.sync_all() } else { journal.sync_data() }.unwrap();
    let cut = store.position();
    (0..200).any(|seed| store.image(cut, seed).root().lookup(b"a").is_ok())
}

#[test]
fn barriers_on_files_flush_what_the_model_says() {
    assert!(rename_may_be_lost(FileSync::OwnChanges, false, false));
    assert!(!rename_may_be_lost(FileSync::OwnChanges, true, false));
    assert!(!rename_may_be_lost(FileSync::OwnChanges, false, true));
    assert!(!rename_may_be_lost(FileSync::WholeJournal, false, false));
}

#[test]
fn a_synced_new_file_is_there_with_its_name() {
    for all in [false, true] {
        let store = FaultyStore::new(MemoryStore::new());
        let directory = store.root().make_directory(b"directory", 0o700).unwrap();
        let (_, file) = directory.create(b"file", 0o600).unwrap();
        file.write_at(b"text", 0).unwrap();
        if all { file.sync_all() } else { file.sync_data() }.unwrap();
        for seed in 0..200 {
            let directory = store.image(store.position(), seed).root().lookup(b"directory").unwrap();
            assert_eq!(read(&*directory, "file").unwrap(), b"text");
        }
    }
}

#[test]
fn unlinked_and_unnamed_files_leave_nothing_behind() {
    let (store, file) = with_file(&sectors("a"));
    let root = store.root();
    root.remove(b"file").unwrap();
    file.write_at(&sectors("b"), 0).unwrap();
    file.sync_all().unwrap();
    let (unnamed, opened) = root.create_unnamed(0o600).unwrap();
    opened.write_at(b"made first", 0).unwrap();
    opened.sync_all().unwrap();
    let cut = store.position();
    for seed in 0..100 {
        let image = store.image(cut, seed);
        assert_eq!(names(&image.root()), [""; 0]);
        assert_eq!(image.space().unwrap().files - image.space().unwrap().files_free, 1);
    }
    root.link(&*unnamed, b"named").unwrap();
    let seen: BTreeSet<_> =
        (0..100).map(|seed| read(&*store.image(store.position(), seed).root(), "named")).collect();
    assert_eq!(seen, [None, Some(b"made first".to_vec())].into());
}

#[test]
fn metadata_goes_with_the_directory_operations() {
    let (store, _file) = with_file(b"");
    let node = store.root().lookup(b"file").unwrap();
    let before = node.attributes().unwrap();
    node.set_mode(0o640).unwrap();
    let time = Timestamp { seconds: 9, nanoseconds: 9 };
    node.set_times(SetTime::To(time), SetTime::To(time)).unwrap();
    let look = |seed| {
        let found = store.image(2, seed).root().lookup(b"file").unwrap().attributes().unwrap();
        (found.mode, found.modified)
    };
    let seen: BTreeSet<_> = (0..200).map(look).collect();
    let expected = [(0o600, before.modified), (0o640, before.modified), (0o640, time)];
    assert_eq!(seen, expected.into());
}

#[test]
fn extremes_and_repetition() {
    let store = FaultyStore::new(MemoryStore::new());
    let empty = store.memory().fingerprint();
    directory_history(&store);
    let (_, file) = store.root().create(b"file", 0o600).unwrap();
    file.write_at(&[7; 50_000], 100).unwrap();
    file.set_len(60_000).unwrap();
    let cut = store.position();
    assert_eq!(store.image(cut, NOTHING).fingerprint(), empty);
    assert_eq!(store.image(cut, EVERYTHING).fingerprint(), store.memory().fingerprint());
    for seed in 0..100 {
        assert_eq!(store.image(cut, seed).fingerprint(), store.image(cut, seed).fingerprint());
    }
}

#[test]
fn images_are_stores_of_their_own() {
    let (store, file) = with_file(&sectors("aa"));
    file.write_at(&sectors("b"), 0).unwrap();
    let image = store.image(1, EVERYTHING);
    let written = image.root().lookup(b"file").unwrap().open(Access::ReadWrite).unwrap();
    written.write_at(b"changed", 0).unwrap();
    image.root().create(b"more", 0o600).unwrap();
    assert_eq!(read(&*store.root(), "file"), Some(sectors("ba")));
    assert_eq!(read(&*store.image(1, EVERYTHING).root(), "file"), Some(sectors("ba")));
    // An image can be recorded and cut in its turn.
    let second = FaultyStore::new(image);
    let again = second.root().lookup(b"file").unwrap().open(Access::ReadWrite).unwrap();
    again.write_at(b"recovery", 0).unwrap();
    assert_eq!(read(&*second.image(1, NOTHING).root(), "file").unwrap()[..7], *b"changed");
}

/// Replays a long random history against the rules that hold for any image.
#[test]
fn random_histories_keep_the_rules() {
    let mut state = 1u64;
    let mut random = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut distinct = BTreeSet::new();
    let store = FaultyStore::new(MemoryStore::new());
    let files: Vec<FileRef> =
        (0..4).map(|n| store.root().create(format!("{n}").as_bytes(), 0o600).unwrap().1).collect();
    store.sync_all().unwrap();
    let mut synced: BTreeMap<usize, (usize, Vec<u8>)> = BTreeMap::new();
    for step in 0..300u64 {
        let which = random(4) as usize;
        let file = &files[which];
        match random(8) {
            0 => file.set_len(random(30_000)).unwrap(),
            1 => file.allocate(AllocateMode::Punch, random(20_000), 1 + random(9_000)).unwrap(),
            2 => {
                file.sync_data().unwrap();
                synced.insert(which, (store.position(), read(&*store.root(), &format!("{which}")).unwrap()));
            }
            _ => file.write_at(&vec![step as u8 | 1; 1 + random(9_000) as usize], random(20_000)).unwrap(),
        }
        if let Some((position, content)) = synced.get(&which) {
            // At its barrier, and wherever it was not changed since.
            for seed in 0..16 {
                let image = store.image(*position, seed);
                assert_eq!(read(&*image.root(), &format!("{which}")).as_ref(), Some(content));
            }
        }
        let cut = store.position();
        for seed in 0..32 {
            distinct.insert(store.image(cut, seed).fingerprint());
        }
        let everything = store.image(cut, EVERYTHING);
        assert_eq!(everything.fingerprint(), store.memory().fingerprint(), "step {step}");
    }
    assert!(distinct.len() > 3_000, "{}", distinct.len());
}

#[test]
fn a_name_given_and_taken_again_leads_to_its_inode() {
    let (store, other) = with_file(b"other");
    let root = store.root();
    let (node, file) = root.create_unnamed(0o600).unwrap();
    root.sync().unwrap();
    root.link(&*node, b"named").unwrap();
    let between = store.position();
    root.remove(b"named").unwrap();
    drop((node, file));
    // A barrier that covers neither, after which no reference is left.
    other.write_at(b"again", 0).unwrap();
    other.sync_data().unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        for cut in [between, store.position()] {
            let image = store.image(cut, seed).root();
            let listed = names(&image);
            listed.iter().for_each(|name| drop(image.lookup(name.as_bytes()).unwrap()));
            seen.insert(listed.contains(&"named".to_owned()));
        }
    }
    assert!(seen.len() == 2, "both states are possible");
}
