//! Masks made ahead change nothing but the time that sealing takes: what is
//! written with them is read without, and no nonce seals twice, whatever is
//! cancelled, renewed, lost or wrong.

mod mask_model;
mod support;

use std::sync::Arc;
use std::time::Duration;

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::Faults;
use strongroom_format::vault::Suite;
use strongroom_sched::{Masks, Settings};
use strongroom_store::Store;
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::{MaskCounts, MaskReport, Vault};

use mask_model::{Spent, Watched, on, scheduler};
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};
use support::{Rng, create, create_file, open_with, options, read, write};

const SUITES: [Suite; 2] = [Suite::Serpent256Poly1305, Suite::Cascade];
const MIB: usize = 1 << 20;

/// A store of one suite, and what its file holds.
struct Case {
    store: Arc<MemoryStore>,
    expected: Vec<u8>,
    rng: Rng,
}

impl Case {
    fn new(suite: Suite) -> Case {
        let store = Arc::new(MemoryStore::new());
        create(&*store, suite, BlockSize::from_bytes(4096).expect("a block size"));
        Case { store, expected: Vec::new(), rng: Rng(11) }
    }

    fn open(&self, engine: Arc<dyn Engine>) -> Vault {
        open_with(Arc::clone(&self.store) as Arc<dyn Store>, engine, &options()).expect("a vault")
    }

    /// Writes in pieces, aligned and not, and reads all of it back.
    fn write(&mut self, vault: &Vault, between: impl Fn(usize)) {
        let content = match self.expected.is_empty() {
            true => create_file(vault.namespace(), "file").1,
            false => opened(vault),
        };
        for round in 0..60 {
            between(round);
            let whole = round % 3 != 2;
            let (offset, len) = match whole {
                true => (self.rng.below(96) * 65_536, 131_072),
                false => (self.rng.below(6 * MIB as u64), 1 + self.rng.below(20_000)),
            };
            let piece: Vec<u8> = (0..len).map(|_| self.rng.next() as u8).collect();
            write(&content, offset, &piece).expect("a write");
            let end = offset as usize + piece.len();
            self.expected.resize(self.expected.len().max(end), 0);
            self.expected[offset as usize..end].copy_from_slice(&piece);
        }
        assert!(read_all(&content) == self.expected);
    }

    fn check(&self, vault: &Vault) {
        let content = opened(vault);
        for _ in 0..3 {
            assert!(read_all(&content) == self.expected);
        }
    }
}

fn opened(vault: &Vault) -> Arc<Content> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, b"file").expect("the file");
    names.open(entry.number, Opening { write: true, ..Opening::default() }).expect("the file opens")
}

/// In pieces, as a kernel reads ahead.
fn read_all(content: &Content) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < content.plain_len() as usize {
        all.extend(read(content, all.len() as u64, 131_072).expect("a read"));
    }
    all
}

fn report(vault: &Vault) -> MaskReport {
    vault.masks().expect("a device makes masks")
}

#[test]
fn what_is_written_with_masks_is_read_without_and_the_other_way_round() {
    for suite in SUITES {
        let mut case = Case::new(suite);
        let vault = case.open(scheduler(Faults::default(), on()));
        case.write(&vault, |_| std::thread::sleep(Duration::from_millis(1)));
        assert!(report(&vault).writes.hits > 0, "{:?}", report(&vault));
        vault.close().expect("a clean end");
        let vault = case.open(Arc::new(CpuEngine::new()));
        assert!(vault.masks().is_none());
        case.check(&vault);
        case.write(&vault, |_| ());
        vault.close().expect("a clean end");
        let vault = case.open(scheduler(Faults::default(), on()));
        case.check(&vault);
        assert!(report(&vault).reads.hits > 0, "{:?}", report(&vault));
        vault.give_back_masks();
        vault.close().expect("a clean end");
    }
}

