//! Which way is in use and which is tried, by windows that were measured.
//!
//! A trial of a way is a chain of its windows and windows of the way in use
//! in turn. Each of its windows together with its two neighbours is a pair,
//! which says by how much it was faster; [`Evidence`] gathers them, over
//! trials that come back. A way that is worse is put off, the longer the more
//! its trial has cost; one that is better is taken.
//!
//! Pure: no clock, no atomics, the same windows give the same choices.

use super::challenger::{COSTS_SHARE, Challenger, INTERVAL_NS, NEAR, PAIRS_OF_TRIAL, STRANGE_NOISE, Trial};
use super::evidence::compared;
use super::noise::Noise;
use super::seen::Seen;
use super::seldom::Seldom;
use super::window::{DIFFERS, Load, WEIGHT, Window, differs, fewer};
use super::{BATCHES, Outlook, SETTLES, SETTLES_NS, WAYS_MAX, WINDOW_NS};

/// A challenger's window ends early when it is slower than this.
const LOSES: f64 = 0.8;
/// And by so many times what windows of the same length deviate by, or those that
/// are compared, which may be longer.
const CHANCE: f64 = 2.0;
/// One that has lost so much time in a window has lost when it is slower than
/// this, or longer where windows are long; and when it has done as much as was
/// in flight, but where it is far too slow under a load without pauses.
const LOST_NS: f64 = 2e6;
const HOPELESS: f64 = 0.15;
/// And when its batches were as large as all are, by this factor, or when it
/// has lost so many times as much.
const LIKE: f64 = 0.5;
const LOST_MAX: f64 = 4.0;
/// Better by so much is better: a logarithm.
const WINS: f64 = 0.002;
/// Pairs after which a way that is neither better nor worse is put off.
const PAIRS_ENOUGH: f64 = 12.0;
/// Pairs for which the evidence of earlier trials counts at most.
const PAIRS_KEPT: f64 = 8.0;
/// A trial ends early after this many times the time it should have taken.
const OVERDUE: f64 = 2.0;
/// Most that trials of one way may cost, as a share of the time.
const COST_SHARE: f64 = 0.001;
/// A window is not made longer than this for the sake of its batches, but has so
/// many in any case.
const FEWEST_NS: f64 = 60e6;
const FEWEST: f64 = 4.0;
/// And while one way is tried against another a window is so many times as long
/// as it takes until what was placed another way is done, where sizes spread by
/// so much: batches that begin together end together, the large ones in waves.
const TURNOVERS: f64 = 2.5;
const SPREADS: f64 = 1.5;
/// A load that pauses is waited for to rest while so many times as much as is in
/// flight is done, half of a burst as a rule, and no longer than this.
const RESTS_WITHIN: f64 = 4.0;
const SETTLING_MAX_NS: f64 = 16e6;
/// Windows in a row, all alike, after which the load is another.
const STRIKES: u32 = 3;
/// But one is enough where sizes, which were alike, are others by this factor.
const SUDDEN: f64 = 8.0;
/// So many more strange windows than others, however they differ among
/// themselves, and it is another, too.
const STRANGE_MOST: u32 = 6;

/// See the module.
pub(super) struct Race {
    /// Those that place by the model come first.
    models: usize,
    ways: usize,
    incumbent: usize,
    /// The way in use before.
    before: usize,
    windows: u32,
    /// Windows in a row that were unlike what was known, and the last of them.
    strikes: u32,
    last: (f64, Load),
    /// How many more of the last windows were strange than not.
    strange: u32,
    /// Loads that are others, and speeds: other work that makes the latter swing
    /// says nothing of the former.
    loads: Seldom,
    speeds: Seldom,
    /// Until then nothing is tried that has lost before.
    free_ns: u64,
    /// Of the way in use lately.
    speed: f64,
    /// Of each way, under this load.
    seen: [Seen; WAYS_MAX],
    noise: Noise,
    load: Load,
    /// Short windows that the next one is put together with.
    joined: Option<Window>,
    /// How long it took until what was placed before was done, the last two times.
    turnovers_ns: [f64; 2],
    /// Batches in flight in the last short window, of whatever way; and whether
    /// there may still be some of the way before.
    left: f64,
    drains: bool,
    /// Nanoseconds that a batch takes.
    pace_ns: f64,
    /// Ways by the model that would have placed otherwise: a bit each.
    otherwise: u32,
    trial: Option<Trial>,
    challengers: [Challenger; WAYS_MAX],
}

