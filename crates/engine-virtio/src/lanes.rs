//! The data queues: batches become requests, and answers batches again. Callers
//! make requests when they flush, and the driver's thread takes answers; both
//! hold the lock around this.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::{Batch, Completed, Completer, Operation, Outcome};

use crate::arena::{Arena, Part};
use crate::request::{self, Piece};
use crate::ring::Ring;
use crate::session::{DeviceSession, Which};
use crate::spec::{TAG_LEN, answer};
use crate::transport::Transport;
use crate::wire::Kind;
use crate::{Error, Memory};

/// A batch on its way.
pub(crate) struct Job {
    pub(crate) session: Arc<DeviceSession>,
    pub(crate) batch: Batch,
    pub(crate) completer: Completer,
}

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

/// A request that the device has.
struct Flight {
    job: usize,
    segment: usize,
    start: usize,
    len: usize,
    part: Part,
    session: u64,
    since: Instant,
}

/// One data queue.
pub(crate) struct Queue {
    number: u16,
    ring: Ring,
    doorbell: u64,
    free: Vec<u16>,
    flights: Vec<Option<Flight>>,
}

impl Queue {
    /// With a place for as many requests as the ring has chains.
    pub(crate) fn new(number: u16, ring: Ring, doorbell: u64) -> Queue {
        let slots = ring.chains();
        let flights = (0..slots).map(|_| None).collect();
        Queue { number, ring, doorbell, free: (0..slots).rev().collect(), flights }
    }

    fn in_flight(&self) -> u16 {
        (self.flights.len() - self.free.len()) as u16
    }

    /// One request and its answer, before anything else uses the queue.
    pub(crate) fn exchange(
        &mut self,
        transport: &Transport,
        memory: &Memory,
        at: usize,
        piece: &Piece<'_>,
        limit: Duration,
    ) -> Result<u8, Error> {
        self.ring.offer_chain(0, &request::lay(memory, at, piece)?)?;
        if self.ring.publish()? {
            transport.ring(self.doorbell, self.number)?;
        }
        self.ring.wait(limit)?;
        request::status(memory, at)
    }
}

/// A session that has to be opened before the next request can be made.
pub(crate) struct Wanted {
    pub(crate) session: Arc<DeviceSession>,
    pub(crate) which: Which,
    job: usize,
}

/// What became of the making of a request.
enum Made {
    Yes,
    /// No slot or no memory is free.
    NoRoom,
    Wants(Which),
}

/// See the module.
pub(crate) struct Lanes {
    memory: Arc<Memory>,
    arena: Arena,
    queues: Vec<Queue>,
    jobs: Vec<Option<Progress>>,
    /// Those with requests to be made, the first of them first.
    waiting: VecDeque<usize>,
    next_queue: usize,
    /// Counts resets.
    epoch: u64,
    state: State,
    /// Batches to be handed back without the lock.
    finished: Vec<(Completer, Completed)>,
    /// Since when the device has had something, the last time that it has.
    busy_since: Option<Instant>,
    /// Requests made so far.
    pub(crate) requests: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    /// Being reset; what comes waits.
    Down,
    /// What comes is lost.
    Gone,
}

impl Lanes {
    /// With data in `memory` from `at` on.
    pub(crate) fn new(memory: Arc<Memory>, at: usize, queues: Vec<Queue>) -> Lanes {
        let arena = Arena::new(at, memory.len() - at);
        let (jobs, waiting, finished) = (Vec::new(), VecDeque::new(), Vec::new());
        Lanes {
            memory,
            arena,
            queues,
            jobs,
            waiting,
            next_queue: 0,
            epoch: 0,
            state: State::Up,
            finished,
            busy_since: None,
            requests: 0,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Requests that the device has.
    pub(crate) fn in_flight(&self) -> u32 {
        self.queues.iter().map(|queue| u32::from(queue.in_flight())).sum()
    }

    /// When the device last got something after it had nothing.
    pub(crate) fn busy_since(&self) -> Option<Instant> {
        self.busy_since
    }

    /// Whether there is nothing to be done or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.iter().all(Option::is_none)
    }

    /// What is to be handed back now.
    pub(crate) fn finished(&mut self) -> Vec<(Completer, Completed)> {
        std::mem::take(&mut self.finished)
    }

    /// Takes batches.
    pub(crate) fn accept(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let is_lost = self.state == State::Gone;
            let progress = Progress { job, segment: 0, sector: 0, outstanding: 0, is_forged: false, is_lost };
            let at = self.jobs.iter().position(Option::is_none).unwrap_or_else(|| {
                self.jobs.push(None);
                self.jobs.len() - 1
            });
            self.jobs[at] = Some(progress);
            match is_lost {
                true => self.finish(at),
                false => self.waiting.push_back(at),
            }
        }
    }

