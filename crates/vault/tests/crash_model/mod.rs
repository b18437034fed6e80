//! The model behind the crash tests: what a user did, what was promised to be
//! durable, and which states of names and contents a power cut may leave.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Options, Rules, Vault};

use crate::support::{self, Rng, create_file, options, read_all, write};

/// Operations of one history.
const STEPS: usize = 200;
/// Names that files may have.
const NAMES: u64 = 8;

/// A file of the model, by the order of creation.
type FileNumber = usize;
/// Which file stands under which name.
type Names = BTreeMap<String, FileNumber>;

/// A content at some position of the store's log.
struct Version {
    from: usize,
    bytes: Vec<u8>,
}

/// Everything a file has been.
#[derive(Default)]
struct FileHistory {
    versions: Vec<Version>,
    /// Positions from which on the version of that index is promised.
    synced: Vec<(usize, usize)>,
}

/// One history, played on a recording store.
pub(crate) struct Trial {
    store: Arc<FaultyStore>,
    vault: Option<Vault>,
    block_size: BlockSize,
    rng: Rng,
    files: Vec<FileHistory>,
    created_at: Vec<usize>,
    open: BTreeMap<String, (u64, Arc<Content>)>,
    names: Names,
    /// States of the names, each with the position from which it was possible.
    states: Vec<(usize, Names)>,
    /// Positions from which on the state of that index is promised.
    durable: Vec<(usize, usize)>,
    options: Options,
    /// What was done, each with the position it began at: for failures.
    log: Vec<(usize, String)>,
}

impl Trial {
    pub(crate) fn new(seed: u64, rules: Rules) -> Trial {
        let suite = Suite::ALL[(seed % 3) as usize];
        let block_size = BlockSize::from_shift([12, 13, 16][(seed / 3 % 3) as usize]).unwrap();
        let memory = MemoryStore::new();
        support::create(&memory, suite, block_size);
        let store = Arc::new(FaultyStore::new(memory));
        let options = Options { journal_len: 48 * block_size.bytes().max(16 << 10), rules, ..options() };
        let vault =
            support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options).unwrap();
        let start = store.position();
        Trial {
            store,
            vault: Some(vault),
            block_size,
            rng: Rng(seed ^ 0x5eed),
            files: Vec::new(),
            created_at: Vec::new(),
            open: BTreeMap::new(),
            names: Names::new(),
            states: vec![(0, Names::new())],
            durable: vec![(start, 0)],
            options,
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        self.log.push((self.store.position(), what));
    }

