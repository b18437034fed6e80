//! Endurance: a mixed load for a long time, under which the daemon may not grow.
//!
//! Small files made and removed, large ones overwritten, appends with a sync, renames, extended attributes,
//! sparse files: each worker knows what it wrote and compares what it reads. Meanwhile the daemon's resident
//! memory, threads and descriptors are sampled. A straight line is fitted to the second half of the samples;
//! were it to rise more than a bound over that half, by more than the samples' own scatter could make it
//! seem, something would not be given back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::XattrFlags;
use rustix::process::Pid;

use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;
use strongroom_ledger::pattern;

const WORKERS: u64 = 4;
/// Files of one worker; all of them together take less than 200 MiB.
const FILES: u64 = 60;
const SMALL_MAX: u64 = 16 << 10;
const LARGE: u64 = 8 << 20;
const SAMPLE: Duration = Duration::from_secs(2);
/// Threads are not a matter of trends: what a mount has, it has from its beginning, but for a connection of
/// the control socket now and then.
const THREADS_SLACK: u64 = 4;

#[derive(Args)]
pub struct SoakArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// For how long
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl SoakArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        Self { subject: subject.clone(), minutes: if long { 30.0 } else { 0.75 }, seed: 1 }
    }
}

/// What the daemon holds at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    resident_kib: u64,
    threads: u64,
    descriptors: u64,
}

/// Runs the load and judges the samples.
pub fn run(arguments: &SoakArgs) -> Result<Tally> {
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("soak")?;
    let vault = Vault::create(&subject, scratch.path())?;
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let mount = vault.mount(MountOptions::new(time + Duration::from_secs(600)))?;
    let daemon = mount.daemon().ok_or_else(|| Failure::new("the subject has no daemon"))?;
    let (stop, actions) = (AtomicBool::new(false), AtomicU64::new(0));
    let (outcomes, samples) = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (stop, actions, plain) = (&stop, &actions, mount.path());
                let seed = arguments.seed;
                scope.spawn(move || Worker::new(plain, number, seed)?.work(stop, actions))
            })
            .collect();
        let samples = sample(daemon, time, &stop);
        stop.store(true, Ordering::Relaxed);
        let outcomes: Vec<Result> =
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect();
        (outcomes, samples)
    });
    let mut tally = Tally::default();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        tally.count(&format!("worker {number}"), outcome);
    }
    let samples = samples?;
    println!("  {} actions in {:.1} minutes", actions.into_inner(), time.as_secs_f64() / 60.0);
    tally.count("resident memory", steady("resident memory", "KiB", &samples, |sample| sample.resident_kib));
    tally.count("descriptors", steady("descriptors", "", &samples, |sample| sample.descriptors));
    tally.count("threads", threads(&samples));
    tally.count("the unmount", mount.unmount());
    tally.count("the check", vault.check(Duration::from_secs(300)).map(drop));
    Ok(tally)
}

fn sample(daemon: Pid, time: Duration, stop: &AtomicBool) -> Result<Vec<Sample>> {
    let began = Instant::now();
    let mut samples = Vec::new();
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(SAMPLE.min(time / 20));
        samples.push(look_at(daemon, began.elapsed().as_secs_f64())?);
    }
    Ok(samples)
}

fn look_at(daemon: Pid, seconds: f64) -> Result<Sample> {
    let place = PathBuf::from(format!("/proc/{}", daemon.as_raw_nonzero()));
    let status = fs::read_to_string(place.join("status")).context("the daemon is gone")?;
    let number = |key: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).ok_or_else(|| Failure::new(format!("no {key} in /proc")))
    };
    Ok(Sample {
        seconds,
        resident_kib: number("VmRSS:")?,
        threads: number("Threads:")?,
        descriptors: fs::read_dir(place.join("fd"))?.count() as u64,
    })
}

/// By so many standard errors a rise has to be beyond its bound: files come and go by chance, and in a short
/// run the line follows them.
const ERRORS: f64 = 3.0;

/// What a fitted line may rise over the second half: a sixth of the mean, and a little for what is small.
fn bound(mean: f64) -> f64 {
    mean / 6.0 + 64.0
}

fn steady(what: &str, unit: &str, samples: &[Sample], value: impl Fn(&Sample) -> u64) -> Result {
    let half = &samples[samples.len() / 2..];
    ensure!(half.len() >= 5, "{what}: {} samples are too few to judge", half.len());
    let points: Vec<(f64, f64)> = half.iter().map(|sample| (sample.seconds, value(sample) as f64)).collect();
    let Line { mean, slope, error } = Line::fitted(&points);
    let span = points[points.len() - 1].0 - points[0].0;
    let (rise, error, limit) = (slope * span, error * span, bound(mean));
    let highest = samples.iter().map(&value).max().unwrap_or(0);
    println!(
        "  {what}: mean {mean:.0} {unit} in the second half, highest {highest}, \
         rising {rise:+.0} ± {error:.0} in {span:.0} s (at most {limit:.0})"
    );
    if rise - ERRORS * error > limit {
        return Err(Failure::new(format!("{what} grew by {rise:.0} {unit} in {span:.0} s")));
    }
    Ok(())
}

