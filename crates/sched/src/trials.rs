//! Ways of placing, tried against each other by the speed that they show.
//!
//! The model behind `adaptive` knows what each batch costs, not what it costs
//! the whole: wakeups, interrupts, shared caches. So now and then a window of
//! batches is placed another way, each engine alone among them, between two
//! windows of the way in use. A way that is faster three times in a row is
//! taken. What trials may cost is bounded, and one that loses comes again
//! later the more it lost.
//!
//! Does not know clocks: the time is asked for when a window ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::placing::ENGINES_MAX;

/// A way of placing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the model.
    Model,
    /// By the model, every batch whole.
    Whole,
    /// All on one engine.
    Only(usize),
}

const WAYS_MAX: usize = 2 + ENGINES_MAX;

/// Aim of a window's length, in nanoseconds.
const WINDOW_NS: f64 = 4e6;
/// Fewest and most batches of a window.
const BATCHES: [f64; 2] = [16.0, 2000.0];
/// Most that can be counted, with room for a window that ends late.
const BATCHES_EVER: f64 = 2600.0;
/// Most batches more until a moment of rest.
const SLACK_EVER: f64 = 1400.0;
/// A challenger that is slower than this is not tried on.
const LOSES: f64 = 0.97;
/// Faster by this much is faster.
const WINS: f64 = 1.01;
/// Faster by this much needs a window less to be believed.
const WINS_CLEARLY: f64 = 1.1;
/// Windows in a row that a challenger has to win.
const WINS_NEEDED: u32 = 3;
/// A trial ends early after this many times the time it should have taken.
const OVERDUE: f64 = 2.0;
/// Most that trials of one way may cost, as a share of the time.
const COST_SHARE: f64 = 0.002;
/// First and longest time from a trial that was lost to the next one.
const INTERVAL_NS: [u64; 2] = [60_000_000, 10_000_000_000];
/// How much a new window counts.
const WEIGHT: f64 = 0.25;
/// A speed or a load that differs by this factor is another.
const DIFFERS: f64 = 1.3;

/// Windows in a row after which the load is another.
const STRIKES: u32 = 3;
/// Least and most time from one change of load to the next that counts.
const OVER_AGAIN_NS: [u64; 2] = [50_000_000, 5_000_000_000];

/// See the module.
pub struct Trials {
    way: AtomicU32,
    /// The way that shall be tried when the model does not object, and 1.
    asked: AtomicU32,
    /// Batches in this window after which it ends.
    window: AtomicU32,
    is_trial: AtomicU32,
    /// Batches for which a window's end may wait for a moment of rest.
    slack: AtomicU32,
    /// Whether there was one in this window.
    rests: AtomicU32,
    /// Batches, reads, sum of size classes, sum of batches in flight: in 12,
    /// 12, 18 and 22 bits.
    counts: AtomicU64,
    work_ns: AtomicU64,
    state: Mutex<State>,
}

/// What asked for the batches of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    reads: f64,
    size_class: f64,
    in_flight: f64,
}

