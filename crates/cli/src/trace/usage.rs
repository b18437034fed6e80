//! CPU time of this process and of the machine, and how long threads waited for
//! a CPU.
//!
//! Sources: clock_gettime(2); proc_stat(5), `cpu`; proc_pid_schedstat(5), the
//! second figure. What the system does not tell, or does not let this process
//! read, is left out.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// What had been used at one moment, or was between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) daemon_ns: u64,
    pub(super) machine_ns: Option<u64>,
    pub(super) waited_ns: Option<u64>,
}

impl Usage {
    pub(super) fn now() -> Usage {
        Usage {
            daemon_ns: clock(ClockId::ProcessCPUTime).as_nanos() as u64,
            machine_ns: fs::read_to_string("/proc/stat").ok().and_then(|text| machine_ns(&text)),
            waited_ns: waited_ns(),
        }
    }

    pub(super) fn since(&self, before: &Usage) -> Usage {
        let between = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Usage {
            daemon_ns: self.daemon_ns.saturating_sub(before.daemon_ns),
            machine_ns: between(self.machine_ns, before.machine_ns),
            waited_ns: between(self.waited_ns, before.waited_ns),
        }
    }
}

/// CPU time of this thread.
pub(super) fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// All but idle, waiting for I/O, and what other machines took.
fn machine_ns(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks.as_slice() else { return None };
    let busy = user + nice + system + irq + softirq;
    Some(busy.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1)))
}

/// Of all threads that this process has now.
fn waited_ns() -> Option<u64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let waited = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    waited.reduce(|one, other| one.saturating_add(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_all_that_is_not_idle() {
        let text = "cpu  100 10 50 9000 70 3 7 40 0 0\ncpu0 1 1 1 1 1 1 1\n";
        assert_eq!(machine_ns(text), Some(170 * (1_000_000_000 / clock_ticks_per_second())));
        assert_eq!(machine_ns("cpu  1 2\n"), None);
    }

    #[test]
    fn this_process_uses_cpu_time() {
        let before = Usage::now();
        let mut sum = 0u64;
        while Usage::now().since(&before).daemon_ns < 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_cpu() > Duration::ZERO);
    }
}
