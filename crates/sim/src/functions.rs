//! Virtual functions of one device, each with a CPU of its own, under the
//! controller of completions that engines have
//! ([`strongroom_engine::completion`]), in virtual time.
//!
//! A task prepares requests on the CPU of its function, the device serves each on
//! a unit that all functions share, and an interrupt has the CPU take what was
//! completed; the task begins again. What it leaves out: other work of the CPUs,
//! the link, and what interrupts of one function cost another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use strongroom_engine::completion::{Controller, Look};
pub use strongroom_engine::completion::{Limits, Plan, Rule};

use crate::random::Random;

/// CPU time of a look while it polls, in nanoseconds.
const POLL_NS: u64 = 300;

/// Functions, their device, and what each asks of it. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Functions {
    /// How many.
    pub functions: usize,
    /// Tasks of each.
    pub tasks: u32,
    /// Requests that a task has under way; when one is answered it asks another.
    pub depth: u32,
    /// CPU time to go on with another task than the one before.
    pub switch_ns: u64,
    /// Bytes that the device holds of a function, at most, but for a request that
    /// is alone.
    pub held_bytes_max: u64,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests that the device serves at once.
    pub units: u32,
    /// A unit's time for each request, and for each KiB.
    pub service_ns: (u64, u64),
    /// CPU time to prepare a request, and for each KiB.
    pub submit_ns: (u64, u64),
    /// CPU time of an interrupt, and of each completion that it finds.
    pub interrupt_ns: (u64, u64),
    /// Share by which service times differ, up and down.
    pub jitter: f64,
}

impl Functions {
    /// Like the virtual functions of a PCI card in virtual machines of one CPU
    /// each: 4 units of 1 GB/s, 12 us for an interrupt.
    #[must_use]
    pub fn card(functions: usize, tasks: u32, bytes: u64) -> Functions {
        Functions {
            functions,
            tasks,
            depth: 1,
            switch_ns: 0,
            held_bytes_max: u64::MAX,
            bytes,
            units: 4,
            service_ns: (8_000, 1_000),
            submit_ns: (2_000, 100),
            interrupt_ns: (12_000, 500),
            jitter: 0.1,
        }
    }
}

/// What a run gave, after its first quarter, in which a rule may learn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Requests in a second, of all functions.
    pub per_second: f64,
    /// Interrupts in a second, of all functions.
    pub interrupts_per_second: f64,
    /// CPU time of a request, in nanoseconds.
    pub cpu_ns: f64,
    /// From the request to when its task knows of its end, in nanoseconds.
    pub latency_ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The CPU of a function has done what it did.
    CpuDone { function: usize },
    /// A unit has served a request.
    Served { function: usize },
    /// A function looks though too few completions have come.
    Timer { function: usize, round: u64 },
}