impl Race {
    pub(super) fn new(models: usize, ways: usize) -> Race {
        Race {
            models,
            ways,
            incumbent: 0,
            before: 0,
            windows: 0,
            strikes: 0,
            last: (0.0, Load::default()),
            strange: 0,
            loads: Seldom::default(),
            speeds: Seldom::default(),
            free_ns: 0,
            speed: 0.0,
            seen: Default::default(),
            noise: Noise::default(),
            load: Load::default(),
            joined: None,
            turnovers_ns: [0.0; 2],
            left: 0.0,
            drains: false,
            pace_ns: 0.0,
            otherwise: 0,
            trial: None,
            challengers: [Challenger::due(0); WAYS_MAX],
        }
    }

    pub(super) fn incumbent(&self) -> usize {
        self.incumbent
    }

    /// How long a window should be: a short one, or several that are put together.
    fn window_ns(&self) -> f64 {
        // The less two ways differ, the less it costs to look for longer, and
        // the more it matters what one has left to the other.
        let longer = self.trial.map_or(0.0, |trial| self.challengers[trial.way].evidence.length());
        let longer = (longer / self.noise.length()).round().max(1.0);
        let has_waves = self.trial.is_some() && self.noise.batches_for_one() > SPREADS;
        let turnover_ns = if has_waves { self.turnovers_ns[0].max(self.turnovers_ns[1]) } else { 0.0 };
        (longer * self.noise.length_ns().unwrap_or(WINDOW_NS)).max(TURNOVERS * turnover_ns)
    }

    /// Whether what there is of a window is all of it.
    fn is_whole(&self, window: &Window, short_ns: f64) -> bool {
        window.elapsed_ns + short_ns / 2.0 >= self.window_ns() || window.is_lost
    }

    /// A short window is over. The window that it is the end of, with the short
    /// ones before it, if it is.
    fn joins(&mut self, short: &Window) -> Option<Window> {
        let usual = self.load.work_ns;
        let is_sudden = differs(short.load.work_ns, usual, SUDDEN * self.noise.batches_for_one());
        if is_sudden && self.windows > 0 {
            self.joined = None;
            return Some(*short);
        }
        let window = self.joined.take().map_or(*short, |before| before.with(short));
        if self.is_whole(&window, short.elapsed_ns) {
            return Some(window);
        }
        self.joined = Some(window);
        None
    }

    /// How many batches it should have at least, where each takes so long now:
    /// fewer where they take long.
    pub(super) fn fewest(&self, pace_ns: f64) -> f64 {
        let usual = BATCHES[0].max(self.load.in_flight) * self.noise.batches_for_one();
        usual.min((FEWEST_NS / pace_ns.max(self.pace_ns).max(1.0)).max(FEWEST))
    }

    /// Batches until what was placed before is done.
    pub(super) fn settling(&self) -> f64 {
        self.load.in_flight.max(self.left) + 1.0
    }

    /// How long what was placed before is waited for at most.
    pub(super) fn settles_ns(&self) -> f64 {
        (SETTLES * self.settling() * self.pace_ns).clamp(SETTLES_NS[0], SETTLES_NS[1])
    }

    /// What was placed before another way was taken is done, so long after that.
    pub(super) fn turned_over(&mut self, after_ns: f64) {
        self.turnovers_ns = [self.turnovers_ns[1], after_ns];
    }

    /// Work of a batch as a rule, in nanoseconds; without an end before it is
    /// known.
    pub(super) fn batch_work_ns(&self) -> f64 {
        if self.load.work_ns > 0.0 { self.load.work_ns } else { f64::INFINITY }
    }

    /// How long a moment of rest is waited for after that.
    pub(super) fn settling_ns(&self) -> f64 {
        (RESTS_WITHIN * self.settling() * self.pace_ns).clamp(WINDOW_NS, SETTLING_MAX_NS)
    }

    /// Batches of a window before the clock is looked at first.
    pub(super) fn first_look(&self) -> f64 {
        let expected = if self.pace_ns > 0.0 { WINDOW_NS / self.pace_ns } else { BATCHES[0] };
        expected.clamp(1.0, self.look_max())
    }

    /// Most batches from one look at the clock to the next: one that may be far
    /// slower is looked at more often.
    pub(super) fn look_max(&self) -> f64 {
        if self.is_challenged() { (self.fewest(self.pace_ns) / 8.0).max(1.0) } else { BATCHES[1] }
    }

    /// Whether a challenger's window goes on.
    pub(super) fn is_challenged(&self) -> bool {
        self.trial.is_some_and(|trial| trial.speed.is_none())
    }

