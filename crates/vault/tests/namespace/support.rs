//! A vault on each store, and short ways to say what tests do with it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{KdfCost, Label};
use strongroom_keys::slots::{NewVault, SlotOptions, create_header};
use strongroom_keys::{Credential, KeyFile, RootKey, unlock_copies};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{NodeRef, RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Creation, Entry, Namespace, Observer, Opening, Options, Owner, ROOT};
use strongroom_vault::{Error, OpenOptions, Result, Vault as Mounted, read_header_copies};

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("strongroom-namespace-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory for temporary files");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<(u64, Error)>>);

impl Reports {
    pub(crate) fn take(&self) -> Vec<(u64, Error)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Reports {
    fn damaged(&self, number: u64, error: &Error) {
        self.0.lock().unwrap().push((number, error.clone()));
    }
}

pub(crate) const OPTIONS: Options = Options { read_only: false, folding: false, acl: true, owners: true };

/// A mounted vault.
pub(crate) struct Vault {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) reports: Arc<Reports>,
    mounted: Mounted,
    // Dropped last: the store is in it.
    _scratch: Option<Scratch>,
}

fn credential() -> Credential {
    Credential::KeyFile(KeyFile::from_content(&[7; 32]).unwrap())
}

/// Makes the vault.
fn format(store: &dyn Store, folding: bool) {
    let vault = NewVault {
        suite: Suite::Xaes256Gcm,
        block_size: BlockSize::from_shift(12).unwrap(),
        base32_names: folding,
        created: 0,
    };
    let slot = SlotOptions {
        label: Label::new("test").unwrap(),
        created: 0,
        cost: KdfCost::new(KdfCost::MEMORY_MIN, 1, 1).unwrap(),
    };
    let (mut header, root) = create_header(&vault, &credential(), &slot).unwrap();
    strongroom_vault::create(store, &mut header, &root).unwrap();
}

fn unlock(store: &dyn Store) -> (Header, RootKey) {
    let copies = read_header_copies(store).unwrap();
    let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
    unlock_copies(&copies, &credential()).unwrap()
}

/// A new vault in `store`, mounted.
pub(crate) fn on_store(store: Arc<dyn Store>) -> Vault {
    format(&*store, false);
    Vault::on(store, None, OPTIONS)
}

impl Vault {
    fn on(store: Arc<dyn Store>, scratch: Option<Scratch>, options: Options) -> Vault {
        let reports = Arc::new(Reports::default());
        let (header, root) = unlock(&*store);
        let options = OpenOptions {
            writable: !options.read_only,
            acl: options.acl,
            owners: options.owners,
            background: true,
            observer: Arc::clone(&reports) as Arc<dyn Observer>,
            ..OpenOptions::new(0)
        };
        let engine = Arc::new(CpuEngine::new());
        let mounted = Mounted::open(Arc::clone(&store), engine, header, root, &options).unwrap();
        let namespace = Arc::clone(mounted.namespace());
        Vault { store, namespace, reports, mounted, _scratch: scratch }
    }

    /// The same vault mounted anew: nothing is known, nothing is open.
    pub(crate) fn mounted_with(self, options: Options) -> Vault {
        let Vault { store, mounted, _scratch: scratch, .. } = self;
        mounted.close().unwrap();
        drop(mounted);
        Vault::on(store, scratch, options)
    }

    pub(crate) fn remounted(self) -> Vault {
        self.mounted_with(OPTIONS)
    }

    pub(crate) fn find(&self, path: &str) -> Result<Entry> {
        let mut entry = Entry { number: ROOT, generation: 0, attributes: self.namespace.attributes(ROOT)? };
        for name in path.split('/').filter(|name| !name.is_empty()) {
            entry = self.namespace.lookup(entry.number, name.as_bytes())?;
        }
        Ok(entry)
    }

