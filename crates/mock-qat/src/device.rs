//! An instance: requests that were enqueued, begun, and answered; threads that
//! compute them, and what goes wrong.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use strongroom_engine_qat::cpa::{Status, status};

use crate::compute::{Cipher, Input, Output};
use crate::dials::{Dials, Fate};
use crate::low;

/// A key that was handed over.
pub(crate) struct Session {
    pub(crate) cipher: Cipher,
    /// Requests that were not answered.
    pub(crate) pending: AtomicUsize,
}

/// A request, by the device's addresses.
pub(crate) struct Request {
    pub(crate) session: Arc<Session>,
    /// What the caller knows it by.
    pub(crate) place: usize,
    pub(crate) iv: u64,
    pub(crate) iv_len: usize,
    pub(crate) ad: u64,
    pub(crate) data: u64,
    pub(crate) len: usize,
    pub(crate) tag: u64,
}

/// A request that is answered.
pub(crate) struct Done {
    pub(crate) request: Request,
    pub(crate) status: Status,
    pub(crate) is_verified: bool,
}

/// See the module.
pub(crate) struct Device {
    dials: Dials,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The thread that has it; none when it is not started.
    owner: Option<ThreadId>,
    translates: bool,
    calls_back: bool,
    /// Counts stops.
    life: u64,
    /// Requests so far, and after how many it restarts.
    requests: u64,
    next_restart: u64,
    restarts_until: Option<Instant>,
    enqueued: Vec<(Request, Fate)>,
    begun: VecDeque<(Request, Fate)>,
    /// What was enqueued and not answered.
    out: usize,
    done: VecDeque<Done>,
}