    /// Whether a challenger's window so far shows that it has lost; the load
    /// may pause in between, and is whole at rest.
    pub(super) fn is_lost(
        &self,
        elapsed_ns: f64,
        batches: f64,
        speed: f64,
        is_rest: bool,
        pauses: bool,
    ) -> bool {
        let Some(trial) = self.trial.filter(|trial| trial.speed.is_none()) else { return false };
        let short = Window { speed, elapsed_ns, batches, ..Window::default() };
        let Window { speed, elapsed_ns, batches, .. } =
            self.joined.map_or(short, |before| before.with(&short));
        let ratio = speed / trial.before;
        let lost_ns = elapsed_ns * (1.0 - ratio);
        // Where some are large, the first that are done are small.
        let is_like = speed * elapsed_ns > LIKE * batches * self.load.work_ns;
        let is_whole = is_like && (is_rest || !pauses);
        let has_begun = batches >= self.settling() && (is_whole || lost_ns > LOST_MAX * LOST_NS);
        let is_hopeless = match ratio < HOPELESS {
            true => lost_ns > LOST_NS && (has_begun || !pauses),
            false => {
                let noise = self.noise.of_length(elapsed_ns).max(self.noise.of_pair());
                let loses = LOSES.min((-CHANCE * noise).exp());
                ratio < loses && lost_ns > LOST_NS * self.noise.length().sqrt() && has_begun
            }
        };
        is_hopeless || elapsed_ns > self.longest_ns()
    }

    /// How long a challenger's window is at most, if the load does not pause.
    fn longest_ns(&self) -> f64 {
        OVERDUE * (self.fewest(self.pace_ns) * self.pace_ns).max(self.window_ns())
    }

    /// The model's answer to a way that was asked for. Whether it is tried.
    pub(super) fn answer(&mut self, way: usize, outlook: Outlook, now: u64) -> bool {
        if self.trial.is_some() || way == self.incumbent {
            return false;
        }
        // What has lost as the model says need not lose again.
        let has_lost = self.challengers[way].evidence.mean() < LOSES.ln();
        if outlook == Outlook::Hopeless || outlook == Outlook::Slow && has_lost {
            self.put_off(way, now, 0.0);
            return false;
        }
        let evidence = &mut self.challengers[way].evidence;
        if evidence.mean() < LOSES.ln() {
            // If that is so still, it will be seen at once.
            evidence.forgets();
        }
        evidence.fades(PAIRS_KEPT);
        self.trial = Some(Trial::of(way, self.speed));
        true
    }

    /// A window is over. The way to be taken from now on, if it is another;
    /// and a way that shall be tried.
    pub(super) fn window(
        &mut self,
        window: &Window,
        settles: bool,
        now: u64,
    ) -> (Option<usize>, Option<usize>) {
        let pace = window.elapsed_ns / window.batches;
        if settles {
            (self.joined, self.drains) = (None, true);
            if self.pace_ns == 0.0 {
                self.pace_ns = pace;
            }
            let most_ns = self.longest_ns();
            self.trial.iter_mut().for_each(|trial| trial.takes(window, most_ns));
            return (None, None);
        }
        let left = std::mem::replace(&mut self.left, window.load.in_flight);
        if self.drains && !window.is_lost && fewer(window.load.in_flight, left) {
            if self.is_challenged() {
                let most_ns = self.longest_ns();
                self.trial.iter_mut().for_each(|trial| trial.takes(window, most_ns));
            }
            return (None, None);
        }
        self.drains = false;
        let usual = if self.windows > 0 { self.load.work_ns } else { window.load.work_ns };
        if self.is_challenged() {
            self.noise.breaks();
        } else {
            self.pace_ns = pace;
            self.noise.measures_short(window, usual);
        }
        let Some(window) = self.joins(window) else { return (None, None) };
        if !self.is_challenged() {
            self.noise.measures(window.speed, window.load.work_ns);
            self.otherwise = window.otherwise;
        }
        let speed = self.noise.evened(window.speed, window.load.work_ns, usual);
        let window = &Window { speed, ..window };
        match self.trial.take() {
            Some(trial) => (self.trial_goes_on(trial, window, now), None),
            None => self.incumbent_goes_on(window, now),
        }
    }

