//! CPU time: what a process has used, and what all CPUs of the system did.

use std::fs;

use rustix::process::Pid;

use strongroom_harness::failure::{Context, Failure, Result};

/// Seconds of CPU time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// By a daemon, if there is one.
    pub(super) daemon: f64,
    /// By whomever, what the host gave to other machines included.
    pub(super) busy: f64,
    /// By nobody.
    pub(super) idle: f64,
}

impl Used {
    /// Since the system and the daemon began.
    pub(super) fn until_now(daemon: Option<Pid>) -> Result<Self> {
        let (busy, idle) = system_seconds()?;
        Ok(Self { daemon: cpu_seconds(daemon)?, busy, idle })
    }

    /// Between `before` and this.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            daemon: self.daemon - before.daemon,
            busy: self.busy - before.busy,
            idle: self.idle - before.idle,
        }
    }
}

/// What all threads of a process have used, those that ended included (proc(5), stat). The kernel's own
/// workers for its io_uring are threads of the process too.
pub(super) fn cpu_seconds(daemon: Option<Pid>) -> Result<f64> {
    let Some(pid) = daemon else { return Ok(0.0) };
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = fs::read_to_string(&path).context(&path)?;
    let ticks = ticks(&stat).ok_or_else(|| Failure::new(format!("{path} is not understood")))?;
    Ok(seconds(ticks))
}

/// What children of this process that were waited for, and theirs, have used.
pub(super) fn children_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    let ticks = ticks_from(&stat, 13).ok_or_else(|| Failure::new("/proc/self/stat is not understood"))?;
    Ok(seconds(ticks))
}

/// What all CPUs together were busy and idle.
pub(super) fn system_seconds() -> Result<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let (busy, idle) = system_ticks(&stat).ok_or_else(|| Failure::new("/proc/stat is not understood"))?;
    Ok((seconds(busy), seconds(idle)))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// User and system time are the 14th and 15th field; the name in the second may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    ticks_from(stat, 11)
}

/// The sum of two fields, the first of them so many behind the name.
fn ticks_from(stat: &str, skipped: usize) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(skipped);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// All that is neither idle nor waiting for a disk, and what is (proc(5), stat): user, nice, system, idle,
/// iowait, irq, softirq, steal.
fn system_ticks(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.try_into().ok()?;
    Some((user + nice + system + irq + softirq + steal, idle + iowait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 5 6 20 0 1 0 100 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks_from(stat, 13), Some(11));
        assert_eq!(ticks("7 (a"), None);
        assert!(cpu_seconds(Some(rustix::process::getpid())).is_ok());
    }

    #[test]
    fn what_waits_is_idle_and_what_the_host_took_is_busy() {
        assert_eq!(system_ticks("cpu  1 2 4 1000 2000 8 16 32 5 5\ncpu0 1 2"), Some((63, 3000)));
        assert_eq!(system_ticks("cpu  1 2 4"), None);
    }

    #[test]
    fn this_machine_tells() -> Result {
        let before = Used::until_now(None)?;
        let used = Used::until_now(None)?.since(before);
        assert!(used.daemon == 0.0 && used.busy >= 0.0 && before.idle > 0.0, "{before:?} {used:?}");
        Ok(())
    }
}
