//! stress-ng's file system stressors: those that pass on the bare file system have to pass on the mount.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

/// Stressors that are not run, each with its reason.
const SKIPPED: &[(&str, &str)] = &[
    ("bind-mount", "mounts over system directories and never uses the tested one"),
    ("binderfs", "mounts another file system and never uses the tested one"),
    ("eventfd", "never uses the tested directory"),
    ("ioprio", "sets scheduling priorities only"),
    ("procfs", "reads /proc and never uses the tested directory"),
];

/// What a stressor may take beyond its own time: setting up and cleaning up.
const SLACK: Duration = Duration::from_secs(60);
const MOUNT_LIMIT: Duration = Duration::from_secs(60 * 60);

#[derive(Args)]
pub struct StressArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Seconds for each stressor on each side
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Only these stressors
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl StressArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        Self { subject: subject.clone(), seconds: if long { 10 } else { 1 }, only: Vec::new() }
    }
}

/// What one stressor came to, by stress-ng's documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// Codes 3 and 4: no resources, or not implemented here.
    Unavailable,
}

/// Runs every stressor on both.
pub fn run(arguments: &StressArgs) -> Result<Tally> {
    packages::need(&[("stress-ng", "stress-ng")])?;
    let names = if arguments.only.is_empty() { stressors()? } else { arguments.only.clone() };
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("stress")?;
    let bare = Vault::create(&Subject::Bare, &scratch.make("bare")?)?;
    let vault = Vault::create(&subject, &scratch.make("subject")?)?;
    let mount = vault.mount(MountOptions::new(MOUNT_LIMIT).allow_other())?;
    let mut tally = Tally::default();
    for name in &names {
        if let Some((_, reason)) = SKIPPED.iter().find(|(skipped, _)| skipped == name) {
            println!("  skipped {name}: {reason}");
            tally.skipped += 1;
            continue;
        }
        let on_bare = stress(name, arguments.seconds, &bare.place.directory);
        match on_bare {
            Ok(Outcome::Passed) => {}
            Ok(Outcome::Unavailable) => {
                println!("  skipped {name}: not available on the bare file system");
                tally.skipped += 1;
                continue;
            }
            Err(failure) => {
                println!("  skipped {name}: fails on the bare file system too ({})", first_line(&failure));
                tally.skipped += 1;
                continue;
            }
        }
        let outcome = stress(name, arguments.seconds, mount.path()).and_then(|outcome| {
            ensure!(outcome == Outcome::Passed, "passes on the bare file system, unavailable on the mount");
            Ok(())
        });
        tally.count(name, outcome);
    }
    mount.unmount().context("after the stressors")?;
    Ok(tally)
}

fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The names of the class, as the installed version knows them.
fn stressors() -> Result<Vec<String>> {
    let mut command = Command::new("stress-ng");
    command.args(["--class", "filesystem?"]);
    let finished = command::finish(&mut command, Duration::from_secs(20))?;
    let text = finished.output();
    let (_, names) =
        text.split_once("stressors:").ok_or_else(|| Failure::new(format!("no stressors in: {text}")))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

fn stress(name: &str, seconds: u64, place: &Path) -> Result<Outcome> {
    let mut command = Command::new("stress-ng");
    command.arg(format!("--{name}")).arg("2").arg("--timeout").arg(format!("{seconds}s"));
    command.args(["--verify", "--oomable"]).arg("--temp-path").arg(place).current_dir(place);
    let finished = command::finish(&mut command, Duration::from_secs(seconds) + SLACK)?;
    match finished.code() {
        0 => Ok(Outcome::Passed),
        3 | 4 => Ok(Outcome::Unavailable),
        code => {
            let output = finished.output();
            let fault = output.lines().filter(|line| line.contains("fail") || line.contains("error"));
            let fault: Vec<&str> = fault.take(5).collect();
            Err(Failure::new(format!("exit code {code}: {}", fault.join(" | "))))
        }
    }
}
