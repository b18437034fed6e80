//! The README's test command: the workspace's own tests, then every suite on a mount, one line for each.
//!
//! A mount takes FUSE over io_uring where the kernel offers it. Where this process may decide what the kernel
//! offers, some suites run over it and the others over `/dev/fuse`, so that both are tested.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::offer::Switch;
use crate::programs::{self, Built, TestProgram, WHOLE_WORKSPACE};
use crate::{arm, crash, dudect, fuzz, gpu, hostile, model, soundness};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::subject::{Kind, Settings, SubjectArgs};
use strongroom_harness::tally::Tally;
use strongroom_harness::{packages, workspace};
use strongroom_suites::{
    age, demo, fsx, git, kill, luks, posix, postgres, powercut, readme, soak, sparse, sqlite, stress,
};

/// Compiling for the tests from nothing, on two slow cores.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Of one test program, beside others.
const PROGRAM_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Test programs that are suites of their own.
const SUITES_OF_THEIR_OWN: [&str; 3] = ["crash", "hostile", "mask_histories"];
/// What takes longest, in this order.
const SLOWEST: [&str; 8] =
    ["cli", "proof", "faults", "memory", "attacks", "golden", "conformance", "strongroom_papers"];

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

/// What the suites run on.
struct Under {
    subject: SubjectArgs,
    /// The store that forgets.
    forgetful: Option<PathBuf>,
    long: bool,
}

struct Suite {
    name: &'static str,
    needs_root: bool,
    run: fn(&Under) -> Result<Tally>,
}

const SUITES: [Suite; 24] = [
    Suite { name: "cargo", needs_root: false, run: |_| cargo_test() },
    Suite { name: "unruly", needs_root: false, run: |_| unruly_test() },
    Suite { name: "crash", needs_root: false, run: |under| crash::run(&crash::CrashArgs::on(under.long)) },
    Suite {
        name: "hostile",
        needs_root: false,
        run: |under| hostile::run(&hostile::HostileArgs::on(under.long)),
    },
    Suite {
        name: "soundness",
        needs_root: false,
        run: |under| soundness::run(&soundness::SoundnessArgs::on(under.long)),
    },
    Suite { name: "model", needs_root: false, run: |under| model::run(&model::ModelArgs::on(under.long)) },
    Suite {
        name: "fuzz",
        needs_root: false,
        run: |under| fuzz::run(&fuzz::FuzzArgs::on(under.subject.binary.clone(), under.long)),
    },
    Suite { name: "gpu", needs_root: false, run: |_| gpu::run(&gpu::GpuArgs::all()) },
    Suite { name: "arm", needs_root: true, run: |under| arm::run(&arm::ArmArgs::on(under.long)) },
    Suite {
        name: "dudect",
        needs_root: false,
        run: |under| dudect::run(&dudect::DudectArgs::on(under.long)),
    },
    Suite { name: "demo", needs_root: false, run: |under| demo::run(&demo::DemoArgs::on(&under.subject)) },
    Suite {
        name: "readme",
        needs_root: false,
        run: |under| {
            readme::run(&readme::ReadmeArgs::on(under.subject.binary.clone(), under.subject.work.clone()))
        },
    },
    Suite { name: "posix", needs_root: true, run: |under| posix::run(&posix::PosixArgs::on(&under.subject)) },
    Suite {
        name: "fsx",
        needs_root: false,
        run: |under| fsx::run(&fsx::FsxArgs::on(&under.subject, under.long)),
    },
    Suite {
        name: "stress",
        needs_root: false,
        run: |under| stress::run(&stress::StressArgs::on(&under.subject, under.long)),
    },
    Suite {
        name: "sqlite",
        needs_root: false,
        run: |under| sqlite::run(&sqlite::SqliteArgs::on(&under.subject, under.long)),
    },
    Suite {
        name: "postgres",
        needs_root: true,
        run: |under| postgres::run(&postgres::PostgresArgs::on(&under.subject, under.long)),
    },
    Suite {
        name: "kill",
        needs_root: false,
        run: |under| kill::run(&kill::KillArgs::on(&under.subject, under.long)),
    },
    Suite {
        name: "powercut",
        needs_root: false,
        run: |under| {
            powercut::run(&powercut::PowercutArgs::on(&under.subject, under.forgetful.clone(), under.long))
        },
    },
    Suite {
        name: "soak",
        needs_root: false,
        run: |under| soak::run(&soak::SoakArgs::on(&under.subject, under.long)),
    },
    Suite { name: "git", needs_root: false, run: |under| git::run(&git::GitArgs::on(&under.subject)) },
    Suite {
        name: "sparse",
        needs_root: false,
        run: |under| sparse::run(&sparse::SparseArgs::on(&under.subject)),
    },
    Suite {
        name: "luks",
        needs_root: true,
        run: |under| {
            luks::run(&luks::LuksArgs::on(
                under.subject.binary.clone(),
                under.subject.work.clone(),
                under.long,
            ))
        },
    },
    Suite {
        name: "age",
        needs_root: false,
        run: |under| age::run(&age::AgeArgs::on(under.subject.binary.clone(), under.subject.work.clone())),
    },
];

