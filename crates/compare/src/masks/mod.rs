//! Keystream made ahead by a device (masks) against none, in turn on one vault: throughput, CPU time of the
//! daemon, and how often a mask was there. The rows are those of the EncFS++ paper's tables.

mod units;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use crate::common::Common;
use crate::cpu;
use crate::folder::Mix;
use crate::folder::mix;
use crate::result::{Document, Table};
use crate::statistics::{geometric_mean, median};
use crate::work;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};
use strongroom_harness::workspace;
use units::Units;

const LIMIT: Duration = Duration::from_secs(10 * 60);
const KIB: usize = 1 << 10;

#[derive(Args)]
pub(crate) struct MasksArgs {
    #[command(flatten)]
    common: Common,
    /// What makes the masks; `sim-masks`, which needs root: a device that takes nothing of the CPU
    #[arg(long, default_value = "gpu")]
    engine: String,
    /// Suites
    #[arg(long, value_delimiter = ',', default_values = ["serpent-256-poly1305", "cascade", "xaes-256-gcm", "xchacha20-poly1305"])]
    suites: Vec<String>,
    /// Only rows whose name contains one of these
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// Pairs of turns, of which the median counts
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Size of the large file, in MiB
    #[arg(long, default_value_t = 512)]
    file_mib: u64,
    /// CPUs for everything: the first so many [default: all]
    #[arg(long)]
    cpus: Option<usize>,
    /// One mask in so many is recomputed by the CPU, a power of two
    #[arg(long, default_value_t = 1024)]
    check: u32,
}

/// What is timed.
#[derive(Clone, Copy)]
enum Work {
    Write(usize),
    Read(usize),
    ReadRandom(usize),
    Mix(Mix, usize),
}

/// A row, and what its ratio has to be with Serpent and with the cascade.
struct Row {
    name: &'static str,
    work: Work,
    asked: Option<[f64; 2]>,
}

const ROWS: [Row; 13] = [
    Row { name: "write, 4 KiB", work: Work::Write(4 * KIB), asked: Some([1.3, 1.5]) },
    Row { name: "write, 64 KiB", work: Work::Write(64 * KIB), asked: Some([1.3, 1.5]) },
    Row { name: "write, 128 KiB", work: Work::Write(128 * KIB), asked: Some([1.3, 1.5]) },
    Row { name: "read, 4 KiB", work: Work::Read(4 * KIB), asked: Some([1.5, 2.0]) },
    Row { name: "read, 64 KiB", work: Work::Read(64 * KIB), asked: Some([1.5, 2.0]) },
    Row { name: "read, 128 KiB", work: Work::Read(128 * KIB), asked: Some([1.5, 2.0]) },
    Row { name: "random read, 4 KiB", work: Work::ReadRandom(4 * KIB), asked: Some([0.95, 0.95]) },
    Row { name: "fileserver, 1 thread", work: Work::Mix(Mix::Fileserver, 1), asked: None },
    Row { name: "fileserver, 2 threads", work: Work::Mix(Mix::Fileserver, 2), asked: None },
    Row { name: "fileserver, 4 threads", work: Work::Mix(Mix::Fileserver, 4), asked: None },
    Row { name: "webserver, 1 thread", work: Work::Mix(Mix::Webserver, 1), asked: None },
    Row { name: "webserver, 2 threads", work: Work::Mix(Mix::Webserver, 2), asked: None },
    Row { name: "webserver, 4 threads", work: Work::Mix(Mix::Webserver, 4), asked: None },
];

/// What pools that stay off by themselves may cost, in the geometric mean of all rows: the mount does the same
/// work then, and a row's pairs differ by more than that.
const OFF_MIN: f64 = 0.98;

/// One turn of one row.
#[derive(Clone, Copy, Debug)]
struct Turn {
    bytes_per_second: f64,
    /// Seconds of the daemon's CPU time for a GiB.
    cpu: f64,
    /// Share of blocks for which a mask was there.
    hits: f64,
    /// Seconds of CPU time for a GiB that the simulated device took, and that are in neither of the above.
    device: f64,
}

/// Turns without and with masks.
type Pair = [Turn; 2];