    /// The operations before a cut, and what they did to the store.
    fn history_before(&self, cut: usize) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let from = self.log.iter().rposition(|&(at, _)| at <= cut).unwrap_or(0).saturating_sub(30);
        for (index, (at, what)) in self.log.iter().enumerate().skip(from).take(34) {
            let end = self.log.get(index + 1).map_or(self.store.position(), |next| next.0);
            let _ = writeln!(text, "{at}: {what}");
            for event in self.store.events(*at..end) {
                let _ = writeln!(text, "      {event:?}");
            }
        }
        text
    }

    fn vault(&self) -> &Vault {
        self.vault.as_ref().expect("the vault is open")
    }

    pub(crate) fn play(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
    }

    fn step(&mut self) {
        let name = format!("file {}", self.rng.below(NAMES));
        let operation = self.rng.below(40);
        self.note(format!("{operation} {name}"));
        match operation {
            0..=15 => self.write(&name),
            16..=20 => self.sync(&name),
            21..=22 => self.set_len(&name),
            23 => self.punch(&name),
            24..=25 => self.close(&name),
            26..=28 => self.rename(&name),
            29 => self.remove(&name),
            30..=31 => self.sync_names(),
            32 => self.sync_all(),
            33..=34 => self.append_and_sync(&name),
            35 => self.replace(&name),
            36 => self.reopen(),
            _ => self.overwrite(&name),
        }
    }

    fn note_names(&mut self) {
        // The operation is in the log already: the state may be on disk from
        // any of its entries on, so it is listed as of the one before it.
        let position = self.store.position();
        self.states.push((position, self.names.clone()));
    }

    fn file(&mut self, name: &str) -> Option<(FileNumber, Arc<Content>)> {
        let number = *self.names.get(name)?;
        if !self.open.contains_key(name) {
            let entry = self.vault().namespace().lookup(ROOT, name.as_bytes()).unwrap();
            let opening = Opening { write: true, ..Opening::default() };
            let content = self.vault().namespace().open(entry.number, opening).unwrap();
            self.open.insert(name.to_owned(), (entry.number, content));
        }
        Some((number, Arc::clone(&self.open[name].1)))
    }

    fn create(&mut self, name: &str) -> (FileNumber, Arc<Content>) {
        let (entry, content) = create_file(self.vault().namespace(), name);
        self.open.insert(name.to_owned(), (entry.number, Arc::clone(&content)));
        self.files.push(FileHistory::default());
        let number = self.files.len() - 1;
        self.names.insert(name.to_owned(), number);
        self.note_names();
        self.created_at.push(self.states.len() - 1);
        self.note_version(number, Vec::new());
        (number, content)
    }

    fn note_version(&mut self, number: FileNumber, bytes: Vec<u8>) {
        let from = self.store.position();
        self.files[number].versions.push(Version { from, bytes });
    }

    fn latest(&self, number: FileNumber) -> Vec<u8> {
        self.files[number].versions.last().expect("a file has a version").bytes.clone()
    }

    fn change(&mut self, number: FileNumber, content: &Content, offset: u64, data: &[u8]) {
        self.note(format!("  write {} at {offset} to #{number}", data.len()));
        let mut bytes = self.latest(number);
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        self.note_version(number, bytes);
        write(content, offset, data).unwrap();
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.rng.next().to_le_bytes()).take(len as usize).collect()
    }

    fn write(&mut self, name: &str) {
        let (number, content) = match self.file(name) {
            Some(found) => found,
            None => self.create(name),
        };
        let span = self.block_size.bytes() * if self.rng.below(8) == 0 { 300 } else { 6 };
        let offset = self.rng.below(span);
        let len = 1 + self.rng.below(self.block_size.bytes() * 2);
        let data = self.data(len);
        self.change(number, &content, offset, &data);
    }

    fn overwrite(&mut self, name: &str) {
        let Some((number, content)) = self.file(name) else { return };
        let len = self.latest(number).len() as u64;
        if len > 0 {
            let offset = self.rng.below(len);
            let part = (1 + self.rng.below(self.block_size.bytes())).min(len - offset);
            let data = self.data(part);
            self.change(number, &content, offset, &data);
        }
    }

    fn append_and_sync(&mut self, name: &str) {
        let Some((number, content)) = self.file(name) else { return };
        for _ in 0..1 + self.rng.below(3) {
            let len = 1 + self.rng.below(600);
            let data = self.data(len);
            let end = self.latest(number).len() as u64;
            self.change(number, &content, end, &data);
            self.sync(name);
        }
    }

    fn set_len(&mut self, name: &str) {
        let Some((number, content)) = self.file(name) else { return };
        let mut bytes = self.latest(number);
        let len = match self.rng.below(3) {
            0 => 0,
            1 => self.rng.below(bytes.len() as u64 + 1),
            _ => self.rng.below(self.block_size.bytes() * 8),
        };
        bytes.resize(len as usize, 0);
        self.note_version(number, bytes);
        content.set_len(len).unwrap();
    }

    fn punch(&mut self, name: &str) {
        let Some((number, content)) = self.file(name) else { return };
        let mut bytes = self.latest(number);
        let offset = self.rng.below(bytes.len() as u64 + 1);
        let len = 1 + self.rng.below(self.block_size.bytes() * 4);
        let end = bytes.len().min((offset + len) as usize);
        bytes[offset as usize..end].fill(0);
        self.note_version(number, bytes);
        content.allocate(Allocate::Punch, offset, len).unwrap();
    }

    fn sync(&mut self, name: &str) {
        let Some((number, content)) = self.file(name) else { return };
        content.sync().unwrap();
        let position = self.store.position();
        self.promise_file(number, position);
        self.durable.push((position, self.created_at[number]));
    }

    fn promise_file(&mut self, number: FileNumber, position: usize) {
        let file = &mut self.files[number];
        file.synced.push((position, file.versions.len() - 1));
    }

    fn sync_names(&mut self) {
        self.vault().namespace().sync_directory(ROOT).unwrap();
        self.durable.push((self.store.position(), self.states.len() - 1));
    }

    fn sync_all(&mut self) {
        self.vault().sync().unwrap();
        self.promise_all();
    }

    fn promise_all(&mut self) {
        let position = self.store.position();
        self.durable.push((position, self.states.len() - 1));
        for number in self.names.values().copied().collect::<Vec<_>>() {
            self.promise_file(number, position);
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((number, content)) = self.open.remove(name) {
            drop(content);
            self.vault().namespace().release(number);
            self.vault().namespace().forget(number, 1);
        }
    }

    fn rename(&mut self, name: &str) {
        let Some(&number) = self.names.get(name) else { return };
        let to = format!("file {}", self.rng.below(NAMES));
        if to == name {
            return;
        }
        self.close(name);
        self.close(&to);
        let replaces = self.names.contains_key(&to);
        let names = self.vault().namespace();
        names.rename(ROOT, name.as_bytes(), ROOT, to.as_bytes(), RenameMode::Replace).unwrap();
        self.names.remove(name);
        self.names.insert(to, number);
        self.note_names();
        if replaces {
            // Rule 6: whoever sees the name replaced sees the source whole.
            let position = self.states.last().expect("just noted").0;
            let version = self.files[number].versions.len() - 1;
            self.files[number].synced.push((position, version));
        }
    }

    /// What editors do: write aside, sync, rename over.
    fn replace(&mut self, name: &str) {
        let aside = "file aside";
        self.close(aside);
        let (number, content) = self.create(aside);
        let len = 1 + self.rng.below(self.block_size.bytes() * 3);
        let data = self.data(len);
        self.change(number, &content, 0, &data);
        drop(content);
        if self.rng.below(2) == 0 {
            self.sync(aside);
        }
        self.close(aside);
        self.close(name);
        let replaces = self.names.contains_key(name);
        let names = self.vault().namespace();
        names.rename(ROOT, aside.as_bytes(), ROOT, name.as_bytes(), RenameMode::Replace).unwrap();
        self.names.remove(aside);
        self.names.insert(name.to_owned(), number);
        self.note_names();
        if replaces {
            let position = self.states.last().expect("just noted").0;
            self.promise_file(number, position);
        }
    }

    fn remove(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            let keep_open = self.rng.below(2) == 0;
            if !keep_open {
                self.close(name);
            }
            self.vault().namespace().remove(ROOT, name.as_bytes()).unwrap();
            self.note_names();
            self.close(name);
        }
    }

    fn reopen(&mut self) {
        for name in self.open.keys().cloned().collect::<Vec<_>>() {
            self.close(&name);
        }
        self.vault.take().expect("the vault is open").close().unwrap();
        self.promise_all();
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        self.vault = Some(support::open_with(store, support::engine(), &self.options).unwrap());
    }

    /// Without a cut everything is there.
    pub(crate) fn check_end(mut self) -> Result<(), String> {
        self.reopen();
        let position = self.store.position();
        let vault = self.vault.take().expect("the vault is open");
        let found = Found::read(&vault)?;
        let expected: BTreeMap<String, Vec<u8>> =
            self.names.iter().map(|(name, &number)| (name.clone(), self.latest(number))).collect();
        vault.close().map_err(|error| error.to_string())?;
        if found.files != expected {
            return Err(format!("not what was written, at {position}"));
        }
        Ok(())
    }
}

