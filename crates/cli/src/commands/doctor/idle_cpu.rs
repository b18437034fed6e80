//! How long an idle CPU takes until it works again, which each request to a mount waits for that another CPU
//! serves. In a virtual machine a CPU with nothing to do halts, and it is the host that runs it again: one wait
//! of many for files of some kilobytes, unless the guest polls a while before it halts (the kernel's document
//! virt/guest-halt-polling).

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::commands::doctor::{Item, Verdict, item};

const NAME: &str = "idle-cpu";
const ROUNDS: usize = 60;
/// Longer than a guest polls, and long enough for a CPU to go to rest.
const IDLE: Duration = Duration::from_millis(1);
/// What waking a CPU may take before something is said.
const WAKE_MAX: Duration = Duration::from_micros(20);
/// Halt polling of less is as good as none: requests of one program come that far apart.
const POLL_MIN_NS: u64 = 50_000;

/// What is known of how this machine rests.
struct Rest {
    is_virtual: bool,
    /// How long a guest polls before it halts, where its kernel has that.
    poll_ns: Option<u64>,
}

impl Rest {
    fn of_this_machine() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let governor =
            fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_governor").unwrap_or_default();
        let poll = fs::read_to_string("/sys/module/haltpoll/parameters/guest_halt_poll_ns");
        Self {
            is_virtual: cpu.split_whitespace().any(|flag| flag == "hypervisor"),
            poll_ns: poll
                .ok()
                .filter(|_| governor.trim() == "haltpoll")
                .and_then(|text| text.trim().parse().ok()),
        }
    }
}

pub(super) fn idle_cpu() -> Item {
    match wake() {
        Some(wake) => judge(wake, &Rest::of_this_machine()),
        None => item(NAME, Verdict::Good, "there is no other CPU to be woken", None),
    }
}

fn judge(wake: Duration, rest: &Rest) -> Item {
    let found = format!("takes {} µs to wake", wake.as_micros());
    if !rest.is_virtual || wake < WAKE_MAX {
        return item(NAME, Verdict::Good, found, None);
    }
    match rest.poll_ns {
        Some(poll) if poll >= POLL_MIN_NS => {
            let found = format!("{found}, and polls for {} µs before it halts", poll / 1000);
            item(NAME, Verdict::Good, found, None)
        }
        Some(_) => item(
            NAME,
            Verdict::Advice,
            format!("{found}: it halts at once, and the host has to run it again"),
            Some(
                "Root has this virtual machine wait a little first, for some CPU time of the host: echo 200000 > \
                 /sys/module/haltpoll/parameters/guest_halt_poll_ns; for good with \
                 haltpoll.guest_halt_poll_ns=200000 on the kernel's command line.",
            ),
        ),
        None => item(
            NAME,
            Verdict::Advice,
            format!("{found}: the host has to run it again"),
            Some(
                "A guest of KVM can wait a little before it halts, for some CPU time of the host: \
                 cpuidle_haltpoll.force=1 haltpoll.guest_halt_poll_ns=200000 on the kernel's command line, where the \
                 kernel has cpuidle_haltpoll.",
            ),
        ),
    }
}

/// From a message to a thread that sleeps on another CPU until it runs, in the median; nothing with one CPU.
fn wake() -> Option<Duration> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (first, last) = (cpus.next()?, cpus.next_back()?);
    let (sender, receiver) = mpsc::channel::<Instant>();
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            stay_on(last);
            receiver.into_iter().map(|sent| sent.elapsed()).collect()
        });
        scope.spawn(move || {
            stay_on(first);
            for _ in 0..ROUNDS {
                thread::sleep(IDLE);
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        sleeper.join().ok()
    })?;
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// Where that is refused, the scheduler's choice is measured instead.
fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(wake_us: u64, is_virtual: bool, poll_ns: Option<u64>) -> Verdict {
        judge(Duration::from_micros(wake_us), &Rest { is_virtual, poll_ns }).verdict
    }

    #[test]
    fn a_guest_that_halts_at_once_is_told_what_to_do() {
        assert_eq!(verdict(60, true, Some(0)), Verdict::Advice);
        assert_eq!(verdict(60, true, None), Verdict::Advice);
        assert_eq!(verdict(60, true, Some(200_000)), Verdict::Good);
        assert_eq!(verdict(5, true, Some(0)), Verdict::Good);
        assert_eq!(verdict(60, false, None), Verdict::Good);
    }

    #[test]
    fn waking_takes_some_time() {
        if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            assert!(wake().is_some_and(|wake| wake > Duration::ZERO && wake < Duration::from_secs(1)));
        }
    }
}
