//! Ways of placing, tried against each other by the speed that they show.
//!
//! The model behind `adaptive` knows what each batch costs, not what it costs
//! the whole: wakeups, interrupts, shared caches. So now and then a window of
//! batches is placed another way, the CPU alone and each device alone among
//! them, between two windows of the way in use. `race` says what is tried and
//! what is taken; here windows are measured.
//!
//! Inline engines are not tried against each other: they differ in nothing but
//! CPU time, which each of them was measured for.
//!
//! Does not know clocks: the time is asked for when a window may end.

mod evidence;
mod noise;
mod race;
mod seen;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use self::race::Race;
use crate::placing::ENGINES_MAX;
use crate::standing;

/// A way of placing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the model.
    Model,
    /// By the model, every batch whole.
    Whole,
    /// All on the CPU, by the model which of its engines.
    Inline,
    /// All on one device.
    Device(usize),
}

/// What the model says of a way that shall be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing against it.
    Open,
    /// It is far slower, and a trial would cost little.
    Slow,
    /// It is far slower, and a trial would cost much.
    Hopeless,
}

const WAYS_MAX: usize = 3 + ENGINES_MAX;

/// Length of a window, in nanoseconds.
const WINDOW_NS: f64 = 4e6;
/// Fewest batches of a window, and most between two looks at the clock.
const BATCHES: [f64; 2] = [16.0, 512.0];
/// A window ends when it has this many at the latest, so that they can be
/// counted.
const BATCHES_EVER: u32 = 3500;
/// Most work of a batch that is counted, so that a window's fits its bits.
const WORK_MAX_NS: u64 = (1 << 40) / 4096;
/// The depth of the queues is looked at once in so many batches, which has no
/// common measure with bursts; in short windows at each.
const DEPTH_EVERY: u32 = 11;
const LOOKED_AT: u64 = 64;
/// Work that no window reaches.
const WORK_EVER_NS: u64 = (1 << 40) - 1;
/// Batches that are so many times the work of those before are others.
const LARGER: f64 = 4.0;
/// A window waits for a moment of rest until it is this many times as long.
const SLACK: f64 = 2.0;
/// So many windows without a moment of rest, and none is waited for.
const RESTLESS: u32 = 8;

/// See the module.
pub struct Trials {
    /// What is tried, by number: the model's first.
    ways: Box<[Way]>,
    way: AtomicU32,
    /// The way that shall be tried when the model does not object, and 1.
    asked: AtomicU32,
    /// Batches and work in this window at which the clock is looked at, as
    /// they stand in `counts`.
    look: AtomicU64,
    /// Whether a moment of rest is waited for.
    waits: AtomicU32,
    /// Whether there was one in this window.
    rests: AtomicU32,
    /// Whether nothing was placed for a while in this window.
    paused: AtomicU32,
    /// Whether the model has divided a batch in this window.
    divides: AtomicU32,
    /// Batches, reads and nanoseconds of work, in 12, 12 and 40 bits.
    counts: AtomicU64,
    /// Batches in flight, added up over looks, and how many looks: in 32 bits
    /// each.
    depths: AtomicU64,
    state: Mutex<State>,
}

/// What asked for the batches of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    reads: f64,
    work_ns: f64,
    in_flight: f64,
}

/// A window that is over.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    load: Load,
    /// Work for time.
    speed: f64,
    elapsed_ns: f64,
    batches: f64,
}

struct State {
    race: Race,
    began_ns: u64,
    /// The window takes in what was placed before: it does not count.
    settles: bool,
    /// Windows since the last in which nothing was in flight for a moment.
    rests_ago: u32,
}

impl Trials {
    /// With these devices, by their number among the engines, beside inline
    /// engines. Without any there is but one way.
    #[must_use]
    pub fn new(devices: impl IntoIterator<Item = usize>) -> Trials {
        let mut ways = vec![Way::Model];
        ways.extend(devices.into_iter().take(ENGINES_MAX).map(Way::Device));
        if ways.len() > 1 {
            ways.splice(1..1, [Way::Whole, Way::Inline]);
        }
        Trials {
            way: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            look: AtomicU64::new(look_at(BATCHES[0] as u32, f64::INFINITY)),
            waits: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            divides: AtomicU32::new(0),
            counts: AtomicU64::new(0),
            depths: AtomicU64::new(0),
            state: Mutex::new(State {
                race: Race::new(ways.len()),
                began_ns: 0,
                settles: true,
                rests_ago: RESTLESS,
            }),
            ways: ways.into(),
        }
    }

