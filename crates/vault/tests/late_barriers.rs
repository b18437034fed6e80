//! One file under random changes, closed and opened again and again, while barriers take their time, and
//! commits and new times come in between: every opening has to find it, and every reading what was written,
//! also after the end.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{SetTime, Store};
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Changes, Opening, ROOT};
use strongroom_vault::{OpenOptions, Vault};
use support::Rng;

struct Exercise {
    vault: Arc<Vault>,
    number: u64,
    content: Arc<Content>,
    model: Vec<u8>,
    random: Rng,
    len_max: u64,
    op_max: u64,
}

impl Exercise {
    fn run(&mut self, operations: usize) {
        for operation in 0..operations {
            let what = self.random.below(60);
            let len = 1 + self.random.below(self.op_max);
            let offset = self.random.below(self.len_max - len);
            match what {
                0..=9 => self.reopen(operation),
                10..=19 => self.write(offset, len),
                20..=29 => self.read(operation),
                30..=36 => self.set_len(offset + len),
                37..=39 => self.set_len(offset.min(self.model.len() as u64)),
                40..=44 => self.punch(offset, len),
                45..=48 => self.reserve(offset, len),
                49..=50 => self.content.sync().unwrap(),
                51 => self.content.sync_data().unwrap(),
                52..=54 => self.append(len % 5000 + 1),
                _ => self.write(offset, len % 9000 + 1),
            }
        }
    }

    fn write(&mut self, offset: u64, len: u64) {
        let byte = self.random.below(255) as u8 + 1;
        // The kernel writes back in several requests at once.
        let part = len.div_ceil(1 + self.random.below(3));
        std::thread::scope(|scope| {
            for at in (0..len).step_by(part as usize) {
                let data = vec![byte; part.min(len - at) as usize];
                let content = &self.content;
                scope.spawn(move || support::write(content, offset + at, &data).unwrap());
            }
        });
        let end = (offset + len) as usize;
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset as usize..end].fill(byte);
    }

    fn append(&mut self, len: u64) {
        let offset = self.model.len() as u64;
        if offset + len <= self.len_max {
            self.write(offset, len);
        }
    }

    fn read(&mut self, operation: usize) {
        assert_eq!(self.content.plain_len(), self.model.len() as u64, "operation {operation}");
        let found = support::read_all(&self.content).unwrap();
        assert!(found == self.model, "operation {operation}");
    }

    fn set_len(&mut self, len: u64) {
        self.content.set_len(len).unwrap();
        self.model.resize(len as usize, 0);
    }

    fn punch(&mut self, offset: u64, len: u64) {
        self.content.allocate(Allocate::Punch, offset, len).unwrap();
        let end = ((offset + len) as usize).min(self.model.len());
        if (offset as usize) < end {
            self.model[offset as usize..end].fill(0);
        }
    }

    fn reserve(&mut self, offset: u64, len: u64) {
        self.content.allocate(Allocate::Reserve { keep_len: false }, offset, len).unwrap();
        self.model.resize(self.model.len().max((offset + len) as usize), 0);
    }

    /// The kernel gives a handle back when it likes, before or after the next opening.
    fn reopen(&mut self, operation: usize) {
        let opening = Opening { write: true, ..Opening::default() };
        let delay = self.random.below(3);
        let (names, number) = (self.vault.namespace(), self.number);
        self.content = std::thread::scope(|scope| {
            let release = scope.spawn(move || names.release(number));
            if delay > 0 {
                std::thread::sleep(Duration::from_micros(delay * 200));
            }
            let opened = names.open(number, opening);
            release.join().expect("it releases");
            opened.unwrap_or_else(|error| panic!("operation {operation}: {error}"))
        });
    }
}

fn exercise(seed: u64, shift: u8, late: u64, operations: usize) {
    let memory = MemoryStore::new();
    let block_size = BlockSize::from_shift(shift).unwrap();
    support::create(&memory, Suite::Xaes256Gcm, block_size);
    let store = Arc::new(FaultyStore::injecting(memory));
    for call in [Call::SyncData, Call::SyncAll] {
        store.fail(Plan { call: Some(call), after: 0, times: u64::MAX, effect: Effect::Late(late) });
    }
    let options = OpenOptions { journal_len: 16 << 20, background: true, ..support::options() };
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let vault = Arc::new(support::open_with(shared, support::engine(), &options).unwrap());
    let (entry, content) = support::create_file(vault.namespace(), "file");
    let len_max = 4 * block_size.bytes().max(1 << 16);
    let mut exercise = Exercise {
        number: entry.number,
        content,
        model: Vec::new(),
        random: Rng(seed),
        len_max,
        op_max: len_max / 8,
        vault: Arc::clone(&vault),
    };
    let stopping = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stopping.load(Ordering::Relaxed) {
                vault.sync().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (names, number) = (Arc::clone(vault.namespace()), exercise.number);
        let stopped = &stopping;
        scope.spawn(move || {
            let changes = Changes { modified: SetTime::Now, ..Changes::NONE };
            while !stopped.load(Ordering::Relaxed) {
                assert!(names.attributes(number).unwrap().len <= len_max);
                names.set_attributes(number, &changes).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        exercise.run(operations);
        stopping.store(true, Ordering::Relaxed);
    });
    let Exercise { content, model, number, .. } = exercise;
    drop(content);
    vault.namespace().release(number);
    vault.close().unwrap();
    let again = support::open(store as Arc<dyn Store>);
    let entry = again.namespace().lookup(ROOT, b"file").unwrap();
    let content = again.namespace().open(entry.number, Opening::default()).unwrap();
    assert!(support::read_all(&content).unwrap() == model, "seed {seed}, after the end");
}

#[test]
fn a_file_is_found_at_each_opening() {
    for (seed, shift, late) in [(1, 20, 10), (2, 20, 1), (3, 12, 5), (4, 12, 1)] {
        exercise(seed, shift, late, 150);
    }
}
