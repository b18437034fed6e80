//! The thread that drives a device: it fills the rings with requests, sleeps
//! until one has an answer, and hands batches back. It alone touches the data
//! queues, so that they need no lock.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strongroom_engine::{
    Algorithm, Batch, Completed, Completer, Operation, Outcome, SectorCipher,
};

use crate::engine::{Closed, DeviceSession, Shared};
use crate::ring::Ring;
use crate::spec::{REQUEST_LEN, Request, TAG_LEN, answer, opcode, service};
use crate::{Error, Memory};

/// Descriptors of one request.
pub(crate) const CHAIN: u16 = 5;
/// Bytes of a slot before its data: request, IV, associated data, answer.
const HEAD_LEN: usize = 256;
const IV_AT: usize = REQUEST_LEN;
const AD_AT: usize = IV_AT + 16;
const ANSWER_AT: usize = HEAD_LEN - 1;
const _: () = assert!(AD_AT + strongroom_engine::limits::ASSOCIATED_DATA_MAX <= ANSWER_AT);
/// How long it sleeps when nothing comes.
const SLEEP: Duration = Duration::from_millis(20);

/// Bytes of memory for a request of so much data.
pub(crate) fn slot_len(data_max: usize) -> usize {
    (HEAD_LEN + data_max + TAG_LEN).next_multiple_of(64)
}

/// What is asked of the thread.
pub(crate) enum Message {
    Job(Box<Job>),
    Closed(Closed),
}

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

/// A request that the device has.
#[derive(Clone)]
struct Flight {
    job: usize,
    segment: usize,
    start: usize,
    len: usize,
    since: Instant,
}

/// One data queue.
pub(crate) struct Queue {
    pub(crate) number: u16,
    pub(crate) ring: Ring,
    pub(crate) doorbell: u64,
    /// Where its slots begin.
    pub(crate) slots_at: usize,
    free: Vec<u16>,
    flights: Vec<Option<Flight>>,
}

impl Queue {
    pub(crate) fn new(number: u16, ring: Ring, doorbell: u64, slots_at: usize, slots: u16) -> Queue {
        let flights = vec![None; usize::from(slots)];
        Queue { number, ring, doorbell, slots_at, free: (0..slots).rev().collect(), flights }
    }

    fn in_flight(&self) -> u16 {
        (self.flights.len() - self.free.len()) as u16
    }
}

/// See the module.
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) interrupt: OwnedFd,
    pub(crate) messages: Receiver<Message>,
    jobs: Vec<Option<Progress>>,
    /// Those with requests to be made.
    waiting: VecDeque<usize>,
    next_queue: usize,
}

impl Service {
    pub(crate) fn new(
        shared: Arc<Shared>,
        memory: Arc<Memory>,
        queues: Vec<Queue>,
        interrupt: OwnedFd,
        messages: Receiver<Message>,
    ) -> Service {
        let (jobs, waiting) = (Vec::new(), VecDeque::new());
        Service { shared, memory, queues, interrupt, messages, jobs, waiting, next_queue: 0 }
    }

