//! `bench crypto`: how fast each engine encrypts and decrypts, as a table in
//! the manner of `cryptsetup benchmark`.

pub(crate) mod file;
mod table;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use strongroom_bench::{Case, Effort, Figure, Load, measure, operations};
use strongroom_engine::{Algorithm, Engine};

use super::engines::is_typical;
use crate::args::engines::{BenchCryptoArgs, CpuLoad};
use crate::compose;
use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;
use crate::profile::file as profile_file;
use crate::progress::Steps;
use crate::report::Output;

/// Sizes when none are named.
const SIZES: [usize; 2] = [4 << 10, 64 << 10];
/// The largest that may be named.
const SIZE_MAX: u64 = 64 << 20;
/// Most threads that may be named.
const THREADS_MAX: usize = 1024;

/// For a figure on an idle machine.
const IDLE: Effort =
    Effort { sample: Duration::from_millis(5), samples: 15, limit: Duration::from_millis(400) };
/// A sample spans several time slices, of which the system's are some
/// milliseconds long.
const LOADED: Effort =
    Effort { sample: Duration::from_millis(60), samples: 7, limit: Duration::from_millis(1500) };
const QUICK: Effort =
    Effort { sample: Duration::from_millis(2), samples: 9, limit: Duration::from_millis(100) };

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: String,
    pub(super) key_bits: usize,
    pub(super) bytes: usize,
    pub(super) engine: String,
    pub(super) threads: usize,
    /// A busy thread ran on each CPU besides.
    pub(super) loaded: bool,
    pub(super) encrypt: FigureReport,
    pub(super) decrypt: FigureReport,
}

/// What was found in one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FigureReport {
    /// Of all threads together; median, and the quartiles.
    pub(super) bytes_per_second: f64,
    pub(super) bytes_per_second_low: f64,
    pub(super) bytes_per_second_high: f64,
    /// Time of a portion on one thread.
    pub(super) portion_ns: f64,
    /// CPU time of a portion.
    pub(super) cpu_ns: f64,
    pub(super) samples: usize,
}

impl From<Figure> for FigureReport {
    fn from(figure: Figure) -> FigureReport {
        FigureReport {
            bytes_per_second: figure.bytes_per_second.median,
            bytes_per_second_low: figure.bytes_per_second.low,
            bytes_per_second_high: figure.bytes_per_second.high,
            portion_ns: figure.batch_ns.median,
            cpu_ns: figure.cpu_ns.median,
            samples: figure.samples,
        }
    }
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    cpu: String,
    cpus: u64,
    results: Vec<Row>,
}

/// What one row is about.
struct Wanted {
    engine: Arc<dyn Engine>,
    case: Case,
    loaded: bool,
}

/// Measures, and prints each row when it is there.
///
/// # Errors
/// Usage when nothing is meant by the arguments; what an engine failed with.
pub(crate) fn run(args: &BenchCryptoArgs, output: Output) -> Result<Exit> {
    let wanted = wanted(args)?;
    let names: Vec<String> = compose::engine_names(&engines(args)?);
    let hardware = profile_file::hardware(&names);
    let mut results = Vec::with_capacity(wanted.len());
    let steps = Steps::begin(wanted.len() as u64);
    let display = Display::of(std::io::stdout());
    let layout = table::layout(display);
    let print = |line: &str| -> Result<()> {
        steps
            .above(|| {
                let mut out = std::io::stdout().lock();
                out.write_all(display.fit(line).as_bytes()).and_then(|()| out.flush())
            })
            .map_err(|error| Failure::new(Exit::Other, format!("standard output: {error}")))
    };
    match (output.json, args.csv) {
        (true, _) => {}
        (false, true) => print(table::CSV_HEADER)?,
        (false, false) => print(&table::header(&hardware.cpu, hardware.cpus, &layout))?,
    }
    let mut load: Option<Load> = None;
    for Wanted { engine, case, loaded } in &wanted {
        match (*loaded, &load) {
            (true, None) => load = Some(Load::on(hardware.cpus as usize)),
            (false, Some(_)) => load = None,
            _ => {}
        }
        steps.next(&format!("{} on {}", case.algorithm, engine.name()));
        let effort = match (args.quick, loaded) {
            (true, false) => QUICK,
            (true, true) => Effort { samples: 3, ..LOADED },
            (false, false) => IDLE,
            (false, true) => LOADED,
        };
        let row = row(engine, *case, effort, *loaded)?;
        match (output.json, args.csv) {
            (true, _) => {}
            (false, true) => print(&table::csv(&row))?,
            (false, false) => print(&layout.row(&table::cells(&row)))?,
        }
        results.push(row);
    }
    drop(load);
    steps.finish();
    if output.json {
        let document = Document {
            schema: "strongroom.bench-crypto/1",
            version: env!("CARGO_PKG_VERSION"),
            cpu: hardware.cpu,
            cpus: hardware.cpus,
            results,
        };
        output.print(&document, |_| String::new())?;
    }
    Ok(Exit::Done)
}

