//! `tune`: measures what computes on this machine, makes a profile of it,
//! keeps that, and explains it.

mod explain;
mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use strongroom_bench::{Costs, Effort, Load, Rate, break_even, measure, operations};
use strongroom_engine::{Algorithm, Engine};

use self::plan::Item;
use super::bench::algorithms;
use super::engines::is_typical;
use crate::args::TuneArgs;
use crate::compose;
use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;
use crate::profile::{
    DeviceBreakEven, EngineCosts, Measurement, Profile, SCHEMA, file, operation_name, worthwhile,
};
use crate::progress::Steps;
use crate::report::{self, Output};

/// For one figure at most.
const IDLE: Effort =
    Effort { sample: Duration::from_millis(2), samples: 5, limit: Duration::from_millis(60) };
/// Of a device: its answers have a CPU woken, and its driver has yet to learn when to look for them.
const DEVICE: Effort =
    Effort { sample: Duration::from_millis(10), samples: 5, limit: Duration::from_millis(100) };
const LOADED: Effort =
    Effort { sample: Duration::from_millis(40), samples: 2, limit: Duration::from_millis(250) };

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    /// Where it is kept; none after a dry run.
    saved: Option<String>,
    seconds: f64,
    explanation: Vec<String>,
    profile: Profile,
}

/// Measures, keeps and explains.
///
/// # Errors
/// Usage for an engine that there is not; what an engine failed with, or the
/// file system.
pub(crate) fn run(args: &TuneArgs, output: Output) -> Result<Exit> {
    let began = Instant::now();
    let engines = compose::engines(args.engine.as_deref())?;
    let hardware = file::hardware(&compose::engine_names(&engines));
    let algorithms = typical(&args.algorithms)?;
    let items = plan::items(&engines, &algorithms, hardware.cpus as usize);
    let budget = Duration::from_secs(args.seconds);
    let measurements = measured(&items, hardware.cpus as usize, budget)?;
    let inline: Vec<(String, bool)> =
        engines.iter().map(|engine| (engine.name().to_owned(), is_cpu(engine))).collect();
    let profile = Profile {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        measured: report::rfc3339(report::now()),
        hardware,
        costs: costs(&measurements),
        break_even: devices(&inline, &measurements),
        worthwhile: worthwhile(&inline, &measurements),
        measurements,
    };
    let saved = match args.dry_run {
        true => None,
        false => Some(file::save(&profile)?.to_string_lossy().into_owned()),
    };
    let document = Document {
        schema: "strongroom.tune/1",
        saved,
        seconds: began.elapsed().as_secs_f64(),
        explanation: explain::sentences(&inline, &profile),
        profile,
    };
    output.print_at_width(&document, |document, display| {
        let sentences = explain::of_machine(&inline, &document.profile);
        text(document, &sentences, args.engine.as_deref(), display)
    })?;
    Ok(Exit::Done)
}

/// The algorithms that are named, one rule for IVs standing for all.
fn typical(names: &[String]) -> Result<Vec<Algorithm>> {
    let named = algorithms(names)?;
    if let Some(other) = named.iter().find(|algorithm| !is_typical(**algorithm)) {
        return Err(
            Failure::usage(format!("{other} is not measured")).hint("plain64 stands for all rules for IVs.")
        );
    }
    Ok(named)
}

/// Whether an engine computes on the caller's thread, in what it has.
fn is_cpu(engine: &Arc<dyn Engine>) -> bool {
    let mut had = Algorithm::all()
        .filter(|algorithm| engine.capability(*algorithm, operations(*algorithm)[0]).is_some());
    had.next().is_none_or(|algorithm| plan::is_inline(engine, algorithm))
}

/// Measures everything in about the time of `budget`. Each figure takes one
/// sample at least, so that a very slow machine may need more.
fn measured(items: &[Item], cpus: usize, budget: Duration) -> Result<Vec<Measurement>> {
    let began = Instant::now();
    let steps = Steps::begin(items.len() as u64);
    let mut load: Option<Load> = None;
    let mut found = Vec::with_capacity(items.len());
    for (at, Item { engine, case, loaded }) in items.iter().enumerate() {
        if *loaded && load.is_none() {
            load = Some(Load::on(cpus));
        }
        steps.next(&format!("{} on {}", case.algorithm, engine.name()));
        let effort = match (*loaded, plan::is_inline(engine, case.algorithm)) {
            (true, _) => LOADED,
            (false, true) => IDLE,
            (false, false) => DEVICE,
        };
        let left = budget.saturating_sub(began.elapsed()) / (items.len() - at) as u32;
        let effort = Effort { limit: effort.limit.min(2 * left), sample: effort.sample.min(left), ..effort };
        let figure = measure(engine, *case, effort).map_err(|error| {
            Failure::new(Exit::Other, format!("{} on {}: {error}", case.algorithm, engine.name()))
                .hint("`strongroom engines` tells what the self-tests say.")
        })?;
        found.push(Measurement {
            engine: engine.name().to_owned(),
            algorithm: case.algorithm.to_string(),
            operation: operation_name(case.operation).to_owned(),
            loaded: *loaded,
            threads: case.threads as u64,
            in_flight: case.in_flight as u64,
            bytes: case.bytes as u64,
            bytes_per_second: figure.bytes_per_second.median,
            bytes_per_second_low: figure.bytes_per_second.low,
            bytes_per_second_high: figure.bytes_per_second.high,
            batch_ns: figure.batch_ns.median,
            cpu_ns: figure.cpu_ns.median,
        });
    }
    drop(load);
    steps.finish();
    Ok(found)
}

