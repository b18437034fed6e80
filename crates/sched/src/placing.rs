//! From what is known to a decision: what the scheduler and the simulator
//! share around the pure policies.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use strongroom_engine::Operation;

use crate::marks::Marks;
use crate::policy::{self, CpuView, Decision, EngineView, Placement, Reason, Request};
use crate::record::{Expectation, Record};
use crate::settings::{Objective, Policy, Settings};
use crate::standing::Standing;
use crate::trials::{Outlook, Trials, Turn, Way};

/// Most engines of one scheduler.
pub const ENGINES_MAX: usize = 8;

/// What has less than this share of the best engine's speed is slow.
const SLOW: f64 = 0.4;
/// How long all requests in flight may take where what has that share is
/// tried: the model may be wrong. Elsewhere more or less, by this power of the
/// share, for it is seldom wrong by much, but never less than the second.
const TRIES_NS: [f64; 2] = [40e6, 1e6];
const TRIES_POWER: f64 = 2.5;
/// A division helps nothing where the device's part takes so many times as long as
/// all of it on the CPU.
const IN_VAIN: f64 = 1.5;
/// Who waits for a CPU behind threads of this process for so many times as long as
/// for a device waits for long.
const LONG_WAIT: f64 = 2.0;

/// A tier of the CPU that takes so many times as long as another is not asked
/// where there are tiers alone: what it would tell is not worth what it takes.
const HOPELESS: f64 = 4.0;

/// What is known of engines for one session, and where its batches go.
pub struct Placer {
    records: Box<[Record]>,
    /// All engines are inline: the tiers of one CPU.
    tiers_alone: bool,
    trials: Trials,
    /// Decisions that stand for a while.
    pub standing: Standing,
    /// Of the settings under which the trials were made.
    version: AtomicU32,
    /// The last that were told.
    marks: AtomicU32,
}

/// What a decision is made from besides records, settings and request.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// What is known of the CPU.
    pub cpu: CpuView,
    /// Bit `n` says whether engine `n` can be used.
    pub usable: u32,
    /// Another one when the settings are others.
    pub version: u32,
    /// No engine is left out because it was busy just now.
    pub is_first: bool,
}

impl Placer {
    /// Of engines that say this of themselves, in their order.
    ///
    /// # Panics
    /// With more than [`ENGINES_MAX`] engines.
    #[must_use]
    pub fn new(engines: impl IntoIterator<Item = Expectation>) -> Placer {
        let engines: Vec<Expectation> = engines.into_iter().collect();
        assert!(engines.len() <= ENGINES_MAX, "a scheduler has at most {ENGINES_MAX} engines");
        let tiers_alone = engines.iter().all(|engine| engine.inline);
        let begin = if tiers_alone { Record::of_tier } else { Record::new };
        let records: Box<[Record]> = engines.into_iter().map(begin).collect();
        let devices = records.iter().enumerate().filter(|(_, record)| !record.is_inline()).map(|(at, _)| at);
        Placer {
            trials: Trials::new(devices),
            records,
            tiers_alone,
            standing: Standing::default(),
            version: AtomicU32::new(0),
            marks: AtomicU32::new(0),
        }
    }

    /// What is known of each engine.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// A batch comes, at these marks of time. What spans a pause tells nothing of
    /// the way of placing; and while few batches come, the time is looked at
    /// all the same.
    pub fn goes_on(&self, marks: Marks) {
        let before = Marks::from_bits(self.marks.load(Relaxed));
        if before != marks {
            self.marks.store(marks.bits(), Relaxed);
            match marks.is_other_side_of_pause(before) {
                true => self.trials.goes_on_after_pause(),
                false => self.trials.time_passes(),
            }
        }
    }

    /// Places a request. Keeps account of probes, and does as the trials say
    /// where the policy is to be fast. None when no engine is usable.
    #[must_use]
    pub fn decide(&self, settings: &Settings, request: &Request, now: &Circumstances) -> Option<Decision> {
        // Two views are filled in half of the time of eight.
        match self.records.len() {
            0..=2 => self.decide_among::<2>(settings, request, now),
            3..=4 => self.decide_among::<4>(settings, request, now),
            _ => self.decide_among::<ENGINES_MAX>(settings, request, now),
        }
    }

