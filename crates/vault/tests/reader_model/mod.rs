//! A writer and a reader of one vault, taking turns at random, and the states
//! that every file has been in.
//!
//! A file consists of sectors of 512 bytes, each filled with the number of the
//! change that wrote it. So a read tells which changes it has seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Result, Vault, Writers};

use crate::support::{self, Rng, options, read, write};

const SECTOR: usize = 512;

/// `ESTALE`, which reading a removed file may give.
const STALE: Error = Error::Refused(116);

/// Names that files have.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Writes sectors, from that number on.
pub(crate) fn write_sectors(content: &Content, from: usize, stamps: &[u64]) -> Result<()> {
    let bytes: Vec<u8> = stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(SECTOR / 8)).collect();
    write(content, (from * SECTOR) as u64, &bytes)
}

/// Reads up to `len` sectors: the number that each is filled with.
pub(crate) fn read_sectors(content: &Content, from: usize, len: usize) -> Result<Vec<u64>> {
    let bytes = read(content, (from * SECTOR) as u64, len * SECTOR)?;
    assert!(bytes.len().is_multiple_of(SECTOR), "a file ends inside a sector");
    let stamps = bytes.chunks(SECTOR).map(|sector| {
        let stamp = &sector[..8];
        assert!(sector.chunks(8).all(|part| part == stamp), "a sector is of two changes");
        u64::from_le_bytes(stamp.try_into().expect("eight bytes"))
    });
    Ok(stamps.collect())
}

/// Every state that a file has been in, the first of them empty.
struct History {
    states: Vec<Arc<Vec<u64>>>,
    /// The last that is known to be committed.
    committed: usize,
    /// Some state of it is.
    durable: bool,
    removed: bool,
}

impl History {
    fn synced(&mut self) {
        self.committed = self.states.len() - 1;
        self.durable = true;
    }
}

/// A file that the reader has open: the history's number, and the state that
/// was committed when it was opened.
struct Opened {
    file: usize,
    since: usize,
    number: u64,
    content: Arc<Content>,
}

pub(crate) struct Trial {
    store: Arc<dyn Store>,
    /// The same as the reader sees it.
    reading: Arc<dyn Store>,
    options: OpenOptions,
    sectors: u64,
    rng: Rng,
    writer: Option<Vault>,
    reader: Vault,
    files: Vec<History>,
    names: BTreeMap<&'static str, usize>,
    /// What the writer has open.
    handles: BTreeMap<usize, (u64, Arc<Content>)>,
    opened: Vec<Opened>,
    stamp: u64,
    /// Reads that were compared.
    pub(crate) checked: u64,
    seed: u64,
}

impl Trial {
    pub(crate) fn new(seed: u64) -> Trial {
        let suite = Suite::ALL[(seed / 3 % Suite::ALL.len() as u64) as usize];
        let block_size = BlockSize::from_shift([12, 13, 16][(seed % 3) as usize]).expect("a size");
        let memory = MemoryStore::new();
        let store: Arc<dyn Store> = Arc::new(memory.clone());
        let reading = match seed % 2 {
            0 => Arc::clone(&store),
            _ => Arc::new(FaultyStore::distant(memory)),
        };
        support::create(&*store, suite, block_size);
        let options = OpenOptions { journal_len: 48 * block_size.bytes().max(16 << 10), ..options() };
        let reader = open_reader(&reading, Writers::MayCome);
        let mut trial = Trial {
            store,
            reading,
            options,
            sectors: 300 * block_size.bytes().min(16 << 10) / SECTOR as u64,
            rng: Rng(seed ^ 0xbe51de),
            writer: None,
            reader,
            files: Vec::new(),
            names: BTreeMap::new(),
            handles: BTreeMap::new(),
            opened: Vec::new(),
            stamp: 0,
            checked: 0,
            seed,
        };
        trial.open_writer();
        trial
    }

    pub(crate) fn play(&mut self, steps: usize) {
        for step in 0..steps {
            match self.rng.below(100) {
                0..55 => self.change(),
                55..70 => self.sync(),
                70..74 => self.move_or_remove(),
                74 => self.end(true),
                75 => self.end(false),
                76..92 => self.open(),
                92..99 => self.close(),
                _ => {
                    self.opened.clear();
                    self.reader = open_reader(&self.reading, Writers::Present);
                }
            }
            self.read(step);
        }
    }

    fn writer(&self) -> &Vault {
        self.writer.as_ref().expect("the writer is there between steps")
    }

    fn open_writer(&mut self) {
        let opened = support::open_with(Arc::clone(&self.store), support::engine(), &self.options);
        self.writer = Some(opened.expect("the writer opens the vault"));
    }

