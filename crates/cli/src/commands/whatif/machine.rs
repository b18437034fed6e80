//! The machine that a trace is of, and what becomes of it when something is
//! added.

use std::path::PathBuf;

use strongroom_engine::{Algorithm, SectorMode};
use strongroom_format::vault::Suite;
use strongroom_sched::Settings;
use strongroom_sim::{Background, Cost, Device, Drift, Host, Inline, aca_sds};
use strongroom_trace::Header;

use crate::commands::report::measure_store;
use crate::failure::{Failure, Result};
use crate::profile::{Measurement, Profile, measured_as};

/// What a barrier of a drive for servers takes, whose cache survives a power
/// cut: an assumption.
const NVME_BARRIER_NS: u64 = 30_000;
/// CPU time of handing a batch to a GPU, of its interrupt and of its answer: an
/// assumption.
const GPU_CPU_NS: f64 = 5_000.0;
/// Batches that a GPU has at once: an assumption.
const GPU_UNITS: u32 = 8;
/// Batches that a device has or that wait for it.
const QUEUE_MAX: u32 = 64;
/// A page of the ACA-SDS paper.
const PAGE: u64 = 4096;
const CPUS_MAX: u32 = 256;
/// A machine that does nothing else has threads wait a little for each other.
const STRETCHED: f64 = 1.25;
const STRETCH_MAX: f64 = 64.0;

/// See the module.
pub(super) struct Machine<'p> {
    pub(super) profile: &'p Profile,
    pub(super) settings: Settings,
    pub(super) cpus: u32,
    /// What the trace was sealed with, by the profile's name.
    pub(super) algorithm: String,
    /// Time that threads of the daemon had a CPU or waited for one, over the time
    /// that they had one.
    pub(super) stretch: f64,
}

/// What is added, or put in the place of what is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Another suite or cipher, by its own name and the profile's.
    Suite(String, String),
    Cpus(u32),
    Qat,
    Gpu,
    Store(Store),
}

/// Another store.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Store {
    Memory,
    Nvme,
    /// One whose barrier was measured, in nanoseconds.
    Here(PathBuf, u64),
}

/// What becomes of a request's waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Waits {
    /// They stay.
    Same,
    /// There are none.
    None,
    /// Of those for durability at most so many nanoseconds are left.
    Barrier(u64),
}

impl Change {
    /// What a word after `--add` means on this machine.
    ///
    /// # Errors
    /// Usage for what is not known; what measuring a store reports.
    pub(super) fn parse(word: &str, machine: &Machine<'_>) -> Result<Change> {
        let wrong = |what: &str| {
            Failure::usage(format!("--add {word}: {what}"))
                .hint("`strongroom whatif --help` lists what can be added.")
        };
        match word.split_once('=') {
            None if word == "qat" => Ok(Change::Qat),
            None if word == "gpu" => Ok(Change::Gpu),
            Some(("cpus", count)) => {
                let cpus = count.parse().ok().filter(|cpus| (1..=CPUS_MAX).contains(cpus));
                Ok(Change::Cpus(cpus.ok_or_else(|| wrong("a number of CPUs from 1 to 256"))?))
            }
            Some(("suite", name)) => {
                let algorithm =
                    profile_name(name).ok_or_else(|| wrong("there is no such suite or cipher"))?;
                if operations(&algorithm) != operations(&machine.algorithm) {
                    return Err(wrong("vaults have suites, and disks have ciphers"));
                }
                match machine.has(&algorithm) && !machine.inline(&algorithm).is_empty() {
                    true => Ok(Change::Suite(name.to_owned(), algorithm)),
                    false => Err(wrong("the profile does not know it: run `strongroom tune`")),
                }
            }
            Some(("store", "memory")) => Ok(Change::Store(Store::Memory)),
            Some(("store", "nvme")) => Ok(Change::Store(Store::Nvme)),
            Some(("store", directory)) => {
                let directory = PathBuf::from(directory);
                let barrier_ns = measure_store(&directory)?.barrier_ns();
                Ok(Change::Store(Store::Here(directory, barrier_ns)))
            }
            _ => Err(wrong("it is not known")),
        }
    }

    /// As it is asked for.
    pub(super) fn name(&self) -> String {
        match self {
            Change::Suite(name, _) => format!("suite={name}"),
            Change::Cpus(cpus) => format!("cpus={cpus}"),
            Change::Qat => "qat".to_owned(),
            Change::Gpu => "gpu".to_owned(),
            Change::Store(Store::Memory) => "store=memory".to_owned(),
            Change::Store(Store::Nvme) => "store=nvme".to_owned(),
            Change::Store(Store::Here(directory, _)) => {
                format!("store={}", crate::report::shown(directory.as_os_str().as_encoded_bytes()))
            }
        }
    }