    fn decide_among<const N: usize>(
        &self,
        settings: &Settings,
        request: &Request,
        now: &Circumstances,
    ) -> Option<Decision> {
        let mut views = [EngineView::UNUSABLE; N];
        let views = &mut views[..self.records.len()];
        let way = self.way(settings, request, now);
        self.look(views, settings, request, now, way);
        if self.tiers_alone && settings.policy == Policy::Adaptive {
            leave_out_hopeless(views);
        }
        self.trials.sees_waiting(now.cpu.own * now.cpu.waiting);
        // What a device's queue has no room for goes where it goes with `fixed`.
        let stays = way == Way::Inline || matches!(way, Way::Device(_)) && !now.is_first;
        if stays && views.iter().any(|view| view.usable && view.inline) {
            views.iter_mut().for_each(|view| view.usable &= view.inline);
        }
        let decision = place(way, settings, request, views, &now.cpu)?;
        let stretch = now.cpu.stretch(request.computing);
        let decision = match self.is_in_vain(&decision, request, views, stretch) {
            true => place(way, settings, &Request { segments: 1, ..*request }, views, &now.cpu)?,
            false => decision,
        };
        let (Placement::Whole(chosen) | Placement::Split { inline: chosen, .. }) = decision.placement;
        let spent = views[chosen].finish_beside(stretch);
        // What does not place by the model does not tell whether that would divide.
        if way != Way::Model || matches!(decision.placement, Placement::Split { .. }) {
            self.trials.may_differ(Way::Whole);
        }
        // What it makes others wait for is lost as well.
        let extra = match decision.reason {
            Reason::Probe => policy::adaptive::extra_cost(chosen, settings, request, views, &now.cpu),
            _ => 0.0,
        };
        let batches = 1 + self.standing.take_stood();
        for (at, record) in self.records.iter().enumerate() {
            record.placed(batches, spent, if at == chosen { extra } else { 0.0 });
        }
        let may_stand = matches!(decision.placement, Placement::Whole(_)) && decision.reason != Reason::Probe;
        let is_settled = || self.records[chosen].is_settled(request.operation, request.bytes);
        if may_stand && now.is_first && views[chosen].inline && is_settled() {
            // Whatever the devices do: even if they had nothing else to do.
            views.iter_mut().for_each(EngineView::rests);
            if place(way, settings, request, views, &now.cpu) == Some(decision) {
                let of = (chosen, decision.reason);
                self.standing.stands(request.operation, request.bytes, request.in_flight, now.version, of);
            }
        }
        Some(decision)
    }

    /// Whether a division helps nothing after all: the device's part is of
    /// another size than the request, of which more may be known.
    fn is_in_vain(&self, decision: &Decision, request: &Request, views: &[EngineView], stretch: f64) -> bool {
        let Placement::Split { inline, device, device_segments } = decision.placement else { return false };
        let bytes = request.bytes / u64::from(request.segments) * u64::from(device_segments);
        let part = self.records[device].view(&Request { bytes, segments: 1, ..*request }, true);
        part.finish_ns() > IN_VAIN * views[inline].finish_beside(stretch)
    }

    /// What is known of each engine for a request. The CPU computes once more
    /// what a device has, when its turn has come to be checked. Who waits for a CPU
    /// behind threads of this process is in the price of CPU time, by the model; how
    /// long that is, where it is long, only a trial tells.
    fn look(
        &self,
        views: &mut [EngineView],
        settings: &Settings,
        request: &Request,
        now: &Circumstances,
        way: Way,
    ) {
        for (at, (view, record)) in views.iter_mut().zip(&self.records).enumerate() {
            *view = record.view(request, now.usable >> at & 1 == 1);
        }
        let checking = views.iter().find(|view| view.usable && view.inline);
        let check_ns = checking.map_or(0.0, |view| view.cpu_ns) / f64::from(1u32 << settings.check_exponent);
        for view in views.iter_mut().filter(|view| !view.inline) {
            view.cpu_ns += check_ns;
            let behind_own_ns = view.cpu_wait_ns * now.cpu.own;
            if view.usable && behind_own_ns > LONG_WAIT * view.finish_ns() {
                self.trials.may_differ(Way::Woken);
            }
            view.cpu_wait_ns -= if way == Way::Woken { 0.0 } else { behind_own_ns };
        }
    }

