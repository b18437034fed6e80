//! When the completions of a device are looked for, and in what pieces work
//! goes there: one controller for every asynchronous engine and the simulator.
//!
//! The principle is on one page, `docs/completions.md`: the coarsest grain that
//! costs no speed. It sees no device and no clock, but what its engine tells it
//! at each [look](Look).
//!
//! Two rules besides are for comparison: a fixed plan, and the one of
//! Li, Sun and Guo, "Interrupt frequency optimization method for cryptographic
//! devices based on single-root I/O virtualization" (2018).

use std::collections::VecDeque;

/// Completions of one interrupt: the rungs of the ladder. 0 is to look all the
/// time, the finest.
const COUNTS: [u64; 13] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
/// The rung to begin with: an interrupt for each.
const FIRST: usize = 1;
/// A coarser grain may cost so much of the best speed.
const TOLERANCE: f64 = 0.02;
/// Epochs that what is known of a rung is the median of, at most: the last ones.
const EPOCHS: usize = 16;
/// Completions of an epoch, at least, and interrupts.
const EPOCH_OPERATIONS: u64 = 64;
const EPOCH_LOOKS: u64 = 8;
/// Epochs from one trial of a neighbour to the next, first and at most.
const TRIAL_FIRST: u32 = 2;
const TRIAL_LAST: u32 = 32;
/// An epoch takes another time than is known, longer or shorter by this share,
/// and by three times what epochs differ by.
const STRANGE: f64 = 0.25;
/// What one epoch counts of what epochs differ by, at most.
const NOISE_MAX: f64 = 0.5;
/// So many such epochs in a row are another load's. Nothing is fast by chance,
/// but whoever has the CPUs can make a few epochs slow.
const FAST_EPOCHS: u32 = 2;
const SLOW_EPOCHS: u32 = 8;
/// Standard errors of a median in a mean absolute deviation over the root of
/// their number (normal distribution).
const DEVIATION: f64 = std::f64::consts::FRAC_PI_2;
/// Time until a look where an interrupt comes with the next completion, in
/// nanoseconds: as good as none.
const NO_WAIT_NS: u64 = 1_000_000_000;
/// Period in which the paper's rule compares speeds, in nanoseconds.
pub const PAPER_PERIOD_NS: u64 = 1_000_000_000;

/// How completions are waited for until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Completions that one interrupt stands for, at least 1. An engine asks for
    /// no more than it has out.
    pub count: u32,
    /// Nanoseconds after which it looks though fewer have come.
    pub wait_ns: u64,
    /// Nanoseconds from one interrupt to the next, at least: a cap of their rate.
    pub gap_ns: u64,
    /// Looks all the time instead of waiting for an interrupt.
    pub polls: bool,
}

impl Plan {
    /// An interrupt for each completion.
    pub const EACH: Plan = Plan { count: 1, wait_ns: NO_WAIT_NS, gap_ns: 0, polls: false };
}

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Always this plan.
    Fixed(Plan),
    /// An interrupt for each completion until the speed of a second is less than
    /// that of the second before; from then on no more interrupts than that had.
    Paper,
    /// See the module.
    Adaptive,
}

/// What is known of an engine beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nanoseconds that a completion may wait for others, at most.
    pub ceiling_ns: u64,
    /// Nanoseconds that a CPU may look for a completion, at most in the mean.
    pub spin_ns: u64,
}

impl Default for Limits {
    /// 200 us, and 50 us.
    fn default() -> Limits {
        Limits { ceiling_ns: 200_000, spin_ns: 50_000 }
    }
}

/// What an engine saw when it looked for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The moment, in nanoseconds from any beginning.
    pub now_ns: u64,
    /// When the device last had nothing before it got what it has had since.
    pub busy_since_ns: u64,
    /// Completions that were there.
    pub completed: u32,
    /// Their bytes, whose speed counts.
    pub bytes: u64,
    /// Operations that the device still has.
    pub in_flight: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Controller {
    rule: Rule,
    limits: Limits,
    ladder: Ladder,
    epoch: Epoch,
    /// Completions in a nanosecond while the device had work, in the last epoch.
    speed: f64,
    /// The last look: whatever comes next is not to wait for others.
    found_nothing: bool,
    paper: Paper,
}

/// What happened since the plan was made.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    last_ns: Option<u64>,
    busy_ns: u64,
    operations: u64,
    bytes: u64,
    looks: u64,
    in_flight_max: u32,
}

