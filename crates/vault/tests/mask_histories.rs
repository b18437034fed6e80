//! Random histories with masks: of writes, reads, cuts, removals, renewed
//! sessions, settings that change, stores and engines that fail, devices that
//! are late, lose work, lie or go away, crashes, and copies of a vault that go
//! on apart. Whatever happens, no nonce seals twice under its key, every mask is
//! of the key and nonce that it is used with, what is read was written, and what
//! is held is bounded and given back.

mod mask_model;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::Faults;
use strongroom_format::vault::Suite;
use strongroom_keys::slots::seal_header;
use strongroom_sched::{Masks, Settings};
use strongroom_store::Store;
use strongroom_store::faulty::{Call, EVERYTHING, Effect, FaultyStore, NOTHING, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Vault, write_header};

use mask_model::{Spent, Watched, on};
use support::{Rng, create, create_file, open_with, options, read, unlock, write};

/// Histories of one run.
const HISTORIES: u64 = 60;
/// Operations of one mount.
const STEPS: usize = 50;
const FILES: usize = 3;
/// Bytes that a file has at most.
const LEN_MAX: u64 = 2 << 20;
const EIO: i32 = 5;
/// Bytes that all pools of a mount hold at most (`docs/masks.md`).
const HELD_MAX: usize = 64 << 20;
/// Bytes that a write or read of these tests has at most, with a block more.
const PIECE_MAX: usize = (256 << 10) + (64 << 10);

/// What the files of a vault hold.
#[derive(Clone, Default)]
struct Expected([Option<Vec<u8>>; FILES]);

fn name(file: usize) -> String {
    format!("file {file}")
}

/// One vault, mounted.
struct Mounted {
    store: Arc<FaultyStore>,
    engine: Arc<Watched>,
    vault: Vault,
    open: [Option<(u64, Arc<Content>)>; FILES],
    expected: Expected,
    size: u64,
    rng: Rng,
}

fn device(rng: &mut Rng) -> Faults {
    let none = Faults::default();
    match rng.below(8) {
        0..=3 => none,
        4 => Faults { lost_ppm: 200_000, busy_ppm: 200_000, ..none },
        5 => Faults { stall_ppm: 200_000, stall: Duration::from_millis(20), ..none },
        6 => Faults { wrong_ppm: 50_000, ..none },
        _ => Faults { gone_after: Some(rng.below(12)), ..none },
    }
}

impl Mounted {
    fn new(memory: MemoryStore, expected: Expected, spent: &Arc<Spent>, mut rng: Rng) -> Mounted {
        let store = Arc::new(FaultyStore::new(memory));
        let faults = device(&mut rng);
        // Of a device that lies every mask is checked, or nothing can be promised.
        let check_exponent = if faults.wrong_ppm > 0 { 0 } else { 4 };
        let masks = [Masks::On, Masks::On, Masks::Auto][rng.below(3) as usize];
        let engine = Watched::new(faults, Settings { masks, check_exponent, ..on() }, spent);
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let vault = open_with(shared, Arc::clone(&engine) as Arc<dyn Engine>, &options()).expect("a vault");
        let size = vault.header().block_size.bytes();
        Mounted { store, engine, vault, open: Default::default(), expected, size, rng }
    }

    fn content(&mut self, file: usize) -> Arc<Content> {
        if self.open[file].is_none() {
            let names = self.vault.namespace();
            let (entry, content) = match self.expected.0[file] {
                None => create_file(names, &name(file)),
                Some(_) => {
                    let entry = names.lookup(ROOT, name(file).as_bytes()).expect("the file");
                    let opening = Opening { write: true, ..Opening::default() };
                    let content = names.open(entry.number, opening).expect("it opens");
                    (entry, content)
                }
            };
            self.expected.0[file].get_or_insert_default();
            self.open[file] = Some((entry.number, content));
        }
        Arc::clone(&self.open[file].as_ref().expect("it is open").1)
    }

    fn close(&mut self, file: usize) {
        if let Some((number, content)) = self.open[file].take() {
            drop(content);
            self.vault.namespace().release(number);
            self.vault.namespace().forget(number, 1);
        }
    }