    /// The number of a path that exists.
    pub(crate) fn number(&self, path: &str) -> u64 {
        self.find(path).unwrap_or_else(|error| panic!("{path}: {error}")).number
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        match self.find(path) {
            Ok(_) => true,
            Err(error) if error.is_not_found() => false,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    fn split<'a>(&self, path: &'a str) -> (u64, &'a [u8]) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        (self.number(parent), name.as_bytes())
    }

    /// Creates a file of `len` bytes and closes it.
    pub(crate) fn file(&self, path: &str, len: u64) -> Entry {
        let (parent, name) = self.split(path);
        let exclusive = Opening { write: true, exclusive: true, ..Opening::default() };
        let (entry, content) = self.namespace.create(parent, name, &creation(0o644), exclusive).unwrap();
        content.set_len(len).unwrap();
        self.namespace.release(entry.number);
        entry
    }

    pub(crate) fn directory(&self, path: &str) -> Entry {
        let (parent, name) = self.split(path);
        self.namespace.make_directory(parent, name, &creation(0o755)).unwrap()
    }

    pub(crate) fn symlink(&self, path: &str, target: &[u8]) -> Entry {
        let (parent, name) = self.split(path);
        self.namespace.make_symlink(parent, name, target, &creation(0o777)).unwrap()
    }

    pub(crate) fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let ((parent, name), (to_parent, to_name)) = (self.split(from), self.split(to));
        self.namespace.rename(parent, name, to_parent, to_name, mode)
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let (parent, name) = self.split(path);
        self.namespace.remove(parent, name)
    }

    pub(crate) fn remove_directory(&self, path: &str) -> Result<()> {
        let (parent, name) = self.split(path);
        self.namespace.remove_directory(parent, name)
    }

    pub(crate) fn link(&self, path: &str, to: &str) -> Result<Entry> {
        let (parent, name) = self.split(to);
        self.namespace.link(self.number(path), parent, name)
    }

    /// Opens and closes a file, which checks that it belongs there.
    pub(crate) fn check_open(&self, path: &str) -> Result<u64> {
        let entry = self.find(path)?;
        let content = self.namespace.open(entry.number, Opening::default())?;
        let len = content.plain_len();
        self.namespace.release(entry.number);
        Ok(len)
    }

    /// Plain names in a directory, sorted, without `.` and `..`.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let directory = self.namespace.open_directory(self.number(path)).unwrap();
        let mut names = Vec::new();
        let mut take = |item: strongroom_vault::namespace::directory::Item<'_>| {
            names.push(String::from_utf8(item.name.to_vec()).unwrap());
            true
        };
        self.namespace.read_directory(&directory, 2, &mut take).unwrap();
        names.sort();
        names
    }

    /// A directory of the vault's own.
    pub(crate) fn private(&self, name: &str) -> NodeRef {
        self.store.root().lookup(b".strongroom").unwrap().lookup(name.as_bytes()).unwrap()
    }

    /// Stored names in the stored directory, but for the vault's own.
    pub(crate) fn stored(&self, directory: &NodeRef) -> Vec<Vec<u8>> {
        let entries = directory.entries().unwrap().into_iter().map(|entry| entry.name);
        entries.filter(|name| name != b".strongroom" && name != b".id").collect()
    }
}

pub(crate) const fn creation(mode: u32) -> Creation {
    Creation { mode, umask: 0o022, owner: Owner { uid: 0, gid: 0 } }
}

/// The error number of what must have failed.
pub(crate) fn errno<T>(result: Result<T>) -> i32 {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.errno(),
    }
}

/// Runs a test on a store in memory and on one of this machine.
pub(crate) fn on_both(test: impl Fn(Vault)) {
    on_both_with(OPTIONS, test);
}

pub(crate) fn on_both_with(options: Options, test: impl Fn(Vault)) {
    let scratch = Scratch::new();
    let local = LocalStore::open(&scratch.0, OpenMode::Writable).unwrap();
    let stores: [(Arc<dyn Store>, _); 2] =
        [(Arc::new(MemoryStore::new()), None), (Arc::new(local), Some(scratch))];
    for (store, scratch) in stores {
        format(&*store, options.folding);
        test(Vault::on(store, scratch, options));
    }
}
