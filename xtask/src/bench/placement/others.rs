//! What other programs and other machines take of the CPUs meanwhile, by which a turn is told to be disturbed.
//!
//! This says nothing of the speed that was measured, so that leaving turns out by it favours no side.

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, getpid};

use crate::bench::folder::cpu_seconds;
use crate::failure::{Context, Failure, Result};

/// A moment.
pub(super) struct Before {
    daemon: Option<Pid>,
    at: Instant,
    others_seconds: f64,
}

impl Before {
    pub(super) fn now(daemon: Option<Pid>) -> Result<Self> {
        Ok(Self { daemon, at: Instant::now(), others_seconds: others_seconds(daemon)? })
    }

    /// How many CPUs others than this process and the daemon have had since.
    pub(super) fn cpus_of_others(&self) -> Result<f64> {
        Ok((others_seconds(self.daemon)? - self.others_seconds) / self.at.elapsed().as_secs_f64())
    }
}

fn others_seconds(daemon: Option<Pid>) -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let ticks = busy_ticks(&text).ok_or_else(|| Failure::new("/proc/stat is not understood"))?;
    let all = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Ok(all - cpu_seconds(daemon)? - cpu_seconds(Some(getpid()))?)
}

/// All that is neither idle nor waiting for a disk, what the host gave to others included (proc(5), stat):
/// user, nice, system, idle, iowait, irq, softirq, steal.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks.try_into().ok()?;
    Some(user + nice + system + irq + softirq + steal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_idle_or_waits_is_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 1000 8 16 32 5 5\ncpu0 1 2"), Some(63));
        assert_eq!(busy_ticks("cpu  1 2 4"), None);
    }

    #[test]
    fn this_machine_tells() -> Result {
        assert!(Before::now(None)?.cpus_of_others()?.is_finite());
        Ok(())
    }
}