/// The line of least squares.
struct Line {
    mean: f64,
    slope: f64,
    /// The slope's standard error, from what the points scatter about the line.
    error: f64,
}

impl Line {
    /// Through at least three points.
    fn fitted(points: &[(f64, f64)]) -> Self {
        let count = points.len() as f64;
        let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        if below <= 0.0 {
            return Self { mean: y, slope: 0.0, error: 0.0 };
        }
        let slope = above / below;
        let left: f64 = points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).powi(2)).sum();
        Self { mean: y, slope, error: (left / (count - 2.0) / below).sqrt() }
    }
}

fn threads(samples: &[Sample]) -> Result {
    let count = |samples: &[Sample]| samples.iter().map(|sample| sample.threads).max().unwrap_or(0);
    let (early, late) = samples.split_at(samples.len() / 2);
    let (early, late) = (count(early), count(late));
    println!("  threads: at most {early} in the first half, {late} in the second");
    ensure!(late <= early + THREADS_SLACK, "threads grew from {early} to {late}");
    Ok(())
}

/// One worker: a directory of its own, and what is in it.
struct Worker {
    directory: PathBuf,
    random: Random,
    /// By name: which tag wrote it, and its length.
    files: BTreeMap<String, (u64, u64)>,
    next: u64,
}

impl Worker {
    fn new(plain: &Path, number: u64, seed: u64) -> Result<Self> {
        let directory = plain.join(format!("worker-{number}"));
        fs::create_dir(&directory).context(directory.display())?;
        let random = Random::new(seed ^ (number << 32));
        Ok(Self { directory, random, files: BTreeMap::new(), next: (number + 1) << 40 })
    }

    fn work(mut self, stop: &AtomicBool, actions: &AtomicU64) -> Result {
        while !stop.load(Ordering::Relaxed) {
            let outcome = self.step();
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            outcome?;
            actions.fetch_add(1, Ordering::Relaxed);
        }
        for name in self.files.keys().cloned().collect::<Vec<_>>() {
            self.compare(&name)?;
        }
        Ok(())
    }

    fn pick(&mut self) -> Option<String> {
        let count = self.files.len() as u64;
        if count == 0 {
            return None;
        }
        self.files.keys().nth(self.random.below(count) as usize).cloned()
    }

