//! An instance's thread: it makes requests of batches and batches of answers,
//! and makes all calls of the instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::completion::{Controller, Limits, Look, Rule};
use strongroom_engine::{Completed, Completer, Operation, Outcome, thread_cpu_ns};

use crate::cpa::{Status, status};
use crate::engine::{Job, Shared};
use crate::session::{Sessions, Which};
use crate::sys::{Answer, Flight, Instance, Message};
use crate::wire::Kind;

/// Requests that the instance has at once, with those that it never answered:
/// as many as its rings commonly hold.
const OUT_MAX: usize = 256;
/// Time between two looks for the next answer: there is no interrupt to wait for.
const NAP: Duration = Duration::from_micros(50);
/// How long it sleeps when the instance has nothing, and how often the library
/// may look after devices.
const IDLE: Duration = Duration::from_millis(250);

/// See the module.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    late: Duration,
    jobs: BTreeMap<u64, Progress>,
    next_job: u64,
    /// Requests that the instance has.
    out: Vec<Out>,
    // Sessions and requests go before the instance does.
    sessions: Sessions,
    instance: Instance,
    /// Batches to be handed back.
    finished: Vec<(Completer, Completed)>,
    /// CPU time of this thread that batches were told to have cost.
    told_ns: u64,
    controller: Controller,
    began: Instant,
    /// Since when the instance has had something, the last time that it has.
    busy_since: Instant,
    /// When something last went on, or had not to.
    moved: Instant,
    /// When lateness, and devices, were last looked after.
    checked: Instant,
    looked_after: Instant,
}

/// A batch that was begun.
struct Progress {
    job: Job,
    /// The next request to be made: segment, and sector in it.
    segment: usize,
    sector: usize,
    /// Requests that have no answer.
    outstanding: usize,
    is_forged: bool,
    is_lost: bool,
}

impl Progress {
    fn is_made(&self) -> bool {
        self.is_lost || self.segment == self.job.batch.segments.len()
    }
}

/// A request that the instance has.
struct Out {
    flight: Flight,
    /// None when its batch was handed back before it was answered.
    job: Option<u64>,
    segment: usize,
    start: usize,
    len: usize,
    since: Instant,
}

/// What became of the making of a request.
enum Made {
    Yes,
    /// There is no room now.
    NoRoom,
    /// The instance does not take it.
    Refused,
    /// The device restarts or is broken.
    Fault,
}

impl Lane {
    pub(crate) fn new(shared: Arc<Shared>, instance: Instance, late: Duration) -> Lane {
        let now = Instant::now();
        Lane {
            shared,
            late,
            jobs: BTreeMap::new(),
            next_job: 0,
            out: Vec::new(),
            sessions: Sessions::default(),
            instance,
            finished: Vec::new(),
            told_ns: 0,
            controller: Controller::new(Rule::Adaptive, Limits::default()),
            began: now,
            busy_since: now,
            moved: now,
            checked: now,
            looked_after: now,
        }
    }