    /// Works until the engine is dropped, and what it had accepted is answered.
    pub(crate) fn run(mut self) {
        loop {
            let is_closing = self.shared.is_closing.load(Relaxed);
            self.receive();
            if self.turn().is_err() {
                self.lose();
            }
            if is_closing && self.jobs.iter().all(Option::is_none) {
                return;
            }
            if self.shared.is_gone.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            } else if self.sleep().is_err() {
                self.lose();
            }
        }
    }

    /// Takes what was asked.
    fn receive(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Job(job) => self.accept(*job),
                Message::Closed(closed) => self.shared.close(&closed),
            }
        }
    }

    fn accept(&mut self, job: Job) {
        let is_lost = self.shared.is_gone.load(Relaxed);
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

    /// Everything that can be done now.
    fn turn(&mut self) -> Result<(), Error> {
        if self.shared.is_gone.load(Relaxed) {
            return Ok(());
        }
        for queue in 0..self.queues.len() {
            while let Some(head) = self.queues[queue].ring.take()? {
                self.answered(queue, head)?;
            }
        }
        self.fill()?;
        for queue in &mut self.queues {
            if queue.ring.publish()? {
                self.shared.transport.ring(queue.doorbell, queue.number)?;
            }
        }
        let limit = self.shared.options.late;
        let is_late = |flight: &Flight| flight.since.elapsed() > limit;
        match self.queues.iter().flat_map(|queue| &queue.flights).flatten().any(is_late) {
            true => Err(Error::Late),
            false => Ok(()),
        }
    }

    /// Makes requests while there are slots for them.
    fn fill(&mut self) -> Result<(), Error> {
        while let Some(&at) = self.waiting.front() {
            let progress = self.jobs[at].as_mut().expect("it waits");
            if progress.segment == progress.job.batch.segments.len() {
                self.waiting.pop_front();
                if progress.outstanding == 0 {
                    self.finish(at);
                }
                continue;
            }
            let count = self.queues.len();
            let has_room = |queue: &usize| !self.queues[*queue].free.is_empty();
            let mut turned = (0..count).map(|step| (self.next_queue + step) % count);
            let Some(queue) = turned.find(has_room) else { return Ok(()) };
            self.next_queue = queue + 1;
            self.request(at, queue)?;
        }
        Ok(())
    }

    /// Makes the next request of a job, or passes over an empty segment of
    /// sectors, which is none.
    fn request(&mut self, at: usize, queue: usize) -> Result<(), Error> {
        let progress = self.jobs[at].as_mut().expect("it waits");
        let batch = &mut progress.job.batch;
        let segment = &batch.segments[progress.segment];
        let (start, len) = match progress.job.session.sector {
            Some(_) => {
                let len = segment.sector_len() as usize;
                (segment.start() + progress.sector * len, len)
            }
            None => (segment.start(), segment.len()),
        };
        if progress.job.session.sector.is_some() && segment.is_empty() {
            batch.segments[progress.segment].set_done(None);
            progress.segment += 1;
            return Ok(());
        }
        let encrypts = matches!(batch.operation, Operation::Seal | Operation::EncryptSectors);
        let session = self.shared.number(&progress.job.session, encrypts)?;
        let slot = self.queues[queue].free.pop().expect("it has room");
        let place = self.queues[queue].slots_at + usize::from(slot) * self.shared.slot_len;
        let data_at = place + HEAD_LEN;
        self.memory.write(data_at, &batch.buffer[start..start + len])?;
        let mut request = Request {
            opcode: service::CIPHER << 8 | if encrypts { opcode::ENCRYPT } else { opcode::DECRYPT },
            session,
            iv_len: 16,
            ad_len: 0,
            source_len: len as u32,
            target_len: len as u32,
        };
        match progress.job.session.sector {
            Some(SectorCipher { iv, .. }) => {
                let number = segment.sector_numbers().at(progress.sector);
                self.memory.write(place + IV_AT, &iv.number_block(number))?;
            }
            None => {
                let ad = segment.associated_data();
                (request.opcode, request.iv_len, request.ad_len) =
                    (request.opcode | service::AEAD << 8, 12, ad.len() as u32);
                self.memory.write(place + IV_AT, &segment.nonce()[12..])?;
                self.memory.write(place + AD_AT, ad)?;
                match encrypts {
                    true => request.target_len += TAG_LEN as u32,
                    false => {
                        self.memory.write(data_at + len, segment.tag())?;
                        request.source_len += TAG_LEN as u32;
                    }
                }
            }
        }
        self.memory.write(place, &request.encode())?;
        self.memory.write(place + ANSWER_AT, &[0xff])?;
        let chain = [
            (place, REQUEST_LEN + request.iv_len as usize, false),
            (data_at, request.source_len as usize, false),
            (place + AD_AT, request.ad_len as usize, false),
            (data_at, request.target_len as usize, true),
            (place + ANSWER_AT, 1, true),
        ];
        let queue = &mut self.queues[queue];
        queue.ring.describe(slot * CHAIN, &chain)?;
        queue.ring.offer(slot * CHAIN)?;
        let flight = Flight { job: at, segment: progress.segment, start, len, since: Instant::now() };
        queue.flights[usize::from(slot)] = Some(flight);
        progress.outstanding += 1;
        progress.sector += 1;
        if progress.job.session.sector.is_none() || progress.sector * len == segment.len() {
            (progress.segment, progress.sector) = (progress.segment + 1, 0);
        }
        self.shared.counters.requests.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Takes the answer to a request.
    fn answered(&mut self, queue: usize, head: u32) -> Result<(), Error> {
        let nobody = Error::Device("it answers what nobody asked");
        let slot = (head / u32::from(CHAIN)) as usize;
        if !head.is_multiple_of(CHAIN.into()) {
            return Err(nobody);
        }
        let flight = self.queues[queue].flights.get_mut(slot).and_then(Option::take).ok_or(nobody)?;
        self.queues[queue].free.push(slot as u16);
        let place = self.queues[queue].slots_at + slot * self.shared.slot_len;
        let mut status = [0];
        self.memory.read(place + ANSWER_AT, &mut status)?;
        let progress = self.jobs[flight.job].as_mut().expect("its request was out");
        progress.outstanding -= 1;
        let batch = &mut progress.job.batch;
        let data = &mut batch.buffer[flight.start..flight.start + flight.len];
        let segment = &mut batch.segments[flight.segment];
        match status[0] {
            answer::OK => {
                self.memory.read(place + HEAD_LEN, data)?;
                let mut tag = [0; TAG_LEN];
                if batch.operation == Operation::Seal {
                    self.memory.read(place + HEAD_LEN + flight.len, &mut tag)?;
                    segment.set_done(Some(tag));
                } else {
                    segment.set_done(None);
                }
            }
            answer::BAD_MESSAGE if batch.operation == Operation::Open => {
                data.fill(0);
                segment.set_forged();
                progress.is_forged = true;
            }
            _ => progress.is_lost = true,
        }
        if progress.outstanding == 0 && progress.segment == batch.segments.len() {
            self.waiting.retain(|waiting| *waiting != flight.job);
            self.finish(flight.job);
        }
        Ok(())
    }

    /// Hands a batch back.
    fn finish(&mut self, at: usize) {
        let Some(Progress { job, is_forged, is_lost, .. }) = self.jobs[at].take() else { return };
        let outcome = match (is_lost, is_forged) {
            (true, _) => Outcome::DeviceLost,
            (false, true) => Outcome::AuthenticationFailed,
            (false, false) => Outcome::Done,
        };
        self.shared.accepted.fetch_sub(1, Relaxed);
        job.completer.complete(Completed { batch: job.batch, outcome });
    }

    /// Gives up what the device has, and begins anew with it, or without it.
    fn lose(&mut self) {
        self.waiting.clear();
        for at in 0..self.jobs.len() {
            if let Some(progress) = &mut self.jobs[at] {
                progress.is_lost = true;
                self.finish(at);
            }
        }
        match self.shared.restart(&self.memory) {
            Ok(queues) => self.queues = queues,
            Err(_) => self.shared.is_gone.store(true, Relaxed),
        }
    }

    /// Waits for an interrupt or a message, or looks again at once while the
    /// device is polled and has something.
    fn sleep(&mut self) -> Result<(), Error> {
        let in_flight: u16 = self.queues.iter().map(Queue::in_flight).sum();
        if self.shared.options.poll && in_flight > 0 {
            std::thread::yield_now();
            return Ok(());
        }
        for queue in &mut self.queues {
            let after = self.shared.options.coalesce.min(queue.in_flight());
            if queue.ring.ask(after)? {
                return Ok(());
            }
        }
        // Few may be left that no interrupt was asked for.
        let limit = Timespec::try_from(SLEEP).expect("a short time");
        let events = [&self.interrupt, &self.shared.wake];
        let mut polled = events.map(|event| PollFd::new(event, PollFlags::IN));
        if poll(&mut polled, Some(&limit)).is_err() {
            return Ok(());
        }
        let signalled = polled.map(|polled| polled.revents().contains(PollFlags::IN));
        for (event, is_signalled) in events.into_iter().zip(signalled) {
            if is_signalled {
                let _ = rustix::io::read(event, &mut [0; 8]);
            }
        }
        self.shared.counters.interrupts.fetch_add(signalled[0].into(), Relaxed);
        Ok(())
    }
}

/// What an algorithm is on the wire, if the contract has it and virtio too.
pub(crate) fn on_the_wire(algorithm: Algorithm) -> Option<(u32, u32)> {
    use strongroom_engine::{Aead, BlockCipher, SectorIv, SectorMode};

    use crate::spec::algorithm as number;
    match algorithm {
        Algorithm::Aead(Aead::Aes256Gcm) => Some((service::AEAD, number::AES_GCM)),
        Algorithm::Aead(_) => None,
        // Whose IV would have to be encrypted before it is sent.
        Algorithm::Sector(SectorCipher { iv: SectorIv::EssivSha256, .. }) => None,
        Algorithm::Sector(SectorCipher { cipher: BlockCipher::Aes, mode, .. }) => Some(match mode {
            SectorMode::Xts => (service::CIPHER, number::AES_XTS),
            SectorMode::Cbc => (service::CIPHER, number::AES_CBC),
            SectorMode::Ctr => (service::CIPHER, number::AES_CTR),
        }),
        Algorithm::Sector(_) => None,
    }
}
