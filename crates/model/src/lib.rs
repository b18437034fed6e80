//! For tests alone: locks and threads under a scheduler that tries many orders
//! of who goes on (shuttle), and the trying itself.
//!
//! A crate whose threads are modelled takes its locks from here instead of the
//! standard library when its tests are built with `--cfg strongroom_model`,
//! which `cargo xtask model` does. Whatever blocks otherwise, as a lock of
//! another crate may, blocks the model as a whole, so it has to be a leaf.
//!
//! Sound orders that were not drawn are not seen; deadlocks that were are. All
//! atomics are sequentially consistent here: orderings that are too weak are
//! not found.
#![forbid(unsafe_code)]

pub mod sync;

use std::sync::Arc;

pub use shuttle::thread;

use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Threads that change places at each step of the second kind of schedules,
/// at most.
const CHANGES: usize = 4;

/// Bytes of a thread's stack.
const STACK: usize = 1 << 20;

/// Who goes on: anybody, or the thread of the highest priority, which changes
/// a few times. The latter finds orders that the former hardly draws, and is
/// not for stories in which somebody asks again and again until another is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedules {
    /// Anybody.
    Fair,
    /// Both kinds.
    All,
}

/// Orders of each kind that are tried of each model: what the environment
/// says in `STRONGROOM_MODEL_ORDERS`, or 300.
fn orders() -> usize {
    std::env::var("STRONGROOM_MODEL_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Tries `story` in many orders.
///
/// # Panics
/// When it does in one of them, or when its threads wait for each other for
/// ever. What was drawn is printed.
pub fn explore(schedules: Schedules, story: impl Fn() + Send + Sync + 'static) {
    let story: Arc<dyn Fn() + Send + Sync> = Arc::new(story);
    let mut config = Config::new();
    config.stack_size = STACK;
    let random = Arc::clone(&story);
    Runner::new(RandomScheduler::new(orders()), config.clone()).run(move || random());
    if schedules == Schedules::All {
        Runner::new(PctScheduler::new(CHANGES, orders()), config).run(move || {
            has_a_choice();
            story();
        });
    }
}

/// Has two threads that could run. The scheduler by priorities fails when its
/// first run had no choice, which may be what a story drew.
fn has_a_choice() {
    let other = shuttle::thread::spawn(shuttle::thread::yield_now);
    shuttle::thread::yield_now();
    other.join().expect("it does nothing else");
}

/// A number that belongs to the order that is tried: the same when that is
/// tried again. Inside of [`explore`] alone.
#[must_use]
pub fn draw() -> u64 {
    shuttle::rand::thread_rng().r#gen()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::sync::{Condvar, Mutex};
    use super::*;

    #[test]
    fn a_story_without_a_choice_is_told_like_any() {
        explore(Schedules::All, || {});
    }

    fn fails(story: impl Fn() + Send + Sync + 'static) -> bool {
        catch_unwind(AssertUnwindSafe(|| explore(Schedules::All, story))).is_err()
    }

    /// A waiter and somebody who sets what it waits for, and may wake it.
    fn told(limit: Option<Duration>, wakes: bool) {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let teller = thread::spawn(move || {
            *other.0.lock().expect("not poisoned") = true;
            if wakes {
                other.1.notify_one();
            }
        });
        let guard = shared.0.lock().expect("not poisoned");
        match limit {
            None => drop(shared.1.wait_while(guard, |told| !*told).expect("not poisoned")),
            Some(limit) => {
                let (told, result) =
                    shared.1.wait_timeout_while(guard, limit, |told| !*told).expect("not poisoned");
                assert!(*told || result.timed_out());
            }
        }
        teller.join().expect("it ended");
    }

    #[test]
    fn a_wake_up_that_is_left_out_is_found() {
        assert!(!fails(|| told(None, true)));
        assert!(fails(|| told(None, false)));
        // Who counts on hours waits for ever.
        assert!(!fails(|| told(Some(Duration::from_secs(3600)), true)));
        assert!(fails(|| told(Some(Duration::from_secs(3600)), false)));
        // Patience is another matter.
        assert!(!fails(|| told(Some(Duration::from_millis(10)), false)));
    }

    #[test]
    fn a_wait_with_a_limit_ends_before_and_after_what_it_waits_for() {
        let seen: Arc<[std::sync::atomic::AtomicBool; 2]> = Arc::default();
        let seeing = Arc::clone(&seen);
        explore(Schedules::All, move || {
            let shared = Arc::new((Mutex::new(false), Condvar::new()));
            let other = Arc::clone(&shared);
            let teller = thread::spawn(move || {
                *other.0.lock().expect("not poisoned") = true;
                other.1.notify_one();
            });
            let guard = shared.0.lock().expect("not poisoned");
            let limit = Duration::from_secs(60);
            let (told, _) = shared.1.wait_timeout_while(guard, limit, |told| !*told).expect("not poisoned");
            seeing[usize::from(*told)].store(true, std::sync::atomic::Ordering::Relaxed);
            drop(told);
            teller.join().expect("it ended");
        });
        assert!(seen.iter().all(|seen| seen.load(std::sync::atomic::Ordering::Relaxed)));
    }
}
