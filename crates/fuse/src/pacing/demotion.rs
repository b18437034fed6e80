//! A worker at the CPU of the program that it answers gives way to it there.
//!
//! The kernel wakes a program where a CPU is free. The one that it asked from
//! is not: there the worker runs that answers it. So it goes to another one,
//! which has to be woken from its sleep, asks from there, and is answered from
//! there, and the next answer sends it back: each small request wakes a CPU.
//! A thread of the class [`Class::Idle`] does not count: whoever it wakes
//! comes to run in its place, and it goes on when that one waits.
//!
//! Whoever is demoted may be kept waiting by any other program too. So a worker
//! begins only while short requests come one soon after the other and no more
//! threads are running than there are CPUs, or where another one is demoted so;
//! it stops when it waits for its CPU itself; and the watchdog promotes it when
//! it has begun nothing for a lease.
//!
//! Invariant: a demoted thread is promoted by the watchdog or by itself, and
//! leaves the watchdog's list before it ends.

use super::affinity::Affinity;
use super::backoff::Backoff;
use super::limits::{LEASE, PERIOD, REFUSALS, ROW};
use super::load::{Running, Waited};
use super::short::is_short;
use super::watchdog::{Guard, Watched};
use super::{Found, Pacer};
use crate::sys::class::Class;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The workers of a session, as far as they are demoted.
#[derive(Debug)]
pub(super) struct Demotions {
    /// The watchdog looks.
    is_watched: AtomicBool,
    /// Until when a worker is demoted with its first short request, since
    /// another is and has its CPU; in nanoseconds after `origin`, enough for
    /// centuries.
    follow_until: AtomicU64,
    origin: Instant,
    list: Watched<List>,
    /// The CPUs of the process.
    anywhere: CpuSet,
    /// Puts a thread into a class, and says whether it is there.
    classify: fn(Pid, Class) -> bool,
}

#[derive(Debug, Default)]
struct List {
    workers: Vec<Arc<Member>>,
    /// How many of them are demoted.
    demoted: usize,
    is_over: bool,
}

/// What the watchdog sees of a worker.
#[derive(Debug)]
struct Member {
    thread: Pid,
    /// Changed with the list locked alone.
    is_demoted: AtomicBool,
    /// When its last request came, in nanoseconds after the origin.
    took: AtomicU64,
}

impl Demotions {
    pub(super) fn new() -> Demotions {
        Demotions {
            is_watched: AtomicBool::new(false),
            follow_until: AtomicU64::new(0),
            origin: Instant::now(),
            list: Watched::default(),
            anywhere: sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new()),
            classify: |thread, class| class.set(thread).is_ok(),
        }
    }

    /// What the watchdog does until [`end`](Demotions::end).
    pub(super) fn watch(&self) {
        if !self.begin() {
            return;
        }
        let guard = |list: &List| match list {
            List { is_over: true, .. } => Guard::Over,
            List { demoted: 0, .. } => Guard::Nothing,
            _ => Guard::Somebody,
        };
        self.list.watch(guard, |list, now| self.look(list, now));
    }

    /// Nobody is demoted where a thread that was could not come back. This one
    /// tries.
    fn begin(&self) -> bool {
        let begins = may_come_back() && !self.list.lock().is_over;
        self.is_watched.store(begins, Ordering::Relaxed);
        begins
    }

    /// Promotes whoever has begun nothing for a lease.
    fn look(&self, list: &mut List, now: Instant) {
        let late = self.nanoseconds(now).saturating_sub(LEASE.as_nanos() as u64);
        let List { workers, demoted, .. } = list;
        for member in workers.iter().filter(|member| member.took.load(Ordering::Relaxed) < late) {
            *demoted -= usize::from(self.changes(member, Class::Normal));
        }
    }

    /// All workers have ended, and the watchdog may.
    pub(super) fn end(&self) {
        self.list.lock().is_over = true;
        self.list.changed();
    }

    /// A demoted worker has its CPU: its program may ask another worker next.
    fn tell(&self, now: Instant) {
        let until = self.nanoseconds(now + PERIOD);
        let told = self.follow_until.load(Ordering::Relaxed);
        // Seldom: the line is read for each request of those who are not demoted.
        if until > told + (PERIOD / 4).as_nanos() as u64 {
            self.follow_until.store(until, Ordering::Relaxed);
        }
    }

    fn may_follow(&self, now: Instant) -> bool {
        self.nanoseconds(now) < self.follow_until.load(Ordering::Relaxed)
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// Whether the worker was in the other class until now.
    fn set(&self, member: &Member, class: Class) -> bool {
        let mut list = self.list.lock();
        let changes = self.changes(member, class);
        match class {
            Class::Idle => list.demoted += usize::from(changes),
            Class::Normal => list.demoted -= usize::from(changes),
        }
        if changes && class == Class::Idle {
            self.list.changed();
        }
        changes
    }

    /// The same, with the list locked and not changed.
    fn changes(&self, member: &Member, class: Class) -> bool {
        let demoted = class == Class::Idle;
        let changes = member.is_demoted() != demoted && (self.classify)(member.thread, class);
        if changes {
            member.is_demoted.store(demoted, Ordering::Relaxed);
        }
        changes
    }
}