fn row(engine: &Arc<dyn Engine>, case: Case, effort: Effort, loaded: bool) -> Result<Row> {
    let figure = |operation| {
        let figure = measure(engine, Case { operation, ..case }, effort);
        figure.map(FigureReport::from).map_err(|error| {
            Failure::new(Exit::Other, format!("{} on {}: {error}", case.algorithm, engine.name()))
        })
    };
    let [towards, from] = operations(case.algorithm);
    Ok(Row {
        algorithm: case.algorithm.to_string(),
        key_bits: case.key_len * 8,
        bytes: case.bytes,
        engine: engine.name().to_owned(),
        threads: case.threads,
        loaded,
        encrypt: figure(towards)?,
        decrypt: figure(from)?,
    })
}

/// The engines that are named, or all of this CPU, each for what is its own.
fn engines(args: &BenchCryptoArgs) -> Result<Vec<Arc<dyn Engine>>> {
    if args.engine.is_empty() {
        return compose::engines(None);
    }
    let mut engines = Vec::new();
    for name in &args.engine {
        engines.extend(compose::engines(Some(name))?);
    }
    Ok(engines)
}

/// The algorithms that are named, wholly or by a part.
pub(super) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>> {
    if names.is_empty() {
        return Ok(Algorithm::all().filter(|algorithm| is_typical(*algorithm)).collect());
    }
    let mut found: Vec<Algorithm> = Vec::new();
    for name in names {
        let known = match name.parse() {
            Ok(algorithm) => vec![algorithm],
            Err(_) => {
                let meant =
                    |algorithm: &Algorithm| is_typical(*algorithm) && algorithm.to_string().contains(name);
                Algorithm::all().filter(meant).collect()
            }
        };
        if known.is_empty() {
            return Err(Failure::usage(format!("there is no algorithm `{name}`"))
                .hint("`strongroom engines --all` lists them."));
        }
        found.extend(known.into_iter().filter(|algorithm| !found.contains(algorithm)).collect::<Vec<_>>());
    }
    Ok(found)
}

fn sizes(args: &BenchCryptoArgs, algorithms: &[Algorithm]) -> Result<Vec<usize>> {
    let has_sectors = algorithms.iter().any(|algorithm| matches!(algorithm, Algorithm::Sector(_)));
    for size in &args.size {
        if !(1..=SIZE_MAX).contains(size) {
            return Err(Failure::usage(format!("--size {size}: from 1 byte to 64MiB")));
        }
        if has_sectors && !size.is_multiple_of(512) {
            return Err(Failure::usage(format!(
                "--size {size}: ciphers for sectors take multiples of 512 bytes"
            )));
        }
    }
    Ok(match (args.size.is_empty(), args.quick) {
        (false, _) => args.size.iter().map(|size| *size as usize).collect(),
        (true, true) => vec![SIZES[1]],
        (true, false) => SIZES.to_vec(),
    })
}