    fn incumbent_goes_on(&mut self, window: &Window, now: u64) -> (Option<usize>, Option<usize>) {
        self.windows += 1;
        if self.speed == 0.0 {
            (self.speed, self.load, self.seen) = (window.speed, window.load, Default::default());
            self.sees(window);
        } else if self.windows == 1 {
            // How many are in flight is the way's doing too.
            self.load.in_flight = window.load.in_flight;
        }
        if self.is_strange(window) {
            return (self.strikes(window, now), None);
        }
        self.strikes = 0;
        self.strange = self.strange.saturating_sub(1);
        self.speed += (window.speed - self.speed) * WEIGHT;
        self.load.follows(&window.load);
        if self.sees_depth(&window.load) {
            self.tries_all_again(now);
        }
        self.drifts(now);
        self.outgrows(now);
        if self.windows < 3 {
            return (None, None);
        }
        let is_due = |way: &usize| {
            *way != self.incumbent
                && (*way == 0 || *way >= self.models || self.otherwise >> *way & 1 == 1)
                && self.challengers[*way].next_ns <= now
                && (self.free_ns <= now || !self.challengers[*way].has_lost())
        };
        let first = (0..self.ways).filter(is_due).min_by_key(|way| self.rank(*way));
        if first.is_some() {
            self.speed = window.speed;
        }
        (None, first)
    }

    /// Whoever is due first is tried first; the last of those by the model, which
    /// helps where nothing else does, after all others.
    fn rank(&self, way: usize) -> (u64, bool) {
        (self.challengers[way].next_ns, way > 1 && way + 1 == self.models)
    }

    fn is_model(&self) -> bool {
        self.incumbent < self.models
    }

    fn is_strange(&self, window: &Window) -> bool {
        let factor = DIFFERS.max((STRANGE_NOISE * self.noise.of_pair()).exp());
        differs(window.speed, self.speed, factor) || window.load.differs(&self.load, self.is_model())
    }

    /// Another load, and one that stays: not a window here and there.
    fn strikes(&mut self, window: &Window, now: u64) -> Option<usize> {
        let (before, load_before) = std::mem::replace(&mut self.last, (window.speed, window.load));
        if window.load.differs(&self.load, self.is_model()) {
            self.noise.hurries();
        }
        let is_alike = self.strikes > 0
            && !differs(window.speed, before, DIFFERS)
            && !window.load.differs(&load_before, self.is_model());
        self.strikes = if is_alike { self.strikes + 1 } else { 1 };
        self.strange += 1;
        let is_other = window.load.is_of_others(&self.load);
        let is_sudden =
            differs(window.load.work_ns, self.load.work_ns, SUDDEN * self.noise.batches_for_one())
                || is_other && SUDDEN * window.speed < self.speed;
        if self.strikes < STRIKES && self.strange < STRANGE_MOST && !is_sudden {
            return None;
        }
        let is_new = self.sees(window);
        (self.speed, self.load) = (window.speed, window.load);
        (self.strikes, self.strange) = (0, 0);
        if is_other {
            self.noise = Noise::default();
            return self.loads.may(now).then(|| self.starts_over_after(now));
        }
        if is_new {
            self.tries_all_again(now);
        } else if self.speeds.may(now) {
            // What was near may be faster now.
            for challenger in &mut self.challengers[..self.ways] {
                if challenger.evidence.mean() > -NEAR {
                    challenger.evidence.fades(1.0);
                    (challenger.next_ns, challenger.interval_ns) = (now, INTERVAL_NS[0]);
                }
            }
        }
        None
    }

    /// Takes in a window of the way in use; whether it was unlike all before.
    fn sees(&mut self, window: &Window) -> bool {
        let is_deep = self.sees_depth(&window.load);
        self.seen[self.incumbent].takes_in_speed(window.speed) || is_deep
    }

    /// Takes in how many asked; whether they were far fewer or more than ever.
    fn sees_depth(&mut self, load: &Load) -> bool {
        let is_model = self.is_model();
        let seen = &mut self.seen[self.incumbent];
        seen.takes_in_depth(load.in_flight, is_model) | seen.takes_in_all(load.in_flight + load.waiting)
    }

    /// Whatever was found out before, it was not about this.
    fn tries_all_again(&mut self, now: u64) {
        self.challengers = [Challenger::due(now); WAYS_MAX];
        self.free_ns = now;
    }

    /// Windows may have to be longer than those in which ways were tried.
    fn outgrows(&mut self, now: u64) {
        if let Some(length_ns) = self.noise.length_ns() {
            self.challengers[..self.ways].iter_mut().for_each(|way| way.outgrows(length_ns, now));
        }
    }

    /// The model places; what was best before may well be so again.
    fn starts_over_after(&mut self, now: u64) -> usize {
        let before = self.incumbent;
        self.starts_over(now);
        self.challengers[before].next_ns = 0;
        0
    }

