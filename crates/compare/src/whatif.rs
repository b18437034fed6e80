//! `strongroom whatif` against what happens: a load is recorded under one suite, predicted under others, and
//! then run under those.
//!
//! Each load and each suite is a pair. All suites of a load are mounted at once, each as several vaults, since two
//! mounts of one suite differ by a tenth in where their memory lies. In every round the base is
//! recorded anew and each of the others has its turn, for a moment, so that what else the machine does meets
//! all of them; who begins changes from round to round. A turn begins with some of the same load that is not
//! counted, so that none of them is measured on CPUs that were just woken. Judged are medians: the error of the
//! predicted speed, of the predicted CPU time of the daemon, and whether the faster of both suites is named;
//! and what recording takes from the speed, in pairs of slices that follow each other on one mount.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::result::{Machine, commit};
use crate::statistics::median;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};

const MOUNT_LIMIT: Duration = Duration::from_secs(30 * 60);
const COMMAND_LIMIT: Duration = Duration::from_secs(10 * 60);
/// What is recorded, and what is predicted.
const SUITES: [&str; 5] =
    ["xaes-256-gcm", "xchacha20-poly1305", "aegis-256x2", "serpent-256-poly1305", "cascade"];
const BASE: &str = SUITES[0];
const OTHERS: [&str; 4] = [SUITES[1], SUITES[2], SUITES[3], SUITES[4]];
/// The bounds that medians of all pairs have to keep.
const SPEED_ERROR_MAX: f64 = 0.15;
const CPU_ERROR_MAX: f64 = 0.20;
const COST_MAX: f64 = 0.01;
/// Pairs of which the faster suite has to be named, of twelve.
const NAMED_MIN: usize = 10;
/// Two that differ by less are not told apart.
const SAME: f64 = 0.05;
/// Vaults of each suite, which take turns from round to round.
const VAULTS: usize = 3;
/// Bytes of the file that a thread works on.
const FILE: u64 = 16 << 20;

/// Options of `whatif`.
#[derive(Args)]
pub struct WhatIfArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the stores lie
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    /// How often each suite has its turn
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Milliseconds of each turn
    #[arg(long, default_value_t = 400)]
    milliseconds: u64,
    /// Seconds that `tune` measures for
    #[arg(long, default_value_t = 20)]
    tune: u64,
    /// Pairs of slices, with and without recording; 0 leaves that out
    #[arg(long, value_name = "PAIRS", default_value_t = 60)]
    cost: usize,
    /// Only what recording costs
    #[arg(long)]
    only_cost: bool,
    /// Prints, and judges nothing
    #[arg(long)]
    unjudged: bool,
    /// Writes the report there too, load by load
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the loads that FILE has from a run of this commit on this machine that was stopped
    #[arg(long, requires = "json")]
    resume: bool,
}

/// A load: threads that ask again as soon as they are answered.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    threads: usize,
    bytes: usize,
    /// One request in so many is a read; 0 for none, 1 for all.
    reads: u64,
    /// One write in so many is followed by `fsync`; 0 for none.
    syncs: u64,
}

const LOADS: [Load; 3] = [
    Load { name: "write 256 KiB", threads: 1, bytes: 256 << 10, reads: 0, syncs: 0 },
    Load { name: "read 4 KiB", threads: 1, bytes: 4 << 10, reads: 1, syncs: 0 },
    Load { name: "mix 32 KiB, 3 threads", threads: 3, bytes: 32 << 10, reads: 2, syncs: 16 },
];

/// What a turn came to.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Requests a second.
    rate: f64,
    /// CPU seconds of the daemon for a request.
    cpu: f64,
}

/// One load under one suite.
struct Pair {
    load: &'static str,
    suite: &'static str,
    predicted: Vec<f64>,
    measured: Vec<f64>,
    predicted_cpu: Vec<f64>,
    measured_cpu: Vec<f64>,
}

impl Pair {
    fn speed_error(&self) -> f64 {
        (median(&self.predicted) / median(&self.measured) - 1.0).abs()
    }

    fn cpu_error(&self) -> f64 {
        (median(&self.predicted_cpu) / median(&self.measured_cpu) - 1.0).abs()
    }

