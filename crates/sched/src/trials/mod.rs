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

mod challenger;
mod evidence;
mod noise;
mod race;
mod rests;
mod scales;
mod seen;
mod seldom;
mod window;

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use self::race::Race;
use self::rests::{End, Moment, Rests};
use self::window::{Load, Window};
use crate::placing::ENGINES_MAX;
use crate::standing;

/// A way of placing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the model.
    Model,
    /// By the model, every batch whole.
    Whole,
    /// By the model, where who waited for a device waits for a CPU after it behind
    /// threads of this process as it does behind others.
    Woken,
    /// All on the CPU, by the model which of its engines.
    Inline,
    /// All on one device.
    Device(usize),
}

/// The turn of a way, of which each has many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u32);

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

/// Ways by the model, which come first.
const MODELS: [Way; 3] = [Way::Model, Way::Whole, Way::Woken];
const WAYS_MAX: usize = MODELS.len() + 1 + ENGINES_MAX;

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
/// What was placed another way is waited for no longer than this, in nanoseconds,
/// or than so many times as it should take: no longer than the second.
const SETTLES_NS: [f64; 2] = [30e6, 250e6];
const SETTLES: f64 = 3.0;
/// A window waits for a moment of rest until it is this many times as long.
const SLACK: f64 = 2.0;

/// See the module.
pub struct Trials {
    /// What is tried, by number: the model's first.
    ways: Box<[Way]>,
    way: AtomicU32,
    /// Goes up whenever another way is taken.
    turn: AtomicU32,
    /// Batches of turns before that are still in flight: about, and less than
    /// none where more were than was thought.
    left: AtomicI32,
    /// The way that shall be tried when the model does not object, and 1.
    asked: AtomicU32,
    /// Batches and work in this window at which the clock is looked at, as
    /// they stand in `counts`.
    look: AtomicU64,
    /// Whether a moment of rest is waited for: every batch is looked at.
    waits: AtomicU32,
    /// Whether nothing was in flight for a moment in this window.
    rests: AtomicU32,
    /// Whether nothing was placed for a while in this window.
    paused: AtomicU32,
    /// Ways that would have placed a batch of this window otherwise than the
    /// model: a bit each, by number.
    otherwise: AtomicU32,
    /// Threads of this process that are ready and have no CPU: bits of an `f32`.
    waiting: AtomicU32,
    /// Batches, reads and nanoseconds of work, in 12, 12 and 40 bits.
    counts: AtomicU64,
    /// Batches in flight, added up over looks, and how many looks: in 32 bits
    /// each. Whoever ends a window subtracts what was counted in it.
    depths: AtomicU64,
    state: Mutex<State>,
}

struct State {
    race: Race,
    began_ns: u64,
    /// The window takes in what was placed before: it does not count.
    settles: bool,
    /// And some of that is in flight.
    is_left: bool,
    rests: Rests,
}

