//! What the tests of masks share: a device that makes them beside the CPU, and
//! an engine before both that watches what they are used for.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Completed, Cross, Decision, Engine, MaskMemory, MaskTicket,
    Masking, Message, Operation, Outcome, Refusal, Refused, Segment, Session, SessionError, StoredNonce,
    Ticket, client,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Faults, Model, SimEngine};
use strongroom_sched::{Masks, Options, Scheduler, Settings};

/// How long a promise of masks is kept at most.
const LONG: Duration = Duration::from_secs(3600);

/// The CPU with a device beside it that makes masks.
pub fn scheduler(faults: Faults, settings: Settings) -> Arc<Scheduler> {
    let cpu = || Arc::new(CpuEngine::new());
    let model = Model { fixed: Duration::from_micros(20), bytes_per_second: u64::MAX, ..Model::moderate() };
    let device = SimEngine::new(cpu(), model, faults, 7);
    // Where nothing stalls, a slow machine shall not look as if it did.
    let stalls = faults.stall_ppm > 0 || faults.gone_after.is_some();
    let deadline = if stalls { Duration::from_millis(500) } else { Duration::from_secs(60) };
    let options = Options { settings, deadline, ..Options::default() };
    Arc::new(Scheduler::new(vec![cpu(), Arc::new(device)], Arc::new(ReferenceEngine), options))
}

/// Masks are made, and one in 16 is checked.
pub fn on() -> Settings {
    Settings { masks: Masks::On, check_exponent: 4, ..Settings::default() }
}

/// A key, by its place among all that were seen, with a nonce.
type Used = (usize, [u8; 24]);

#[derive(Default)]
struct Seen {
    keys: HashMap<Vec<u8>, usize>,
    /// Masks that were ordered before anything was sealed under the nonce.
    ordered: HashSet<Used>,
    sealed: HashSet<Used>,
    /// Masks of sessions that have ended.
    void: HashSet<Used>,
    masked: [usize; 2],
    faults: Vec<String>,
}

/// What nonces were used for, of all mounts of one vault and its copies.
#[derive(Default)]
pub struct Spent(Mutex<Seen>);

impl Spent {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, key: &[u8]) -> usize {
        let mut seen = self.seen();
        let next = seen.keys.len();
        *seen.keys.entry(key.to_vec()).or_insert(next)
    }

    /// A nonce that sealed nothing yet is ordered for a write, and only once.
    fn order(&self, key: usize, messages: &[Message]) {
        let mut seen = self.seen();
        for used in messages.iter().map(|message| (key, message.nonce)) {
            if !seen.sealed.contains(&used) && !seen.ordered.insert(used) {
                seen.faults.push(format!("a mask of {used:02x?} was ordered twice"));
            }
        }
    }

    fn seal(&self, key: usize, nonces: &[[u8; 24]]) {
        let mut seen = self.seen();
        for used in nonces.iter().map(|nonce| (key, *nonce)) {
            if !seen.sealed.insert(used) {
                seen.faults.push(format!("{used:02x?} sealed twice"));
            }
            if seen.void.contains(&used) {
                seen.faults.push(format!("{used:02x?} is of a session that has ended"));
            }
        }
    }

    /// The session has been renewed: what was ordered under it seals nothing more.
    pub fn end_session(&self) {
        let seen = &mut *self.seen();
        seen.void.extend(seen.ordered.difference(&seen.sealed));
    }

    fn brought(&self, key: usize, operation: Operation, nonce: [u8; 24]) {
        let mut seen = self.seen();
        let is_seal = operation == Operation::Seal;
        seen.masked[usize::from(!is_seal)] += 1;
        if is_seal && !seen.ordered.contains(&(key, nonce)) {
            seen.faults.push(format!("a mask of {nonce:02x?} that nobody ordered was taken"));
        }
    }

    /// What was sealed under, under any key.
    pub fn sealed(&self) -> HashSet<[u8; 24]> {
        self.seen().sealed.iter().map(|(_, nonce)| *nonce).collect()
    }

    /// Blocks that were sealed and opened with a mask.
    pub fn masked(&self) -> [usize; 2] {
        self.seen().masked
    }

    /// # Errors
    /// What must not happen, if it did.
    pub fn verdict(&self) -> Result<(), String> {
        self.seen().faults.first().map_or(Ok(()), |fault| Err(fault.clone()))
    }
}

/// Bytes of masks that are ordered, made, or taken and not used yet.
#[derive(Default)]
pub struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Held {
    pub fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// That nothing is held soon: threads of a vault that is gone may still be
    /// on their way.
    pub fn assert_given_back(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.now() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.now(), 0, "masks that nobody can use are held");
    }
}

/// A part of [`Held`].
struct Share(Arc<Held>, usize);