    /// The way of placing that the trials ask for.
    fn way(&self, settings: &Settings, request: &Request, now: &Circumstances) -> Way {
        let version = now.version;
        if settings.policy != Policy::Adaptive || settings.objective != Objective::Throughput {
            return Way::Model;
        }
        if self.version.load(Relaxed) != version {
            self.version.store(version, Relaxed);
            self.trials.start_over();
            self.standing.ends();
        }
        if let Some(asked) = self.trials.asked() {
            let outlook = self.outlook(asked, settings, request, now);
            self.trials.answer(outlook, request.in_flight.saturating_sub(1));
            self.standing.ends();
        }
        self.trials.way()
    }

    /// What the model says of a way for a batch as all are in the mean.
    fn outlook(&self, way: Way, settings: &Settings, request: &Request, now: &Circumstances) -> Outlook {
        let bytes = self.records[0].bytes_of(self.trials.batch_work_ns());
        let mean = Request { bytes: bytes.unwrap_or(request.bytes), ..*request };
        let mut views = [EngineView::UNUSABLE; ENGINES_MAX];
        self.look(&mut views, settings, &mean, now, way);
        outlook(way, &mean, &views, &now.cpu)
    }

    /// What a batch keeps that was placed just now, until it is done.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.trials.turn()
    }

    /// A batch was computed that was placed in this turn, and `in_flight` others
    /// are left. The time, in nanoseconds from any moment on, is asked for now and
    /// then.
    pub fn done(
        &self,
        (operation, bytes): (Operation, u64),
        turn: Turn,
        in_flight: u32,
        now: impl FnOnce() -> u64,
    ) {
        let is_read = matches!(operation, Operation::Open | Operation::DecryptSectors);
        if self.trials.done(is_read, self.records[0].work_ns(bytes), turn, in_flight, now) {
            self.standing.ends();
        }
    }
}

/// Leaves out what takes far longer than another, by what was measured or, where
/// nothing was, by what it says of itself.
fn leave_out_hopeless(views: &mut [EngineView]) {
    let least = least(views.iter().enumerate().filter(|(_, view)| view.usable), |view| view.service_ns);
    views.iter_mut().for_each(|view| view.usable &= view.service_ns <= HOPELESS * least);
}

fn place(
    way: Way,
    settings: &Settings,
    request: &Request,
    views: &[EngineView],
    cpu: &CpuView,
) -> Option<Decision> {
    match way {
        Way::Device(engine) if views.get(engine).is_some_and(|view| view.usable) => {
            Some(Decision { placement: Placement::Whole(engine), reason: Reason::Fastest })
        }
        Way::Inline => policy::place(settings, request, views, cpu).map(|decision| match decision.reason {
            Reason::Probe => decision,
            _ => Decision { reason: Reason::Fastest, ..decision },
        }),
        Way::Whole => policy::place(settings, &Request { segments: 1, ..*request }, views, cpu),
        _ => policy::place(settings, request, views, cpu),
    }
}

/// Requests that are there at once, and the CPUs that are theirs.
#[derive(Clone, Copy)]
struct Crowd {
    requests: f64,
    cpus: f64,
}

impl Crowd {
    fn of(request: &Request, cpu: &CpuView) -> Crowd {
        Crowd {
            requests: f64::from(request.in_flight.max(1)) + cpu.own * cpu.waiting,
            cpus: (cpu.cpus * cpu.own).max(0.1),
        }
    }

    /// How many of them an engine has room for.
    fn at_once(self, view: &EngineView) -> f64 {
        self.requests.min(f64::from(view.room))
    }

    /// Time of each, with as many at once on an engine as it has room for: what
    /// one takes alone, the CPUs, or the device is the limit.
    fn each_ns(self, view: &EngineView) -> f64 {
        let (alone, on_cpu, on_device) = match view.inline {
            true => (view.service_ns, view.service_ns, 0.0),
            false => (view.service_ns + view.cpu_ns, view.cpu_ns, view.service_ns / view.parallelism),
        };
        (alone / self.at_once(view)).max(on_cpu / self.cpus).max(on_device)
    }

    /// The same, where the CPU computes, at `inline_ns` each, what the engine
    /// has no room for.
    fn each_with_rest_ns(self, view: &EngineView, inline_ns: f64) -> f64 {
        let each_ns = self.each_ns(view);
        match self.at_once(view) < self.requests {
            true => 1.0 / (1.0 / each_ns + 1.0 / inline_ns),
            false => each_ns,
        }
    }

