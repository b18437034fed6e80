//! What a device does: the rate of its kernels, that with transfers, and what it
//! costs the CPU, beside a plain copy out of its memory.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use strongroom_memory::wipe;

use crate::cipher::Cipher;
use crate::engine::GpuEngine;
use crate::failure::Failure;
use crate::launcher::NotNow;
use crate::limits::CONTEXTS_MAX;
use crate::plan::{Builder, Plan, Stream};
use crate::sys::Block;

/// Bytes of a context.
const CONTEXT_LEN: usize = 4096;
/// How often a kernel runs in the longer of the two launches by whose difference its time is known.
const REPEATS: usize = 5;
/// Launches of one kind whose shortest counts.
const LAUNCHES: usize = 7;
/// How long launches follow one another for a rate.
const LASTS: Duration = Duration::from_millis(200);

/// Keystream of one cipher in launches of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Whose keystream.
    pub cipher: Cipher,
    /// Contexts of 4 KiB in a launch.
    pub contexts: usize,
    /// From submission to completion of one launch with nothing else in flight.
    pub latency: Duration,
    /// The kernels alone: key expansion and keystream. `None` where the launches are too short to tell.
    pub kernel_bytes_per_second: Option<f64>,
    /// As many launches in flight as the engine takes, results in pinned memory.
    pub bytes_per_second: f64,
    /// CPU time of this process for a GiB, all threads.
    pub cpu_seconds_per_gib: f64,
}

/// Bytes for each second that come out of the device's memory into pinned memory, 16 MiB at a time and nothing computed.
///
/// # Errors
/// The device's.
pub fn copy_rate(engine: &GpuEngine) -> Result<f64, Failure> {
    let copy = |builder: &mut Builder<'_>| {
        builder.run(CONTEXTS_MAX * CONTEXT_LEN);
    };
    // The first time memory is pinned, which takes longer than it is used.
    rate(engine, &copy)?;
    Ok(rate(engine, &copy)?.bytes_per_second)
}

/// Measures one cipher and size.
///
/// # Errors
/// The device's, or [`Failure::WrongAnswers`] where it does not have the cipher.
///
/// # Panics
/// With no contexts, or more than [`CONTEXTS_MAX`].
pub fn measure(engine: &GpuEngine, cipher: Cipher, contexts: usize) -> Result<Figure, Failure> {
    assert!((1..=CONTEXTS_MAX).contains(&contexts), "1 to {CONTEXTS_MAX} contexts");
    if !engine.passes(cipher) {
        return Err(Failure::WrongAnswers);
    }
    let times = |passes| move |builder: &mut Builder<'_>| build(builder, cipher, contexts, passes);
    let latency = shortest(engine, &times(1))?;
    let longer = shortest(engine, &times(REPEATS))?;
    let kernel = longer.saturating_sub(latency).as_secs_f64() / (REPEATS - 1) as f64;
    let bytes = (contexts * CONTEXT_LEN) as f64;
    // A clock's and a driver's noise is some microseconds.
    let is_known = longer > latency + latency / 10;
    let Rate { bytes_per_second, cpu_seconds_per_gib } = rate(engine, &times(1))?;
    Ok(Figure {
        cipher,
        contexts,
        latency,
        kernel_bytes_per_second: is_known.then(|| bytes / kernel),
        bytes_per_second,
        cpu_seconds_per_gib,
    })
}

/// One key for all: a mount's masks are of one write session.
fn build(builder: &mut Builder<'_>, cipher: Cipher, contexts: usize, passes: usize) {
    let ranges: Vec<Range<usize>> = (0..contexts).map(|_| builder.run(CONTEXT_LEN)).collect();
    for _ in 0..passes {
        builder.pass(cipher, 8);
        let key = builder.key(&[0x5a; 32]);
        let stream = |number: usize| {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
            Stream { key, nonce, counter: 2 }
        };
        builder.counter(ranges.iter().enumerate().map(|(at, range)| (stream(at), range.clone())), false);
    }
}

struct Rate {
    bytes_per_second: f64,
    cpu_seconds_per_gib: f64,
}

type Done = (Result<Block, Failure>, Range<usize>);

fn launch(
    engine: &GpuEngine,
    build: &dyn Fn(&mut Builder<'_>),
    tells: &Sender<Done>,
) -> Result<usize, NotNow> {
    let mut begun = engine.launcher().begin()?;
    let mut builder = Builder::new(begun.block());
    build(&mut builder);
    let plan: Plan = builder.finish();
    let (data, tells) = (plan.data(), tells.clone());
    let bytes = data.len();
    engine.launcher().queue(begun, plan, Box::new(move |result| drop(tells.send((result, data)))));
    Ok(bytes)
}

/// Waits for one launch, and gives its block back.
fn take(engine: &GpuEngine, done: &Receiver<Done>) -> Result<(), Failure> {
    give_back(engine, done.recv().expect("a launch is answered"))
}

fn give_back(engine: &GpuEngine, (result, data): Done) -> Result<(), Failure> {
    let mut block = result?;
    wipe(&mut block[data]);
    engine.launcher().returner()(block);
    Ok(())
}

fn shortest(engine: &GpuEngine, build: &dyn Fn(&mut Builder<'_>)) -> Result<Duration, Failure> {
    let (tells, done) = channel();
    let mut shortest = Duration::MAX;
    for _ in 0..LAUNCHES {
        let began = Instant::now();
        match launch(engine, build, &tells) {
            Ok(_) => {}
            Err(NotNow::Failed(failure)) => return Err(failure),
            Err(NotNow::Busy) => return Err(Failure::Late),
        }
        let answer = done.recv().expect("a launch is answered");
        shortest = shortest.min(began.elapsed());
        give_back(engine, answer)?;
    }
    Ok(shortest)
}

/// Launches that follow one another, as many at a time as the engine takes.
fn rate(engine: &GpuEngine, build: &dyn Fn(&mut Builder<'_>)) -> Result<Rate, Failure> {
    let (tells, done) = channel();
    let (mut bytes, mut out) = (0, 0);
    let (began, began_cpu) = (Instant::now(), cpu_time());
    loop {
        let ends = began.elapsed() >= LASTS;
        if ends && out == 0 {
            break;
        }
        match if ends { Err(NotNow::Busy) } else { launch(engine, build, &tells) } {
            Ok(more) => {
                bytes += more;
                out += 1;
            }
            Err(NotNow::Busy) => {
                take(engine, &done)?;
                out -= 1;
            }
            Err(NotNow::Failed(failure)) => return Err(failure),
        }
    }
    let (took, cpu) = (began.elapsed(), cpu_time().saturating_sub(began_cpu));
    let gib = bytes as f64 / (1u64 << 30) as f64;
    Ok(Rate {
        bytes_per_second: bytes as f64 / took.as_secs_f64(),
        cpu_seconds_per_gib: cpu.as_secs_f64() / gib,
    })
}

/// CPU time of all threads.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
