//! What the vault's tests share: a vault on any store, with a key file whose
//! slot costs nothing, and a small deterministic generator.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use std::sync::Arc;

use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{Buffer, Engine};
use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{KdfCost, Label};
use strongroom_keys::slots::{NewVault, SlotOptions, create_header};
use strongroom_keys::{Credential, KeyFile, RootKey, unlock_copies};
use strongroom_sched::Scheduler;
use strongroom_store::Store;
use strongroom_units::BlockSize;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Creation, Entry, Namespace, Opening, Owner, ROOT};
use strongroom_vault::{OpenOptions, Result, Vault, read_header_copies};

/// SplitMix64: small, and the same everywhere.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub fn credential() -> Credential {
    Credential::KeyFile(KeyFile::from_content(&[7; 32]).unwrap())
}

/// `STRONGROOM_TEST_ENGINE=unruly` runs every test on an engine that answers
/// from other threads, late, out of order, busy, or never, behind a scheduler
/// that redoes what it lost.
pub fn engine() -> Arc<dyn Engine> {
    match std::env::var("STRONGROOM_TEST_ENGINE").as_deref() {
        Ok("unruly") => unruly(),
        _ => Arc::new(CpuEngine::new()),
    }
}

/// The engine of `STRONGROOM_TEST_ENGINE=unruly`, behind its scheduler.
pub fn unruly() -> Arc<dyn Engine> {
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    let unruly = UnrulyEngine::new(Arc::clone(&cpu), 0x5eed, Faults::lossy());
    Arc::new(Scheduler::fixed(Arc::new(unruly), cpu))
}

pub fn options() -> OpenOptions {
    OpenOptions { writable: true, journal_len: 4 << 20, ..OpenOptions::new(1_700_000_000) }
}

/// Makes a vault.
pub fn create(store: &dyn Store, suite: Suite, block_size: BlockSize) {
    let new = NewVault { suite, block_size, base32_names: false, created: 1_700_000_000 };
    let slot = SlotOptions {
        label: Label::default(),
        created: 1_700_000_000,
        cost: KdfCost::new(8 << 10, 1, 1).unwrap(),
    };
    let (mut header, root) = create_header(&new, &credential(), &slot).unwrap();
    strongroom_vault::create(store, &mut header, &root).unwrap();
}

pub fn unlock(store: &dyn Store) -> (Header, RootKey) {
    let copies = read_header_copies(store).unwrap();
    let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
    unlock_copies(&copies, &credential()).unwrap()
}

pub fn open_with(store: Arc<dyn Store>, engine: Arc<dyn Engine>, options: &OpenOptions) -> Result<Vault> {
    let (header, root) = unlock(&*store);
    Vault::open(store, engine, header, root, options)
}

pub fn open(store: Arc<dyn Store>) -> Vault {
    open_with(store, engine(), &options()).unwrap()
}

pub const CREATION: Creation = Creation { mode: 0o644, umask: 0, owner: Owner { uid: 0, gid: 0 } };

pub fn create_file(names: &Namespace, name: &str) -> (Entry, Arc<Content>) {
    let opening = Opening { write: true, ..Opening::default() };
    names.create(ROOT, name.as_bytes(), &CREATION, opening).unwrap()
}

pub fn write(content: &Content, offset: u64, data: &[u8]) -> Result<()> {
    let mut buffer = Buffer::new(data.len());
    buffer.copy_from_slice(data);
    content.write_at(offset, data.len(), &mut buffer)
}

pub fn read(content: &Content, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = Buffer::new(len);
    let read = content.read_at(offset, len, &mut buffer)?;
    Ok(buffer[..read].to_vec())
}

pub fn read_all(content: &Content) -> Result<Vec<u8>> {
    read(content, 0, content.plain_len() as usize)
}
