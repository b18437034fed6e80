//! The fuzz targets, built with the stable compiler and run side by side, one on each processor.
//!
//! `cargo fuzz` needs a nightly compiler for its sanitizers. The parsers have no unsafe code, so that coverage
//! and checked arithmetic are what is needed, and these are flags of the stable one. Corpora begin with real
//! bytes: what a fresh vault stored, and names and requests as they are. They, and what crashes, are kept in
//! `fuzz/corpus` and `fuzz/artifacts`, where `cargo fuzz` keeps them too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::programs;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

const TARGETS: [&str; 12] = [
    "page",
    "journal",
    "header",
    "names",
    "special",
    "request",
    "freshness",
    "luks",
    "age_header",
    "age_armor",
    "age_stream",
    "trace",
];
/// Seconds for each target in the short form, which CI runs.
const SHORT: u64 = 8;
/// Seconds for each target in the long form of `cargo xtask test`.
const LONG: u64 = 600;
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Longest input: a vault header with room to spare.
const LEN_MAX: u64 = 16 << 10;
/// What a run may take beyond its time and that of its longest input.
const SLACK: Duration = Duration::from_secs(60);
/// Seconds that one input may take.
const INPUT_LIMIT: u64 = 10;
/// Coverage as libFuzzer wants it.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks";

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Seconds for each target
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Seconds that one input may take; a machine that stands still at times needs more
    #[arg(long, value_name = "SECONDS", default_value_t = INPUT_LIMIT)]
    input_limit: u64,
    /// Only these targets (page, journal, header, names, special, request, freshness, luks, age_header, age_armor,
    /// age_stream, trace)
    targets: Vec<String>,
    /// A built strongroom binary, for the corpora [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl FuzzArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(binary: Option<PathBuf>, long: bool) -> Self {
        let seconds = if long { LONG } else { SHORT };
        Self { seconds, input_limit: INPUT_LIMIT, targets: Vec::new(), binary }
    }
}

/// Builds and runs the targets.
pub(crate) fn run(arguments: &FuzzArgs) -> Result<Tally> {
    packages::need(&[("g++", "g++")])?;
    if let Some(unknown) = arguments.targets.iter().find(|target| !TARGETS.contains(&target.as_str())) {
        return Err(Failure::new(format!("there is no target `{unknown}`")));
    }
    let chosen = |target: &&&str| {
        arguments.targets.is_empty() || arguments.targets.iter().any(|wanted| wanted == **target)
    };
    let directory = workspace::root().join("fuzz");
    let built = build(&directory)?;
    let subject = Subject::resolve(Kind::Strongroom, Settings::default(), arguments.binary.as_deref())?;
    let seeds = seeds(&subject)?;
    Ok(programs::side_by_side(TARGETS.iter().filter(chosen), |target| {
        let outcome = plant(&directory.join("corpus").join(target), &seeds)
            .and_then(|()| fuzz(&built.join(target), target, &directory, arguments));
        ((**target).to_owned(), programs::of_one(outcome))
    }))
}

/// Builds all targets; gives the directory of the programs.
fn build(directory: &Path) -> Result<PathBuf> {
    let target = workspace::target()?.join("fuzz");
    let triple = host()?;
    let mut command = workspace::cargo();
    command.current_dir(directory).env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target);
    // With a target named, what runs while compiling is not instrumented.
    command.args(["build", "--release", "--bins", "--target", &triple]);
    command::show(&mut command, BUILD_LIMIT)?;
    Ok(target.join(triple).join("release"))
}

fn host() -> Result<String> {
    let mut command = Command::new("rustc");
    let version = command::output(command.arg("-vV"), Duration::from_secs(20))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::new("rustc names no host"))
}

/// The bytes of a vault that was used and killed: header, journal, pages, names, special records; and a trace
/// of that.
fn seeds(subject: &Subject) -> Result<Vec<Vec<u8>>> {
    let scratch = Scratch::new(None, "fuzz")?;
    let vault = Vault::create(subject, scratch.path())?;
    let mount = vault.mount(MountOptions::new(Duration::from_secs(120)))?;
    let plain = mount.path().to_path_buf();
    let recorded = scratch.path().join("recorded");
    trace(subject, "start", &[plain.as_os_str()])?;
    fs::create_dir(plain.join("directory"))?;
    fs::write(plain.join("directory/file"), vec![7; 600_000])?;
    fs::write(plain.join("n".repeat(250)), "content")?;
    std::os::unix::fs::symlink("directory/file", plain.join("link"))?;
    let file = fs::File::options().write(true).open(plain.join("directory/file"))?;
    std::os::unix::fs::FileExt::write_all_at(&file, &[8; 5000], 5000)?;
    file.sync_all()?;
    drop(file);
    trace(subject, "stop", &[plain.as_os_str(), "-o".as_ref(), recorded.as_os_str()])?;
    mount.crash()?;
    let mut seeds = vec![fs::read(&recorded).context("a trace")?];
    collect(&vault.place.store, &mut seeds)?;
    if let Subject::Strongroom { binary, .. } = subject {
        seeds.extend(single_files(binary, scratch.path())?);
    }
    ensure!(seeds.len() >= 8, "only {} seeds", seeds.len());
    Ok(seeds)
}

