//! The simulated device that takes nothing of the CPU (`--engine sim-masks`).
//!
//! It makes right masks, on as many threads as there are CPUs. With real-time priority these have all CPUs for
//! as long as they compute, and nothing of what is measured runs meanwhile. So their time is taken off: of the
//! time that passed, the part by which every CPU was theirs; of the daemon's CPU time, all of it. What is left
//! is what a mount takes whose masks are there at once and cost no CPU time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result};

/// The engine, and what its threads are called (`engine-sim/src/masker.rs`).
pub(super) const NAME: &str = "sim-masks";

/// The device's threads in a daemon, by their directories below `/proc`.
pub(super) struct Units(Vec<PathBuf>);

impl Units {
    /// Of a daemon, with real-time priority from now on; none where no such device is.
    pub(super) fn of(daemon: Option<Pid>) -> Result<Self> {
        let units = Self::named(daemon, NAME)?;
        for unit in &units.0 {
            let thread = unit.file_name().expect("a thread has a number");
            let mut command = Command::new("chrt");
            command.args(["--fifo", "--pid", "2"]).arg(thread);
            command::output(&mut command, Duration::from_secs(20))
                .context("real-time priority for the simulated device, which root may give")?;
        }
        Ok(units)
    }

    fn named(daemon: Option<Pid>, name: &str) -> Result<Self> {
        let Some(pid) = daemon else { return Ok(Self(Vec::new())) };
        let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
        let mut units = Vec::new();
        for task in fs::read_dir(&tasks).context(&tasks)? {
            let task = task?.path();
            // A thread may end meanwhile; the device's do not.
            if fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
                units.push(task);
            }
        }
        Ok(Self(units))
    }

    /// CPU time that they have had (Linux, Documentation/scheduler/sched-stats: the first is in nanoseconds).
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let seconds = self.0.iter().map(|unit| {
            let path = unit.join("schedstat");
            let text = fs::read_to_string(&path).context(path.display())?;
            let ns = text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
            Ok(ns.ok_or_else(|| Failure::new(format!("{} is not understood", path.display())))? as f64 / 1e9)
        });
        seconds.sum()
    }

    /// The part of that by which every CPU was theirs.
    pub(super) fn passed(&self, cpu_seconds: f64) -> f64 {
        cpu_seconds / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    #[test]
    fn threads_are_found_by_their_name_and_their_time_is_told() -> Result {
        let here = Some(rustix::process::getpid());
        let (ends, ended) = mpsc::channel::<()>();
        let (tells, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("a-unit-of-mine".to_owned()).spawn(move || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            tells.send(()).expect("somebody waits");
            ended.recv()
        })?;
        told.recv()?;
        let units = Units::named(here, "a-unit-of-mine")?;
        assert_eq!(units.0.len(), 1);
        assert!(units.cpu_seconds()? > 0.0);
        drop(ends);
        assert!(thread.join().is_ok());
        let none = Units::of(here)?;
        assert_eq!((none.0.len(), none.cpu_seconds()?, none.passed(0.0)), (0, 0.0, 0.0));
        Ok(())
    }

    #[test]
    fn what_two_took_together_passed_half_as_long() {
        assert_eq!(Units(vec![PathBuf::new(); 2]).passed(3.0), 1.5);
    }
}
