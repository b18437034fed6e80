//! What follows from the figures, in sentences: what to take, what is slow, and
//! what to do next. Each names the figures it comes from.

use serde::Serialize;
use strongroom_format::vault::Suite;

use super::document::{Document, MountReport};
use super::prediction::algorithm_of;
use crate::commands::engines::SelfTest;
use crate::report::bytes;

/// A block of a vault, and a size that stands for large requests.
pub(super) const SIZES: [u64; 2] = [4 << 10, 64 << 10];
/// Another of the two usual suites is recommended when it is so many times as
/// fast as the one that the program takes by itself. Less is not worth being
/// asked about.
const WORTH_ANOTHER: f64 = 1.25;
/// Suites that take more than so many times the time of the recommended one are
/// named as slow.
const SLOW: f64 = 3.0;

/// Figures of an idle machine vary less.
const UNSTEADY: f64 = 0.1;

/// One matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Conclusion {
    /// `warning`, `suite`, `engine`, `slow` or `durability`.
    pub(super) about: &'static str,
    /// What to do or know, in one sentence.
    pub(super) says: String,
    /// What it comes from.
    pub(super) because: String,
}

impl Conclusion {
    fn new(about: &'static str, says: impl Into<String>, because: impl Into<String>) -> Conclusion {
        Conclusion { about, says: says.into(), because: because.into() }
    }

    /// What stands above it.
    pub(super) fn title(&self) -> &'static str {
        match self.about {
            "suite" => "Suite",
            "engine" => "Engine",
            "slow" => "What is slow",
            "durability" => "What durability costs",
            _ => "Look at this",
        }
    }
}

/// Warnings first, then suite, engine, what is slow, and durability.
pub(super) fn conclusions(document: &Document) -> Vec<Conclusion> {
    let mut all = warnings(document);
    all.push(suite(document));
    all.push(engine(document));
    all.extend(slow(document));
    all.push(durability(document));
    all
}

pub(super) fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.1} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.0} MB/s", rate / 1e6),
        rate => format!("{:.0} kB/s", rate / 1e3),
    }
}

pub(super) fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        ns if ns >= 1e4 => format!("{:.0} us", ns / 1e3),
        ns if ns >= 1e3 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

fn warnings(document: &Document) -> Vec<Conclusion> {
    let mut found = Vec::new();
    if let Some(spread) = document.profile_spread.filter(|spread| *spread > UNSTEADY) {
        found.push(Conclusion::new(
            "warning",
            "The machine did something else while it was measured: run `strongroom tune` again.",
            format!("Half of the profile's figures vary by more than {:.0} %.", spread * 100.0),
        ));
    }
    for engine in &document.engines {
        match engine.count(SelfTest::Failed) {
            0 => {}
            failed => found.push(Conclusion::new(
                "warning",
                format!("{} computes {failed} algorithms wrong: encrypt nothing here.", engine.name),
                "Its self-tests failed: the CPU, its microcode or this build is broken.",
            )),
        }
    }
    for mount in &document.mounts {
        if mount.errors > 0 {
            found.push(Conclusion::new(
                "warning",
                format!("{} has met errors or damage.", mount.mount_point),
                format!("{} were counted; `strongroom status` names them.", mount.errors),
            ));
        }
        for engine in mount.engines.iter().filter(|engine| engine.mismatches > 0 || engine.quarantined) {
            found.push(Conclusion::new(
                "warning",
                format!("{} was wrong or lost work and gets none.", engine.name),
                format!("{}: {} mismatches, {} lost.", mount.mount_point, engine.mismatches, engine.lost),
            ));
        }
    }
    found
}

/// Bytes a second of sealing and opening as often.
fn both_ways(document: &Document, suite: &str) -> Option<f64> {
    let algorithm = algorithm_of(suite)?;
    let of = |operation| document.best(&algorithm, operation, SIZES[1]).map(|(_, rate)| rate);
    Some(2.0 / (1.0 / of("seal")? + 1.0 / of("open")?))
}

