//! What a batch on the caller's thread costs. That is the thread's CPU time, whoever else wants the CPU
//! meanwhile; but its clock is a system call, of some 300 ns where a batch of a sector takes 200. A short batch
//! of a known cost is timed by the clock of passing time, a tenth of that: if somebody came between, more has
//! passed than was to be expected, which says nothing, and the next is timed by the thread's clock.

use std::time::Instant;

/// From where on a system call is little beside the batch, and others coming between may be too.
const SHORT_NS: f64 = 20_000.0;
/// How many times what was expected says nothing.
const DOUBTFUL: f64 = 1.5;

/// See the module.
pub(super) enum Stopwatch {
    Passing { from: Instant, at_most_ns: f64 },
    Thread { from_ns: u64 },
}

impl Stopwatch {
    /// Times a batch that takes so long as a rule, if that is known.
    pub(super) fn start(known_ns: Option<f64>) -> Stopwatch {
        match known_ns.filter(|known| *known < SHORT_NS) {
            Some(known) => Stopwatch::Passing { from: Instant::now(), at_most_ns: known * DOUBTFUL },
            None => Stopwatch::Thread { from_ns: thread_cpu_ns() },
        }
    }

    /// Nanoseconds of CPU time, or nothing if somebody may have come between.
    pub(super) fn stop(self) -> Option<f64> {
        match self {
            Stopwatch::Passing { from, at_most_ns } => {
                Some(from.elapsed().as_nanos() as f64).filter(|passed| *passed <= at_most_ns)
            }
            Stopwatch::Thread { from_ns } => Some(thread_cpu_ns().saturating_sub(from_ns) as f64),
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const NAP: Duration = Duration::from_millis(5);

    #[test]
    fn who_else_has_the_cpu_costs_a_batch_nothing() {
        for known in [None, Some(SHORT_NS)] {
            let stopwatch = Stopwatch::start(known);
            sleep(NAP);
            assert!(stopwatch.stop().is_some_and(|took| took < NAP.as_nanos() as f64 / 2.0));
        }
    }

    #[test]
    fn a_short_batch_is_timed_unless_somebody_came_between() {
        let stopwatch = Stopwatch::start(Some(SHORT_NS - 1.0));
        sleep(NAP);
        assert_eq!(stopwatch.stop(), None);
        let undisturbed = || Stopwatch::start(Some(SHORT_NS - 1.0)).stop();
        assert!((0..1000).find_map(|_| undisturbed()).is_some_and(|took| took <= SHORT_NS * DOUBTFUL));
    }
}
