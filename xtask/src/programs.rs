//! Test programs: compiled by one call of cargo, found by what it says, run as many at a time as there are processors.
//!
//! `cargo test` runs them one after the other, and many of them wait or have one long test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

/// Whatever is taken of the workspace, what it depends on has the same features, and is compiled once.
pub(crate) const WHOLE_WORKSPACE: [&str; 2] = ["--workspace", "--all-features"];

/// What one call of cargo has compiled.
pub(crate) struct Built {
    pub(crate) tests: Vec<TestProgram>,
    /// What the tests run, each by its name.
    binaries: Vec<(String, PathBuf)>,
}

/// A test program.
#[derive(Debug)]
pub(crate) struct TestProgram {
    /// The crate's directory below `crates`.
    pub(crate) of: String,
    pub(crate) name: String,
    path: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

impl Built {
    /// Compiles what `cargo test` with its words would run; what it warns of is shown.
    ///
    /// # Errors
    /// Something does not compile within the limit, or there is no test.
    pub(crate) fn by(cargo: &mut Command, limit: Duration) -> Result<Built> {
        cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]);
        let finished = command::finish(cargo, limit)?;
        ensure!(finished.status.success(), "the tests do not compile:\n{}", finished.stderr);
        let built = Built::from_messages(&finished.stdout);
        ensure!(!built.tests.is_empty(), "cargo built no tests");
        Ok(built)
    }

    fn from_messages(lines: &str) -> Built {
        let mut built = Built { tests: Vec::new(), binaries: Vec::new() };
        for message in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(path) = message["executable"].as_str().map(PathBuf::from) else { continue };
            let manifest = message["manifest_path"].as_str().map(Path::new);
            let Some(directory) = manifest.and_then(Path::parent) else { continue };
            let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
            if message["profile"]["test"] == true {
                let of = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
                built.tests.push(TestProgram { of, name, path, directory: directory.to_owned() });
            } else {
                built.binaries.push((name, path));
            }
        }
        built
    }

    /// The tests, those that take longest first and in this order, so that no processor waits for one in the end.
    pub(crate) fn slowest_first(mut self, slowest: &[&str]) -> Vec<TestProgram> {
        let place = |test: &TestProgram| slowest.iter().position(|slow| test.name == *slow);
        self.tests.sort_by_key(|test| place(test).unwrap_or(slowest.len()));
        self.tests
    }

    /// A program that tests run.
    pub(crate) fn binary(&self, name: &str) -> Result<PathBuf> {
        let found = self.binaries.iter().find(|(built, _)| built == name);
        found
            .map(|(_, path)| path.clone())
            .ok_or_else(|| Failure::new(format!("cargo built no program {name}")))
    }
}

impl TestProgram {
    /// Runs it as cargo would; `before` are the words of a program that runs it in turn.
    pub(crate) fn command(&self, before: &[String]) -> Command {
        let mut words = before.iter().map(std::ffi::OsString::from).chain([self.path.clone().into()]);
        let mut command = Command::new(words.next().expect("there is the program at least"));
        command.args(words).current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }

    /// Runs the command made of it, counts its tests, and shows all that it said if one fails.
    pub(crate) fn judged(&self, command: &mut Command, limit: Duration) -> Tally {
        let name = &self.name;
        let finished = match command::finish(command, limit) {
            Ok(finished) => finished,
            Err(failure) => return failed(format!("{name}: {failure}")),
        };
        let mut found = parse(&finished.stdout);
        if !finished.status.success() {
            println!("{}", finished.output());
            if found.failures.is_empty() {
                found.failures.push(format!("{name} did not run to its end"));
            }
        } else if !finished.stdout.contains("test result: ") {
            // A program without the harness is one test.
            found.passed += 1;
        }
        found
    }
}

/// What became of a single test.
pub(crate) fn of_one(outcome: Result) -> Tally {
    match outcome {
        Ok(()) => Tally { passed: 1, ..Tally::default() },
        Err(failure) => failed(failure.to_string()),
    }
}