    /// Works until the engine is dropped, and what it had accepted is answered.
    pub(crate) fn run(mut self) {
        // Else the system adds 50 us to short sleeps.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        loop {
            let is_closing = self.accept();
            self.sessions.close(&self.shared.closed);
            let completed = self.turn();
            self.hand_back();
            if is_closing && self.jobs.is_empty() {
                return;
            }
            self.wait(completed);
        }
    }

    /// Hands back what is finished, at the CPU time that this thread has used since the last ones.
    fn hand_back(&mut self) {
        if self.finished.is_empty() {
            return;
        }
        let used_ns = thread_cpu_ns();
        let cpu_ns = used_ns.saturating_sub(std::mem::replace(&mut self.told_ns, used_ns));
        self.shared.hand_back(std::mem::take(&mut self.finished), cpu_ns);
    }

    /// Takes what was submitted; true when nothing more will be.
    fn accept(&mut self) -> bool {
        let (begun, is_closing) = self.shared.begun();
        if self.jobs.is_empty() && !begun.is_empty() {
            self.moved = Instant::now();
        }
        for job in begun {
            let progress =
                Progress { job, segment: 0, sector: 0, outstanding: 0, is_forged: false, is_lost: false };
            self.jobs.insert(self.next_job, progress);
            self.next_job += 1;
        }
        is_closing
    }

    /// Makes requests, takes answers, and looks for what is late; how many
    /// answers there were.
    fn turn(&mut self) -> u32 {
        let went = self.fill().and_then(|()| self.instance.poll());
        // Also after a fault: what was answered before it is good.
        let (completed, bytes) = self.take();
        let in_flight = self.in_flight();
        if completed > 0 || in_flight > 0 {
            let ns = |at: Instant| at.saturating_duration_since(self.began).as_nanos() as u64;
            self.controller.looked(&Look {
                now_ns: ns(Instant::now()),
                busy_since_ns: ns(self.busy_since),
                completed,
                bytes,
                in_flight,
            });
        }
        if went.is_err() {
            self.lose_all();
        }
        self.check();
        completed
    }

    /// Requests that are out and wanted.
    fn in_flight(&self) -> u32 {
        self.out.iter().filter(|out| out.job.is_some()).count() as u32
    }

    /// Makes requests while there is room, and has the device begin with them.
    fn fill(&mut self) -> Result<(), Status> {
        let mut is_any_new = false;
        let mut went = Ok(());
        while let Some(job) = self.jobs.iter().find(|(_, progress)| !progress.is_made()).map(|(job, _)| *job)
        {
            match self.make(job) {
                Made::Yes => is_any_new = true,
                Made::NoRoom => break,
                Made::Refused => self.lose(job),
                Made::Fault => {
                    went = Err(status::FAIL);
                    break;
                }
            }
        }
        // Batches without any request.
        let ended = |(job, progress): (&u64, &Progress)| {
            (progress.is_made() && progress.outstanding == 0).then_some(*job)
        };
        for job in self.jobs.iter().filter_map(ended).collect::<Vec<_>>() {
            self.finish(job);
        }
        if is_any_new {
            self.moved = Instant::now();
            return self.instance.perform().and(went);
        }
        went
    }

    /// Makes the next request of a batch, or passes over an empty segment of
    /// sectors, which is none.
    fn make(&mut self, number: u64) -> Made {
        let progress = self.jobs.get_mut(&number).expect("it waits");
        let (key, batch) = (&progress.job.key, &mut progress.job.batch);
        let segment = &mut batch.segments[progress.segment];
        let encrypts = matches!(batch.operation, Operation::Seal | Operation::EncryptSectors);
        let mut iv = [0; 16];
        let (mut prefix, mut iv_len) = ([0; 12], 12);
        let (mut start, mut len) = (segment.start(), segment.len());
        match key.kind {
            Kind::Sectors(_) if segment.is_empty() => {
                segment.set_done(None);
                progress.segment += 1;
                return Made::Yes;
            }
            Kind::Sectors(sector) => {
                len = segment.sector_len() as usize;
                start += progress.sector * len;
                iv = sector.iv.number_block(segment.sector_numbers().at(progress.sector));
                iv_len = 16;
            }
            Kind::Gcm => iv[..12].copy_from_slice(&segment.nonce()[12..]),
            Kind::XAesGcm => {
                prefix.copy_from_slice(&segment.nonce()[..12]);
                iv[..12].copy_from_slice(&segment.nonce()[12..]);
            }
        }
        if self.out.len() >= OUT_MAX {
            return Made::NoRoom;
        }
        let ad = segment.associated_data();
        let which = Which { encrypts: key.wire.session_encrypts(encrypts), prefix, ad_len: ad.len() };
        let message =
            Message { iv: &iv[..iv_len], ad, tag: segment.tag(), data: &batch.buffer[start..start + len] };
        let enqueued = self
            .sessions
            .find(&mut self.instance, key, which)
            .and_then(|session| self.instance.enqueue(&session, &message));
        let flight = match enqueued {
            Ok(flight) => flight,
            Err(status::RETRY | status::RESOURCE) => return Made::NoRoom,
            Err(status::INVALID_PARAM | status::UNSUPPORTED) => return Made::Refused,
            Err(_) => return Made::Fault,
        };
        let since = Instant::now();
        if self.out.iter().all(|out| out.job.is_none()) {
            self.busy_since = since;
        }
        self.out.push(Out { flight, job: Some(number), segment: progress.segment, start, len, since });
        progress.outstanding += 1;
        progress.sector += 1;
        if !matches!(key.kind, Kind::Sectors(_)) || progress.sector * len == segment.len() {
            (progress.segment, progress.sector) = (progress.segment + 1, 0);
        }
        Made::Yes
    }

    /// Takes the answers that are there; how many, and of how many bytes.
    fn take(&mut self) -> (u32, u64) {
        let mut taken = (0, 0);
        let mut at = 0;
        while let Some(out) = self.out.get(at) {
            if out.flight.is_answered() {
                let out = self.out.swap_remove(at);
                taken = (taken.0 + 1, taken.1 + out.len as u64);
                self.answered(out);
                self.moved = Instant::now();
            } else {
                at += 1;
            }
        }
        self.shared.set_stuck(self.out.len() >= OUT_MAX && self.out.iter().all(|out| out.job.is_none()));
        taken
    }

    fn answered(&mut self, out: Out) {
        let Some(number) = out.job else {
            self.instance.finish(out.flight, &mut []);
            return;
        };
        let progress = self.jobs.get_mut(&number).expect("its request was out");
        let batch = &mut progress.job.batch;
        let segment = &mut batch.segments[out.segment];
        let data = &mut batch.buffer[out.start..out.start + out.len];
        progress.outstanding -= 1;
        match self.instance.finish(out.flight, data) {
            (Answer::Done, tag) => segment.set_done((batch.operation == Operation::Seal).then_some(tag)),
            (Answer::Forged, _) if batch.operation == Operation::Open => {
                data.fill(0);
                segment.set_forged();
                progress.is_forged = true;
            }
            (Answer::Forged | Answer::Failed, _) => progress.is_lost = true,
        }
        if progress.outstanding == 0 && progress.is_made() {
            self.finish(number);
        }
    }

    /// A batch is to be handed back.
    fn finish(&mut self, number: u64) {
        let Some(Progress { job, is_forged, is_lost, .. }) = self.jobs.remove(&number) else { return };
        let outcome = match (is_lost, is_forged) {
            (true, _) => Outcome::DeviceLost,
            (false, true) => Outcome::AuthenticationFailed,
            (false, false) => Outcome::Done,
        };
        self.finished.push((job.completer, Completed { batch: job.batch, outcome }));
    }

    /// A batch is lost; what the instance has of it reaches nobody any more.
    fn lose(&mut self, number: u64) {
        for out in self.out.iter_mut().filter(|out| out.job == Some(number)) {
            out.job = None;
        }
        if let Some(progress) = self.jobs.get_mut(&number) {
            progress.is_lost = true;
        }
        self.finish(number);
    }

    fn lose_all(&mut self) {
        for number in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.lose(number);
        }
    }

    /// Looks for requests that have been out for too long, for an instance that
    /// takes none, and now and then after devices.
    fn check(&mut self) {
        if self.checked.elapsed() < self.late / 8 {
            return;
        }
        self.checked = Instant::now();
        if !self.jobs.is_empty() && self.moved.elapsed() > self.late {
            self.lose_all();
        }
        let late = self.out.iter().filter(|out| out.since.elapsed() > self.late);
        for number in late.filter_map(|out| out.job).collect::<Vec<_>>() {
            self.lose(number);
        }
        if self.looked_after.elapsed() >= IDLE {
            self.looked_after = Instant::now();
            self.instance.look_after_devices();
        }
    }

    /// Waits for a caller, or until as many answers may be there as the
    /// controller says; or not at all.
    fn wait(&mut self, completed: u32) {
        let plan = self.controller.plan();
        if self.jobs.is_empty() {
            self.shared.wait(IDLE);
        } else if plan.polls {
            if completed == 0 {
                std::thread::yield_now();
            }
        } else {
            // What the plan has beyond that is for answers that an interrupt has not told of.
            let expected = plan.wait_ns.saturating_sub(Limits::default().ceiling_ns);
            let nap = if plan.count > 1 { Duration::from_nanos(expected) } else { NAP };
            self.shared.wait(nap.min(self.late / 8));
        }
    }
}

/// The thread ends, however it does: what is left is lost.
impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.end();
        self.accept();
        self.lose_all();
        self.hand_back();
    }
}
