//! Threads that have batches under way, and what they do in a second.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strongroom_engine::{
    Algorithm, AssociatedData, Batch, Buffer, Engine, NonceSource, Operation, Segment, Session, Ticket,
};

/// What a thread has under way.
pub(crate) struct Shape {
    /// Bytes of a batch, and of each segment of it, or sector.
    pub(crate) bytes: usize,
    pub(crate) segment: usize,
    /// Batches.
    pub(crate) in_flight: usize,
    /// How long.
    pub(crate) seconds: f64,
}

pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) latency_us: f64,
}

/// CPU time of this process, which the device is not part of.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What is done to data on their way to a store.
pub(crate) fn operation(algorithm: Algorithm) -> Operation {
    match algorithm {
        Algorithm::Sector(_) => Operation::EncryptSectors,
        Algorithm::Aead(_) => Operation::Seal,
    }
}

fn batch(algorithm: Algorithm, buffer: Buffer, shape: &Shape, number: u64, nonces: &NonceSource) -> Batch {
    let operation = operation(algorithm);
    if operation == Operation::EncryptSectors {
        let segment = Segment::sectors(0, buffer.len(), number, shape.segment as u32);
        return Batch::new(operation, buffer, vec![segment]);
    }
    let mut fresh = nonces.batch(buffer.len()).expect("nonces");
    let segment = |start: usize| {
        let len = shape.segment.min(shape.bytes - start);
        Segment::seal(start, len, fresh.draw(), AssociatedData::new(b"measure"))
    };
    let segments = (0..shape.bytes).step_by(shape.segment).map(segment).collect();
    Batch::new(operation, buffer, segments)
}

/// One thread.
pub(crate) fn load(engine: &dyn Engine, session: &Session, nonces: &NonceSource, shape: &Shape) -> Measured {
    let mut buffers: Vec<Buffer> = (0..shape.in_flight).map(|_| Buffer::new(shape.bytes)).collect();
    let mut out: VecDeque<(Instant, Ticket)> = VecDeque::new();
    let (began, cpu_before) = (Instant::now(), cpu());
    let (mut done, mut latency) = (0u64, Duration::ZERO);
    while began.elapsed().as_secs_f64() < shape.seconds || !out.is_empty() {
        while let Some(buffer) = buffers.pop().filter(|_| began.elapsed().as_secs_f64() < shape.seconds) {
            let mut batch = batch(session.algorithm(), buffer, shape, done, nonces);
            let submitted = Instant::now();
            let ticket = loop {
                match engine.submit(session, batch) {
                    Ok(ticket) => break ticket,
                    Err(refused) => batch = refused.batch,
                }
            };
            out.push_back((submitted, ticket));
        }
        engine.flush();
        if let Some((submitted, ticket)) = out.pop_front() {
            buffers.push(ticket.wait().expect("handed back").batch.buffer);
            latency += submitted.elapsed();
            done += 1;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / done.max(1) as f64;
    Measured {
        per_second: done as f64 / began.elapsed().as_secs_f64(),
        cpu_us: each(cpu() - cpu_before),
        latency_us: each(latency),
    }
}

/// Runs it beneath so many frames of some 128 bytes. Where the stack lies in a page makes a kernel faster or slower by
/// more than a tenth (its loads from there wait for stores to the same place of another page), and each side would
/// have its own place in all rounds (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!",
/// ASPLOS 2009).
fn beneath(frames: usize, work: &mut dyn FnMut() -> f64) -> f64 {
    let frame = std::hint::black_box([0u8; 96]);
    let done = if frames == 0 { work() } else { beneath(frames - 1, work) };
    done + f64::from(std::hint::black_box(frame)[0])
}

/// So many of them, as a mount has, in each round at another place of the stack; requests a second.
pub(crate) fn threads(
    engine: &dyn Engine,
    session: &Session,
    nonces: &NonceSource,
    shape: &Shape,
    count: usize,
) -> f64 {
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    let frames = ROUNDS.fetch_add(1, Relaxed) * 7 % 32;
    let one = || beneath(frames, &mut || load(engine, session, nonces, shape).per_second);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// Whose turn it is in a round: each begins another time, and every second round goes backwards, so that no side
/// always follows the same one, whose load a processor remembers in its clock and caches.
pub(crate) fn turns(sides: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    order.rotate_left(round / 2 % sides);
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