    /// Whether the prediction names the one that is faster, or says that neither is.
    fn is_named(&self) -> bool {
        let side = |speed: f64| match speed {
            speed if speed > 1.0 + SAME => 1,
            speed if speed < 1.0 - SAME => -1,
            _ => 0,
        };
        let (predicted, measured) = (side(median(&self.predicted)), side(median(&self.measured)));
        // What is on the edge of no difference may be on either side of it.
        predicted == measured || predicted * measured == 0 && self.speed_error() < SAME
    }
}

/// Measures everything and judges it.
///
/// # Errors
/// What fails, and where a bound is not kept.
pub fn run(arguments: &WhatIfArgs) -> Result {
    let scratch = Scratch::new(Some(&arguments.work), "what")?.guarded()?;
    let subject = |suite: &str| {
        let settings =
            Settings { suite: Some(suite.to_owned()), engine: Some("cpu".to_owned()), ..Settings::default() };
        Subject::resolve(Kind::Strongroom, settings, arguments.binary.as_deref())
    };
    let base = subject(BASE)?;
    let Subject::Strongroom { binary, .. } = &base else { return Err(Failure::new("no strongroom")) };
    let program = Program { binary: binary.clone(), state: scratch.make("state")? };
    let mut pairs = match (&arguments.json, arguments.resume) {
        (Some(file), true) if file.exists() => before(file)?,
        _ => Vec::new(),
    };
    let is_known = |load: &Load, pairs: &[Pair]| pairs.iter().any(|pair| pair.load == load.name);
    let left = LOADS.iter().filter(|load| !arguments.only_cost && !is_known(load, &pairs)).count();
    let mut progress = Progress::new(left * arguments.rounds.max(1) * SUITES.len() + arguments.cost);
    if left > 0 {
        let seconds = arguments.tune.to_string();
        let words: Vec<&str> =
            ["tune"].into_iter().chain(SUITES).chain(["--engine", "cpu", "--seconds", &seconds]).collect();
        program.run(&words)?;
        for load in &LOADS {
            if is_known(load, &pairs) {
                continue;
            }
            pairs.extend(measure(&program, &scratch, load, &subject, arguments, &mut progress)?);
            store(arguments, &pairs, None)?;
        }
    }
    let cost = match arguments.cost {
        0 => None,
        count => {
            let vault = Vault::create(&base, &scratch.make("cost")?)?;
            Some(recording(&program, &vault, count, &mut progress)?)
        }
    };
    progress.finish();
    if !pairs.is_empty() {
        print(&pairs);
    }
    if let Some(remark) = progress.remark(None) {
        println!("{remark}");
    }
    if let Some([speed, cpu]) = cost {
        println!(
            "recording costs {:.2} % of the speed and {:.2} % of the daemon's CPU time, medians of {} pairs",
            speed * 100.0,
            cpu * 100.0,
            arguments.cost
        );
    }
    store(arguments, &pairs, cost)?;
    if arguments.unjudged {
        return Ok(());
    }
    let errors = |of: fn(&Pair) -> f64| pairs.iter().map(of).collect::<Vec<_>>();
    if !pairs.is_empty() {
        let (speed, cpu) = (median(&errors(Pair::speed_error)), median(&errors(Pair::cpu_error)));
        let named = pairs.iter().filter(|pair| pair.is_named()).count();
        let (is_speed_met, is_cpu_met) = (speed <= SPEED_ERROR_MAX, cpu <= CPU_ERROR_MAX);
        ensure!(is_speed_met, "the median error of the speed is {:.0} %", speed * 100.0);
        ensure!(is_cpu_met, "the median error of the CPU time is {:.0} %", cpu * 100.0);
        ensure!(named >= NAMED_MIN, "the faster suite is named in {named} of {} pairs", pairs.len());
    }
    ensure!(cost.is_none_or(|[speed, _]| speed < COST_MAX), "recording costs 1 % of the speed or more");
    Ok(())
}

struct Program {
    binary: PathBuf,
    state: PathBuf,
}

