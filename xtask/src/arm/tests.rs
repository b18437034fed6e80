//! The tests of the crates that compute and store, compiled for AArch64 and run by the emulator: once with the
//! instructions for cryptography, once with these hidden.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

use super::hidden;
use super::machine::{AARCH64, BUILD_LIMIT};

/// Crates whose tests all run.
const WHOLE: [&str; 4] =
    ["strongroom-engine", "strongroom-engine-cpu", "strongroom-format", "strongroom-keys"];
const VAULT: &str = "strongroom-vault";
/// The vault's tests besides its units. The others try orders of writes and failures of stores, thousands of them: the
/// same code on every processor, where only time would be learnt from an emulator.
const OF_VAULT: [&str; 4] = ["attacks", "attacks_names", "content", "namespace"];

const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Runs them twice.
pub(super) fn run(tally: &mut Tally) -> Result {
    AARCH64.need()?;
    let scratch = Scratch::new(None, "arm")?;
    let hidden = hidden::library(&AARCH64, scratch.path())?;
    let targets = targets()?;
    let mut build = AARCH64.cargo("test");
    build.args(["--quiet", "--no-run"]).args(&targets);
    command::show(&mut build, BUILD_LIMIT)?;
    for (setting, library) in [("ARMv8 cryptography", None), ("without it", Some(hidden.as_path()))] {
        let mut test = AARCH64.cargo_run_by(&AARCH64.emulator(library), "test");
        test.arg("--no-fail-fast").args(&targets);
        let found = crate::test::judge(&command::finish(&mut test, RUN_LIMIT)?);
        println!("  tests, {setting}: {}", found.summary());
        tally.passed += found.passed;
        tally.skipped += found.skipped;
        found.failures.into_iter().for_each(|name| tally.fail(format!("{setting}: {name}")));
    }
    Ok(())
}

/// What `cargo test` is told. Examples in the documentation are left out: they are compiled one by one.
fn targets() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let mut names: BTreeSet<String> = OF_VAULT.map(str::to_owned).into();
    for package in metadata["packages"].as_array().into_iter().flatten() {
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
