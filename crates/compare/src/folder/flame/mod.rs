//! Where the daemon's CPU time goes in the main rows, as flame graphs: what is asked stands below, what it
//! calls above, each as wide as its part of the samples (Gregg, "The Flame Graph", CACM 2016).

mod stacks;
mod svg;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::folder::flame::stacks::Stacks;
use crate::folder::rows::{self, Row, Step, Work};
use crate::folder::stage::{Stage, Variant};
use crate::work::Archive;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;

/// The four main rows.
const ROWS: [&str; 4] = ["read-cold-1m-1", "write-1m-1", "random-read-cold-4k-1", "unpack"];
/// Each row is run so often, and its samples are put together.
const PASSES: u64 = 5;
/// Samples in a second, in no step with what the kernel does a thousand times.
const RATE: &str = "1999";
/// `perf` needs a moment to find all threads.
const ATTACHES: Duration = Duration::from_millis(300);
const PERF_LIMIT: Duration = Duration::from_secs(300);

/// Draws one graph for each of the main rows into `directory`, from a store below `place`.
pub(super) fn draw(
    variant: &Variant,
    place: &Path,
    each: u64,
    budget: Duration,
    small_files: u64,
    directory: &Path,
) -> Result {
    packages::need(&[("perf", "linux-perf")])?;
    fs::create_dir_all(directory).context(directory.display())?;
    let scratch = Scratch::new(Some(place), "flame")?;
    let archive = Archive::create(scratch.path(), small_files)?;
    let mut stage = Stage::new(vec![variant.clone()], &scratch.make("strongroom")?, false, each)?;
    let all = rows::all();
    for key in ROWS {
        eprintln!("where the time goes: {key}");
        let row = all.iter().find(|row| row.key == key).expect("the main rows are among all");
        let stacks = profiled(&mut stage, row, budget, &archive)?;
        ensure!(stacks.samples() > 0, "{key}: perf has no sample of the daemon");
        let title = format!("{}: {} samples of the daemon's CPU time", row.title, stacks.samples());
        let file = directory.join(format!("{key}.svg"));
        fs::write(&file, svg::drawn(&title, &stacks)).context(file.display())?;
    }
    Ok(())
}

fn profiled(stage: &mut Stage, row: &Row, budget: Duration, archive: &Archive) -> Result<Stacks> {
    let mut stacks = Stacks::default();
    for seed in 0..PASSES {
        stage.record(true);
        match row.work {
            Work::Step(step) => stage.step(step, 0, archive).map(drop),
            work => stage.run(work, 0, budget, seed, archive).map(drop),
        }?;
        stacks.add(&stage.record(false));
        if matches!(row.work, Work::Step(_)) {
            stage.step(Step::Remove, 0, archive)?;
        }
    }
    Ok(stacks)
}

/// Runs `work`, and says in the words of `perf script` what the process did meanwhile.
pub(super) fn recorded<T>(process: Pid, work: impl FnOnce() -> Result<T>) -> Result<(T, String)> {
    let file = tempfile::NamedTempFile::new()?;
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", RATE, "--call-graph", "dwarf,8192", "-o"])
        .arg(file.path())
        .args(["-p", &process.as_raw_nonzero().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut recording = command::spawn(&mut perf)?;
    thread::sleep(ATTACHES);
    let done = work();
    let recorder = i32::try_from(recording.id()).ok().and_then(Pid::from_raw);
    kill_process(recorder.ok_or_else(|| Failure::new("perf has no process number"))?, Signal::INT)?;
    command::wait(&mut recording, PERF_LIMIT).context("perf record")?;
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(file.path());
    let printed = command::finish(&mut script, PERF_LIMIT)?;
    ensure!(printed.code() == 0, "perf script: {}", printed.stderr);
    Ok((done?, printed.stdout))
}
