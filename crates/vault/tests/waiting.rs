//! Who waits for a device does not keep others from the same file. The device
//! holds one batch back; what others do with the file meanwhile has to end.

mod support;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use strongroom_engine::Engine;
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::{Completion, Faults as SimFaults, Model, SimEngine};
use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::Vault;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};
use support::{read, read_all, write};

const BLOCK: u64 = 4096;
/// Three groups of blocks.
const BLOCKS: u64 = 300;
/// Long enough on a busy machine, in steps of which one at most passes while
/// the whole process stands still.
const STEPS: usize = 60;
const STEP: Duration = Duration::from_millis(500);

struct Trial {
    device: Arc<SimEngine>,
    store: Arc<dyn Store>,
    vault: Vault,
    content: Arc<Content>,
}

/// What the file holds at first.
fn first_byte(offset: u64) -> u8 {
    (offset % 251) as u8
}

impl Trial {
    fn new() -> Trial {
        let model = Model {
            fixed: Duration::ZERO,
            bytes_per_second: 10_000_000_000,
            completion: Completion::Poll,
            ..Model::moderate()
        };
        let device = Arc::new(SimEngine::new(Arc::new(CpuEngine::new()), model, SimFaults::default(), 1));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::from_shift(12).unwrap());
        let vault =
            support::open_with(Arc::clone(&store), Arc::clone(&device) as _, &support::options()).unwrap();
        let (_, content) = support::create_file(vault.namespace(), "file");
        let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(first_byte).collect();
        write(&content, 0, &bytes).unwrap();
        content.sync().unwrap();
        Trial { device, store, vault, content }
    }

    /// The vault opened anew, with nothing of the file in memory.
    fn reopened(self) -> Trial {
        let Trial { device, store, vault, content } = self;
        drop(content);
        vault.close().unwrap();
        let vault =
            support::open_with(Arc::clone(&store), Arc::clone(&device) as _, &support::options()).unwrap();
        let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
        let content =
            vault.namespace().open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
        Trial { device, store, vault, content }
    }

    /// Does `first`, whose first batch is held until `others` is done.
    fn while_held<T: Send>(
        &self,
        first: impl FnOnce(&Content) -> T + Send,
        others: impl FnOnce(&Content) + Send,
    ) -> T {
        let content = &*self.content;
        self.device.hold(1);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || first(content));
            let is_held = (0..STEPS * 50).any(|_| {
                std::thread::sleep(STEP / 50);
                self.device.held() == 1
            });
            let (tells, told) = mpsc::channel();
            scope.spawn(move || {
                others(content);
                tells.send(()).expect("somebody waits for it");
            });
            let ended = (0..STEPS)
                .map(|_| told.recv_timeout(STEP))
                .find(|end| *end != Err(RecvTimeoutError::Timeout));
            self.device.release();
            assert!(is_held, "no batch was held");
            assert_eq!(ended, Some(Ok(())), "others wait for a batch that is not theirs");
            first.join().unwrap()
        })
    }
}

#[test]
fn others_read_and_write_while_one_reads() {
    let trial = Trial::new();
    let found = trial.while_held(
        |content| read(content, 10, 100).unwrap(),
        |content| {
            assert_eq!(read(content, 200 * BLOCK, 5).unwrap()[0], first_byte(200 * BLOCK));
            write(content, 201 * BLOCK, &[1; 4096]).unwrap();
            write(content, 202 * BLOCK + 7, &[2; 10]).unwrap();
            // The very block that is being read.
            write(content, 20, &[3; 10]).unwrap();
            content.sync().unwrap();
        },
    );
    let expected: Vec<u8> = (10..110).map(first_byte).collect();
    assert_eq!(found, expected, "it is what stood there when it was read");
    assert_eq!(read(&trial.content, 20, 10).unwrap(), [3; 10]);
}

#[test]
fn others_read_and_write_while_one_merges() {
    let trial = Trial::new();
    trial.while_held(
        |content| write(content, 5 * BLOCK + 100, &[1; 50]).unwrap(),
        |content| {
            assert_eq!(read(content, 6 * BLOCK, 1).unwrap(), [first_byte(6 * BLOCK)]);
            write(content, 7 * BLOCK + 100, &[2; 50]).unwrap();
            // Other bytes of the same block.
            write(content, 5 * BLOCK + 200, &[3; 50]).unwrap();
        },
    );
    let mut expected: Vec<u8> = (0..BLOCK).map(|at| first_byte(5 * BLOCK + at)).collect();
    expected[100..150].fill(1);
    expected[200..250].fill(3);
    assert_eq!(read(&trial.content, 5 * BLOCK, BLOCK as usize).unwrap(), expected, "no write is lost");
    assert_eq!(read(&trial.content, 7 * BLOCK + 100, 50).unwrap(), [2; 50]);
}

