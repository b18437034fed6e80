//! One measurement.

use std::fmt;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strongroom_engine::client::Cause;
use strongroom_engine::{Engine, Outcome, SessionError};

use crate::case::Case;
use crate::summary::Summary;
use crate::work::Work;

/// How much is done for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Time of one sample, in which batches follow each other. On a machine
    /// with other work it should be several of the system's time slices.
    pub sample: Duration,
    /// Samples that are taken.
    pub samples: usize,
    /// After this long, making of batches included, no further sample is
    /// begun; one is always taken.
    pub limit: Duration,
}

/// What was found. The figures of several threads are added up where that
/// makes sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Of all threads together.
    pub bytes_per_second: Summary,
    /// Time for which a thread was occupied with a batch: with one in flight,
    /// from its submission to its completion.
    pub batch_ns: Summary,
    /// CPU time of the submitting thread for a batch; what a device's own
    /// threads compute is not in it.
    pub cpu_ns: Summary,
    /// Samples behind these.
    pub samples: usize,
}

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureError {
    /// The engine opens no session.
    Session(SessionError),
    /// The engine did not compute a batch.
    Engine(Cause),
    /// A batch ended badly.
    Failed(Outcome),
    /// The kernel gives no random bytes.
    Entropy,
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::Session(error) => error.fmt(f),
            MeasureError::Engine(cause) => write!(f, "the engine failed: {}", cause.what()),
            MeasureError::Failed(Outcome::AuthenticationFailed) => {
                f.write_str("the engine opens what it sealed as forged")
            }
            MeasureError::Failed(_) => f.write_str("the engine did not do what it was asked to"),
            MeasureError::Entropy => f.write_str("the kernel gives no random bytes"),
        }
    }
}

impl std::error::Error for MeasureError {}

/// One sample of one thread.
#[derive(Clone, Copy)]
struct Sample {
    bytes_per_second: f64,
    batch_ns: f64,
    cpu_ns: f64,
}

/// Measures a case on an engine. Each thread has a session and batches of its
/// own, and all begin together.
///
/// # Errors
/// [`MeasureError`]: the engine does not have the algorithm or the size, or
/// failed.
pub fn measure(engine: &Arc<dyn Engine>, case: Case, effort: Effort) -> Result<Figure, MeasureError> {
    let threads = case.threads.max(1);
    let start = Barrier::new(threads);
    let lanes: Vec<Result<Vec<Sample>, MeasureError>> = std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map(|_| scope.spawn(|| lane(engine, case, effort, &start))).collect();
        let own = lane(engine, case, effort, &start);
        let others = others.into_iter().map(|other| other.join().expect("measuring does not panic"));
        std::iter::once(own).chain(others).collect()
    });
    let lanes = lanes.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(figure(&lanes))
}

fn lane(
    engine: &Arc<dyn Engine>,
    case: Case,
    effort: Effort,
    start: &Barrier,
) -> Result<Vec<Sample>, MeasureError> {
    let work = Work::new(engine, case).and_then(|mut work| work.warm_up(effort.sample).map(|()| work));
    // The others wait, whatever became of this one.
    start.wait();
    let mut work = work?;
    let began = Instant::now();
    let mut samples = Vec::with_capacity(effort.samples);
    while samples.is_empty() || samples.len() < effort.samples && began.elapsed() < effort.limit {
        samples.push(sample(&mut work, effort.sample)?);
    }
    Ok(samples)
}

fn sample(work: &mut Work, length: Duration) -> Result<Sample, MeasureError> {
    let (mut wall, mut cpu, mut bursts) = (Duration::ZERO, Duration::ZERO, 0u32);
    while bursts == 0 || wall < length {
        let prepared = work.prepare()?;
        let (cpu_began, began) = (thread_cpu(), Instant::now());
        work.burst(prepared)?;
        wall += began.elapsed();
        cpu += thread_cpu().saturating_sub(cpu_began);
        bursts += 1;
    }
    let (bytes, batches) =
        (work.burst_bytes() as f64 * f64::from(bursts), work.burst_batches() as f64 * f64::from(bursts));
    Ok(Sample {
        bytes_per_second: bytes / wall.as_secs_f64().max(1e-9),
        batch_ns: wall.as_nanos() as f64 / batches,
        cpu_ns: cpu.as_nanos() as f64 / batches,
    })
}

/// CPU time of this thread: clock_gettime(2), `CLOCK_THREAD_CPUTIME_ID`.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn figure(lanes: &[Vec<Sample>]) -> Figure {
    let samples = lanes.iter().map(Vec::len).min().expect("at least one thread");
    let sums: Vec<f64> =
        (0..samples).map(|at| lanes.iter().map(|lane| lane[at].bytes_per_second).sum()).collect();
    let all = |value: fn(&Sample) -> f64| {
        let values: Vec<f64> = lanes.iter().flatten().map(value).collect();
        Summary::of(&values)
    };
    Figure {
        bytes_per_second: Summary::of(&sums),
        batch_ns: all(|sample| sample.batch_ns),
        cpu_ns: all(|sample| sample.cpu_ns),
        samples,
    }
}