/// A device that is wrong, loses work, stalls or goes away gives no wrong byte
/// while every mask is checked.
#[test]
fn a_device_that_fails_spoils_nothing() {
    let none = Faults::default();
    let faults = [
        Faults { wrong_ppm: 200_000, ..none },
        Faults { lost_ppm: 300_000, busy_ppm: 300_000, ..none },
        Faults { stall_ppm: 300_000, stall: Duration::from_millis(700), ..none },
        Faults { gone_after: Some(20), ..none },
    ];
    for fault in faults {
        let mut case = Case::new(Suite::Serpent256Poly1305);
        let engine = scheduler(fault, Settings { check_exponent: 0, ..on() });
        let vault = case.open(Arc::clone(&engine) as Arc<dyn Engine>);
        case.write(&vault, |_| ());
        case.check(&vault);
        vault.close().expect("a clean end");
        let vault = case.open(Arc::new(CpuEngine::new()));
        case.check(&vault);
        let device = &engine.statistics().engines[1];
        let is_wrong = fault.wrong_ppm > 0;
        assert_eq!(device.mismatches > 0, is_wrong, "{fault:?}");
        assert!(is_wrong || device.lost > 0, "{fault:?}: {device:?}");
    }
}

#[test]
fn a_wrong_mask_ends_masks_for_the_mount() {
    let mut case = Case::new(Suite::Cascade);
    let engine = scheduler(
        Faults { wrong_ppm: 1_000_000, ..Faults::default() },
        Settings { check_exponent: 0, ..on() },
    );
    let vault = case.open(engine);
    case.write(&vault, |_| std::thread::sleep(Duration::from_millis(1)));
    let report = report(&vault);
    assert!(!report.decision.is_on && report.held == 0, "{report:?}");
    assert_eq!((report.writes.hits, report.reads.hits), (0, 0));
}

/// Where the CPU encrypts as fast as it XORs, `auto` orders nothing, holds nothing
/// and counts nothing.
#[test]
fn masks_that_do_not_pay_are_not_there() {
    for suite in [Suite::Xaes256Gcm, Suite::XChaCha20Poly1305] {
        let mut case = Case::new(suite);
        let vault = case.open(scheduler(Faults::default(), Settings { masks: Masks::Auto, ..on() }));
        case.write(&vault, |_| ());
        case.check(&vault);
        let report = report(&vault);
        assert!(!report.decision.is_on && report.held == 0, "{report:?}");
        assert_eq!([report.writes, report.reads], [MaskCounts::default(); 2]);
    }
}

