//! How busy the CPUs are, sampled from the system by a thread of its own.
//!
//! Source: proc_stat(5): `cpu`, `procs_running`.

use std::io::Read;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::CpuView;

/// Time between two samples.
const PERIOD: Duration = Duration::from_millis(50);
/// How much a new sample of a count counts.
const WEIGHT: f32 = 0.25;

/// The last figures.
pub(crate) struct CpuLoad {
    cpus: u32,
    /// Bits of an `f32` each: threads waiting, and the idle share.
    waiting: AtomicU32,
    idle: AtomicU32,
    /// Clock ticks at the last sample: all, and idle.
    ticks: [AtomicU64; 2],
}

impl CpuLoad {
    pub(crate) fn new() -> Arc<CpuLoad> {
        Arc::new(CpuLoad {
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            waiting: AtomicU32::new(0),
            idle: AtomicU32::new(1.0f32.to_bits()),
            ticks: Default::default(),
        })
    }

    /// Samples until the last owner is gone. Without a thread the figures
    /// stay those of an idle machine.
    pub(crate) fn watch(self: &Arc<CpuLoad>) {
        let weak: Weak<CpuLoad> = Arc::downgrade(self);
        let sample = move || {
            // Kept, so that a sample allocates nothing.
            let mut text = String::with_capacity(1 << 16);
            while let Some(load) = weak.upgrade() {
                text.clear();
                let read =
                    std::fs::File::open("/proc/stat").and_then(|mut file| file.read_to_string(&mut text));
                if read.is_ok() {
                    load.sample(&text);
                }
                drop(load);
                std::thread::sleep(PERIOD);
            }
        };
        let _ = std::thread::Builder::new().name("cpu-load".into()).spawn(sample);
    }

    fn sample(&self, text: &str) {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        if let Some(running) = field("procs_running ").and_then(|text| text.trim().parse::<u32>().ok()) {
            let waiting = running.saturating_sub(self.cpus) as f32;
            let old = f32::from_bits(self.waiting.load(Relaxed));
            self.waiting.store((old + (waiting - old) * WEIGHT).to_bits(), Relaxed);
        }
        let Some(line) = field("cpu ") else { return };
        // user nice system idle iowait irq softirq steal; guests are in user.
        let ticks = || line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).take(8);
        let all: u64 = ticks().sum();
        let idle: u64 = ticks().skip(3).take(2).sum();
        let (old_all, old_idle) = (self.ticks[0].swap(all, Relaxed), self.ticks[1].swap(idle, Relaxed));
        if all > old_all {
            let share = idle.saturating_sub(old_idle) as f32 / (all - old_all) as f32;
            self.idle.store(share.min(1.0).to_bits(), Relaxed);
        }
    }

    pub(crate) fn view(&self) -> CpuView {
        let load = |number: &AtomicU32| f64::from(f32::from_bits(number.load(Relaxed)));
        CpuView { cpus: f64::from(self.cpus), waiting: load(&self.waiting), idle: load(&self.idle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let load = CpuLoad::new();
        load.sample("cpu  100 0 0 100 0 0 0 0 0 0\nprocs_running 1000\n");
        load.sample("cpu  130 0 0 110 0 0 0 0 0 0\nprocs_running 1000\n");
        let view = load.view();
        assert!((view.idle - 0.25).abs() < 0.01, "{view:?}");
        assert!(view.waiting > 400.0 && view.waiting < 1000.0, "{view:?}");
        load.sample("nonsense");
        assert_eq!(load.view(), view);
    }
}