impl Program {
    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(words).env("XDG_STATE_HOME", &self.state);
        command::output(&mut command, COMMAND_LIMIT)
    }

    /// Has `work` recorded into `file`.
    fn recorded(&self, mount: &Mount, file: &Path, work: impl FnOnce() -> Result<Turn>) -> Result<Turn> {
        self.trace("start", mount, None)?;
        let turn = work()?;
        self.trace("stop", mount, Some(file))?;
        Ok(turn)
    }

    fn trace(&self, what: &str, mount: &Mount, file: Option<&Path>) -> Result<String> {
        let directory = mount.path().to_string_lossy().into_owned();
        let mut words = vec!["trace", what, &directory];
        let file = file.map(|file| file.to_string_lossy().into_owned());
        if let Some(file) = &file {
            words.extend(["-o", file]);
        }
        self.run(&words)
    }
}

fn measure(
    program: &Program,
    scratch: &Scratch,
    load: &'static Load,
    subject: &dyn Fn(&str) -> Result<Subject>,
    arguments: &WhatIfArgs,
    progress: &mut Progress,
) -> Result<Vec<Pair>> {
    let length = Duration::from_millis(arguments.milliseconds);
    let place = |suite: &str| format!("{}-{suite}", load.name.replace([' ', ','], "-"));
    let mounted = |suite: &str, number: usize| -> Result<Mount> {
        let directory = scratch.make(&format!("{}-{number}", place(suite)))?;
        let mount = Vault::create(&subject(suite)?, &directory)?.mount(MountOptions::new(MOUNT_LIMIT))?;
        load.prepare(mount.path())?;
        load.run(&mount, length)?;
        Ok(mount)
    };
    let all = |number| SUITES.iter().map(|suite| mounted(suite, number)).collect::<Result<Vec<_>>>();
    let mounts = (0..VAULTS).map(all).collect::<Result<Vec<_>>>()?;
    let mut pairs: Vec<Pair> = OTHERS
        .iter()
        .map(|suite| Pair {
            load: load.name,
            suite,
            predicted: Vec::new(),
            measured: Vec::new(),
            predicted_cpu: Vec::new(),
            measured_cpu: Vec::new(),
        })
        .collect();
    for round in 0..arguments.rounds.max(1) {
        let file = scratch.path().join(format!("{}-{round}.trace", place("t")));
        let mut turns = [Turn::default(); SUITES.len()];
        for turn in 0..SUITES.len() {
            let suite = (turn + round) % SUITES.len();
            let mount = &mounts[round % VAULTS][suite];
            progress.turn(load.name, SUITES[suite]);
            turns[suite] = match suite {
                0 => program.recorded(mount, &file, || load.run(mount, length))?,
                _ => load.run(mount, length)?,
            };
        }
        let told = predictions(program, &file)?;
        fs::remove_file(&file).context(file.display())?;
        let [was, others @ ..] = turns;
        for (pair, is) in pairs.iter_mut().zip(others) {
            let (speed, cpu) = told(pair.suite)?;
            pair.predicted.push(speed);
            pair.predicted_cpu.push(cpu);
            pair.measured.push(is.rate / was.rate);
            pair.measured_cpu.push(is.cpu / was.cpu);
        }
    }
    mounts.into_iter().flatten().try_for_each(Mount::unmount)?;
    Ok(pairs)
}

/// Speed and CPU time of each suite, by a trace.
fn predictions(program: &Program, file: &Path) -> Result<impl Fn(&str) -> Result<(f64, f64)>> {
    let adds: Vec<String> = OTHERS.iter().map(|suite| format!("suite={suite}")).collect();
    let file = file.to_string_lossy().into_owned();
    let mut words = vec!["whatif", &file, "--engine", "cpu", "--json"];
    words.extend(adds.iter().flat_map(|add| ["--add", add]));
    let document: Value = serde_json::from_str(&program.run(&words)?)?;
    Ok(move |suite: &str| {
        let rows = document["rows"].as_array().into_iter().flatten();
        let row = rows.into_iter().find(|row| row["add"] == format!("suite={suite}"));
        let number = |name: &str| row.and_then(|row| row[name].as_f64());
        number("speed").zip(number("cpu")).ok_or_else(|| Failure::new(format!("nothing is said of {suite}")))
    })
}