/// Those that run no program, or build one of their own.
const WITHOUT_PROGRAM: [&str; 9] =
    ["cargo", "unruly", "crash", "hostile", "soundness", "model", "gpu", "arm", "dudect"];

impl Suite {
    fn takes_program(&self) -> bool {
        !WITHOUT_PROGRAM.contains(&self.name)
    }
}

impl Under {
    /// Builds the programs: in the short form those that the tests run, which have all features and check their
    /// arithmetic; in the long form a release, which takes as long again to compile.
    fn build(&mut self) -> Result {
        if self.long {
            self.subject.binary = Some(workspace::build_strongroom()?);
            self.forgetful = Some(workspace::build("strongroom-forgetful", "forgetful")?);
            return Ok(());
        }
        // Any test of each brings the program along.
        let built = cargo_built(&["mount_file", "clinging"])?;
        self.subject.binary = Some(built.binary("strongroom")?);
        self.forgetful = Some(built.binary("forgetful")?);
        Ok(())
    }
}

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
    let mut under = Under {
        subject: SubjectArgs {
            subject: Kind::Strongroom,
            settings: arguments.settings.clone(),
            work: arguments.work.clone(),
            binary: None,
        },
        forgetful: None,
        long: arguments.long,
    };
    if SUITES.iter().any(|suite| chosen(suite) && suite.takes_program()) {
        under.build()?;
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
        let Judged { line, failures: of_suite, success } = one(suite, &under);
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

fn one(suite: &Suite, under: &Under) -> Judged {
    let name = suite.name;
    if let Some(reason) = reason_against(suite) {
        return Judged { line: format!("{name}: not run ({reason})"), failures: vec![], success: true };
    }
    let began = Instant::now();
    let tally = (suite.run)(under).unwrap_or_else(|failure| {
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

/// The tests of the whole workspace, and the examples in its documentation.
fn cargo_test() -> Result<Tally> {
    let mut tests = cargo_built(&[])?.slowest_first(&SLOWEST);
    tests.retain(|test| !SUITES_OF_THEIR_OWN.contains(&test.name.as_str()));
    let mut tally = all(tests, &[]);
    let mut examples = workspace::cargo();
    examples.args(["test", "--doc"]).args(WHOLE_WORKSPACE);
    tally.add(programs::judge(&command::finish(&mut examples, BUILD_LIMIT)?));
    Ok(tally)
}

/// The vault's and the mount's tests once more, on an engine that answers late, out of order, or never.
/// The crash campaigns and the faults call by call are left out: they test the order of writes, which no
/// engine changes.
fn unruly_test() -> Result<Tally> {
    let tests = cargo_built(&["content", "namespace", "attacks", "attacks_names", "mount"])?.tests;
    Ok(all(tests, &[("STRONGROOM_TEST_ENGINE", "unruly")]))
}

/// The test programs of the workspace, or those of these names, and what they run.
fn cargo_built(names: &[&str]) -> Result<Built> {
    let mut cargo = workspace::cargo();
    cargo.arg("test").args(WHOLE_WORKSPACE).args(names.iter().flat_map(|name| ["--test", *name]));
    Built::by(&mut cargo, BUILD_LIMIT)
}

/// Runs them side by side, in an environment with these variables.
fn all(tests: Vec<TestProgram>, environment: &[(&str, &str)]) -> Tally {
    programs::side_by_side(tests.into_iter(), |test| {
        let mut command = test.command(&[]);
        let found = test.judged(command.envs(environment.iter().copied()), PROGRAM_LIMIT);
        (format!("{}: {}", test.of, test.name), found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_suites_names_suites() {
        let mut names = OVER_IO_URING.iter().chain(&WITHOUT_PROGRAM);
        assert!(names.all(|name| SUITES.iter().any(|suite| suite.name == *name)));
    }
}
