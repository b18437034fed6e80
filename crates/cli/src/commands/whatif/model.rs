//! From a trace to what each of its requests needs, and back to time.

use strongroom_sim::{Options, Replayed, Turn, replay};
use strongroom_trace::{CPU_UNKNOWN, Header, Kind, Record, Trace, chains};

use super::machine::{Change, Machine, Waits};

const KINDS: usize = Kind::ALL.len();

/// See the module.
pub(super) struct Model {
    /// What each request needs on the machine of the trace.
    chains: Vec<Vec<Demand>>,
    /// From the first request to the last answer.
    pub(super) span_ns: u64,
    /// Where the time of all chains went.
    pub(super) parts: Parts,
    daemon_cpu_ns: u64,
    background_bytes: u64,
    background_batches: u64,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) cryptography: f64,
    pub(super) cpu: f64,
    pub(super) waiting: f64,
    pub(super) thinking: f64,
}

#[derive(Clone, Copy, Debug)]
struct Demand {
    turn: Turn,
    kind: Kind,
}

/// What a replay says of the load and the daemon.
pub(super) struct Run {
    pub(super) duration_ns: u64,
    pub(super) daemon_cpu_ns: u64,
    /// Shares of the bytes, by engine.
    pub(super) engines: Vec<(String, f64)>,
}

impl Model {
    /// Of a trace; none where it has no requests.
    pub(super) fn of(trace: &Trace, machine: &Machine<'_>) -> Option<Model> {
        let Trace { header, records } = trace;
        let first = records.first()?.start_ns;
        let last = records.iter().map(Record::end_ns).max()?;
        let chained = chains(records);
        let split = Split::of(header, records, &chained, machine.stretch);
        let colder = Colder::of(records, machine);
        let mut parts = Parts::default();
        let demands = |chain: &Vec<usize>| {
            let thinks = thinks(records, chain, first);
            let each = chain.iter().zip(thinks);
            each.map(|(at, think)| demand(&records[*at], think, &split, &colder, &mut parts)).collect()
        };
        let chains = chained.iter().map(demands).collect();
        Some(Model {
            chains,
            span_ns: last.saturating_sub(first),
            parts,
            daemon_cpu_ns: header.daemon_cpu_ns,
            background_bytes: header.background_bytes,
            background_batches: header.background_batches,
        })
    }

    /// Replays it as it was.
    pub(super) fn base(&self, machine: &Machine<'_>) -> Base {
        let replayed = self.replay(machine, None);
        Base { run: self.told(&replayed, 0.0), replayed }
    }

    /// Replays it with a change.
    pub(super) fn changed(&self, machine: &Machine<'_>, change: &Change, base: &Base) -> Run {
        let replayed = self.replay(machine, Some(change));
        let more = replayed.cpu_ns as f64 - base.replayed.cpu_ns as f64;
        // What was waited for beside other work is no CPU time.
        self.told(&replayed, (more + self.background_more(machine, change)) / machine.slowdown())
    }

    fn replay(&self, machine: &Machine<'_>, change: Option<&Change>) -> Replayed {
        let waits = change.map_or(Waits::Same, Change::waits);
        let slow = |ns: u64| (ns as f64 * machine.slowdown()) as u64;
        let turn = |demand: &Demand| Turn {
            wait_ns: waited(demand, waits),
            think_cpu_ns: slow(demand.turn.think_cpu_ns),
            cpu_ns: slow(demand.turn.cpu_ns),
            ..demand.turn
        };
        let turns: Vec<Vec<Turn>> =
            self.chains.iter().map(|chain| chain.iter().map(turn).collect()).collect();
        let options = Options { settings: machine.settings, duration_ns: 0, seed: 1 };
        replay(&machine.host(change), &turns, &options)
    }

    fn told(&self, replayed: &Replayed, more_cpu_ns: f64) -> Run {
        let all: u64 = replayed.engines.iter().map(|engine| engine.bytes).sum();
        let share = |bytes: u64| bytes as f64 / all.max(1) as f64;
        Run {
            duration_ns: replayed.duration_ns,
            daemon_cpu_ns: (self.daemon_cpu_ns as f64 + more_cpu_ns).max(0.0) as u64,
            engines: replayed
                .engines
                .iter()
                .map(|engine| (engine.engine.clone(), share(engine.bytes)))
                .collect(),
        }
    }