impl Member {
    fn is_demoted(&self) -> bool {
        self.is_demoted.load(Ordering::Relaxed)
    }
}

/// Whether a thread that is demoted can become normal again. This one cannot
/// when it is not so.
fn may_come_back() -> bool {
    Class::of_this_thread() == Some(Class::Normal)
        && Class::Idle.set(gettid()).is_ok()
        && Class::Normal.set(gettid()).is_ok()
}

/// A worker that may be demoted.
#[derive(Debug)]
pub(super) struct Demotable {
    all: Arc<Demotions>,
    member: Arc<Member>,
    affinity: Affinity,
    running: Running,
    waited: Waited,
    backoff: Backoff,
    /// When a request came last.
    last: Instant,
    /// When it was last asked who wants the CPU.
    asked: Instant,
    /// Short requests that each came soon after the one before.
    row: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    /// It is demoted, unless the watchdog has ended that. Counts answers in a
    /// row that it mostly waits for its CPU.
    Demoted {
        refusals: u32,
    },
}

impl Demotable {
    /// In the thread that works at the queue of a CPU.
    pub(super) fn new(all: Arc<Demotions>, cpu: u16) -> Demotable {
        let now = Instant::now();
        if Class::of_this_thread() == Some(Class::Idle) {
            // A stand-in begins in the class of the worker that started it.
            (all.classify)(gettid(), Class::Normal);
        }
        let took = AtomicU64::new(all.nanoseconds(now));
        let member = Arc::new(Member { thread: gettid(), is_demoted: AtomicBool::new(false), took });
        all.list.lock().workers.push(Arc::clone(&member));
        Demotable {
            affinity: Affinity::new(cpu, all.anywhere),
            all,
            member,
            running: Running::new(),
            waited: Waited::new(),
            backoff: Backoff::default(),
            last: now,
            asked: now,
            row: 0,
            state: State::Normal,
        }
    }

    /// A worker that is not demoted looks whether it is to be.
    fn consider(&mut self, now: Instant) {
        if self.row == 0 || !self.affinity.is_home() || !self.backoff.is_over(now) {
            return;
        }
        let may_begin = self.all.may_follow(now) || self.may_be_first(now);
        if may_begin && self.waited.lately().is_some() && self.all.set(&self.member, Class::Idle) {
            self.state = State::Demoted { refusals: 0 };
            self.asked = now;
            self.backoff.begins(now);
        }
    }

    fn may_be_first(&mut self, now: Instant) -> bool {
        if self.row < ROW || self.since_asked(now) < PERIOD {
            return false;
        }
        self.asked = now;
        self.running.have_cpus()
    }

