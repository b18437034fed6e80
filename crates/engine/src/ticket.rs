//! Tickets: the promise of a completion.
//!
//! A ticket is complete already (an inline engine), pending (a device), or
//! guarded: pending, with a step that sees the answer before the waiter does
//! and may replace it. That is how an engine over engines redoes lost work
//! without a thread of its own, on the thread that waits.
//!
//! Who looks for the completions of a pending ticket is the engine's choice: a
//! thread of its own ([`Ticket::pending`]), or those that wait
//! ([`Ticket::polled`]).

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};
use crate::{Batch, limits};

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every segment is done.
    Done,
    /// At least one segment of an `Open` was forged; its verdict says which,
    /// its bytes are zero, the others are good. Never retried.
    AuthenticationFailed,
    /// The device failed half-way: the buffer may hold anything. The work is
    /// redone from its source, or its error is reported.
    DeviceLost,
}

/// A batch that has come back.
#[derive(Debug)]
pub struct Completed {
    /// The batch, its buffer with it.
    pub batch: Batch,
    /// How it ended.
    pub outcome: Outcome,
}

/// A promise that a batch will come back. Dropping it abandons the batch: the
/// engine still completes it, and the buffer is then freed.
#[must_use = "a ticket is waited for, or its batch is lost"]
pub struct Ticket(State);

enum State {
    Inline(Completed),
    Pending(Pending),
    Guarded(Box<Guarded>),
}

struct Pending {
    slot: Arc<Slot>,
    poller: Option<Arc<dyn Poller>>,
}

/// What an engine without a thread of its own has those do that wait for its
/// [polled](Ticket::polled) tickets.
pub trait Poller: Send + Sync {
    /// Answers what the device has completed; while that is nothing, waits for
    /// it, at most `limit`, by spinning or asleep as the engine sees fit. Begins
    /// what was submitted and not flushed.
    ///
    /// Several threads may be here at once. Each returns soon after any batch of
    /// the engine was answered, by whomever, or after `limit`; it may return
    /// earlier, and is called again.
    fn poll(&self, limit: Duration);
}

/// What a guard is told about the ticket it guards.
#[derive(Debug)]
pub enum Answer {
    /// The batch came back, well or not.
    Completed(Completed, Answered),
    /// It will never come back.
    Vanished,
    /// It had not come back at the deadline. It is abandoned: the engine
    /// keeps its buffer, and frees it if it ever completes.
    Late,
}

/// When a batch came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The moment.
    pub at: Instant,
    /// Whether somebody waited for it already, and not for anything else first:
    /// what passes from then on until the guard runs is what its thread waits for
    /// a CPU.
    pub was_awaited: bool,
    /// CPU time in nanoseconds that the engine took of this process for the batch,
    /// besides that of `submit`, as far as it tells.
    pub cpu_ns: u64,
}

impl Answered {
    fn now() -> Answered {
        Answered { at: Instant::now(), was_awaited: false, cpu_ns: 0 }
    }
}

type Guard = Box<dyn FnOnce(Answer) -> Result<Completed, Vanished> + Send>;

struct Guarded {
    ticket: Ticket,
    deadline: Instant,
    guard: Guard,
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    arrived: Condvar,
}

#[derive(Default)]
struct SlotState {
    arrival: Arrival,
    /// Who else wants to know of it.
    notice: Option<Notice>,
}

type Notice = Box<dyn FnOnce() + Send>;

#[derive(Default)]
enum Arrival {
    #[default]
    Awaited,
    Arrived(Box<Completed>, Instant, u64),
    /// The engine dropped its completer: batch and buffer are gone.
    Vanished,
}

/// The batch will never come back, and its buffer is gone with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanished;

impl Ticket {
    /// Already complete; costs no allocation.
    pub fn ready(completed: Completed) -> Ticket {
        Ticket(State::Inline(completed))
    }

    /// To be completed later, from any thread, through the [`Completer`].
    pub fn pending() -> (Ticket, Completer) {
        Ticket::of_slot(None)
    }