#[test]
fn others_read_and_write_while_one_seals_behind_the_end() {
    let trial = Trial::new();
    let end = BLOCKS * BLOCK;
    trial.while_held(
        |content| write(content, end + 10, &[1; 100]).unwrap(),
        |content| {
            assert_eq!(read(content, 9 * BLOCK, 1).unwrap(), [first_byte(9 * BLOCK)]);
            // The file has another length when the first write comes to it.
            write(content, end + 2 * BLOCK + 5, &[2; 5]).unwrap();
        },
    );
    let mut expected = vec![0; 2 * BLOCK as usize + 10];
    expected[10..110].fill(1);
    expected[2 * BLOCK as usize + 5..].fill(2);
    assert_eq!(read(&trial.content, end, expected.len() + 100).unwrap(), expected);
}

#[test]
fn one_appends_while_another_does() {
    let trial = Trial::new();
    let append = |content: &Content, byte: u8| {
        content.append(100, &mut strongroom_engine::Buffer::copy_of(&[byte; 100])).unwrap()
    };
    let mut second = 0;
    let first = trial.while_held(|content| append(content, 1), |content| second = append(content, 2));
    assert_eq!((first, second), (BLOCKS * BLOCK + 100, BLOCKS * BLOCK));
    let found = read(&trial.content, BLOCKS * BLOCK, 1000).unwrap();
    assert_eq!(found, [[2; 100], [1; 100]].concat());
}

#[test]
fn others_read_and_write_while_one_loads_pages() {
    let trial = Trial::new().reopened();
    let last = (BLOCKS - 1) * BLOCK;
    let found = trial.while_held(
        |content| read(content, last, 1).unwrap(),
        |content| {
            assert_eq!(read(content, 140 * BLOCK, 1).unwrap(), [first_byte(140 * BLOCK)]);
            write(content, 5 * BLOCK + 1, &[1; 3]).unwrap();
        },
    );
    assert_eq!(found, [first_byte(last)]);
    let mut expected: Vec<u8> = (0..BLOCKS * BLOCK).map(first_byte).collect();
    expected[5 * BLOCK as usize + 1..][..3].fill(1);
    assert!(read_all(&trial.content).unwrap() == expected);
    let Trial { device, store, vault, content } = trial;
    drop(content);
    vault.close().unwrap();
    let lending = device.lending();
    assert_eq!((lending.out, lending.is_clean), (0, true), "lent memory comes back, wiped");
    assert!(lending.batches > 0);
    drop(store);
}

/// The last block, which becomes longer, is of a group that is not in memory.
#[test]
fn a_file_grows_that_was_just_opened() {
    let trial = Trial::new();
    let end = BLOCKS * BLOCK;
    write(&trial.content, end, &[1; 100]).unwrap();
    trial.content.sync().unwrap();
    let trial = trial.reopened();
    write(&trial.content, end + 2 * BLOCK + 5, &[2; 5]).unwrap();
    let mut expected = vec![0; 2 * BLOCK as usize + 10];
    expected[..100].fill(1);
    expected[2 * BLOCK as usize + 5..].fill(2);
    assert_eq!(read(&trial.content, end, 3 * BLOCK as usize).unwrap(), expected);
}

/// Threads write to ranges of their own that share blocks, and append; nothing
/// of any is lost, though each merges what it saw before it had the lock.
#[test]
fn writes_to_shared_blocks_are_all_there() {
    const THREADS: usize = 4;
    const RANGE: usize = 700;
    let engine: Arc<dyn Engine> =
        Arc::new(UnrulyEngine::new(Arc::new(CpuEngine::new()), 3, Faults::harmless()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::XChaCha20Poly1305, BlockSize::from_shift(12).unwrap());
    let vault = support::open_with(Arc::clone(&store), engine, &support::options()).unwrap();
    let (_, content) = support::create_file(vault.namespace(), "shared");
    let (_, log) = support::create_file(vault.namespace(), "log");
    write(&content, 0, &[0; 4 * 4096]).unwrap();
    let last: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let (content, log) = (&*content, &*log);
        let threads = (0..THREADS).map(|thread| {
            scope.spawn(move || {
                let mut rng = support::Rng(thread as u64);
                let mut own = vec![0; RANGE];
                for round in 0..120u8 {
                    let from = rng.below(RANGE as u64 - 1) as usize;
                    let len = 1 + rng.below((RANGE - from) as u64) as usize;
                    own[from..from + len].fill(round);
                    // Ranges stand side by side, some of them over the edge of a block.
                    let at = (3500 + thread * RANGE + from) as u64;
                    write(content, at, &vec![round; len]).unwrap();
                    let record = [thread as u8 + 1; 33];
                    log.append(record.len(), &mut strongroom_engine::Buffer::copy_of(&record)).unwrap();
                    if round % 40 == 0 {
                        content.sync().unwrap();
                    }
                }
                own
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (thread, own) in last.iter().enumerate() {
        let found = read(&content, (3500 + thread * RANGE) as u64, RANGE).unwrap();
        assert!(found == *own, "thread {thread} lost a write");
    }
    let log = read_all(&log).unwrap();
    assert_eq!(log.len(), THREADS * 120 * 33);
    let records =
        log.chunks(33).map(|record| record.iter().all(|byte| *byte == record[0]).then_some(record[0]));
    let records: Option<Vec<u8>> = records.collect();
    let records = records.expect("records are whole");
    for thread in 1..=THREADS as u8 {
        assert_eq!(records.iter().filter(|record| **record == thread).count(), 120);
    }
}