    fn trial_goes_on(&mut self, mut trial: Trial, window: &Window, now: u64) -> Option<usize> {
        let incumbent = self.incumbent;
        let Some(challenger) = trial.speed else {
            trial.takes(window, self.longest_ns());
            trial.speed = Some(window.speed);
            self.trial = Some(trial);
            return Some(incumbent);
        };
        if window.load.is_of_others(&self.load) {
            // The load changes: this says nothing of the ways.
            let pause = (trial.lost_ns().max(0.0) / COST_SHARE) as u64;
            self.challengers[trial.way].next_ns = now + pause.clamp(INTERVAL_NS[0] / 4, INTERVAL_NS[1]);
            return self.incumbent_goes_on(window, now).0;
        }
        if self.seen[incumbent].takes_in_all(window.load.in_flight + window.load.waiting) {
            // Far more or fewer ask than ever: nor does this.
            (self.speed, self.load) = (window.speed, window.load);
            self.tries_all_again(now);
            return None;
        }
        let noise = self.noise.of_pair();
        let factor = (STRANGE_NOISE * noise).exp().max(DIFFERS);
        self.speed += (window.speed - self.speed) * WEIGHT;
        // What is far slower may be what the challenger has left to it.
        let is_left = trial.before > factor * window.speed;
        self.challengers[trial.way].against = if is_left { trial.before } else { self.speed };
        let tried = &mut self.challengers[trial.way];
        tried.longest_ns = tried.longest_ns.max(window.elapsed_ns);
        let evidence = &mut tried.evidence;
        evidence.add(compared(challenger, (trial.before, window.speed), factor));
        trial.pairs_up(challenger, window.speed);
        let evidence = *evidence;
        if evidence.is_worse(noise) {
            self.put_off(trial.way, now, trial.lost_ns());
        } else if evidence.is_better(WINS, noise) || trial.is_ahead() {
            self.takes(trial.way, now);
            return Some(trial.way);
        } else if evidence.pairs() >= PAIRS_ENOUGH && trial.pairs >= PAIRS_OF_TRIAL {
            if evidence.is_likely(WINS, noise) {
                self.takes(trial.way, now);
                return Some(trial.way);
            }
            self.put_off(trial.way, now, trial.lost_ns());
        } else if trial.pairs >= PAIRS_OF_TRIAL {
            self.challengers[trial.way].evidence.undecided();
            self.challengers[trial.way].next_ns = now + (trial.lost_ns().max(0.0) / COST_SHARE) as u64;
        } else {
            (trial.before, trial.speed) = (window.speed, None);
            self.trial = Some(trial);
            return Some(trial.way);
        }
        None
    }

    fn takes(&mut self, way: usize, now: u64) {
        let faster = self.challengers[way].evidence;
        let (before, noise) = (self.incumbent, self.noise.of_pair());
        self.challengers[before].evidence = faster.of_other(way == self.before);
        for other in (0..self.ways).filter(|other| *other != way) {
            let challenger = &mut self.challengers[other];
            challenger.evidence.against(faster.mean());
            challenger.evidence.fades(PAIRS_KEPT / 2.0);
            challenger.against = self.speed;
            if !challenger.evidence.is_worse(noise) {
                challenger.next_ns = now;
                challenger.interval_ns = INTERVAL_NS[0];
            }
        }
        self.challengers[before].next_ns = now + INTERVAL_NS[0];
        (self.incumbent, self.before) = (way, before);
        self.windows = 0;
        self.noise.another_way();
        let factor = faster.mean().exp();
        self.speed *= factor;
    }

    /// Everything that was found out is about something else.
    pub(super) fn starts_over(&mut self, now: u64) {
        (self.incumbent, self.before) = (0, 0);
        self.windows = 0;
        self.strikes = 0;
        self.speed = 0.0;
        self.trial = None;
        self.joined = None;
        self.challengers = [Challenger::due(now); WAYS_MAX];
    }

    /// The way in use may have become slower than others were.
    fn drifts(&mut self, now: u64) {
        let (speed, noise, is_free) = (self.speed, self.noise.of_pair(), self.free_ns <= now);
        for way in (0..self.ways).filter(|way| *way != self.incumbent) {
            self.challengers[way].drifts(speed, noise, is_free, now);
        }
    }

    fn put_off(&mut self, way: usize, now: u64, lost_ns: f64) {
        let challenger = &mut self.challengers[way];
        let lost_ns = lost_ns.max(0.0);
        self.free_ns = self.free_ns.max(now) + (lost_ns / COSTS_SHARE) as u64;
        let pause = challenger.interval_ns.max((lost_ns / COST_SHARE) as u64);
        challenger.next_ns = now + pause.min(INTERVAL_NS[1]);
        challenger.interval_ns = (challenger.interval_ns * 3).min(INTERVAL_NS[1]);
    }
}

#[cfg(test)]
mod tests;