    fn file(&mut self) -> usize {
        self.rng.below(FILES as u64) as usize
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.rng.next().to_le_bytes()).take(len as usize).collect()
    }

    fn bytes(&mut self, file: usize) -> &mut Vec<u8> {
        self.expected.0[file].as_mut().expect("the file is there")
    }

    /// Notes what a write has made of a file.
    fn note(&mut self, file: usize, offset: u64, data: &[u8]) {
        let (start, bytes) = (offset as usize, self.bytes(file));
        bytes.resize(bytes.len().max(start + data.len()), 0);
        bytes[start..start + data.len()].copy_from_slice(data);
    }

    /// Whole blocks somewhere in the first of a file.
    fn whole(&mut self) -> (u64, Vec<u8>) {
        let blocks = 1 + self.rng.below((256 << 10) / self.size);
        let offset = self.rng.below((LEN_MAX >> 1) / self.size) * self.size;
        (offset, self.data(blocks * self.size))
    }

    fn write(&mut self, file: usize, (offset, data): (u64, Vec<u8>)) {
        let content = self.content(file);
        write(&content, offset, &data).expect("a write");
        self.note(file, offset, &data);
    }

    fn write_part(&mut self, file: usize) {
        let offset = self.rng.below(LEN_MAX >> 1);
        let len = 1 + self.rng.below(20_000);
        let data = self.data(len);
        self.write(file, (offset, data));
    }

    fn read(&mut self, file: usize, offset: u64, len: usize) {
        let content = self.content(file);
        let found = read(&content, offset, len).expect("a read");
        let bytes = self.bytes(file);
        let end = bytes.len().min(offset as usize + len);
        assert!(bytes.get(offset as usize..end).unwrap_or_default() == found, "{file} at {offset}, {len}");
    }

    /// In the order in which a kernel reads ahead.
    fn read_in_sequence(&mut self, file: usize) {
        let (len, end) = ([64, 128, 256][self.rng.below(3) as usize] << 10, LEN_MAX);
        (0..end / len).for_each(|at| self.read(file, at * len, len as usize));
    }

    fn set_len(&mut self, file: usize) {
        let len = self.rng.below(LEN_MAX >> 1);
        self.content(file).set_len(len).expect("a length");
        self.bytes(file).resize(len as usize, 0);
    }

    fn punch(&mut self, file: usize) {
        let (offset, len) = (self.rng.below(LEN_MAX >> 1), 1 + self.rng.below(100_000));
        self.content(file).allocate(Allocate::Punch, offset, len).expect("a hole");
        let bytes = self.bytes(file);
        let end = bytes.len().min((offset + len) as usize);
        if let Some(hole) = bytes.get_mut(offset as usize..end) {
            hole.fill(0);
        }
    }

    fn remove(&mut self, file: usize) {
        if self.expected.0[file].is_some() {
            if self.rng.below(2) == 0 {
                self.close(file);
            }
            self.vault.namespace().remove(ROOT, name(file).as_bytes()).expect("it is removed");
            self.close(file);
            self.expected.0[file] = None;
        }
    }

    /// Writes that the store refuses, or whose engine fails; who wrote does it
    /// again, with other data.
    fn fail(&mut self, file: usize) {
        let content = self.content(file);
        self.vault.sync().expect("a barrier");
        for _ in 0..1 + self.rng.below(3) {
            match self.rng.below(3) {
                0 => self.engine.fail_seals(1),
                1 => self.store.fail(Plan::once(self.rng.below(2), EIO).of(Call::Write)),
                _ => {
                    let effect = Effect::PartialWrite { bytes: 3000, errno: EIO };
                    self.store.fail(Plan { call: Some(Call::Write), after: 0, times: 1, effect });
                }
            }
            let (offset, data) = self.whole();
            let _ = write(&content, offset, &data);
            self.engine.fail_seals(0);
            self.store.heal();
            self.await_room(&content, offset, &data);
            let other = self.data(data.len() as u64);
            self.write(file, (offset, other));
        }
        self.vault.sync().or_else(|_| self.vault.sync()).expect("a barrier");
    }

    /// A commit in the background may have met the failure; until the next, who
    /// finds the journal full hears of it.
    fn await_room(&self, content: &Content, offset: u64, data: &[u8]) {
        let until = Instant::now() + Duration::from_secs(30);
        while let Err(error) = write(content, offset, data) {
            assert!(Instant::now() < until, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn step(&mut self) {
        let file = self.file();
        match self.rng.below(40) {
            0..=13 => {
                let whole = self.whole();
                self.write(file, whole);
            }
            14..=17 => self.write_part(file),
            18..=22 => self.read_in_sequence(file),
            23 => {
                let offset = self.rng.below(LEN_MAX);
                self.read(file, offset, 4096);
            }
            24 => self.set_len(file),
            25 => self.punch(file),
            26 => self.remove(file),
            27 => self.close(file),
            28..=30 => self.fail(file),
            31 => self.vault.sync().expect("a barrier"),
            32 => {
                self.vault.renew_sessions().expect("random bytes");
                self.engine.spent.end_session();
            }
            33..=35 => self.set_masks(),
            36 => self.vault.give_back_masks(),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Another setting; nothing is held that is not to be made.
    fn set_masks(&mut self) {
        let masks = [Masks::Off, Masks::On, Masks::On, Masks::Auto][self.rng.below(4) as usize];
        let settings = Settings { masks, ..self.engine.scheduler.settings() };
        self.engine.scheduler.set(settings);
    }

    /// Everything is read, and what is held has its bound.
    fn check(&mut self) {
        for file in 0..FILES {
            let is_there = self.vault.namespace().lookup(ROOT, name(file).as_bytes());
            assert_eq!(is_there.is_ok(), self.expected.0[file].is_some(), "{file}");
            if let Ok(entry) = is_there {
                self.vault.namespace().forget(entry.number, 1);
                self.read_in_sequence(file);
                let len = self.bytes(file).len() as u64;
                assert_eq!(self.content(file).plain_len(), len);
            }
        }
        self.engine.spent.verdict().expect("no nonce and no mask twice");
        assert!(self.engine.held.most() <= HELD_MAX + PIECE_MAX, "{}", self.engine.held.most());
    }

    fn play(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        self.check();
    }

    /// A clean end, a dead daemon, or a power cut; the stores that it goes on
    /// with, more than one where the vault was copied.
    fn end(mut self) -> Ended {
        self.vault.sync().expect("a barrier");
        (0..FILES).for_each(|file| self.close(file));
        let Mounted { store, engine, vault, expected, mut rng, .. } = self;
        let is_clean = rng.below(3) == 0;
        match is_clean {
            true => vault.close().expect("a clean end"),
            false => vault.abandon(),
        }
        drop(vault);
        engine.held.assert_given_back();
        let kept = if rng.below(2) == 0 { EVERYTHING } else { NOTHING };
        let copies = 1 + usize::from(rng.below(3) == 0);
        let stores = (0..copies).map(|_| store.image(store.position(), kept)).collect();
        Ended { stores, expected, is_clean }
    }
}

/// What a mount has left behind.
struct Ended {
    stores: Vec<MemoryStore>,
    expected: Expected,
    is_clean: bool,
}

/// A vault that takes new files under a new generation from now on.
fn rotate(store: &dyn Store) {
    let (mut header, root) = unlock(store);
    header.generation += 1;
    seal_header(&mut header, &root);
    write_header(store, &mut header, &root).expect("a header");
}

fn history(seed: u64, spent: &Arc<Spent>) {
    let mut rng = Rng(seed ^ 0x3a5c);
    let suite = [Suite::Serpent256Poly1305, Suite::Cascade, Suite::Xaes256Gcm, Suite::XChaCha20Poly1305]
        [seed as usize % 4];
    let size = BlockSize::from_shift([12, 13, 16][seed as usize / 4 % 3]).expect("a block size");
    let memory = MemoryStore::new();
    create(&memory, suite, size);
    let mut last = Ended { stores: vec![memory], expected: Expected::default(), is_clean: false };
    for _ in 0..3 {
        let mut ended = Vec::new();
        for memory in last.stores {
            if last.is_clean && rng.below(2) == 0 {
                rotate(&memory);
            }
            let mut mounted = Mounted::new(memory, last.expected.clone(), spent, Rng(rng.next()));
            mounted.check();
            mounted.play();
            ended.push(mounted.end());
        }
        last = ended.swap_remove(rng.below(ended.len() as u64) as usize);
    }
    // Without masks, what was written is what is read.
    let Ended { stores, expected, .. } = last;
    for memory in stores {
        let vault = open_with(Arc::new(memory), Arc::new(CpuEngine::new()), &options()).expect("a vault");
        for file in 0..FILES {
            let found = vault.namespace().lookup(ROOT, name(file).as_bytes()).map(|entry| {
                let content = vault.namespace().open(entry.number, Opening::default()).expect("it opens");
                read(&content, 0, LEN_MAX as usize).expect("a read")
            });
            assert!(found.ok() == expected.0[file], "{file}");
        }
    }
}

#[test]
fn no_mask_and_no_nonce_is_used_twice_whatever_happens() {
    let next = std::sync::atomic::AtomicU64::new(0);
    let masked = std::sync::Mutex::new([0; 2]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= HISTORIES {
                        return;
                    }
                    let spent = Arc::new(Spent::default());
                    let played = std::panic::AssertUnwindSafe(|| history(seed, &spent));
                    if let Err(panic) = std::panic::catch_unwind(played) {
                        eprintln!("in history {seed}");
                        std::panic::resume_unwind(panic);
                    }
                    let mut sum = masked.lock().expect("nobody panicked");
                    sum.iter_mut().zip(spent.masked()).for_each(|(sum, masked)| *sum += masked);
                }
            });
        }
    });
    let masked = masked.into_inner().expect("nobody panicked");
    eprintln!("{masked:?} blocks were sealed and opened with masks");
    assert!(masked.iter().all(|masked| *masked > 1000), "{masked:?}");
}