    /// For the sentence.
    pub(super) fn words(&self) -> String {
        match self {
            Change::Suite(name, _) => format!("{name} on this CPU"),
            Change::Cpus(cpus) => format!("{cpus} CPUs"),
            Change::Qat => "a QAT card".to_owned(),
            Change::Gpu => "a GPU".to_owned(),
            Change::Store(_) => self.name(),
        }
    }

    /// Whether it can be bought. A suite costs nothing, and a store that takes no
    /// time is not for sale.
    pub(super) fn is_bought(&self) -> bool {
        !matches!(self, Change::Suite(..) | Change::Store(Store::Memory))
    }

    /// Whether its figures were not measured here.
    pub(super) fn is_assumed(&self, machine: &Machine<'_>) -> bool {
        match self {
            Change::Qat | Change::Store(Store::Nvme) => true,
            Change::Gpu => machine.measured_gpu().is_none(),
            _ => false,
        }
    }

    pub(super) fn waits(&self) -> Waits {
        match self {
            Change::Store(Store::Memory) => Waits::None,
            Change::Store(Store::Nvme) => Waits::Barrier(NVME_BARRIER_NS),
            Change::Store(Store::Here(_, barrier_ns)) => Waits::Barrier(*barrier_ns),
            _ => Waits::Same,
        }
    }
}

/// The name that a profile has for a suite or a cipher.
fn profile_name(name: &str) -> Option<String> {
    if let Ok(suite) = name.parse::<Suite>() {
        return Some(strongroom_vault::algorithm(suite).to_string());
    }
    name.parse().ok().filter(has_use).map(|algorithm| measured_as(algorithm).to_string())
}

/// No disk is encrypted in counter mode: what was overwritten would tell both.
fn has_use(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Sector(cipher) if cipher.mode == SectorMode::Ctr)
}

/// The operations of an algorithm, towards the store first.
pub(super) fn operations(algorithm: &str) -> [&'static str; 2] {
    match algorithm.parse() {
        Ok(Algorithm::Sector(_)) => ["encrypt", "decrypt"],
        _ => ["seal", "open"],
    }
}

