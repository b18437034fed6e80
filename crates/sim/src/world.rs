//! The event loop: time, CPUs, devices, and when things happen to clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strongroom_engine::{Capability, Operation};
use strongroom_sched::Settings;
use strongroom_sched::cpu_load::{self, CpuLoad};
use strongroom_sched::placing::Placer;
use strongroom_sched::record::Expectation;

use crate::client::Client;
use crate::cpu::{Cpus, SLICE_NS, Task};
use crate::device::{DeviceAtWork, Job, varied};
use crate::host::{Cost, Host};
use crate::latency::Latencies;
use crate::random::Random;
use crate::replay::{Replayed, Turn};
use crate::report::{EngineReport, Interval, Rate, Report};
use crate::scope::Scope;
use crate::workload::{Pace, Phase, Workload};

/// Parts of a run in its report.
const INTERVALS: u64 = 100;

/// How a run is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What the scheduler is told. A device's results are checked as
    /// `check_exponent` says, and the CPU pays for it.
    pub settings: Settings,
    /// Length of the run.
    pub duration_ns: u64,
    /// Of service times, sizes and directions.
    pub seed: u64,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    SliceEnds { cpu: usize },
    Answers { device: usize, client: usize },
    Asks { client: usize },
    Waited { client: usize },
    BurstBegins { phase: usize },
    PhaseBegins { phase: usize },
    BackgroundBegins,
    BackgroundEnds,
    Samples { turn: u32 },
}

/// Whose a task is.
#[derive(Clone, Copy)]
enum Owner {
    Client(usize),
    Background,
    Interrupt,
}

pub(crate) struct World<'h> {
    pub(crate) host: &'h Host,
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) devices: Vec<DeviceAtWork<'h>>,
    pub(crate) placer: Placer,
    /// The settings of `aca` that place as this run does.
    pub(crate) scope: Scope,
    pub(crate) load: CpuLoad,
    pub(crate) in_flight: u32,
    /// Clients with a request that is not answered yet, on a CPU or waiting for one.
    pub(crate) asking: u32,
    /// Threads that compute a batch or hand one over.
    pub(crate) computing: u32,
    background_ns: u64,
    /// Results that devices gave, each of them.
    pub(crate) results: Vec<u64>,
    pub(crate) engines: Vec<EngineReport>,
    phases: &'h [Phase],
    phase: usize,
    /// In place of phases: what each client asks for.
    pub(crate) script: Option<&'h [Vec<Turn>]>,
    /// Clients that have more in the script.
    scripted: usize,
    /// Clients of the burst that are not answered yet.
    in_burst: u32,
    clients: Vec<Client>,
    cpus: Cpus,
    owners: Vec<Owner>,
    free_interrupts: Vec<Task>,
    background_works: bool,
    /// Which threads of it neither run nor are ready.
    background_sleeps: Vec<bool>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    duration_ns: u64,
    tally: Tally,
}

/// What is counted for the report.
#[derive(Default)]
struct Tally {
    requests: u64,
    latency_ns: u128,
    latencies: Latencies,
    whole: u64,
    steady: Rate,
    intervals: Vec<Interval>,
}

/// Simulates a host under a load.
///
/// # Panics
/// When the host has no inline engine or more than 8 engines, or the workload
/// no phases.
#[must_use]
pub fn run(host: &Host, workload: &Workload, options: &Options) -> Report {
    run_within(host, workload, options).0
}

/// Has clients ask for what a script says, until nothing is left.
pub(crate) fn run_script(host: &Host, script: &[Vec<Turn>], options: &Options) -> Replayed {
    let options = Options { duration_ns: u64::MAX, ..*options };
    let mut world = World::new(host, script.len(), &[], &options);
    world.script = Some(script);
    world.begin();
    while world.scripted > 0 {
        let Some(Reverse((at, _, event))) = world.events.pop() else { break };
        world.now = at;
        world.happens(event);
    }
    let Tally { requests, latency_ns, .. } = world.tally;
    Replayed {
        duration_ns: world.now,
        cpu_ns: world.cpus.busy_ns() - world.background_ns,
        requests,
        latency_ns_mean: (latency_ns / u128::from(requests.max(1))) as u64,
        engines: world.engines,
    }
}

/// The same; and the settings of `aca` under which it would be the same run.
pub(crate) fn run_within(host: &Host, workload: &Workload, options: &Options) -> (Report, Scope) {
    let clients = workload.phases.iter().map(|phase| phase.clients).max().expect("a phase") as usize;
    let mut world = World::new(host, clients, &workload.phases, options);
    world.begin();
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        if at >= world.duration_ns {
            break;
        }
        world.now = at;
        world.happens(event);
    }
    let scope = world.scope;
    (world.report(), scope)
}

