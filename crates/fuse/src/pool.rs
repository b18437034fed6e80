//! The threads that serve a session, and those that stand in for them.
//!
//! Over io_uring a reply leaves by the entry that brought its request and by
//! no other. So a worker whose reply has to wait for a fill
//! ([`prefetch`](crate::pacing::prefetch)) waits with it, while the fill may
//! wait for reads that come by the same queue. Before it waits, another thread
//! with an entry of its own stands in, unless [`DEPTH`] threads of the queue are
//! left. Who stood in once stays for the next time.

use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::forgets::Backlog;
use crate::mount::MountPoint;
use crate::pacing::Pacing;
use crate::pacing::prefetch::{Prefetch, Relief, Way};
use crate::statistics::Counters;
use crate::tap::Tap;
use crate::transport::{Chosen, DEPTH, Device, ReceiveError, Ring};
use crate::worker::{self, Duty};
use rustix::fd::OwnedFd;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

/// By what a worker gets its requests.
pub(crate) enum Lane {
    Device(Box<Device>),
    Ring(RingLane),
}

/// An entry of a queue, not made yet.
#[derive(Clone, Debug)]
pub(crate) struct RingLane {
    file: Arc<OwnedFd>,
    queue: u16,
    payload_len: usize,
    pacing: Arc<Pacing>,
}

/// One for each thread. Beside rings the device has one, for what still comes
/// there.
pub(crate) fn lanes(mut device: Device, chosen: &Chosen, workers: usize, pacing: &Arc<Pacing>) -> Vec<Lane> {
    match chosen {
        Chosen::Device => {
            let others: Vec<Lane> = (1..workers).map(|_| Lane::Device(Box::new(device.another()))).collect();
            others.into_iter().chain([Lane::Device(Box::new(device))]).collect()
        }
        Chosen::Rings(rings) => {
            device.stand_beside_rings();
            let lane = |index: usize| {
                let (file, pacing) = (Arc::clone(device.file()), Arc::clone(pacing));
                // Below the count of queues.
                let queue = (index / DEPTH) as u16;
                Lane::Ring(RingLane { file, queue, payload_len: rings.payload_len, pacing })
            };
            let all: Vec<Lane> = (0..rings.threads()).map(lane).collect();
            all.into_iter().chain([Lane::Device(Box::new(device))]).collect()
        }
    }
}

/// The threads of one queue.
#[derive(Debug)]
struct Headcount {
    /// All of them.
    threads: usize,
    /// Those that wait for a fill.
    waiting: usize,
}

impl Headcount {
    /// One of them is about to wait. True when another has to stand in, which
    /// counts from now on.
    fn waits(&mut self) -> bool {
        self.waiting += 1;
        let is_short = self.threads - self.waiting < DEPTH;
        self.threads += usize::from(is_short);
        is_short
    }

    fn returns(&mut self) {
        self.waiting -= 1;
    }
}

/// What all threads of a session serve, and how they ended.
pub(crate) struct Service<'a, F: ?Sized> {
    filesystem: &'a F,
    point: &'a MountPoint,
    prefetch: Option<&'a Prefetch>,
    tap: Option<&'a dyn Tap>,
    backlog: Backlog,
    /// One for each queue.
    headcounts: Vec<Mutex<Headcount>>,
    ends: Mutex<Vec<Result<ReceiveError, io::Error>>>,
}

impl<'a, F: Filesystem + ?Sized> Service<'a, F> {
    /// Nobody serves yet.
    pub(crate) fn new(
        filesystem: &'a F,
        point: &'a MountPoint,
        prefetch: Option<&'a Prefetch>,
        tap: Option<&'a dyn Tap>,
        chosen: &Chosen,
    ) -> Service<'a, F> {
        let queues = match chosen {
            Chosen::Device => 0,
            Chosen::Rings(rings) => rings.queues,
        };
        let headcounts = (0..queues).map(|_| Mutex::new(Headcount { threads: DEPTH, waiting: 0 })).collect();
        let backlog = Backlog::default();
        Service { filesystem, point, prefetch, tap, backlog, headcounts, ends: Mutex::default() }
    }

    /// Serves by a thread for each lane until all have ended, and says how each
    /// did.
    pub(crate) fn run(self, lanes: Vec<Lane>, counters: &[Counters]) -> Vec<Result<ReceiveError, io::Error>> {
        thread::scope(|scope| {
            let pool = Pool { scope, service: &self };
            for (index, (lane, counters)) in lanes.into_iter().zip(counters).enumerate() {
                if !pool.start(format!("fuse-worker-{index}"), lane, counters) {
                    break;
                }
            }
        });
        self.ends.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn duty<'b>(&'b self, counters: &'b Counters, way: Way<'b>) -> Duty<'b, F> {
        let prefetcher = self.prefetch.map(|prefetch| prefetch.worker(way));
        Duty { filesystem: self.filesystem, counters, backlog: &self.backlog, prefetcher, tap: self.tap }
    }

    fn headcount(&self, queue: u16) -> MutexGuard<'_, Headcount> {
        self.headcounts[usize::from(queue)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, end: Result<ReceiveError, io::Error>) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }
}