/// A history with its cuts.
pub(crate) struct Campaign {
    trial: Trial,
    rng: Rng,
}

impl Campaign {
    pub(crate) fn new(seed: u64, rules: Rules) -> Campaign {
        let mut trial = Trial::new(seed, rules);
        trial.play();
        if let Some(vault) = &trial.vault {
            vault.abandon();
        }
        Campaign { trial, rng: Rng(seed ^ 0xc07) }
    }

    /// Checks images until `limit` of them were new, or all cuts have been made.
    pub(crate) fn run(mut self, seen: &mut HashSet<u128>, limit: usize) -> Result<(), String> {
        let end = self.trial.store.position();
        let mut cuts: Vec<usize> = self
            .trial
            .store
            .barriers()
            .into_iter()
            .flat_map(|at| [at, at + 1])
            .filter(|&at| at <= end)
            .collect();
        cuts.extend((0..cuts.len()).map(|_| self.rng.below(end as u64 + 1) as usize));
        let mut fresh = 0;
        for round in 0..3u64 {
            for index in 0..cuts.len() {
                let cut = cuts[(index * 7 + round as usize) % cuts.len()];
                let seed = self.rng.below(64);
                let image = self.trial.store.image(cut, seed);
                if !seen.insert(image.fingerprint()) {
                    continue;
                }
                self.check(image, cut).map_err(|fault| {
                    let history = self.trial.history_before(cut);
                    format!("cut {cut}, image {seed}: {fault}\n{history}")
                })?;
                fresh += 1;
                if fresh >= limit {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn check(&mut self, image: MemoryStore, cut: usize) -> Result<(), String> {
        if self.rng.below(4) == 0 {
            let image = self.cut_recovery(image)?;
            return self.check_image(image, cut).map_err(|fault| format!("after a cut recovery: {fault}"));
        }
        self.check_image(image, cut)
    }

    fn check_image(&self, image: MemoryStore, cut: usize) -> Result<(), String> {
        let store: Arc<dyn Store> = Arc::new(image);
        let vault = open(&store)?;
        let found = Found::read(&vault)?;
        self.explain(&found, cut)?;
        use_it(&vault)?;
        vault.settle().map_err(|error| format!("settling: {error}"))?;
        vault.close().map_err(|error| format!("closing: {error}"))?;
        let vault = open(&store)?;
        if vault.is_settling() {
            return Err("a clean vault still lists a crash".into());
        }
        let mut again = Found::read(&vault)?;
        again.files.remove("used");
        vault.close().map_err(|error| format!("closing again: {error}"))?;
        if again == found { Ok(()) } else { Err("the second opening shows something else".into()) }
    }

    /// Cuts the recovery itself, at a random moment.
    fn cut_recovery(&mut self, image: MemoryStore) -> Result<MemoryStore, String> {
        let store = Arc::new(FaultyStore::new(image));
        let vault = open(&(Arc::clone(&store) as Arc<dyn Store>))?;
        if self.rng.below(2) == 0 {
            vault.settle().map_err(|error| format!("settling: {error}"))?;
        }
        vault.abandon();
        let cut = self.rng.below(store.position() as u64 + 1) as usize;
        Ok(store.image(cut, self.rng.below(64)))
    }

    /// Looks for a state of the names, and of every file's content, that the
    /// cut may have left.
    fn explain(&self, found: &Found, cut: usize) -> Result<(), String> {
        let trial = &self.trial;
        let promised = trial.durable.iter().filter(|&&(from, _)| from <= cut).map(|&(_, state)| state).max();
        let promised = promised.unwrap_or(0);
        let mut reasons = Vec::new();
        for (index, (from, names)) in trial.states.iter().enumerate().skip(promised) {
            // The operations of a state that ends behind the cut may be on
            // disk already, for the first such state alone.
            let begun = index == 0 || trial.states[index - 1].0 <= cut;
            if !begun {
                break;
            }
            match self.explain_names(found, names, cut.max(*from)) {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(format!("state {index}: {reason}")),
            }
        }
        Err(format!("no state explains the image: {}", reasons.join("; ")))
    }

    fn explain_names(&self, found: &Found, names: &Names, cut: usize) -> Result<(), String> {
        if !found.files.keys().eq(names.keys()) {
            return Err(format!("names {:?}, not {:?}", found.files.keys(), names.keys()));
        }
        for (name, bytes) in &found.files {
            self.explain_content(names[name], bytes, cut).map_err(|reason| format!("{name}: {reason}"))?;
        }
        Ok(())
    }

    fn explain_content(&self, number: FileNumber, bytes: &[u8], cut: usize) -> Result<(), String> {
        let file = &self.trial.files[number];
        let promised =
            file.synced.iter().filter(|&&(from, _)| from <= cut).map(|&(_, version)| version).max();
        let possible: Vec<&Version> =
            file.versions[promised.unwrap_or(0)..].iter().take_while(|version| version.from <= cut).collect();
        if possible.iter().any(|version| version.bytes == bytes) {
            return Ok(());
        }
        if promised.is_some() {
            let lens: Vec<usize> = possible.iter().map(|version| version.bytes.len()).collect();
            return Err(format!("{} bytes are no version since the last sync, of {lens:?}", bytes.len()));
        }
        // Never synced: shorter or empty, but of blocks that were written.
        let size = self.trial.block_size.bytes() as usize;
        for (index, block) in bytes.chunks(size).enumerate() {
            let start = index * size;
            let known = possible.iter().any(|version| {
                let old = version.bytes.get(start..version.bytes.len().min(start + size)).unwrap_or(&[]);
                old.len() >= block.len() && old[..block.len()] == *block
            });
            if !known {
                return Err(format!("block {index} of a file never synced was never written"));
            }
        }
        Ok(())
    }
}

/// What an image holds.
#[derive(PartialEq)]
struct Found {
    files: BTreeMap<String, Vec<u8>>,
}

impl Found {
    fn read(vault: &Vault) -> Result<Found, String> {
        let names = vault.namespace();
        let listing = names.open_directory(ROOT).map_err(|error| format!("opening the root: {error}"))?;
        let mut listed = Vec::new();
        names
            .read_directory(&listing, 0, &mut |item| {
                listed.push(String::from_utf8_lossy(item.name).into_owned());
                true
            })
            .map_err(|error| format!("listing the root: {error}"))?;
        let mut files = BTreeMap::new();
        for name in listed.into_iter().filter(|name| name != "." && name != "..") {
            let bytes = read_file(vault, &name).map_err(|error| format!("{name}: {error}"))?;
            files.insert(name, bytes);
        }
        Ok(Found { files })
    }
}

fn read_file(vault: &Vault, name: &str) -> Result<Vec<u8>, String> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes()).map_err(|error| format!("lookup: {error}"))?;
    let content = names.open(entry.number, Opening::default()).map_err(|error| format!("open: {error}"))?;
    let bytes = read_all(&content).map_err(|error| format!("read: {error}"))?;
    let verification = content.verify(&mut |_| {}).map_err(|error| format!("verify: {error}"))?;
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
    if !verification.damage.is_empty() {
        return Err(format!("damaged: {:?}", verification.damage));
    }
    Ok(bytes)
}

fn open(store: &Arc<dyn Store>) -> Result<Vault, String> {
    support::open_with(Arc::clone(store), support::engine(), &Options { journal_len: 1 << 20, ..options() })
        .map_err(|error| format!("opening the vault: {error}"))
}

/// The vault is writable at once.
fn use_it(vault: &Vault) -> Result<(), String> {
    let (entry, content) = create_file(vault.namespace(), "used");
    write(&content, 0, b"after the crash").map_err(|error| format!("writing: {error}"))?;
    content.sync().map_err(|error| format!("syncing: {error}"))?;
    drop(content);
    vault.namespace().release(entry.number);
    vault.namespace().forget(entry.number, 1);
    Ok(())
}