    /// Makes requests while there is room, and shows them to the device.
    pub(crate) fn fill(&mut self, transport: &Transport) -> Result<Option<Wanted>, Error> {
        if self.state != State::Up {
            return Ok(None);
        }
        let mut wanted = None;
        while let Some(&at) = self.waiting.front() {
            let progress = self.jobs[at].as_ref().expect("it waits");
            if progress.is_made() {
                self.waiting.pop_front();
                if progress.outstanding == 0 {
                    self.finish(at);
                }
                continue;
            }
            match self.make(at)? {
                Made::Yes => {}
                Made::NoRoom => break,
                Made::Wants(which) => {
                    wanted = Some(Wanted {
                        session: Arc::clone(&progress_of(&self.jobs, at).job.session),
                        which,
                        job: at,
                    });
                    break;
                }
            }
        }
        for queue in &mut self.queues {
            if queue.ring.publish()? {
                transport.ring(queue.doorbell, queue.number)?;
            }
        }
        Ok(wanted)
    }

    /// The device does not take the session that was wanted.
    pub(crate) fn refused(&mut self, wanted: &Wanted) {
        if let Some(progress) = self.jobs[wanted.job].as_mut()
            && Arc::ptr_eq(&progress.job.session, &wanted.session)
        {
            progress.is_lost = true;
        }
    }

