//! A vault at rest, and what somebody with the store but without the keys can
//! do to it: change bytes, move them, move entries. The vault is then looked
//! at through a read-only mount, which opens every file anew.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use strongroom_format::vault::{Geometry, Suite};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, AllocateMode, FileRef, Kind, NodeRef, Store};
use strongroom_units::{BlockSize, GroupIndex};
use strongroom_vault::content::Verification;
use strongroom_vault::namespace::{Entry, Observer, Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Result, Vault};

use crate::support::{self, create_file, options, read, write};

/// Bytes of a block, and of a page.
pub(crate) const BLOCK: usize = 4096;

/// A vault nobody has mounted.
#[derive(Clone)]
pub(crate) struct Resting {
    pub(crate) store: MemoryStore,
    pub(crate) files: BTreeMap<&'static str, Vec<u8>>,
}

/// A file's plain bytes: every block differs from every other.
pub(crate) fn content(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8 ^ seed).collect()
}

pub(crate) fn geometry() -> Geometry {
    Geometry::new(BlockSize::MIN)
}

pub(crate) fn node_at(group: u64) -> u64 {
    geometry().node_offset(GroupIndex(group)).0
}

impl Resting {
    /// A vault with these files, closed cleanly.
    pub(crate) fn with(suite: Suite, files: &[(&'static str, Vec<u8>)]) -> Resting {
        let store = MemoryStore::new();
        support::create(&store, suite, BlockSize::MIN);
        let mut resting = Resting { store, files: BTreeMap::new() };
        for (name, bytes) in files {
            resting.put(name, bytes);
        }
        resting
    }

    /// Writes a file anew, in a session that ends cleanly.
    pub(crate) fn put(&mut self, name: &'static str, bytes: &[u8]) {
        self.change(|vault| {
            let (entry, content) = create_file(vault.namespace(), name);
            content.set_len(0).unwrap();
            write(&content, 0, bytes).unwrap();
            drop(content);
            vault.namespace().release(entry.number);
            vault.namespace().forget(entry.number, 1);
        });
        self.files.insert(name, bytes.to_vec());
    }

    /// Does something in a writing session that ends cleanly.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Vault) -> T) -> T {
        let vault = self.open(&OpenOptions { journal_len: 1 << 20, ..options() }).unwrap();
        let result = change(&vault);
        vault.close().unwrap();
        result
    }

    fn open(&self, options: &OpenOptions) -> Result<Vault> {
        support::open_with(Arc::new(self.store.clone()), support::engine(), options)
    }

    /// A copy that may be attacked.
    pub(crate) fn copy(&self) -> Resting {
        Resting { store: self.store.snapshot(), files: self.files.clone() }
    }

    /// A mount for reading, with what it reports.
    pub(crate) fn mount(&self) -> Mounted {
        let reports = Arc::new(Reports::default());
        let (header, root) = support::unlock(&self.store);
        let observer = Arc::clone(&reports) as Arc<dyn Observer>;
        let options = OpenOptions { writable: false, observer, ..options() };
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let vault = Vault::open(store, support::engine(), header, root, &options).unwrap();
        Mounted { vault, reports }
    }

    /// The stored node of a file or symlink in the top directory.
    pub(crate) fn node(&self, name: &str) -> NodeRef {
        let root = self.store.root();
        root.lookup(&self.stored_name(name)).unwrap()
    }

    pub(crate) fn stored_name(&self, name: &str) -> Vec<u8> {
        let mounted = self.mount();
        let id = mounted.find(name).unwrap().attributes.id;
        let root = self.store.root();
        let entries = root.entries().unwrap().into_iter().map(|entry| entry.name);
        let mut names = entries.filter(|name| name != b".strongroom");
        names.find(|name| root.lookup(name).unwrap().id() == id).unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> Stored {
        Stored(self.node(name).open(Access::ReadWrite).unwrap())
    }
}

/// A stored file in the attacker's hands.
pub(crate) struct Stored(pub(crate) FileRef);

impl Stored {
    pub(crate) fn len(&self) -> u64 {
        self.0.len().unwrap()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.part(0, self.len() as usize)
    }

    pub(crate) fn part(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.0.read_at(&mut bytes, offset).unwrap();
        bytes.truncate(read);
        bytes
    }

    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.0.write_at(bytes, offset).unwrap();
    }

    /// Makes the file hold exactly these bytes.
    pub(crate) fn replace(&self, bytes: &[u8]) {
        self.0.set_len(0).unwrap();
        self.0.write_at(bytes, 0).unwrap();
    }

    pub(crate) fn flip(&self, at: u64) {
        let mut byte = self.part(at, 1);
        byte[0] ^= 1 << (at % 8);
        self.put(at, &byte);
    }

    pub(crate) fn punch(&self, offset: u64, len: u64) {
        self.0.allocate(AllocateMode::Punch, offset, len).unwrap();
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<Error>>);

impl Observer for Reports {
    fn damaged(&self, _number: u64, error: &Error) {
        self.0.lock().unwrap().push(error.clone());
    }
}

/// A read-only mount.
pub(crate) struct Mounted {
    pub(crate) vault: Vault,
    reports: Arc<Reports>,
}

/// What reading a whole file gave.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) len: u64,
    /// Block by block.
    pub(crate) blocks: Vec<Result<Vec<u8>>>,
    pub(crate) whole: Result<Vec<u8>>,
    pub(crate) verification: Verification,
}

impl Mounted {
    pub(crate) fn reports(&self) -> Vec<Error> {
        std::mem::take(&mut self.reports.0.lock().unwrap())
    }

