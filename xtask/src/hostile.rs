//! The model-based adversary: attacks composed of every stored state of random histories.
//!
//! The program that does it is the test target `hostile` of `strongroom-vault`; here are its arguments,
//! how many compositions each form has, its time limit, and how the rules of readers are left out in turn.

use std::time::Duration;

use clap::Args;

use crate::programs;
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::tally::Tally;

/// Compositions unless told otherwise.
const COMPOSITIONS: u64 = 100_000;
/// Compositions of the short form of `cargo xtask test`, which CI runs.
const SHORT: u64 = 25_000;
/// Compositions of the long form of `cargo xtask test`.
const LONG: u64 = 1_000_000;
/// Building, and a slow machine's compositions.
const LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Args)]
pub(crate) struct HostileArgs {
    /// Attacks to compose, a thousand of each history
    #[arg(long, default_value_t = COMPOSITIONS)]
    compositions: u64,
    /// The first history
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only leave out each rule of readers in turn; every one has to be caught
    #[arg(long, conflicts_with_all = ["compositions", "first"])]
    rules: bool,
}

impl HostileArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        Self { compositions: if long { LONG } else { SHORT }, first: 0, rules: false }
    }
}

/// Composes and judges the attacks, and sees that each rule left out is caught.
pub(crate) fn run(arguments: &HostileArgs) -> Result<Tally> {
    let HostileArgs { compositions, first, rules } = *arguments;
    let mut tally = Tally::default();
    if !rules {
        let words =
            ["--compositions".to_owned(), compositions.to_string(), "--first".to_owned(), first.to_string()];
        judge(&mut tally, &words)?;
    }
    judge(&mut tally, &["--rules".to_owned()])?;
    for own in own_tests()? {
        own.left_out(&mut tally)?;
    }
    Ok(tally)
}

/// Names to the tests the rule of readers that is left out.
const VARIABLE: &str = "STRONGROOM_TEST_LEAVE_OUT";

fn judge(tally: &mut Tally, words: &[String]) -> Result {
    if programs::shown("hostile", words, LIMIT)? {
        tally.passed += 1;
    } else {
        tally.failures.push(format!("hostile {}", words.join(" ")));
    }
    Ok(())
}

/// A rule whose absence gives nothing that never was, and the test that it
/// fails.
struct OwnTest {
    rule: String,
    target: String,
    test: String,
}

/// As the program that leaves out the others lists them.
fn own_tests() -> Result<Vec<OwnTest>> {
    let finished = command::finish(programs::of_workspace("hostile").arg("--own"), LIMIT)?;
    ensure!(finished.status.success(), "{}", finished.output());
    let own = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["own", rule, target, test] => {
            Some(OwnTest { rule: rule.to_owned(), target: target.to_owned(), test: test.to_owned() })
        }
        _ => None,
    };
    Ok(finished.stdout.lines().filter_map(own).collect())
}

impl OwnTest {
    /// Runs the test with the rule kept, and left out.
    fn left_out(&self, tally: &mut Tally) -> Result {
        let Self { rule, target, test } = self;
        let run = |left_out: bool| {
            let mut command = programs::of_workspace(target);
            command.args(["--exact", test]);
            if left_out {
                command.env(VARIABLE, rule);
            }
            command::finish(&mut command, LIMIT)
        };
        let (kept, left_out) = (run(false)?, run(true)?);
        let is_caught = left_out.stdout.contains("0 passed; 1 failed;");
        if kept.status.success() && kept.stdout.contains("1 passed; 0 failed;") && is_caught {
            println!("{rule}: caught by {target}::{test}");
            tally.passed += 1;
        } else {
            println!("{rule}: MISSED by {target}::{test}");
            tally.failures.push(format!("hostile --rules: {rule} left out, {target}::{test}"));
        }
        Ok(())
    }
}