fn key_lens(args: &BenchCryptoArgs, algorithm: Algorithm) -> Vec<usize> {
    let lens = algorithm.key_lens();
    match (args.key_size.is_empty(), args.quick) {
        (false, _) => lens.iter().copied().filter(|len| args.key_size.contains(&(len * 8))).collect(),
        (true, true) => lens.last().copied().into_iter().collect(),
        (true, false) => lens.to_vec(),
    }
}

/// Every row, those on an idle machine first.
fn wanted(args: &BenchCryptoArgs) -> Result<Vec<Wanted>> {
    let (engines, algorithms) = (engines(args)?, algorithms(&args.algorithms)?);
    let sizes = sizes(args, &algorithms)?;
    let threads = if args.threads.is_empty() { vec![1] } else { args.threads.clone() };
    if let Some(wrong) = threads.iter().find(|threads| !(1..=THREADS_MAX).contains(*threads)) {
        return Err(Failure::usage(format!("--threads {wrong}: from 1 to {THREADS_MAX}")));
    }
    let loads: &[bool] = match args.load {
        CpuLoad::Idle => &[false],
        CpuLoad::Loaded => &[true],
        CpuLoad::Both => &[false, true],
    };
    let mut wanted = Vec::new();
    for &loaded in loads {
        for &algorithm in &algorithms {
            for key_len in key_lens(args, algorithm) {
                for &bytes in &sizes {
                    let having = |engine: &&Arc<dyn Engine>| {
                        engine.capability(algorithm, operations(algorithm)[0]).is_some()
                    };
                    for engine in engines.iter().filter(having) {
                        for &threads in &threads {
                            let case = Case {
                                algorithm,
                                key_len,
                                operation: operations(algorithm)[0],
                                bytes,
                                segment_bytes: bytes,
                                sector_bytes: 4096,
                                threads,
                                in_flight: 1,
                            };
                            wanted.push(Wanted { engine: Arc::clone(engine), case, loaded });
                        }
                    }
                }
            }
        }
    }
    if wanted.is_empty() {
        return Err(Failure::usage("no engine has this algorithm with a key of this size")
            .hint("Key sizes are in bits: 256 for authenticated ciphers, 128 to 256 for CBC and CTR, 256 to 512 for XTS."));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parsed(line: &str) -> BenchCryptoArgs {
        let words = ["strongroom", "bench", "crypto"].into_iter().chain(line.split_whitespace());
        match crate::args::Cli::try_parse_from(words).expect("valid").command {
            crate::args::Command::Bench(crate::args::BenchCommand::Crypto(args)) => args,
            _ => panic!("another command"),
        }
    }

    fn count(line: &str) -> usize {
        wanted(&parsed(line)).map_or(0, |wanted| wanted.len())
    }

    #[test]
    fn filters_leave_what_they_name() {
        // Three key sizes, two sizes.
        assert_eq!(count("aes-xts --engine cpu"), 6);
        assert_eq!(count("aes-xts --engine cpu --key-size 512 --size 512,1MiB,4k --threads 1,2"), 6);
        assert_eq!(count("aes-xts --engine cpu --key-size 512 --load both --quick"), 2);
        assert_eq!(count("aes-xts-essiv:sha256 aes-xts --engine cpu --quick"), 2);
        assert_eq!(count("aes-256-gcm --engine cpu --key-size 128"), 0);
        assert!(count("--quick") > 17);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in
            ["rot13", "--engine steam", "aes-xts --size 1000", "--size 1GiB", "--threads 0", "--size 0"]
        {
            assert!(wanted(&parsed(line)).is_err(), "{line}");
        }
        assert!(wanted(&parsed("aes-256-gcm --size 1000 --engine cpu")).is_ok());
    }
}
