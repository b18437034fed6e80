//! What the scheduler knows of one engine: its cost, what is queued there,
//! and how well it does several things at once. Learned from every answer,
//! without locks; an update that two threads make at once may lose one.
//!
//! Times come from outside as arguments, so that the simulator can use this
//! with its virtual clock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use strongroom_engine::{Capability, Operation};

use crate::policy::{self, EngineView, Request};

pub(crate) const OPERATIONS: usize = 5;
/// Sizes from 512 bytes to 16 MiB and beyond, a class for each power of two.
pub(crate) const SIZE_CLASSES: usize = 16;

/// A new measurement counts for this much: a change is known by two thirds after
/// eight answers, and one odd answer in ten is lost among them.
const WEIGHT: f64 = 1.0 / 8.0;
/// A measurement is cut to this many times what was expected. When the machine
/// stands still for a moment all that is in flight takes many times as long, which
/// says nothing of the engine; one that has really become slower is known after
/// a dozen answers.
const OUTLIER: f64 = 2.0;
/// The same of an inline engine. What it takes is CPU time, into which now and
/// then an interrupt falls, many times as long as a small batch.
const OUTLIER_INLINE: f64 = 1.5;
/// Parallelism that is assumed before anything is known. Too much is found out
/// by the first requests that wait; too little might never be.
const PARALLELISM_FIRST: f64 = 16.0;
/// An answer that took so many times the service time and its mean deviation had
/// waited (Jacobson, "Congestion avoidance and control", SIGCOMM 1988); less is what
/// service times vary by.
const WAITED: f64 = 1.25;
/// CPU time of a device's interrupt and of waking whoever waits for it, which
/// nothing here can measure: a completion and a switch.
const WAKE_NS: f64 = 2_000.0;
/// Placements in which the confidence in a figure falls to 1/e: some milliseconds
/// under load, in which other work comes and goes.
const CONFIDENCE_LASTS: f64 = 64.0;
/// Placements in which what waiting for a CPU has taken is forgotten: other work
/// goes, and nothing would tell of it where nothing is placed on the device. Longer
/// than [`CONFIDENCE_LASTS`], or more than one batch would follow each probe.
const CPU_WAIT_LASTS: f64 = 256.0;
/// One in so many inline batches is timed: that costs a system call or two.
const TIMED_EVERY: u32 = 32;
/// Answers from which on a size of an inline engine is more than a first
/// impression. Until then each batch is timed: the first may have been interrupted,
/// and hundreds would go elsewhere before this one is asked again.
const SETTLED: u32 = 4;

/// A number that is read and written by many threads.
#[derive(Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    fn new(value: f64) -> Number {
        Number(AtomicU64::new(value.to_bits()))
    }

    pub(crate) fn load(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    pub(crate) fn store(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

/// One operation at one size class.
#[derive(Default)]
struct Cell {
    answers: AtomicU32,
    /// Value of the record's placements when it was last updated; 0 is never.
    seen: AtomicU32,
    /// Measured over expected service time, and CPU time.
    service_ratio: Number,
    cpu_ratio: Number,
}

/// What an engine says of itself before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// It computes on the caller's thread.
    pub inline: bool,
    /// Time of a small batch.
    pub fixed_ns: f64,
    /// Time of each further byte.
    pub per_byte_ns: f64,
    /// CPU time for a batch; of an inline engine it is the service time.
    pub cpu_ns: f64,
    /// CPU time for each byte of one that is not inline.
    pub cpu_per_byte_ns: f64,
}

/// CPU time that is expected of a device's batch before it is measured: a
/// submission, a completion and a thread woken, and the copy for redoing.
const DEVICE_CPU_NS: f64 = 5_000.0;
const DEVICE_CPU_PER_BYTE_NS: f64 = 0.1;

impl Expectation {
    /// Of an engine that says this of itself.
    #[must_use]
    pub fn of(capability: &Capability) -> Expectation {
        Expectation {
            inline: capability.inline,
            fixed_ns: capability.latency_ns as f64,
            per_byte_ns: 1e9 / capability.bytes_per_second.max(1) as f64,
            ..Expectation::of_nothing()
        }
    }

    /// Of an engine that says nothing.
    pub(crate) fn of_nothing() -> Expectation {
        Expectation {
            inline: false,
            fixed_ns: 1e3,
            per_byte_ns: 1.0,
            cpu_ns: DEVICE_CPU_NS,
            cpu_per_byte_ns: DEVICE_CPU_PER_BYTE_NS,
        }
    }
}

/// See the module.
pub struct Record {
    expectation: Expectation,
    /// What its first answers say is held against its own word.
    is_of_tier: bool,
    cells: [[Cell; SIZE_CLASSES]; OPERATIONS],
    /// Answers of all sizes.
    answered: [AtomicU32; OPERATIONS],
    /// Value of `placements` when a batch had found nothing else here; 0 is never.
    seen_alone: [AtomicU32; OPERATIONS],
    /// How far these then were from what was expected, in the mean, as a share of it.
    deviation: [Number; OPERATIONS],
    backlog_ns: AtomicU64,
    in_flight: AtomicU32,
    parallelism: Number,
    /// From an answer until whoever waited for it has a CPU.
    cpu_wait_ns: Number,
    placements: AtomicU32,
    /// Value of `placements` when a batch was timed last.
    timed: AtomicU32,
}

/// What was measured of one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// From the end of `submit` to the answer, without the CPU time that the
    /// engine used meanwhile; of an inline engine the CPU time of `submit`.
    pub service_ns: f64,
    /// CPU time that the batch took.
    pub cpu_ns: f64,
}

