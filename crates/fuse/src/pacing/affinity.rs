//! On which CPU a worker of a queue runs.
//!
//! A short request is answered soonest on the CPU that asked: the program
//! sleeps meanwhile, and no other CPU has to be woken. What is long is better
//! computed elsewhere, since the program goes on reading what the kernel read
//! ahead for it.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Of the thread that made it.
#[derive(Debug)]
pub(super) struct Affinity {
    /// The queue's CPU; `None` where this process may not run there.
    home: Option<CpuSet>,
    anywhere: CpuSet,
    is_home: bool,
}

impl Affinity {
    /// At home, on the CPU of this number, and else on these.
    pub(super) fn new(cpu: u16, anywhere: CpuSet) -> Affinity {
        let cpu = usize::from(cpu);
        let home = (cpu < CpuSet::MAX_CPU && anywhere.is_set(cpu)).then(|| {
            let mut home = CpuSet::new();
            home.set(cpu);
            home
        });
        let mut affinity = Affinity { home, anywhere, is_home: false };
        affinity.stays(true);
        affinity
    }

    /// Runs at home, or anywhere.
    pub(super) fn stays(&mut self, home: bool) {
        let Some(cpu) = &self.home else { return };
        // Refused, it runs where it did, which is slower and nothing else.
        if self.is_home != home && sched_setaffinity(None, if home { cpu } else { &self.anywhere }).is_ok() {
            self.is_home = home;
        }
    }

    /// Whether it runs at home.
    pub(super) fn is_home(&self) -> bool {
        self.is_home
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    fn cpus() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn a_thread_is_bound_and_set_free() {
        let all = cpus();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap();
        let mut affinity = Affinity::new(cpu as u16, all);
        assert!(affinity.is_home() && cpus().count() == 1 && cpus().is_set(cpu));
        affinity.stays(false);
        assert!(!affinity.is_home() && cpus() == all);
        affinity.stays(true);
        assert!(affinity.is_home() && cpus().count() == 1);
    }

    #[test]
    fn where_it_may_not_run_no_thread_goes() {
        let all = cpus();
        let mut affinity = Affinity::new((CpuSet::MAX_CPU - 1) as u16, all);
        affinity.stays(true);
        assert!(!affinity.is_home() && cpus() == all);
    }
}
