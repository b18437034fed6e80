//! How long the system took for what a store asked of it, and what it has not
//! answered yet.
//!
//! One call in [`SAMPLED`] is timed, barriers always: reading the clock twice
//! for each call of a busy store would cost more than it tells. When a call
//! began is noted of every one, by a clock that is read for next to nothing and
//! moves every few milliseconds: a store that does not answer is to be named,
//! whichever call it is that waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One call in so many is timed.
const SAMPLED: u64 = 8;

/// Threads whose calls are seen while they wait; of two that share a place, the
/// one that came first.
const PLACES: usize = 32;

/// A call that is under way for longer than this waits for the store.
const WAITS: Duration = Duration::from_secs(1);

/// Calls of one kind.
#[derive(Debug, Default)]
pub(super) struct Clock {
    calls: AtomicU64,
    timed: AtomicU64,
    timed_ns: AtomicU64,
    under_way: [Place; PLACES],
}

/// When the call of a thread began, in milliseconds of the coarse clock; zero
/// without one. Threads do not share a line of the cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(AtomicU64);

/// Counts until it goes.
pub(super) struct Timing<'c> {
    timed: Option<(&'c Clock, Instant)>,
    place: Option<&'c Place>,
}

/// Milliseconds of a clock that only moves forward, never zero.
fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}

/// A number of this thread, small while there are few.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        let drawn = number.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed));
        number.set(Some(drawn));
        drawn
    })
}

impl Clock {
    /// A call begins, of which there are many.
    pub(super) fn begin(&self) -> Timing<'_> {
        let earlier = self.calls.fetch_add(1, Relaxed);
        let timed = earlier.is_multiple_of(SAMPLED).then(|| (self, Instant::now()));
        Timing { timed, place: self.note() }
    }

    /// A call begins that is worth a look each time.
    pub(super) fn begin_rare(&self) -> Timing<'_> {
        self.calls.fetch_add(1, Relaxed);
        Timing { timed: Some((self, Instant::now())), place: self.note() }
    }

    /// Notes that this thread begins a call, where its place is free.
    fn note(&self) -> Option<&Place> {
        let place = &self.under_way[thread_number() % PLACES];
        let noted = place.0.compare_exchange(0, coarse_ms(), Relaxed, Relaxed);
        noted.is_ok().then_some(place)
    }

    /// How long the calls take that are under way.
    fn under_way(&self) -> impl Iterator<Item = Duration> + '_ {
        let now = coarse_ms();
        let began = self.under_way.iter().map(|place| place.0.load(Relaxed)).filter(|began| *began != 0);
        began.map(move |began| Duration::from_millis(now.saturating_sub(began)))
    }

    /// The time of all calls, as the timed ones have it.
    fn total(&self) -> Duration {
        let (timed, timed_ns) = (self.timed.load(Relaxed), self.timed_ns.load(Relaxed));
        let mean = timed_ns as f64 / timed.max(1) as f64;
        Duration::from_nanos((mean * self.calls.load(Relaxed) as f64) as u64)
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.0.store(0, Relaxed);
        }
        if let Some((clock, began)) = self.timed {
            clock.timed_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
            clock.timed.fetch_add(1, Relaxed);
        }
    }
}

/// All of a store.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) reads: Clock,
    pub(super) writes: Clock,
    pub(super) barriers: Clock,
    pub(super) names: Clock,
}

/// How long the system took, in all threads together, as far as samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTimes {
    /// For reading from files.
    pub reads: Duration,
    /// For writing to files.
    pub writes: Duration,
    /// For barriers: `fsync`, `fdatasync`, `syncfs`.
    pub barriers: Duration,
    /// For names, attributes, and opening files.
    pub names: Duration,
}

/// Calls that the system has not answered for a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreWaits {
    /// How many, as far as they are seen.
    pub calls: u64,
    /// How long the first of them has been waiting.
    pub longest: Duration,
    /// What that does: `reading`, `writing`, `a barrier` or `names`.
    pub what: Option<&'static str>,
}

impl Times {
    pub(super) fn waits(&self) -> StoreWaits {
        let kinds = [
            ("reading", &self.reads),
            ("writing", &self.writes),
            ("a barrier", &self.barriers),
            ("names", &self.names),
        ];
        let mut waits = StoreWaits::default();
        for (what, clock) in kinds {
            for taken in clock.under_way().filter(|taken| *taken >= WAITS) {
                waits.calls += 1;
                if taken > waits.longest {
                    (waits.longest, waits.what) = (taken, Some(what));
                }
            }
        }
        waits
    }

    pub(super) fn totals(&self) -> StoreTimes {
        StoreTimes {
            reads: self.reads.total(),
            writes: self.writes.total(),
            barriers: self.barriers.total(),
            names: self.names.total(),
        }
    }
}

impl StoreTimes {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.reads + self.writes + self.barriers + self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_all() {
        let clock = Clock::default();
        for _ in 0..64 {
            let _timing = clock.begin();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(clock.timed.load(Relaxed), 8);
        assert!(clock.total() >= Duration::from_millis(64), "{:?}", clock.total());
        let rare = Clock::default();
        drop(rare.begin_rare());
        assert_eq!(rare.timed.load(Relaxed), 1);
        assert_eq!(Clock::default().total(), Duration::ZERO);
    }

    #[test]
    fn what_is_not_answered_is_seen_while_it_waits_and_not_afterwards() {
        let times = Times::default();
        let of_others = || (times.waits().calls, times.waits().what);
        assert_eq!(of_others(), (0, None));
        let began = Instant::now();
        let waiting = times.barriers.begin_rare();
        // The same thread's calls below it are part of it.
        drop(times.barriers.begin());
        assert_eq!(times.barriers.under_way().count(), 1);
        while times.waits().calls == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(began.elapsed() + Duration::from_millis(20) >= WAITS);
        assert_eq!(of_others(), (1, Some("a barrier")));
        assert!(times.waits().longest >= WAITS);
        drop(waiting);
        assert_eq!(of_others(), (0, None));
    }
}
