//! Who waits at `/dev/fuse`: all workers, or one that leads.
//!
//! This is the Leader/Followers pattern (Schmidt and others, Pattern-Oriented
//! Software Architecture 2, 2000), for a reason of Linux: the kernel wakes the
//! worker that has slept longest, whoever polls, so that polling is in vain
//! while anybody else sleeps there. The turn is *open* as a rule, and everybody
//! waits at the device. It is *closed* while the leader takes all requests and
//! the others are parked.
//!
//! A leader that hangs must not hang the mount, not even when it waits for what
//! only another request can bring: the watchdog opens the turn.
//!
//! Invariants: whoever is parked is woken when the turn opens, and it opens for
//! good when a worker ends; a turn is closed only while the watchdog runs.

use super::backoff::Backoff;
use super::limits::LEASE;
use super::watchdog::{Guard, Watched};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, PoisonError};
use std::time::{Duration, Instant};

/// Shared by the workers of one mount.
#[derive(Debug)]
pub(super) struct Turns {
    /// Anybody may wait at the device. Changed with the state locked alone.
    open: AtomicBool,
    /// How often the turn was closed. A leader that hung does not lead on when
    /// somebody else has begun to.
    leads: AtomicU64,
    /// Workers that wait at the device, asleep.
    sleeping: AtomicUsize,
    /// Workers that answer a request.
    answering: AtomicUsize,
    /// When the leader received or answered a request last, and when anybody
    /// answered one: nanoseconds after `origin`, enough for centuries.
    moved: AtomicU64,
    replied: AtomicU64,
    origin: Instant,
    state: Watched<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    watch: Watch,
    /// Nobody is to poll, since it costs CPU time.
    is_refused: bool,
    backoff: Backoff,
}