    /// How to place now.
    #[must_use]
    pub fn way(&self) -> Way {
        self.ways[self.way.load(Relaxed) as usize]
    }

    /// A way that shall be tried, if the model does not find it hopeless.
    #[must_use]
    pub fn asked(&self) -> Option<Way> {
        (self.asked.load(Relaxed) as usize).checked_sub(1).map(|asked| self.ways[asked])
    }

    /// The model's answer to [`Trials::asked`].
    pub fn answer(&self, outlook: Outlook) {
        let asked = self.asked.swap(0, Relaxed) as usize;
        let Ok(mut state) = self.state.try_lock() else { return };
        let Some(asked) = asked.checked_sub(1) else { return };
        let now = state.began_ns;
        if state.race.answer(asked, outlook, now) {
            self.takes(&mut state, asked);
        }
    }

    /// The work of a batch in the mean, in nanoseconds; infinite while it is
    /// not known.
    pub(crate) fn batch_work_ns(&self) -> f64 {
        self.state.try_lock().map_or(f64::INFINITY, |state| state.race.batch_work_ns())
    }

    /// What is placed from now on comes after a pause: the window begins anew
    /// with the first batch that is done.
    pub fn goes_on_after_pause(&self) {
        self.paused.store(1, Relaxed);
        self.look.store(0, Relaxed);
    }

    /// A batch was divided.
    pub fn divided(&self) {
        if self.divides.load(Relaxed) == 0 {
            self.divides.store(1, Relaxed);
        }
    }

    /// What was found out is about other settings.
    pub fn start_over(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.began_ns;
        state.race.starts_over(now);
        self.takes(&mut state, 0);
    }

    /// The way in use, trials aside.
    #[must_use]
    pub fn incumbent(&self) -> Way {
        self.ways[self.state.lock().unwrap_or_else(PoisonError::into_inner).race.incumbent()]
    }

    /// A batch was computed: the work that it was, in nanoseconds of an
    /// engine that never changes, and how many others are in flight. Whether
    /// decisions stand no longer: after an epoch, and whenever the way may
    /// have changed.
    pub fn done(&self, is_read: bool, work_ns: f64, in_flight: u32, now: impl FnOnce() -> u64) -> bool {
        let load = u64::from(is_read) << 12 | (work_ns as u64).min(WORK_MAX_NS) << 24;
        let counts = self.counts.fetch_add(load + 1, Relaxed) + load + 1;
        let batches = (counts & 0xfff) as u32;
        let is_epoch = batches.is_multiple_of(standing::BATCHES);
        let look = self.look.load(Relaxed);
        let is_early = batches < (look & 0xfff) as u32 && counts >> 24 < look >> 24;
        if in_flight == 0 && self.rests.load(Relaxed) == 0 {
            self.rests.store(1, Relaxed);
        }
        if look & 0xfff < LOOKED_AT || batches.is_multiple_of(DEPTH_EVERY) {
            self.depths.fetch_add(u64::from(in_flight) << 32 | 1, Relaxed);
        }
        if is_early && (in_flight > 0 || self.waits.load(Relaxed) == 0) {
            return is_epoch;
        }
        let Ok(mut state) = self.state.try_lock() else { return is_epoch };
        self.look(&mut state, batches, in_flight == 0, now()) || is_epoch
    }

    /// Whether the window is over; if not, when that is asked next.
    fn look(&self, state: &mut State, batches: u32, is_rest: bool, now: u64) -> bool {
        if self.paused.swap(0, Relaxed) == 1 {
            self.begins_anew(state, now);
            return true;
        }
        let elapsed = now.saturating_sub(state.began_ns).max(1) as f64;
        let pace = elapsed / f64::from(batches);
        if state.settles {
            // What was before is done. A window that begins at rest and ends at
            // rest has whole bursts and whole pauses.
            let waits = !is_rest && state.rests_ago < 2 && elapsed < state.race.settling_ns();
            if waits {
                self.looks(state, batches, 1 + batches / 4);
                self.waits.store(1, Relaxed);
                return false;
            }
            self.ends(state, now, elapsed);
            return true;
        }
        let length = state.race.window_ns();
        let fewest = state.race.fewest();
        let is_long = elapsed >= length && f64::from(batches) >= fewest;
        let waits =
            is_long && !is_rest && state.rests_ago < RESTLESS && elapsed < SLACK * length.max(fewest * pace);
        if batches >= BATCHES_EVER
            || is_long && !waits
            || state.race.is_lost(
                elapsed,
                f64::from(batches),
                self.work() / elapsed,
                is_rest,
                state.rests_ago < 2,
            )
        {
            self.ends(state, now, elapsed);
            return true;
        }
        let until = if waits { SLACK * length.max(fewest * pace) } else { length };
        let more = ((until - elapsed) / pace).max(fewest - f64::from(batches));
        let more = more.clamp(1.0, state.race.look_max());
        self.looks(state, batches, more as u32);
        self.waits.store(u32::from(waits), Relaxed);
        false
    }