    /// How much more CPU time cryptography takes that no request waited for.
    fn background_more(&self, machine: &Machine<'_>, change: &Change) -> f64 {
        let mean = self.background_bytes / self.background_batches.max(1);
        let least = |change| {
            let host = machine.host(change);
            host.inline.iter().map(|engine| engine.write.ns(mean)).reduce(f64::min).unwrap_or(0.0)
        };
        (least(Some(change)) - least(None)) * self.background_batches as f64
    }

    /// Requests at once, at most.
    pub(super) fn concurrency(&self) -> usize {
        self.chains.len()
    }
}

/// The replay of a trace as it was, which others are held against.
pub(super) struct Base {
    pub(super) run: Run,
    replayed: Replayed,
}

fn waited(demand: &Demand, waits: Waits) -> u64 {
    let wait = demand.turn.wait_ns;
    match (waits, demand.kind) {
        (Waits::None, _) => 0,
        (Waits::Barrier(most), Kind::Durable) => wait.min(most),
        (Waits::Same | Waits::Barrier(_), _) => wait,
    }
}

/// From each answer to the next request of a chain. Chains of a trace that was
/// made up may overlap.
fn thinks<'r>(records: &'r [Record], chain: &'r [usize], first: u64) -> impl Iterator<Item = f64> + 'r {
    chain.iter().scan(first, |free, at| {
        let think = records[*at].start_ns.saturating_sub(*free);
        *free = records[*at].end_ns();
        Some(think as f64)
    })
}

fn cryptography(record: &Record) -> f64 {
    f64::from(record.cryptography_ns.min(record.latency_ns))
}

/// What a request took besides cryptography.
fn rest(record: &Record) -> f64 {
    f64::from(record.latency_ns) - cryptography(record)
}

/// Whether its batches seal: what is sealed for barriers and names is written.
fn is_write(record: &Record) -> bool {
    record.kind != Kind::Read
}

fn demand(record: &Record, think: f64, split: &Split, colder: &Colder, parts: &mut Parts) -> Demand {
    let cpu = rest(record) * split.cpu[record.kind as usize];
    let waiting = (rest(record) - cpu) * split.left;
    let think_cpu = think * split.think_cpu;
    let think_wait = (think - think_cpu) * split.left;
    parts.cryptography += cryptography(record);
    parts.cpu += cpu;
    parts.waiting += waiting;
    parts.thinking += think;
    let batches = u32::from(record.batches);
    let turn = Turn {
        think_wait_ns: think_wait as u64,
        think_cpu_ns: think_cpu as u64,
        // What cryptography took beyond what was measured stays where it is.
        cpu_ns: (cpu + colder.of_request(record)).max(0.0) as u64,
        wait_ns: waiting as u64,
        batches,
        batch_bytes: u64::from(record.sealed_bytes) / u64::from(batches.max(1)),
        is_write: is_write(record),
    };
    Demand { turn, kind: record.kind }
}

/// How times divide into CPU time and waiting.
struct Split {
    /// CPU time of a request's time besides cryptography, by kind.
    cpu: [f64; KINDS],
    /// CPU time of think time.
    think_cpu: f64,
    /// What is left of waiting without that for a CPU.
    left: f64,
}

