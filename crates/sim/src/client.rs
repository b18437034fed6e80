//! A client: one request at a time, batch by batch, as a thread of a mount
//! takes it through the scheduler.

use strongroom_sched::placing::Moment;
use strongroom_sched::policy::{Placement, Reason, Request};
use strongroom_sched::record::{Flight, Measurement, Record};

use crate::replay::Turn;
use crate::world::{World, operation};

/// Batches are divided between segments of so many bytes: blocks of a vault.
const SEGMENT_BYTES: u64 = 4096;

/// What a client does when it next has a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Step {
    /// Nothing, before it asks.
    #[default]
    Parked,
    Begin,
    Place,
    Computed,
    Submitted,
    Head,
    HeadComputed,
    Answered,
    Concluded,
    /// Everything is computed, and something else is waited for.
    Waits,
}

/// A batch, or the part of it, that a device has.
#[derive(Clone, Copy, Debug, Default)]
struct OnDevice {
    device: usize,
    bytes: u64,
    flight: Option<Flight>,
    submit_ns: u64,
    submitted: u64,
    answered: Option<u64>,
    /// The thread slept when it answered.
    was_awaited: bool,
    /// The thread sleeps until the answer.
    is_awaited: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    step: Step,
    /// Requests so far.
    turn: u64,
    began: u64,
    is_write: bool,
    /// Bytes of the request, and those that are not placed yet.
    bytes: u64,
    rest: u64,
    /// Most bytes of a batch, and what is waited for after the last one, where a
    /// script says it.
    batch_bytes: Option<u64>,
    wait_ns: u64,
    /// Bytes of the batch that the CPU computes, where, and why.
    head: u64,
    inline: usize,
    /// The CPU time that it takes, if it is timed.
    timed: Option<(Flight, u64)>,
    on_device: OnDevice,
}

impl Client {
    pub(crate) fn is_parked(&self) -> bool {
        self.step == Step::Parked
    }

    pub(crate) fn ask(&mut self, now: u64) {
        *self = Client { step: Step::Begin, turn: self.turn, began: now, ..Client::default() };
    }

    pub(crate) fn bytes_on_device(&self) -> u64 {
        self.on_device.bytes
    }

    /// The device has answered; whether the thread has to be woken.
    pub(crate) fn answered(&mut self, now: u64, record: &Record) -> bool {
        record.left(&self.on_device.flight.expect("a batch on a device is in flight"));
        self.on_device.answered = Some(now);
        self.on_device.was_awaited = std::mem::take(&mut self.on_device.is_awaited);
        self.on_device.was_awaited
    }

    /// The CPU time that it wanted is over. Whether it wants more at once;
    /// if not, it sleeps.
    pub(crate) fn burst_over(&mut self, me: usize, world: &mut World<'_>) -> bool {
        match self.step {
            Step::Computed => {
                world.computing -= 1;
                self.learn_inline(world);
                self.batch_done(me, world);
            }
            Step::Submitted => {
                let OnDevice { device, bytes, .. } = self.on_device;
                self.on_device.submitted = world.now;
                world.hand_over(device, me, self.is_write, bytes);
                self.step = Step::Head;
                if self.head == 0 {
                    self.awaits(world);
                }
            }
            Step::HeadComputed => self.awaits(world),
            Step::Concluded => {
                self.learn_device(world);
                self.batch_done(me, world);
            }
            // A request of a script may have nothing to compute.
            Step::Place if self.rest == 0 => self.computed(me, world),
            Step::Parked | Step::Begin | Step::Place | Step::Head | Step::Answered | Step::Waits => {}
        }
        !matches!(self.step, Step::Parked | Step::Waits) && !self.on_device.is_awaited
    }

    /// Nothing is left to do but to wait for the device.
    fn awaits(&mut self, world: &mut World<'_>) {
        world.computing -= 1;
        self.step = Step::Answered;
        self.on_device.is_awaited = self.on_device.answered.is_none();
    }

    /// Now that it has a CPU: the CPU time that it wants, if any.
    pub(crate) fn advance(&mut self, me: usize, world: &mut World<'_>) -> Option<u64> {
        if self.step == Step::Begin {
            self.step = Step::Place;
            if let Some(script) = world.script {
                return Some(self.follow(&script[me][self.turn as usize]));
            }
            self.draw(me, world);
            if world.host.request_cpu_ns > 0.0 {
                return Some(world.drawn(world.host.request_cpu_ns));
            }
        }
        match self.step {
            Step::Place => Some(self.place(world)),
            Step::Head => {
                self.step = Step::HeadComputed;
                Some(self.compute_ns(self.head, world))
            }
            Step::Answered => Some(self.conclude(world)),
            _ => None,
        }
    }

