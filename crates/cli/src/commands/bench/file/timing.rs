//! One run of one program: its time, the CPU time of it and all that it
//! started, and the most memory it had.

use std::fs::File;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use super::contestants::{Contestant, Room};
use crate::failure::{Exit, Failure, Result};

/// How often memory is looked at, of which the kernel keeps the most.
const LOOK: Duration = Duration::from_millis(10);

/// What a run took.
pub(super) struct Taken {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) peak_memory_bytes: u64,
}

/// Of several runs.
#[derive(Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// In the order in which they were taken.
    pub(super) values: Vec<f64>,
}

impl Spread {
    pub(super) fn of(values: Vec<f64>) -> Spread {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match (sorted.len(), sorted.len().is_multiple_of(2)) {
            (0, _) => f64::NAN,
            (_, true) => f64::midpoint(sorted[middle - 1], sorted[middle]),
            (_, false) => sorted[middle],
        };
        let [low, high] = [sorted.first(), sorted.last()].map(|value| value.copied().unwrap_or(f64::NAN));
        Spread { median, low, high, values }
    }
}

/// Runs a contestant once. On a disk its input comes from there.
pub(super) fn run(contestant: &Contestant, room: &Room) -> Result<Taken> {
    for result in &contestant.results {
        let _ = std::fs::remove_file(result);
        let _ = std::fs::remove_dir_all(result);
    }
    if room.is_disk {
        forget(&contestant.reads)?;
    }
    let failed = |error: std::io::Error| Failure::system(std::path::Path::new(&contestant.program), &error);
    let mut command = contestant.command();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let before = children_cpu_seconds();
    let began = Instant::now();
    let child = command.spawn().map_err(failed)?;
    let (pid, ended) = (child.id(), AtomicBool::new(false));
    let (output, seconds, peak) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut peak = 0;
            while !ended.load(Ordering::Relaxed) {
                peak = peak.max(peak_memory(pid).unwrap_or(0));
                std::thread::sleep(LOOK);
            }
            peak
        });
        let output = child.wait_with_output();
        let seconds = began.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        (output, seconds, looking.join().unwrap_or(0))
    });
    let output = output.map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let text = format!("{} failed ({}): {}", contestant.program, output.status, said.trim());
        return Err(Failure::new(Exit::Other, text));
    }
    Ok(Taken { seconds, cpu_seconds: children_cpu_seconds() - before, peak_memory_bytes: peak })
}

/// Has the kernel forget what it holds of a file.
fn forget(path: &std::path::Path) -> Result<()> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    if path.is_file() {
        let file = File::open(path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

/// CPU time of all children that have ended (`proc_pid_stat(5)`, `cutime` and
/// `cstime`), in which theirs is.
fn children_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The most memory that a process and all below it had resident, by
/// `proc_pid_status(5)` and `proc_tid_children(5)`.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below = children.split_whitespace().filter_map(|child| peak_memory(child.parse().ok()?));
    Some(kib * 1024 + below.sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_spread_is_its_median() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(peak_memory(std::process::id()).is_some_and(|bytes| bytes > 100_000));
    }
}