    /// A worker that is demoted looks whether somebody else has had this CPU
    /// for most of the time, again and again. The program that asks has it for
    /// a moment too, when it goes on.
    fn goes_on(&mut self, now: Instant, before: u32) {
        let since = self.since_asked(now);
        let mut refusals = before;
        if since >= PERIOD {
            self.asked = now;
            let is_kept = self.waited.lately().is_none_or(|waited| waited > since / 2);
            refusals = if is_kept { before + 1 } else { 0 };
        }
        self.state = State::Demoted { refusals };
        if refusals >= REFUSALS {
            self.stop();
            self.backoff.failed(now);
        } else if self.row >= ROW && refusals == 0 {
            self.all.tell(now);
        }
    }

    fn stop(&mut self) {
        self.all.set(&self.member, Class::Normal);
        self.state = State::Normal;
    }

    /// The watchdog has ended it: nothing came, or this thread had no CPU for
    /// half of the lease.
    fn was_ended(&mut self, now: Instant) {
        self.state = State::Normal;
        if self.waited.lately().is_some_and(|waited| waited >= LEASE / 2) {
            self.backoff.failed(now);
        }
    }

    fn since_asked(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.asked)
    }
}

impl Pacer for Demotable {
    fn received(&mut self, now: Instant, message: &[u8], _found: Found) {
        let is_short = is_short(message);
        let came_soon = now.saturating_duration_since(self.last) <= PERIOD;
        self.last = now;
        self.row = match (is_short, came_soon) {
            (true, true) => self.row.saturating_add(1),
            (true, false) => 1,
            (false, _) => 0,
        };
        self.affinity.stays(is_short && self.affinity.is_home() || self.row >= ROW);
        if !self.all.is_watched.load(Ordering::Relaxed) {
            return;
        }
        self.member.took.store(self.all.nanoseconds(now), Ordering::Relaxed);
        if self.state != State::Normal && !self.member.is_demoted() {
            self.was_ended(now);
        }
        match self.state {
            State::Normal => self.consider(now),
            State::Demoted { .. } if !is_short => self.stop(),
            State::Demoted { refusals } => self.goes_on(now, refusals),
        }
    }
}