/// The suite to take: the program's own choice, or the other usual one where
/// that was measured to be clearly faster.
pub(super) fn recommended(document: &Document) -> Option<&'static str> {
    let own = document.suites.iter().find(|suite| suite.recommended && suite.available)?.suite;
    let usual = [Suite::Xaes256Gcm.name(), Suite::XChaCha20Poly1305.name()];
    let rates = |suite| both_ways(document, suite).unwrap_or(0.0);
    let other = usual.into_iter().find(|suite| *suite != own)?;
    Some(if rates(other) > WORTH_ANOTHER * rates(own) { other } else { own })
}

fn suite(document: &Document) -> Conclusion {
    let Some(suite) = recommended(document) else {
        return Conclusion::new("suite", "No suite works here.", "See the engines' self-tests.");
    };
    let Some(own) = both_ways(document, suite) else {
        return Conclusion::new(
            "suite",
            format!("Take {suite}, which `strongroom init` takes by itself."),
            "This CPU's instructions say so; nothing was measured. Run `strongroom tune` (it takes less than a \
             minute), then this again.",
        );
    };
    let algorithm = algorithm_of(suite).unwrap_or_default();
    let of = |operation: &str, size: u64| {
        document.best(&algorithm, operation, size).map_or_else(|| "?".to_owned(), |(_, found)| rate(found))
    };
    let mut because = format!(
        "One CPU seals {} and opens {} in requests of 64 KiB; {} and {} in single blocks of 4 KiB.",
        of("seal", SIZES[1]),
        of("open", SIZES[1]),
        of("seal", SIZES[0]),
        of("open", SIZES[0])
    );
    let others = document.suites.iter().map(|other| other.suite).filter(|other| *other != suite);
    let mut faster: Vec<(&str, f64)> =
        others.filter_map(|other| Some((other, both_ways(document, other)? / own))).collect();
    faster.sort_by(|one, other| other.1.total_cmp(&one.1));
    if let Some((other, times)) = faster.first().filter(|(_, times)| *times > WORTH_ANOTHER) {
        because.push_str(&format!(
            " {other} is {times:.1} times as fast, and younger: it pays where cryptography is what is slow."
        ));
    }
    let slow: Vec<String> = faster
        .iter()
        .filter(|(_, times)| *times < 1.0 / SLOW)
        .map(|(other, times)| format!("{other} takes {:.0} times the time", 1.0 / times))
        .collect();
    if !slow.is_empty() {
        because.push_str(&format!(" Slow here: {}.", slow.join(", ")));
    }
    Conclusion::new("suite", format!("Take {suite}."), because)
}

fn engine(document: &Document) -> Conclusion {
    let Some(measured) = &document.profile_measured else {
        let ignored = document.profile_ignored.as_deref();
        let why = ignored.map_or("There is no profile of this machine.".to_owned(), |why| format!("{why}."));
        return Conclusion::new(
            "engine",
            "Run `strongroom tune`; until then leave `--engine` alone.",
            format!("{why} Mounts begin with what engines say of themselves, and learn."),
        );
    };
    let devices: Vec<&str> = document.break_even.iter().map(|even| even.engine.as_str()).collect();
    let pays = document.break_even.iter().find(|even| even.alpha.is_some() && even.beta_bytes.is_some());
    let says = match (document.worthwhile.as_slice(), pays) {
        (_, Some(even)) => format!(
            "{} pays for requests of {} and more, with more than {} in flight: name it with `--engine`.",
            even.engine,
            bytes(even.beta_bytes.unwrap_or(0)),
            even.alpha.unwrap_or(0)
        ),
        ([only], None) => format!("Leave `--engine` at auto: mounts compute with {only} alone."),
        (several, None) => {
            format!("Leave `--engine` at auto: mounts choose among {} for each request.", several.join(", "))
        }
    };
    let algorithm = recommended(document).and_then(algorithm_of).unwrap_or_default();
    let changes = document
        .crossovers
        .iter()
        .find(|found| found.algorithm == algorithm && found.operation == "seal")
        .map(|found| format!(" Sealing with {algorithm}: {}.", crossover_text(&found.fastest)));
    let mut because = format!("Measured {measured}.{}", changes.unwrap_or_default());
    match (devices.first(), pays) {
        (None, _) => because.push_str(" There is no device here."),
        (Some(device), None) => because.push_str(&format!(
            " {device} is nowhere faster than the CPUs with large requests."
        )),
        (Some(_), Some(_)) => because.push_str(
            " By default every result of a device is computed once more (`check=1`), so that it saves no CPU time.",
        ),
    }
    Conclusion::new("engine", says, because)
}

