//! Who waits at `/dev/fuse`: all workers, or one that leads
//! (`docs/pacing.md#busy-polling`).
//!
//! The kernel wakes the worker that has slept there longest, whoever else is
//! about to look. So a worker looks only while it is the only one there. The
//! turn is *open* as a rule, and everybody waits at the device. It is *closed*
//! while one worker, the *leader*, takes all requests; the others are parked.
//!
//! A leader that hangs must not hang the mount, not even when it waits for
//! what only another request can bring. So what may take long opens the turn
//! before it is answered, and of the parked workers one, the *deputy*, looks
//! up every 2 ms while requests are being answered, and opens the turn when
//! the leader is still at the same one. While none come it sleeps.
//!
//! Invariants: whoever is parked is woken when the turn opens, and it opens
//! for good when a worker ends; a closed turn has a leader.

use super::look::Pause;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the deputy looks up.
const TICK: Duration = Duration::from_millis(2);

/// Shared by the workers of one mount.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Anybody may wait at the device.
    open: AtomicBool,
    /// Workers that wait there, asleep.
    waiting: AtomicUsize,
    /// Workers that answer a request.
    answering: AtomicUsize,
    /// How often the turn was closed. A leader that hung does not lead on when
    /// somebody else has begun to.
    leads: AtomicU64,
    /// Changes with each request that the leader receives or answers.
    moment: AtomicU64,
    /// When a request was answered last, in nanoseconds after `origin`.
    replied: AtomicU64,
    origin: Instant,
    /// The deputy does not look up before it is woken.
    is_deputy_asleep: AtomicBool,
    parked: Mutex<Parked>,
    opened: Condvar,
    /// For the deputy alone.
    busy: Condvar,
}

#[derive(Debug, Default)]
struct Parked {
    /// Somebody watches the leader.
    deputy: bool,
    /// The turn is open for good.
    ended: bool,
    /// Nobody is to look, since it costs CPU time.
    refused: bool,
    pause: Pause,
}