impl Drop for Demotable {
    /// The watchdog must not meet another thread that has got its number.
    fn drop(&mut self) {
        self.stop();
        self.all.list.lock().workers.retain(|member| !Arc::ptr_eq(member, &self.member));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Opcode;
    use crate::pacing::fake::{Kernel, SOON};
    use crate::pacing::load::told::{Told, unknown};
    use std::thread;

    /// How long is waited for what ought to come much sooner.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A worker at a CPU that this process has, and what it is told of the load.
    struct Worker {
        pacer: Demotable,
        load: Told,
        wait: Told,
    }

    impl Worker {
        fn new(all: &Arc<Demotions>) -> Worker {
            let cpus = sched_getaffinity(None).unwrap();
            let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap();
            let (load, wait) = (Told::new(), Told::new());
            let mut pacer = Demotable::new(Arc::clone(all), cpu as u16);
            (pacer.running, pacer.waited) = (load.running(1), wait.waited());
            Worker { pacer, load, wait }
        }

        /// A request that comes soon; whether it is answered demoted.
        fn takes(&mut self, kernel: &mut Kernel, opcode: Opcode) -> bool {
            kernel.asks(&mut self.pacer, opcode, SOON);
            self.is_demoted()
        }

        fn is_demoted(&self) -> bool {
            self.pacer.member.is_demoted()
        }

        /// A row of short requests.
        fn takes_row(&mut self, kernel: &mut Kernel) -> bool {
            kernel.passes(PERIOD);
            for _ in 0..ROW {
                self.takes(kernel, Opcode::GetAttr);
            }
            self.is_demoted()
        }
    }

    /// Runs `work` in a thread of its own, with classes that are noted alone and
    /// a watchdog that looks when it is told to.
    fn as_if_watched(work: impl FnOnce(&Arc<Demotions>, Kernel) + Send) {
        thread::scope(|scope| {
            scope.spawn(|| {
                let all = Demotions {
                    is_watched: AtomicBool::new(true),
                    classify: |_, _| true,
                    ..Demotions::new()
                };
                work(&Arc::new(all), Kernel::new());
            });
        });
    }

    /// The same with real classes, as far as this process may have a thread
    /// back.
    fn as_it_is(work: impl FnOnce(&Arc<Demotions>, Kernel) + Send) {
        thread::scope(|scope| {
            let tried = scope.spawn(|| {
                let all = Arc::new(Demotions::new());
                let begins = all.begin();
                if begins {
                    work(&all, Kernel::new());
                }
                begins
            });
            if !tried.join().unwrap() {
                eprintln!("not tried: a thread that is demoted could not come back (CAP_SYS_NICE)");
            }
        });
    }

    #[test]
    fn a_row_of_short_requests_is_answered_demoted_and_a_long_one_is_not() {
        as_if_watched(|all, mut kernel| {
            let mut worker = Worker::new(all);
            let demoted: Vec<bool> = (0..ROW).map(|_| worker.takes(&mut kernel, Opcode::GetAttr)).collect();
            assert_eq!(demoted.iter().filter(|demoted| **demoted).count(), 1, "{demoted:?}");
            assert_eq!(all.list.lock().demoted, 1);
            assert!(!worker.takes(&mut kernel, Opcode::Fsync));
            assert_eq!(all.list.lock().demoted, 0);
        });
    }

    #[test]
    fn the_class_is_the_kernels_and_a_worker_that_ends_leaves_it() {
        as_it_is(|all, mut kernel| {
            let mut worker = Worker::new(all);
            assert!(worker.takes_row(&mut kernel));
            assert_eq!(Class::of_this_thread(), Some(Class::Idle));
            drop(worker);
            assert_eq!(Class::of_this_thread(), Some(Class::Normal));
            assert!(all.list.lock().workers.is_empty());
        });
    }

    #[test]
    fn nobody_is_demoted_where_a_thread_cannot_come_back() {
        let begins = thread::spawn(|| {
            Class::Idle.set(gettid()).unwrap();
            Demotions::new().begin()
        });
        assert!(!begins.join().unwrap());
    }

    #[test]
    fn requests_that_come_late_are_no_row() {
        as_if_watched(|all, mut kernel| {
            let mut worker = Worker::new(all);
            for _ in 0..10 * ROW {
                kernel.asks(&mut worker.pacer, Opcode::GetAttr, 2 * PERIOD);
                assert!(!worker.is_demoted());
            }
        });
    }

    #[test]
    fn what_is_long_sets_a_worker_free_until_a_row_is_short() {
        as_if_watched(|all, mut kernel| {
            let mut worker = Worker::new(all);
            assert!(worker.pacer.affinity.is_home());
            worker.takes(&mut kernel, Opcode::GetAttr);
            assert!(worker.pacer.affinity.is_home());
            worker.takes(&mut kernel, Opcode::Fsync);
            for _ in 0..ROW {
                assert!(!worker.pacer.affinity.is_home());
                worker.takes(&mut kernel, Opcode::GetAttr);
            }
            assert!(worker.pacer.affinity.is_home());
        });
    }

    #[test]
    fn whoever_takes_nothing_for_a_lease_is_promoted() {
        as_if_watched(|all, mut kernel| {
            for (waited, backs_off) in [(Duration::ZERO, false), (LEASE / 2, true)] {
                let mut worker = Worker::new(all);
                assert!(worker.takes_row(&mut kernel));
                all.look(&mut all.list.lock(), kernel.now());
                assert!(worker.is_demoted());
                kernel.passes(2 * LEASE);
                all.look(&mut all.list.lock(), kernel.now());
                assert!(!worker.is_demoted() && all.list.lock().demoted == 0);
                worker.wait.waits(waited);
                assert_eq!(worker.takes_row(&mut kernel), !backs_off, "it had waited {waited:?}");
            }
        });
    }

    #[test]
    fn the_watchdog_promotes_by_itself() {
        as_it_is(|all, _| {
            let mut worker = Worker::new(all);
            let began = Instant::now();
            thread::scope(|scope| {
                // Before: a thread begins in the class of the one that starts it.
                scope.spawn(|| all.watch());
                assert!(all.set(&worker.pacer.member, Class::Idle));
                worker.pacer.state = State::Demoted { refusals: 0 };
                while Class::of_this_thread() == Some(Class::Idle) && began.elapsed() < PATIENCE {
                    thread::yield_now();
                }
                let is_promoted = Class::of_this_thread() == Some(Class::Normal);
                worker.pacer.stop();
                all.end();
                assert!(is_promoted);
            });
        });
    }

    #[test]
    fn whoever_mostly_waits_for_its_cpu_stops_and_backs_off() {
        as_if_watched(|all, mut kernel| {
            let mut worker = Worker::new(all);
            assert!(worker.takes_row(&mut kernel));
            for at in 1..=REFUSALS {
                kernel.passes(PERIOD);
                worker.wait.waits(at * PERIOD);
                assert_eq!(worker.takes(&mut kernel, Opcode::GetAttr), at < REFUSALS);
            }
            assert!(!worker.takes_row(&mut kernel));
        });
    }

    #[test]
    fn nobody_is_the_first_where_others_wait_for_a_cpu_or_nothing_is_known() {
        as_if_watched(|all, mut kernel| {
            let mut worker = Worker::new(all);
            worker.load.runs(3);
            assert!(!worker.takes_row(&mut kernel));
            worker.load.runs(2);
            assert!(worker.takes_row(&mut kernel));
            drop(worker);
            let mut worker = Worker::new(all);
            worker.pacer.waited = unknown().1;
            assert!(!worker.takes_row(&mut kernel));
        });
    }

    /// The program has gone to another CPU, whose worker has seen nothing of
    /// it yet.
    #[test]
    fn where_one_is_demoted_another_is_at_its_first_short_request() {
        as_if_watched(|all, mut kernel| {
            let mut first = Worker::new(all);
            assert!(first.takes_row(&mut kernel));
            first.takes(&mut kernel, Opcode::GetAttr);
            assert!(all.may_follow(kernel.now()));
            // A thread has one class: the first goes back to let another try.
            first.pacer.stop();
            let mut other = Worker::new(all);
            // It would not be the first.
            other.load.runs(3);
            assert!(other.takes(&mut kernel, Opcode::GetAttr));
            other.takes(&mut kernel, Opcode::Fsync);
            assert!(!other.takes(&mut kernel, Opcode::GetAttr), "it may be on another CPU");
            let mut other = Worker::new(all);
            other.load.runs(3);
            kernel.passes(2 * PERIOD);
            assert!(!other.takes(&mut kernel, Opcode::GetAttr), "the first one's row has ended");
        });
    }

    /// A thread begins in the class of the one that starts it, and on its CPU.
    #[test]
    fn a_worker_that_a_demoted_one_starts_is_normal_and_may_run_anywhere() {
        as_it_is(|all, mut kernel| {
            let anywhere = sched_getaffinity(None).unwrap();
            let mut worker = Worker::new(all);
            assert!(worker.takes_row(&mut kernel) && worker.pacer.affinity.is_home());
            thread::scope(|scope| {
                let started = scope.spawn(|| {
                    let mut started = Worker::new(all);
                    started.pacer.affinity.stays(false);
                    (Class::of_this_thread(), sched_getaffinity(None).unwrap())
                });
                assert_eq!(started.join().unwrap(), (Some(Class::Normal), anywhere));
            });
        });
    }

    #[test]
    fn without_a_watchdog_nobody_is_demoted() {
        thread::spawn(|| {
            let (all, mut kernel) = (Arc::new(Demotions::new()), Kernel::new());
            assert!(!Worker::new(&all).takes_row(&mut kernel));
            // One that comes when all is over leaves at once.
            all.end();
            all.watch();
            assert!(!Worker::new(&all).takes_row(&mut kernel));
        })
        .join()
        .unwrap();
    }
}
