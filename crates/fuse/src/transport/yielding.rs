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
//! yields only while short requests come one soon after the other and no more
//! threads are running than there are CPUs; and the [*warden*](Yielders::watch)
//! takes it back to the normal class when it has begun nothing for [`LEASE`].
//! (ARCHITECTURE.md, "Yielding the CPU".)

use super::alone::Neighbours;
use super::look::Pause;
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
/// How often is asked whether all who run have a CPU.
const ASKING_PERIOD: Duration = Duration::from_millis(1);
/// After so many answers in a row that they have not, the worker yields no
/// more.
const CROWDED: u32 = 3;

/// The workers of a session, as far as they yield.
#[derive(Debug)]
pub(crate) struct Yielders {
    /// The warden watches.
    may_yield: AtomicBool,
    began: Instant,
    lease: Duration,
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
    /// It had no CPU when the warden took it back.
    was_kept: AtomicBool,
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
        let yields = self.yields.load(Ordering::Relaxed);
        if yields && wants_to_run(self.thread) {
            self.was_kept.store(true, Ordering::Relaxed);
        }
        yields && self.set(Class::Normal)
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

/// Whether a thread of this process runs or is ready to.
fn wants_to_run(thread: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/self/task/{}/stat", thread.as_raw_pid())).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.iter().rposition(|&byte| byte == b')').is_some_and(|end| stat[end..].starts_with(b") R"))
}

/// A worker that may yield.
#[derive(Debug)]
pub(super) struct Yielder {
    all: Arc<Yielders>,
    post: Arc<Post>,
    neighbours: Neighbours,
    pause: Pause,
    last: Instant,
    asked: Instant,
    short_in_row: u32,
    /// Answers in a row that somebody waits for a CPU.
    crowded: u32,
    /// It yields, unless the warden has ended that.
    yields: bool,
}

impl Yielder {
    /// In the thread that works.
    pub(super) fn new(all: Arc<Yielders>) -> Yielder {
        let now = Instant::now();
        let took = AtomicU64::new(all.nanoseconds(now));
        let post = Arc::new(Post {
            thread: gettid(),
            yields: AtomicBool::new(false),
            took,
            was_kept: AtomicBool::new(false),
        });
        all.lock().workers.push(Arc::clone(&post));
        Yielder {
            all,
            post,
            neighbours: Neighbours::new(),
            pause: Pause::default(),
            last: now,
            asked: now,
            short_in_row: 0,
            crowded: 0,
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
        } else if !may_yield || self.is_time_to_ask(now) && self.is_crowded() {
            self.stop();
        }
    }

    fn consider(&mut self, now: Instant) {
        let may_begin = self.short_in_row >= SHORT_MIN && self.pause.is_over(now) && self.is_time_to_ask(now);
        if may_begin && self.neighbours.all_have_a_cpu() && self.all.set(&self.post, Class::Idle) {
            self.yields = true;
            self.crowded = 0;
            self.pause.end(now);
        }
    }

    fn stop(&mut self) {
        self.all.set(&self.post, Class::Normal);
        self.yields = false;
    }

    /// The warden has ended it: nothing came, or this thread had no CPU.
    fn was_ended(&mut self, now: Instant) {
        self.yields = false;
        if self.post.was_kept.swap(false, Ordering::Relaxed) {
            self.pause.begin(now);
        }
    }

    fn is_time_to_ask(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.asked) >= ASKING_PERIOD;
        if is_due {
            self.asked = now;
        }
        is_due
    }

    /// Whether somebody waits for a CPU, again and again.
    fn is_crowded(&mut self) -> bool {
        // It may be a moment's work, of which there is always some.
        self.crowded = if self.neighbours.all_have_a_cpu() { 0 } else { self.crowded + 1 };
        self.crowded >= CROWDED
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

    /// As does whoever another program keeps from its CPU, which looks the same
    /// from outside: the request that came last was long ago.
    #[test]
    fn whoever_takes_nothing_for_long_is_taken_back_by_the_warden() {
        beside_warden(LEASE, |all| {
            let mut yielder = yielding(Arc::clone(&all));
            until_taken_back(&all, std::hint::spin_loop);
            assert!(yielder.post.was_kept.load(Ordering::Relaxed), "this thread ran all the time");
            yielder.takes(true);
            assert!(!yielder.yields);
            assert!(!yielder.pause.is_over(Instant::now()), "it was kept from something, as far as is known");
            assert_eq!(all.lock().yielding, 0);
        });
    }

    #[test]
    fn whoever_slept_meanwhile_makes_no_pause() {
        beside_warden(LEASE, |all| {
            let mut yielder = yielding(Arc::clone(&all));
            until_taken_back(&all, || thread::sleep(4 * LEASE));
            // On a busy machine it may have been met at waking.
            if !yielder.post.was_kept.load(Ordering::Relaxed) {
                yielder.takes(true);
                assert!(yielder.pause.is_over(Instant::now()));
            }
        });
    }

    #[test]
    fn nobody_yields_where_others_wait_for_a_cpu() {
        beside_warden(PATIENCE, |all| {
            let mut yielder = yielding(all);
            yielder.neighbours = Neighbours::with(0);
            take_until(&mut yielder, false);
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

    #[test]
    fn a_thread_that_computes_wants_to_run_and_one_that_sleeps_does_not() {
        let (tell, hear) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            ended.recv()
        });
        let thread = hear.recv().unwrap();
        let began = Instant::now();
        while wants_to_run(thread) {
            assert!(began.elapsed() < PATIENCE);
        }
        assert!(wants_to_run(gettid()));
        drop(end);
        assert!(sleeper.join().unwrap().is_err());
        // Its end is seen here before it is in the system's list.
        while wants_to_run(thread) {
            assert!(began.elapsed() < PATIENCE);
        }
    }
}