/// A batch that an engine has accepted: what it found there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flight {
    operation: Operation,
    bytes: u64,
    service_ns: f64,
    backlog_ns: f64,
    found: u32,
}

pub(crate) fn size_class(bytes: u64) -> usize {
    let exponent = (u64::BITS - bytes.max(1).saturating_sub(1).leading_zeros()) as usize;
    exponent.saturating_sub(9).min(SIZE_CLASSES - 1)
}

impl Record {
    /// Nothing is known but what is expected.
    #[must_use]
    pub fn new(expectation: Expectation) -> Record {
        Record {
            expectation,
            is_of_tier: false,
            cells: Default::default(),
            answered: Default::default(),
            seen_alone: Default::default(),
            deviation: Default::default(),
            backlog_ns: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            parallelism: Number::new(PARALLELISM_FIRST),
            cpu_wait_ns: Number::default(),
            placements: AtomicU32::new(1),
            timed: AtomicU32::new(0),
        }
    }

    /// The same of an inline engine beside others of its CPU, and no device. The
    /// first batches find cold caches, and pay for what is made for a key once: in
    /// what they take tiers differ less than in the long run, and whichever seems
    /// faster then is alone in ever finding its caches warm. Their word counts more.
    pub(crate) fn of_tier(expectation: Expectation) -> Record {
        Record { is_of_tier: true, ..Record::new(expectation) }
    }

    fn expected_service_ns(&self, bytes: u64) -> f64 {
        self.expectation.fixed_ns + self.expectation.per_byte_ns * bytes as f64
    }

    fn expected_cpu_ns(&self, bytes: u64) -> f64 {
        match self.expectation.inline {
            true => self.expected_service_ns(bytes),
            false => self.expectation.cpu_ns + self.expectation.cpu_per_byte_ns * bytes as f64,
        }
    }

    /// The cell for a size, or the nearest that was measured. Of a device a younger
    /// one counts as nearer: each size between halves the confidence in it.
    fn nearest(&self, operation: Operation, class: usize) -> Option<&Cell> {
        let placements = self.placements.load(Relaxed);
        let distance = |(at, cell): &(usize, &Cell)| {
            let age = placements.wrapping_sub(cell.seen.load(Relaxed));
            let halvings = f64::from(age) / CONFIDENCE_LASTS * std::f64::consts::LOG2_E;
            at.abs_diff(class) as f64 + if self.expectation.inline { 0.0 } else { halvings }
        };
        let cells = self.cells[operation as usize].iter().enumerate().rev();
        let measured = cells.filter(|(_, cell)| cell.answers.load(Relaxed) > 0);
        measured.min_by(|one, other| distance(one).total_cmp(&distance(other))).map(|(_, cell)| cell)
    }

