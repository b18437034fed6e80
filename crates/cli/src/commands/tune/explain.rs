//! A profile in words, and as a table.

use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::profile::{Measurement, Profile};
use crate::report::bytes;

/// The size that stands for all.
const TYPICAL: u64 = 64 << 10;
/// A block of a vault.
const BLOCK: u64 = 4 << 10;

/// What a reader wants to know, one matter in each.
pub(super) fn sentences(engines: &[(String, bool)], profile: &Profile) -> Vec<String> {
    let mut sentences: Vec<String> =
        profile.algorithms().iter().map(|name| of_algorithm(engines, profile, name)).collect();
    sentences.extend(of_machine(engines, profile));
    sentences
}

/// What holds for all algorithms.
pub(super) fn of_machine(engines: &[(String, bool)], profile: &Profile) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(profile.unsteady().map(|spread| {
        format!(
            "The machine did something else meanwhile: half of the figures vary by more than {:.0} %. Run it again \
             when it does not.",
            spread * 100.0
        )
    }));
    sentences.extend(engines.iter().filter_map(|(engine, _)| under_load(engine, profile)));
    sentences.extend(of_devices(engines, profile));
    sentences.push(match profile.worthwhile.as_slice() {
        [only] => format!("Mounts compute with {only} alone: no other engine is faster at anything."),
        several => format!("Mounts choose among {}, for each request.", several.join(", ")),
    });
    sentences
}

const COLUMNS: [Column; 4] =
    [Column::left("", 20), Column::left("", 7), Column::left("4 KiB", 23), Column::left("64 KiB", 23)];

/// The fastest engine for each algorithm and operation, for a block of 4 KiB
/// and for 64 KiB.
pub(super) fn table(profile: &Profile, display: Display) -> String {
    let mut rows = Vec::new();
    for algorithm in profile.algorithms() {
        let mut operations: Vec<&str> =
            profile.alone(algorithm).map(|found| found.operation.as_str()).collect();
        operations.sort_unstable();
        operations.dedup();
        for operation in operations {
            let cells = [BLOCK, TYPICAL].map(|size| match profile.fastest(algorithm, operation, size) {
                Some(best) => format!("{:<13}{:>10}", best.engine, gigabytes(best.bytes_per_second)),
                None => "-".to_owned(),
            });
            let [small, large] = cells;
            rows.push(vec![algorithm.to_owned(), operation.to_owned(), small, large]);
        }
    }
    Form { titles: 2, ..Form::new(&COLUMNS) }.text(&rows, display)
}

fn gigabytes(rate: f64) -> String {
    format!("{:.2} GB/s", rate / 1e9)
}

/// Which engine is the fastest, where that changes, and by how much.
fn of_algorithm(engines: &[(String, bool)], profile: &Profile, algorithm: &str) -> String {
    let mut parts = Vec::new();
    let mut operations: Vec<&str> = profile.alone(algorithm).map(|found| found.operation.as_str()).collect();
    operations.dedup();
    operations.sort_unstable();
    operations.dedup();
    for operation in operations {
        let of = || profile.alone(algorithm).filter(|found| found.operation == operation);
        let changes = profile.crossovers(algorithm, operation);
        let mut text = format!("{operation}: ");
        let words: Vec<String> = changes
            .iter()
            .enumerate()
            .map(|(at, (size, best))| match at {
                0 => best.engine.clone(),
                _ => format!("{} from {} on", best.engine, bytes(*size)),
            })
            .collect();
        text.push_str(&words.join(", "));
        if let Some(best) = profile.fastest(algorithm, operation, TYPICAL) {
            let others = of().filter(|found| found.bytes == TYPICAL && found.engine != best.engine);
            text.push_str(&format!(", {} at 64 KiB", gigabytes(best.bytes_per_second)));
            let known = |found: &&Measurement| engines.iter().any(|(name, _)| *name == found.engine);
            if let Some(second) = others
                .filter(known)
                .max_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second))
            {
                text.push_str(&format!(" ({} {})", second.engine, gigabytes(second.bytes_per_second)));
            }
        }
        parts.push(text);
    }
    format!("{algorithm}. {}.", parts.join("; "))
}