/// What an engine of a host would say of itself.
fn capability(inline: bool, cost: &Cost, queue_max: usize) -> Capability {
    let (small, large) = (512, 1 << 20);
    let per_byte = ((cost.ns(large) - cost.ns(small)) / (large - small) as f64).max(1e-3);
    Capability {
        inline,
        batch_bytes_max: usize::MAX,
        segments_max: usize::MAX,
        queue_max,
        alignment: 1,
        // CPU engines say the same on every machine.
        latency_ns: if inline { 1000 } else { cost.ns(small) as u64 },
        bytes_per_second: (1e9 / if inline { 1.0 } else { per_byte }) as u64,
        takes_masks: false,
    }
}

impl<'h> World<'h> {
    fn new(host: &'h Host, clients: usize, phases: &'h [Phase], options: &Options) -> World<'h> {
        assert!(!host.inline.is_empty(), "a host has an inline engine");
        let background = host.background.threads as usize;
        let owners = (0..clients).map(Owner::Client).chain((0..background).map(|_| Owner::Background));
        let inline = host.inline.iter().map(|engine| capability(true, &engine.write, usize::MAX));
        let devices =
            host.devices.iter().map(|device| capability(false, &device.write, device.queue_max as usize));
        let engine = |name: &str| EngineReport { engine: name.to_owned(), ..EngineReport::default() };
        let interval = Interval { bytes: vec![0; host.engines().count()], busy_ns: 0 };
        World {
            host,
            settings: options.settings,
            now: 0,
            random: Random::new(options.seed),
            devices: host.devices.iter().map(DeviceAtWork::new).collect(),
            placer: Placer::new(inline.chain(devices).map(|said| Expectation::of(&said))),
            scope: Scope::ALL,
            load: CpuLoad::new(host.cpus),
            in_flight: 0,
            asking: 0,
            computing: 0,
            background_ns: 0,
            results: vec![0; host.devices.len()],
            engines: host.engines().map(engine).collect(),
            phases,
            phase: 0,
            script: None,
            scripted: 0,
            in_burst: 0,
            clients: (0..clients).map(|_| Client::default()).collect(),
            cpus: Cpus::new(host.cpus, clients + background),
            owners: owners.collect(),
            free_interrupts: Vec::new(),
            background_works: false,
            background_sleeps: vec![true; background],
            events: BinaryHeap::new(),
            sequence: 0,
            duration_ns: options.duration_ns,
            tally: Tally { intervals: vec![interval; INTERVALS as usize], ..Tally::default() },
        }
    }

    fn begin(&mut self) {
        for phase in 0..self.phases.len() {
            let from = u128::from(self.phases[phase].from_permille) * u128::from(self.duration_ns) / 1000;
            self.schedule(from as u64, Event::PhaseBegins { phase });
        }
        for (client, turns) in self.script.unwrap_or_default().iter().enumerate() {
            if let Some(first) = turns.first() {
                self.scripted += 1;
                self.schedule(first.think_wait_ns, Event::Asks { client });
            }
        }
        self.schedule(0, Event::Samples { turn: 0 });
        if self.host.background.threads > 0 {
            self.schedule(0, Event::BackgroundBegins);
        }
    }

    /// A client has to be told when so much time has passed.
    pub(crate) fn waits(&mut self, client: usize, wait_ns: u64) {
        self.schedule(self.now + wait_ns, Event::Waited { client });
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    pub(crate) fn phase(&self) -> &'h Phase {
        &self.phases[self.phase]
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::SliceEnds { cpu } => self.slice_ends(cpu),
            Event::Answers { device, client } => self.answers(device, client),
            Event::Asks { client } => {
                self.asks(client);
            }
            Event::Waited { client } => self.waited(client),
            Event::BurstBegins { phase } if phase == self.phase => self.burst_begins(),
            Event::BurstBegins { .. } => {}
            Event::PhaseBegins { phase } => self.phase_begins(phase),
            Event::BackgroundBegins => self.background(true),
            Event::BackgroundEnds => self.background(false),
            Event::Samples { turn } => self.samples(turn),
        }
    }

    /// As the scheduler samples its machine.
    fn samples(&mut self, turn: u32) {
        self.load.sample_waiting(self.cpus.runnable() as u32);
        if turn.is_multiple_of(cpu_load::SHARES_EVERY) {
            let all = self.now * u64::from(self.host.cpus);
            let idle = all.saturating_sub(self.cpus.busy_ns());
            self.load.sample_shares(all, idle, self.cpus.busy_ns() - self.background_ns);
        }
        self.schedule(self.now + cpu_load::PERIOD.as_nanos() as u64, Event::Samples { turn: turn + 1 });
    }

    fn phase_begins(&mut self, phase: usize) {
        self.phase = phase;
        self.in_burst = 0;
        if let Pace::Bursts(_) = self.phase().pace {
            self.burst_begins();
        } else {
            for client in 0..self.phase().clients as usize {
                self.asks(client);
            }
        }
    }

    fn burst_begins(&mut self) {
        for client in 0..self.phase().clients as usize {
            if self.asks(client) {
                self.in_burst += 1;
            }
        }
    }

    /// A client asks, unless it waits for an answer already.
    fn asks(&mut self, client: usize) -> bool {
        let is_wanted = self.script.is_some() || client < self.phase().clients as usize;
        let may = self.clients[client].is_parked() && is_wanted;
        if may {
            self.clients[client].ask(self.now);
            self.asking += 1;
            self.wake(client);
        }
        may
    }

    fn waited(&mut self, client: usize) {
        let mut state = std::mem::take(&mut self.clients[client]);
        let goes_on = state.waited(client, self);
        self.clients[client] = state;
        if goes_on {
            self.wake(client);
        }
    }

    fn background(&mut self, works: bool) {
        let background = self.host.background;
        self.background_works = works;
        if works {
            for thread in 0..background.threads as usize {
                // One that still waits for a CPU from before has its place.
                if std::mem::take(&mut self.background_sleeps[thread]) {
                    self.wake(self.clients.len() + thread);
                }
            }
        }
        if background.period_ns > 0 {
            let on = background.on_ns.min(background.period_ns);
            let (after, next) = match works {
                true => (on, Event::BackgroundEnds),
                false => (background.period_ns - on, Event::BackgroundBegins),
            };
            self.schedule(self.now + after.max(1), next);
        }
    }

    /// Whether a thread of other work wants more; if not, it sleeps.
    fn background_goes_on(&mut self, task: Task) -> bool {
        self.background_sleeps[task - self.clients.len()] = !self.background_works;
        self.background_works
    }

    /// Clients are the first tasks.
    pub(crate) fn wake(&mut self, task: Task) {
        if let Some(cpu) = self.cpus.wake(task) {
            self.fill(cpu);
        }
    }

    fn slice_ends(&mut self, cpu: usize) {
        let (task, ran) = self.cpus.ran(cpu);
        if let Owner::Background = self.owners[task] {
            self.background_ns += ran;
        }
        let goes_on = self.cpus.wants(task) > 0 || self.burst_over(task);
        if goes_on && !self.cpus.stays(task) {
            self.cpus.requeue(task);
        } else if goes_on && (self.cpus.wants(task) > 0 || self.advance(task)) {
            self.runs(cpu, task);
            return;
        }
        self.fill(cpu);
    }

    /// A task has had what it wanted; whether it wants more at once.
    fn burst_over(&mut self, task: Task) -> bool {
        match self.owners[task] {
            Owner::Client(client) => {
                let mut state = std::mem::take(&mut self.clients[client]);
                let goes_on = state.burst_over(client, self);
                self.clients[client] = state;
                goes_on
            }
            Owner::Background => self.background_goes_on(task),
            Owner::Interrupt => {
                self.free_interrupts.push(task);
                false
            }
        }
    }

    /// Gives a CPU its next task, if there is one.
    fn fill(&mut self, cpu: usize) {
        while let Some(task) = self.cpus.next(cpu) {
            if self.cpus.wants(task) > 0 || self.advance(task) {
                self.runs(cpu, task);
                return;
            }
        }
    }

    fn runs(&mut self, cpu: usize, task: Task) {
        let slice = self.cpus.run(cpu, task);
        self.schedule(self.now + slice, Event::SliceEnds { cpu });
    }

    /// Asks a task what CPU time it wants next; false when it wants none now.
    fn advance(&mut self, task: Task) -> bool {
        let wants = match self.owners[task] {
            Owner::Client(client) => {
                let mut state = std::mem::take(&mut self.clients[client]);
                let wants = state.advance(client, self);
                self.clients[client] = state;
                wants
            }
            Owner::Background => self.background_goes_on(task).then_some(SLICE_NS),
            Owner::Interrupt => None,
        };
        self.cpus.set_wants(task, wants.unwrap_or(0));
        wants.is_some()
    }

    /// A time of a host's table, as it falls out this time.
    pub(crate) fn drawn(&mut self, ns: f64) -> u64 {
        varied(ns, self.host.jitter, &mut self.random)
    }

    /// Hands a batch to a device that has room for it.
    pub(crate) fn hand_over(&mut self, device: usize, client: usize, is_write: bool, bytes: u64) {
        let job = Job { client, is_write, bytes };
        let (now, jitter) = (self.now, self.host.jitter);
        if let Some(service) = self.devices[device].arrives(job, now, jitter, &mut self.random) {
            self.schedule(now + service, Event::Answers { device, client });
        }
    }

    fn answers(&mut self, device: usize, client: usize) {
        let (now, jitter) = (self.now, self.host.jitter);
        if let Some((job, service)) = self.devices[device].done(now, jitter, &mut self.random) {
            self.schedule(now + service, Event::Answers { device, client: job.client });
        }
        let interrupt = self.host.devices[device].interrupt.ns(self.clients[client].bytes_on_device());
        if interrupt >= 1.0 {
            let task = self.free_interrupts.pop().unwrap_or_else(|| {
                self.owners.push(Owner::Interrupt);
                self.cpus.add_task()
            });
            if let Some(cpu) = self.cpus.interrupt(task, interrupt as u64) {
                self.fill(cpu);
            }
        }
        let record = &self.placer.records()[self.host.inline.len() + device];
        if self.clients[client].answered(now, record) {
            self.wake(client);
        }
    }

    /// Counts bytes that an engine finished.
    pub(crate) fn finished(&mut self, engine: usize, bytes: u64) {
        self.tally.whole += bytes;
        if self.now >= self.duration_ns / 4 * 3 {
            self.tally.steady.add(self.now, bytes);
        }
        let at = u128::from(self.now) * u128::from(INTERVALS) / u128::from(self.duration_ns);
        let busy = self.cpus.busy_ns();
        let interval = &mut self.tally.intervals[at as usize];
        interval.bytes[engine] += bytes;
        interval.busy_ns = busy;
    }

    /// Counts a request, and says whether its client goes on at once.
    pub(crate) fn request_done(&mut self, client: usize, began: u64, turn: u64) -> bool {
        let took = self.now - began;
        self.tally.requests += 1;
        self.tally.latency_ns += u128::from(took);
        self.tally.latencies.add(took);
        if let Some(script) = self.script {
            let Some(next) = script[client].get(turn as usize) else {
                self.scripted -= 1;
                return false;
            };
            if next.think_wait_ns > 0 {
                self.schedule(self.now + next.think_wait_ns, Event::Asks { client });
            }
            return next.think_wait_ns == 0;
        }
        let is_wanted = client < self.phase().clients as usize;
        match self.phase().pace {
            Pace::Steady => is_wanted,
            Pace::Pauses(pause) => {
                let pause = self.drawn(pause as f64);
                self.schedule(self.now + pause, Event::Asks { client });
                false
            }
            Pace::Bursts(gap) => {
                self.in_burst = self.in_burst.saturating_sub(1);
                if self.in_burst == 0 {
                    self.schedule(self.now + gap, Event::BurstBegins { phase: self.phase });
                }
                false
            }
        }
    }

    fn report(mut self) -> Report {
        // From times until then to times in each.
        let mut before = 0;
        for interval in &mut self.tally.intervals {
            let until = interval.busy_ns.max(before);
            interval.busy_ns = until - before;
            before = until;
        }
        let tally = &self.tally;
        let all = self.duration_ns as f64 * f64::from(self.host.cpus);
        Report {
            duration_ns: self.duration_ns,
            bytes_per_second: tally.whole as f64 * 1e9 / self.duration_ns as f64,
            steady_bytes_per_second: tally.steady.bytes_per_second(),
            requests: tally.requests,
            latency_ns_mean: (tally.latency_ns / u128::from(tally.requests.max(1))) as u64,
            latency_ns_p50: tally.latencies.permille(500),
            latency_ns_p99: tally.latencies.permille(990),
            latency_ns_p999: tally.latencies.permille(999),
            cpu_idle: 1.0 - (self.cpus.busy_ns() as f64 / all).min(1.0),
            engines: self.engines,
            intervals: self.tally.intervals,
        }
    }
}

/// The operation that stands for writes or reads.
pub(crate) fn operation(is_write: bool) -> Operation {
    if is_write { Operation::Seal } else { Operation::Open }
}