    fn tag(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn step(&mut self) -> Result {
        let Some(name) = self.pick() else { return self.make() };
        match self.random.below(20) {
            0..=4 => self.make(),
            5..=8 => self.compare(&name),
            9..=10 => self.remove(&name),
            11..=12 => self.rename(&name),
            13..=14 => self.overwrite(&name),
            15 => self.large(),
            16 => self.sparse(),
            17 => self.attributes(&name),
            18 => self.list(),
            _ => Ok(File::open(self.directory.join(&name)).context(&name)?.sync_all()?),
        }
    }

    fn make(&mut self) -> Result {
        if self.files.len() as u64 >= FILES {
            let Some(name) = self.pick() else { return Ok(()) };
            return self.remove(&name);
        }
        let (tag, len) = (self.tag(), self.random.below(SMALL_MAX));
        let name = format!("file-{tag}");
        fs::write(self.directory.join(&name), pattern::bytes(tag, 0, len as usize)).context(&name)?;
        self.files.insert(name, (tag, len));
        Ok(())
    }

    fn compare(&mut self, name: &str) -> Result {
        let (tag, len) = self.files[name];
        let found = fs::read(self.directory.join(name)).context(name)?;
        ensure!(found == pattern::bytes(tag, 0, len as usize), "{name}: not what was written");
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result {
        fs::remove_file(self.directory.join(name)).context(name)?;
        self.files.remove(name);
        Ok(())
    }

    /// To a new name or over another file.
    fn rename(&mut self, name: &str) -> Result {
        let over = self.pick().filter(|_| self.next.is_multiple_of(2));
        let to = over.unwrap_or_else(|| format!("renamed-{}", self.tag()));
        fs::rename(self.directory.join(name), self.directory.join(&to)).context(name)?;
        if let Some(content) = self.files.remove(name) {
            self.files.insert(to, content);
        }
        Ok(())
    }

    /// Whole, in pieces, from back to front.
    fn overwrite(&mut self, name: &str) -> Result {
        let (_, len) = self.files[name];
        let tag = self.tag();
        let bytes = pattern::bytes(tag, 0, len as usize);
        let file = File::options().write(true).open(self.directory.join(name)).context(name)?;
        for (index, piece) in bytes.chunks(5000).enumerate().rev() {
            file.write_all_at(piece, index as u64 * 5000)?;
        }
        if tag.is_multiple_of(4) {
            file.sync_data()?;
        }
        self.files.insert(name.to_owned(), (tag, len));
        Ok(())
    }

    /// One large file, written at random and read back.
    fn large(&mut self) -> Result {
        let path = self.directory.join("large");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let tag = self.tag();
        for _ in 0..16 {
            let offset = self.random.below(LARGE);
            let bytes = pattern::bytes(tag, offset, 1 + self.random.below(64 << 10) as usize);
            file.write_all_at(&bytes, offset)?;
            let mut found = vec![0; bytes.len()];
            file.read_exact_at(&mut found, offset)?;
            ensure!(found == bytes, "large: not what was written at {offset}");
        }
        if tag.is_multiple_of(8) {
            file.set_len(self.random.below(LARGE))?;
        }
        Ok(())
    }

    /// A file that is mostly holes, made and removed.
    fn sparse(&mut self) -> Result {
        let path = self.directory.join("sparse");
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let tag = self.tag();
        for step in 0..8 {
            let offset = step * (1 << 28) + self.random.below(1 << 20);
            let bytes = pattern::bytes(tag, offset, 100);
            file.write_all_at(&bytes, offset)?;
            let mut found = [1; 100];
            file.read_exact_at(&mut found, offset)?;
            ensure!(found[..] == bytes, "sparse: not what was written at {offset}");
        }
        let mut hole = [1; 4096];
        file.read_exact_at(&mut hole, (1 << 28) - (1 << 20))?;
        ensure!(hole.iter().all(|byte| *byte == 0), "sparse: a hole is not empty");
        drop(file);
        Ok(fs::remove_file(path)?)
    }

    fn attributes(&mut self, name: &str) -> Result {
        let path = self.directory.join(name);
        let value = pattern::bytes(self.tag(), 0, 100);
        rustix::fs::setxattr(&path, "user.soak", &value, XattrFlags::empty()).context(name)?;
        let mut found = [0; 200];
        let len = rustix::fs::getxattr(&path, "user.soak", &mut found).context(name)?;
        ensure!(found[..len] == value, "{name}: the attribute is not what was set");
        Ok(())
    }

    fn list(&mut self) -> Result {
        let mut listed = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            listed.push(entry?.file_name().to_string_lossy().into_owned());
        }
        listed.retain(|name| name != "large");
        listed.sort();
        ensure!(listed.iter().eq(self.files.keys()), "the directory lists something else");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample =
            |at| Sample { seconds: at as f64, resident_kib: resident(at), threads: 8, descriptors: 100 };
        (0..100).map(sample).collect()
    }

    #[test]
    fn growth_is_noticed_and_noise_is_not() {
        let resident = |sample: &Sample| sample.resident_kib;
        assert!(steady("steady", "KiB", &samples(|at| 50_000 + at % 7 * 1000), resident).is_ok());
        assert!(steady("settling", "KiB", &samples(|at| 20_000 + at.min(40) * 1000), resident).is_ok());
        assert!(steady("growing", "KiB", &samples(|at| 20_000 + at * 1000), resident).is_err());
    }

    #[test]
    fn what_scatter_makes_of_few_samples_is_no_growth_and_growth_with_scatter_is() {
        let scatter = [0, 90, -60, 120, -90, 30, 150, -30, 60, 180];
        let samples = |per_sample: i64| -> Vec<Sample> {
            let resident_kib = |at: usize| (400 + scatter[at % 10] + per_sample * at as i64) as u64;
            let sample = |at| Sample {
                seconds: at as f64,
                resident_kib: resident_kib(at),
                threads: 8,
                descriptors: 1,
            };
            (0..20).map(sample).collect()
        };
        let resident = |sample: &Sample| sample.resident_kib;
        let Line { slope, mean, .. } = Line::fitted(
            &samples(10)[10..]
                .iter()
                .map(|sample| (sample.seconds, resident(sample) as f64))
                .collect::<Vec<_>>(),
        );
        assert!(slope * 9.0 > bound(mean), "by the line alone it would be one");
        assert!(steady("scattering", "KiB", &samples(10), resident).is_ok());
        assert!(steady("growing", "KiB", &samples(100), resident).is_err());
    }

    #[test]
    fn the_line_is_that_of_least_squares() {
        let Line { mean, slope, error } = Line::fitted(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert!((mean - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9 && error < 1e-9);
        let Line { slope, error, .. } = Line::fitted(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]);
        assert!(slope.abs() < 1e-9 && (error - 3.0_f64.sqrt()).abs() < 1e-9);
    }
}
