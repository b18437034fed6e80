//! pjdfstest on the bare file system and on the mount, and the difference between the two.
//!
//! Whatever the bare file system passes, the mount has to pass, unless an exception below names the
//! test and the reason. An exception that is no longer needed is a failure too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

/// Tests that our mount may fail although the bare file system passes them, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "link::link_count_max",
    "skips itself: a FUSE server cannot tell its LINK_MAX, the C library answers 127 for all of them",
)];

/// ext4 passes this many of the pinned version; fewer means that the run itself is broken.
const BARE_PASSED_MIN: usize = 376;

const SUITE_LIMIT: Duration = Duration::from_secs(240);

/// Every optional feature that ext4 has. The nap is longer than the coarsest kernel tick.
const CONFIGURATION: &str = r#"
[features]
file_flags = []
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

#[derive(Args)]
pub struct PosixArgs {
    #[command(flatten)]
    subject: SubjectArgs,
}

impl PosixArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs) -> Self {
        Self { subject: subject.clone() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

type Outcomes = BTreeMap<String, Outcome>;

/// Runs the suite on both.
pub fn run(arguments: &PosixArgs) -> Result<Tally> {
    packages::need_root("posix")?;
    let tool = packages::tool(&packages::PJDFSTEST)?;
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("posix")?;
    let second = Scratch::new(Some(Path::new("/dev/shm")), "posix")?;
    let configuration = scratch.path().join("pjdfstest.toml");
    fs::write(&configuration, CONFIGURATION)?;
    let suite = |place: &Path| {
        let mut command = Command::new(&tool);
        command.arg("-c").arg(&configuration).arg("-p").arg(place).arg("-s").arg(second.path());
        let finished = command::finish(&mut command, SUITE_LIMIT)?;
        parse(&finished.stdout).context(finished.stderr)
    };

    let bare = Vault::create(&Subject::Bare, &scratch.make("bare")?)?;
    let on_bare = suite(&bare.place.directory).context("pjdfstest on the bare file system")?;
    println!("{:>12}: {}", "bare", describe(&on_bare));
    let passed = count(&on_bare, Outcome::Passed);
    ensure!(passed >= BARE_PASSED_MIN, "the bare file system passes only {passed}");

    let vault = Vault::create(&subject, &scratch.make("subject")?)?;
    let mount = vault.mount(MountOptions::new(SUITE_LIMIT * 2).allow_other())?;
    let on_mount = suite(mount.path()).context("pjdfstest on the mount")?;
    println!("{:>12}: {}", subject.label(), describe(&on_mount));
    mount.unmount()?;
    let exceptions = if subject.kind() == Kind::Strongroom { EXCEPTIONS } else { &[] };
    Ok(compare(&on_bare, &on_mount, exceptions))
}

/// Reads the runner's lines: a name, spaces, an outcome.
fn parse(output: &str) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(word), None) = (words.next(), words.next(), words.next()) else { continue };
        let outcome = match word {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            "skipped" => Outcome::Skipped,
            _ => continue,
        };
        outcomes.insert(name.to_owned(), outcome);
    }
    let total = output
        .lines()
        .find(|line| line.starts_with("Summary:"))
        .and_then(|line| line.strip_suffix(" total")?.rsplit(' ').next()?.parse::<usize>().ok());
    ensure!(
        total == Some(outcomes.len()),
        "{} results, but the summary says {total:?}:\n{output}",
        outcomes.len()
    );
    Ok(outcomes)
}

fn compare(bare: &Outcomes, mount: &Outcomes, exceptions: &[(&str, &str)]) -> Tally {
    let mut tally = Tally::default();
    for (name, on_bare) in bare {
        let on_mount = mount.get(name).copied();
        let reason = exceptions.iter().find(|(test, _)| test == name).map(|(_, reason)| *reason);
        match (on_bare, on_mount, reason) {
            (_, Some(Outcome::Passed), Some(_)) => {
                tally.fail(format!("{name}: passes, remove its exception"))
            }
            (_, Some(Outcome::Passed), None) => tally.passed += 1,
            (Outcome::Passed, _, Some(reason)) => {
                println!("  exception {name}: {reason}");
                tally.skipped += 1;
            }
            (Outcome::Passed, None, None) => tally.fail(format!("{name}: did not run on the mount")),
            (Outcome::Passed, Some(outcome), None) => {
                tally.fail(format!("{name}: passes on the bare file system, {outcome:?} on the mount"));
            }
            (Outcome::Failed | Outcome::Skipped, _, _) => tally.skipped += 1,
        }
    }
    tally
}

fn count(outcomes: &Outcomes, wanted: Outcome) -> usize {
    outcomes.values().filter(|outcome| **outcome == wanted).count()
}

fn describe(outcomes: &Outcomes) -> String {
    format!(
        "{} passed, {} failed, {} skipped",
        count(outcomes, Outcome::Passed),
        count(outcomes, Outcome::Failed),
        count(outcomes, Outcome::Skipped)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(all: &[(&str, Outcome)]) -> Outcomes {
        all.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
    }

    #[test]
    fn reads_the_runners_output_and_counts_it() {
        let output = "a::b   ok\n\nc   skipped\n\tno such feature\nd::e  FAILED\n\
            Summary: 1 failed, 1 skipped, 1 passed, 0 expected failures, 3 total\n";
        let parsed = parse(output).expect("three results");
        assert_eq!(
            parsed,
            outcomes(&[("a::b", Outcome::Passed), ("c", Outcome::Skipped), ("d::e", Outcome::Failed)])
        );
        assert!(parse(&output.replace("3 total", "4 total")).is_err());
        assert!(parse("a::b ok\n").is_err());
    }

    #[test]
    fn only_explained_differences_pass() {
        let bare = outcomes(&[("a", Outcome::Passed), ("b", Outcome::Passed), ("c", Outcome::Failed)]);
        let equal = compare(&bare, &bare, &[]);
        assert!(equal.is_success() && equal.passed == 2);
        let worse = outcomes(&[("a", Outcome::Failed), ("b", Outcome::Passed), ("c", Outcome::Failed)]);
        assert_eq!(compare(&bare, &worse, &[]).failures.len(), 1);
        assert!(compare(&bare, &worse, &[("a", "known")]).is_success());
        assert_eq!(compare(&bare, &bare, &[("a", "known")]).failures.len(), 1);
        let fewer = outcomes(&[("a", Outcome::Passed), ("c", Outcome::Failed)]);
        assert_eq!(compare(&bare, &fewer, &[]).failures.len(), 1);
        let skipped = outcomes(&[("a", Outcome::Skipped), ("b", Outcome::Passed), ("c", Outcome::Failed)]);
        assert_eq!(compare(&bare, &skipped, &[]).failures.len(), 1);
    }
}