/// Which engine is the fastest from where on.
pub(super) fn crossover_text(fastest: &[super::document::FastestFrom]) -> String {
    let words: Vec<String> = fastest
        .iter()
        .enumerate()
        .map(|(at, from)| match at {
            0 => format!("{} is the fastest", from.engine),
            _ => format!("{} from {} on", from.engine, bytes(from.from_bytes)),
        })
        .collect();
    match fastest {
        [only] => format!("{} is the fastest at every size", only.engine),
        _ => words.join(", "),
    }
}

fn slow(document: &Document) -> Vec<Conclusion> {
    if document.mounts.is_empty() {
        return vec![Conclusion::new(
            "slow",
            "Nothing is mounted, so nothing can be slow.",
            "Mount, do what you usually do, and run this again while it is mounted.",
        )];
    }
    document.mounts.iter().map(slow_mount).collect()
}

fn slow_mount(mount: &MountReport) -> Conclusion {
    let Some(time) = mount.time else {
        return Conclusion::new(
            "slow",
            format!("{}: nothing was asked of it yet.", mount.mount_point),
            "Use it, and run this again.",
        );
    };
    let percent = |share: f64| (share * 100.0).round();
    let mut parts = [
        ("cryptography", time.cryptography),
        ("the store", time.store),
        ("FUSE and the vault's own work", time.fuse),
    ];
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let [(first, share), ..] = parts;
    let says =
        format!("{}: {first}, with {} % of the time of its requests.", mount.mount_point, percent(share));
    let others: Vec<String> =
        parts[1..].iter().map(|(name, share)| format!("{name} {} %", percent(*share))).collect();
    let mut because = format!("Then {}.", others.join(", "));
    if let Some(barriers) = mount.barriers.filter(|share| percent(*share) > 0.0) {
        because.push_str(&format!(" Waiting for barriers is {} %.", percent(barriers)));
    }
    because.push_str(&match first {
        "cryptography" => {
            " Another suite or engine would help: `strongroom report` without mounts says what each \
                           does, `strongroom bench crypto` measures."
                .to_owned()
        }
        _ => format!(
            " Nothing that computes faster, device or suite, could take away more than {} % of it.",
            percent(time.cryptography)
        ),
    });
    Conclusion::new("slow", says, because)
}

fn durability(document: &Document) -> Conclusion {
    let Some(found) = &document.durability else {
        let mounted = document.mounts.iter().filter(|mount| mount.fsyncs > 0);
        let told: Vec<String> = mounted
            .map(|mount| {
                format!(
                    "{}: {} calls of fsync took {} each in the mean.",
                    mount.mount_point,
                    mount.fsyncs,
                    time(mount.fsync_ns_mean as f64)
                )
            })
            .collect();
        return match told.is_empty() {
            true => Conclusion::new(
                "durability",
                "Not measured.",
                "`strongroom report --store DIR` measures a barrier where DIR lies.",
            ),
            false => Conclusion::new(
                "durability",
                told.join(" "),
                "The store itself was not measured: --store DIR.",
            ),
        };
    };
    let barrier = found.barrier_ns() as f64;
    let sealing = recommended(document).and_then(algorithm_of).and_then(|algorithm| {
        let (_, rate) = document.best(&algorithm, "seal", SIZES[0])?;
        Some(SIZES[0] as f64 / rate * 1e9)
    });
    let says = format!("A barrier on {} takes {}.", found.store, time(barrier));
    let mut because = format!(
        "A block of 4 KiB is written in {}, and written for good in {} ({} to {} for the middle half of {}). Each \
         `fsync` after small writes waits for one barrier.",
        time(found.write_ns as f64),
        time(found.durable_write_ns as f64),
        time(found.durable_write_ns_low as f64),
        time(found.durable_write_ns_high as f64),
        found.samples
    );
    if let Some(sealing) = sealing {
        because.push_str(&format!(
            " Sealing the block takes {}: the barrier is {:.0} times that.",
            time(sealing),
            barrier / sealing
        ));
    }
    Conclusion::new("durability", says, because)
}