impl Trials {
    /// With these devices, by their number among the engines, beside inline
    /// engines. Without any there is but one way.
    #[must_use]
    pub fn new(devices: impl IntoIterator<Item = usize>) -> Trials {
        let mut ways = vec![Way::Model];
        ways.extend(devices.into_iter().take(ENGINES_MAX).map(Way::Device));
        if ways.len() > 1 {
            ways.splice(1..1, [Way::Whole, Way::Woken, Way::Inline]);
        }
        Trials {
            way: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            left: AtomicI32::new(0),
            asked: AtomicU32::new(0),
            look: AtomicU64::new(look_at(BATCHES[0] as u32, f64::INFINITY)),
            waits: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            otherwise: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            counts: AtomicU64::new(0),
            depths: AtomicU64::new(0),
            state: Mutex::new(State {
                race: Race::new(MODELS.len(), ways.len()),
                began_ns: 0,
                settles: true,
                is_left: true,
                rests: Rests::default(),
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

    /// The model's answer to [`Trials::asked`], with so many batches in flight.
    pub fn answer(&self, outlook: Outlook, in_flight: u32) {
        let asked = self.asked.swap(0, Relaxed) as usize;
        let Ok(mut state) = self.state.try_lock() else { return };
        let Some(asked) = asked.checked_sub(1) else { return };
        let now = state.began_ns;
        if state.race.answer(asked, outlook, now) {
            self.takes(&mut state, asked, in_flight);
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

    /// Time has passed: it is looked at with the next batch that is done.
    pub(crate) fn time_passes(&self) {
        self.look.store(0, Relaxed);
    }

    /// So many threads of this process are ready and have no CPU.
    pub(crate) fn sees_waiting(&self, threads: f64) {
        self.waiting.store((threads as f32).to_bits(), Relaxed);
    }

    /// A way that places by the model, too, may place a batch of now otherwise than
    /// that does: it is worth trying.
    pub fn may_differ(&self, way: Way) {
        let bit = MODELS.iter().position(|model| *model == way).map_or(0, |at| 1 << at);
        if self.otherwise.load(Relaxed) & bit != bit {
            self.otherwise.fetch_or(bit, Relaxed);
        }
    }

    /// What was found out is about other settings.
    pub fn start_over(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.began_ns;
        state.race.starts_over(now);
        self.takes(&mut state, 0, 0);
    }

    /// The way in use, trials aside.
    #[must_use]
    pub fn incumbent(&self) -> Way {
        self.ways[self.state.lock().unwrap_or_else(PoisonError::into_inner).race.incumbent()]
    }

    /// Which way's turn it is: what a batch that is placed now keeps.
    #[must_use]
    pub fn turn(&self) -> Turn {
        Turn(self.turn.load(Relaxed))
    }

    /// A batch was computed: the work that it was, in nanoseconds of an
    /// engine that never changes, the turn in which it was placed, and how many
    /// others are in flight. Whether decisions stand no longer: after an epoch,
    /// and whenever the way may have changed.
    pub fn done(
        &self,
        is_read: bool,
        work_ns: f64,
        turn: Turn,
        in_flight: u32,
        now: impl FnOnce() -> u64,
    ) -> bool {
        if turn != self.turn() {
            self.left.fetch_sub(1, Relaxed);
        }
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
        if is_early && self.waits.load(Relaxed) == 0 {
            return is_epoch;
        }
        let Ok(mut state) = self.state.try_lock() else { return is_epoch };
        // Whoever had the lock before may have ended the window.
        let (counts, depths) = (self.counts.load(Relaxed), self.depths.load(Relaxed));
        let moment = Moment { ns: now(), counts, depths };
        self.look(&mut state, &moment, in_flight) || is_epoch
    }

    /// Whether the window is over; if not, when that is asked next.
    fn look(&self, state: &mut State, now: &Moment, in_flight: u32) -> bool {
        if self.paused.swap(0, Relaxed) == 1 {
            self.begins_anew(state, now.ns);
            return true;
        }
        // A window that begins at rest and ends at rest has whole bursts and
        // whole pauses.
        let rest = state.rests.before(now, in_flight == 0, state.began_ns);
        if state.settles {
            self.look_while_settling(state, now, rest, in_flight)
        } else {
            self.look_at_window(state, now, rest, in_flight)
        }
    }

    /// Whether what was before is done.
    fn look_while_settling(
        &self,
        state: &mut State,
        now: &Moment,
        rest: Option<Moment>,
        in_flight: u32,
    ) -> bool {
        let elapsed = now.elapsed_ns(state.began_ns);
        let is_left = self.left.load(Relaxed) > 0 && elapsed < state.race.settles_ns();
        if state.is_left && !is_left {
            state.is_left = false;
            state.race.turned_over(elapsed);
        }
        let waits_for_rest = rest.is_none() && state.rests.are_usual() && elapsed < state.race.settling_ns();
        let waits = is_left || waits_for_rest;
        if waits {
            self.waits.store(1, Relaxed);
        } else {
            let how = if rest.is_some() { End::Rest } else { End::Other };
            self.ends(state, &rest.unwrap_or(*now), how, (false, in_flight));
        }
        !waits
    }

    fn look_at_window(&self, state: &mut State, now: &Moment, rest: Option<Moment>, in_flight: u32) -> bool {
        let end = rest.unwrap_or(*now);
        let (batches, elapsed) = (end.batches(), end.elapsed_ns(state.began_ns));
        let pace = elapsed / batches;
        let (length, fewest) = (WINDOW_NS, state.race.fewest(pace));
        let is_long = elapsed >= length && batches >= fewest;
        let longest = SLACK * length.max(fewest * pace);
        let may_rest = self.ways.len() > 1 && self.rests.load(Relaxed) == 1;
        let may_wait = is_long && rest.is_none() && may_rest && state.rests.are_worth_waiting();
        let waits = may_wait && elapsed < longest;
        let (speed, pauses) = (end.work_ns() / elapsed, state.rests.are_usual());
        let is_lost = state.race.is_lost(elapsed, batches, speed, rest.is_some(), pauses);
        if now.batches() >= f64::from(BATCHES_EVER) || is_long && !waits || is_lost {
            let how = match rest {
                Some(_) => End::Rest,
                None if may_wait && self.waits.load(Relaxed) == 1 => End::InVain,
                None => End::Other,
            };
            self.ends(state, &end, how, (is_lost, in_flight));
            return true;
        }
        let until = if waits { longest } else { length };
        let more = ((until - elapsed) / pace).max(fewest - batches);
        self.looks(state, now.batches() as u32, more.clamp(1.0, state.race.look_max()) as u32);
        self.waits.store(u32::from(waits || pauses && state.race.is_challenged()), Relaxed);
        false
    }

    /// The window was over at a moment. What was done since is of the next.
    fn ends(&self, state: &mut State, end: &Moment, how: End, (is_lost, in_flight): (bool, u32)) {
        self.counts.fetch_sub(end.counts, Relaxed);
        self.depths.fetch_sub(end.depths, Relaxed);
        let (now, elapsed_ns) = (end.ns, end.elapsed_ns(state.began_ns));
        let (batches, work_ns) = (end.batches(), end.work_ns());
        let waiting = f64::from(f32::from_bits(self.waiting.load(Relaxed)));
        let load = Load {
            reads: end.reads() / batches,
            work_ns: work_ns / batches,
            in_flight: end.in_flight(),
            waiting,
        };
        let otherwise = self.otherwise.swap(0, Relaxed);
        let window = Window { load, speed: work_ns / elapsed_ns, elapsed_ns, batches, otherwise, is_lost };
        state.began_ns = now;
        state.rests.window(how);
        self.rests.store(0, Relaxed);
        let (next, asked) = state.race.window(&window, state.settles, now);
        state.settles = false;
        if let Some(asked) = asked {
            self.asked.store(asked as u32 + 1, Relaxed);
        }
        match next {
            Some(next) => self.takes(state, next, in_flight),
            None => self.looks(state, 0, state.race.first_look() as u32),
        }
        let pauses = state.rests.are_usual();
        self.waits.store(u32::from(pauses && (state.settles || state.race.is_challenged())), Relaxed);
    }

    /// Forgets what there is of the window.
    fn begins_anew(&self, state: &mut State, now: u64) {
        state.rests.forgets();
        [&self.counts, &self.depths].into_iter().for_each(|sums| sums.store(0, Relaxed));
        [&self.rests, &self.otherwise, &self.waits].into_iter().for_each(|flag| flag.store(0, Relaxed));
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

    /// Places another way from now on, while so many batches are in flight.
    fn takes(&self, state: &mut State, way: usize, in_flight: u32) {
        self.way.store(way as u32, Relaxed);
        self.left.store(in_flight as i32, Relaxed);
        self.turn.fetch_add(1, Relaxed);
        // Until what was placed before is done, of which some is counted.
        let batches = (self.counts.load(Relaxed) & 0xfff) as u32;
        let more = if in_flight > 0 { 1 } else { state.race.settling() as u32 };
        self.looks(state, batches, more);
        (state.settles, state.is_left) = (true, true);
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
    fn windows_of_bursts_begin_and_end_at_rest() {
        // 64 batches 5 us apart, among which there are moments with nothing in
        // flight, and half a millisecond of rest.
        let trials = Trials::new([1]);
        let (mut now, mut rests) = (0, vec![0]);
        for burst in 0..400 {
            for batch in 0..64 {
                now += 5_000;
                trials.done(false, 1e4, trials.turn(), if batch == 63 { 0 } else { batch % 3 }, || now);
                let began_ns = trials.state.lock().expect("no thread panicked").began_ns;
                assert!(burst < 40 || rests.contains(&began_ns), "{began_ns} in burst {burst}");
            }
            rests.push(now);
            now += 500_000;
        }
    }

    #[test]
    fn a_window_begins_when_what_was_placed_another_way_is_done() {
        let trials = Trials::new([1]);
        let before = trials.turn();
        let mut now = 0;
        let mut is_done = |turn: Turn| {
            now += BATCH_NS;
            trials.done(false, 1e4, turn, 7, || now);
            trials.state.lock().expect("no thread panicked").settles
        };
        let settles = |trials: &Trials| trials.state.lock().expect("no thread panicked").settles;
        while settles(&trials) {
            is_done(before);
        }
        trials.takes(&mut trials.state.lock().expect("no thread panicked"), 2, 8);
        // Small ones of its own come and go while eight large ones are left.
        assert!(trials.turn() != before && (0..200).all(|_| is_done(trials.turn())));
        assert!((0..7).all(|_| is_done(before)));
        assert!(!is_done(before), "the last one");
        // One that is lost is not waited for without end.
        trials.takes(&mut trials.state.lock().expect("no thread panicked"), 0, 8);
        let waited = (0..100_000).take_while(|_| is_done(trials.turn())).count() as f64;
        assert!((waited * BATCH_NS as f64 - SETTLES_NS[0]).abs() < 1e6, "{waited}");
    }

    #[test]
    fn batches_that_take_long_are_waited_for_as_long() {
        let trials = Trials::new([1]);
        let mut now = 0;
        let mut is_done = |turn: Turn| {
            now += 1_000_000;
            trials.done(false, 1e6, turn, 63, || now);
            trials.state.lock().expect("no thread panicked").settles
        };
        (0..500).for_each(|_| {
            is_done(trials.turn());
        });
        let before = trials.turn();
        trials.takes(&mut trials.state.lock().expect("no thread panicked"), 2, 64);
        // All end together, after 60 ms.
        assert!((0..60).all(|_| is_done(trials.turn())));
        assert!((0..63).all(|_| is_done(before)));
        assert!(!is_done(before), "the last one");
    }

    #[test]
    fn batches_that_have_become_few_are_looked_at_when_time_passes() {
        let trials = Trials::new([1]);
        let mut now = 0;
        let mut is_done = |after_ns: u64| {
            now += after_ns;
            trials.done(false, 1e4, trials.turn(), 1, || now);
            now - trials.state.lock().expect("no thread panicked").began_ns
        };
        (0..2000).for_each(|_| assert!(is_done(BATCH_NS) < 10_000_000));
        // Until a window has just begun.
        while is_done(BATCH_NS) > 0 {}
        for batch in 0..200 {
            if batch % 4 == 0 {
                trials.time_passes();
            }
            assert!(is_done(10_000_000) < 300_000_000, "{batch}");
        }
    }

    #[test]
    fn a_window_that_a_pause_falls_into_begins_anew() {
        let trials = Trials::new([]);
        let mut now = 0;
        let mut is_done = |after_ns: u64| {
            now += after_ns;
            trials.done(false, 1e4, trials.turn(), 1, || now);
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