impl Load {
    fn file(&self, directory: &Path, thread: usize) -> Result<File> {
        let mut options = File::options();
        // Around the page cache: each request is one of the daemon's.
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::DIRECT.bits() as i32);
        let path = directory.join(format!("file {thread}"));
        options.open(&path).context(path.display())
    }

    fn prepare(&self, directory: &Path) -> Result {
        for thread in 0..self.threads {
            let file = self.file(directory, thread)?;
            let piece = vec![1; 1 << 20];
            (0..FILE >> 20).try_for_each(|at| file.write_all_at(&piece, at << 20))?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// Works for so long, after some work that does not count.
    fn run(&self, mount: &Mount, length: Duration) -> Result<Turn> {
        self.all(mount, length / 4)?;
        let before = daemon_cpu(mount)?;
        let began = Instant::now();
        let requests = self.all(mount, length)? as f64;
        let elapsed = began.elapsed().as_secs_f64();
        Ok(Turn { rate: requests / elapsed, cpu: (daemon_cpu(mount)? - before) / requests.max(1.0) })
    }

    /// Works with all threads for so long: how many requests they made.
    fn all(&self, mount: &Mount, length: Duration) -> Result<u64> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| scope.spawn(move || self.work(mount.path(), thread, length)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("work does not panic")).sum()
        })
    }

    fn work(&self, directory: &Path, thread: usize, length: Duration) -> Result<u64> {
        let file = self.file(directory, thread)?;
        let mut piece = vec![2; self.bytes];
        let began = Instant::now();
        let mut done = 0u64;
        while done == 0 || began.elapsed() < length {
            // Each place once before any comes again.
            let at = done * 7 % (FILE / self.bytes as u64) * self.bytes as u64;
            if self.reads > 0 && done.is_multiple_of(self.reads) {
                file.read_exact_at(&mut piece, at)?;
            } else {
                file.write_all_at(&piece, at)?;
            }
            done += 1;
            if self.syncs > 0 && done.is_multiple_of(self.syncs) {
                file.sync_data()?;
            }
        }
        Ok(done)
    }
}

/// CPU seconds that the daemon of a mount has had: proc_pid_schedstat(5) of all its threads, in nanoseconds,
/// since those of proc_pid_stat(5) are ticks.
fn daemon_cpu(mount: &Mount) -> Result<f64> {
    let pid = mount.daemon().ok_or_else(|| Failure::new("no daemon"))?;
    let directory = format!("/proc/{}/task", pid.as_raw_nonzero());
    let mut sum = 0.0;
    for thread in fs::read_dir(&directory).context(&directory)?.flatten() {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(sum / 1e9)
}

/// What recording takes from the speed, and of the daemon's CPU time for a request besides: slices follow each other on one mount, each second one recorded, the
/// order of each pair turned.
fn recording(program: &Program, vault: &Vault, pairs: usize, progress: &mut Progress) -> Result<[f64; 2]> {
    const SLICE: Duration = Duration::from_millis(250);
    let load = Load { name: "cost", threads: 1, bytes: 4 << 10, reads: 2, syncs: 0 };
    let mount = vault.mount(MountOptions::new(MOUNT_LIMIT))?;
    load.prepare(mount.path())?;
    load.run(&mount, SLICE)?;
    let file = vault.place.log.with_extension("trace");
    let (mut slower, mut dearer) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
    for pair in 0..pairs {
        progress.turn("what recording costs", "both");
        let recorded = || -> Result<Turn> {
            let turn = program.recorded(&mount, &file, || load.run(&mount, SLICE))?;
            fs::remove_file(&file)?;
            Ok(turn)
        };
        let plain = || load.run(&mount, SLICE);
        let (with, without) = if pair % 2 == 0 {
            let with = recorded()?;
            (with, plain()?)
        } else {
            let without = plain()?;
            (recorded()?, without)
        };
        slower.push(1.0 - with.rate / without.rate);
        dearer.push(with.cpu / without.cpu - 1.0);
    }
    mount.unmount()?;
    Ok([median(&slower), median(&dearer)])
}

/// The loads that a run has measured which was stopped: each figure is its median.
fn before(file: &Path) -> Result<Vec<Pair>> {
    let document: Value = serde_json::from_str(&fs::read_to_string(file).context(file.display())?)?;
    ensure!(
        document["of"] == here(),
        "{}: of another machine or commit, {}; measure anew without --resume",
        file.display(),
        document["of"]
    );
    let rows = document["pairs"].as_array().into_iter().flatten();
    let pair = |row: &Value| {
        let number = |name: &str| row[name].as_f64().map(|value| vec![value]);
        Some(Pair {
            load: LOADS.iter().find(|load| row["load"] == load.name)?.name,
            suite: OTHERS.iter().find(|suite| row["suite"] == **suite)?,
            predicted: number("predicted")?,
            measured: number("measured")?,
            predicted_cpu: number("predicted_cpu")?,
            measured_cpu: number("measured_cpu")?,
        })
    };
    rows.map(|row| pair(row).ok_or_else(|| Failure::new(format!("{}: not a result", file.display()))))
        .collect()
}

/// What makes two runs comparable.
fn here() -> Value {
    json!({ "machine": Machine::this().line(), "commit": commit() })
}

fn store(arguments: &WhatIfArgs, pairs: &[Pair], cost: Option<[f64; 2]>) -> Result {
    let Some(file) = &arguments.json else { return Ok(()) };
    let text = serde_json::to_string_pretty(&document(pairs, cost)).expect("text keys");
    fs::write(file, text).context(file.display())
}

fn print(pairs: &[Pair]) {
    println!("| load | suite | speed, predicted | measured | CPU, predicted | measured | faster one named |");
    println!("|---|---|---|---|---|---|---|");
    for pair in pairs {
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
            pair.load,
            pair.suite,
            median(&pair.predicted),
            median(&pair.measured),
            median(&pair.predicted_cpu),
            median(&pair.measured_cpu),
            if pair.is_named() { "yes" } else { "no" }
        );
    }
    let errors = |of: fn(&Pair) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>()) * 100.0;
    let named = pairs.iter().filter(|pair| pair.is_named()).count();
    println!(
        "median error: speed {:.1} %, CPU {:.1} %; the faster suite named in {named} of {}",
        errors(Pair::speed_error),
        errors(Pair::cpu_error),
        pairs.len()
    );
}

