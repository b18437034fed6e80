//! How busy the CPUs are, sampled from the system by a thread of its own. The
//! averages know no clock, so that the simulator samples its own CPUs.
//!
//! How many threads wait is looked at often: other work comes and goes within
//! tens of milliseconds, and to take its absence for its presence misplaces all
//! that comes meanwhile. That costs a short file. The shares of the CPUs are
//! counted in ticks of 10 ms, so that many have to pass between two looks.
//!
//! Sources: proc_loadavg(5), the fourth field; proc_stat(5): `cpu`.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::policy::CpuView;

/// Time between two samples of the threads that wait.
pub const PERIOD: Duration = Duration::from_millis(5);
/// Every how many of them the shares of the CPUs are sampled too.
pub const SHARES_EVERY: u32 = 10;
/// Samples in a row during which nobody asked, after which none is taken until
/// somebody does.
const IDLE_SAMPLES: u32 = 200;
/// How much a new sample counts: a change is known by two thirds after four, 20 ms,
/// and one thread that runs for a moment does not make a price.
const WEIGHT: f32 = 0.25;

/// What is read, and each by its place.
const PATHS: [&str; 3] = ["/proc/loadavg", "/proc/stat", "/proc/self/stat"];
const LOADAVG: usize = 0;
const STAT: usize = 1;
const OWN_STAT: usize = 2;

/// In place of the ticks of all CPUs: there is no sample to count from.
const NO_SAMPLE: u64 = u64::MAX;

/// Averages over the last samples.
pub struct CpuLoad {
    cpus: u32,
    /// Bits of an `f32` each: threads waiting, whether there are any, the idle
    /// share, and this process's share of the rest. The last is none before the
    /// first sample.
    waiting: AtomicU32,
    saturated: AtomicU32,
    idle: AtomicU32,
    own: AtomicU32,
    /// Clock ticks at the last sample: all, idle, and this process's.
    ticks: [AtomicU64; 3],
    interest: Arc<Interest>,
    /// Empty where no thread could be started.
    sampler: OnceLock<Option<Thread>>,
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
        self.wake_sampler();
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
            saturated: AtomicU32::new(0),
            idle: AtomicU32::new(1.0f32.to_bits()),
            own: AtomicU32::new(f32::NAN.to_bits()),
            ticks: Default::default(),
            interest: Arc::default(),
            sampler: OnceLock::new(),
        }
    }

    /// Samples from the first call on until the last owner is gone, as long as
    /// figures are asked for. Without a thread they stay those of an idle
    /// machine.
    pub(crate) fn watch(self: &Arc<CpuLoad>) {
        self.sampler.get_or_init(|| {
            let (weak, interest) = (Arc::downgrade(self), Arc::clone(&self.interest));
            let sample = move || sample(&weak, &interest);
            let sampler = std::thread::Builder::new().name("cpu-load".into()).spawn(sample).ok()?;
            Some(sampler.thread().clone())
        });
    }

    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        self.sampler.get().is_some()
    }

    fn wake_sampler(&self) {
        self.sampler.get().and_then(Option::as_ref).inspect(|sampler| sampler.unpark());
    }

    /// A batch is placed: samples go on.
    pub(crate) fn places(&self) {
        if !self.interest.is_wanted.load(Relaxed) {
            self.interest.is_wanted.store(true, SeqCst);
            if self.interest.sleeps.load(SeqCst) {
                self.wake_sampler();
            }
        }
    }

    fn read_waiting(&self, sources: &mut Sources) {
        if let Some(running) = sources.read(LOADAVG).and_then(running) {
            // The sampler itself runs.
            self.sample_waiting(running.saturating_sub(1));
        }
    }

    fn read_shares(&self, sources: &mut Sources) {
        let own = sources.read(OWN_STAT).and_then(own_ticks);
        if let Some((all, idle)) = sources.read(STAT).and_then(all_ticks) {
            self.sample_shares(all, idle, own.unwrap_or(all.saturating_sub(idle)));
        }
    }

    /// Takes a sample of the threads that run or are ready to.
    pub fn sample_waiting(&self, running: u32) {
        let waiting = running.saturating_sub(self.cpus);
        follows(&self.waiting, waiting as f32);
        follows(&self.saturated, f32::from(u8::from(waiting > 0)));
    }

    /// Takes a sample of the time of all CPUs, all, idle and used by this
    /// process, since any fixed moment in any unit.
    pub fn sample_shares(&self, all: u64, idle: u64, own: u64) {
        let old = |at: usize, new| self.ticks[at].swap(new, Relaxed);
        let (old_all, old_idle, old_own) = (old(0, all), old(1, idle), old(2, own));
        if all > old_all {
            let share = idle.saturating_sub(old_idle) as f32 / (all - old_all) as f32;
            self.idle.store(share.min(1.0).to_bits(), Relaxed);
            let used = (all - old_all).saturating_sub(idle.saturating_sub(old_idle)).max(1);
            follows(&self.own, (own.saturating_sub(old_own) as f32 / used as f32).min(1.0));
        }
    }

    /// What a policy is told.
    #[must_use]
    pub fn view(&self) -> CpuView {
        let load = |number: &AtomicU32| f64::from(f32::from_bits(number.load(Relaxed)));
        let own = load(&self.own);
        CpuView {
            cpus: f64::from(self.cpus),
            waiting: load(&self.waiting),
            saturated: load(&self.saturated),
            idle: load(&self.idle),
            own: if own.is_nan() { 1.0 } else { own },
        }
    }
}