    /// The next request of a script; the CPU time before its first batch.
    fn follow(&mut self, turn: &Turn) -> u64 {
        self.is_write = turn.is_write;
        self.bytes = turn.batch_bytes * u64::from(turn.batches);
        self.rest = self.bytes;
        self.batch_bytes = Some(turn.batch_bytes);
        self.wait_ns = turn.wait_ns;
        self.turn += 1;
        (turn.think_cpu_ns + turn.cpu_ns).max(1)
    }

    /// The next request. Sizes and directions follow sequences of low
    /// discrepancy, another for each client: any stretch of a run has them in
    /// their shares, so that runs can be compared.
    fn draw(&mut self, me: usize, world: &World<'_>) {
        let phase = world.phase();
        let turn = |step: f64| (self.turn as f64 * step + me as f64 * 0.381_966).fract();
        self.is_write = turn(std::f64::consts::SQRT_2) * 1000.0 >= f64::from(phase.read_permille);
        let weights: u32 = phase.sizes.iter().map(|(_, weight)| weight).sum();
        let mut drawn = (turn(0.618_034) * f64::from(weights)) as u32;
        let size = phase.sizes.iter().find(|(_, weight)| {
            let is_it = drawn < *weight;
            drawn = drawn.wrapping_sub(*weight);
            is_it
        });
        self.bytes = size.map_or(SEGMENT_BYTES, |(bytes, _)| *bytes);
        self.rest = self.bytes;
        self.turn += 1;
    }

    /// Places the next batch; the CPU time until it is computed or submitted.
    fn place(&mut self, world: &mut World<'_>) -> u64 {
        let bytes = self.rest.min(self.batch_bytes.or(world.host.batch_bytes).unwrap_or(u64::MAX));
        self.rest -= bytes;
        world.in_flight += 1;
        world.computing += 1;
        match world.placer.standing.engine(operation(self.is_write), bytes, world.in_flight, 0) {
            Some((engine, reason)) => self.inline(engine, bytes, (reason, false), world),
            None => self.place_among((1 << world.placer.records().len()) - 1, None, bytes, world),
        }
    }

    /// Places it on one of these engines, a bit for each.
    fn place_among(&mut self, usable: u32, again: Option<Reason>, bytes: u64, world: &mut World<'_>) -> u64 {
        let segments = bytes.div_ceil(SEGMENT_BYTES) as u32;
        let request = Request {
            operation: operation(self.is_write),
            bytes,
            segments,
            in_flight: world.in_flight,
            computing: world.computing,
            tasks: world.asking,
            request_bytes: self.bytes,
        };
        let now = Moment { cpu: world.load.view(), usable, version: 0, is_first: again.is_none() };
        world.scope.narrows(&world.settings, &request, &now.cpu);
        let decision = world.placer.decide(&world.settings, &request, &now);
        let decision = decision.expect("a host has an inline engine, which is never busy");
        let reason = again.unwrap_or(decision.reason);
        let inline_engines = world.host.inline.len();
        let (device, inline, head) = match decision.placement {
            Placement::Whole(engine) if engine < inline_engines => {
                return self.inline(engine, bytes, (reason, true), world);
            }
            Placement::Whole(engine) => (engine, 0, 0),
            Placement::Split { inline, device, device_segments } => {
                (device, inline, u64::from(segments - device_segments) * SEGMENT_BYTES)
            }
        };
        if !world.devices[device - inline_engines].accepts() {
            world.engines[device].busy += 1;
            return self.place_among(usable & !(1 << device), Some(Reason::Spilled), bytes, world);
        }
        self.submit(device - inline_engines, bytes - head, inline, head, reason, world)
    }

    fn inline(
        &mut self,
        engine: usize,
        bytes: u64,
        (reason, may_be_timed): (Reason, bool),
        world: &mut World<'_>,
    ) -> u64 {
        count(world, engine, bytes, reason);
        (self.inline, self.head) = (engine, bytes);
        let record = &world.placer.records()[engine];
        let is_due = || reason == Reason::Probe || record.wants_time(operation(self.is_write), bytes);
        let is_timed = may_be_timed && reason != Reason::Only && is_due();
        let flight = is_timed.then(|| record.began(operation(self.is_write), bytes));
        let takes = self.compute_ns(bytes, world);
        self.timed = flight.map(|flight| (flight, takes));
        self.step = Step::Computed;
        takes
    }

