//! Masks made ahead change nothing but the time that sealing takes: what is
//! written with them is read without, and no nonce seals twice, whatever is
//! cancelled, renewed, lost or wrong.

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Cross, Decision, Engine, MaskTicket, Masking, Message, Operation,
    Refusal, Refused, Session, SessionError, Ticket,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Faults, Model, SimEngine};
use strongroom_format::vault::Suite;
use strongroom_sched::{Masks, Options, Scheduler, Settings};
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::{MaskCounts, MaskReport, Vault};

use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};
use support::{Rng, create, create_file, open_with, options, read, write};

const SUITES: [Suite; 2] = [Suite::Serpent256Poly1305, Suite::Cascade];
const MIB: usize = 1 << 20;

/// The CPU with a device beside it that makes masks.
fn scheduler(faults: Faults, settings: Settings) -> Arc<Scheduler> {
    let cpu = || Arc::new(CpuEngine::new());
    let model = Model { fixed: Duration::from_micros(20), bytes_per_second: u64::MAX, ..Model::moderate() };
    let device = SimEngine::new(cpu(), model, faults, 7);
    let options = Options { settings, deadline: Duration::from_millis(500), ..Options::default() };
    Arc::new(Scheduler::new(vec![cpu(), Arc::new(device)], Arc::new(ReferenceEngine), options))
}

fn on() -> Settings {
    Settings { masks: Masks::On, check_exponent: 4, ..Settings::default() }
}

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

/// What was ordered to be masked, and what was sealed.
#[derive(Default)]
struct Spent {
    ordered: Mutex<Vec<[u8; 24]>>,
    sealed: Mutex<Vec<[u8; 24]>>,
}

/// An engine that notes every nonce that it is given.
struct Notes {
    inner: Arc<Scheduler>,
    spent: Arc<Spent>,
}

impl Engine for Notes {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        self.inner.capability(algorithm, operation)
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        self.inner.session(algorithm, key)
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        if batch.operation == Operation::Seal {
            self.spent.sealed.lock().unwrap().extend(batch.segments.iter().map(|segment| *segment.nonce()));
        }
        self.inner.submit(session, batch)
    }

    fn flush(&self) {
        self.inner.flush();
    }

    fn buffer(&self, session: &Session, len: usize) -> Buffer {
        self.inner.buffer(session, len)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        self.inner.crossing()
    }

    fn masking(&self) -> Option<&dyn Masking> {
        Some(self)
    }
}

impl Masking for Notes {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        self.spent.ordered.lock().unwrap().extend(messages.iter().map(|message| message.nonce));
        self.inner.order(session, messages)
    }

    fn decide(&self, session: &Session) -> Decision {
        self.inner.decide(session)
    }

    fn version(&self) -> u64 {
        self.inner.version()
    }
}

/// Over renewed sessions, settings that are changed, a store that refuses
/// writes, and mounts that end without a clean end.
#[test]
fn no_nonce_seals_twice() {
    let spent = Arc::new(Spent::default());
    let mut case = Case::new(Suite::Serpent256Poly1305);
    for mount in 0..3 {
        let scheduler = scheduler(Faults { lost_ppm: 50_000, ..Faults::default() }, on());
        let engine = Notes { inner: Arc::clone(&scheduler), spent: Arc::clone(&spent) };
        let vault = case.open(Arc::new(engine));
        case.write(&vault, |round| match round % 12 {
            3 => vault.renew_sessions().expect("random bytes"),
            6 => scheduler.set(Settings { masks: Masks::Off, ..on() }),
            9 => scheduler.set(on()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        });
        assert!(report(&vault).writes.hits > 0, "{:?}", report(&vault));
        vault.sync().expect("a barrier");
        // As after a crash, but for every second one.
        if mount == 1 {
            vault.close().expect("a clean end");
        }
    }
    let sealed = spent.sealed.lock().unwrap();
    let distinct: HashSet<_> = sealed.iter().collect();
    assert_eq!(distinct.len(), sealed.len());
    // Masks for reading are of nonces that sealed before; those for writing of
    // none that had been ordered.
    let ordered = spent.ordered.lock().unwrap();
    assert!(!ordered.is_empty() && sealed.iter().any(|nonce| ordered.contains(nonce)));
}