impl<'p> Machine<'p> {
    /// Of a trace and what was measured here.
    ///
    /// # Errors
    /// Usage when the profile does not know what the trace was sealed with.
    pub(super) fn new(header: &Header, profile: &'p Profile, settings: Settings) -> Result<Machine<'p>> {
        let name = &header.algorithm;
        let algorithm = profile_name(name).ok_or_else(|| {
            Failure::usage(format!("the trace is of `{}`, which is not known", name.escape_debug()))
        })?;
        let cpus = u32::try_from(header.cpus).unwrap_or(CPUS_MAX).clamp(1, CPUS_MAX);
        let waited = header.cpu_wait_ns.map_or(0.0, |waited| waited as f64);
        let stretch = (1.0 + waited / header.daemon_cpu_ns.max(1) as f64).min(STRETCH_MAX);
        let machine = Machine { profile, settings, cpus, algorithm, stretch };
        match machine.has(&machine.algorithm) && !machine.inline(&machine.algorithm).is_empty() {
            true => Ok(machine),
            false => Err(Failure::usage(format!("the profile does not know {}", machine.algorithm))
                .hint("`strongroom tune` measures it.")),
        }
    }

    /// Whether it was measured in both directions.
    fn has(&self, algorithm: &str) -> bool {
        let is_known =
            |operation: &str| self.profile.alone(algorithm).any(|found| found.operation == operation);
        operations(algorithm).iter().all(|operation| is_known(operation))
    }

    /// What is tried where nothing is named.
    pub(super) fn usual(&self) -> Vec<Change> {
        let names: Vec<String> = match operations(&self.algorithm) {
            ["encrypt", _] => self.profile.algorithms().into_iter().map(str::to_owned).collect(),
            _ => Suite::ALL.iter().map(|suite| suite.name().to_owned()).collect(),
        };
        let other = |name: String| {
            let algorithm = profile_name(&name)?;
            let fits = operations(&algorithm) == operations(&self.algorithm);
            (fits && algorithm != self.algorithm && self.has(&algorithm))
                .then_some(Change::Suite(name, algorithm))
        };
        let things = [
            Change::Cpus((2 * self.cpus).min(CPUS_MAX)),
            Change::Qat,
            Change::Gpu,
            Change::Store(Store::Nvme),
            Change::Store(Store::Memory),
        ];
        names.into_iter().filter_map(other).chain(things).collect()
    }

    /// How many times its CPU time everything takes beside other work of the
    /// machine.
    pub(super) fn slowdown(&self) -> f64 {
        if self.stretch > STRETCHED { self.stretch } else { 1.0 }
    }

    /// The host as it is, or with a change.
    pub(super) fn host(&self, change: Option<&Change>) -> Host {
        let algorithm = if let Some(Change::Suite(_, other)) = change { other } else { &self.algorithm };
        Host {
            name: "here".to_owned(),
            about: String::new(),
            cpus: if let Some(Change::Cpus(cpus)) = change { *cpus } else { self.cpus },
            request_cpu_ns: 0.0,
            batch_bytes: None,
            inline: self
                .inline(algorithm)
                .into_iter()
                .map(|engine| slowed(engine, self.slowdown()))
                .collect(),
            devices: match change {
                Some(Change::Qat) => vec![qat()],
                Some(Change::Gpu) => vec![self.measured_gpu().unwrap_or_else(gpu)],
                _ => Vec::new(),
            },
            background: Background::default(),
            jitter: 0.0,
        }
    }

    /// The engines on the CPU that mounts choose among.
    fn inline(&self, algorithm: &str) -> Vec<Inline> {
        let [write, read] = operations(algorithm);
        let engines = self.profile.hardware.engines.iter();
        let engines =
            engines.filter(|engine| self.profile.is_worthwhile(engine) && !self.profile.is_device(engine));
        let engine = |name: &String| {
            let cost = |operation| self.cost(name, algorithm, operation);
            Some(Inline { name: name.clone(), write: cost(write)?, read: cost(read)? })
        };
        engines.filter_map(engine).collect()
    }

    fn points<'a>(&'a self, engine: &str, algorithm: &'a str, operation: &str) -> Vec<&'a Measurement> {
        let of = self.profile.alone(algorithm);
        let mut points: Vec<&Measurement> =
            of.filter(|found| found.engine == engine && found.operation == operation).collect();
        points.sort_by_key(|found| found.bytes);
        points
    }

    fn cost(&self, engine: &str, algorithm: &str, operation: &str) -> Option<Cost> {
        let points = self.points(engine, algorithm, operation);
        // What a thread has to wait for a CPU meanwhile is no cost of the engine.
        let is_device = self.profile.is_device(engine);
        let ns = |found: &Measurement| if is_device { found.batch_ns } else { found.cpu_ns };
        let points: Vec<(u64, f64)> = points.iter().map(|found| (found.bytes, ns(found))).collect();
        (!points.is_empty()).then_some(Cost::Points(points))
    }

    /// What the fastest engine takes for a batch as it was, by the profile.
    pub(super) fn batch_ns(&self, bytes: u64, is_write: bool) -> f64 {
        let engines = self.inline(&self.algorithm);
        let ns = engines.iter().map(|engine| if is_write { &engine.write } else { &engine.read }.ns(bytes));
        ns.reduce(f64::min).unwrap_or(0.0)
    }

    /// The GPU of the profile.
    fn measured_gpu(&self) -> Option<Device> {
        let name = self.profile.hardware.engines.iter().find(|name| name.starts_with("gpu"))?;
        let [write, read] = operations(&self.algorithm);
        let first = *self.points(name, &self.algorithm, write).first()?;
        // With many in flight its rate grows by what it does at once.
        let deep = self.profile.measurements.iter().filter(|found| {
            !found.loaded
                && (&found.engine, &found.algorithm, &found.operation, found.bytes)
                    == (&first.engine, &first.algorithm, &first.operation, first.bytes)
        });
        let most = deep.map(|found| found.bytes_per_second).fold(first.bytes_per_second, f64::max);
        let units = (most / first.bytes_per_second).round().clamp(1.0, f64::from(QUEUE_MAX));
        Some(Device {
            name: name.clone(),
            units: units as u32,
            queue_max: QUEUE_MAX,
            write: self.cost(name, &self.algorithm, write)?,
            read: self.cost(name, &self.algorithm, read)?,
            submit: Cost::fixed(first.cpu_ns),
            complete: Cost::fixed(0.0),
            interrupt: Cost::fixed(0.0),
            drift: Drift::None,
        })
    }
}

/// An engine whose caller has to share its CPU.
fn slowed(engine: Inline, times: f64) -> Inline {
    let slow = |cost| match cost {
        Cost::Points(points) => {
            Cost::Points(points.into_iter().map(|(bytes, ns)| (bytes, ns * times)).collect())
        }
        other => other,
    };
    Inline { write: slow(engine.write), read: slow(engine.read), ..engine }
}

/// The paper's card. It was measured page by page; a batch of several takes
/// several pages' time on one unit, and is submitted once.
fn qat() -> Device {
    let [card] = aca_sds::host().devices.try_into().expect("the paper's host has one card");
    let per_page = |cost: &Cost| Cost::Linear { fixed_ns: 0.0, per_byte_ns: cost.ns(PAGE) / PAGE as f64 };
    Device { write: per_page(&card.write), read: per_page(&card.read), queue_max: QUEUE_MAX, ..card }
}

/// The card of the EncFS paper.
fn gpu() -> Device {
    let card = strongroom_papers::gpu();
    let service = Cost::Linear { fixed_ns: card.launch_ns, per_byte_ns: 1e9 / card.bytes_per_second };
    Device {
        name: "gpu".to_owned(),
        units: GPU_UNITS,
        queue_max: QUEUE_MAX,
        write: service.clone(),
        read: service,
        submit: Cost::fixed(GPU_CPU_NS),
        complete: Cost::fixed(0.0),
        interrupt: Cost::fixed(0.0),
        drift: Drift::None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::profile::tests::{measurement, profile};

    /// Two suites on one engine, of which one takes ten times as long.
    pub(in crate::commands::whatif) fn known() -> Profile {
        let mut found = Vec::new();
        for (algorithm, factor) in [("xaes-256-gcm", 1.0), ("xchacha20-poly1305", 10.0)] {
            for operation in ["seal", "open"] {
                for bytes in [512u64, 4096, 65536] {
                    let ns = factor * (200.0 + bytes as f64);
                    found.push(measurement("cpu", algorithm, operation, bytes, ns));
                }
            }
        }
        profile(&["cpu"], found)
    }

    pub(in crate::commands::whatif) fn header() -> Header {
        Header { algorithm: "xaes-256-gcm".to_owned(), cpus: 2, ..Header::default() }
    }

    #[test]
    fn words_are_understood_and_others_refused() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        for word in ["suite=xchacha20-poly1305", "cpus=8", "qat", "gpu", "store=memory", "store=nvme"] {
            assert_eq!(Change::parse(word, &machine).map(|change| change.name()), Ok(word.to_owned()));
        }
        let others = [
            "suite=rot13",
            "suite=cascade",
            "suite=aes-xts-plain64",
            "suite=aes-ctr-plain64",
            "cpus=0",
            "cpus=257",
            "cpus",
            "fpga",
            "store=/no/such",
            "qat=1",
        ];
        for word in others {
            assert!(Change::parse(word, &machine).is_err(), "{word}");
        }
        let of = Header { algorithm: "cascade".to_owned(), ..header() };
        assert!(Machine::new(&of, &known, Settings::default()).is_err());
    }

    #[test]
    fn hosts_are_what_the_profile_and_the_papers_say() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let host = machine.host(None);
        assert_eq!((host.cpus, host.inline[0].write.ns(4096), host.devices.len()), (2, 4296.0, 0));
        let change = Change::parse("suite=xchacha20-poly1305", &machine).expect("known");
        assert!((machine.host(Some(&change)).inline[0].write.ns(4096) - 42_960.0).abs() < 1e-6);
        assert_eq!(machine.host(Some(&Change::Cpus(8))).cpus, 8);
        let card = &machine.host(Some(&Change::Qat)).devices[0];
        assert!((card.write.ns(65536) / card.write.ns(4096) - 16.0).abs() < 1e-6);
        let gpu = &machine.host(Some(&Change::Gpu)).devices[0];
        assert!(gpu.write.ns(0) > 10_000.0 && gpu.write.ns(1 << 20) < f64::from(1 << 20));
        assert_eq!((machine.usual().len(), machine.slowdown()), (6, 1.0));
        let busy = Header { daemon_cpu_ns: 1000, cpu_wait_ns: Some(1500), ..header() };
        let machine = Machine::new(&busy, &known, Settings::default()).expect("known");
        assert_eq!((machine.slowdown(), machine.batch_ns(4096, true)), (2.5, 4296.0));
        assert_eq!(machine.host(None).inline[0].write.ns(4096), 2.5 * 4296.0);
    }
}