/// What a CPU does.
#[derive(Clone, Copy, Debug)]
enum Work {
    Submit {
        request: Request,
    },
    /// Looks, with so many completions to be taken.
    Take {
        completed: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Request {
    task: u32,
    /// When the task had it to prepare.
    began_ns: u64,
}

struct Function {
    controller: Controller,
    plan: Plan,
    cpu: Option<Work>,
    /// The task that the CPU worked for last.
    task: u32,
    /// What is to be prepared.
    ready: VecDeque<Request>,
    /// What the device has, in its order.
    out: VecDeque<Request>,
    busy_since_ns: u64,
    /// Completed, and not taken.
    pending: u32,
    /// Whether a look is due as soon as the CPU is free.
    is_due: bool,
    last_ns: u64,
    /// Counts looks, so that timers of earlier ones are known.
    round: u64,
    awaited: u32,
}

struct World<'a> {
    model: &'a Functions,
    now: u64,
    functions: Vec<Function>,
    /// Requests before the units, by their functions.
    queue: VecDeque<usize>,
    serving: u32,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    random: Random,
    counts_from: u64,
    done: u64,
    interrupts: u64,
    cpu_ns: u64,
    latency_ns: u64,
}

/// Runs functions for so long under a rule.
#[must_use]
pub fn run(model: &Functions, rule: Rule, limits: Limits, duration_ns: u64, seed: u64) -> Served {
    let requests = (0..model.depth).flat_map(|_| (0..model.tasks).map(|task| Request { task, began_ns: 0 }));
    let requests: VecDeque<Request> = requests.collect();
    let function = || Function {
        controller: Controller::new(rule, limits),
        plan: Controller::new(rule, limits).plan(),
        cpu: None,
        task: 0,
        ready: requests.clone(),
        out: VecDeque::new(),
        busy_since_ns: 0,
        pending: 0,
        is_due: false,
        last_ns: 0,
        round: 0,
        awaited: 1,
    };
    let mut world = World {
        model,
        now: 0,
        functions: (0..model.functions).map(|_| function()).collect(),
        queue: VecDeque::new(),
        serving: 0,
        events: BinaryHeap::new(),
        sequence: 0,
        random: Random::new(seed),
        counts_from: duration_ns / 4,
        done: 0,
        interrupts: 0,
        cpu_ns: 0,
        latency_ns: 0,
    };
    for function in 0..model.functions {
        world.cpu_next(function);
    }
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        if at >= duration_ns {
            break;
        }
        world.now = at;
        match event {
            Event::CpuDone { function } => world.cpu_done(function),
            Event::Served { function } => world.served(function),
            Event::Timer { function, round } => {
                let due = &mut world.functions[function];
                if due.round == round {
                    due.is_due = true;
                    world.cpu_next(function);
                }
            }
        }
    }
    let seconds = (duration_ns - world.counts_from) as f64 / 1e9;
    let each = |sum: u64| sum as f64 / world.done.max(1) as f64;
    Served {
        per_second: world.done as f64 / seconds,
        interrupts_per_second: world.interrupts as f64 / seconds,
        cpu_ns: each(world.cpu_ns),
        latency_ns: each(world.latency_ns),
    }
}