    /// A file by one of the names, created where there is none.
    fn some_file(&mut self) -> (usize, Arc<Content>) {
        let name = NAMES[self.rng.below(NAMES.len() as u64) as usize];
        let file = match self.names.get(name) {
            Some(&file) => file,
            None => {
                let (entry, content) = support::create_file(self.writer().namespace(), name);
                let empty =
                    History { states: vec![Arc::default()], committed: 0, durable: false, removed: false };
                self.files.push(empty);
                let file = self.files.len() - 1;
                self.names.insert(name, file);
                self.handles.insert(file, (entry.number, content));
                file
            }
        };
        if !self.handles.contains_key(&file) {
            let names = self.writer().namespace();
            let entry = names.lookup(ROOT, name.as_bytes()).expect("it is there");
            let content = names.open(entry.number, crate::WRITING).expect("it opens");
            self.handles.insert(file, (entry.number, content));
        }
        (file, Arc::clone(&self.handles[&file].1))
    }

    /// The writer's next state of a file, known before it can be committed.
    fn next_state(&mut self, file: usize, change: impl FnOnce(&mut Vec<u64>)) -> Arc<Vec<u64>> {
        let history = &mut self.files[file];
        let mut state = history.states.last().expect("never empty").to_vec();
        change(&mut state);
        history.states.push(Arc::new(state));
        Arc::clone(history.states.last().expect("just pushed"))
    }

    fn change(&mut self) {
        let (file, content) = self.some_file();
        self.stamp += 1;
        let stamp = self.stamp;
        let len = self.files[file].states.last().expect("never empty").len() as u64;
        let from = match self.rng.below(3) {
            0 => len,
            1 => self.rng.below(len.max(1)),
            _ => self.rng.below(self.sectors),
        } as usize;
        let most = if self.rng.below(4) == 0 { 300 } else { 20 };
        let count = 1 + self.rng.below(most) as usize;
        match self.rng.below(10) {
            0 => {
                let state = self.next_state(file, |state| state.resize(from, 0));
                content.set_len((state.len() * SECTOR) as u64).expect("it can be cut");
            }
            1 => {
                self.next_state(file, |state| {
                    let end = (from + count).min(state.len());
                    state[from.min(end)..end].fill(0);
                });
                let (from, count) = ((from * SECTOR) as u64, (count * SECTOR) as u64);
                content.allocate(Allocate::Punch, from, count).expect("it can be punched");
            }
            _ => {
                self.next_state(file, |state| {
                    state.resize(state.len().max(from + count), 0);
                    state[from..from + count].fill(stamp);
                });
                write_sectors(&content, from, &vec![stamp; count]).expect("it can be written");
            }
        }
    }

    fn sync(&mut self) {
        if self.rng.below(4) == 0 {
            self.writer().sync().expect("the vault can be synced");
            self.files.iter_mut().for_each(History::synced);
        } else {
            let (file, content) = self.some_file();
            content.sync().expect("a file can be synced");
            self.files[file].synced();
        }
    }

    fn release(&mut self, file: usize) {
        if let Some((number, content)) = self.handles.remove(&file) {
            drop(content);
            self.writer().namespace().release(number);
            self.writer().namespace().forget(number, 1);
        }
    }

    fn move_or_remove(&mut self) {
        let [from, to] = [0, 1].map(|_| NAMES[self.rng.below(NAMES.len() as u64) as usize]);
        let Some(&file) = self.names.get(from) else { return };
        let replaced = match self.rng.below(3) {
            0 => {
                self.writer().namespace().remove(ROOT, from.as_bytes()).expect("it can be removed");
                self.names.remove(from)
            }
            _ if from == to => return,
            _ => {
                let names = self.writer().namespace();
                names
                    .rename(ROOT, from.as_bytes(), ROOT, to.as_bytes(), RenameMode::Replace)
                    .expect("it can be renamed");
                self.names.remove(from);
                self.names.insert(to, file)
            }
        };
        if let Some(replaced) = replaced {
            self.files[replaced].removed = true;
            self.release(replaced);
        }
        if self.rng.below(2) == 0 {
            self.release(file);
        }
    }

    /// The writer ends, cleanly or not, and another comes.
    fn end(&mut self, cleanly: bool) {
        let files: Vec<usize> = self.handles.keys().copied().collect();
        if cleanly {
            files.into_iter().for_each(|file| self.release(file));
            self.writer().close().expect("it closes");
            self.files.iter_mut().for_each(History::synced);
            self.writer = None;
        } else {
            self.writer().abandon();
            self.handles.clear();
            self.writer = None;
            // Nobody is there: what was committed is seen all the same.
            self.open();
            self.read(usize::MAX);
        }
        self.open_writer();
        if !cleanly {
            self.open();
            self.read(usize::MAX);
            self.writer().settle().expect("it settles");
            self.take_over();
        }
    }