/// The state of the paper's rule.
#[derive(Clone, Copy, Debug, Default)]
struct Paper {
    began_ns: Option<u64>,
    bytes: u64,
    interrupts: u64,
    before: Option<(u64, u64)>,
    gap_ns: u64,
}

impl Controller {
    /// That nothing is known to yet.
    #[must_use]
    pub fn new(rule: Rule, limits: Limits) -> Controller {
        Controller {
            rule,
            limits,
            ladder: Ladder::new(&COUNTS, FIRST),
            epoch: Epoch::default(),
            speed: 0.0,
            found_nothing: false,
            paper: Paper::default(),
        }
    }

    /// How to wait from now on.
    #[must_use]
    pub fn plan(&self) -> Plan {
        match self.rule {
            Rule::Fixed(plan) => plan,
            Rule::Paper => Plan { gap_ns: self.paper.gap_ns, ..Plan::EACH },
            Rule::Adaptive => self.adaptive(),
        }
    }

    fn adaptive(&self) -> Plan {
        let count = self.ladder.grain();
        if count <= 1 || self.found_nothing {
            return Plan { polls: count == 0, ..Plan::EACH };
        }
        let expected_ns = count as f64 / self.speed;
        let wait_ns = expected_ns as u64 + self.limits.ceiling_ns;
        Plan { count: count as u32, wait_ns, gap_ns: 0, polls: false }
    }

    /// Tells of a look.
    pub fn looked(&mut self, look: &Look) {
        match self.rule {
            Rule::Fixed(_) => {}
            Rule::Paper => self.paper.looked(look),
            Rule::Adaptive => self.learn(look),
        }
    }

    fn learn(&mut self, look: &Look) {
        self.found_nothing = look.completed == 0;
        let epoch = &mut self.epoch;
        if let Some(last_ns) = epoch.last_ns {
            epoch.busy_ns += look.now_ns.saturating_sub(last_ns.max(look.busy_since_ns));
        }
        epoch.last_ns = Some(look.now_ns);
        epoch.operations += u64::from(look.completed);
        epoch.bytes += look.bytes;
        epoch.looks += u64::from(look.completed > 0);
        epoch.in_flight_max = epoch.in_flight_max.max(look.in_flight + look.completed);
        if epoch.operations < EPOCH_OPERATIONS || epoch.looks < EPOCH_LOOKS || epoch.busy_ns == 0 {
            return;
        }
        self.speed = epoch.operations as f64 / epoch.busy_ns as f64;
        // The first of them waits for the others.
        let within_ceiling = 1 + (self.speed * self.limits.ceiling_ns as f64) as u64;
        let most = within_ceiling.min(epoch.in_flight_max.into());
        let least = u64::from(self.speed * (self.limits.spin_ns as f64) < 1.0);
        self.ladder.measured(epoch.bytes.max(1) as f64 / epoch.busy_ns as f64, least, most);
        self.epoch = Epoch { last_ns: epoch.last_ns, ..Epoch::default() };
    }
}

impl Paper {
    /// Once, and only downwards, as published.
    fn looked(&mut self, look: &Look) {
        self.bytes += look.bytes;
        self.interrupts += u64::from(look.completed > 0);
        let began_ns = *self.began_ns.get_or_insert(look.now_ns);
        if look.now_ns - began_ns < PAPER_PERIOD_NS {
            return;
        }
        if let Some((bytes, interrupts)) = self.before
            && self.bytes < bytes
            && self.gap_ns == 0
        {
            self.gap_ns = PAPER_PERIOD_NS / interrupts.max(1);
        }
        self.before = Some((self.bytes, self.interrupts));
        (self.began_ns, self.bytes, self.interrupts) = (Some(look.now_ns), 0, 0);
    }
}

/// Grains from fine to coarse, and what each was seen to cost. The coarsest is
/// taken that costs no more than the best that could be seen, but for
/// `TOLERANCE`; its neighbours are tried now and then.
#[derive(Clone, Debug)]
pub struct Ladder {
    grains: &'static [u64],
    rungs: Vec<Rung>,
    /// The share by which an epoch differs from the mean of its rung.
    noise: f64,
    at: usize,
    /// The rung that is tried for an epoch.
    trial: Option<usize>,
    /// Epochs until the next trial, and between trials.
    until_trial: u32,
    interval: u32,
    /// Counts trials.
    trials: usize,
    /// Strange epochs in a row: faster ones, and slower ones.
    fast: u32,
    slow: u32,
}