    fn submit(
        &mut self,
        device: usize,
        bytes: u64,
        inline: usize,
        head: u64,
        reason: Reason,
        world: &mut World<'_>,
    ) -> u64 {
        let engine = world.host.inline.len() + device;
        count(world, engine, bytes, reason);
        if head > 0 {
            count(world, inline, head, reason);
        }
        (self.inline, self.head) = (inline, head);
        let flight = world.placer.records()[engine].began(operation(self.is_write), bytes);
        let submit_ns = world.drawn(world.host.devices[device].submit.ns(bytes));
        self.on_device = OnDevice { device, bytes, flight: Some(flight), submit_ns, ..OnDevice::default() };
        self.step = Step::Submitted;
        submit_ns
    }

    fn compute_ns(&self, bytes: u64, world: &mut World<'_>) -> u64 {
        let engine = &world.host.inline[self.inline];
        let cost = if self.is_write { &engine.write } else { &engine.read };
        world.drawn(cost.ns(bytes))
    }

    /// Takes the device's answer; the CPU time of that, and of checking it
    /// when its turn has come.
    fn conclude(&mut self, world: &mut World<'_>) -> u64 {
        let OnDevice { device, bytes, answered, was_awaited, .. } = self.on_device;
        if let Some(answered) = answered.filter(|_| was_awaited) {
            let record = &world.placer.records()[world.host.inline.len() + device];
            record.woke((world.now - answered) as f64);
        }
        let is_due = world.results[device].is_multiple_of(1 << world.settings.check_exponent);
        world.results[device] += 1;
        let check_ns = if is_due { self.compute_ns(bytes, world) } else { 0 };
        self.step = Step::Concluded;
        let complete = world.host.devices[device].complete.ns(bytes);
        world.drawn(complete) + check_ns
    }

    fn learn_inline(&self, world: &World<'_>) {
        if let Some((flight, took)) = self.timed {
            let (record, took) = (&world.placer.records()[self.inline], took as f64);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns: took, cpu_ns: took });
        }
    }

    fn learn_device(&self, world: &World<'_>) {
        let OnDevice { device, flight, submit_ns, submitted, answered, .. } = self.on_device;
        let flight = flight.expect("a batch on a device is in flight");
        let service = answered.expect("it was answered") - submitted;
        let measured = Measurement { service_ns: service as f64, cpu_ns: submit_ns as f64 };
        let record = &world.placer.records()[world.host.inline.len() + device];
        record.learn_beside(&flight, measured, world.load.view().contended());
    }

    /// A batch is done: the next one, the next request, or nothing.
    fn batch_done(&mut self, me: usize, world: &mut World<'_>) {
        world.in_flight -= 1;
        if self.head > 0 {
            world.finished(self.inline, self.head);
        }
        if self.on_device.bytes > 0 {
            world.finished(world.host.inline.len() + self.on_device.device, self.on_device.bytes);
        }
        (self.head, self.timed, self.on_device) = (0, None, OnDevice::default());
        self.step = Step::Place;
        if self.rest == 0 {
            self.computed(me, world);
        }
    }

    /// All batches are done.
    fn computed(&mut self, me: usize, world: &mut World<'_>) {
        match std::mem::take(&mut self.wait_ns) {
            0 => self.request_done(me, world),
            wait_ns => {
                self.step = Step::Waits;
                world.waits(me, wait_ns);
            }
        }
    }

    /// What it waited for is over; whether it goes on at once.
    pub(crate) fn waited(&mut self, me: usize, world: &mut World<'_>) -> bool {
        self.request_done(me, world);
        self.step != Step::Parked
    }

    fn request_done(&mut self, me: usize, world: &mut World<'_>) {
        let goes_on = world.request_done(me, self.began, self.turn);
        let step = if goes_on { Step::Begin } else { Step::Parked };
        world.asking -= u32::from(!goes_on);
        *self = Client { step, turn: self.turn, began: world.now, ..Client::default() };
    }
}

fn count(world: &mut World<'_>, engine: usize, bytes: u64, reason: Reason) {
    let report = &mut world.engines[engine];
    report.bytes += bytes;
    report.operations += 1;
    report.reasons[reason as usize] += 1;
}