/// What is left of an engine's rate when the CPUs have other work.
fn under_load(engine: &str, profile: &Profile) -> Option<String> {
    let mut shares: Vec<f64> = Vec::new();
    for loaded in profile.measurements.iter().filter(|found| found.loaded && found.engine == engine) {
        let idle = profile.alone(&loaded.algorithm).find(|idle| {
            (&idle.engine, &idle.operation, idle.bytes) == (&loaded.engine, &loaded.operation, loaded.bytes)
        });
        shares.extend(idle.map(|idle| loaded.bytes_per_second / idle.bytes_per_second));
    }
    shares.sort_by(f64::total_cmp);
    let median = shares.get(shares.len() / 2)?;
    Some(format!(
        "With a busy thread on each CPU, {engine} has {:.0} % of its rate (the median of what was measured).",
        median * 100.0
    ))
}

/// Where devices pay.
fn of_devices(engines: &[(String, bool)], profile: &Profile) -> Vec<String> {
    if engines.iter().all(|(_, inline)| *inline) {
        return vec![
            "There is no device here: everything is computed by the CPU, and alpha, beta and M mean nothing."
                .to_owned(),
        ];
    }
    let of_one = |even: &crate::profile::DeviceBreakEven| {
        let what = format!("{}, {} {}", even.engine, even.algorithm, even.operation);
        let feeding = format!("feeding it at its best keeps {:.2} CPUs busy", even.feeding_cpus);
        match (even.alpha, even.beta_bytes) {
            (Some(alpha), Some(beta)) => format!(
                "{what}: faster than all CPUs with more than {alpha} batches in flight (alpha) from {} on (beta), \
                 unless more than {:.0} % of the CPUs are idle (M); {feeding}.",
                bytes(beta),
                even.idle_cpu_percent
            ),
            (Some(alpha), None) => format!(
                "{what}: faster than all CPUs at some sizes with more than {alpha} batches in flight (alpha), and \
                 not at the largest; {feeding}."
            ),
            (None, _) => format!(
                "{what}: never faster than the CPUs, of which {:.0} % do what it does (M); {feeding}.",
                even.idle_cpu_percent
            ),
        }
    };
    profile.break_even.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::DeviceBreakEven;
    use crate::profile::tests::{measurement, profile};

    #[test]
    fn words_say_who_wins_where() {
        let name = "aes-cbc-plain64";
        let mut known = profile(
            &["a", "b"],
            vec![
                measurement("a", name, "encrypt", 4096, 100.0),
                measurement("a", name, "encrypt", 65536, 2000.0),
                measurement("b", name, "encrypt", 4096, 150.0),
                measurement("b", name, "encrypt", 65536, 1000.0),
                Measurement { loaded: true, ..measurement("a", name, "encrypt", 4096, 200.0) },
            ],
        );
        known.worthwhile = vec!["a".to_owned(), "b".to_owned()];
        let engines = [("a".to_owned(), true), ("b".to_owned(), true)];
        let text = sentences(&engines, &known).join("\n");
        assert!(
            text.contains("encrypt: a, b from 6.9 KiB on, 65.54 GB/s at 64 KiB (a 32.77 GB/s)"),
            "{text}"
        );
        assert!(text.contains("a has 50 % of its rate"), "{text}");
        assert!(text.contains("no device here") && text.contains("choose among a, b"), "{text}");
        let at = |width| table(&known, Display { width, ascii: false });
        let rows: Vec<String> =
            at(None).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows, ["4 KiB 64 KiB", "aes-cbc-plain64 encrypt a 40.96 GB/s b 65.54 GB/s"]);
        assert!(at(None).lines().all(|line| line.len() <= 79), "{}", at(None));
        assert_eq!(at(Some(80)), at(None));
        assert_eq!(at(Some(40)), "aes-cbc-plain64 encrypt\n  4 KiB: a 40.96 GB/s\n  64 KiB: b 65.54 GB/s\n");
    }

    #[test]
    fn words_say_where_a_device_pays() {
        let mut known = profile(&["a", "d"], vec![measurement("a", "aes-256-gcm", "seal", 65536, 100.0)]);
        known.break_even = vec![DeviceBreakEven {
            engine: "d".to_owned(),
            algorithm: "aes-256-gcm".to_owned(),
            operation: "seal".to_owned(),
            alpha: Some(3),
            beta_bytes: Some(16384),
            idle_cpu_percent: 40.0,
            feeding_cpus: 0.5,
        }];
        let engines = [("a".to_owned(), true), ("d".to_owned(), false)];
        let text = sentences(&engines, &known).join("\n");
        assert!(text.contains("more than 3 batches in flight (alpha) from 16 KiB on (beta)"), "{text}");
        assert!(text.contains("40 % of the CPUs are idle (M)") && text.contains("0.50 CPUs"), "{text}");
    }
}
