//! The tests of the crates that compute and store, compiled for AArch64 and run by the emulator: once with the
//! instructions for cryptography, once with these hidden.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

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
/// Of these, what the short form leaves out: it changes thousands of bytes one by one, and reads all after each.
const LONG: [&str; 1] = ["attacks"];
/// What takes longest, in this order. It begins first, so that no processor waits for it in the end.
const SLOWEST: [&str; 4] = ["attacks", "conformance", "content", "suite"];

/// Of one test program, beside others.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Runs them twice; the short form leaves out some.
pub(super) fn run(tally: &mut Tally, long: bool) -> Result {
    AARCH64.need()?;
    let scratch = Scratch::new(None, "arm")?;
    let hidden = hidden::library(&AARCH64, scratch.path())?;
    let programs = built(&targets(long)?)?;
    let settings = [("ARMv8 cryptography", None), ("without it", Some(hidden.as_path()))];
    let in_both = |program| settings.map(|(setting, hidden)| Run { setting, program, hidden });
    let runs: Vec<Run<'_>> = programs.iter().flat_map(in_both).collect();
    for (setting, found) in run_all(runs) {
        tally.passed += found.passed;
        tally.skipped += found.skipped;
        found.failures.into_iter().for_each(|name| tally.fail(format!("{setting}: {name}")));
    }
    Ok(())
}

/// A test program.
struct Program {
    name: String,
    path: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

/// One run of one.
struct Run<'a> {
    setting: &'static str,
    program: &'a Program,
    /// What hides the instructions.
    hidden: Option<&'a Path>,
}

impl Run<'_> {
    /// Counts its tests, and prints a line.
    fn judged(&self) -> Tally {
        let Program { name, path, directory } = self.program;
        let began = Instant::now();
        let mut test = Command::new("env");
        test.args(AARCH64.emulator(self.hidden))
            .arg(path)
            .current_dir(directory)
            .env("CARGO_MANIFEST_DIR", directory);
        let mut found = Tally::default();
        match command::finish(&mut test, RUN_LIMIT) {
            Ok(finished) => {
                found = crate::test::parse(&finished.stdout);
                if !finished.status.success() {
                    println!("{}", finished.output());
                    if found.failures.is_empty() {
                        found.failures.push(format!("{name} did not run to its end"));
                    }
                } else if !finished.stdout.contains("test result: ") {
                    // A program without the harness is one test.
                    found.passed += 1;
                }
            }
            Err(failure) => found.failures.push(format!("{name}: {failure}")),
        }
        let of = directory.file_name().unwrap_or_default().to_string_lossy();
        let seconds = began.elapsed().as_secs();
        println!("  {of}: {name}, {}: {} ({seconds} s)", self.setting, found.summary());
        found
    }
}

/// Runs them, as many at a time as there are processors.
fn run_all(runs: Vec<Run<'_>>) -> Vec<(&'static str, Tally)> {
    let queue = Mutex::new(runs.into_iter());
    let next = || queue.lock().expect("no thread panics with it").next();
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(run) = next() {
                    let judged = (run.setting, run.judged());
                    found.lock().expect("no thread panics with it").push(judged);
                }
            });
        }
    });
    found.into_inner().expect("no thread panicked")
}

/// Compiles what `cargo test` is told by these words.
fn built(words: &[String]) -> Result<Vec<Program>> {
    let mut build = AARCH64.cargo("test");
    build.args(["--no-run", "--message-format", "json-render-diagnostics"]).args(words);
    let finished = command::finish(&mut build, BUILD_LIMIT)?;
    ensure!(finished.status.success(), "the tests do not compile:\n{}", finished.stderr);
    let messages = finished.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs: Vec<Program> = messages.filter_map(|message| program(&message)).collect();
    ensure!(!programs.is_empty(), "cargo built no tests");
    let place = |program: &Program| SLOWEST.iter().position(|slow| program.name == *slow);
    programs.sort_by_key(|program| place(program).unwrap_or(SLOWEST.len()));
    Ok(programs)
}

/// The test program that a message of cargo names.
fn program(message: &Value) -> Option<Program> {
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let name = message["target"]["name"].as_str()?;
    Some(Program { name: name.to_owned(), path: path.into(), directory: directory.to_owned() })
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

    #[test]
    fn a_message_of_cargo_names_a_test_and_where_it_runs() {
        let mut message = serde_json::json!({
            "executable": "/t/deps/suite-1", "manifest_path": "/r/crates/a/Cargo.toml",
            "profile": { "test": true }, "target": { "name": "suite" },
        });
        let found = program(&message).expect("it is one");
        assert_eq!((found.name.as_str(), found.directory.as_path()), ("suite", Path::new("/r/crates/a")));
        message["profile"]["test"] = false.into();
        assert!(program(&message).is_none(), "a program that the tests use is none");
    }
}
