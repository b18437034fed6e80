//! The README's test command: the workspace's own tests, then every suite on a mount, one line for each.
//!
//! A mount takes FUSE over io_uring where the kernel offers it. Where this process may decide what the kernel
//! offers, some suites run over it and the others over `/dev/fuse`, so that both are tested.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::offer::Switch;
use crate::{arm, crash, dudect, fuzz, gpu, hostile, model, soundness};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::subject::{Kind, Settings, SubjectArgs};
use strongroom_harness::tally::Tally;
use strongroom_harness::{packages, workspace};
use strongroom_suites::{
    age, demo, fsx, git, kill, luks, posix, postgres, powercut, readme, soak, sparse, sqlite, stress,
};

/// Compiling for the tests from nothing, on two slow cores, and running them.
const CARGO_LIMIT: Duration = Duration::from_secs(40 * 60);

#[derive(Args)]
pub(crate) struct TestArgs {
    /// The long forms: a million fsx operations, many more kills
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    settings: Settings,
    /// Where the working directories are made [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Only these suites (cargo, unruly, crash, hostile, model, soundness, fuzz, gpu, arm, dudect, demo, readme, posix, fsx, stress, sqlite, postgres, kill, powercut,
    /// soak, git, sparse, luks, age)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

struct Suite {
    name: &'static str,
    needs_root: bool,
    run: fn(&SubjectArgs, bool) -> Result<Tally>,
}

const SUITES: [Suite; 24] = [
    Suite { name: "cargo", needs_root: false, run: |_, _| cargo_test() },
    Suite { name: "unruly", needs_root: false, run: |_, _| unruly_test() },
    Suite { name: "crash", needs_root: false, run: |_, long| crash::run(&crash::CrashArgs::on(long)) },
    Suite {
        name: "hostile",
        needs_root: false,
        run: |_, long| hostile::run(&hostile::HostileArgs::on(long)),
    },
    Suite {
        name: "soundness",
        needs_root: false,
        run: |_, long| soundness::run(&soundness::SoundnessArgs::on(long)),
    },
    Suite { name: "model", needs_root: false, run: |_, long| model::run(&model::ModelArgs::on(long)) },
    Suite {
        name: "fuzz",
        needs_root: false,
        run: |subject, long| fuzz::run(&fuzz::FuzzArgs::on(subject.binary.clone(), long)),
    },
    Suite { name: "gpu", needs_root: false, run: |_, _| gpu::run(&gpu::GpuArgs::all()) },
    Suite { name: "arm", needs_root: true, run: |_, long| arm::run(&arm::ArmArgs::on(long)) },
    Suite { name: "dudect", needs_root: false, run: |_, long| dudect::run(&dudect::DudectArgs::on(long)) },
    Suite { name: "demo", needs_root: false, run: |subject, _| demo::run(&demo::DemoArgs::on(subject)) },
    Suite {
        name: "readme",
        needs_root: false,
        run: |subject, _| readme::run(&readme::ReadmeArgs::on(subject.binary.clone(), subject.work.clone())),
    },
    Suite { name: "posix", needs_root: true, run: |subject, _| posix::run(&posix::PosixArgs::on(subject)) },
    Suite { name: "fsx", needs_root: false, run: |subject, long| fsx::run(&fsx::FsxArgs::on(subject, long)) },
    Suite {
        name: "stress",
        needs_root: false,
        run: |subject, long| stress::run(&stress::StressArgs::on(subject, long)),
    },
    Suite {
        name: "sqlite",
        needs_root: false,
        run: |subject, long| sqlite::run(&sqlite::SqliteArgs::on(subject, long)),
    },
    Suite {
        name: "postgres",
        needs_root: true,
        run: |subject, long| postgres::run(&postgres::PostgresArgs::on(subject, long)),
    },
    Suite {
        name: "kill",
        needs_root: false,
        run: |subject, long| kill::run(&kill::KillArgs::on(subject, long)),
    },
    Suite {
        name: "powercut",
        needs_root: false,
        run: |subject, long| powercut::run(&powercut::PowercutArgs::on(subject, long)),
    },
    Suite {
        name: "soak",
        needs_root: false,
        run: |subject, long| soak::run(&soak::SoakArgs::on(subject, long)),
    },
    Suite { name: "git", needs_root: false, run: |subject, _| git::run(&git::GitArgs::on(subject)) },
    Suite {
        name: "sparse",
        needs_root: false,
        run: |subject, _| sparse::run(&sparse::SparseArgs::on(subject)),
    },
    Suite {
        name: "luks",
        needs_root: true,
        run: |subject, long| {
            luks::run(&luks::LuksArgs::on(subject.binary.clone(), subject.work.clone(), long))
        },
    },
    Suite {
        name: "age",
        needs_root: false,
        run: |subject, _| age::run(&age::AgeArgs::on(subject.binary.clone(), subject.work.clone())),
    },
];

/// Those that run over io_uring: names and attributes, many operations at once, a daemon that is killed, and
/// long loads.
const OVER_IO_URING: [&str; 4] = ["posix", "stress", "kill", "soak"];

/// Runs the suites one after the other, all of them, whatever fails.
pub(crate) fn run(arguments: &TestArgs) -> Result {
    if let Some(unknown) = arguments.only.iter().find(|name| SUITES.iter().all(|suite| suite.name != **name))
    {
        return Err(Failure::new(format!("there is no suite `{unknown}`")));
    }
    let chosen =
        |suite: &Suite| arguments.only.is_empty() || arguments.only.iter().any(|name| name == suite.name);
    let mut subject = SubjectArgs {
        subject: Kind::Strongroom,
        settings: arguments.settings.clone(),
        work: arguments.work.clone(),
        binary: None,
    };
    if SUITES.iter().any(|suite| {
        chosen(suite)
            && !matches!(
                suite.name,
                "cargo" | "unruly" | "crash" | "hostile" | "soundness" | "model" | "gpu" | "arm" | "dudect"
            )
    }) {
        subject.binary = Some(workspace::build_strongroom()?);
    }
    let switch =
        Switch::find().map_err(|failure| println!("all suites run as the kernel is: {failure}")).ok();
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    let mut failures = Vec::new();
    for suite in SUITES.iter().filter(|suite| chosen(suite)) {
        let over_io_uring = OVER_IO_URING.contains(&suite.name);
        let turned = switch.as_ref().map(|switch| switch.turn(over_io_uring)).transpose()?;
        let offered = if turned.is_some() && over_io_uring { ", with io_uring offered" } else { "" };
        println!("== {}{offered}", suite.name);
        let Judged { line, failures: of_suite, success } = one(suite, &subject, arguments.long);
        drop(turned);
        println!("{line}");
        lines.push(line);
        if !success {
            failed.push(suite.name);
        }
        failures.extend(of_suite);
    }
    println!("\nsummary\n{}", lines.join("\n"));
    for failure in &failures {
        println!("  FAILED {failure}");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// What became of a suite.
struct Judged {
    line: String,
    /// The first line of each failure, for the end of the output.
    failures: Vec<String>,
    success: bool,
}

/// Why a suite cannot run here.
fn reason_against(suite: &Suite) -> Option<String> {
    match suite.name {
        _ if suite.needs_root && !packages::is_root() => Some("needs root".into()),
        "arm" => arm::missing(),
        _ => None,
    }
}

fn one(suite: &Suite, subject: &SubjectArgs, long: bool) -> Judged {
    let name = suite.name;
    if let Some(reason) = reason_against(suite) {
        return Judged { line: format!("{name}: not run ({reason})"), failures: vec![], success: true };
    }
    let began = Instant::now();
    let tally = (suite.run)(subject, long).unwrap_or_else(|failure| {
        let mut tally = Tally::default();
        tally.fail(failure.to_string());
        tally
    });
    let first = |failure: &String| failure.lines().next().unwrap_or_default().to_owned();
    Judged {
        line: format!("{name}: {} ({} s)", tally.summary(), began.elapsed().as_secs()),
        failures: tally.failures.iter().map(|failure| format!("{name}: {}", first(failure))).collect(),
        success: tally.is_success(),
    }
}

/// `cargo test` of the whole workspace.
fn cargo_test() -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    let finished = command::finish(&mut command, CARGO_LIMIT)?;
    Ok(judge(&finished))
}

/// The vault's and the mount's tests once more, on an engine that answers late, out of order, or never.
/// The crash campaigns and the faults call by call are left out: they test the order of writes, which no
/// engine changes.
fn unruly_test() -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--all-features"]);
    command.args(["--no-fail-fast", "--test", "content", "--test", "namespace", "--test", "attacks"]);
    command.args(["--test", "attacks_names", "--test", "mount"]);
    command.env("STRONGROOM_TEST_ENGINE", "unruly");
    Ok(judge(&command::finish(&mut command, CARGO_LIMIT)?))
}

pub(crate) fn judge(finished: &command::Finished) -> Tally {
    let mut tally = parse(&finished.stdout);
    if !finished.status.success() {
        println!("{}", finished.output());
        if tally.failures.is_empty() {
            tally.failures.push("cargo test did not run to its end".into());
        }
    }
    tally
}

/// Adds up the `test result:` lines and collects the names of failed tests.
pub(crate) fn parse(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let number = |word: &str| -> u64 {
                let before = counts.split(word).next().unwrap_or_default().trim_end();
                before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
            };
            tally.passed += number(" passed");
            tally.skipped += number(" ignored");
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            tally.failures.push(name.to_owned());
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_over_io_uring_is_a_suite() {
        assert!(OVER_IO_URING.iter().all(|name| SUITES.iter().any(|suite| suite.name == *name)));
    }

    #[test]
    fn adds_up_what_cargo_test_prints() {
        let tally = parse(
            "test a ... ok\ntest b::c ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\n\
             test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((tally.passed, tally.skipped), (15, 2));
        assert_eq!(tally.failures, ["b::c"]);
    }
}