/// Measures everything, and says what is missed.
pub(crate) fn run(arguments: &MasksArgs) -> Result {
    if let Some(cpus) = arguments.cpus {
        bind(cpus)?;
    }
    let quick = arguments.common.quick;
    let scratch = Scratch::new(Some(&arguments.common.work), "bench-masks")?;
    let settings = |suite: &str| Settings {
        suite: Some(suite.to_owned()),
        engine: Some(arguments.engine.clone()),
        ..Settings::default()
    };
    let binary = match &arguments.common.binary {
        None if arguments.engine.starts_with("sim") => Some(workspace::build_with_test_engines()?),
        given => given.clone(),
    };
    let mut document = None;
    let mut missed = Vec::new();
    for suite in &arguments.suites {
        let subject = Subject::resolve(Kind::Strongroom, settings(suite), binary.as_deref())?;
        let base = scratch.make(suite)?;
        let vault = Vault::create(&subject, &base)?;
        let document = match &mut document {
            Some(document) => document,
            none => none.insert(Document::new("masks", vec![subject.version()?])),
        };
        let mut table = Table::new(
            suite,
            format!("{suite}: masks over none, medians of {} pairs (least to most)", arguments.pairs),
            &["row", "MB/s off", "MB/s on", "ratio", "CPU s/GiB off", "CPU s/GiB on", "CPU ratio", "there"],
        );
        let is_wanted = |row: &&Row| {
            arguments.only.is_empty() || arguments.only.iter().any(|part| row.name.contains(part.as_str()))
        };
        let mut medians = Vec::new();
        for row in ROWS.iter().filter(is_wanted) {
            let pairs = if quick { 1 } else { arguments.pairs.max(1) };
            let pairs = (0..pairs)
                .map(|pair| turns(&vault, row, arguments, pair))
                .collect::<Result<Vec<Pair>>>()
                .context(format!("{suite}, {}", row.name))?;
            table.push(cells(row, &pairs));
            missed.extend(shortfall(suite, row, &pairs));
            medians.push(median(&ratios(&pairs, |turn| turn.bytes_per_second)));
            for (at, side) in ["off", "on"].into_iter().enumerate() {
                let values = |of: fn(&Turn) -> f64| pairs.iter().map(|pair| of(&pair[at])).collect();
                let name = format!("{suite}, {}", row.name);
                document.sample(&name, side, "bytes_per_second", values(|turn| turn.bytes_per_second));
                document.sample(&name, side, "cpu_seconds_per_gib", values(|turn| turn.cpu));
                document.sample(&name, side, "hits", values(|turn| turn.hits));
                document.sample(&name, side, "device_cpu_seconds_per_gib", values(|turn| turn.device));
            }
            eprintln!("{suite}, {}: done", row.name);
        }
        if !pays(suite) && !medians.is_empty() {
            let mean = geometric_mean(&medians);
            table.push(mean_cells(mean));
            missed.extend(lost(suite, mean));
        }
        document.tables.push(table);
        fs::remove_dir_all(base)?;
    }
    let Some(mut document) = document else { return Ok(()) };
    document.remark = Some(remark(arguments));
    document.conclude(arguments.common.json.as_deref(), if quick { &[] } else { &missed })
}

fn remark(arguments: &MasksArgs) -> String {
    let simulated = match arguments.engine.as_str() {
        units::NAME => "; the device is simulated, and its CPU time is taken off",
        _ => "",
    };
    format!(
        "masks by {}, one in {} checked{simulated}; where masks do not pay the setting is `auto`",
        arguments.engine, arguments.check
    )
}

/// Whether masks pay with a suite; where they do not, they are to stay off by themselves.
fn pays(suite: &str) -> bool {
    matches!(suite, "serpent-256-poly1305" | "cascade")
}

/// The first CPUs, for this process and all that it starts.
fn bind(cpus: usize) -> Result {
    let mut set = rustix::thread::CpuSet::new();
    (0..cpus.max(1)).for_each(|cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set).context("binding to CPUs")
}

fn turns(vault: &Vault, row: &Row, arguments: &MasksArgs, pair: usize) -> Result<Pair> {
    let suite = vault.subject.label();
    let on = if arguments.suites.iter().any(|known| pays(known) && suite.contains(known.as_str())) {
        "masks=on"
    } else {
        "masks=auto"
    };
    let turn = |masks: &str| one(vault, row, arguments, masks, pair as u64);
    if pair.is_multiple_of(2) {
        Ok([turn("masks=off")?, turn(on)?])
    } else {
        let with = turn(on)?;
        Ok([turn("masks=off")?, with])
    }
}

/// A fresh mount, the row's work once, and what it cost.
fn one(vault: &Vault, row: &Row, arguments: &MasksArgs, masks: &str, seed: u64) -> Result<Turn> {
    let length = if arguments.common.quick { 32 } else { arguments.file_mib } << 20;
    let check = format!("check={}", arguments.check);
    let mut mount = vault.mount(MountOptions::new(LIMIT))?;
    let file = mount.path().join("large");
    let mut data = vec![0; 1 << 20];
    Random::new(seed).fill(&mut data);
    if matches!(row.work, Work::Read(_) | Work::ReadRandom(_)) {
        work::write(&file, length, 1 << 20, &mut data)?;
        mount.remount()?;
    }
    mount.set(&[masks, &check])?;
    let units = Units::of(mount.daemon())?;
    let mut marks = Vec::new();
    let mut mark = || -> Result {
        marks.push((Instant::now(), cpu::cpu_seconds(mount.daemon())?, units.cpu_seconds()?));
        Ok(())
    };
    let bytes = match row.work {
        Work::Mix(mix, jobs) => {
            let budget = Duration::from_millis(if arguments.common.quick { 200 } else { 1500 });
            mix::run(mount.path(), mix, jobs, budget, &mut mark)?.bytes
        }
        work => {
            mark()?;
            let bytes = plain(work, &file, length, &mut data, seed)?;
            mark()?;
            bytes
        }
    };
    let [(began, cpu_before, units_before), (ended, cpu_after, units_after)] = marks[..] else {
        unreachable!("two marks")
    };
    let by_units = units_after - units_before;
    let hits = hits(&mount)?;
    if file.exists() {
        fs::remove_file(&file)?;
    }
    mount.unmount()?;
    let gib = bytes as f64 / (1u64 << 30) as f64;
    Ok(Turn {
        bytes_per_second: bytes as f64 / ((ended - began).as_secs_f64() - units.passed(by_units)),
        cpu: (cpu_after - cpu_before - by_units) / gib,
        hits,
        device: by_units / gib,
    })
}