/// How a worker may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// Alone, while this is the latest lead.
    Leader(u64),
    /// With the others.
    Beside,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn {
            open: AtomicBool::new(true),
            waiting: AtomicUsize::new(0),
            answering: AtomicUsize::new(0),
            leads: AtomicU64::new(0),
            moment: AtomicU64::new(0),
            replied: AtomicU64::new(0),
            origin: Instant::now(),
            is_deputy_asleep: AtomicBool::new(false),
            parked: Mutex::default(),
            opened: Condvar::new(),
            busy: Condvar::new(),
        }
    }
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the worker may wait at the device, which a leader always
    /// may.
    pub(super) fn take(&self, stand: Stand) -> Stand {
        let is_open = self.open.load(Ordering::Acquire);
        match stand {
            _ if is_open => return Stand::Beside,
            Stand::Leader(lead) if lead == self.leads.load(Ordering::Acquire) => return stand,
            _ => {}
        }
        let mut parked = self.lock();
        while !self.open.load(Ordering::Acquire) {
            parked = if parked.deputy { wait(&self.opened, parked) } else { self.watch(parked) };
        }
        Stand::Beside
    }

    /// Watches the leader for a tick, or until it is at work again.
    fn watch<'a>(&'a self, mut parked: MutexGuard<'a, Parked>) -> MutexGuard<'a, Parked> {
        parked.deputy = true;
        let before = self.moment.load(Ordering::SeqCst);
        let (mut parked, waited) =
            self.busy.wait_timeout(parked, TICK).unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && self.moment.load(Ordering::SeqCst) == before {
            if self.answering.load(Ordering::SeqCst) > 0 {
                self.open_locked(&mut parked, Instant::now());
            } else {
                // The leader sees the flag, or else this the new moment.
                self.is_deputy_asleep.store(true, Ordering::SeqCst);
                if self.moment.load(Ordering::SeqCst) == before && !self.open.load(Ordering::SeqCst) {
                    parked = wait(&self.busy, parked);
                }
                self.is_deputy_asleep.store(false, Ordering::SeqCst);
            }
        }
        parked.deputy = false;
        parked
    }

    /// Runs `sleep`, which waits at the device.
    pub(super) fn waiting<T>(&self, sleep: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let slept = sleep();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        slept
    }

    /// Whether nobody waits at the device who would be woken.
    pub(super) fn is_alone(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// A request was received. True when nobody answers another one.
    pub(super) fn received(&self, stand: Stand) -> bool {
        let alone = self.answering.fetch_add(1, Ordering::SeqCst) == 0;
        if stand != Stand::Beside {
            self.moment.fetch_add(1, Ordering::SeqCst);
            if self.is_deputy_asleep.load(Ordering::SeqCst) {
                let parked = self.lock();
                self.is_deputy_asleep.store(false, Ordering::SeqCst);
                self.busy.notify_one();
                drop(parked);
            }
        }
        alone
    }

    /// It was answered, just now.
    pub(super) fn answered(&self, stand: Stand, now: Instant) {
        let since = now.saturating_duration_since(self.origin);
        // A mount of 584 years would begin anew.
        self.replied.store(since.as_nanos() as u64, Ordering::Relaxed);
        self.answering.fetch_sub(1, Ordering::SeqCst);
        if stand != Stand::Beside {
            self.moment.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How long ago any request was answered last.
    pub(super) fn since_reply(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.origin);
        since.saturating_sub(Duration::from_nanos(self.replied.load(Ordering::Relaxed)))
    }

    /// Lets all workers wait at the device, for as long as the pause lasts.
    pub(super) fn open_up(&self, now: Instant) {
        self.open_locked(&mut self.lock(), now);
    }

    fn open_locked(&self, parked: &mut Parked, now: Instant) {
        if !self.open.swap(true, Ordering::SeqCst) {
            parked.pause.begin(now);
            self.opened.notify_all();
            self.busy.notify_all();
        }
    }

    /// Says whether anybody may look from now on.
    pub(crate) fn allow(&self, allowed: bool) {
        let mut parked = self.lock();
        parked.refused = !allowed;
        if parked.refused {
            self.open_locked(&mut parked, Instant::now());
        }
    }

    /// Has the caller lead, who answers a request: unless somebody else leads,
    /// looking was given up too short a time ago, or `pays` says no, which is
    /// giving up too. `None` when it does not lead.
    pub(super) fn close(&self, now: Instant, pays: impl FnOnce() -> bool) -> Option<Stand> {
        let mut parked = self.lock();
        if parked.ended || parked.refused || !parked.pause.is_over(now) || !self.open.load(Ordering::SeqCst) {
            return None;
        }
        if !pays() {
            parked.pause.begin(now);
            return None;
        }
        parked.pause.end(now);
        let lead = self.leads.fetch_add(1, Ordering::SeqCst) + 1;
        self.open.store(false, Ordering::SeqCst);
        Some(Stand::Leader(lead))
    }

    /// A worker ends, and nobody is to wait for it.
    pub(super) fn end(&self) {
        let mut parked = self.lock();
        parked.ended = true;
        self.open_locked(&mut parked, Instant::now());
    }
}

fn wait<'a>(condition: &Condvar, parked: MutexGuard<'a, Parked>) -> MutexGuard<'a, Parked> {
    condition.wait(parked).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::look::{PAUSE_MAX, PAUSE_MIN};
    use std::sync::mpsc::channel;

    /// What the next worker is told, as soon as it is told anything.
    fn next<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        turn: &'scope Turn,
    ) -> std::sync::mpsc::Receiver<Stand> {
        let (sender, receiver) = channel();
        scope.spawn(move || sender.send(turn.take(Stand::Beside)));
        receiver
    }

    /// A turn whose leader has just answered its first request.
    fn closed() -> (Turn, Stand) {
        let turn = Turn::default();
        assert!(turn.received(Stand::Beside));
        let leader = turn.close(Instant::now(), || true).unwrap();
        turn.answered(leader, Instant::now());
        (turn, leader)
    }

    const SOON: Duration = Duration::from_secs(20);
    const A_WHILE: Duration = Duration::from_millis(50);

    #[test]
    fn the_turn_is_open_until_somebody_closes_it() {
        let turn = Turn::default();
        assert_eq!(turn.take(Stand::Beside), Stand::Beside);
        assert!(turn.received(Stand::Beside));
        assert!(!turn.received(Stand::Beside), "another one is being answered");
        let now = Instant::now();
        assert!(turn.close(now, || true).is_some());
        assert_eq!(turn.close(now, || true), None, "somebody leads");
        turn.open_up(now);
        assert_eq!(turn.close(now, || true), None, "it was given up just now");
        let later = now + PAUSE_MIN;
        assert_eq!(turn.close(later, || false), None);
        assert_eq!(turn.close(later + PAUSE_MIN, || true), None, "it has not paid twice");
        assert!(turn.close(later + 2 * PAUSE_MIN, || true).is_some());
    }

    #[test]
    fn nobody_leads_while_looking_is_not_allowed() {
        let (turn, leader) = closed();
        turn.allow(false);
        assert_eq!(turn.take(leader), Stand::Beside);
        let later = Instant::now() + PAUSE_MAX;
        assert_eq!(turn.close(later, || true), None);
        turn.allow(true);
        assert!(turn.close(later, || true).is_some());
    }

    #[test]
    fn one_leads_until_the_turn_opens() {
        let (turn, leader) = closed();
        std::thread::scope(|scope| {
            let others = [next(scope, &turn), next(scope, &turn)];
            for _ in 0..20 {
                std::thread::sleep(TICK);
                assert_eq!(turn.take(leader), leader);
                turn.received(leader);
                turn.answered(leader, Instant::now());
            }
            for other in &others {
                assert!(other.try_recv().is_err(), "it is parked");
            }
            turn.open_up(Instant::now());
            for other in others {
                assert_eq!(other.recv_timeout(SOON), Ok(Stand::Beside));
            }
        });
        assert_eq!(turn.take(leader), Stand::Beside);
    }

    #[test]
    fn a_leader_that_hung_is_parked_when_another_leads() {
        let (turn, first) = closed();
        turn.open_up(Instant::now());
        let second = turn.close(Instant::now() + PAUSE_MAX, || true).unwrap();
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let turn = &turn;
            scope.spawn(move || sender.send(turn.take(first)));
            assert!(receiver.recv_timeout(A_WHILE).is_err(), "it is parked");
            assert_eq!(turn.take(second), second);
            turn.open_up(Instant::now());
            assert_eq!(receiver.recv_timeout(SOON), Ok(Stand::Beside));
        });
    }

    #[test]
    fn a_worker_looks_only_while_no_other_is_at_the_device() {
        let turn = Turn::default();
        assert!(turn.is_alone());
        turn.waiting(|| assert!(!turn.is_alone()));
        assert!(turn.is_alone());
    }

    #[test]
    fn the_time_since_a_reply_is_anybodys() {
        let turn = Turn::default();
        turn.received(Stand::Beside);
        let now = Instant::now() + A_WHILE;
        turn.answered(Stand::Beside, now);
        assert_eq!(turn.since_reply(now), Duration::ZERO);
        assert_eq!(turn.since_reply(now + A_WHILE), A_WHILE);
    }

    #[test]
    fn a_leader_that_hangs_is_noticed_however_long_nothing_was_asked_before() {
        for pause in [Duration::ZERO, 10 * TICK] {
            let (turn, leader) = closed();
            std::thread::scope(|scope| {
                let (first, second) = (next(scope, &turn), next(scope, &turn));
                std::thread::sleep(pause);
                turn.received(leader);
                assert_eq!(first.recv_timeout(SOON), Ok(Stand::Beside));
                assert_eq!(second.recv_timeout(SOON), Ok(Stand::Beside));
            });
        }
    }

    #[test]
    fn nobody_waits_for_a_worker_that_has_ended() {
        let (turn, leader) = closed();
        std::thread::scope(|scope| {
            let (first, second) = (next(scope, &turn), next(scope, &turn));
            std::thread::sleep(A_WHILE);
            turn.end();
            assert_eq!(first.recv_timeout(SOON), Ok(Stand::Beside));
            assert_eq!(second.recv_timeout(SOON), Ok(Stand::Beside));
        });
        assert_eq!(turn.close(Instant::now() + PAUSE_MAX, || true), None);
        assert_eq!(turn.take(leader), Stand::Beside);
    }
}