/// What is known of a grain.
#[derive(Clone, Debug, Default)]
struct Rung {
    /// Time for each unit of work, of the last epochs.
    costs: VecDeque<f64>,
    /// Their median: work of others on the CPUs makes a few epochs slow, by any factor.
    cost: f64,
}

impl Rung {
    fn is_known(&self) -> bool {
        !self.costs.is_empty()
    }

    fn note(&mut self, cost: f64) {
        if self.costs.len() == EPOCHS {
            self.costs.pop_front();
        }
        self.costs.push_back(cost);
        let mut sorted: Vec<f64> = self.costs.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.cost = sorted[(sorted.len() - 1) / 2];
    }
}

impl Ladder {
    /// On the one of `grains`, which grow, in this place.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn new(grains: &'static [u64], first: usize) -> Ladder {
        assert!(first < grains.len(), "a ladder has rungs");
        Ladder {
            grains,
            rungs: vec![Rung::default(); grains.len()],
            noise: 0.0,
            at: first,
            trial: None,
            until_trial: TRIAL_FIRST,
            interval: TRIAL_FIRST,
            trials: 0,
            fast: 0,
            slow: 0,
        }
    }

    /// The grain of the epoch that has begun.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.grains[self.trial.unwrap_or(self.at)]
    }

    /// An epoch with [`Ladder::grain`] has ended, with this speed, of any unit.
    /// Grains below `least` and above `most` are not taken in the next.
    ///
    /// # Panics
    /// When no grain is at least `least`.
    pub fn measured(&mut self, speed: f64, least: u64, most: u64) {
        let rung = self.trial.take().unwrap_or(self.at);
        self.note(rung, speed);
        let low = self.grains.iter().position(|grain| *grain >= least).expect("a grain is allowed");
        let top = self.grains.iter().rposition(|grain| *grain <= most).unwrap_or(low).max(low);
        let known = |rung: &usize| self.rungs[*rung].is_known();
        let cost = |rung: &usize| self.rungs[*rung].cost;
        let best = (low..=top).filter(known).min_by(|one, other| cost(one).total_cmp(&cost(other)));
        let is_good = |rung: &usize| {
            let best = best.expect("one is known, this one");
            // Noise keeps the grain that is taken, and recommends no other.
            let unsure = if *rung == self.at { self.unsure(*rung, best) } else { 0.0 };
            cost(rung) <= cost(&best) * (1.0 + TOLERANCE + unsure)
        };
        let chosen = (low..=top).rev().filter(known).find(is_good).unwrap_or(self.at.clamp(low, top));
        if chosen != self.at {
            (self.at, self.interval) = (chosen, TRIAL_FIRST);
            self.until_trial = self.until_trial.min(TRIAL_FIRST);
        }
        self.until_trial = self.until_trial.saturating_sub(1);
        if self.until_trial == 0 {
            self.try_neighbour(low, top);
        }
    }

    /// The share by which the noise may have two rungs seem apart: a standard error.
    fn unsure(&self, one: usize, other: usize) -> f64 {
        let [one, other] = [one, other].map(|rung| 1.0 / self.rungs[rung].costs.len() as f64);
        DEVIATION * self.noise * (one + other).sqrt()
    }

    fn note(&mut self, at: usize, speed: f64) {
        let cost = 1.0 / speed;
        let known = &self.rungs[at];
        if known.is_known() {
            let strange = 1.0 + f64::max(STRANGE, 3.0 * self.noise);
            self.fast = if known.cost / cost > strange { self.fast + 1 } else { 0 };
            self.slow = if cost / known.cost > strange { self.slow + 1 } else { 0 };
            if self.fast == FAST_EPOCHS || self.slow == SLOW_EPOCHS {
                self.rungs.fill(Rung::default());
                (self.fast, self.slow) = (0, 0);
                (self.interval, self.until_trial) = (TRIAL_FIRST, 1);
            } else {
                let off = (cost / known.cost - 1.0).abs().min(NOISE_MAX);
                self.noise += (off - self.noise) / EPOCHS as f64;
            }
        }
        self.rungs[at].note(cost);
    }

    fn try_neighbour(&mut self, low: usize, top: usize) {
        let up = Some(self.at + 1).filter(|rung| *rung <= top);
        let down = self.at.checked_sub(1).filter(|rung| *rung >= low);
        // Looking all the time may be best where its neighbours are not.
        let finest = Some(low).filter(|rung| *rung != self.at);
        let turn = [up, down, up, finest];
        self.trial = (0..turn.len()).find_map(|step| turn[(self.trials + step) % turn.len()]);
        self.trials += 1;
        self.until_trial = self.interval;
        self.interval = (self.interval * 2).min(TRIAL_LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds that a rung gives, until the choice stands.
    fn settle(ladder: &mut Ladder, most: u64, epochs: usize, speed: impl Fn(u64) -> f64) -> Vec<u64> {
        (0..epochs)
            .map(|_| {
                let grain = ladder.grain();
                ladder.measured(speed(grain), 1, most);
                grain
            })
            .collect()
    }

    #[test]
    fn the_coarsest_grain_that_costs_no_speed_is_taken_and_left_again() {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        // Flat until 16, then it falls.
        settle(&mut ladder, 64, 100, |grain| if grain <= 16 { 100.0 } else { 80.0 });
        assert_eq!(ladder.grains[ladder.at], 16);
        // A load that suffers from more than two.
        settle(&mut ladder, 64, 100, |grain| if grain <= 2 { 50.0 } else { 50.0 / grain as f64 });
        assert_eq!(ladder.grains[ladder.at], 2);
        // And one that gains by each step, as far as the ceiling lets it.
        settle(&mut ladder, 40, 200, |grain| 100.0 - 50.0 / grain as f64);
        assert_eq!(ladder.grains[ladder.at], 32);
    }

    #[test]
    fn trials_become_rare() {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        let speed = |grain| if grain == 4 { 100.0 } else { 70.0 };
        settle(&mut ladder, 64, 200, speed);
        let later = settle(&mut ladder, 64, 640, speed);
        let trials = later.iter().filter(|grain| **grain != 4).count();
        assert!((10..=20).contains(&trials), "{trials} of 640");
    }

    /// From 0 to below 1.
    fn noise(seed: u32) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 16) / 65_536.0
        }
    }

    #[test]
    fn noise_of_a_few_percent_does_not_move_it_far() {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        let mut random = noise(1);
        let mut speeds = 0.0;
        for _ in 0..2000 {
            let grain = ladder.grain();
            let speed = if grain <= 8 { 100.0 } else { 800.0 / grain as f64 };
            speeds += speed;
            ladder.measured(speed * (0.95 + random() / 10.0), 1, 64);
        }
        assert!(speeds / 2000.0 > 94.0, "{}", speeds / 2000.0);
    }

    #[test]
    fn other_work_that_halves_the_speed_now_and_then_does_not_mislead_it() {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        let mut random = noise(1);
        let mut speeds = 0.0;
        for _ in 0..4000 {
            let grain = ladder.grain();
            let speed = if grain <= 8 { 100.0 + grain as f64 } else { 800.0 / grain as f64 };
            speeds += speed;
            let taken = if random() < 0.3 { 0.3 + random() / 2.0 } else { 1.0 };
            ladder.measured(speed * taken, 1, 64);
        }
        assert!(speeds / 4000.0 > 108.0 * 0.9, "{}", speeds / 4000.0);
    }

    /// What a ladder reaches of the best speed, and how many interrupts for each completion, where no grain up
    /// to 8 costs speed and a CPU is away for up to four epochs now and then.
    fn beside_other_work(seed: u32) -> [f64; 2] {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        let mut random = noise(seed);
        let (mut slow, mut reached) = (0, [0.0; 2]);
        for _ in 0..4000 {
            let grain = ladder.grain();
            let speed = if grain <= 8 { 1.0 } else { 8.0 / grain as f64 };
            reached = [reached[0] + speed / 4000.0, reached[1] + 1.0 / grain.max(1) as f64 / 4000.0];
            slow = match slow {
                0 if random() < 0.03 => (random() * 4.0) as u32 + 1,
                slow => u32::saturating_sub(slow, 1),
            };
            ladder.measured(if slow > 0 { speed / 2.0 } else { speed * (0.95 + random() / 10.0) }, 1, 64);
        }
        reached
    }

    /// What a ladder reaches where 8 is the best, each coarser octave costs a twentieth, and epochs differ by a tenth.
    fn where_coarser_costs(seed: u32) -> f64 {
        let mut ladder = Ladder::new(&COUNTS, FIRST);
        let mut random = noise(seed);
        let mut work = 0.0;
        for _ in 0..4000 {
            let grain = ladder.grain();
            let speed = if grain <= 8 { 1.0 } else { 1.0 - 0.05 * (grain as f64 / 8.0).log2() };
            work += speed / 4000.0;
            // The sum of some is about normal.
            let sum: f64 = (0..6).map(|_| random() - 0.5).sum();
            ladder.measured(speed / (1.0 + 0.14 * sum), 1, 64);
        }
        work
    }

    #[test]
    fn noise_does_not_carry_it_to_grains_that_cost_speed() {
        let mean = (1..=20).map(where_coarser_costs).sum::<f64>() / 20.0;
        println!("{mean:.3} of the speed");
        assert!(mean > 0.993, "{mean:.3}");
    }

    #[test]
    fn a_few_slow_epochs_in_a_row_do_not_make_it_forget() {
        let all: Vec<[f64; 2]> = (1..=20).map(beside_other_work).collect();
        let mean = |of: usize| all.iter().map(|reached| reached[of]).sum::<f64>() / all.len() as f64;
        let [speed, interrupts] = [mean(0), mean(1)];
        println!("{speed:.3} of the speed, {interrupts:.3} interrupts");
        assert!(speed > 0.99 && interrupts < 0.25, "{speed:.3} {interrupts:.3}");
    }

    /// A device that completes one operation each `service_ns` while it has any.
    fn look(controller: &mut Controller, now_ns: &mut u64, completed: u32, in_flight: u32, took_ns: u64) {
        *now_ns += took_ns;
        let bytes = 4096 * u64::from(completed);
        controller.looked(&Look { now_ns: *now_ns, busy_since_ns: 0, completed, bytes, in_flight });
    }

    #[test]
    fn it_polls_where_that_is_faster_and_no_cpu_waits_long() {
        let mut now_ns = 0;
        // Waking takes 5 us besides.
        for (service_ns, polls) in [(10_000, true), (60_000, false)] {
            let mut controller = Controller::new(Rule::Adaptive, Limits::default());
            for _ in 0..2000 {
                let wake_ns = if controller.plan().polls { 0 } else { 5_000 };
                look(&mut controller, &mut now_ns, 1, 0, service_ns + wake_ns);
            }
            assert_eq!(controller.plan().polls, polls, "{service_ns}");
            assert_eq!(controller.plan().count, 1, "no more than there are");
        }
    }

    #[test]
    fn what_comes_after_an_empty_look_is_told_at_once() {
        let mut controller = Controller::new(Rule::Adaptive, Limits::default());
        let mut now_ns = 0;
        for _ in 0..2000 {
            let count = controller.plan().count.min(32);
            look(&mut controller, &mut now_ns, count, 32 - count, u64::from(count) * 20_000);
        }
        let plan = controller.plan();
        assert!(plan.count > 1 && plan.wait_ns < NO_WAIT_NS, "{plan:?}");
        look(&mut controller, &mut now_ns, 0, 1, plan.wait_ns);
        assert_eq!(controller.plan(), Plan::EACH);
        look(&mut controller, &mut now_ns, 1, 31, 20_000);
        assert_eq!(controller.plan().count, plan.count);
    }

    #[test]
    fn nothing_waits_longer_than_the_ceiling_for_others() {
        let limits = Limits { ceiling_ns: 100_000, ..Limits::default() };
        let mut controller = Controller::new(Rule::Adaptive, limits);
        let mut now_ns = 0;
        let mut most = 0;
        for _ in 0..5000 {
            let count = controller.plan().count.min(32);
            most = most.max(count);
            // 20 us each: the speed is the same whatever the count.
            look(&mut controller, &mut now_ns, count, 32 - count, u64::from(count) * 20_000);
        }
        assert_eq!(most, 6, "a seventh would have the first wait for more than five times 20 us");
    }

    #[test]
    fn the_papers_rule_caps_once_where_it_was() {
        let mut controller = Controller::new(Rule::Paper, Limits::default());
        let mut now_ns = 0;
        let mut second = |controller: &mut Controller, looks: u64| {
            for _ in 0..looks {
                look(controller, &mut now_ns, 1, 1, PAPER_PERIOD_NS / looks);
            }
            controller.plan().gap_ns
        };
        assert_eq!(second(&mut controller, 4000), 0);
        assert_eq!(second(&mut controller, 5000), 0);
        second(&mut controller, 5000);
        let capped = (0..3).map(|_| second(&mut controller, 4000)).max().expect("three");
        assert!((190_000..=260_000).contains(&capped), "{capped}");
        assert_eq!(second(&mut controller, 1000), capped, "and never again");
    }
}