    /// Service and CPU time of so many bytes.
    fn predict(&self, operation: Operation, bytes: u64) -> (f64, f64) {
        let (service, cpu) = (self.expected_service_ns(bytes), self.expected_cpu_ns(bytes));
        match self.nearest(operation, size_class(bytes)) {
            Some(cell) => (service * cell.service_ratio.load(), cpu * cell.cpu_ratio.load()),
            None => (service, cpu),
        }
    }

    /// Whether enough was measured of an operation to predict it.
    fn is_known(&self, operation: Operation) -> bool {
        // The very first of an inline engine finds caches and pages that were never
        // touched.
        let enough = if self.expectation.inline { 2 } else { 1 };
        self.answered[operation as usize].load(Relaxed) >= enough
    }

    /// Whether what is known of a size is more than a first impression.
    pub(crate) fn is_settled(&self, operation: Operation, bytes: u64) -> bool {
        let cell = &self.cells[operation as usize][size_class(bytes)];
        cell.answers.load(Relaxed) >= SETTLED
    }

    /// What a policy is told of this engine for a request.
    #[must_use]
    pub fn view(&self, request: &Request, usable: bool) -> EngineView {
        let (service_ns, cpu_ns) = self.predict(request.operation, request.bytes);
        // What each byte takes matters to what can be divided.
        let per_byte_ns = if request.segments > 1 {
            let half = request.bytes / 2;
            let (half_ns, _) = self.predict(request.operation, half);
            ((service_ns - half_ns) / (request.bytes - half).max(1) as f64).max(1e-6)
        } else {
            self.expectation.per_byte_ns
        };
        let cell = &self.cells[request.operation as usize][size_class(request.bytes)];
        EngineView {
            usable,
            inline: self.expectation.inline,
            known: self.is_known(request.operation),
            service_ns,
            fixed_ns: (service_ns - per_byte_ns * request.bytes as f64).max(0.0),
            per_byte_ns,
            cpu_ns,
            backlog_ns: self.backlog_ns.load(Relaxed) as f64,
            in_flight: self.in_flight.load(Relaxed),
            parallelism: self.parallelism.load(),
            cpu_wait_ns: self.cpu_wait_ns.load(),
            confidence: self.confidence(&cell.seen),
        }
    }

    /// How far a figure can be believed: fully when it was just seen, ever less as
    /// batches are placed, here or elsewhere, and not at all where it never was.
    fn confidence(&self, seen: &AtomicU32) -> f64 {
        match seen.load(Relaxed) {
            0 => 0.0,
            seen => f64::exp(-f64::from(self.placements.load(Relaxed).wrapping_sub(seen)) / CONFIDENCE_LASTS),
        }
    }

    /// So many requests were placed, here or elsewhere.
    pub(crate) fn placed(&self, requests: u32) {
        let cpu_wait_ns = self.cpu_wait_ns.load();
        if cpu_wait_ns > 0.0 {
            let left = 1.0 - (f64::from(requests) / CPU_WAIT_LASTS).min(1.0);
            self.cpu_wait_ns.store(cpu_wait_ns * left);
        }
        // What two threads count at once may count once: it is for ages alone.
        self.placements.store(self.placements.load(Relaxed).wrapping_add(requests), Relaxed);
    }

    /// The engine takes a batch.
    #[must_use]
    pub fn began(&self, operation: Operation, bytes: u64) -> Flight {
        let (service_ns, _) = self.predict(operation, bytes);
        let backlog_ns = self.backlog_ns.fetch_add(service_ns as u64, Relaxed) as f64;
        let found = self.in_flight.fetch_add(1, Relaxed);
        Flight { operation, bytes, service_ns, backlog_ns, found }
    }

    /// Whether a batch that this inline engine computes should be timed; if
    /// so, the next ones need not.
    #[must_use]
    pub fn wants_time(&self, operation: Operation, bytes: u64) -> bool {
        let placements = self.placements.load(Relaxed);
        let age = placements.wrapping_sub(self.timed.load(Relaxed));
        let wants = !self.is_settled(operation, bytes) || age >= TIMED_EVERY;
        if wants {
            self.timed.store(placements, Relaxed);
        }
        wants
    }

    /// Whoever waited for this device's answer had a CPU so long after it.
    pub fn woke(&self, cpu_wait_ns: f64) {
        let before = self.cpu_wait_ns.load();
        self.cpu_wait_ns.store(before + (cpu_wait_ns - before) * WEIGHT);
    }

