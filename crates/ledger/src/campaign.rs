//! Rounds of work and crash on one vault: starting the writers, and comparing what is there with their logs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::churn::Mix;
use super::lane::{Kept, Lane};
use super::tree::{self, Tree};
use super::{action, writer};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::vault::Vault;

/// Writer processes, and lanes in each.
const PROCESSES: u64 = 4;
const LANES_EACH: u64 = 2;
const LANES: u64 = PROCESSES * LANES_EACH;
/// How long a writer may take to notice that its mount is gone.
const END_LIMIT: Duration = Duration::from_secs(60);
/// The last lines of a log, which a failure shows besides those of the file that it is about.
const SHOWN: usize = 80;

/// Several rounds on one vault.
pub struct Campaign {
    plain: PathBuf,
    strongroom: PathBuf,
    logs: PathBuf,
    seed: u64,
    mix: Mix,
    round: u64,
    /// What was there when the round began, by lane.
    trees: Vec<Tree>,
}

/// The work of one round, under way.
pub struct Work {
    writers: Vec<Child>,
    syncs: Vec<Syncing>,
}

/// A `strongroom sync`, and how long the logs were before it.
struct Syncing {
    child: Child,
    positions: Vec<u64>,
}

/// What was acknowledged besides the logs, by lane: positions in the log.
pub struct Witnessed {
    syncs: Vec<Vec<u64>>,
    /// `strongroom sync`s that succeeded.
    pub count: u64,
}

impl Campaign {
    /// Begins on a fresh vault, which is mounted.
    pub fn begin(vault: &Vault, logs: PathBuf, seed: u64, mix: Mix) -> Result<Self> {
        let Subject::Strongroom { binary, .. } = &vault.subject else {
            return Err(Failure::new("only strongroom has a daemon to be killed"));
        };
        let plain = vault.place.directory.clone();
        writer::prepare(&plain, LANES)?;
        let strongroom = binary.clone();
        let trees = vec![Tree::new(); LANES as usize];
        Ok(Self { plain, strongroom, logs, seed, mix, round: 0, trees })
    }

    fn round_logs(&self) -> PathBuf {
        self.logs.join(format!("round-{}", self.round))
    }

    /// Starts the writers of the next round.
    pub fn start(&mut self) -> Result<Work> {
        self.round += 1;
        let logs = self.round_logs();
        fs::create_dir(&logs).context(logs.display())?;
        let mut work = Work { writers: Vec::new(), syncs: Vec::new() };
        for process in 0..PROCESSES {
            let lanes: Vec<String> =
                (process * LANES_EACH..(process + 1) * LANES_EACH).map(|lane| lane.to_string()).collect();
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("ledger-writer").arg("--plain").arg(&self.plain).arg("--logs").arg(&logs);
            command.arg("--lanes").arg(lanes.join(",")).args(["--round", &self.round.to_string()]);
            let mix = self.mix.to_possible_value().expect("no mix is hidden");
            command.args(["--seed", &self.seed.to_string(), "--mix", mix.get_name()]).stdin(Stdio::piped());
            work.writers.push(command::spawn(&mut command)?);
        }
        Ok(work)
    }

    /// Lets the writers work for `time`, with a `strongroom sync` now and then.
    pub fn work(&self, work: &mut Work, time: Duration, random: &mut Random) -> Result {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let pause = Duration::from_millis(20 + random.below(600));
            if pause >= left {
                thread::sleep(left);
                return Ok(());
            }
            thread::sleep(pause);
            let length =
                |lane| fs::metadata(writer::lane_log(&self.round_logs(), lane)).map_or(0, |log| log.len());
            let positions = (0..LANES).map(length).collect();
            let mut command = Command::new(&self.strongroom);
            command.arg("sync").arg(&self.plain).stdout(Stdio::null()).stderr(Stdio::null());
            work.syncs.push(Syncing { child: command::spawn(&mut command)?, positions });
        }
    }

    /// Compares what is mounted with what this round's logs allow, and makes it the next round's beginning.
    pub fn verify(&mut self, witnessed: &Witnessed) -> Result<Kept> {
        let lanes: Vec<Result<(Tree, Kept)>> = thread::scope(|scope| {
            let this = &*self;
            let lanes: Vec<_> =
                (0..LANES).map(|lane| scope.spawn(move || this.verify_lane(lane, witnessed))).collect();
            lanes.into_iter().map(|lane| lane.join().expect("a comparison does not panic")).collect()
        });
        let mut kept = Kept::default();
        let mut trees = Vec::new();
        for lane in lanes {
            let (tree, part) = lane?;
            trees.push(tree);
            kept += part;
        }
        self.trees = trees;
        fs::remove_dir_all(self.round_logs())?;
        Ok(kept)
    }

    fn verify_lane(&self, number: u64, witnessed: &Witnessed) -> Result<(Tree, Kept)> {
        let index = number as usize;
        let log = writer::lane_log(&self.round_logs(), number);
        // A writer whose mount went before it had begun has no log.
        let lines = if log.exists() { action::read(&log)? } else { Vec::new() };
        let mut lane = Lane::begin(&self.trees[index], writer::first_number(self.round, number));
        let found = tree::read(&writer::lane_directory(&self.plain, number));
        let compare = || -> Result<(Tree, Kept)> {
            lane.play(&lines, &witnessed.syncs[index]).map_err(Failure::new)?;
            let found = found?;
            let kept = lane.explain(&found).map_err(Failure::new)?;
            Ok((found, kept))
        };
        compare().map_err(|failure| {
            let is_late = |line: usize| line + SHOWN >= lines.len();
            let failure = format!("lane {number}: {failure}");
            let shown = lines
                .iter()
                .enumerate()
                .filter(|(line, (_, does))| is_late(*line) || does.is_told_in(&failure));
            let shown: String =
                shown.map(|(_, (position, line))| format!("{position}: {}", line.text())).collect();
            let syncs = &witnessed.syncs[index];
            Failure::new(format!("{failure}\nits log, syncs at {syncs:?}:\n{shown}"))
        })
    }
}

impl Work {
    /// Ends the writers while the mount is still there.
    pub fn stop(&mut self) -> Result {
        for writer in &mut self.writers {
            drop(writer.stdin.take());
        }
        self.join()
    }

    /// Waits for writers that have nothing left to write to.
    fn join(&mut self) -> Result {
        for writer in &mut self.writers {
            let status = command::wait(writer, END_LIMIT).context("a writer")?;
            ensure!(status.success(), "a writer met an error though its mount was there; see above");
        }
        Ok(())
    }

    /// What was acknowledged. `closed` says that the vault was closed cleanly after all of it.
    pub fn end(mut self, closed: bool) -> Result<Witnessed> {
        self.join()?;
        let mut witnessed = Witnessed { syncs: vec![Vec::new(); LANES as usize], count: 0 };
        for Syncing { mut child, positions } in std::mem::take(&mut self.syncs) {
            if command::wait(&mut child, END_LIMIT).context("strongroom sync")?.success() {
                witnessed.count += 1;
                witnessed.syncs.iter_mut().zip(positions).for_each(|(syncs, position)| syncs.push(position));
            }
        }
        if closed {
            witnessed.syncs.iter_mut().for_each(|syncs| syncs.push(u64::MAX));
        }
        Ok(witnessed)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let syncs = self.syncs.iter_mut().map(|sync| &mut sync.child);
        for child in self.writers.iter_mut().chain(syncs) {
            if matches!(child.try_wait(), Ok(None)) {
                command::end(child);
            }
        }
    }
}