    fn ends(&self, state: &mut State, now: u64, elapsed_ns: f64) {
        let (counts, depths) = (self.counts.swap(0, Relaxed), self.depths.swap(0, Relaxed));
        let batches = ((counts & 0xfff) as f64).max(1.0);
        let work = (counts >> 24) as f64;
        let looks = (depths as u32 as f64).max(1.0);
        let load = Load {
            reads: (counts >> 12 & 0xfff) as f64 / batches,
            work_ns: work / batches,
            in_flight: (depths >> 32) as f64 / looks,
        };
        let window = Window { load, speed: work / elapsed_ns, elapsed_ns, batches };
        state.began_ns = now;
        state.rests_ago =
            if self.rests.swap(0, Relaxed) == 1 { 0 } else { (state.rests_ago + 1).min(RESTLESS) };
        let divides = self.divides.swap(0, Relaxed) == 1;
        let (next, asked) = state.race.window(&window, divides, state.settles, now);
        state.settles = false;
        if let Some(asked) = asked {
            self.asked.store(asked as u32 + 1, Relaxed);
        }
        match next {
            Some(next) => self.takes(state, next),
            None => self.looks(state, 0, state.race.first_look() as u32),
        }
        self.waits.store(0, Relaxed);
    }

    /// Forgets what there is of the window.
    fn begins_anew(&self, state: &mut State, now: u64) {
        [&self.counts, &self.depths].into_iter().for_each(|sums| sums.store(0, Relaxed));
        [&self.rests, &self.divides, &self.waits].into_iter().for_each(|flag| flag.store(0, Relaxed));
        state.began_ns = now;
        let more = if state.settles { state.race.settling() } else { state.race.first_look() };
        self.looks(state, 0, more as u32);
    }

    /// The clock is looked at after so many more batches, or when they are
    /// work far beyond what so many were before.
    fn looks(&self, state: &State, batches: u32, more: u32) {
        let work = self.work() + LARGER * f64::from(more) * state.race.batch_work_ns();
        self.look.store(look_at((batches + more).min(BATCHES_EVER), work), Relaxed);
    }

    /// Work of the window so far, in nanoseconds.
    fn work(&self) -> f64 {
        (self.counts.load(Relaxed) >> 24) as f64
    }

    /// Places another way from now on.
    fn takes(&self, state: &mut State, way: usize) {
        self.way.store(way as u32, Relaxed);
        // Until what was placed before is done, of which some is counted.
        let batches = (self.counts.load(Relaxed) & 0xfff) as u32;
        self.looks(state, batches, state.race.settling() as u32);
        state.settles = true;
    }
}

fn look_at(batches: u32, work_ns: f64) -> u64 {
    (work_ns as u64).min(WORK_EVER_NS) << 24 | u64::from(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH_NS: u64 = 10_000;

    #[test]
    fn a_window_that_a_pause_falls_into_begins_anew() {
        let trials = Trials::new([]);
        let mut now = 0;
        let mut is_done = |after_ns: u64| {
            now += after_ns;
            trials.done(false, 1e4, 0, || now);
            now
        };
        // A window of 400 batches and a part of the next.
        for _ in 0..500 {
            is_done(BATCH_NS);
        }
        let window = || {
            let began_ns = trials.state.lock().expect("no thread panicked").began_ns;
            (began_ns, trials.counts.load(Relaxed) & 0xfff)
        };
        let (began_ns, batches) = window();
        is_done(1_000_000_000);
        assert_eq!(window(), (began_ns, batches + 1), "it does not know yet");
        trials.goes_on_after_pause();
        let at = is_done(BATCH_NS);
        assert_eq!(window(), (at, 0));
        is_done(BATCH_NS);
        assert_eq!(window(), (at, 1));
    }
}