impl Load {
    fn differs(&self, other: &Load) -> bool {
        let ratio =
            (self.in_flight / other.in_flight.max(0.1)).max(other.in_flight / self.in_flight.max(0.1));
        (self.reads - other.reads).abs() > 0.25
            || (self.size_class - other.size_class).abs() > 0.7
            || ratio > DIFFERS * DIFFERS
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Challenger {
    next_ns: u64,
    interval_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    way: usize,
    /// Speed of the way in use in the window before.
    before: f64,
    /// The challenger's, once its window is over.
    speed: Option<f64>,
    wins: u32,
    lost_ns: f64,
}

struct State {
    ways: usize,
    incumbent: usize,
    began_ns: u64,
    /// The window takes in what was placed before: it does not count.
    settles: bool,
    windows: u32,
    /// Windows since the last in which nothing was in flight for a moment.
    rests_ago: u32,
    /// Windows in a row that were unlike what was known, and the last of them.
    strikes: u32,
    last: (f64, Load),
    /// When placing may start over, and how long after that again.
    over_ns: u64,
    over_again_ns: u64,
    speed: f64,
    load: Load,
    /// Nanoseconds that a batch takes.
    pace_ns: f64,
    trial: Option<Trial>,
    challengers: [Challenger; WAYS_MAX],
}

impl Trials {
    /// Of so many engines.
    #[must_use]
    pub fn new(engines: usize) -> Trials {
        let challenger = Challenger { next_ns: 0, interval_ns: INTERVAL_NS[0] };
        Trials {
            way: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            window: AtomicU32::new(BATCHES[0] as u32),
            is_trial: AtomicU32::new(0),
            slack: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            counts: AtomicU64::new(0),
            work_ns: AtomicU64::new(0),
            state: Mutex::new(State {
                ways: 2 + engines.min(ENGINES_MAX),
                incumbent: 0,
                began_ns: 0,
                settles: true,
                windows: 0,
                rests_ago: 0,
                strikes: 0,
                last: (0.0, Load::default()),
                over_ns: 0,
                over_again_ns: OVER_AGAIN_NS[0],
                speed: 0.0,
                load: Load::default(),
                pace_ns: 0.0,
                trial: None,
                challengers: [challenger; WAYS_MAX],
            }),
        }
    }

    /// How to place now.
    #[must_use]
    pub fn way(&self) -> Way {
        way(self.way.load(Relaxed) as usize)
    }

    /// A way that shall be tried, if the model does not find it hopeless.
    #[must_use]
    pub fn asked(&self) -> Option<Way> {
        (self.asked.load(Relaxed) as usize).checked_sub(1).map(way)
    }

    /// The model's answer to [`Trials::asked`].
    pub fn answer(&self, is_hopeless: bool) {
        let asked = self.asked.swap(0, Relaxed) as usize;
        let Ok(mut state) = self.state.try_lock() else { return };
        let Some(asked) = asked.checked_sub(1).filter(|_| state.trial.is_none()) else { return };
        if is_hopeless {
            let now = state.began_ns;
            state.put_off(asked, now, 0.0);
            return;
        }
        let before = state.speed;
        state.trial = Some(Trial { way: asked, before, speed: None, wins: 0, lost_ns: 0.0 });
        self.takes(&mut state, asked);
    }

    /// A batch was computed: what it was, how many others are in flight, and
    /// the work that it was, in nanoseconds of an engine that never changes.
    pub fn done(
        &self,
        is_read: bool,
        size_class: usize,
        in_flight: u32,
        work_ns: f64,
        now: impl FnOnce() -> u64,
    ) {
        let load =
            u64::from(is_read) << 12 | (size_class as u64) << 24 | u64::from(in_flight.min(1024)) << 42;
        let before = self.counts.fetch_add(load + 1, Relaxed);
        self.work_ns.fetch_add(work_ns as u64, Relaxed);
        // Rather when nothing is left than in the middle of a burst.
        let (batches, window) = ((before & 0xfff) as u32 + 1, self.window.load(Relaxed));
        if in_flight == 0 {
            self.rests.store(1, Relaxed);
        }
        let is_over = batches >= window && (in_flight == 0 || batches >= window + self.slack.load(Relaxed));
        if !is_over && self.is_trial.load(Relaxed) == 0 {
            return;
        }
        let Ok(mut state) = self.state.try_lock() else { return };
        let now = now();
        if is_over || state.is_overdue(now, window) {
            self.window_ends(&mut state, now);
        }
    }

    /// The way in use, trials aside.
    #[must_use]
    pub fn incumbent(&self) -> Way {
        way(self.state.lock().unwrap_or_else(PoisonError::into_inner).incumbent)
    }

    fn window_ends(&self, state: &mut State, now: u64) {
        let (counts, work) = (self.counts.swap(0, Relaxed), self.work_ns.swap(0, Relaxed));
        let field = |shift: u32, bits: u32| (counts >> shift & ((1 << bits) - 1)) as f64;
        let batches = field(0, 12).max(1.0);
        let load = Load {
            reads: field(12, 12) / batches,
            size_class: field(24, 18) / batches,
            in_flight: field(42, 22) / batches,
        };
        let elapsed = now.saturating_sub(state.began_ns).max(1) as f64;
        let speed = work as f64 / elapsed;
        state.began_ns = now;
        if state.trial.is_some_and(|trial| self.way.load(Relaxed) as usize == trial.way) {
            let trial = state.trial.as_mut().expect("a trial goes on");
            trial.lost_ns += elapsed * (1.0 - speed / trial.before).max(0.0);
        }
        if state.settles && state.is_on_time(elapsed, batches) {
            state.settles = false;
            if state.pace_ns == 0.0 {
                state.pace_ns = elapsed / batches;
            }
        } else if state.trial.is_some() {
            state.pace(elapsed, batches, self.way.load(Relaxed) as usize);
            self.trial_goes_on(state, speed, now);
        } else {
            state.pace(elapsed, batches, state.incumbent);
            self.incumbent_goes_on(state, speed, load, now);
        }
        let fewest = BATCHES[0].max(2.0 * state.load.in_flight);
        let window = (WINDOW_NS / state.pace_ns.max(1.0)).clamp(fewest, BATCHES[1].max(fewest));
        // A load that never rests, as a steady one, is not waited for.
        state.rests_ago = if self.rests.swap(0, Relaxed) == 1 { 0 } else { state.rests_ago + 1 };
        let slack =
            if state.rests_ago < 8 { (WINDOW_NS / state.pace_ns.max(1.0)).max(window / 2.0) } else { 0.0 };
        self.slack.store(slack.min(SLACK_EVER) as u32, Relaxed);
        let batches = if state.settles { state.settling() } else { window };
        self.window.store(batches.min(BATCHES_EVER) as u32, Relaxed);
    }

    fn incumbent_goes_on(&self, state: &mut State, speed: f64, load: Load, now: u64) {
        state.windows += 1;
        let differs = |one: f64, other: f64| one > other * DIFFERS || other > one * DIFFERS;
        if state.windows == 1 {
            (state.speed, state.load) = (speed, load);
        } else if differs(speed, state.speed) || load.differs(&state.load) {
            // Another load, and one that stays: not a window here and there.
            let (before, load_before) = std::mem::replace(&mut state.last, (speed, load));
            let is_alike = state.strikes > 0 && !differs(speed, before) && !load.differs(&load_before);
            state.strikes = if is_alike { state.strikes + 1 } else { 1 };
            if state.strikes >= STRIKES {
                (state.speed, state.load, state.strikes) = (speed, load, 0);
                if state.may_start_over(now) {
                    state.starts_over(now);
                    self.takes(state, 0);
                }
            }
            return;
        }
        state.strikes = 0;
        state.speed += (speed - state.speed) * WEIGHT;
        state.load = load;
        let due = |way: &usize| *way != state.incumbent && state.challengers[*way].next_ns <= now;
        let first = (0..state.ways).filter(due).min_by_key(|way| state.challengers[*way].next_ns);
        if let Some(way) = first.filter(|_| state.windows >= 3) {
            state.speed = speed.mul_add(0.5, state.speed * 0.5);
            self.asked.store(way as u32 + 1, Relaxed);
        }
    }

    fn trial_goes_on(&self, state: &mut State, speed: f64, now: u64) {
        let mut trial = state.trial.take().expect("a trial goes on");
        let incumbent = state.incumbent;
        match trial.speed {
            None if speed < LOSES * trial.before => {
                state.put_off(trial.way, now, trial.lost_ns);
                self.takes(state, incumbent);
            }
            None => {
                trial.speed = Some(speed);
                state.trial = Some(trial);
                self.takes(state, incumbent);
            }
            Some(challenger) => {
                let ratio = challenger / ((trial.before + speed) / 2.0);
                trial.wins += if ratio > WINS_CLEARLY { 2 } else { 1 };
                if ratio < WINS {
                    state.put_off(trial.way, now, trial.lost_ns);
                } else if trial.wins >= WINS_NEEDED {
                    state.starts_over(now);
                    state.incumbent = trial.way;
                    state.challengers[incumbent].next_ns = now + INTERVAL_NS[0];
                    self.takes(state, trial.way);
                } else {
                    (trial.before, trial.speed) = (speed, None);
                    state.trial = Some(trial);
                    self.takes(state, trial.way);
                }
            }
        }
    }

    /// Places another way from now on.
    fn takes(&self, state: &mut State, way: usize) {
        self.way.store(way as u32, Relaxed);
        self.is_trial.store(u32::from(state.trial.is_some()), Relaxed);
        self.window.store(state.settling().min(BATCHES_EVER) as u32, Relaxed);
        state.settles = true;
    }
}

impl State {
    /// Loads that come and go start over ever less often.
    fn may_start_over(&mut self, now: u64) -> bool {
        if now < self.over_ns {
            return false;
        }
        let is_rare = now > self.over_ns + 4 * self.over_again_ns;
        let [least, most] = OVER_AGAIN_NS;
        self.over_again_ns = if is_rare { least } else { (self.over_again_ns * 2).min(most) };
        self.over_ns = now + self.over_again_ns;
        true
    }

    /// Everything that was found out is about something else.
    fn starts_over(&mut self, now: u64) {
        self.incumbent = 0;
        self.windows = 0;
        self.strikes = 0;
        self.trial = None;
        self.challengers = [Challenger { next_ns: now, interval_ns: INTERVAL_NS[0] }; WAYS_MAX];
    }

    fn put_off(&mut self, way: usize, now: u64, lost_ns: f64) {
        let challenger = &mut self.challengers[way];
        let pause = challenger.interval_ns.max((lost_ns / COST_SHARE) as u64);
        challenger.next_ns = now + pause.min(INTERVAL_NS[1]);
        challenger.interval_ns = (challenger.interval_ns * 3).min(INTERVAL_NS[1]);
    }

    /// Batches until what was placed before is done.
    fn settling(&self) -> f64 {
        BATCHES[0].max(self.load.in_flight)
    }

    fn pace(&mut self, elapsed: f64, batches: f64, way: usize) {
        if way == self.incumbent {
            self.pace_ns = elapsed / batches;
        }
    }

    fn is_overdue(&self, now: u64, window: u32) -> bool {
        let is_challenger = self.trial.is_some_and(|trial| trial.speed.is_none());
        is_challenger && !self.is_on_time(now.saturating_sub(self.began_ns) as f64, f64::from(window))
    }

    /// A window that was to settle only is a verdict when it took too long.
    fn is_on_time(&self, elapsed: f64, batches: f64) -> bool {
        self.trial.is_none_or(|trial| trial.speed.is_some())
            || elapsed <= batches * self.pace_ns * OVERDUE + WINDOW_NS
    }
}

fn way(number: usize) -> Way {
    match number {
        0 => Way::Model,
        1 => Way::Whole,
        engine => Way::Only(engine - 2),
    }
}