/// What the thread does that samples.
fn sample(weak: &Weak<CpuLoad>, interest: &Interest) {
    let mut sources = Sources::open();
    let (mut samples, mut idle_samples) = (0u32, 0);
    while let Some(load) = weak.upgrade() {
        load.read_waiting(&mut sources);
        if samples.is_multiple_of(SHARES_EVERY) {
            load.read_shares(&mut sources);
        }
        let is_wanted = interest.is_wanted.swap(false, SeqCst);
        drop(load);
        samples = samples.wrapping_add(1);
        idle_samples = if is_wanted { 0 } else { idle_samples + 1 };
        if idle_samples < IDLE_SAMPLES {
            std::thread::sleep(PERIOD);
        } else {
            interest.waits();
            // What was meanwhile says nothing of now.
            samples = 0;
            weak.upgrade().inspect(|load| load.ticks[0].store(NO_SAMPLE, Relaxed));
        }
    }
}

/// An average, and a new sample of what it is of. The first is believed where
/// there is none before.
fn follows(average: &AtomicU32, new: f32) {
    let old = f32::from_bits(average.load(Relaxed));
    let old = if old.is_nan() { new } else { old };
    average.store((old + (new - old) * WEIGHT).to_bits(), Relaxed);
}

/// What is sampled, opened once; the text is kept, so that a sample allocates
/// nothing.
struct Sources {
    files: [Option<File>; PATHS.len()],
    text: String,
}

impl Sources {
    fn open() -> Sources {
        Sources { files: PATHS.map(|path| File::open(path).ok()), text: String::with_capacity(1 << 16) }
    }

    /// What one of them says now.
    fn read(&mut self, which: usize) -> Option<&str> {
        let file = self.files[which].as_mut()?;
        self.text.clear();
        file.rewind().ok()?;
        file.read_to_string(&mut self.text).ok()?;
        Some(&self.text)
    }
}

/// Threads of the machine that run or are ready to.
fn running(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// Time of all CPUs, and idle time of it.
fn all_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guests are in user.
    let ticks = || line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).take(8);
    Some((ticks().sum(), ticks().skip(3).take(2).sum()))
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
        for stat in ["cpu  100 0 0 100 0 0 0 0 0 0\nintr 5\n", "cpu  130 0 0 110 0 0 0 0 0 0\nintr 6\n"] {
            let (all, idle) = all_ticks(stat).expect("the first line");
            load.sample_shares(all, idle, 50);
            load.sample_waiting(running("3.20 1.10 0.50 1000/1200 4711\n").expect("the fourth field"));
        }
        let view = load.view();
        assert!((view.idle - 0.25).abs() < 0.01, "{view:?}");
        assert!(view.own < 0.9, "{view:?}");
        assert!(view.waiting > 400.0 && view.waiting < 1000.0, "{view:?}");
        assert_eq!((running("nonsense"), all_ticks("nonsense")), (None, None));
    }

    #[test]
    fn this_machine_is_read_again_and_again() {
        let mut sources = Sources::open();
        let mut before = 0;
        for _ in 0..2 {
            assert!(sources.read(LOADAVG).and_then(running).is_some_and(|threads| threads > 0));
            assert!(sources.read(OWN_STAT).and_then(own_ticks).is_some());
            let (all, idle) = sources.read(STAT).and_then(all_ticks).expect("procfs");
            assert!(all > before && all >= idle);
            before = all;
            std::thread::sleep(Duration::from_millis(100));
        }
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
            load.places();
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
    }
}
