//! How busy the CPUs are, sampled from the system by a thread of its own. The
//! averages know no clock, so that the simulator samples its own CPUs.
//!
//! Source: proc_stat(5): `cpu`, `procs_running`.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::policy::CpuView;

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_millis(50);
/// Samples in a row during which nobody asked, after which none is taken until
/// somebody does.
const IDLE_SAMPLES: u32 = 20;
/// How much a new sample of a count counts.
const WEIGHT: f32 = 0.25;

/// In place of the ticks of all CPUs: there is no sample to count from.
const NO_SAMPLE: u64 = u64::MAX;

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
    interest: Arc<Interest>,
    sampler: OnceLock<Thread>,
}

/// Whether samples are wanted. The sampler sleeps when they are not.
#[derive(Default)]
struct Interest {
    is_wanted: AtomicBool,
    sleeps: AtomicBool,
}

impl Interest {
    /// Sleeps until samples are wanted, or the last owner is gone.
    fn waits(&self) {
        // Whoever wants samples says so before he looks whether this sleeps, so
        // that one of both sees the other.
        self.sleeps.store(true, SeqCst);
        if !self.is_wanted.load(SeqCst) {
            std::thread::park();
        }
        self.sleeps.store(false, SeqCst);
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        if let Some(sampler) = self.sampler.get() {
            sampler.unpark();
        }
    }
}

impl CpuLoad {
    /// Of the CPUs that this process may use.
    pub(crate) fn of_this_machine() -> Arc<CpuLoad> {
        let load = CpuLoad::new(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32));
        load.ticks[0].store(NO_SAMPLE, Relaxed);
        Arc::new(load)
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
            interest: Arc::default(),
            sampler: OnceLock::new(),
        }
    }

    /// Samples until the last owner is gone, as long as figures are asked for.
    /// Without a thread they stay those of an idle machine.
    pub(crate) fn watch(self: &Arc<CpuLoad>) {
        let weak: Weak<CpuLoad> = Arc::downgrade(self);
        let interest = Arc::clone(&self.interest);
        let sample = move || {
            // Kept, so that a sample allocates nothing.
            let mut text = String::with_capacity(1 << 16);
            let mut idle_samples = 0;
            while let Some(load) = weak.upgrade() {
                let own = if read("/proc/self/stat", &mut text) { own_ticks(&text) } else { None };
                if read("/proc/stat", &mut text) {
                    load.read(&text, own);
                }
                drop(load);
                idle_samples = if interest.is_wanted.swap(false, SeqCst) { 0 } else { idle_samples + 1 };
                if idle_samples < IDLE_SAMPLES {
                    std::thread::sleep(PERIOD);
                } else {
                    interest.waits();
                    // What was meanwhile says nothing of now.
                    weak.upgrade().inspect(|load| load.ticks[0].store(NO_SAMPLE, Relaxed));
                }
            }
        };
        if let Ok(sampler) = std::thread::Builder::new().name("cpu-load".into()).spawn(sample) {
            let _ = self.sampler.set(sampler.thread().clone());
        }
    }

    /// As [`CpuLoad::view`], by whoever places a batch: samples go on.
    pub(crate) fn view_for_placing(&self) -> CpuView {
        if !self.interest.is_wanted.load(Relaxed) {
            self.interest.is_wanted.store(true, SeqCst);
            if self.interest.sleeps.load(SeqCst) {
                self.sampler.get().inspect(|sampler| sampler.unpark());
            }
        }
        self.view()
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
    fn samples_are_taken_while_they_are_asked_for() {
        let load = CpuLoad::of_this_machine();
        load.watch();
        let until = |is_so: &dyn Fn() -> bool| {
            let began = std::time::Instant::now();
            while !is_so() {
                assert!(began.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let sleeps = || load.interest.sleeps.load(SeqCst);
        until(&sleeps);
        let ticks = load.ticks[0].load(Relaxed);
        until(&|| {
            let _ = load.view_for_placing();
            let now = load.ticks[0].load(Relaxed);
            now != NO_SAMPLE && now > ticks
        });
        assert!(!sleeps());
        until(&sleeps);
        let gone = Arc::downgrade(&load.interest);
        drop(load);
        until(&|| gone.upgrade().is_none());
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