    /// As [`Ticket::pending`], of an engine that looks for completions when
    /// somebody waits: who does calls `poller` until the completer was used.
    /// Nobody calls it for a ticket that is only to be [told of](Ticket::on_arrival).
    pub fn polled(poller: Arc<dyn Poller>) -> (Ticket, Completer) {
        Ticket::of_slot(Some(poller))
    }

    fn of_slot(poller: Option<Arc<dyn Poller>>) -> (Ticket, Completer) {
        let slot = Arc::new(Slot::default());
        let pending = Pending { slot: Arc::clone(&slot), poller };
        (Ticket(State::Pending(pending)), Completer { slot, answered: false })
    }

    /// This ticket with a step between its answer and its waiter: `guard`
    /// runs on the waiting thread when the answer is there or `deadline` has
    /// passed, and what it returns is what the waiter sees. It does not run
    /// when the ticket is dropped.
    ///
    /// Allocates, so engines use it for pending tickets alone.
    pub fn guarded(
        self,
        deadline: Instant,
        guard: impl FnOnce(Answer) -> Result<Completed, Vanished> + Send + 'static,
    ) -> Ticket {
        Ticket(State::Guarded(Box::new(Guarded { ticket: self, deadline, guard: Box::new(guard) })))
    }

    /// Has `notice` called when the engine answers or gives up, on its thread
    /// and before the waiter is woken, who may have to wait for a CPU long after
    /// that; or now, if it has answered. A second notice replaces the first.
    ///
    /// Allocates, so engines use it for pending tickets alone.
    pub fn on_arrival(&self, notice: impl FnOnce() + Send + 'static) {
        match &self.0 {
            State::Inline(_) => notice(),
            State::Pending(pending) => pending.slot.on_arrival(notice),
            State::Guarded(guarded) => guarded.ticket.on_arrival(notice),
        }
    }

    /// True when the batch was complete before `submit` returned.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        matches!(self.0, State::Inline(_))
    }

    /// Waits as long as it takes.
    ///
    /// # Errors
    /// [`Vanished`] when the engine gave up without handing the batch back.
    pub fn wait(self) -> Result<Completed, Vanished> {
        match self.0 {
            State::Inline(completed) => Ok(completed),
            State::Pending(pending) => {
                pending.take_within(None).expect("waits until it arrives").map(|(completed, _)| completed)
            }
            State::Guarded(guarded) => {
                let Guarded { ticket, deadline, guard } = *guarded;
                let limit = deadline.saturating_duration_since(Instant::now());
                guard(match ticket.arrival_within(limit) {
                    Ok(Ok((completed, answered))) => Answer::Completed(completed, answered),
                    Ok(Err(Vanished)) => Answer::Vanished,
                    Err(_abandoned) => Answer::Late,
                })
            }
        }
    }

    /// Waits at most `limit`, or longer where a guard has work to redo; the
    /// outer error gives the ticket back when the batch is still out.
    ///
    /// # Errors
    /// The ticket itself after `limit`.
    pub fn wait_for(self, limit: Duration) -> Result<Result<Completed, Vanished>, Ticket> {
        let arrival = self.arrival_within(limit)?;
        Ok(arrival.map(|(completed, _)| completed))
    }

    /// As [`Ticket::wait_for`], with the moment of the answer: that of an
    /// inline or guarded ticket is now.
    fn arrival_within(self, limit: Duration) -> Result<Result<(Completed, Answered), Vanished>, Ticket> {
        match self.0 {
            State::Inline(completed) => Ok(Ok((completed, Answered::now()))),
            State::Pending(pending) => {
                pending.take_within(Some(limit)).ok_or(Ticket(State::Pending(pending)))
            }
            State::Guarded(guarded) => {
                let answer = (*guarded).wait_for(limit)?;
                Ok(answer.map(|completed| (completed, Answered::now())))
            }
        }
    }
}