/// Readers of many files at once, each in sequence: what is ordered ahead for
/// all of them has the bound of the mount.
#[test]
fn what_all_pools_hold_together_is_bounded() {
    const LEN: u64 = 16 << 20;
    const STEP: u64 = 1 << 20;
    let memory = MemoryStore::new();
    create(&memory, Suite::Serpent256Poly1305, BlockSize::from_bytes(1 << 16).expect("a block size"));
    let store: Arc<dyn Store> = Arc::new(memory);
    let spent = Arc::new(Spent::default());
    let engine = Watched::new(Faults::default(), Settings { check_exponent: 10, ..on() }, &spent);
    let vault = open_with(store, Arc::clone(&engine) as Arc<dyn Engine>, &options()).expect("a vault");
    let files: Vec<_> =
        (0..12).map(|file| create_file(vault.namespace(), &format!("reader {file}")).1).collect();
    let data = vec![7; STEP as usize];
    for offset in (0..LEN).step_by(STEP as usize) {
        files.iter().for_each(|content| write(content, offset, &data).expect("a write"));
    }
    for offset in (0..LEN / 2).step_by(256 << 10) {
        for content in &files {
            assert!(read(content, offset, 256 << 10).expect("a read").iter().all(|byte| *byte == 7));
        }
    }
    let most = engine.held.most();
    assert!(most > HELD_MAX / 2, "{most}: the bound is not reached");
    assert!(most <= HELD_MAX + STEP as usize, "{most}");
    engine.scheduler.set(Settings { masks: Masks::Off, ..on() });
    files.iter().for_each(|content| drop(read(content, 0, 4096).expect("a read")));
    vault.give_back_masks();
    drop((files, vault));
    engine.held.assert_given_back();
    spent.verdict().expect("no mask twice");
}

/// Each rule that is left out is caught, in a process of its own.
#[cfg(feature = "planted-faults")]
#[test]
fn a_rule_left_out_is_caught() {
    for rule in ["TakenOnce", "FailedIsSpent", "OfSession", "OfGeneration"] {
        mask_model::assert_caught(rule, "no_mask_and_no_nonce_is_used_twice_whatever_happens");
    }
    mask_model::assert_caught("Bounded", "what_all_pools_hold_together_is_bounded");
}
