//! How busy the CPUs are, sampled from the system by a thread of its own. The
//! averages know no clock, so that the simulator samples its own CPUs.
//!
//! Source: proc_stat(5): `cpu`, `procs_running`.

use std::io::Read;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::CpuView;

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_millis(50);
/// How much a new sample of a count counts.
const WEIGHT: f32 = 0.25;

/// Averages over the last samples.
pub struct CpuLoad {
    cpus: u32,
    /// Bits of an `f32` each: threads waiting, the idle share, and this
    /// process's share of the rest.
    waiting: AtomicU32,
    idle: AtomicU32,
    own: AtomicU32,
    /// Clock ticks at the last sample: all, idle, and this process's.
    ticks: [AtomicU64; 3],
}

impl CpuLoad {
    /// Of the CPUs that this process may use.
    pub(crate) fn of_this_machine() -> Arc<CpuLoad> {
        Arc::new(CpuLoad::new(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)))
    }

    /// Of so many CPUs, all idle as yet.
    #[must_use]
    pub fn new(cpus: u32) -> CpuLoad {
        CpuLoad {
            cpus,
            waiting: AtomicU32::new(0),
            idle: AtomicU32::new(1.0f32.to_bits()),
            own: AtomicU32::new(1.0f32.to_bits()),
            ticks: Default::default(),
        }
    }

    /// Samples until the last owner is gone. Without a thread the figures
    /// stay those of an idle machine.
    pub(crate) fn watch(self: &Arc<CpuLoad>) {
        let weak: Weak<CpuLoad> = Arc::downgrade(self);
        let sample = move || {
            // Kept, so that a sample allocates nothing.
            let mut text = String::with_capacity(1 << 16);
            while let Some(load) = weak.upgrade() {
                let own = if read("/proc/self/stat", &mut text) { own_ticks(&text) } else { None };
                if read("/proc/stat", &mut text) {
                    load.read(&text, own);
                }
                drop(load);
                std::thread::sleep(PERIOD);
            }
        };
        let _ = std::thread::Builder::new().name("cpu-load".into()).spawn(sample);
    }

    fn read(&self, text: &str, own: Option<u64>) {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let running = field("procs_running ").and_then(|text| text.trim().parse::<u32>().ok());
        let (Some(running), Some(line)) = (running, field("cpu ")) else { return };
        // user nice system idle iowait irq softirq steal; guests are in user.
        let ticks = || line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).take(8);
        let (all, idle) = (ticks().sum::<u64>(), ticks().skip(3).take(2).sum());
        self.sample(running, all, idle, own.unwrap_or(all.saturating_sub(idle)));
    }

    /// Takes a sample: threads that run or are ready to, and the time of all
    /// CPUs, all, idle and used by this process, since any fixed moment in
    /// any unit.
    pub fn sample(&self, running: u32, all: u64, idle: u64, own: u64) {
        let waiting = running.saturating_sub(self.cpus) as f32;
        let old = f32::from_bits(self.waiting.load(Relaxed));
        self.waiting.store((old + (waiting - old) * WEIGHT).to_bits(), Relaxed);
        let old = |at: usize, new| self.ticks[at].swap(new, Relaxed);
        let (old_all, old_idle, old_own) = (old(0, all), old(1, idle), old(2, own));
        if all > old_all {
            let share = idle.saturating_sub(old_idle) as f32 / (all - old_all) as f32;
            self.idle.store(share.min(1.0).to_bits(), Relaxed);
            let used = (all - old_all).saturating_sub(idle.saturating_sub(old_idle)).max(1);
            let share = (own.saturating_sub(old_own) as f32 / used as f32).min(1.0);
            let old = f32::from_bits(self.own.load(Relaxed));
            self.own.store((old + (share - old) * WEIGHT).to_bits(), Relaxed);
        }
    }

    /// What a policy is told.
    #[must_use]
    pub fn view(&self) -> CpuView {
        let load = |number: &AtomicU32| f64::from(f32::from_bits(number.load(Relaxed)));
        CpuView {
            cpus: f64::from(self.cpus),
            waiting: load(&self.waiting),
            idle: load(&self.idle),
            own: load(&self.own),
        }
    }
}

/// Whether the file could be read into `text`.
fn read(path: &str, text: &mut String) -> bool {
    text.clear();
    std::fs::File::open(path).and_then(|mut file| file.read_to_string(text)).is_ok()
}

/// CPU time of this process, of all its threads. Source:
/// proc_pid_stat(5), fields 14 and 15; the name in field 2 may hold anything.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|word| word.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let load = CpuLoad::new(4);
        load.read("cpu  100 0 0 100 0 0 0 0 0 0\nprocs_running 1000\n", Some(50));
        load.read("cpu  130 0 0 110 0 0 0 0 0 0\nprocs_running 1000\n", Some(50));
        let view = load.view();
        assert!((view.idle - 0.25).abs() < 0.01, "{view:?}");
        assert!(view.own < 0.9, "{view:?}");
        assert!(view.waiting > 400.0 && view.waiting < 1000.0, "{view:?}");
        load.read("nonsense", None);
        assert_eq!(load.view(), view);
    }

    #[test]
    fn own_time_is_found_behind_any_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 3 0 55 1000 20";
        assert_eq!(own_ticks(stat), Some(42));
        assert_eq!(own_ticks("7"), None);
        let own = std::fs::read_to_string("/proc/self/stat").expect("procfs");
        assert!(own_ticks(&own).is_some());
    }
}