impl Guarded {
    fn wait_for(self, limit: Duration) -> Result<Result<Completed, Vanished>, Ticket> {
        let Guarded { ticket, deadline, guard } = self;
        let until_deadline = deadline.saturating_duration_since(Instant::now());
        match ticket.arrival_within(limit.min(until_deadline)) {
            Ok(Ok((completed, answered))) => Ok(guard(Answer::Completed(completed, answered))),
            Ok(Err(Vanished)) => Ok(guard(Answer::Vanished)),
            Err(_abandoned) if until_deadline <= limit => Ok(guard(Answer::Late)),
            Err(ticket) => Err(Ticket(State::Guarded(Box::new(Guarded { ticket, deadline, guard })))),
        }
    }
}

impl Pending {
    /// The answer, or `None` if it has not arrived within `limit`.
    fn take_within(&self, limit: Option<Duration>) -> Option<Result<(Completed, Answered), Vanished>> {
        let Some(poller) = &self.poller else { return self.slot.take_within(limit) };
        let began = Instant::now();
        let mut left = limits::POLL_MAX;
        loop {
            if let Some(arrived) = self.slot.take_within(Some(Duration::ZERO)) {
                return Some(arrived);
            }
            if left.is_zero() {
                return None;
            }
            if let Some(limit) = limit {
                left = limit.saturating_sub(began.elapsed()).min(limits::POLL_MAX);
            }
            // At the end once more, without waiting.
            poller.poll(left);
        }
    }
}

impl Slot {
    /// The answer, or `None` if it has not arrived within `limit`.
    fn take_within(&self, limit: Option<Duration>) -> Option<Result<(Completed, Answered), Vanished>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_awaited = matches!(state.arrival, Arrival::Awaited);
        let awaited = |state: &mut SlotState| matches!(state.arrival, Arrival::Awaited);
        let mut state = match limit {
            None => self.arrived.wait_while(state, awaited).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.arrived.wait_timeout_while(state, limit, awaited);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        match std::mem::take(&mut state.arrival) {
            Arrival::Arrived(completed, at, cpu_ns) => {
                Some(Ok((*completed, Answered { at, was_awaited, cpu_ns })))
            }
            Arrival::Vanished => Some(Err(Vanished)),
            Arrival::Awaited => None,
        }
    }

    fn on_arrival(&self, notice: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Arrival::Awaited = state.arrival {
            state.notice = Some(Box::new(notice));
            return;
        }
        drop(state);
        notice();
    }
}

/// The engine's end of a pending [`Ticket`]. Dropped unanswered, it tells the
/// waiter that the batch has vanished.
pub struct Completer {
    slot: Arc<Slot>,
    answered: bool,
}

impl Completer {
    /// Hands the batch back.
    pub fn complete(self, completed: Completed) {
        self.complete_at_cost(completed, 0);
    }

    /// The same, and tells what that took of this process: CPU time in nanoseconds,
    /// besides that of `submit`. A scheduler reckons with it.
    pub fn complete_at_cost(mut self, completed: Completed, cpu_ns: u64) {
        self.answered = true;
        self.answer(Arrival::Arrived(Box::new(completed), Instant::now(), cpu_ns));
    }

    fn answer(&self, arrival: Arrival) {
        let mut state = self.slot.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrival = arrival;
        let notice = state.notice.take();
        drop(state);
        if let Some(notice) = notice {
            notice();
        }
        self.slot.arrived.notify_all();
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Arrival::Vanished);
        }
    }
}

/// Hands batches back that took so much CPU time of this process together, in
/// nanoseconds besides that of `submit`: each has its part of that by its bytes.
pub fn complete_all(finished: Vec<(Completer, Completed)>, cpu_ns: u64) {
    let bytes: usize = finished.iter().map(|(_, completed)| completed.batch.bytes()).sum();
    let each_byte_ns = cpu_ns as f64 / bytes.max(1) as f64;
    for (completer, completed) in finished {
        let cpu_ns = (each_byte_ns * completed.batch.bytes() as f64) as u64;
        completer.complete_at_cost(completed, cpu_ns);
    }
}