/// Begins or ends a trace.
fn trace(subject: &Subject, what: &str, words: &[&std::ffi::OsStr]) -> Result {
    let Subject::Strongroom { binary, .. } = subject else { return Err(Failure::new("it records nothing")) };
    let mut command = Command::new(binary);
    command.args(["trace", what]).args(words);
    command::output(&mut command, Duration::from_secs(20)).map(drop)
}

/// A file in age's format for several recipients, as bytes and armored.
fn single_files(binary: &Path, directory: &Path) -> Result<Vec<Vec<u8>>> {
    let directory = directory.join("files");
    fs::create_dir(&directory)?;
    let run = |words: &[&str]| {
        let mut command = Command::new(binary);
        command.arg("file").args(words).current_dir(&directory);
        command::output(&mut command, Duration::from_secs(60))
    };
    fs::write(directory.join("plain"), vec![7; 300])?;
    run(&["keygen", "-o", "key"])?;
    run(&["keygen", "--pq", "-o", "hybrid"])?;
    run(&["encrypt", "-i", "key", "-i", "key", "-o", "a", "plain"])?;
    run(&["encrypt", "-i", "hybrid", "-o", "b", "plain"])?;
    run(&["encrypt", "-a", "-i", "key", "-o", "c", "plain"])?;
    ["a", "b", "c"].into_iter().map(|name| Ok(fs::read(directory.join(name))?)).collect()
}

fn collect(directory: &Path, seeds: &mut Vec<Vec<u8>>) -> Result {
    for entry in fs::read_dir(directory).context(directory.display())? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        seeds.push(entry.file_name().as_encoded_bytes().to_vec());
        if kind.is_dir() {
            collect(&path, seeds)?;
        } else if kind.is_symlink() {
            seeds.push(fs::read_link(&path)?.as_os_str().as_encoded_bytes().to_vec());
        } else {
            let bytes = fs::read(&path)?;
            // The first pages hold what the parsers read; the rest is ciphertext.
            seeds.extend(bytes.chunks(4096).take(4).map(<[u8]>::to_vec));
            seeds.push(bytes[..bytes.len().min(LEN_MAX as usize)].to_vec());
        }
    }
    Ok(())
}

fn plant(corpus: &Path, seeds: &[Vec<u8>]) -> Result {
    fs::create_dir_all(corpus).context(corpus.display())?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number:03}")), seed)?;
    }
    Ok(())
}

fn fuzz(program: &Path, target: &str, directory: &Path, arguments: &FuzzArgs) -> Result {
    let FuzzArgs { seconds, input_limit, .. } = arguments;
    let artifacts = directory.join("artifacts").join(target);
    fs::create_dir_all(&artifacts).context(artifacts.display())?;
    let mut command = Command::new(program);
    command.arg(directory.join("corpus").join(target));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={LEN_MAX}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-print_final_stats=1", "-rss_limit_mb=2048", "-verbosity=1"]);
    command.arg(format!("-timeout={input_limit}"));
    let finished = command::finish(&mut command, Duration::from_secs(seconds + input_limit) + SLACK)?;
    let output = finished.output();
    let figure =
        |key: &str| output.lines().find_map(|line| line.strip_prefix(key)).map_or("?", str::trim).to_owned();
    println!(
        "  {target}: {} executions, {} new inputs",
        figure("stat::number_of_executed_units:"),
        figure("stat::new_units_added:")
    );
    if !finished.status.success() {
        let last: Vec<&str> = output.lines().rev().take(30).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(Failure::new(format!("see {}\n{}", artifacts.display(), last.join("\n"))));
    }
    ensure!(figure("stat::number_of_executed_units:") != "?", "it printed no figures:\n{output}");
    Ok(())
}