/// Over renewed sessions, settings that are changed, a device that loses work,
/// and mounts that end without a clean end.
#[test]
fn no_nonce_seals_twice() {
    let spent = Arc::new(Spent::default());
    let mut case = Case::new(Suite::Serpent256Poly1305);
    // A device that loses an order early is done without for as long as such a mount lasts.
    for mount in 0..30 {
        if mount >= 3 && spent.masked()[0] > 0 {
            break;
        }
        let engine = Watched::new(Faults { lost_ppm: 50_000, ..Faults::default() }, on(), &spent);
        let vault = case.open(Arc::clone(&engine) as Arc<dyn Engine>);
        case.write(&vault, |round| match round % 12 {
            3 => {
                vault.renew_sessions().expect("random bytes");
                spent.end_session();
            }
            6 => engine.scheduler.set(Settings { masks: Masks::Off, ..on() }),
            9 => engine.scheduler.set(on()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        });
        vault.sync().expect("a barrier");
        // As after a crash, but for every second one.
        if mount == 1 {
            vault.close().expect("a clean end");
        }
    }
    spent.verdict().expect("no nonce twice");
    // Whether reads found some is a matter of time.
    assert!(spent.masked()[0] > 0, "{:?}", spent.masked());
}

const BLOCK: u64 = 4096;
/// Bytes of a write that is cancelled, and of those around it.
const PIECE: usize = 64 << 10;
const EIO: i32 = 5;

/// A file on a store that fails on demand, on an engine that does.
struct Cancelling {
    store: Arc<FaultyStore>,
    engine: Arc<Watched>,
    spent: Arc<Spent>,
    vault: Vault,
    content: Arc<Content>,
    expected: Vec<u8>,
    rng: Rng,
}

impl Cancelling {
    /// One that has been written long enough for masks to be there, and synced.
    fn new(suite: Suite) -> Cancelling {
        let memory = MemoryStore::new();
        create(&memory, suite, BlockSize::from_bytes(BLOCK).expect("a block size"));
        let (store, spent) = (Arc::new(FaultyStore::injecting(memory)), Arc::new(Spent::default()));
        let engine = Watched::new(Faults::default(), on(), &spent);
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let vault = open_with(shared, Arc::clone(&engine) as Arc<dyn Engine>, &options()).expect("a vault");
        let content = create_file(vault.namespace(), "file").1;
        let expected = Vec::new();
        let mut case = Cancelling { store, engine, spent, vault, content, expected, rng: Rng(5) };
        case.go_on(40);
        case.vault.sync().expect("a barrier");
        case
    }

    fn piece(&mut self) -> Vec<u8> {
        (0..PIECE).map(|_| self.rng.next() as u8).collect()
    }

    /// Writes that are whole and succeed, and take masks; the file is read back.
    fn go_on(&mut self, writes: usize) {
        for round in 0..writes {
            let offset = (round % 16) * PIECE;
            let piece = self.piece();
            write(&self.content, offset as u64, &piece).expect("a write");
            self.expected.resize(self.expected.len().max(offset + PIECE), 0);
            self.expected[offset..offset + PIECE].copy_from_slice(&piece);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(read_all(&self.content) == self.expected);
    }

    /// Bytes that writes have found masks for.
    fn hits(&self) -> u64 {
        report(&self.vault).writes.hits
    }

    /// A write that has taken masks, and that is to fail.
    fn cancelled(&mut self, rounds: usize) {
        let before = self.hits();
        for round in 0..rounds {
            let piece = self.piece();
            write(&self.content, (round * PIECE) as u64, &piece).expect_err("a write that is cancelled");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(self.hits() > before, "what is cancelled had masks");
    }

    /// What follows takes masks, and none of what was cancelled.
    fn end(mut self) {
        let before = self.hits();
        self.go_on(40);
        assert!(self.hits() > before);
        self.vault.close().expect("a clean end");
        self.spent.verdict().expect("what was cancelled is spent");
        let Cancelling { vault, content, engine, .. } = self;
        drop((content, vault));
        engine.held.assert_given_back();
    }
}

/// The store refuses what was sealed, all of it or in the middle.
#[test]
fn masks_of_writes_that_the_store_refuses_are_spent() {
    for suite in SUITES {
        let mut case = Cancelling::new(suite);
        for effect in [Effect::Fails(EIO), Effect::PartialWrite { bytes: 5000, errno: EIO }] {
            case.store.fail(Plan { call: Some(Call::Write), after: 0, times: u64::MAX, effect });
            case.cancelled(6);
            case.store.heal();
        }
        case.end();
    }
}

/// The engine has sealed, and its answer is that it is lost.
#[test]
fn masks_of_writes_that_the_engine_fails_are_spent() {
    for suite in SUITES {
        let mut case = Cancelling::new(suite);
        case.engine.fail_seals(6);
        case.cancelled(6);
        case.end();
    }
}

/// While a write is being sealed, its file is cut, or goes.
#[test]
fn masks_of_writes_whose_file_changes_meanwhile_are_spent() {
    for suite in SUITES {
        let mut case = Cancelling::new(suite);
        for round in 0..6 {
            let content = Arc::clone(&case.content);
            let len = [0, 10 * BLOCK + 7][round % 2];
            case.engine.during_next_seal(move || content.set_len(len).expect("it is cut"));
            let piece = case.piece();
            write(&case.content, PIECE as u64, &piece).expect("a write");
            case.expected.truncate(len as usize);
            case.expected.resize(PIECE, 0);
            case.expected.extend(&piece);
            assert!(read_all(&case.content) == case.expected);
            case.go_on(16);
        }
        let names = Arc::clone(case.vault.namespace());
        case.engine.during_next_seal(move || names.remove(ROOT, b"file").expect("it is removed"));
        case.go_on(1);
        case.content = create_file(case.vault.namespace(), "another").1;
        case.expected.clear();
        case.end();
    }
}

/// Each rule that is left out fails the test that is to show it: in a process of
/// its own, since it is left out for all of one.
#[cfg(feature = "planted-faults")]
#[test]
fn a_rule_left_out_is_caught() {
    for test in [
        "masks_of_writes_that_the_store_refuses_are_spent",
        "masks_of_writes_that_the_engine_fails_are_spent",
    ] {
        mask_model::assert_caught("FailedIsSpent", test);
    }
    mask_model::assert_caught("TakenOnce", "masks_of_writes_whose_file_changes_meanwhile_are_spent");
    mask_model::assert_caught("OfSession", "no_nonce_seals_twice");
}