/// Starts threads.
struct Pool<'scope, 'env, F: ?Sized> {
    scope: &'scope Scope<'scope, 'env>,
    service: &'env Service<'env, F>,
}

impl<F: ?Sized> Clone for Pool<'_, '_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: ?Sized> Copy for Pool<'_, '_, F> {}

impl<'env, F: Filesystem + ?Sized> Pool<'_, 'env, F> {
    /// Starts a thread that serves to the end. When it cannot be started the
    /// connection is aborted, so that the others end too, and false is
    /// returned.
    fn start(self, name: String, lane: Lane, counters: &'env Counters) -> bool {
        let run = move || {
            let serve = AssertUnwindSafe(|| self.serve(lane, counters));
            let end = catch_unwind(serve).unwrap_or(ReceiveError::Failed(Errno::IO));
            self.service.ended(Ok(end));
        };
        let started = thread::Builder::new().name(name).spawn_scoped(self.scope, run).map(drop);
        let is_started = started.is_ok();
        if let Err(error) = started {
            let _ = self.service.point.abort();
            self.service.ended(Err(error));
        }
        is_started
    }

    /// When a ring fails the connection is aborted: the kernel would go on to
    /// queue requests that nobody takes.
    fn serve(self, lane: Lane, counters: &'env Counters) -> ReceiveError {
        match lane {
            Lane::Device(mut device) => {
                let way = Way::Leave(Arc::clone(device.file()));
                worker::serve(&mut *device, &self.service.duty(counters, way))
            }
            Lane::Ring(lane) => {
                let ended = RingWorker { pool: self, lane, counters }.serve();
                if matches!(ended, ReceiveError::Failed(_)) {
                    let _ = self.service.point.abort();
                }
                ended
            }
        }
    }
}

/// The place of a worker at a queue.
struct RingWorker<'scope, 'env, F: ?Sized> {
    pool: Pool<'scope, 'env, F>,
    lane: RingLane,
    counters: &'env Counters,
}

impl<F: Filesystem + ?Sized> RingWorker<'_, '_, F> {
    fn serve(&self) -> ReceiveError {
        let RingLane { file, queue, payload_len, pacing } = self.lane.clone();
        match Ring::new(file, queue, payload_len, &pacing) {
            Ok(mut ring) => worker::serve(&mut ring, &self.pool.service.duty(self.counters, Way::Wait(self))),
            Err(errno) => ReceiveError::Failed(errno),
        }
    }
}

impl<F: Filesystem + ?Sized> Relief for RingWorker<'_, '_, F> {
    fn waits(&self) {
        let is_short = self.pool.service.headcount(self.lane.queue).waits();
        if is_short {
            // Where nobody can, the connection is at its end, and so is the wait.
            self.pool.start("fuse-stand-in".to_owned(), Lane::Ring(self.lane.clone()), self.counters);
        }
    }

    fn returns(&self) {
        self.pool.service.headcount(self.lane.queue).returns();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_serve_as_a_queue_needs_and_who_stood_in_stays() {
        let mut headcount = Headcount { threads: DEPTH, waiting: 0 };
        assert!((0..5).all(|_| headcount.waits()));
        assert_eq!(headcount.threads, DEPTH + 5);
        (0..5).for_each(|_| headcount.returns());
        assert!((0..5).all(|_| !headcount.waits()));
        assert!(headcount.waits());
    }
}