fn document(pairs: &[Pair], cost: Option<[f64; 2]>) -> Value {
    let row = |pair: &Pair| {
        json!({
            "load": pair.load, "suite": pair.suite,
            "predicted": median(&pair.predicted), "measured": median(&pair.measured),
            "predicted_cpu": median(&pair.predicted_cpu), "measured_cpu": median(&pair.measured_cpu),
            "named": pair.is_named(),
        })
    };
    json!({
        "of": here(),
        "pairs": pairs.iter().map(row).collect::<Vec<_>>(),
        "recording": cost.map(|[speed, cpu]| json!({ "speed": speed, "cpu": cpu })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(predicted: f64, measured: f64) -> Pair {
        Pair {
            load: "l",
            suite: "s",
            predicted: vec![predicted],
            measured: vec![measured],
            predicted_cpu: vec![1.0],
            measured_cpu: vec![2.0],
        }
    }

    #[test]
    fn a_run_that_was_stopped_is_gone_on_with() -> Result {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("result");
        let named = Pair { load: LOADS[1].name, suite: OTHERS[2], ..pair(0.5, 0.6) };
        fs::write(&file, serde_json::to_string(&document(&[named], None))?)?;
        let again = before(&file)?;
        assert_eq!((again.len(), again[0].load, again[0].suite), (1, LOADS[1].name, OTHERS[2]));
        assert_eq!((&again[0].predicted, &again[0].measured_cpu), (&vec![0.5], &vec![2.0]));
        fs::write(&file, serde_json::to_string(&document(&[pair(0.5, 0.6)], None))?)?;
        assert!(before(&file).is_err(), "no such load");
        let mut elsewhere = document(&[], None);
        elsewhere["of"]["machine"] = "another".into();
        fs::write(&file, serde_json::to_string(&elsewhere)?)?;
        assert!(before(&file).is_err_and(|failure| failure.to_string().contains("another machine")));
        Ok(())
    }

    #[test]
    fn a_prediction_names_the_faster_one_or_does_not() {
        for (predicted, measured, named) in
            [(0.5, 0.9, true), (0.5, 1.2, false), (0.97, 1.02, true), (1.04, 1.06, true), (1.0, 1.3, false)]
        {
            assert_eq!(pair(predicted, measured).is_named(), named, "{predicted} {measured}");
        }
        assert!((pair(1.1, 1.0).speed_error() - 0.1).abs() < 1e-9);
        assert!((pair(1.1, 1.0).cpu_error() - 0.5).abs() < 1e-9);
    }
}
