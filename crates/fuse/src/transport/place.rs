//! On which CPU a thread of a ring runs.
//!
//! A short request is answered soonest on the CPU that asked: the program
//! sleeps meanwhile, and no other CPU has to be woken. What is long is better
//! computed elsewhere, since the program goes on reading what the kernel read
//! ahead for it. So a thread stays on its queue's CPU until something long
//! comes, and comes back when that is over.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Short requests in a row, after which a thread comes back.
const SHORT_MIN: u32 = 8;

/// Of the thread that made it.
#[derive(Debug)]
pub(super) struct Place {
    /// The queue's CPU; `None` where this process may not run there.
    home: Option<CpuSet>,
    anywhere: CpuSet,
    is_home: bool,
    short_in_row: u32,
}

impl Place {
    /// At home, on the CPU of this number.
    pub(super) fn new(cpu: u16) -> Place {
        let cpu = usize::from(cpu);
        let anywhere = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let home = (cpu < CpuSet::MAX_CPU && anywhere.is_set(cpu)).then(|| {
            let mut home = CpuSet::new();
            home.set(cpu);
            home
        });
        let mut place = Place { home, anywhere, is_home: false, short_in_row: 0 };
        place.stay(true);
        place
    }

    /// A request came.
    pub(super) fn takes(&mut self, is_short: bool) {
        self.short_in_row = if is_short { self.short_in_row.saturating_add(1) } else { 0 };
        let wants_home = self.is_home && is_short || self.short_in_row >= SHORT_MIN;
        if wants_home != self.is_home {
            self.stay(wants_home);
        }
    }

    /// Whether it runs there.
    pub(super) fn is_home(&self) -> bool {
        self.is_home
    }

    fn stay(&mut self, is_home: bool) {
        let Some(home) = &self.home else { return };
        // Refused, it runs where it did, which is slower and nothing else.
        if sched_setaffinity(None, if is_home { home } else { &self.anywhere }).is_ok() {
            self.is_home = is_home;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn what_is_long_sets_a_thread_free_until_much_is_short() {
        let all = cpus();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap();
        let mut place = Place::new(cpu as u16);
        let home = cpus();
        assert!(home.count() == 1 && home.is_set(cpu));
        place.takes(true);
        assert_eq!(cpus(), home);
        place.takes(false);
        assert_eq!(cpus(), all);
        (1..SHORT_MIN).for_each(|_| place.takes(true));
        assert_eq!(cpus(), all);
        place.takes(true);
        assert_eq!(cpus(), home);
    }

    #[test]
    fn where_it_may_not_run_no_thread_goes() {
        let all = cpus();
        let mut place = Place::new((CpuSet::MAX_CPU - 1) as u16);
        place.takes(false);
        assert_eq!(cpus(), all);
    }
}