    /// After a crash every file is in a state that it was in since the last
    /// commit, and goes on from there.
    fn take_over(&mut self) {
        for (name, file) in self.names.clone() {
            let names = self.writer().namespace();
            let entry = match names.lookup(ROOT, name.as_bytes()) {
                Err(error) if error.is_not_found() && !self.files[file].durable => {
                    self.files[file].removed = true;
                    self.names.remove(name);
                    continue;
                }
                entry => entry.expect("it is there"),
            };
            let content = names.open(entry.number, crate::WRITING).expect("it opens");
            let found = read_sectors(&content, 0, self.sectors as usize * 2).expect("it is whole");
            names.release(entry.number);
            names.forget(entry.number, 1);
            let history = &mut self.files[file];
            assert!(
                history.states[history.committed..].iter().any(|state| **state == found),
                "history {}: {name} was recovered as it never was",
                self.seed
            );
            history.states.push(Arc::new(found));
            history.synced();
        }
    }

    /// The reader opens a file, and is told its length.
    fn open(&mut self) {
        let name = NAMES[self.rng.below(NAMES.len() as u64) as usize];
        let names = self.reader.namespace();
        let entry = match (names.lookup(ROOT, name.as_bytes()), self.names.get(name)) {
            (Ok(entry), Some(_)) => entry,
            (Err(error), None) if error.is_not_found() => return,
            // A crash takes what was never durable.
            (Err(error), Some(&file)) if error.is_not_found() && !self.files[file].durable => return,
            (found, known) => panic!("history {}: {name}: {found:?}, {known:?}", self.seed),
        };
        let file = self.names[name];
        let history = &self.files[file];
        let since = history.committed;
        let told = entry.attributes.len as usize;
        let is_len = |state: &Arc<Vec<u64>>| state.len() * SECTOR == told;
        assert!(history.states[since..].iter().any(is_len), "history {}: {name}: {told} bytes", self.seed);
        let content = names.open(entry.number, Opening::default());
        let content = content.unwrap_or_else(|error| panic!("history {}: opening: {error}", self.seed));
        self.opened.push(Opened { file, since, number: entry.number, content });
        if self.opened.len() > 12 {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.opened.is_empty() {
            let opened = self.opened.swap_remove(self.rng.below(self.opened.len() as u64) as usize);
            drop(opened.content);
            self.reader.namespace().release(opened.number);
            self.reader.namespace().forget(opened.number, 1);
        }
    }

    /// The reader reads a part of a file that it has open.
    fn read(&mut self, step: usize) {
        if self.opened.is_empty() {
            return;
        }
        let opened = &self.opened[self.rng.below(self.opened.len() as u64) as usize];
        let from = self.rng.below(self.sectors) as usize;
        let len = 1 + self.rng.below(self.sectors) as usize;
        let (from, len) = if self.rng.below(3) == 0 { (0, self.sectors as usize * 2) } else { (from, len) };
        let history = &self.files[opened.file];
        match read_sectors(&opened.content, from, len) {
            Ok(read) => {
                let is = |state: &Arc<Vec<u64>>| {
                    state[from.min(state.len())..(from + len).min(state.len())] == read[..]
                };
                let known = &history.states[opened.since..];
                assert!(
                    known.iter().any(is),
                    "history {}, step {step}: sectors {from}.. of file {} as they never were: {:?}\n{:#?}",
                    self.seed,
                    opened.file,
                    runs(&read),
                    known.iter().map(|state| runs(state)).collect::<Vec<_>>()
                );
                self.checked += 1;
            }
            Err(error) if history.removed => assert_eq!(error, STALE),
            Err(error) => panic!("history {}, step {step}: file {}: {error}", self.seed, opened.file),
        }
    }
}

/// What a file holds, shortly: numbers of sectors, and with what they are filled.
fn runs(state: &[u64]) -> String {
    let runs = state.chunk_by(|a, b| a == b).map(|run| format!("{}*{}", run.len(), run[0]));
    runs.collect::<Vec<_>>().join(" ")
}

fn open_reader(store: &Arc<dyn Store>, writers: Writers) -> Vault {
    let options = OpenOptions { writable: false, writers, ..options() };
    let opened = support::open_with(Arc::clone(store), support::engine(), &options);
    opened.unwrap_or_else(|error| panic!("a reader opens the vault: {error}"))
}