impl Share {
    fn new(held: &Arc<Held>, bytes: usize) -> Share {
        let now = held.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        held.most.fetch_max(now, Ordering::SeqCst);
        Share(Arc::clone(held), bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.now.fetch_sub(self.1, Ordering::SeqCst);
    }
}

struct Counted {
    memory: Box<dyn MaskMemory>,
    _share: Share,
}

impl MaskMemory for Counted {
    fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a seal that is under way gives time for.
type During = Box<dyn FnOnce() + Send>;

/// An engine before the scheduler: it notes every nonce, counts what is held,
/// and holds every second mask that is brought against the key and nonce of its
/// segment, which is then computed without.
pub struct Watched {
    pub scheduler: Arc<Scheduler>,
    pub spent: Arc<Spent>,
    pub held: Arc<Held>,
    checker: CpuEngine,
    brought: AtomicUsize,
    failing: Mutex<Option<(ThreadId, u32)>>,
    during: Mutex<Option<(ThreadId, During)>>,
    /// Masks are compared: the device is not one that makes wrong ones.
    compares: bool,
}

/// The scheduler's session, and one to check masks with.
struct Own {
    key: usize,
    inner: Session,
    checker: Session,
}

impl Watched {
    pub fn new(faults: Faults, settings: Settings, spent: &Arc<Spent>) -> Arc<Watched> {
        Arc::new(Watched {
            scheduler: scheduler(faults, settings),
            spent: Arc::clone(spent),
            held: Arc::default(),
            checker: CpuEngine::new(),
            brought: AtomicUsize::new(0),
            failing: Mutex::new(None),
            during: Mutex::new(None),
            compares: faults.wrong_ppm == 0 || settings.check_exponent == 0,
        })
    }

    /// So many seals to come of this thread are computed, and answered as lost.
    pub fn fail_seals(&self, count: u32) {
        *locked(&self.failing) = Some((thread::current().id(), count));
    }

    /// Has something done while the next batch of this thread is being sealed:
    /// a commit of another holds locks meanwhile.
    pub fn during_next_seal(&self, what: impl FnOnce() + Send + 'static) {
        *locked(&self.during) = Some((thread::current().id(), Box::new(what)));
    }

    fn own<'s>(&self, session: &'s Session) -> &'s Own {
        session.state().expect("a session of this engine")
    }

    fn look_at(&self, own: &Own, operation: Operation, algorithm: Algorithm, segment: &mut Segment) {
        self.spent.brought(own.key, operation, *segment.nonce());
        if !self.compares || self.brought.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return;
        }
        let Some(mask) = segment.take_mask() else { return };
        let (len, nonce) = (segment.len(), StoredNonce::new(*segment.nonce()));
        let wanted = vec![Segment::keystream_again(0, len, nonce)];
        let batch = Batch::new(Operation::Keystream, Buffer::new(len), wanted);
        let expected = client::execute(&self.checker, &own.checker, batch).expect("keystream").batch.buffer;
        if mask.bytes()[..len] != expected[..] {
            let fault = format!("{algorithm:?}: a mask of another key or nonce was taken for {operation:?}");
            self.spent.seen().faults.push(fault);
        }
    }

    fn is_to_fail(&self) -> bool {
        let mut failing = locked(&self.failing);
        let Some((thread, left)) = &mut *failing else { return false };
        let fails = *thread == thread::current().id() && *left > 0;
        *left -= u32::from(fails);
        fails
    }
}

impl Engine for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        self.scheduler.capability(algorithm, operation)
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let (inner, checker) =
            (self.scheduler.session(algorithm, key)?, self.checker.session(algorithm, key)?);
        Ok(Session::new(algorithm, Arc::new(Own { key: self.spent.key(key), inner, checker })))
    }

    fn submit(&self, session: &Session, mut batch: Batch) -> Result<Ticket, Box<Refused>> {
        let (own, operation) = (self.own(session), batch.operation);
        for segment in batch.segments.iter_mut().filter(|segment| segment.has_mask()) {
            self.look_at(own, operation, session.algorithm(), segment);
        }
        if operation != Operation::Seal {
            return self.scheduler.submit(&own.inner, batch);
        }
        let nonces: Vec<[u8; 24]> = batch.segments.iter().map(|segment| *segment.nonce()).collect();
        let ticket = self.scheduler.submit(&own.inner, batch)?;
        self.spent.seal(own.key, &nonces);
        let during = locked(&self.during).take_if(|(thread, _)| *thread == thread::current().id());
        if let Some((_, during)) = during {
            during();
        }
        if !self.is_to_fail() {
            return Ok(ticket);
        }
        self.scheduler.flush();
        let sealed = ticket.wait().expect("the CPU takes the place of a device");
        Ok(Ticket::ready(Completed { outcome: Outcome::DeviceLost, ..sealed }))
    }

    fn flush(&self) {
        self.scheduler.flush();
    }

    fn buffer(&self, session: &Session, len: usize) -> Buffer {
        self.scheduler.buffer(&self.own(session).inner, len)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn Masking> {
        Some(self)
    }
}

impl Masking for Watched {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        let own = self.own(session);
        self.spent.order(own.key, messages);
        let share = Share::new(&self.held, messages.iter().map(|message| message.len).sum());
        let held = Arc::clone(&self.held);
        let ticket = self.scheduler.order(&own.inner, messages)?;
        Ok(ticket.checked(Instant::now() + LONG, move |made| {
            drop(share);
            let count = |memory: Box<dyn MaskMemory>| {
                let share = Share::new(&held, memory.bytes().len());
                Box::new(Counted { memory, _share: share }) as Box<dyn MaskMemory>
            };
            made.map(|masks| masks.into_iter().map(count).collect())
        }))
    }

    fn decide(&self, session: &Session) -> Decision {
        self.scheduler.decide(&self.own(session).inner)
    }

    fn version(&self) -> u64 {
        self.scheduler.version()
    }
}

/// Names the rule of masks that a test program leaves out.
#[cfg(feature = "planted-faults")]
pub const LEAVE_OUT: &str = "STRONGROOM_TEST_LEAVE_OUT_OF_MASKS";

/// That this program's test fails where the rule of this name is left out.
#[cfg(feature = "planted-faults")]
pub fn assert_caught(rule: &str, test: &str) {
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", test]).env(LEAVE_OUT, rule);
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("0 passed; 1 failed"), "{test} without {rule}: {text}");
}