fn failed(failure: String) -> Tally {
    Tally { failures: vec![failure], ..Tally::default() }
}

/// Does `run` for each of `items`, as many at a time as there are processors, in their order; prints a line with what
/// became of each and how long it took.
pub(crate) fn side_by_side<Item: Send>(
    items: impl Iterator<Item = Item> + Send,
    run: impl Fn(&Item) -> (String, Tally) + Sync,
) -> Tally {
    let queue = Mutex::new(items);
    let all = Mutex::new(Tally::default());
    let next = || queue.lock().expect("no thread panics with it").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let began = Instant::now();
                    let (what, mut found) = run(&item);
                    found.failures.iter_mut().for_each(|failure| failure.insert_str(0, &format!("{what}: ")));
                    let seconds = began.elapsed().as_secs();
                    if seconds >= WORTH_A_LINE || !found.failures.is_empty() {
                        println!("  {what}: {} ({seconds} s)", found.summary());
                    }
                    all.lock().expect("no thread panics with it").add(found);
                }
            });
        }
    });
    all.into_inner().expect("no thread panicked")
}

/// Seconds: what took less is in the sum.
const WORTH_A_LINE: u64 = 10;

/// What runs a test program as the whole workspace has it; its own words follow.
pub(crate) fn of_workspace(target: &str) -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--quiet"]).args(WHOLE_WORKSPACE).args(["--test", target, "--"]);
    command
}

/// Runs it. Hours may pass: its lines are shown as they come.
pub(crate) fn shown(target: &str, words: &[String], limit: Duration) -> Result<bool> {
    let mut command = of_workspace(target);
    let mut child = command::spawn(command.args(words).stdin(Stdio::null()))?;
    Ok(command::wait(&mut child, limit)?.success())
}

/// What `cargo test` has said, which is shown if a test fails.
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
    fn adds_up_what_cargo_test_prints() {
        let tally = parse(
            "test a ... ok\ntest b::c ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\n\
             test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((tally.passed, tally.skipped), (15, 2));
        assert_eq!(tally.failures, ["b::c"]);
    }

    fn message(is_test: bool) -> String {
        serde_json::json!({
            "executable": "/t/deps/suite-1", "manifest_path": "/r/crates/a/Cargo.toml",
            "profile": { "test": is_test }, "target": { "name": "suite" },
        })
        .to_string()
    }

    #[test]
    fn messages_of_cargo_name_tests_and_the_programs_that_these_use() -> Result {
        let built = Built::from_messages(&format!("{}\n{{}}\n{}\n", message(true), message(false)));
        let [test] = &built.tests[..] else { panic!("one test: {:?}", built.tests) };
        assert_eq!((test.of.as_str(), test.name.as_str()), ("a", "suite"));
        assert_eq!(test.directory, Path::new("/r/crates/a"));
        assert_eq!(built.binary("suite")?, Path::new("/t/deps/suite-1"));
        assert!(built.binary("other").is_err());
        Ok(())
    }

    fn shell(script: &str) -> Tally {
        let program = TestProgram {
            of: "a".to_owned(),
            name: "script".to_owned(),
            path: "/bin/sh".into(),
            directory: "/".into(),
        };
        program.judged(program.command(&[]).args(["-c", script]), Duration::from_secs(20))
    }

    #[test]
    fn a_program_fails_by_its_status_and_is_one_test_without_the_harness() {
        assert_eq!(shell("exit 0").passed, 1);
        assert_eq!(shell("exit 3").failures, ["script did not run to its end"]);
        let found =
            shell("echo 'test b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed;'; exit 101");
        assert_eq!((found.passed, found.failures), (1, vec!["b".to_owned()]));
    }

    #[test]
    fn all_items_are_run() {
        let found = side_by_side(1..=9, |item| (item.to_string(), failed(format!("{item}"))));
        let mut failures = found.failures;
        failures.sort();
        let each: Vec<String> = (1..=9).map(|item| format!("{item}: {item}")).collect();
        assert_eq!(failures, each);
    }
}