/// Whether the watchdog looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watch {
    /// Not yet.
    #[default]
    Coming,
    /// It does.
    On,
    /// A worker has ended: the turn is open for good.
    Over,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns {
            open: AtomicBool::new(true),
            leads: AtomicU64::new(0),
            sleeping: AtomicUsize::new(0),
            answering: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            replied: AtomicU64::new(0),
            origin: Instant::now(),
            state: Watched::default(),
            opened: Condvar::new(),
        }
    }

    /// Waits until the worker may wait at the device with the others.
    pub(super) fn park(&self) {
        let is_closed = || !self.open.load(Ordering::Acquire);
        if is_closed() {
            let opened = self.opened.wait_while(self.state.lock(), |_| is_closed());
            drop(opened.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Whether this is the lead that goes on.
    pub(super) fn is_led(&self, lead: u64) -> bool {
        !self.open.load(Ordering::Acquire) && lead == self.leads.load(Ordering::Acquire)
    }

    /// A worker is about to sleep at the device.
    pub(super) fn sleeps(&self) {
        self.sleeping.fetch_add(1, Ordering::AcqRel);
    }

    /// It woke.
    pub(super) fn woke(&self) {
        self.sleeping.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether nobody sleeps at the device who would be woken.
    pub(super) fn is_alone(&self) -> bool {
        self.sleeping.load(Ordering::Acquire) == 0
    }

    /// A request was received. True when nobody answers another one.
    pub(super) fn received(&self) -> bool {
        self.answering.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// It was answered, just now.
    pub(super) fn answered(&self, now: Instant) {
        self.replied.store(self.nanoseconds(now), Ordering::Relaxed);
        self.answering.fetch_sub(1, Ordering::AcqRel);
    }

    /// The leader goes on.
    pub(super) fn moves(&self, now: Instant) {
        self.moved.store(self.nanoseconds(now), Ordering::Release);
    }

    /// How long ago any request was answered last.
    pub(super) fn since_reply(&self, now: Instant) -> Duration {
        let replied = self.replied.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanoseconds(now).saturating_sub(replied))
    }

    /// Has the caller lead, who answers a request: unless somebody else leads,
    /// leading has failed too short a time ago, or `pays` says no, which is
    /// failing too. The number of its lead.
    pub(super) fn close(&self, now: Instant, pays: impl FnOnce() -> bool) -> Option<u64> {
        let mut state = self.state.lock();
        let is_allowed = state.watch == Watch::On && !state.is_refused && state.backoff.is_over(now);
        if !is_allowed || !self.open.load(Ordering::Acquire) {
            return None;
        }
        if !pays() {
            state.backoff.failed(now);
            return None;
        }
        state.backoff.begins(now);
        self.moves(now);
        let lead = self.leads.fetch_add(1, Ordering::AcqRel) + 1;
        self.open.store(false, Ordering::Release);
        self.state.changed();
        Some(lead)
    }

    /// The lead does not pay: all workers may wait at the device, and nobody
    /// leads for a while.
    pub(super) fn give_up(&self, now: Instant) {
        self.opens(&mut self.state.lock(), now);
    }

    fn opens(&self, state: &mut State, now: Instant) {
        if !self.open.swap(true, Ordering::AcqRel) {
            state.backoff.failed(now);
            self.opened.notify_all();
        }
    }

    /// Whether anybody may lead from now on.
    pub(super) fn allow(&self, allowed: bool) {
        let mut state = self.state.lock();
        state.is_refused = !allowed;
        if state.is_refused {
            self.opens(&mut state, Instant::now());
        }
    }

    /// What the watchdog does until [`end`](Turns::end).
    pub(super) fn watch(&self) {
        self.begin();
        let guard = |state: &State| match state.watch {
            Watch::Over => Guard::Over,
            _ if self.open.load(Ordering::Acquire) => Guard::Nothing,
            _ => Guard::Somebody,
        };
        self.state.watch(guard, |state, now| self.look(state, now));
    }

    fn begin(&self) {
        let mut state = self.state.lock();
        if state.watch == Watch::Coming {
            state.watch = Watch::On;
        }
    }

    /// Opens the turn when the leader has neither received nor answered a
    /// request for a lease: it hangs, or nothing is asked of it.
    fn look(&self, state: &mut State, now: Instant) {
        // In this order: whoever receives says first that it goes on.
        let is_answering = self.answering.load(Ordering::Acquire) > 0;
        let since = self.nanoseconds(now).saturating_sub(self.moved.load(Ordering::Acquire));
        if Duration::from_nanos(since) < LEASE {
            return;
        }
        if is_answering {
            self.opens(state, now);
        } else if !self.open.swap(true, Ordering::AcqRel) {
            // It did well, and others do as well now.
            self.opened.notify_all();
        }
    }

    /// A worker ends, or cannot take part, and nobody is to wait for it.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.watch = Watch::Over;
        self.opens(&mut state, Instant::now());
        self.state.changed();
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// As if the watchdog had looked then.
    #[cfg(test)]
    pub(super) fn looked(&self, now: Instant) {
        self.look(&mut self.state.lock(), now);
    }

    /// With a watchdog that looks when the test says so.
    #[cfg(test)]
    pub(super) fn watched() -> Turns {
        let turns = Turns::new();
        turns.begin();
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::limits::{BACKOFF_MAX, BACKOFF_MIN};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::Scope;

    const PATIENCE: Duration = Duration::from_secs(60);
    const A_WHILE: Duration = Duration::from_millis(50);

    /// Hears when a worker that parks may go on, and that it may not yet.
    fn parks<'scope>(scope: &'scope Scope<'scope, '_>, turns: &'scope Turns) -> Receiver<()> {
        let (sender, receiver) = channel();
        scope.spawn(move || {
            sender.send(()).unwrap();
            turns.park();
            sender.send(())
        });
        receiver.recv_timeout(PATIENCE).unwrap();
        receiver
    }

    #[test]
    fn the_turn_is_open_until_somebody_leads() {
        let (turns, now) = (Turns::watched(), Instant::now());
        turns.park();
        assert!(turns.received());
        assert!(!turns.received(), "another one is being answered");
        let lead = turns.close(now, || true).unwrap();
        assert!(turns.is_led(lead));
        assert_eq!(turns.close(now, || true), None, "somebody leads");
        turns.give_up(now);
        assert!(!turns.is_led(lead));
        assert_eq!(turns.close(now, || true), None, "it was given up just now");
        let later = now + BACKOFF_MIN;
        assert_eq!(turns.close(later, || false), None);
        assert_eq!(turns.close(later + BACKOFF_MIN, || true), None, "it has failed twice");
        assert!(turns.close(later + 2 * BACKOFF_MIN, || true).is_some());
        assert!(!turns.is_led(lead), "that is another lead");
    }

    #[test]
    fn nobody_leads_without_a_watchdog_nor_where_it_is_not_allowed() {
        let now = Instant::now();
        assert_eq!(Turns::new().close(now, || true), None);
        let turns = Turns::watched();
        let lead = turns.close(now, || true).unwrap();
        turns.allow(false);
        assert!(!turns.is_led(lead));
        let later = Instant::now() + BACKOFF_MAX;
        assert_eq!(turns.close(later, || true), None);
        turns.allow(true);
        assert!(turns.close(later, || true).is_some());
    }

    #[test]
    fn whoever_is_parked_goes_on_when_the_turn_opens() {
        let (turns, now) = (Turns::watched(), Instant::now());
        turns.close(now, || true).unwrap();
        std::thread::scope(|scope| {
            let others = [parks(scope, &turns), parks(scope, &turns)];
            assert!(others[0].recv_timeout(A_WHILE).is_err(), "it is parked");
            turns.give_up(now);
            others.iter().for_each(|other| other.recv_timeout(PATIENCE).unwrap());
        });
    }

    #[test]
    fn a_leader_that_hangs_has_failed_and_an_idle_one_has_not() {
        for hangs in [true, false] {
            let (turns, now) = (Turns::watched(), Instant::now());
            turns.received();
            let lead = turns.close(now, || true).unwrap();
            if !hangs {
                turns.answered(now);
            }
            turns.looked(now + LEASE / 2);
            assert!(turns.is_led(lead), "it may take a lease");
            turns.moves(now + LEASE / 2);
            turns.looked(now + LEASE);
            assert!(turns.is_led(lead), "it went on");
            let later = now + 2 * LEASE;
            turns.looked(later);
            assert!(!turns.is_led(lead));
            assert_eq!(turns.close(later, || true).is_none(), hangs);
        }
    }

    #[test]
    fn the_watchdog_lets_the_others_in_by_itself() {
        let turns = Turns::new();
        std::thread::scope(|scope| {
            scope.spawn(|| turns.watch());
            let mut led = None;
            while led.is_none() {
                led = turns.close(Instant::now(), || true);
            }
            parks(scope, &turns).recv_timeout(PATIENCE).unwrap();
            turns.end();
        });
    }

    #[test]
    fn nobody_waits_for_a_worker_that_has_ended() {
        let turns = Turns::watched();
        turns.close(Instant::now(), || true).unwrap();
        std::thread::scope(|scope| {
            let other = parks(scope, &turns);
            turns.end();
            other.recv_timeout(PATIENCE).unwrap();
        });
        assert_eq!(turns.close(Instant::now() + BACKOFF_MAX, || true), None);
        turns.watch();
        assert_eq!(turns.close(Instant::now() + BACKOFF_MAX, || true), None, "it came too late");
    }

    #[test]
    fn who_sleeps_and_when_was_replied_is_known() {
        let turns = Turns::new();
        assert!(turns.is_alone());
        turns.sleeps();
        assert!(!turns.is_alone());
        turns.woke();
        assert!(turns.is_alone());
        turns.received();
        let now = Instant::now() + PATIENCE;
        turns.answered(now);
        assert_eq!(turns.since_reply(now + PATIENCE), PATIENCE);
    }
}