    /// A batch has left the engine, well or not.
    pub fn left(&self, flight: &Flight) {
        self.backlog_ns.fetch_sub(flight.service_ns as u64, Relaxed);
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// What a batch that was done has shown.
    pub fn learn(&self, flight: &Flight, measured: Measurement) {
        self.learn_beside(flight, measured, 0.0);
    }

    /// The same where this process's threads waited for a CPU in this share of the
    /// time: then an answer was late for want of one as likely as on the device.
    pub fn learn_beside(&self, flight: &Flight, measured: Measurement, contended: f64) {
        let class = size_class(flight.bytes);
        let parallelism = self.parallelism.load();
        let ahead = flight.backlog_ns + flight.service_ns;
        let cell = &self.cells[flight.operation as usize][class];
        let is_queued = !self.expectation.inline && flight.found > 0;
        let took = measured.service_ns;
        let operation = flight.operation as usize;
        let (seen_alone, deviation) = (&self.seen_alone[operation], &self.deviation[operation]);
        let has_waited = is_queued && took > WAITED * (1.0 + deviation.load()) * flight.service_ns;
        // No more are served at once than there are, and no fewer if none waits.
        let there = f64::from(flight.found) + 1.0;
        let seen = if has_waited { (ahead / took).clamp(1.0, there) } else { there };
        let believed_late = if has_waited { 1.0 - contended } else { 1.0 };
        if self.is_known(flight.operation) && (has_waited || is_queued && seen > parallelism) {
            self.parallelism.store(parallelism + (seen - parallelism) * 2.0 * WEIGHT * believed_late);
        }
        // What takes longer than it should behind others has waited, as far as the
        // service was seen alone lately; else it may have become longer.
        let queue = (flight.backlog_ns, flight.found);
        let longer = took / policy::served_ns(flight.service_ns, queue, parallelism) - 1.0;
        let believed = self.predict(flight.operation, flight.bytes).0;
        let changed = 1.0 + longer * (1.0 - self.confidence(seen_alone)) * believed_late;
        let alone = if has_waited { believed * changed } else { took };
        if !is_queued {
            seen_alone.store(self.placements.load(Relaxed), Relaxed);
            let (old, new) = (deviation.load(), (took / flight.service_ns - 1.0).abs().min(1.0));
            deviation.store(old + (new - old) * WEIGHT);
        }
        let blend = |number: fn(&Cell) -> &Number, seen| self.blend(flight.operation, class, number, seen);
        blend(|cell| &cell.service_ratio, alone / self.expected_service_ns(flight.bytes).max(1.0));
        let seen = (measured.cpu_ns + self.waking_ns()) / self.expected_cpu_ns(flight.bytes).max(1.0);
        blend(|cell| &cell.cpu_ratio, seen);
        self.count(flight.operation, cell, 1);
    }

    fn waking_ns(&self) -> f64 {
        if self.expectation.inline { 0.0 } else { WAKE_NS }
    }

    /// Takes what was measured some other time for what a size takes.
    pub(crate) fn believe(&self, operation: Operation, bytes: u64, measured: Measurement) {
        let cell = &self.cells[operation as usize][size_class(bytes)];
        cell.service_ratio.store(measured.service_ns / self.expected_service_ns(bytes).max(1.0));
        cell.cpu_ratio.store((measured.cpu_ns + self.waking_ns()) / self.expected_cpu_ns(bytes).max(1.0));
        self.count(operation, cell, SETTLED);
    }

    fn count(&self, operation: Operation, cell: &Cell, answers: u32) {
        for number in [&cell.answers, &self.answered[operation as usize]] {
            number.store(number.load(Relaxed).saturating_add(answers), Relaxed);
        }
        cell.seen.store(self.placements.load(Relaxed), Relaxed);
    }

    /// Brings a number of a cell nearer to what was seen. A device's first
    /// answer is believed. What an inline engine takes can only seem too much,
    /// so that of its first answers a lower one is believed, and a higher one
    /// at most so much above what sizes nearby have shown, or a tier says.
    fn blend(&self, operation: Operation, class: usize, number: fn(&Cell) -> &Number, seen: f64) {
        let cell = &self.cells[operation as usize][class];
        let answers = cell.answers.load(Relaxed);
        let (inline, old) = (self.expectation.inline, number(cell).load());
        let new = match answers {
            0 if inline => {
                let near = self.nearest(operation, class).map(|near| number(near).load());
                let near = near.or(self.is_of_tier.then_some(1.0));
                seen.min(near.map_or(f64::INFINITY, |near| near * OUTLIER_INLINE))
            }
            0 => seen,
            1..SETTLED if inline && seen < old => seen,
            1..SETTLED if inline => old + (seen.min(old * OUTLIER_INLINE) - old) / f64::from(answers + 1),
            _ if inline => old + (seen.min(old * OUTLIER_INLINE) - old) * WEIGHT,
            // The less is known, the more an answer counts.
            _ => old + (seen.min(old * OUTLIER) - old) * (1.0 - (1.0 - WEIGHT) * self.confidence(&cell.seen)),
        };
        number(cell).store(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Record {
        Record::new(Expectation {
            inline: false,
            fixed_ns: 1000.0,
            per_byte_ns: 1.0,
            cpu_ns: 500.0,
            cpu_per_byte_ns: 0.0,
        })
    }

    fn request(bytes: u64) -> Request {
        Request::whole(Operation::Seal, bytes)
    }

    #[test]
    fn what_waiting_for_a_cpu_has_taken_is_learned_and_forgotten() {
        let record = device();
        let waits = || record.view(&request(4096), true).cpu_wait_ns;
        (0..40).for_each(|_| record.woke(1e6));
        assert!((0.98e6..=1e6).contains(&waits()), "{}", waits());
        (0..256).for_each(|_| record.placed(1));
        assert!((0.3e6..0.4e6).contains(&waits()), "{}", waits());
        record.placed(1000);
        assert_eq!(waits(), 0.0);
    }

    #[test]
    fn a_first_answer_is_believed_and_later_ones_weighed() {
        let record = device();
        assert!(!record.view(&request(4096), true).known);
        let flight = record.began(Operation::Seal, 4096);
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns: 50_000.0, cpu_ns: 2000.0 });
        let view = record.view(&request(4096), true);
        assert!(
            view.known
                && (view.service_ns - 50_000.0).abs() < 1.0
                && (view.cpu_ns - 2000.0 - WAKE_NS).abs() < 1.0
        );
        // Other sizes follow in proportion to what was expected.
        assert!(record.view(&request(65536), true).service_ns > 500_000.0);
        assert_eq!((view.in_flight, view.backlog_ns), (0, 0.0));
    }

    #[test]
    fn an_interrupt_says_little_of_an_inline_engine() {
        let record = Record::new(Expectation { inline: true, ..device().expectation });
        let learn = |ns: f64| {
            computes(&record, 4096, ns);
            record.view(&request(4096), true).cpu_ns
        };
        (0..SETTLED).for_each(|_| assert!(learn(600.0) < 601.0));
        assert!(learn(50_000.0) < 650.0);
        // One that has really become slower is believed within some batches.
        let slower = (0..20).fold(0.0, |_, _| learn(1200.0));
        assert!(slower > 1100.0, "{slower}");
    }

    /// Has a device answer after so long; what it is expected to take then.
    fn asks(record: &Record, ns: f64) -> f64 {
        let flight = record.began(Operation::Seal, 4096);
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns: ns, cpu_ns: 500.0 });
        record.view(&request(4096), true).service_ns
    }

    #[test]
    fn when_the_machine_stands_still_that_says_little_of_a_device() {
        let record = device();
        let asks = |ns| asks(&record, ns);
        (0..32).for_each(|_| assert!(asks(5_000.0) < 5_001.0));
        // Four were in flight, for 20 ms.
        let still = (0..4).fold(0.0, |_, _| asks(20e6));
        assert!(still < 1.7 * 5_000.0, "{still}");
        let slower = (0..16).fold(0.0, |_, _| asks(15_000.0));
        assert!(slower > 0.8 * 15_000.0, "{slower}");
    }

    #[test]
    fn a_device_that_was_left_is_believed_when_it_is_asked_again() {
        let record = device();
        let asks = |ns| asks(&record, ns);
        (0..200).for_each(|_| assert!(asks(50_000.0) < 50_001.0));
        let slow = (0..12).fold(0.0, |_, _| asks(500_000.0));
        assert!(slow > 150_000.0 && asks(50_000.0) > 0.8 * slow, "one that is asked all the time is weighed");
        // All goes elsewhere, until it is asked once more.
        let confidence = || record.view(&request(4096), true).confidence;
        assert_eq!(confidence(), 1.0);
        record.placed(4 * CONFIDENCE_LASTS as u32);
        assert!(
            (confidence() - f64::exp(-4.0)).abs() < 1e-9
                && record.view(&request(512), true).confidence == 0.0
        );
        let again = asks(50_000.0);
        assert!(again < 60_000.0, "{again}");
    }

    /// Has an inline engine compute a batch that takes so long.
    fn computes(record: &Record, bytes: u64, ns: f64) {
        let flight = record.began(Operation::Seal, bytes);
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns: ns, cpu_ns: ns });
    }

    #[test]
    fn a_first_answer_of_an_inline_engine_is_held_against_others() {
        let record = Record::new(Expectation { inline: true, ..device().expectation });
        let predicted = |bytes| record.view(&request(bytes), true).service_ns;
        // The very first touches what was never touched, and does not count alone.
        computes(&record, 4096, 40_000.0);
        assert!(!record.view(&request(4096), true).known);
        computes(&record, 4096, 5096.0);
        assert!(record.view(&request(4096), true).known);
        assert!((predicted(4096) - 5096.0).abs() < 1.0);
        // An interrupt in the first batch of another size.
        computes(&record, 262_144, 2e6);
        assert!((predicted(262_144) - 1.5 * 263_144.0).abs() < 1.0, "{}", predicted(262_144));
        computes(&record, 262_144, 263_144.0);
        assert!((predicted(262_144) - 263_144.0).abs() < 1.0);
        // What does take longer is believed after some of them.
        (0..4).for_each(|_| computes(&record, 65_536, 3.0 * 66_536.0));
        assert!(predicted(65_536) > 2.0 * 66_536.0, "{}", predicted(65_536));
        (0..16).for_each(|_| computes(&record, 65_536, 3.0 * 66_536.0));
        assert!(predicted(65_536) > 2.8 * 66_536.0, "{}", predicted(65_536));
    }

    #[test]
    fn a_first_answer_of_a_tier_is_held_against_its_own_word() {
        let record = Record::of_tier(Expectation { inline: true, ..device().expectation });
        let predicted = || record.view(&request(4096), true).service_ns;
        let said = predicted();
        computes(&record, 4096, 20.0 * said);
        assert_eq!(predicted(), OUTLIER_INLINE * said);
        computes(&record, 4096, 0.8 * said);
        assert!((predicted() - 0.8 * said).abs() < 1.0);
    }

    #[test]
    fn what_an_inline_engine_takes_is_not_divided_by_what_waits_for_a_cpu() {
        let record = Record::new(Expectation { inline: true, ..device().expectation });
        // The first of a size, while many others are timed.
        let others: Vec<_> = (0..48).map(|_| record.began(Operation::Seal, 1 << 20)).collect();
        let flight = record.began(Operation::Seal, 1 << 20);
        record.learn(&flight, Measurement { service_ns: 12e6, cpu_ns: 12e6 });
        let view = record.view(&request(1 << 20), true);
        assert!((view.service_ns - 12e6).abs() < 1.0 && (view.cpu_ns - 12e6).abs() < 1.0, "{view:?}");
        others.iter().for_each(|flight| record.left(flight));
    }

    #[test]
    fn parallelism_is_learned_from_waiting() {
        for units in [1, 4, 24] {
            let record = device();
            let mut service = 0.0;
            for round in 0..200 {
                // A burst of 48 at once, served by `units`.
                let flights: Vec<_> = (0..48).map(|_| record.began(Operation::Seal, 4096)).collect();
                for (place, flight) in flights.iter().enumerate() {
                    let answered = 10_000.0 * (place / units + 1) as f64;
                    record.left(flight);
                    record.learn(flight, Measurement { service_ns: answered, cpu_ns: 500.0 });
                }
                service = record.view(&request(4096), true).service_ns;
                let _ = round;
            }
            let found = record.parallelism.load() / (service / 10_000.0);
            assert!(found > 0.6 * units as f64 && found < 1.6 * units as f64, "{units}: {found}");
        }
    }

    /// Two batches one after the other on a device that serves one at once, the second
    /// while the first is served.
    fn two_in_turn(record: &Record, bytes: u64, service_ns: f64) {
        record.placed(2);
        let flights = [(); 2].map(|()| record.began(Operation::Seal, bytes));
        for (flight, waited) in flights.iter().zip([0.0, 0.9]) {
            record.left(flight);
            let took = service_ns * (1.0 + waited);
            record.learn(flight, Measurement { service_ns: took, cpu_ns: 500.0 });
        }
    }

    #[test]
    fn waiting_is_not_taken_for_service_however_the_sizes_change() {
        let record = device();
        let expected = |bytes: u64| 1000.0 + bytes as f64;
        asks(&record, expected(4096));
        // The first of each size find others there, as parts of divided batches do.
        for bytes in [1 << 20, 1 << 18, 1 << 17] {
            let first = record.began(Operation::Seal, bytes);
            let second = record.began(Operation::Seal, bytes);
            record.left(&first);
            record.left(&second);
            record.learn(&second, Measurement { service_ns: 1.9 * expected(bytes), cpu_ns: 500.0 });
            (0..20).for_each(|_| two_in_turn(&record, bytes, expected(bytes)));
            let view = record.view(&request(bytes), true);
            let over = view.service_ns / expected(bytes);
            assert!(over < 1.1 && view.parallelism < 1.3, "{over} {view:?}");
        }
    }

    #[test]
    fn lateness_while_threads_wait_for_a_cpu_teaches_nothing_of_the_device() {
        // Eight are there always, and answers take four times as long as the device.
        let after = |contended: f64| {
            let record = device();
            (0..32).for_each(|_| _ = asks(&record, 5_000.0));
            let others: Vec<_> = (0..7).map(|_| record.began(Operation::Seal, 4096)).collect();
            for _ in 0..200 {
                let flight = record.began(Operation::Seal, 4096);
                record.left(&flight);
                record.learn_beside(&flight, Measurement { service_ns: 20_000.0, cpu_ns: 500.0 }, contended);
            }
            others.iter().for_each(|flight| record.left(flight));
            record.view(&request(4096), true)
        };
        let (idle, contended) = (after(0.0), after(1.0));
        assert!(idle.parallelism < 3.0, "{idle:?}");
        assert!(contended.parallelism > 7.0 && contended.service_ns < 5_500.0, "{contended:?}");
    }

    #[test]
    fn a_device_that_becomes_slower_is_believed_though_it_never_rests() {
        let record = device();
        (0..32).for_each(|_| _ = asks(&record, 5_000.0));
        // Four are there always, and it serves as many.
        let others: Vec<_> = (0..3).map(|_| record.began(Operation::Seal, 4096)).collect();
        let mut service = 5_000.0;
        for _ in 0..600 {
            service = f64::min(service * 1.01, 30_000.0);
            record.placed(1);
            let flight = record.began(Operation::Seal, 4096);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns: service, cpu_ns: 500.0 });
        }
        let view = record.view(&request(4096), true);
        assert!(view.service_ns > 0.8 * 30_000.0, "{view:?}");
        others.iter().for_each(|flight| record.left(flight));
    }

    #[test]
    fn a_stale_figure_of_a_size_gives_way_to_a_younger_one_beside_it() {
        let record = device();
        let asks = |bytes: u64, times: f64| {
            let flight = record.began(Operation::Seal, bytes);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns: times * (1000.0 + bytes as f64), cpu_ns: 500.0 });
        };
        let over = || record.view(&request(16384), true).service_ns / 17384.0;
        asks(16384, 1.0);
        for _ in 0..40 {
            record.placed(1);
            asks(8192, 4.0);
        }
        assert!((over() - 1.0).abs() < 1e-9, "its own is young");
        for _ in 0..40 {
            record.placed(1);
            asks(8192, 4.0);
        }
        assert!(over() > 3.9, "{}", over());
    }

    #[test]
    fn size_classes_are_powers_of_two() {
        assert_eq!([1, 512, 513, 1024, 4096, 1 << 24, 1 << 40].map(size_class), [0, 0, 1, 1, 3, 15, 15]);
    }
}
