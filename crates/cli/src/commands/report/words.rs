//! What follows from the figures, in sentences: what to take, what is slow, and
//! what to do next. Each names the figures it comes from.

use serde::Serialize;
use strongroom_format::vault::Suite;

use super::document::{Document, MountReport};
use super::prediction::{OtherSuite, algorithm_of};
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

/// Another suite means another vault, and a copy of everything.
const WORTH_ANOTHER_VAULT: f64 = 1.05;
/// A shorter barrier is none: a store in memory has a call of the system.
const BARRIER_NS_MIN: f64 = 2_000.0;
/// Mounts whose `fsync` stands beside the store's barrier.
const FSYNCS_SHOWN: usize = 2;

/// One matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Conclusion {
    /// `warning`, `suite`, `engine`, `slow`, `durability` or `idle`.
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
            "idle" => "Idle",
            _ => "Look at this",
        }
    }
}

/// Warnings first, then suite, engine, what is slow, durability, and what is idle.
pub(super) fn conclusions(document: &Document) -> Vec<Conclusion> {
    let mut all = warnings(document);
    all.push(suite(document));
    all.push(engine(document));
    all.extend(slow(document));
    all.push(durability(document));
    all.extend(idle(document));
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
    if let Some(spread) = document.profile_spread.filter(|_| document.is_unsteady) {
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
            " {other} encrypts {times:.1} times as fast, and is younger: it pays where cryptography is what is slow."
        ));
    }
    let slow: Vec<String> = faster
        .iter()
        .filter(|(_, times)| *times < 1.0 / SLOW)
        .map(|(other, times)| format!("{other} takes {:.0} times the time to encrypt", 1.0 / times))
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
            format!(
                "Leave `--engine` at auto: mounts send each request to that of {} where it finishes first.",
                several.join(", ")
            )
        }
    };
    let algorithm = recommended(document).and_then(algorithm_of).unwrap_or_default();
    let changes = document
        .crossovers
        .iter()
        .find(|found| found.algorithm == algorithm && found.operation == "seal")
        .map(|found| {
            format!(" Sealing one batch at a time with {algorithm}: {}.", crossover_text(&found.fastest))
        });
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
    let to_take = recommended(document);
    let busy = document.mounts.iter().filter(|mount| !mount.is_idle());
    let busy: Vec<Conclusion> = busy.map(|mount| slow_mount(mount, to_take)).collect();
    match (busy.is_empty(), document.mounts.is_empty()) {
        (false, _) => busy,
        (true, true) => vec![Conclusion::new(
            "slow",
            "Nothing is mounted, so nothing can be slow.",
            "Mount, do what you usually do, and run this again while it is mounted.",
        )],
        (true, false) => vec![Conclusion::new(
            "slow",
            "No mount was asked for enough to tell.",
            "Do what you usually do, and run this again.",
        )],
    }
}

/// Mounts that say nothing of what is slow, all in one.
fn idle(document: &Document) -> Option<Conclusion> {
    let idle: Vec<&str> = document
        .mounts
        .iter()
        .filter(|mount| mount.is_idle())
        .map(|mount| mount.mount_point.as_str())
        .collect();
    let says = match idle.len() {
        0 => return None,
        1 => "1 mount is idle.".to_owned(),
        count => format!("{count} mounts are idle."),
    };
    Some(Conclusion::new("idle", says, format!("They had less than 0.1 s of requests: {}.", idle.join(", "))))
}

fn percent(share: f64) -> f64 {
    (share * 100.0).round()
}

fn slow_mount(mount: &MountReport, to_take: Option<&str>) -> Conclusion {
    let time = mount.time.expect("it is not idle");
    let mut parts = [
        ("cryptography", time.cryptography),
        ("the store", time.store),
        ("FUSE and the vault's own work", time.fuse),
    ];
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let [(first, share), ..] = parts;
    let says =
        format!("{}: {} % of the time of its requests goes to {first}.", mount.mount_point, percent(share));
    let others: Vec<String> = parts[1..]
        .iter()
        .filter(|(_, share)| percent(*share) > 0.0)
        .map(|(name, share)| format!("{name} with {} %", percent(*share)))
        .collect();
    let mut because = match others.is_empty() {
        true => "Nothing else takes time.".to_owned(),
        false => format!("Then {}.", others.join(", ")),
    };
    if let Some(barriers) = mount.barriers.filter(|share| percent(*share) > 0.0) {
        because.push_str(&format!(" Waiting for barriers is {} % of it all.", percent(barriers)));
    }
    because.push_str(&match percent(time.cryptography) {
        0.0 => " Nothing that computes faster, suite, engine or device, would help.".to_owned(),
        most if first != "cryptography" => {
            format!(" No suite, engine or device could take away more than the {most} % of cryptography.")
        }
        _ => String::new(),
    });
    because.push_str(&faster_suite(&mount.suite, &mount.other_suites, to_take));
    Conclusion::new("slow", says, because)
}