    pub(crate) fn find(&self, path: &str) -> Result<Entry> {
        let names = self.vault.namespace();
        let mut number = ROOT;
        let mut found = None;
        for name in path.split('/') {
            let entry = names.lookup(number, name.as_bytes())?;
            number = entry.number;
            found = Some(entry);
        }
        Ok(found.expect("a path has a name"))
    }

    /// Opens and reads a file in every way.
    pub(crate) fn look(&self, path: &str) -> Result<Seen> {
        let names = self.vault.namespace();
        let entry = self.find(path)?;
        let opened = names.open(entry.number, Opening::default());
        let content = match opened {
            Ok(content) => content,
            Err(error) => {
                names.forget(entry.number, 1);
                return Err(error);
            }
        };
        let len = content.plain_len();
        let count = len.div_ceil(BLOCK as u64);
        let blocks = (0..count).map(|block| read(&content, block * BLOCK as u64, BLOCK)).collect();
        let whole = support::read_all(&content);
        let verification = content.verify(&mut |_| {})?;
        drop(content);
        names.release(entry.number);
        names.forget(entry.number, 1);
        Ok(Seen { len, blocks, whole, verification })
    }

    /// Demands that a file is damaged: an error at open, or reads that fail
    /// and blocks that are right or an error.
    pub(crate) fn demand_damage(&self, path: &str, right: &[u8], what: &str) {
        let seen = match self.look(path) {
            Err(Error::Damaged(_)) => return,
            Err(error) => panic!("{what}: {error}, which is no damage"),
            Ok(seen) => seen,
        };
        assert_eq!(seen.len, right.len() as u64, "{what}: the length");
        let mut damaged = 0;
        for (index, block) in seen.blocks.iter().enumerate() {
            let start = index * BLOCK;
            match block {
                Ok(bytes) => {
                    assert!(bytes == &right[start..right.len().min(start + BLOCK)], "{what}: wrong data");
                }
                Err(Error::Damaged(_)) => damaged += 1,
                Err(error) => panic!("{what}: {error}, which is no damage"),
            }
        }
        assert!(damaged > 0, "{what}: not noticed by reading");
        assert!(matches!(seen.whole, Err(Error::Damaged(_))), "{what}: not noticed by a full read");
        assert_ne!(seen.verification.damage, [], "{what}: not noticed by verifying");
    }

    /// Demands that a file is whole.
    pub(crate) fn demand_whole(&self, path: &str, right: &[u8]) {
        let seen = self.look(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(seen.whole.as_deref() == Ok(right), "{path} reads wrong");
        assert_eq!(seen.verification.damage, []);
    }

    /// Plain names in a directory, without `.` and `..`.
    pub(crate) fn names(&self, directory: u64) -> Result<Vec<String>> {
        let names = self.vault.namespace();
        let mut listed = Vec::new();
        names.read_directory(&names.open_directory(directory)?, 2, &mut |item| {
            listed.push(String::from_utf8_lossy(item.name).into_owned());
            true
        })?;
        listed.sort();
        Ok(listed)
    }
}

/// Stored entries of a kind in a directory, but the vault's own.
pub(crate) fn stored_entries(directory: &NodeRef, kind: Kind) -> Vec<Vec<u8>> {
    let entries = directory.entries().unwrap().into_iter().map(|entry| entry.name);
    entries
        .filter(|name| !name.starts_with(b"."))
        .filter(|name| directory.lookup(name).unwrap().kind() == kind)
        .collect()
}
