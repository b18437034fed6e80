//! A worker at the CPU of the program that it answers yields it that CPU.
//!
//! The kernel wakes a program where a CPU is free. The one that it asked from
//! is not: there the worker runs that answers it. So it goes to another one,
//! which has to be woken from its sleep, asks from there, and is answered from
//! there, and the next answer sends it back: each small request wakes a CPU.
//! A thread of the class [`Class::Idle`] does not count: whoever it wakes
//! comes to run in its place, and it goes on when that one waits.
//!
//! Whoever yields may be kept waiting by any other program too. So a worker
//! begins only while short requests come one soon after the other and no more
//! threads are running than there are CPUs, or where another one yields so; it
//! stops when it waits for its CPU itself; and the
//! [*warden*](Yielders::watch) takes it back to the normal class when it has
//! begun nothing for [`LEASE`]. (`docs/pacing.md#sched_idle-demotion`.)

use super::alone::Neighbours;
use super::look::Pause;
use super::waits::Waits;
use crate::sys::class::Class;
use rustix::thread::{Pid, gettid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After so many short requests in a row a worker yields...
const SHORT_MIN: u32 = 8;
/// ...if each came within this after the one before.
const SOON: Duration = Duration::from_millis(1);
/// How long a worker yields without a new request, and so how long one waits
/// for a worker that another program keeps from its CPU; as long again until
/// the warden has looked, and longer where that one waits for a CPU too.
const LEASE: Duration = Duration::from_millis(2);
/// How often is asked whether all who run have a CPU, and whether this one has.
const ASKING_PERIOD: Duration = Duration::from_millis(1);
/// After so many answers in a row that this one mostly waits, it yields no more.
const KEPT_MAX: u32 = 3;
/// Having waited for so long when the warden took it back, a worker was kept
/// from its CPU, and not without requests.
const KEPT_MIN: Duration = Duration::from_millis(1);
/// A worker that goes on says so again when this has passed.
const TELLING_PERIOD: Duration = Duration::from_micros(250);

/// The workers of a session, as far as they yield.
#[derive(Debug)]
pub(crate) struct Yielders {
    /// The warden watches.
    may_yield: AtomicBool,
    began: Instant,
    lease: Duration,
    /// Until when a worker begins with its first short request, since another
    /// yields and is not kept; in nanoseconds since the beginning.
    follow_until: AtomicU64,
    roll: Mutex<Roll>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Roll {
    workers: Vec<Arc<Post>>,
    /// How many of them yield.
    yielding: usize,
    is_over: bool,
}

/// What the warden sees of a worker.
#[derive(Debug)]
struct Post {
    thread: Pid,
    /// Changed with the roll locked alone.
    yields: AtomicBool,
    /// When its last request came, in nanoseconds since the beginning.
    took: AtomicU64,
}

impl Yielders {
    /// Nobody yields yet.
    pub(crate) fn new() -> Yielders {
        Yielders::with_lease(LEASE)
    }

    fn with_lease(lease: Duration) -> Yielders {
        Yielders {
            may_yield: AtomicBool::new(false),
            began: Instant::now(),
            lease,
            follow_until: AtomicU64::new(0),
            roll: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// What the warden does until [`end`](Yielders::end): where a worker has
    /// begun nothing for [`LEASE`], it is normal again. Sleeps while nobody
    /// yields. Without a warden nobody does, nor where a thread that has
    /// yielded could not come back, which this one tries first.
    pub(crate) fn watch(&self) {
        if !may_come_back() {
            return;
        }
        let mut roll = self.lock();
        self.may_yield.store(!roll.is_over, Ordering::Relaxed);
        while !roll.is_over {
            if roll.yielding == 0 {
                roll = self.changed.wait(roll).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            roll = self.changed.wait_timeout(roll, self.lease).unwrap_or_else(PoisonError::into_inner).0;
            let late = self.nanoseconds(Instant::now()).saturating_sub(self.lease.as_nanos() as u64);
            let Roll { workers, yielding, .. } = &mut *roll;
            for post in workers.iter().filter(|post| post.took.load(Ordering::Relaxed) < late) {
                *yielding -= usize::from(post.is_taken_back());
            }
        }
    }

    /// All workers have ended, and the warden may.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// A worker yields for a row of short requests: a program asks, which may
    /// ask another worker next.
    fn tell(&self, now: Instant) {
        let until = self.nanoseconds(now + SOON);
        let told = self.follow_until.load(Ordering::Relaxed);
        // Written by few: the line is read for each request of those who do not yield.
        if until > told + TELLING_PERIOD.as_nanos() as u64 {
            self.follow_until.store(until, Ordering::Relaxed);
        }
    }

    fn may_follow(&self, now: Instant) -> bool {
        self.nanoseconds(now) < self.follow_until.load(Ordering::Relaxed)
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        // Enough for centuries.
        now.saturating_duration_since(self.began).as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, post: &Post, class: Class) -> bool {
        let mut roll = self.lock();
        let is_set = post.set(class);
        match class {
            Class::Idle if is_set => {
                roll.yielding += 1;
                if roll.yielding == 1 {
                    self.changed.notify_all();
                }
            }
            Class::Normal if is_set => roll.yielding -= 1,
            _ => {}
        }
        is_set
    }
}

impl Post {
    /// Whether it yielded until now.
    fn is_taken_back(&self) -> bool {
        self.yields.load(Ordering::Relaxed) && self.set(Class::Normal)
    }

    /// Whether it was in the other class until now.
    fn set(&self, class: Class) -> bool {
        let yields = class == Class::Idle;
        let changes = self.yields.load(Ordering::Relaxed) != yields && class.set(self.thread).is_ok();
        if changes {
            self.yields.store(yields, Ordering::Relaxed);
        }
        changes
    }
}

/// Whether a thread that yields can become normal again. This one cannot when
/// it is not so.
fn may_come_back() -> bool {
    Class::of_this_thread() == Some(Class::Normal)
        && Class::Idle.set(gettid()).is_ok()
        && Class::Normal.set(gettid()).is_ok()
}

/// A worker that may yield.
#[derive(Debug)]
pub(super) struct Yielder {
    all: Arc<Yielders>,
    post: Arc<Post>,
    neighbours: Neighbours,
    waits: Waits,
    pause: Pause,
    last: Instant,
    asked: Instant,
    short_in_row: u32,
    /// Answers in a row that this thread mostly waits for its CPU.
    kept: u32,
    /// It yields, unless the warden has ended that.
    yields: bool,
}

impl Yielder {
    /// In the thread that works.
    pub(super) fn new(all: Arc<Yielders>) -> Yielder {
        let now = Instant::now();
        let took = AtomicU64::new(all.nanoseconds(now));
        let post = Arc::new(Post { thread: gettid(), yields: AtomicBool::new(false), took });
        all.lock().workers.push(Arc::clone(&post));
        Yielder {
            all,
            post,
            neighbours: Neighbours::new(),
            waits: Waits::new(),
            pause: Pause::default(),
            last: now,
            asked: now,
            short_in_row: 0,
            kept: 0,
            yields: false,
        }
    }

    /// A request came: one that may be answered yielding, or not.
    pub(super) fn takes(&mut self, may_yield: bool) {
        if !self.all.may_yield.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let came_soon = now.saturating_duration_since(self.last) <= SOON;
        self.last = now;
        self.post.took.store(self.all.nanoseconds(now), Ordering::Relaxed);
        self.short_in_row = match (may_yield, came_soon) {
            (true, true) => self.short_in_row.saturating_add(1),
            (true, false) => 1,
            (false, _) => 0,
        };
        if self.yields && !self.post.yields.load(Ordering::Relaxed) {
            self.was_ended(now);
        }
        if !self.yields {
            self.consider(now);
        } else if !may_yield {
            self.stop();
        } else if self.is_kept(now) {
            self.stop();
            self.pause.begin(now);
        } else if self.short_in_row >= SHORT_MIN && self.kept == 0 {
            self.all.tell(now);
        }
    }

    fn consider(&mut self, now: Instant) {
        if self.short_in_row == 0 || !self.pause.is_over(now) {
            return;
        }
        let may_begin = self.all.may_follow(now) || self.may_be_first(now);
        if may_begin && self.waits.lately().is_some() && self.all.set(&self.post, Class::Idle) {
            self.yields = true;
            self.asked = now;
            self.kept = 0;
            self.pause.end(now);
        }
    }

    fn may_be_first(&mut self, now: Instant) -> bool {
        if self.short_in_row < SHORT_MIN || self.since_asked(now) < ASKING_PERIOD {
            return false;
        }
        self.asked = now;
        self.neighbours.all_have_a_cpu()
    }

    fn stop(&mut self) {
        self.all.set(&self.post, Class::Normal);
        self.yields = false;
    }

    /// The warden has ended it: nothing came, or this thread had no CPU.
    fn was_ended(&mut self, now: Instant) {
        self.yields = false;
        if self.waits.lately().is_some_and(|waited| waited >= KEPT_MIN) {
            self.pause.begin(now);
        }
    }

    /// Whether somebody else has had this CPU for most of the time, again and
    /// again. The program that asks has it for a moment too, when it goes on.
    fn is_kept(&mut self, now: Instant) -> bool {
        let since = self.since_asked(now);
        if since < ASKING_PERIOD {
            return false;
        }
        self.asked = now;
        let is_kept = self.waits.lately().is_none_or(|waited| waited > since / 2);
        self.kept = if is_kept { self.kept + 1 } else { 0 };
        self.kept >= KEPT_MAX
    }

    fn since_asked(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.asked)
    }
}

impl Drop for Yielder {
    /// The warden must not meet another thread that has got its number.
    fn drop(&mut self) {
        self.stop();
        self.all.lock().workers.retain(|post| !Arc::ptr_eq(post, &self.post));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread;

    /// More CPUs than a system has running threads.
    const MANY: usize = 1 << 20;
    /// How long is waited for what ought to come much sooner.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Runs `work` in a thread of its own beside a warden, as far as this
    /// process may have one.
    fn beside_warden(lease: Duration, work: impl FnOnce(Arc<Yielders>) + Send) {
        let all = Arc::new(Yielders::with_lease(lease));
        thread::scope(|scope| {
            let warden = scope.spawn(|| all.watch());
            while !warden.is_finished() && !all.may_yield.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            if all.may_yield.load(Ordering::Relaxed) {
                let work = scope.spawn(|| work(Arc::clone(&all)));
                let done = work.join();
                all.end();
                done.unwrap();
            } else {
                eprintln!("not tried: a thread that yields could not come back (CAP_SYS_NICE)");
            }
        });
    }

    /// Takes short requests until it yields or does not. On a busy machine they
    /// may come too late for a while.
    fn take_until(yielder: &mut Yielder, yields: bool) {
        let began = Instant::now();
        while yielder.yields != yields {
            assert!(began.elapsed() < PATIENCE, "it goes on so: {}", !yields);
            yielder.takes(true);
        }
    }

    /// What a thread has waited for its CPU, as it is told.
    struct Waiting {
        file: tempfile::NamedTempFile,
        all: Cell<Duration>,
    }

    impl Default for Waiting {
        fn default() -> Waiting {
            let waiting = Waiting { file: tempfile::NamedTempFile::new().unwrap(), all: Cell::default() };
            waiting.wait(Duration::ZERO);
            waiting
        }
    }

    impl Waiting {
        fn waits(&self) -> Waits {
            Waits::of(Some(self.file.reopen().unwrap().into()))
        }

        fn wait(&self, more: Duration) {
            self.all.set(self.all.get() + more);
            std::fs::write(self.file.path(), format!("0 {} 0\n", self.all.get().as_nanos())).unwrap();
        }
    }

    fn worker(all: Arc<Yielders>) -> Yielder {
        let mut yielder = Yielder::new(all);
        yielder.neighbours = Neighbours::with(MANY);
        yielder
    }

    fn yielding(all: Arc<Yielders>) -> Yielder {
        let mut yielder = worker(all);
        take_until(&mut yielder, true);
        yielder
    }

    /// Waits until the warden has taken this thread back, and done all about it.
    fn until_taken_back(all: &Yielders, meanwhile: impl Fn()) {
        let began = Instant::now();
        while Class::of_this_thread() == Some(Class::Idle) {
            assert!(began.elapsed() < PATIENCE, "the warden sleeps");
            meanwhile();
        }
        drop(all.lock());
    }

    #[test]
    fn short_requests_are_answered_yielding_and_a_long_one_is_not() {
        beside_warden(PATIENCE, |all| {
            let mut yielder = yielding(Arc::clone(&all));
            assert_eq!(all.lock().yielding, 1);
            assert_eq!(Class::of_this_thread(), Some(Class::Idle));
            yielder.takes(false);
            assert_eq!(Class::of_this_thread(), Some(Class::Normal));
            assert_eq!(all.lock().yielding, 0);
            take_until(&mut yielder, true);
            drop(yielder);
            assert_eq!(Class::of_this_thread(), Some(Class::Normal));
            assert!(all.lock().workers.is_empty());
        });
    }

    #[test]
    fn whoever_takes_nothing_for_long_is_taken_back_by_the_warden() {
        beside_warden(LEASE, |all| {
            let mut yielder = yielding(Arc::clone(&all));
            until_taken_back(&all, std::hint::spin_loop);
            assert_eq!(all.lock().yielding, 0);
            yielder.waits = Waiting::default().waits();
            yielder.takes(true);
            assert!(yielder.pause.is_over(Instant::now()), "it had its CPU all the time");
        });
    }

    #[test]
    fn whoever_was_kept_from_its_cpu_then_makes_a_pause() {
        beside_warden(LEASE, |all| {
            let mut yielder = yielding(Arc::clone(&all));
            until_taken_back(&all, std::hint::spin_loop);
            let waiting = Waiting::default();
            yielder.waits = waiting.waits();
            waiting.wait(KEPT_MIN);
            yielder.takes(true);
            assert!(!yielder.yields && !yielder.pause.is_over(Instant::now()));
        });
    }

    #[test]
    fn whoever_mostly_waits_for_its_cpu_stops_and_makes_a_pause() {
        beside_warden(PATIENCE, |all| {
            let waiting = Waiting::default();
            let mut yielder = worker(all);
            yielder.waits = waiting.waits();
            take_until(&mut yielder, true);
            let began = Instant::now();
            while yielder.yields {
                assert!(began.elapsed() < PATIENCE, "it goes on");
                waiting.wait(PATIENCE);
                yielder.takes(true);
            }
            assert!(!yielder.pause.is_over(Instant::now()));
            assert_eq!(Class::of_this_thread(), Some(Class::Normal));
        });
    }

    #[test]
    fn nobody_is_the_first_where_others_wait_for_a_cpu() {
        beside_warden(PATIENCE, |all| {
            let mut yielder = worker(all);
            yielder.neighbours = Neighbours::with(0);
            for _ in 0..100_000 {
                yielder.takes(true);
                assert!(!yielder.yields);
            }
        });
    }

    /// The program has gone to another CPU, whose worker has seen nothing of
    /// it yet.
    #[test]
    fn where_one_yields_another_does_at_its_first_short_request() {
        beside_warden(PATIENCE, |all| {
            let mut first = yielding(Arc::clone(&all));
            let [mut other, mut pausing] = [Yielder::new(Arc::clone(&all)), Yielder::new(Arc::clone(&all))];
            // Neither would be the first.
            other.neighbours = Neighbours::with(0);
            pausing.neighbours = Neighbours::with(0);
            pausing.pause.begin(Instant::now() + PATIENCE);
            let began = Instant::now();
            while !other.yields {
                assert!(began.elapsed() < PATIENCE, "nobody follows");
                (0..=SHORT_MIN).for_each(|_| first.takes(true));
                other.takes(false);
                assert!(!other.yields, "that was a long one");
                other.takes(true);
                pausing.takes(true);
                assert!(!pausing.yields, "it makes a pause");
            }
            other.takes(false);
            thread::sleep(2 * SOON);
            other.takes(true);
            assert!(!other.yields, "the first one's row has ended");
        });
    }

    #[test]
    fn where_waiting_is_not_known_nobody_yields() {
        beside_warden(PATIENCE, |all| {
            let mut yielder = worker(all);
            yielder.waits = Waits::of(None);
            for _ in 0..100_000 {
                yielder.takes(true);
                assert!(!yielder.yields);
            }
        });
    }

    #[test]
    fn without_a_warden_nobody_yields() {
        let all = Arc::new(Yielders::new());
        let mut yielder = worker(Arc::clone(&all));
        for _ in 0..100_000 {
            yielder.takes(true);
        }
        assert!(!yielder.yields);
        // One that comes when all is over leaves at once.
        all.end();
        all.watch();
        assert!(!all.may_yield.load(Ordering::Relaxed));
    }
}