impl Split {
    fn of(header: &Header, records: &[Record], chained: &[Vec<usize>], stretch: f64) -> Split {
        let (mut used, mut took) = ([0.0; KINDS], [0.0; KINDS]);
        for record in records.iter().filter(|record| record.cpu_ns != CPU_UNKNOWN && !record.on_device) {
            used[record.kind as usize] += (f64::from(record.cpu_ns) - cryptography(record)).max(0.0);
            took[record.kind as usize] += rest(record);
        }
        let share = |used: f64, took: f64| if took > 0.0 { (used / took).min(1.0) } else { 1.0 };
        let overall = share(used.iter().sum(), took.iter().sum());
        let of_kind = |kind| if took[kind] > 0.0 { share(used[kind], took[kind]) } else { overall };
        let cpu: [f64; KINDS] = std::array::from_fn(of_kind);
        let in_requests: f64 = records.iter().map(|record| rest(record) * cpu[record.kind as usize]).sum();
        let computing: f64 = records.iter().map(cryptography).sum();
        let waiting = records.iter().map(rest).sum::<f64>() - in_requests;
        let first = records.first().map_or(0, |record| record.start_ns);
        let thinking: f64 = chained.iter().flat_map(|chain| thinks(records, chain, first)).sum();
        let elsewhere = header
            .machine_cpu_ns
            .map_or(0.0, |all| all as f64 - in_requests - computing - header.background_ns as f64);
        // Beside other work whoever thinks waits for a CPU as the daemon does.
        let most = 1.0 / stretch;
        let think_cpu = if thinking > 0.0 { (elsewhere / thinking).clamp(0.0, most) } else { 0.0 };
        let idle = waiting + thinking * (1.0 - think_cpu);
        let of_thinking = thinking * think_cpu * (stretch - 1.0);
        let for_cpus = header.cpu_wait_ns.map_or(0.0, |waited| waited as f64) + of_thinking;
        let left = if idle > 0.0 { (1.0 - for_cpus / idle).clamp(0.0, 1.0) } else { 1.0 };
        Split { cpu, think_cpu, left }
    }
}

/// What each batch took in the trace beyond the profile, by kind of request:
/// caches are colder than where engines are measured.
struct Colder([f64; KINDS]);

impl Colder {
    fn of(records: &[Record], machine: &Machine<'_>) -> Colder {
        let (mut more, mut batches) = ([0.0; KINDS], [0.0; KINDS]);
        let mut known: std::collections::HashMap<(u64, bool), f64> = std::collections::HashMap::new();
        // By CPU time alone: a machine that did something else says nothing of caches.
        let sampled = |record: &&Record| record.cpu_ns != CPU_UNKNOWN;
        for record in records.iter().filter(sampled).filter(|record| record.batches > 0 && !record.on_device)
        {
            let each = u64::from(record.sealed_bytes) / u64::from(record.batches);
            let of_size = (each, is_write(record));
            let ns = *known.entry(of_size).or_insert_with(|| machine.batch_ns(of_size.0, of_size.1));
            more[record.kind as usize] += cryptography(record) - ns * f64::from(record.batches);
            batches[record.kind as usize] += f64::from(record.batches);
        }
        let mean = |kind: usize| if batches[kind] > 0.0 { more[kind] / batches[kind] } else { 0.0 };
        Colder(std::array::from_fn(mean))
    }