/// What another suite would bring at best, and what the one to take here would.
fn faster_suite(own: &str, others: &[OtherSuite], to_take: Option<&str>) -> String {
    let Some(best) = others.first() else { return String::new() };
    if best.speed < 1.005 {
        return format!(" No other suite would make it faster than its own, {own}.");
    }
    if best.speed < WORTH_ANOTHER_VAULT {
        return format!(
            " Its suite is {own}; the fastest other one, {}, would make its requests {:.0} % faster.",
            best.suite,
            percent(best.speed - 1.0)
        );
    }
    let taken = others.iter().find(|other| Some(other.suite.as_str()) == to_take);
    let taken = taken
        .filter(|taken| taken.suite != best.suite)
        .map(|taken| format!(", with {} {:.2} times", taken.suite, taken.speed));
    format!(
        " Its suite is {own}. With {} its requests would be {:.2} times as fast{}, by the profile. A vault keeps its \
         suite: make another one (`strongroom init --suite`), mount both and copy.",
        best.suite,
        best.speed,
        taken.unwrap_or_default()
    )
}

/// The speeds of a mount's requests with other suites, as a list.
pub(super) fn other_suites(mount: &MountReport) -> Option<String> {
    let speeds: Vec<String> =
        mount.other_suites.iter().map(|other| format!("{} {:.2}", other.suite, other.speed)).collect();
    (!speeds.is_empty()).then(|| speeds.join(", "))
}

fn durability(document: &Document) -> Conclusion {
    let asked: Vec<&MountReport> = document.mounts.iter().filter(|mount| mount.fsyncs > 0).collect();
    let Some(found) = &document.durability else {
        let told = |mount: &&MountReport| format!("{}: {}.", mount.mount_point, fsync_text(mount));
        return match asked.first() {
            None => Conclusion::new(
                "durability",
                "Not measured.",
                "`strongroom report --store DIR` measures a barrier where DIR lies.",
            ),
            Some(first) => Conclusion::new(
                "durability",
                format!(
                    "`fsync` on {} takes {} in the mean.",
                    first.mount_point,
                    time(first.fsync_ns_mean as f64)
                ),
                format!(
                    "{} That includes writing what was not written yet. `strongroom report --store DIR` measures what \
                     the store alone makes one wait.",
                    asked.iter().map(told).collect::<Vec<_>>().join(" ")
                ),
            ),
        };
    };
    let barrier = found.barrier_ns() as f64;
    let says = match barrier >= BARRIER_NS_MIN {
        true => format!("Whoever wants something for good on {} waits {}.", found.store, time(barrier)),
        false => format!("Nothing on {}: it has no barrier that could be told from none.", found.store),
    };
    let mut because = format!(
        "A block of 4 KiB is written in {}; with a barrier after it half of {} took {} to {}.",
        time(found.write_ns as f64),
        found.samples,
        time(found.durable_write_ns_low as f64),
        time(found.durable_write_ns_high as f64),
    );
    if let Some(sealing) = sealing_ns(document).filter(|_| barrier >= BARRIER_NS_MIN) {
        because.push_str(&match barrier / sealing {
            times if times >= 2.0 => {
                format!(" The barrier is {times:.0} times what sealing the block takes, {}.", time(sealing))
            }
            _ => format!(" Sealing the block takes {}.", time(sealing)),
        });
    }
    for mount in asked.iter().take(FSYNCS_SHOWN) {
        because.push_str(&format!(
            " On {} {}, with writing what came before.",
            mount.mount_point,
            fsync_text(mount)
        ));
    }
    Conclusion::new("durability", says, because)
}

/// What `fsync` took on a mount that had some.
pub(super) fn fsync_text(mount: &MountReport) -> String {
    let each = time(mount.fsync_ns_mean as f64);
    match mount.fsyncs {
        1 => format!("1 `fsync` took {each}"),
        count => format!("{count} calls of `fsync` took {each} each"),
    }
}

/// Of a block, with the suite to take.
fn sealing_ns(document: &Document) -> Option<f64> {
    let algorithm = algorithm_of(recommended(document)?)?;
    let (_, rate) = document.best(&algorithm, "seal", SIZES[0])?;
    Some(SIZES[0] as f64 / rate * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(speeds: &[(&str, f64)]) -> Vec<OtherSuite> {
        speeds.iter().map(|(suite, speed)| OtherSuite { suite: (*suite).to_owned(), speed: *speed }).collect()
    }

    #[test]
    fn another_suite_is_told_beside_the_own_and_the_one_to_take() {
        let found = others(&[("aegis-256x4", 1.2), ("xaes-256-gcm", 1.14)]);
        let said = faster_suite("cascade", &found, Some("xaes-256-gcm"));
        assert!(said.contains("Its suite is cascade. With aegis-256x4"), "{said}");
        assert!(said.contains("1.20 times as fast, with xaes-256-gcm 1.14 times, by"), "{said}");
        assert!(said.contains("`strongroom init --suite`"), "{said}");
        // The fastest is the one to take, or nobody knows one: it is named once.
        for to_take in [Some("aegis-256x4"), None] {
            let said = faster_suite("cascade", &found, to_take);
            assert!(said.contains("1.20 times as fast, by") && !said.contains("xaes"), "{said}");
        }
        let said = faster_suite("xaes-256-gcm", &others(&[("aegis-256x4", 1.02)]), Some("xaes-256-gcm"));
        assert!(said.ends_with("aegis-256x4, would make its requests 2 % faster."), "{said}");
        assert!(faster_suite("a", &others(&[("b", 0.9)]), None).contains("No other suite"));
        assert_eq!(faster_suite("a", &[], None), "");
    }
}