impl World<'_> {
    fn schedule(&mut self, after: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + after, self.sequence, event)));
    }

    fn kib(&self, (fixed, per_kib): (u64, u64)) -> u64 {
        fixed + per_kib * self.model.bytes / 1024
    }

    /// Requests of a function that the device holds at once.
    fn held_max(&self) -> usize {
        usize::try_from(self.model.held_bytes_max / self.model.bytes).unwrap_or(usize::MAX).max(1)
    }

    /// Gives a free CPU what comes next: a look that is due, else a request.
    fn cpu_next(&mut self, at: usize) {
        let submit = self.kib(self.model.submit_ns);
        let interrupt = self.model.interrupt_ns;
        let counts = self.now >= self.counts_from;
        let held_max = self.held_max();
        let function = &mut self.functions[at];
        if function.cpu.is_some() {
            return;
        }
        let ns = if function.is_due {
            function.is_due = false;
            (function.last_ns, function.round) = (self.now, function.round + 1);
            let completed = std::mem::take(&mut function.pending);
            function.cpu = Some(Work::Take { completed });
            self.interrupts += u64::from(counts && !function.plan.polls);
            let wake = if function.plan.polls { POLL_NS } else { interrupt.0 };
            wake + interrupt.1 * u64::from(completed)
        } else if function.out.len() < held_max
            && let Some(request) = function.ready.pop_front()
        {
            function.cpu = Some(Work::Submit { request });
            let is_another = std::mem::replace(&mut function.task, request.task) != request.task;
            submit + if is_another { self.model.switch_ns } else { 0 }
        } else {
            return;
        };
        if counts {
            self.cpu_ns += ns;
        }
        self.schedule(ns, Event::CpuDone { function: at });
    }

    fn cpu_done(&mut self, at: usize) {
        let now = self.now;
        let function = &mut self.functions[at];
        match function.cpu.take() {
            Some(Work::Submit { request }) => {
                if function.out.is_empty() {
                    function.busy_since_ns = now;
                }
                function.out.push_back(request);
                self.queue.push_back(at);
                self.serve();
            }
            Some(Work::Take { completed }) => self.taken(at, completed),
            None => {}
        }
        self.cpu_next(at);
    }

    /// The device begins with what waits, while units are free.
    fn serve(&mut self) {
        while self.serving < self.model.units {
            let Some(function) = self.queue.pop_front() else { return };
            self.serving += 1;
            let spread = 1.0 + self.model.jitter * (2.0 * self.random.unit() - 1.0);
            let ns = self.kib(self.model.service_ns) as f64 * spread;
            self.schedule(ns as u64, Event::Served { function });
        }
    }

    fn served(&mut self, at: usize) {
        self.serving -= 1;
        self.serve();
        let now = self.now;
        let function = &mut self.functions[at];
        function.pending += 1;
        let is_early = now < function.last_ns + function.plan.gap_ns;
        let wants = function.plan.polls || function.pending >= function.awaited;
        if wants && !is_early {
            function.is_due = true;
            self.cpu_next(at);
        } else if wants {
            // The cap of the rate lets it come later.
            let (after, round) = (function.last_ns + function.plan.gap_ns - now, function.round);
            self.schedule(after, Event::Timer { function: at, round });
        }
    }

    /// The CPU has taken completions; their tasks begin again.
    fn taken(&mut self, at: usize, completed: u32) {
        let (now, counts) = (self.now, self.now >= self.counts_from);
        let (bytes, held_max) = (self.model.bytes, self.held_max());
        let function = &mut self.functions[at];
        for _ in 0..completed {
            let request = function.out.pop_front().expect("it was out");
            function.ready.push_back(Request { began_ns: now, ..request });
            if counts {
                self.done += 1;
                self.latency_ns += now - request.began_ns;
            }
        }
        function.controller.looked(&Look {
            now_ns: now,
            busy_since_ns: function.busy_since_ns,
            completed,
            bytes: bytes * u64::from(completed),
            in_flight: function.out.len() as u32,
        });
        function.plan = function.controller.plan();
        // Those that have no request out yet will have one soon.
        let out = (function.out.len() + function.ready.len()).min(held_max);
        function.awaited = function.plan.count.min(out as u32).max(1);
        let (round, wait_ns, gap_ns) = (function.round, function.plan.wait_ns, function.plan.gap_ns);
        if function.pending >= function.awaited && function.plan.gap_ns == 0 {
            function.is_due = true;
        } else if !function.out.is_empty() {
            self.schedule(wait_ns.max(gap_ns), Event::Timer { function: at, round });
        }
    }
}

