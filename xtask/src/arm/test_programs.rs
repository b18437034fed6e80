//! The tests of the crates that compute and store, compiled for AArch64 and run by the emulator: once with the
//! instructions for cryptography, once with these hidden.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

use super::hidden;
use super::machine::{AARCH64, BUILD_LIMIT};
use crate::programs::{self, Built};

/// Crates whose tests all run.
const WHOLE: [&str; 4] =
    ["strongroom-engine", "strongroom-engine-cpu", "strongroom-format", "strongroom-keys"];
const VAULT: &str = "strongroom-vault";
/// The vault's tests besides its units. The others try orders of writes and failures of stores, thousands of them: the
/// same code on every processor, where only time would be learnt from an emulator.
const OF_VAULT: [&str; 4] = ["attacks", "attacks_names", "content", "namespace"];
/// Of these, what the short form leaves out: they change thousands of bytes and names one by one, and read all after
/// each.
const LONG: [&str; 2] = ["attacks", "attacks_names"];
/// What takes longest, in this order.
const SLOWEST: [&str; 4] = ["attacks", "conformance", "content", "suite"];

/// Of one test program, beside others.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Runs them twice; the short form leaves out some.
pub(super) fn run(tally: &mut Tally, long: bool) -> Result {
    AARCH64.need()?;
    let scratch = Scratch::new(None, "arm")?;
    let hidden = hidden::library(&AARCH64, scratch.path())?;
    let programs =
        Built::by(AARCH64.cargo("test").args(targets(long)?), BUILD_LIMIT)?.slowest_first(&SLOWEST);
    let settings = [("ARMv8 cryptography", None), ("without it", Some(hidden.as_path()))];
    let runs = programs.iter().flat_map(|program| settings.map(|setting| (program, setting)));
    tally.add(programs::side_by_side(runs, |(program, (setting, hidden))| {
        let mut test = program.command(&AARCH64.emulator(*hidden));
        let found = program.judged(&mut test, RUN_LIMIT);
        (format!("{}: {}, {setting}", program.of, program.name), found)
    }));
    Ok(())
}

/// What `cargo test` is told. Examples in the documentation are left out: they are compiled one by one.
fn targets(long: bool) -> Result<Vec<String>> {
    let of_vault = OF_VAULT.iter().filter(|name| long || !LONG.contains(*name));
    let mut names: BTreeSet<String> = of_vault.map(|name| (*name).to_owned()).collect();
    for package in workspace::metadata()?["packages"].as_array().into_iter().flatten() {
        if WHOLE.iter().any(|name| package["name"] == *name) {
            let is_test = |target: &&Value| target["kind"][0] == "test";
            let tests = package["targets"].as_array().into_iter().flatten().filter(is_test);
            names.extend(tests.filter_map(|test| test["name"].as_str()).map(str::to_owned));
        }
    }
    ensure!(names.len() > OF_VAULT.len(), "cargo metadata names no tests of {}", WHOLE.join(", "));
    let packages = WHOLE.into_iter().chain([VAULT]).flat_map(|package| ["--package", package]);
    let mut words: Vec<String> = packages.map(str::to_owned).collect();
    words.extend(["--all-features", "--lib"].map(str::to_owned));
    words.extend(names.into_iter().flat_map(|name| ["--test".to_owned(), name]));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_is_named_is_one() -> Result {
        let metadata = workspace::metadata()?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
        let names: Vec<&str> = targets.filter_map(|target| target["name"].as_str()).collect();
        for name in OF_VAULT.iter().chain(&LONG).chain(&SLOWEST) {
            assert!(names.contains(name), "there is no test {name}");
        }
        Ok(())
    }
}