/// The measurements of one engine, algorithm and operation stand together.
fn costs(measurements: &[Measurement]) -> Vec<EngineCosts> {
    let alone: Vec<&Measurement> = measurements
        .iter()
        .filter(|found| !found.loaded && found.threads == 1 && found.in_flight == 1)
        .collect();
    let same = |one: &&Measurement, other: &&Measurement| {
        (&one.engine, &one.algorithm, &one.operation) == (&other.engine, &other.algorithm, &other.operation)
    };
    let fitted = alone.chunk_by(same).filter_map(|group| {
        let points: Vec<_> = group.iter().map(|found| (found.bytes as f64, found.batch_ns)).collect();
        let costs = Costs::fit(&points)?;
        Some(EngineCosts {
            engine: group[0].engine.clone(),
            algorithm: group[0].algorithm.clone(),
            operation: group[0].operation.clone(),
            fixed_ns: costs.fixed_ns,
            per_byte_ns: costs.per_byte_ns,
            error: costs.error,
        })
    });
    fitted.collect()
}

/// Every device against the CPU's engines together.
fn devices(engines: &[(String, bool)], measurements: &[Measurement]) -> Vec<DeviceBreakEven> {
    let is_inline = |name: &str| engines.iter().any(|(engine, inline)| engine == name && *inline);
    let mut found = Vec::new();
    for (engine, _) in engines.iter().filter(|(_, inline)| !inline) {
        for algorithm in Algorithm::all().filter(|algorithm| is_typical(*algorithm)) {
            for operation in operations(algorithm) {
                let (algorithm, operation) = (algorithm.to_string(), operation_name(operation).to_owned());
                let rates = |of: &dyn Fn(&str) -> bool| -> Vec<Rate> {
                    let idle = measurements.iter().filter(|found| {
                        !found.loaded
                            && found.algorithm == algorithm
                            && found.operation == operation
                            && of(&found.engine)
                    });
                    idle.map(rate).collect()
                };
                if let Some(even) = break_even(&rates(&is_inline), &rates(&|name| name == engine)) {
                    found.push(DeviceBreakEven {
                        engine: engine.clone(),
                        algorithm,
                        operation,
                        alpha: even.alpha.map(u64::from),
                        beta_bytes: even.beta_bytes,
                        idle_cpu_percent: even.idle_cpu * 100.0,
                        feeding_cpus: even.feeding_cpus,
                    });
                }
            }
        }
    }
    found
}

fn rate(found: &Measurement) -> Rate {
    Rate {
        bytes: found.bytes,
        concurrency: (found.threads * found.in_flight) as u32,
        bytes_per_second: found.bytes_per_second,
        cpu_ns: found.cpu_ns,
    }
}

/// The profile of some engines is not that of others: `engine` tells whose it is.
fn text(document: &Document, sentences: &[String], engine: Option<&str>, display: Display) -> String {
    let mut text = sentences.join("\n");
    text.push_str(&format!("\n\nMeasured in {:.0} s. ", document.seconds));
    match &document.saved {
        Some(path) => {
            let with = engine.map_or(String::new(), |engine| format!(" with `--engine {engine}`"));
            text.push_str(&format!("Kept in {path}; mounts{with} that begin from now on use it.\n"));
        }
        None => text.push_str("Nothing was kept.\n"),
    }
    text.push_str("\nThe fastest, for a block of 4 KiB and for 64 KiB:\n");
    text + &explain::table(&document.profile, display)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::measurement;

    #[test]
    fn costs_and_break_even_points_follow_from_measurements() {
        let name = "aes-256-gcm";
        let cpu = |bytes: u64| measurement("cpu", name, "seal", bytes, 100.0 + bytes as f64);
        let device = |bytes: u64, in_flight: u64| Measurement {
            in_flight,
            cpu_ns: 1000.0,
            ..measurement("dev", name, "seal", bytes, (50_000.0 + 2.0 * bytes as f64) / in_flight as f64)
        };
        let mut found: Vec<_> = [512, 4096, 65536].map(cpu).into();
        found.extend([512, 4096, 65536].map(|bytes| device(bytes, 1)));
        found.extend([512, 4096, 65536].map(|bytes| device(bytes, 64)));
        let costs = costs(&found);
        assert_eq!(costs.len(), 2);
        assert!((costs[0].fixed_ns - 100.0).abs() < 1e-3 && (costs[1].fixed_ns - 50_000.0).abs() < 1e-3);
        let engines = [("cpu".to_owned(), true), ("dev".to_owned(), false)];
        let even = devices(&engines, &found);
        // 64 at once take (50 µs + 2 ns a byte) / 64: from 4096 bytes on that is less than the CPU's.
        assert_eq!(even.len(), 1);
        assert_eq!((even[0].alpha, even[0].beta_bytes), (Some(63), Some(4096)));
    }
}