    fn of_request(&self, record: &Record) -> f64 {
        self.0[record.kind as usize] * f64::from(record.batches)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use strongroom_sched::Settings;
    use strongroom_trace::Offset;

    use super::super::machine::tests::{header, known};
    use super::*;

    /// One caller: 10 us to think, half of it CPU time; then a block in 20 us, of
    /// which its sealing takes what the profile says, 5 us more are CPU time and the
    /// rest is waiting.
    pub(in crate::commands::whatif) fn trace(requests: u64) -> Trace {
        let record = |at: u64| Record {
            start_ns: at * 30_000,
            latency_ns: 20_000,
            cryptography_ns: 4_296,
            cpu_ns: 9_296,
            bytes: 4096,
            sealed_bytes: 4096,
            caller: 1,
            kind: Kind::Write,
            offset: Offset::Sequential,
            batches: 1,
            on_cpu: true,
            on_device: false,
        };
        let records: Vec<_> = (0..requests).map(record).collect();
        let header = Header {
            machine_cpu_ns: Some(requests * (9_296 + 5_000)),
            daemon_cpu_ns: requests * 9_296,
            ..header()
        };
        Trace { header, records }
    }

    #[test]
    fn a_trace_is_replayed_as_it_was_and_another_suite_adds_what_it_takes() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let model = Model::of(&trace(500), &machine).expect("requests");
        assert_eq!(model.concurrency(), 1);
        let base = model.base(&machine);
        let duration = base.run.duration_ns as f64;
        assert!((duration / model.span_ns as f64 - 1.0).abs() < 0.01, "{duration}");
        assert_eq!(base.run.daemon_cpu_ns, 500 * 9_296);
        let changed = |word: &str| {
            let change = Change::parse(word, &machine).expect("known");
            model.changed(&machine, &change, &base)
        };
        // Ten times the 4.3 us instead of once.
        let slow = changed("suite=xchacha20-poly1305");
        let more = slow.duration_ns as f64 - duration;
        assert!((more / (500.0 * 9.0 * 4_296.0) - 1.0).abs() < 0.02, "{more}");
        assert!((slow.daemon_cpu_ns as f64 / (500.0 * (9_296.0 + 38_664.0)) - 1.0).abs() < 0.02);
        // One caller has no use for more CPUs, and the store is 10.7 of 30 us.
        assert_eq!(changed("cpus=8").duration_ns, base.run.duration_ns);
        let gained = duration - changed("store=memory").duration_ns as f64;
        assert!((gained / (500.0 * 10_704.0) - 1.0).abs() < 0.02, "{gained}");
        // None of it is a barrier.
        assert_eq!(changed("store=nvme").duration_ns, base.run.duration_ns);
    }

    #[test]
    fn waits_for_cpus_are_the_replays_own() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let mut waited = trace(500);
        waited.header.cpu_wait_ns = Some(500 * 5_000);
        let model = Model::of(&waited, &machine).expect("requests");
        // Nobody waits for a CPU in the replay of one caller on two.
        let less = model.span_ns - model.base(&machine).run.duration_ns;
        assert!((2_400_000..2_600_000).contains(&less), "{less}");
        // Beside other work that made it wait so long it takes as long as it did.
        let waited = Trace { header: Header { cpu_wait_ns: Some(500 * 9_296), ..waited.header }, ..waited };
        let busy = Machine::new(&waited.header, &known, Settings::default()).expect("known");
        assert_eq!(busy.slowdown(), 2.0);
        let model = Model::of(&waited, &busy).expect("requests");
        let base = model.base(&busy);
        let error = base.run.duration_ns as f64 / model.span_ns as f64 - 1.0;
        assert!(error.abs() < 0.02, "{error}");
        let change = Change::parse("suite=xchacha20-poly1305", &busy).expect("known");
        let slow = model.changed(&busy, &change, &base);
        let more = slow.duration_ns - base.run.duration_ns;
        assert!((more as f64 / (500.0 * 2.0 * 9.0 * 4_296.0) - 1.0).abs() < 0.02, "{more}");
        assert!((slow.daemon_cpu_ns as f64 / (500.0 * (9_296.0 + 38_664.0)) - 1.0).abs() < 0.02);
    }

    #[test]
    fn colder_caches_stay_colder_with_another_suite() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let mut cold = trace(500);
        for record in &mut cold.records {
            (record.cryptography_ns, record.cpu_ns) = (6_296, 11_296);
        }
        let model = Model::of(&cold, &machine).expect("requests");
        let base = model.base(&machine);
        let change = Change::parse("suite=xchacha20-poly1305", &machine).expect("known");
        let more = model.changed(&machine, &change, &base).duration_ns - base.run.duration_ns;
        assert!((more as f64 / (500.0 * 9.0 * 4_296.0) - 1.0).abs() < 0.02, "{more}");
    }

    #[test]
    fn a_trace_that_was_made_up_ends_all_the_same() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let mut odd = trace(300);
        for record in &mut odd.records {
            (record.cryptography_ns, record.batches, record.sealed_bytes) = (u32::MAX, 0, 77);
        }
        odd.header.machine_cpu_ns = Some(u64::MAX);
        odd.header.cpu_wait_ns = Some(u64::MAX);
        let model = Model::of(&odd, &machine).expect("requests");
        assert!(model.base(&machine).run.duration_ns > 0);
        assert!(Model::of(&trace(0), &machine).is_none());
    }
}
