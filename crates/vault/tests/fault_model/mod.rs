//! The model behind the fault tests: what a user did, which calls failed, and
//! which bytes must be there all the same.
//!
//! Bytes are followed by block. A block is *in doubt* after a call that was to
//! change it failed, until it is written whole again; it may then hold any of
//! the versions that were ever written to it, or be damaged. It is *promised*
//! by a successful sync as long as nothing tries to change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Result, Vault};

use crate::support::{self, options, read, write};

/// Bytes of a block in all fault tests.
pub(crate) const BLOCK: u64 = 4096;

/// A step of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Create(&'static str),
    Write(&'static str, u64, u64),
    Read(&'static str),
    SetLen(&'static str, u64),
    Punch(&'static str, u64, u64),
    Sync(&'static str),
    Close(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    SyncAll,
}

/// What is known of one file.
#[derive(Default)]
struct FileModel {
    current: Vec<u8>,
    versions: Vec<Vec<u8>>,
    doubt: BTreeSet<u64>,
    len_in_doubt: bool,
    /// Content at the last successful sync, and which of its blocks counted.
    synced: Option<(Vec<u8>, BTreeSet<u64>)>,
    touched: BTreeSet<u64>,
    /// Names it may be found under since the names were last made durable.
    aliases: BTreeSet<String>,
    /// Somebody tried to remove it.
    may_be_gone: bool,
}

fn blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / BLOCK..(offset + len).div_ceil(BLOCK)
}

fn block_of(bytes: &[u8], block: u64) -> &[u8] {
    let start = bytes.len().min((block * BLOCK) as usize);
    &bytes[start..bytes.len().min(start + BLOCK as usize)]
}

impl FileModel {
    /// Blocks that a change of `offset..offset + len` touches: the old last
    /// one too when the file grows, since it is sealed again.
    fn touches(&self, offset: u64, len: u64) -> BTreeSet<u64> {
        let old = self.current.len() as u64;
        let mut touched: BTreeSet<u64> = blocks(offset, len).collect();
        if offset + len > old && !old.is_multiple_of(BLOCK) {
            touched.insert(old / BLOCK);
        }
        touched
    }

    fn change(&mut self, bytes: Vec<u8>, touched: BTreeSet<u64>, outcome: &Result<()>) {
        self.versions.push(bytes.clone());
        self.touched.extend(&touched);
        match outcome {
            Ok(()) => self.current = bytes,
            Err(_) => {
                // What lies behind the end is no part of the file.
                let end = (self.current.len() as u64).div_ceil(BLOCK);
                self.doubt.extend(touched.iter().filter(|&&block| block < end));
            }
        }
    }

    fn synced(&mut self) {
        let all = 0..(self.current.len() as u64).div_ceil(BLOCK);
        let sure = all.filter(|block| !self.doubt.contains(block)).collect();
        self.synced = Some((self.current.clone(), sure));
        self.touched.clear();
    }

    fn is_whole(&self) -> bool {
        self.doubt.is_empty() && !self.len_in_doubt
    }
}

/// A file as it was found.
pub(crate) struct Found {
    len: u64,
    blocks: Vec<std::result::Result<Vec<u8>, Error>>,
    damage: usize,
}

/// A vault with its model, on a store that fails.
pub(crate) struct Trial {
    pub(crate) store: FaultyStore,
    engine: Arc<dyn Engine>,
    vault: Option<Vault>,
    files: Vec<FileModel>,
    names: BTreeMap<String, usize>,
    names_in_doubt: BTreeSet<String>,
    open: BTreeMap<String, (u64, Arc<Content>)>,
    failures: usize,
    /// Failed barriers lose what they should have covered.
    loses: bool,
    stamp: u8,
}

pub(crate) fn trial_options() -> OpenOptions {
    OpenOptions { journal_len: 1 << 20, ..options() }
}

fn open_vault(store: Arc<dyn Store>, engine: &Arc<dyn Engine>) -> Result<Vault> {
    support::open_with(store, Arc::clone(engine), &trial_options())
}

impl Trial {
    /// `base` holds a vault without files.
    pub(crate) fn new(base: &MemoryStore, loses: bool, engine: &Arc<dyn Engine>) -> Trial {
        let store = FaultyStore::new(base.snapshot());
        let vault = open_vault(Arc::new(store.clone()), engine).unwrap();
        Trial {
            store,
            engine: Arc::clone(engine),
            vault: Some(vault),
            files: Vec::new(),
            names: BTreeMap::new(),
            names_in_doubt: BTreeSet::new(),
            open: BTreeMap::new(),
            failures: 0,
            loses,
            stamp: 0,
        }
    }

    fn vault(&self) -> &Vault {
        self.vault.as_ref().expect("the vault is open")
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// Does one step. What fails is noted and changes what the model expects.
    pub(crate) fn step(&mut self, step: Step) -> Result<()> {
        let fired = self.store.fired();
        let outcome = match step {
            Step::Create(name) => self.create(name),
            Step::Write(name, offset, len) => self.write(name, offset, len),
            Step::Read(name) => self.read_back(name),
            Step::SetLen(name, len) => self.set_len(name, len),
            Step::Punch(name, offset, len) => self.punch(name, offset, len),
            Step::Sync(name) => self.sync(name),
            Step::Close(name) => {
                self.close(name);
                Ok(())
            }
            Step::Rename(from, to) => self.rename(from, to),
            Step::Remove(name) => self.remove(name),
            Step::SyncAll => self.sync_all(),
        };
        if self.loses && self.store.fired() > fired {
            // Whatever was not yet durable of any file may be what was lost.
            for file in &mut self.files {
                let all = blocks(0, file.current.len() as u64);
                let never = file.synced.is_none();
                file.doubt.extend(all.filter(|block| never || file.touched.contains(block)));
            }
        }
        self.failures += usize::from(outcome.is_err());
        outcome
    }

    fn create(&mut self, name: &str) -> Result<()> {
        if self.names_in_doubt.contains(name) {
            return Ok(());
        }
        let opening = Opening { write: true, ..Opening::default() };
        let made = self.vault().namespace().create(ROOT, name.as_bytes(), &support::CREATION, opening);
        let file = FileModel {
            versions: vec![Vec::new()],
            aliases: BTreeSet::from([name.to_owned()]),
            ..FileModel::default()
        };
        match made {
            Ok((entry, content)) => {
                self.open.insert(name.to_owned(), (entry.number, content));
                self.files.push(file);
                self.names.insert(name.to_owned(), self.files.len() - 1);
                Ok(())
            }
            Err(error) => {
                self.names_in_doubt.insert(name.to_owned());
                Err(error)
            }
        }
    }

    /// The file of a name, if the model knows which it is, and opens it.
    fn file(&mut self, name: &str) -> Result<Option<(usize, Arc<Content>)>> {
        let Some(&number) = self.names.get(name).filter(|_| !self.names_in_doubt.contains(name)) else {
            return Ok(None);
        };
        if !self.open.contains_key(name) {
            let names = self.vault().namespace();
            let entry = names.lookup(ROOT, name.as_bytes())?;
            let opening = Opening { write: true, ..Opening::default() };
            let content = names.open(entry.number, opening);
            if content.is_err() {
                names.forget(entry.number, 1);
            }
            self.open.insert(name.to_owned(), (entry.number, content?));
        }
        Ok(Some((number, Arc::clone(&self.open[name].1))))
    }

    fn write(&mut self, name: &str, offset: u64, len: u64) -> Result<()> {
        let Some((number, content)) = self.file(name)? else { return Ok(()) };
        self.stamp = self.stamp.wrapping_add(1);
        let data: Vec<u8> = (0..len).map(|at| self.stamp ^ (at / 97) as u8).collect();
        let file = &mut self.files[number];
        let touched = file.touches(offset, len);
        let mut bytes = file.current.clone();
        let end = (offset + len) as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(&data);
        let outcome = write(&content, offset, &data);
        if outcome.is_ok() {
            let whole = |block: &u64| {
                offset <= block * BLOCK && (offset + len >= (block + 1) * BLOCK || end == bytes.len())
            };
            for block in blocks(offset, len).filter(whole) {
                file.doubt.remove(&block);
            }
        } else if !file.len_in_doubt {
            assert_eq!(content.plain_len(), file.current.len() as u64, "a failed write changed the length");
        }
        file.change(bytes, touched, &outcome);
        outcome
    }

    fn read_back(&mut self, name: &str) -> Result<()> {
        let Some((number, content)) = self.file(name)? else { return Ok(()) };
        let file = &self.files[number];
        let bytes = support::read_all(&content)?;
        if file.is_whole() {
            assert!(bytes == file.current, "{name} read wrong");
        }
        Ok(())
    }

    fn set_len(&mut self, name: &str, len: u64) -> Result<()> {
        let Some((number, content)) = self.file(name)? else { return Ok(()) };
        let file = &mut self.files[number];
        let old = file.current.len() as u64;
        let mut bytes = file.current.clone();
        bytes.resize(len as usize, 0);
        let touched = blocks(old.min(len) / BLOCK * BLOCK, old.max(len)).collect();
        let outcome = content.set_len(len);
        if outcome.is_ok() {
            file.doubt.retain(|&block| block * BLOCK < len);
            file.len_in_doubt = false;
        } else {
            file.len_in_doubt = true;
        }
        file.change(bytes, touched, &outcome);
        outcome
    }

    fn punch(&mut self, name: &str, offset: u64, len: u64) -> Result<()> {
        let Some((number, content)) = self.file(name)? else { return Ok(()) };
        let file = &mut self.files[number];
        let mut bytes = file.current.clone();
        let end = bytes.len().min((offset + len) as usize);
        let start = end.min(offset as usize);
        bytes[start..end].fill(0);
        let touched = blocks(offset, len).collect();
        let outcome = content.allocate(Allocate::Punch, offset, len);
        file.change(bytes, touched, &outcome);
        outcome
    }

    fn sync(&mut self, name: &str) -> Result<()> {
        let Some((number, content)) = self.file(name)? else { return Ok(()) };
        content.sync()?;
        self.files[number].synced();
        Ok(())
    }

    fn close(&mut self, name: &str) {
        if let Some((number, content)) = self.open.remove(name) {
            drop(content);
            self.vault().namespace().release(number);
            self.vault().namespace().forget(number, 1);
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let doubted = [from, to].iter().any(|name| self.names_in_doubt.contains(*name));
        let Some(&number) = self.names.get(from).filter(|_| !doubted) else { return Ok(()) };
        self.close(from);
        self.close(to);
        let names = self.vault().namespace();
        let outcome = names.rename(ROOT, from.as_bytes(), ROOT, to.as_bytes(), RenameMode::Replace);
        self.files[number].aliases.insert(to.to_owned());
        if let Some(&replaced) = self.names.get(to) {
            self.files[replaced].may_be_gone = true;
        }
        if outcome.is_ok() {
            self.names.remove(from);
            self.names.insert(to.to_owned(), number);
        } else {
            self.names_in_doubt.extend([from.to_owned(), to.to_owned()]);
        }
        outcome
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let Some(&number) = self.names.get(name).filter(|_| !self.names_in_doubt.contains(name)) else {
            return Ok(());
        };
        self.files[number].may_be_gone = true;
        let outcome = self.vault().namespace().remove(ROOT, name.as_bytes());
        if outcome.is_ok() {
            self.names.remove(name);
        } else {
            self.names_in_doubt.insert(name.to_owned());
        }
        self.close(name);
        outcome
    }

    fn sync_all(&mut self) -> Result<()> {
        self.vault().sync()?;
        self.all_synced();
        Ok(())
    }

    fn all_synced(&mut self) {
        for (name, &number) in &self.names {
            let file = &mut self.files[number];
            file.synced();
            if !self.names_in_doubt.contains(name) {
                file.aliases = BTreeSet::from([name.clone()]);
            }
        }
    }

    /// After a failed rename or removal, says what became of the names.
    fn settle_names(&mut self) {
        self.remove_lost();
        for name in std::mem::take(&mut self.names_in_doubt) {
            self.close(&name);
            match self.vault().namespace().lookup(ROOT, name.as_bytes()) {
                Ok(entry) => {
                    self.vault().namespace().forget(entry.number, 1);
                    self.settle_name(name);
                }
                Err(error) if error.is_not_found() => drop(self.names.remove(&name)),
                Err(error) => panic!("{name} after healing: {error}"),
            }
        }
    }

    /// Files that no sync had ever promised may be lost whole by a barrier
    /// that fails: they are gone then, or can be removed.
    fn remove_lost(&mut self) {
        for (name, number) in self.names.clone() {
            let file = &self.files[number];
            if self.loses
                && file.promised().next().is_none()
                && !file.is_whole()
                && let Err(error) = read_file(self.vault(), &name)
                && (error.is_not_found() || matches!(error, Error::Damaged(_)))
            {
                self.close(&name);
                self.names_in_doubt.remove(&name);
                self.names.remove(&name);
                let removed = self.vault().namespace().remove(ROOT, name.as_bytes());
                assert_eq!(removed.is_err_and(|error| error.is_not_found()), error.is_not_found());
            }
        }
    }

    /// Finds out which file stands under a name; one that was being made, or
    /// was in doubt itself, goes.
    fn settle_name(&mut self, name: String) {
        let known = match read_file(self.vault(), &name) {
            Ok(found) => {
                let is_it =
                    |file: &FileModel| file.is_whole() && file.aliases.contains(&name) && file.is(&found);
                self.files.iter().position(is_it)
            }
            Err(error) => panic!("{name} after healing: {error}"),
        };
        match known {
            Some(number) => drop(self.names.insert(name, number)),
            None => {
                self.names.remove(&name);
                self.vault().namespace().remove(ROOT, name.as_bytes()).unwrap();
            }
        }
    }

    /// The store works again: so does the vault.
    pub(crate) fn heal_and_go_on(&mut self) {
        self.store.heal();
        self.settle_names();
        self.check_names(self.vault());
        for name in self.names.keys().cloned().collect::<Vec<_>>() {
            self.rewrite(&name);
        }
        self.create("after").unwrap();
        self.rewrite("after");
        self.check_names(self.vault());
        // Of files that are gone, too.
        let _ = self.sync_all();
        self.sync_all().unwrap();
    }

    /// Replaces the first block of a file, or all of it when in doubt.
    fn rewrite(&mut self, name: &str) {
        let (number, _) = self.file(name).unwrap().expect("a name that is sure");
        let file = &self.files[number];
        if !file.is_whole() {
            let len = file.current.len() as u64;
            let mut zeros = file.current.clone();
            zeros.fill(0);
            self.files[number].versions.push(zeros);
            if len > 0 && !self.files[number].len_in_doubt {
                self.write(name, 0, len).unwrap_or_else(|error| panic!("rewriting {name}: {error}"));
            } else {
                self.set_len(name, 0).unwrap_or_else(|error| panic!("emptying {name}: {error}"));
                self.write(name, 0, BLOCK).unwrap_or_else(|error| panic!("refilling {name}: {error}"));
            }
        } else {
            self.write(name, 0, BLOCK).unwrap_or_else(|error| panic!("writing {name}: {error}"));
        }
        assert!(self.files[number].is_whole(), "{name} was written whole");
        // The first may still tell of a barrier that failed for another.
        let _ = self.sync(name);
        self.sync(name).unwrap_or_else(|error| panic!("syncing {name}: {error}"));
    }

    /// Opens what a power cut would leave now, of seed `seed`.
    pub(crate) fn check_power_cut(&self, seed: u64) {
        let image = self.store.image(self.store.position(), seed);
        let vault = open_vault(Arc::new(image), &self.engine)
            .unwrap_or_else(|error| panic!("after a power cut: {error}"));
        self.check_promises(&vault);
        vault.close().unwrap();
    }

    /// The same for an image after everything has been synced.
    pub(crate) fn check_power_cut_of_synced(&self, seed: u64) {
        let image = self.store.image(self.store.position(), seed);
        let vault = open_vault(Arc::new(image), &self.engine)
            .unwrap_or_else(|error| panic!("after a power cut: {error}"));
        self.check_names(&vault);
        vault.close().unwrap();
    }

    /// Ends cleanly and looks again.
    pub(crate) fn close_and_check(&mut self) {
        for name in self.open.keys().cloned().collect::<Vec<_>>() {
            self.close(&name);
        }
        self.vault.take().expect("open").close().unwrap();
        let vault = open_vault(Arc::new(self.store.clone()), &self.engine).unwrap();
        assert!(!vault.is_settling(), "a clean end lists no crash");
        self.check_names(&vault);
        vault.close().unwrap();
    }

    /// The process dies without a word; the store works again at the next mount.
    pub(crate) fn die_and_check(&mut self) {
        let cut = self.store.position();
        self.open.clear();
        self.vault.take().expect("open").abandon();
        self.store.heal();
        for seed in [strongroom_store::faulty::NOTHING, strongroom_store::faulty::EVERYTHING, cut as u64] {
            self.check_power_cut(seed);
        }
        let vault = open_vault(Arc::new(self.store.clone()), &self.engine).unwrap();
        self.check_promises(&vault);
        vault.settle().unwrap();
        vault.close().unwrap();
        let vault = open_vault(Arc::new(self.store.clone()), &self.engine).unwrap();
        assert!(!vault.is_settling());
        self.check_promises(&vault);
        vault.close().unwrap();
    }

    /// Every name that is sure is there with what was written.
    fn check_names(&self, vault: &Vault) {
        for (name, &number) in self.names.iter().filter(|(name, _)| !self.names_in_doubt.contains(*name)) {
            let file = &self.files[number];
            let found = read_file(vault, name).unwrap_or_else(|error| panic!("{name}: {error}"));
            if file.is_whole() {
                assert_eq!(found.damage, 0, "{name} verifies");
                assert_eq!(found.len, file.current.len() as u64, "length of {name}");
            }
            file.check_promise(name, &found);
            for (block, bytes) in found.blocks.iter().enumerate() {
                let doubted = file.len_in_doubt || file.doubt.contains(&(block as u64));
                file.check_block(name, block as u64, bytes, doubted);
            }
        }
    }

    /// What a successful sync promised is found under some name that the file
    /// had since.
    fn check_promises(&self, vault: &Vault) {
        for file in self.files.iter().filter(|file| file.synced.is_some()) {
            let found: Vec<(&String, Found)> = file
                .aliases
                .iter()
                .filter_map(|name| match read_file(vault, name) {
                    Ok(found) => Some((name, found)),
                    Err(error) if error.is_not_found() => None,
                    Err(error) => panic!("{name}: {error}"),
                })
                .collect();
            let kept = found.iter().any(|(_, found)| file.keeps_promise(found));
            if !kept && !file.may_be_gone {
                found.iter().for_each(|(name, found)| file.check_promise(name, found));
                panic!("{:?} is gone", file.aliases);
            }
        }
    }
}

impl FileModel {
    fn is(&self, found: &Found) -> bool {
        found.len == self.current.len() as u64
            && found.blocks.iter().enumerate().all(|(block, bytes)| {
                bytes.as_ref().is_ok_and(|bytes| *bytes == block_of(&self.current, block as u64))
            })
    }

    fn promised(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.synced.iter().flat_map(|(bytes, sure)| {
            let kept = sure.iter().filter(|block| !self.touched.contains(block));
            kept.map(|&block| (block, block_of(bytes, block)))
        })
    }

    fn keeps_promise(&self, found: &Found) -> bool {
        self.promised().all(|(block, bytes)| {
            found.blocks.get(block as usize).is_some_and(|found| found.as_ref().is_ok_and(|at| at == bytes))
        })
    }

    fn check_promise(&self, name: &str, found: &Found) {
        for (block, bytes) in self.promised() {
            match found.blocks.get(block as usize) {
                Some(Ok(found)) => assert!(found == bytes, "synced block {block} of {name} has changed"),
                Some(Err(error)) => panic!("synced block {block} of {name}: {error}"),
                None => panic!("synced block {block} of {name} is cut off ({} bytes)", found.len),
            }
        }
    }

    fn check_block(
        &self,
        name: &str,
        block: u64,
        found: &std::result::Result<Vec<u8>, Error>,
        doubted: bool,
    ) {
        match found {
            Ok(found) if !doubted => {
                assert!(found == block_of(&self.current, block), "block {block} of {name} is wrong");
            }
            Ok(found) => {
                // A write of a part may have been merged with what the block was before one that is lost.
                let old: Vec<&[u8]> = self.versions.iter().map(|version| block_of(version, block)).collect();
                let is_known = |(at, byte): (usize, &u8)| {
                    old.iter().any(|old| old.get(at).copied().unwrap_or(0) == *byte)
                };
                let known = found.iter().enumerate().all(is_known);
                assert!(known, "block {block} of {name} was never written so");
            }
            Err(Error::Damaged(_)) if doubted => {}
            Err(error) => panic!("block {block} of {name}: {error}"),
        }
    }
}

/// Reads a file block by block; damage of a block is part of what is found.
fn read_file(vault: &Vault, name: &str) -> Result<Found> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes())?;
    let content = names.open(entry.number, Opening::default())?;
    let len = content.plain_len();
    let blocks =
        (0..len.div_ceil(BLOCK)).map(|block| read(&content, block * BLOCK, BLOCK as usize)).collect();
    let damage = content.verify(&mut |_| {})?.damage.len();
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
    Ok(Found { len, blocks, damage })
}

/// A store with a vault without files.
pub(crate) fn base(suite: strongroom_format::vault::Suite) -> MemoryStore {
    let memory = MemoryStore::new();
    support::create(&memory, suite, strongroom_units::BlockSize::MIN);
    memory
}