/// The best of fixed plans, by requests in a second: caps of the rate of
/// interrupts, counts, and looking all the time, of which none has a completion
/// or a CPU wait longer than the limits. With it, what it gave.
#[must_use]
pub fn best_fixed(model: &Functions, limits: Limits, duration_ns: u64, seed: u64) -> (Plan, Served) {
    let ceiling_ns = limits.ceiling_ns;
    let steps = std::iter::successors(Some(2_000.0), |gap: &f64| Some(gap * 1.5));
    let gaps = steps.map(|gap| gap as u64).take_while(|gap| *gap < ceiling_ns).chain([ceiling_ns]);
    let caps = gaps.map(|gap_ns| Plan { gap_ns, ..Plan::EACH });
    let counts = (0..7).map(|rung| Plan { count: 1 << rung, wait_ns: ceiling_ns, ..Plan::EACH });
    let polling = Plan { polls: true, ..Plan::EACH };
    let run_with = |plan| (plan, run(model, Rule::Fixed(plan), limits, duration_ns, seed));
    caps.chain(counts)
        .chain([polling])
        .map(run_with)
        // No CPU looks longer for a completion than it may.
        .filter(|(plan, served)| {
            let each_ns = model.functions as f64 / served.per_second * 1e9;
            !plan.polls || each_ns <= limits.spin_ns as f64
        })
        .max_by(|one, other| one.1.per_second.total_cmp(&other.1.per_second))
        .expect("there are plans")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::geometric_mean;

    const SECOND: u64 = 1_000_000_000;

    fn of(model: &Functions, rule: Rule) -> Served {
        run(model, rule, Limits::default(), SECOND, 1)
    }

    #[test]
    fn a_task_alone_takes_the_sum_of_its_steps() {
        let model = Functions { jitter: 0.0, ..Functions::card(1, 1, 4096) };
        let served = of(&model, Rule::Fixed(Plan::EACH));
        // Preparation, service, interrupt and its completion.
        let expected = (2_000 + 400) + (8_000 + 4_000) + 12_000 + 500;
        assert!((served.latency_ns - expected as f64).abs() < 10.0, "{served:?}");
        assert!((served.per_second * served.latency_ns / 1e9 - 1.0).abs() < 0.01, "{served:?}");
        assert!((served.cpu_ns - (2_400 + 12_500) as f64).abs() < 20.0, "{served:?}");
    }

    #[test]
    fn a_cap_holds_the_rate_of_interrupts_and_a_count_divides_it() {
        let model = Functions::card(1, 32, 4096);
        let capped = of(&model, Rule::Fixed(Plan { gap_ns: 100_000, ..Plan::EACH }));
        assert!(capped.interrupts_per_second <= 10_000.0, "{capped:?}");
        let each = of(&model, Rule::Fixed(Plan::EACH));
        let eight = of(&model, Rule::Fixed(Plan { count: 8, ..Plan::EACH }));
        assert!(eight.interrupts_per_second * 1.5 < each.interrupts_per_second, "{each:?} {eight:?}");
        assert!(eight.per_second > each.per_second, "a CPU that interrupts keep busy: {each:?} {eight:?}");
    }

    #[test]
    fn adaptive_reaches_the_best_fixed_plan_within_its_ceiling() {
        let (mut ratios, mut of_each, mut interrupts) = (Vec::new(), Vec::new(), Vec::new());
        for functions in [1, 2, 4, 8, 16] {
            for tasks in [1, 4, 16, 64] {
                for bytes in [4096, 16_384, 65_536] {
                    let model = Functions::card(functions, tasks, bytes);
                    let (plan, best) = best_fixed(&model, Limits::default(), SECOND / 8, 1);
                    let each = run(&model, Rule::Fixed(Plan::EACH), Limits::default(), SECOND / 8, 1);
                    let ours = run(&model, Rule::Adaptive, Limits::default(), SECOND / 2, 1);
                    let ratio = ours.per_second / best.per_second;
                    println!("{functions} {tasks} {bytes}: {ratio:.3} {plan:?} {best:.0?} {ours:.0?}");
                    ratios.push(ratio);
                    of_each.push(each.per_second / best.per_second);
                    interrupts.push((ours.interrupts_per_second + 1.0) / (each.interrupts_per_second + 1.0));
                }
            }
        }
        let mean = |values: &[f64]| geometric_mean(values.iter().copied());
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let (ours, each, fewer) = (mean(&ratios), mean(&of_each), mean(&interrupts));
        println!("ours {ours:.3} (least {least:.3}), an interrupt for each {each:.3}, interrupts {fewer:.2}");
        assert!(ours >= 0.97 && least >= 0.9, "mean {ours:.3}, least {least:.3}");
        assert!(ours > each && fewer < 0.5, "an interrupt for each {each:.3}, interrupts {fewer:.2}");
    }

    /// A rate of interrupts that suits one load, and another load after it.
    #[test]
    fn what_was_learned_of_one_load_is_left_for_another() {
        let busy = of(&Functions::card(1, 64, 65_536), Rule::Adaptive);
        assert!(busy.interrupts_per_second * 4.0 < busy.per_second, "{busy:?}");
        let alone = of(&Functions::card(1, 1, 65_536), Rule::Adaptive);
        let each = of(&Functions::card(1, 1, 65_536), Rule::Fixed(Plan::EACH));
        assert!(alone.latency_ns < each.latency_ns * 1.03, "{alone:?} {each:?}");
    }
}