/// CPU time that this thread has used, in nanoseconds, what the kernel computed
/// for it included. Source: clock_gettime(2), `CLOCK_THREAD_CPUTIME_ID`.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::{Batch, Buffer, Operation};

    fn completed(outcome: Outcome) -> Completed {
        Completed { batch: Batch::new(Operation::Seal, Buffer::empty(), Vec::new()), outcome }
    }

    #[test]
    fn a_pending_ticket_waits_for_its_completer() {
        let (ticket, completer) = Ticket::pending();
        let ticket = ticket.wait_for(Duration::from_millis(1)).expect_err("nothing has answered");
        let answering = std::thread::spawn(move || completer.complete(completed(Outcome::Done)));
        assert_eq!(ticket.wait().unwrap().outcome, Outcome::Done);
        answering.join().unwrap();
    }

    /// A device that has done its work when it is asked for the third time.
    #[derive(Default)]
    struct Third(std::sync::Mutex<(u32, Option<Completer>)>);

    impl Poller for Third {
        fn poll(&self, limit: Duration) {
            assert!(limit <= limits::POLL_MAX);
            let mut state = self.0.lock().unwrap();
            state.0 += 1;
            if state.0 == 3 {
                state.1.take().expect("it was not asked before").complete(completed(Outcome::Done));
            } else {
                std::thread::sleep(limit.min(Duration::from_millis(2)));
            }
        }
    }

    #[test]
    fn who_waits_for_a_polled_ticket_looks_for_its_answer() {
        for limit in [None, Some(Duration::from_secs(3600))] {
            let device = Arc::new(Third::default());
            let (ticket, completer) = Ticket::polled(Arc::clone(&device) as _);
            device.0.lock().unwrap().1 = Some(completer);
            let ticket = ticket.wait_for(Duration::from_millis(1)).expect_err("it was asked twice");
            let ticket = ticket.guarded(Instant::now() + Duration::from_secs(3600), |answer| match answer {
                Answer::Completed(completed, _) => Ok(completed),
                _ => Err(Vanished),
            });
            let answer = match limit {
                None => ticket.wait(),
                Some(limit) => ticket.wait_for(limit).ok().expect("it is done by then"),
            };
            assert_eq!(answer.unwrap().outcome, Outcome::Done);
            assert_eq!(device.0.lock().unwrap().0, 3);
        }
    }

    #[test]
    fn batches_share_what_their_engine_used_by_their_bytes() {
        let (tells, told) = std::sync::mpsc::channel();
        let (mut tickets, mut finished) = (Vec::new(), Vec::new());
        for bytes in [1000, 3000] {
            let (ticket, completer) = Ticket::pending();
            let tells = tells.clone();
            tickets.push(ticket.guarded(Instant::now() + Duration::from_secs(3600), move |answer| {
                let Answer::Completed(completed, answered) = answer else { return Err(Vanished) };
                tells.send((completed.batch.bytes(), answered.cpu_ns)).unwrap();
                Ok(completed)
            }));
            let segment = crate::Segment::sectors(0, bytes, 0, 512);
            let batch = Batch::new(Operation::EncryptSectors, Buffer::new(bytes), vec![segment]);
            finished.push((completer, Completed { batch, outcome: Outcome::Done }));
        }
        complete_all(finished, 8000);
        tickets.into_iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(1000, 2000), (3000, 6000)]);
    }

    #[test]
    fn a_dropped_completer_is_noticed() {
        let (ticket, completer) = Ticket::pending();
        drop(completer);
        assert_eq!(ticket.wait().unwrap_err(), Vanished);
    }

    #[test]
    fn a_guard_replaces_a_bad_answer() {
        let (ticket, completer) = Ticket::pending();
        let far = Instant::now() + Duration::from_secs(3600);
        let ticket = ticket.guarded(far, |answer| {
            assert!(matches!(answer, Answer::Completed(Completed { outcome: Outcome::DeviceLost, .. }, _)));
            Ok(completed(Outcome::Done))
        });
        let ticket = ticket.wait_for(Duration::from_millis(1)).expect_err("nothing has answered");
        completer.complete(completed(Outcome::DeviceLost));
        assert_eq!(ticket.wait().unwrap().outcome, Outcome::Done);
    }

    /// Whether a guard is told that its ticket was awaited when the answer came: so
    /// long after the ticket was made, or before anybody waits.
    fn was_awaited(pause: Option<Duration>) -> bool {
        let (ticket, completer) = Ticket::pending();
        let (tells, told) = std::sync::mpsc::channel();
        let ticket = ticket.guarded(Instant::now() + Duration::from_secs(3600), move |answer| {
            let Answer::Completed(completed, answered) = answer else { return Err(Vanished) };
            tells.send(answered).unwrap();
            Ok(completed)
        });
        let answers = move || completer.complete(completed(Outcome::Done));
        match pause {
            None => answers(),
            Some(pause) => drop(std::thread::spawn(move || {
                std::thread::sleep(pause);
                answers();
            })),
        }
        ticket.wait().unwrap();
        let answered = told.recv().unwrap();
        assert!(answered.at <= Instant::now());
        answered.was_awaited
    }

    #[test]
    fn a_guard_is_told_whether_somebody_waited_when_the_answer_came() {
        assert!(!was_awaited(None));
        // On a busy machine it may be long before this thread waits.
        let pauses = (0..13).map(|exponent| Duration::from_millis(1 << exponent));
        assert!(pauses.into_iter().any(|pause| was_awaited(Some(pause))));
    }

    #[test]
    fn a_guard_sees_a_missed_deadline() {
        for bounded in [false, true] {
            let (ticket, completer) = Ticket::pending();
            let soon = Instant::now() + Duration::from_millis(5);
            let ticket = ticket.guarded(soon, |answer| {
                assert!(matches!(answer, Answer::Late));
                Ok(completed(Outcome::Done))
            });
            let answer = match bounded {
                true => ticket.wait_for(Duration::from_secs(3600)).ok().expect("the deadline came first"),
                false => ticket.wait(),
            };
            assert_eq!(answer.unwrap().outcome, Outcome::Done);
            completer.complete(completed(Outcome::Done));
        }
    }

    #[test]
    fn a_notice_comes_once_whoever_waits_and_whatever_comes() {
        let far = Instant::now() + Duration::from_secs(3600);
        for (is_answered, is_late) in [(true, false), (true, true), (false, false), (false, true)] {
            let notices = Arc::new(AtomicU32::new(0));
            let notice = || {
                let notices = Arc::clone(&notices);
                move || {
                    notices.fetch_add(1, Relaxed);
                }
            };
            let (ticket, completer) = Ticket::pending();
            let ticket = ticket.guarded(far, |_| Ok(completed(Outcome::Done)));
            if !is_late {
                ticket.on_arrival(notice());
            }
            assert_eq!(notices.load(Relaxed), 0);
            match is_answered {
                true => completer.complete(completed(Outcome::Done)),
                false => drop(completer),
            }
            // Nobody has waited yet.
            if is_late {
                ticket.on_arrival(notice());
            }
            assert_eq!(notices.load(Relaxed), 1, "answered {is_answered}, late {is_late}");
            ticket.wait().unwrap();
            assert_eq!(notices.load(Relaxed), 1);
        }
    }

    #[test]
    fn a_guard_sees_a_vanished_batch() {
        let (ticket, completer) = Ticket::pending();
        let ticket = ticket.guarded(Instant::now() + Duration::from_secs(3600), |answer| {
            assert!(matches!(answer, Answer::Vanished));
            Err(Vanished)
        });
        drop(completer);
        assert_eq!(ticket.wait().unwrap_err(), Vanished);
    }
}