    /// Time of all, where the CPU computes, at `inline_ns` each, what the engine has
    /// no room for.
    fn all_ns(self, view: &EngineView, inline_ns: f64) -> f64 {
        let at_once = self.at_once(view);
        let here_ns = self.each_ns(view) * at_once;
        match at_once < self.requests {
            true => here_ns.max(inline_ns * (self.requests - at_once)),
            false => here_ns,
        }
    }
}

/// What the model says of the CPU or a device alone: whether it would be far
/// slower than another engine, and whether it would take long to find out.
fn outlook(way: Way, request: &Request, views: &[EngineView], cpu: &CpuView) -> Outlook {
    let device = match way {
        Way::Model | Way::Whole | Way::Woken => return Outlook::Open,
        Way::Inline => None,
        Way::Device(device) => Some(device),
    };
    let crowd = Crowd::of(request, cpu);
    let usable = || views.iter().enumerate().filter(|(_, view)| view.usable);
    let of_way = || usable().filter(|(at, view)| device.map_or(view.inline, |device| *at == device));
    if !of_way().any(|(_, view)| view.known) {
        // Its first batch is out; what it says of itself is not worth much.
        return Outlook::Hopeless;
    }
    let inline_ns = least(usable().filter(|(_, view)| view.inline), |view| crowd.each_ns(view));
    let each_ns = |view: &EngineView| crowd.each_with_rest_ns(view, inline_ns);
    let share = least(usable(), each_ns) / least(of_way(), each_ns);
    let all_ns = least(of_way(), |view| crowd.all_ns(view, inline_ns));
    let most_ns = TRIES_NS[0] * (share / SLOW).powf(TRIES_POWER);
    match all_ns > most_ns.max(TRIES_NS[1]) {
        true => Outlook::Hopeless,
        false if share < SLOW => Outlook::Slow,
        false => Outlook::Open,
    }
}