    /// Makes the next request of a job, or passes over an empty segment of
    /// sectors, which is none.
    fn make(&mut self, at: usize) -> Result<Made, Error> {
        let progress = self.jobs[at].as_mut().expect("it waits");
        let (session, batch) = (&progress.job.session, &mut progress.job.batch);
        let segment = &mut batch.segments[progress.segment];
        let encrypts = matches!(batch.operation, Operation::Seal | Operation::EncryptSectors);
        let mut iv = [0; 16];
        let (mut prefix, mut iv_len) = ([0; 12], 12);
        let (mut start, mut len) = (segment.start(), segment.len());
        match session.kind {
            Kind::Sectors(_) if segment.is_empty() => {
                segment.set_done(None);
                progress.segment += 1;
                return Ok(Made::Yes);
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
        let count = self.queues.len();
        let mut turned = (0..count).map(|step| (self.next_queue + step) % count);
        let Some(queue) = turned.find(|queue| !self.queues[*queue].free.is_empty()) else {
            return Ok(Made::NoRoom);
        };
        let which = Which { encrypts, prefix };
        let Some(part) = self.arena.take(request::len(len)) else { return Ok(Made::NoRoom) };
        let Some(number) = session.begin(&which, self.epoch) else {
            self.arena.give_back(part);
            return Ok(Made::Wants(which));
        };
        let piece = Piece {
            service: session.wire.service,
            encrypts,
            session: number,
            iv: &iv[..iv_len],
            ad: segment.associated_data(),
            data: &batch.buffer[start..start + len],
            tag: segment.tag(),
        };
        let chain = request::lay(&self.memory, part.at, &piece)?;
        let now = Instant::now();
        if self.queues.iter().all(|queue| queue.in_flight() == 0) {
            self.busy_since = Some(now);
        }
        self.next_queue = queue + 1;
        let queue = &mut self.queues[queue];
        let slot = queue.free.pop().expect("it has room");
        queue.ring.offer_chain(slot, &chain)?;
        let flight =
            Flight { job: at, segment: progress.segment, start, len, part, session: number, since: now };
        queue.flights[usize::from(slot)] = Some(flight);
        progress.outstanding += 1;
        progress.sector += 1;
        if !matches!(session.kind, Kind::Sectors(_)) || progress.sector * len == segment.len() {
            (progress.segment, progress.sector) = (progress.segment + 1, 0);
        }
        self.requests += 1;
        Ok(Made::Yes)
    }

    /// Takes the answers that are there; how many, and of how many bytes.
    pub(crate) fn take(&mut self) -> Result<(u32, u64), Error> {
        let mut taken = (0, 0);
        if self.state == State::Up {
            for queue in 0..self.queues.len() {
                while let Some(slot) = self.queues[queue].ring.take()? {
                    taken.1 += self.answered(queue, slot)? as u64;
                    taken.0 += 1;
                }
            }
        }
        Ok(taken)
    }

    /// Takes the answer to a request of so many bytes.
    fn answered(&mut self, queue: usize, slot: u16) -> Result<usize, Error> {
        let queue = &mut self.queues[queue];
        let flight = queue.flights.get_mut(usize::from(slot)).and_then(Option::take);
        let flight = flight.ok_or(Error::Device("it answers what nobody asked"))?;
        queue.free.push(slot);
        self.arena.give_back(flight.part);
        let progress = self.jobs[flight.job].as_mut().expect("its request was out");
        progress.job.session.end(flight.session, self.epoch);
        progress.outstanding -= 1;
        let batch = &mut progress.job.batch;
        let data = &mut batch.buffer[flight.start..flight.start + flight.len];
        let segment = &mut batch.segments[flight.segment];
        let memory = &self.memory;
        match request::status(memory, flight.part.at)? {
            answer::OK => {
                memory.read(flight.part.at + request::HEAD_LEN, data)?;
                let mut tag = None;
                if batch.operation == Operation::Seal {
                    let made = tag.insert([0; TAG_LEN]);
                    memory.read(flight.part.at + request::HEAD_LEN + flight.len, made)?;
                }
                segment.set_done(tag);
            }
            answer::BAD_MESSAGE if batch.operation == Operation::Open => {
                data.fill(0);
                segment.set_forged();
                progress.is_forged = true;
            }
            _ => progress.is_lost = true,
        }
        if progress.outstanding == 0 && progress.is_made() {
            self.waiting.retain(|waiting| *waiting != flight.job);
            self.finish(flight.job);
        }
        Ok(flight.len)
    }

    /// A batch is to be handed back.
    fn finish(&mut self, at: usize) {
        let Some(Progress { job, is_forged, is_lost, .. }) = self.jobs[at].take() else { return };
        let outcome = match (is_lost, is_forged) {
            (true, _) => Outcome::DeviceLost,
            (false, true) => Outcome::AuthenticationFailed,
            (false, false) => Outcome::Done,
        };
        self.finished.push((job.completer, Completed { batch: job.batch, outcome }));
    }

    /// Whether a request has had no answer for longer than `limit`.
    pub(crate) fn is_late(&self, limit: Duration) -> bool {
        let now = Instant::now();
        let mut flights = self.queues.iter().flat_map(|queue| &queue.flights).flatten();
        flights.any(|flight| now.duration_since(flight.since) > limit)
    }

    /// Gives up what the device has; what comes waits.
    pub(crate) fn lose(&mut self) {
        self.state = State::Down;
        self.waiting.clear();
        for at in 0..self.jobs.len() {
            if let Some(progress) = &mut self.jobs[at] {
                progress.is_lost = true;
                self.finish(at);
            }
        }
        self.queues.clear();
    }

    /// The device is as new.
    pub(crate) fn restart(&mut self, at: usize, queues: Vec<Queue>) {
        self.arena = Arena::new(at, self.memory.len() - at);
        self.epoch += 1;
        self.queues = queues;
        self.state = State::Up;
    }

    /// The device is gone for good: so is what waits.
    pub(crate) fn gone(&mut self) {
        self.lose();
        self.state = State::Gone;
    }

    /// Asks for an interrupt when `count` more answers are there, or all that
    /// are out if these are fewer. True when some are there already.
    pub(crate) fn ask(&mut self, count: u32) -> Result<bool, Error> {
        let queues = (self.queues.len() as u32).max(1);
        let mut is_there = false;
        for queue in &mut self.queues {
            let most = u32::from(queue.in_flight());
            is_there |= queue.ring.ask(count.div_ceil(queues).min(most) as u16)?;
        }
        Ok(is_there)
    }

    /// Asks for no interrupt.
    pub(crate) fn ask_nothing(&mut self) -> Result<(), Error> {
        self.queues.iter_mut().try_for_each(|queue| queue.ring.ask_nothing())
    }
}

fn progress_of(jobs: &[Option<Progress>], at: usize) -> &Progress {
    jobs[at].as_ref().expect("it waits")
}