fn plain(work: Work, file: &Path, length: u64, data: &mut [u8], seed: u64) -> Result<u64> {
    match work {
        Work::Write(call) => work::write(file, length, call, data).map(|_| length),
        Work::Read(call) => work::read(file, length, call, data).map(|_| length),
        Work::ReadRandom(call) => {
            let reads = length / call as u64 / 2;
            work::read_random(file, length, reads, seed)?;
            Ok(reads * call as u64)
        }
        Work::Mix(..) => unreachable!("a mix times itself"),
    }
}

/// The share of blocks for which a mask was there.
fn hits(mount: &Mount) -> Result<f64> {
    let status = mount.status()?;
    ensure!(status.is_some(), "the mount gives no status");
    let masks = status.as_ref().map(|status| &status["mounts"][0]["masks"]);
    let sum = |name: &str| {
        let of = |kind: &str| masks.and_then(|masks| masks[kind][name].as_f64()).unwrap_or(0.0);
        of("writes") + of("reads")
    };
    let (hits, misses) = (sum("hit_bytes"), sum("miss_bytes"));
    Ok(if hits + misses > 0.0 { hits / (hits + misses) } else { 0.0 })
}

fn ratios(pairs: &[Pair], of: fn(&Turn) -> f64) -> Vec<f64> {
    pairs.iter().map(|[off, on]| of(on) / of(off).max(f64::MIN_POSITIVE)).collect()
}

fn cells(row: &Row, pairs: &[Pair]) -> [String; 8] {
    let side = |at: usize, of: fn(&Turn) -> f64| {
        median(&pairs.iter().map(|pair| of(&pair[at])).collect::<Vec<f64>>())
    };
    let spread = |values: Vec<f64>| {
        let (least, most) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), value| (value.min(least), value.max(most)));
        format!("{:.2} ({least:.2} to {most:.2})", median(&values))
    };
    let rate = |turn: &Turn| turn.bytes_per_second;
    [
        row.name.to_owned(),
        format!("{:.0}", side(0, rate) / 1e6),
        format!("{:.0}", side(1, rate) / 1e6),
        spread(ratios(pairs, rate)),
        format!("{:.2}", side(0, |turn| turn.cpu)),
        format!("{:.2}", side(1, |turn| turn.cpu)),
        spread(ratios(pairs, |turn| turn.cpu)),
        format!("{:.0} %", 100.0 * side(1, |turn| turn.hits)),
    ]
}

/// The last row of a suite whose pools are to stay off.
fn mean_cells(mean: f64) -> [String; 8] {
    let mut cells = [const { String::new() }; 8];
    (cells[0], cells[3]) = ("geometric mean".to_owned(), format!("{mean:.3}"));
    cells
}

/// What a mount loses whose pools are to stay off.
fn lost(suite: &str, mean: f64) -> Option<String> {
    (mean < OFF_MIN).then(|| format!("{suite}, geometric mean: {mean:.3}, asked {OFF_MIN:.2}"))
}

/// A row that reaches less than what is asked of masks.
fn shortfall(suite: &str, row: &Row, pairs: &[Pair]) -> Option<String> {
    let ratio = median(&ratios(pairs, |turn| turn.bytes_per_second));
    let asked = match (suite, row.asked) {
        ("serpent-256-poly1305", Some([asked, _])) | ("cascade", Some([_, asked])) => asked,
        _ => return None,
    };
    (ratio < asked).then(|| format!("{suite}, {}: {ratio:.2}, asked {asked:.2}", row.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_below_what_is_asked_is_missed() {
        let turn = |rate| Turn { bytes_per_second: rate, cpu: 1.0, hits: 1.0, device: 0.0 };
        let pairs = |ratio: f64| vec![[turn(100.0), turn(100.0 * ratio)]; 3];
        let (write, mixed) = (&ROWS[0], &ROWS[7]);
        assert_eq!(shortfall("cascade", write, &pairs(1.5)), None);
        assert!(shortfall("cascade", write, &pairs(1.4)).is_some());
        assert_eq!(shortfall("serpent-256-poly1305", write, &pairs(1.4)), None);
        assert_eq!(shortfall("cascade", mixed, &pairs(0.5)), None, "reported alone");
        assert_eq!(shortfall("xaes-256-gcm", write, &pairs(0.5)), None, "all rows together count");
        assert!(lost("xaes-256-gcm", 0.979).is_some() && lost("xaes-256-gcm", 0.98).is_none());
        assert_eq!(cells(write, &pairs(2.0))[3], "2.00 (2.00 to 2.00)");
    }
}