fn least<'a>(views: impl Iterator<Item = (usize, &'a EngineView)>, ns: impl Fn(&EngineView) -> f64) -> f64 {
    views.map(|(_, view)| ns(view)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measurement;

    const BYTES: u64 = 4096;
    /// Two tiers of the CPU and a device.
    const SERVICE_NS: [f64; 3] = [1300.0, 1000.0, 20_000.0];

    /// Places batches one after the other, and tells how many came to each engine.
    fn place_batches(batches: u32) -> [u32; 3] {
        let said = |inline| Expectation { inline, cpu_ns: 500.0, ..Expectation::of_nothing() };
        let placer = Placer::new([said(true), said(true), said(false)]);
        let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
        let request =
            Request { operation: Operation::Seal, bytes: BYTES, segments: 1, in_flight: 1, computing: 1 };
        let cpu = CpuView { cpus: 2.0, waiting: 0.0, idle: 0.5, own: 1.0 };
        let now = Circumstances { cpu, usable: 0b111, version: 0, is_first: true };
        let (mut clock, mut placed) = (0.0, [0; 3]);
        for batch in 0..batches {
            let Some(Decision { placement: Placement::Whole(engine), .. }) =
                placer.decide(&settings, &request, &now)
            else {
                panic!("a batch of one segment is placed whole");
            };
            placed[engine] += 1;
            let record = &placer.records()[engine];
            let flight = record.began(request.operation, BYTES);
            let service_ns = SERVICE_NS[engine];
            let cpu_ns = if engine < 2 { service_ns } else { 500.0 };
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns, cpu_ns });
            // Beside what the rest of a request takes, which is never the same
            // for long, a tier makes little difference.
            let rest_ns = 15_000.0 * (1.0 + 0.2 * f64::from(batch / 170 * 7919 % 13) / 13.0);
            clock += service_ns + rest_ns;
            placer.done((request.operation, BYTES), placer.turn(), 0, || clock as u64);
        }
        placed
    }

    /// What the batches of two tiers of the CPU take that say 15 and 4 GB/s of
    /// themselves and are so fast, and no more, from 4 KiB on.
    fn on_tier(tier: usize, bytes: u64) -> f64 {
        [900.0 + bytes as f64 / 15.0, 500.0 + bytes as f64 / 4.0][tier]
    }

    /// Places small batches, and then large ones of which the first on the
    /// faster tier takes `stretch` times as long; how many large ones went to
    /// the slower.
    fn large_on_slower(stretch: f64) -> u32 {
        let said = |rate: f64| Expectation {
            inline: true,
            fixed_ns: 300.0,
            per_byte_ns: 1.0 / rate,
            ..Expectation::of_nothing()
        };
        let placer = Placer::new([said(15.0), said(4.0)]);
        let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
        let cpu = CpuView { cpus: 2.0, waiting: 0.0, idle: 0.5, own: 1.0 };
        let now = Circumstances { cpu, usable: 0b11, version: 0, is_first: true };
        let (mut slower, mut is_stretched) = (0, false);
        for batch in 0..2000 {
            let bytes = if batch < 100 { 40 } else { 262_144 };
            let request =
                Request { operation: Operation::Open, bytes, segments: 1, in_flight: 1, computing: 1 };
            let decision = placer.decide(&settings, &request, &now).unwrap();
            let Placement::Whole(tier) = decision.placement else { panic!("a batch of one segment") };
            slower += u32::from(tier == 1 && batch >= 100);
            let record = &placer.records()[tier];
            if decision.reason != Reason::Probe && !record.wants_time(Operation::Open, bytes) {
                continue;
            }
            let is_first = tier == 0 && batch >= 100 && !std::mem::replace(&mut is_stretched, batch >= 100);
            let took = on_tier(tier, bytes) * if is_first { stretch } else { 1.0 };
            let flight = record.began(Operation::Open, bytes);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns: took, cpu_ns: took });
        }
        slower
    }

    #[test]
    fn an_interrupt_in_the_first_large_batch_does_not_make_a_tier_slow() {
        for stretch in [1.0, 3.0, 30.0, 300.0] {
            assert!(large_on_slower(stretch) < 30, "{stretch}: {}", large_on_slower(stretch));
        }
    }

    /// Places batches of 4 KiB on three tiers that say 15, 4 and 0.4 GB/s of
    /// themselves, where each takes what `takes` tells of it, which is told
    /// whether it had the batch before too; how many came to each.
    fn on_tiers_alone(takes: impl Fn(usize, bool) -> f64) -> [u32; 3] {
        let said = |rate: f64| Expectation {
            inline: true,
            fixed_ns: 300.0,
            per_byte_ns: 1.0 / rate,
            ..Expectation::of_nothing()
        };
        let placer = Placer::new([said(15.0), said(4.0), said(0.4)]);
        let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
        let cpu = CpuView { cpus: 2.0, waiting: 0.0, idle: 1.0, own: 1.0 };
        let now = Circumstances { cpu, usable: 0b111, version: 0, is_first: true };
        let request =
            Request { operation: Operation::Open, bytes: BYTES, segments: 1, in_flight: 1, computing: 1 };
        let (mut before, mut placed) = (usize::MAX, [0; 3]);
        for _ in 0..5000 {
            let decision = placer.decide(&settings, &request, &now).expect("three engines");
            let Placement::Whole(tier) = decision.placement else { panic!("a batch of one segment") };
            placed[tier] += 1;
            let record = &placer.records()[tier];
            if decision.reason == Reason::Probe || record.wants_time(request.operation, BYTES) {
                let took = takes(tier, before == tier);
                let flight = record.began(request.operation, BYTES);
                record.left(&flight);
                record.learn(&flight, Measurement { service_ns: took, cpu_ns: took });
            }
            before = tier;
        }
        placed
    }

    #[test]
    fn cold_caches_do_not_make_the_faster_tier_the_slower_one() {
        let takes = |tier, is_warm| [450.0, 1350.0, 9600.0][tier] + if is_warm { 0.0 } else { 10_000.0 };
        let placed = on_tiers_alone(takes);
        assert!(placed[0] > 4900 && placed[2] == 0, "{placed:?}");
    }

    #[test]
    fn a_tier_that_is_far_slower_than_it_says_is_left_for_one_that_says_less() {
        let placed = on_tiers_alone(|tier, _| [90_000.0, 60_000.0, 12_000.0][tier]);
        // What it says is believed for a thousand batches, and no longer.
        assert!(placed[2] > 3500, "{placed:?}");
    }

    /// A CPU, and a device that takes half of its time and whose answers wait so long
    /// for a CPU, of which this process has a share.
    fn beside_other_work(cpu_wait_ns: f64, own: f64) -> (Placer, Settings, Request, Circumstances) {
        let said = |inline| Expectation { inline, ..Expectation::of_nothing() };
        let placer = Placer::new([said(true), said(false)]);
        for (engine, service_ns, cpu_ns) in [(0, 100_000.0, 100_000.0), (1, 50_000.0, 500.0)] {
            for _ in 0..9 {
                let record = &placer.records()[engine];
                let flight = record.began(Operation::Seal, BYTES);
                record.left(&flight);
                record.learn(&flight, Measurement { service_ns, cpu_ns });
            }
        }
        (0..99).for_each(|_| placer.records()[1].woke(cpu_wait_ns));
        let cpu = CpuView { cpus: 1.0, waiting: 0.0, idle: 0.0, own };
        let now = Circumstances { cpu, usable: 0b11, version: 0, is_first: true };
        let request =
            Request { operation: Operation::Seal, bytes: BYTES, segments: 1, in_flight: 1, computing: 1 };
        let settings = Settings { policy: Policy::Adaptive, check_exponent: 10, ..Settings::default() };
        (placer, settings, request, now)
    }

    /// Where a batch goes there.
    fn goes_beside_other_work(way: Way, cpu_wait_ns: f64, own: f64) -> usize {
        let (placer, settings, request, now) = beside_other_work(cpu_wait_ns, own);
        let mut views = [EngineView::UNUSABLE; 2];
        placer.look(&mut views, &settings, &request, &now, way);
        match place(way, &settings, &request, &views, &now.cpu).expect("two engines").placement {
            Placement::Whole(engine) => engine,
            Placement::Split { .. } => panic!("a batch of one segment is placed whole"),
        }
    }

    #[test]
    fn an_answer_that_waits_for_a_cpu_behind_other_processes_costs_that() {
        assert_eq!(goes_beside_other_work(Way::Model, 0.0, 0.2), 1);
        assert_eq!(goes_beside_other_work(Way::Model, 200_000.0, 0.2), 0);
        // Behind threads of its own: their time is no loss, as a rule.
        assert_eq!(goes_beside_other_work(Way::Model, 200_000.0, 1.0), 1);
        assert_eq!(goes_beside_other_work(Way::Woken, 200_000.0, 1.0), 0);
    }

    #[test]
    fn what_waits_long_behind_threads_of_this_process_is_worth_a_trial() {
        for (cpu_wait_ns, is_tried) in [(90_000.0, false), (150_000.0, true)] {
            let (placer, settings, request, now) = beside_other_work(cpu_wait_ns, 1.0);
            // One after the other, with nothing in flight after each.
            let ways: Vec<Way> = (0..4000)
                .map(|batch: u64| {
                    let _ = placer.decide(&settings, &request, &now);
                    placer.records()[1].woke(cpu_wait_ns);
                    placer.done((request.operation, BYTES), placer.turn(), 0, || batch * 50_000);
                    placer.trials.way()
                })
                .collect();
            assert!(ways.contains(&Way::Device(1)), "others are tried in any case");
            assert_eq!(ways.contains(&Way::Woken), is_tried, "{cpu_wait_ns}");
        }
    }

    /// Of a device that has this share of the CPU's speed, with requests in
    /// flight that take the CPU so long together.
    fn outlook_of_device(share: f64, all_on_cpu_ns: f64) -> Outlook {
        let service_ns = all_on_cpu_ns / 4.0;
        let view = EngineView { usable: true, known: true, ..EngineView::UNUSABLE };
        let views = [
            EngineView { inline: true, service_ns, cpu_ns: service_ns, ..view },
            EngineView { service_ns: service_ns / share, ..view },
        ];
        let request =
            Request { operation: Operation::Seal, bytes: BYTES, segments: 1, in_flight: 4, computing: 1 };
        let cpu = CpuView { cpus: 1.0, waiting: 0.0, idle: 0.0, own: 1.0 };
        outlook(Way::Device(1), &request, &views, &cpu)
    }

    #[test]
    fn the_longer_a_trial_takes_the_better_the_model_has_to_think_of_it() {
        for (share, most_ns) in [(0.05, 1e6), (0.2, 7.07e6), (0.5, 69.9e6), (0.8, 226e6)] {
            let tried = outlook_of_device(share, 0.95 * most_ns * share);
            assert_eq!(tried, if share < SLOW { Outlook::Slow } else { Outlook::Open }, "{share}");
            assert_eq!(outlook_of_device(share, 1.05 * most_ns * share), Outlook::Hopeless, "{share}");
        }
    }

    #[test]
    fn a_device_with_little_room_is_tried_for_what_it_has_room_for() {
        let view = EngineView { usable: true, known: true, ..EngineView::UNUSABLE };
        let cpu = CpuView { cpus: 16.0, waiting: 0.0, idle: 0.0, own: 1.0 };
        let request =
            Request { operation: Operation::Seal, bytes: BYTES, segments: 1, in_flight: 32, computing: 1 };
        let outlook = |room| {
            let views = [
                EngineView { inline: true, service_ns: 1e5, cpu_ns: 1e5, ..view },
                EngineView { service_ns: 4e5, parallelism: 2.0, room, ..view },
            ];
            outlook(Way::Device(1), &request, &views, &cpu)
        };
        assert_eq!(outlook(u32::MAX), Outlook::Hopeless);
        assert_eq!(outlook(8), Outlook::Open);
    }

    #[test]
    fn a_trial_takes_as_long_as_the_cpu_computes_what_a_device_has_no_room_for() {
        let view = EngineView { usable: true, known: true, ..EngineView::UNUSABLE };
        let cpu = CpuView { cpus: 1.0, waiting: 0.0, idle: 0.0, own: 1.0 };
        let request =
            Request { operation: Operation::Seal, bytes: BYTES, segments: 1, in_flight: 32, computing: 1 };
        let outlook = |inline_ns| {
            let views = [
                EngineView { inline: true, service_ns: inline_ns, cpu_ns: inline_ns, ..view },
                EngineView { service_ns: 4e5, parallelism: 2.0, room: 8, ..view },
                EngineView { service_ns: 16e4, parallelism: 8.0, ..view },
            ];
            outlook(Way::Device(1), &request, &views, &cpu)
        };
        // 24 of them, beside 1.6 ms for the other eight.
        assert_eq!(outlook(2e5), Outlook::Slow);
        assert_eq!(outlook(1e6), Outlook::Hopeless);
    }

    #[test]
    fn a_batch_is_not_divided_where_the_part_is_known_to_be_slow() {
        let said = |inline| Expectation { inline, per_byte_ns: 1.0, ..Expectation::of_nothing() };
        let placer = Placer::new([said(true), said(false)]);
        let believe = |engine: usize, bytes, service_ns| {
            let measured = Measurement { service_ns, cpu_ns: if engine == 0 { service_ns } else { 5e3 } };
            placer.records()[engine].believe(Operation::Seal, bytes, measured);
        };
        for (bytes, on_cpu_ns) in [(1 << 18, 0.25e6), (1 << 19, 0.5e6), (1 << 20, 1e6)] {
            believe(0, bytes, on_cpu_ns);
            believe(1, bytes, 3.0 * on_cpu_ns);
        }
        let request =
            Request { operation: Operation::Seal, bytes: 1 << 20, segments: 256, in_flight: 1, computing: 1 };
        let settings = Settings { policy: Policy::Adaptive, check_exponent: 10, ..Settings::default() };
        let cpu = CpuView { cpus: 4.0, waiting: 0.0, idle: 0.9, own: 1.0 };
        let now = Circumstances { cpu, usable: 0b11, version: 0, is_first: true };
        let placed = || placer.decide(&settings, &request, &now).expect("two engines").placement;
        let Placement::Split { device_segments, .. } = placed() else { panic!("{:?}", placed()) };
        assert!((40..80).contains(&device_segments), "{device_segments}");
        believe(1, u64::from(device_segments) * 4096, 2e6);
        assert_eq!(placed(), Placement::Whole(0));
    }

    #[test]
    fn the_slower_tier_of_the_cpu_is_probed_but_never_tried() {
        let [slower, faster, device] = place_batches(400_000);
        assert!(slower < 400_000 / 64 && device < 400_000 / 64, "{slower} {faster} {device}");
    }
}