impl Device {
    pub(crate) fn new(dials: Dials) -> Device {
        Device { dials, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a call of the thread that has started it.
    fn by_owner(&self) -> Result<MutexGuard<'_, State>, Status> {
        let mut state = self.state();
        match state.owner {
            None => return Err(status::FAIL),
            Some(owner) => assert_eq!(owner, thread::current().id(), "an instance is for one thread"),
        }
        if state.restarts_until.is_some_and(|until| Instant::now() < until) {
            return Err(status::RESTARTING);
        }
        if state.restarts_until.take().is_some() {
            // What it had is answered when it is back.
            let had: Vec<_> = state.enqueued.drain(..).collect();
            let had: Vec<_> = had.into_iter().chain(state.begun.drain(..).collect::<Vec<_>>()).collect();
            let failed = |(request, _)| Done { request, status: status::FAIL, is_verified: false };
            state.done.extend(had.into_iter().map(failed));
        }
        Ok(state)
    }

    /// Starts it for this thread, if nobody has.
    pub(crate) fn start(self: &'static Device) -> Status {
        let mut state = self.state();
        if state.owner.is_some() {
            return status::FAIL;
        }
        state.owner = Some(thread::current().id());
        state.next_restart = self.dials.restart_after;
        let life = state.life;
        drop(state);
        for _ in 0..self.dials.units {
            thread::spawn(move || self.work(life));
        }
        status::SUCCESS
    }

    pub(crate) fn stop(&self) -> Status {
        if let Err(status) = self.by_owner()
            && status != status::RESTARTING
        {
            return status;
        }
        let mut state = self.state();
        *state = State { life: state.life + 1, ..State::default() };
        drop(state);
        self.changed.notify_all();
        status::SUCCESS
    }

    pub(crate) fn set_translation(&self) -> Status {
        self.note(|state| state.translates = true)
    }

    pub(crate) fn set_callback(&self) -> Status {
        self.note(|state| state.calls_back = true)
    }

    fn note(&self, change: impl FnOnce(&mut State)) -> Status {
        match self.by_owner() {
            Ok(mut state) => change(&mut state),
            Err(status) => return status,
        }
        status::SUCCESS
    }

    /// Whether a session may be opened now.
    pub(crate) fn takes_session(&self, algorithm: u32) -> Status {
        match self.by_owner() {
            Err(status) => status,
            Ok(state) if !state.translates => status::INVALID_PARAM,
            Ok(_) if self.dials.lacks >> algorithm & 1 == 1 => status::UNSUPPORTED,
            Ok(_) => status::SUCCESS,
        }
    }

    /// Takes a request.
    pub(crate) fn enqueue(&self, request: Request) -> Status {
        let mut state = match self.by_owner() {
            Ok(state) => state,
            Err(status) => return status,
        };
        if !state.calls_back {
            return status::INVALID_PARAM;
        }
        if state.out as u64 >= self.dials.ring {
            return status::RETRY;
        }
        let fate = self.dials.fate(state.requests);
        state.requests += 1;
        if fate == Fate::Busy {
            return status::RETRY;
        }
        if self.dials.restart_after > 0 && state.requests >= state.next_restart {
            state.next_restart = state.requests + self.dials.restart_after;
            state.restarts_until = Some(Instant::now() + Duration::from_millis(self.dials.restart_ms));
            return status::RESTARTING;
        }
        state.out += 1;
        request.session.pending.fetch_add(1, SeqCst);
        state.enqueued.push((request, fate));
        status::SUCCESS
    }

    pub(crate) fn perform(&self) -> Status {
        let mut state = match self.by_owner() {
            Ok(state) => state,
            Err(status) => return status,
        };
        let enqueued: Vec<_> = state.enqueued.drain(..).collect();
        state.begun.extend(enqueued);
        drop(state);
        self.changed.notify_all();
        status::SUCCESS
    }

    /// The answers that are there.
    ///
    /// # Errors
    /// Why none can be looked for.
    pub(crate) fn poll(&self) -> Result<Vec<Done>, Status> {
        let mut state = self.by_owner()?;
        let done: Vec<_> = state.done.drain(..).collect();
        state.out -= done.len();
        Ok(done)
    }

    /// What a unit does until the instance is stopped.
    fn work(&'static self, life: u64) {
        while let Some((request, fate)) = self.next(life) {
            let started = Instant::now();
            let (status, output) = compute(&self.dials, &request);
            let service = Duration::from_micros(self.dials.service_us);
            thread::sleep(service.saturating_sub(started.elapsed()));
            match fate {
                Fate::Lost => {}
                Fate::Late => {
                    let late = Duration::from_millis(self.dials.late_ms);
                    thread::spawn(move || {
                        thread::sleep(late);
                        self.answer(life, request, status, output);
                    });
                }
                Fate::Failed => self.answer(life, request, status::FAIL, None),
                Fate::Wrong => {
                    let output = output.map(|mut output| {
                        match (output.data.first_mut(), &mut output.tag) {
                            (Some(byte), _) => *byte ^= 1,
                            (None, Some(tag)) => tag[0] ^= 1,
                            (None, None) => {}
                        }
                        output
                    });
                    self.answer(life, request, status, output);
                }
                Fate::Right | Fate::Busy => self.answer(life, request, status, output),
            }
        }
    }

    fn next(&self, life: u64) -> Option<(Request, Fate)> {
        let mut state = self.state();
        loop {
            if state.life != life {
                return None;
            }
            if let Some(work) = state.begun.pop_front() {
                return Some(work);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes results where they belong, also when nobody waits for them any more.
    fn answer(&self, life: u64, request: Request, status: Status, output: Option<Output>) {
        let mut is_written = true;
        let mut is_verified = status == status::SUCCESS;
        if let Some(output) = output {
            is_written = low::write(request.data, &output.data)
                && output.tag.is_none_or(|tag| low::write(request.tag, &tag));
            is_verified = output.is_verified;
        }
        let status = if is_written { status } else { status::FAIL };
        let mut state = self.state();
        if state.life == life {
            state.done.push_back(Done { request, status, is_verified });
        }
    }
}

/// What the device makes of a request; nothing where it does not reach it.
fn compute(dials: &Dials, request: &Request) -> (Status, Option<Output>) {
    let cipher = &request.session.cipher;
    let read = || {
        let mut data = low::read(request.data, request.len)?;
        let counted = request.len & (((1u64 << dials.length_bits) - 1) as usize);
        let rest = data.split_off(counted);
        let ad = if cipher.ad_len == 0 { Vec::new() } else { low::read(request.ad, cipher.ad_len)? };
        let tag = low::read(request.tag, 16)?.try_into().ok()?;
        let iv = low::read(request.iv, request.iv_len)?;
        let mut output = cipher.compute(Input { iv, ad, data, tag })?;
        output.data.extend(rest);
        Some(output)
    };
    match read() {
        Some(output) => (status::SUCCESS, Some(output)),
        None => {
            eprintln!("a request names memory that the device does not reach");
            (status::FAIL, None)
        }
    }
}
