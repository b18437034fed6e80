//! Launches on one device: a few lanes, each with a thread that hands a launch to the device and waits for it, so that
//! as many launches are in flight as there are lanes.
//!
//! A launch that fails loses its work, and its lane is replaced by a new one. After several failures in a row, or when
//! a launch does not end by its deadline, the device counts as lost, for good: everything is then answered with
//! [`Failure::Lost`]. Neither the block nor the lane of a launch that has not ended is used again.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use strongroom_memory::wipe;

use crate::failure::Failure;
use crate::limits::{FAILURES_MAX, LANES_MAX, LENT_MAX, WAITING_MAX};
use crate::plan::Plan;
use crate::platform::{Device, Lane};
use crate::sys::Block;
use crate::{Completion, Options};

/// How long one sleep of a wait is at most: the driver's word is asked for afterwards, in case it forgot to wake.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// How long a poll goes on without a pause, and how long its pauses are then.
const SPIN: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(20);

/// Told of the end of a launch, on the lane's thread. The block has only the data: the rest is wiped.
pub(crate) type Done = Box<dyn FnOnce(Result<Block, Failure>) + Send>;

/// See the module. Dropping it answers what is queued and ends its threads.
pub(crate) struct Launcher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    device: Arc<dyn Device>,
    options: Options,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Launches that were begun and have not been answered.
    outstanding: usize,
    free: Vec<Block>,
    /// Blocks that there are, free or not; those that are lost with a launch count no more.
    blocks: usize,
    failures: u32,
    is_lost: bool,
    is_closing: bool,
    threads: usize,
}

struct Job {
    plan: Plan,
    block: Block,
    done: Done,
}

/// Why no launch can begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    /// All lanes and places to wait are taken, or all blocks are lent.
    Busy,
    Failed(Failure),
}

/// A launch that was begun: its block, all zero. Dropped, it was never begun.
pub(crate) struct Begun {
    block: Option<Block>,
    shared: Arc<Shared>,
}

impl Begun {
    pub(crate) fn block(&mut self) -> &mut Block {
        self.block.as_mut().expect("there until it is queued")
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(mut block) = self.block.take() {
            wipe(&mut block);
            let mut state = self.shared.lock();
            state.outstanding -= 1;
            state.free.push(block);
        }
    }
}

impl Launcher {
    pub(crate) fn new(device: Arc<dyn Device>, options: Options) -> Launcher {
        let lanes = options.lanes.clamp(1, LANES_MAX);
        let options = Options { lanes, ..options };
        let state = Mutex::new(State { threads: lanes, ..State::default() });
        let shared = Arc::new(Shared { device, options, state, changed: Condvar::new() });
        let lane = || {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&shared))
        };
        let threads = std::iter::repeat_with(lane).take(lanes).collect();
        Launcher { shared, threads }
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.shared.device
    }

    /// Launches that may be begun at a time.
    pub(crate) fn queue_max(&self) -> usize {
        self.shared.options.lanes + WAITING_MAX
    }

    pub(crate) fn options(&self) -> Options {
        self.shared.options
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.shared.lock().is_lost
    }

    pub(crate) fn begin(&self) -> Result<Begun, NotNow> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if state.is_lost {
            return Err(NotNow::Failed(Failure::Lost));
        }
        if state.outstanding >= self.queue_max() {
            return Err(NotNow::Busy);
        }
        let block = match state.free.pop() {
            Some(block) => block,
            None if state.blocks >= self.queue_max() + LENT_MAX => return Err(NotNow::Busy),
            None => {
                state.blocks += 1;
                drop(state);
                let block = shared.device.block();
                state = shared.lock();
                block.map_err(|failure| {
                    state.blocks -= 1;
                    NotNow::Failed(failure)
                })?
            }
        };
        state.outstanding += 1;
        drop(state);
        Ok(Begun { block: Some(block), shared: Arc::clone(shared) })
    }

    pub(crate) fn queue(&self, mut begun: Begun, plan: Plan, done: Done) {
        let block = begun.block.take().expect("there until it is queued");
        self.shared.lock().waiting.push_back(Job { plan, block, done });
        self.shared.changed.notify_one();
    }

    /// Takes blocks back, with zeros in all of them.
    pub(crate) fn returner(&self) -> impl Fn(Block) + Send + Sync + Clone + use<> {
        let shared = Arc::clone(&self.shared);
        move |block| shared.lock().free.push(block)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closing = true;
        self.shared.changed.notify_all();
        // A driver that does not return keeps its thread; everything else ends by its deadline.
        let limit = self.shared.options.deadline * (WAITING_MAX as u32 + 2);
        let waited = self.shared.changed.wait_timeout_while(state, limit, |state| state.threads > 0);
        drop(waited);
        for thread in self.threads.drain(..) {
            if thread.is_finished() && thread.join().is_err() && !std::thread::panicking() {
                panic!("a lane's thread panicked");
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next launch; `None` when all is done and nothing more will come.
    fn next(&self) -> Option<(Job, bool)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some((job, state.is_lost));
            }
            if state.is_closing {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn note(&self, failure: Option<&Failure>) {
        let mut state = self.lock();
        let Some(failure) = failure else {
            state.failures = 0;
            return;
        };
        state.failures += 1;
        state.blocks -= 1;
        state.is_lost |= *failure == Failure::Late || state.failures >= FAILURES_MAX;
    }

    fn run(&self, lane: &mut Option<Box<dyn Lane>>, plan: &Plan, block: Block) -> Result<Block, Failure> {
        let lane = match lane {
            Some(lane) => lane,
            None => lane.insert(self.device.lane()?),
        };
        let deadline = Instant::now() + self.options.deadline;
        lane.launch(plan, block)?;
        let mut block = self.wait(&mut **lane, deadline)?;
        for range in [plan.pieces(), plan.keys(), plan.tweaks()] {
            wipe(&mut block[range]);
        }
        Ok(block)
    }

    fn wait(&self, lane: &mut dyn Lane, deadline: Instant) -> Result<Block, Failure> {
        let began = Instant::now();
        loop {
            if let Some(block) = lane.poll()? {
                return Ok(block);
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(Failure::Late);
            }
            match self.options.completion {
                Completion::Event => lane.signal().wait(SLEEP_MAX.min(deadline - now)),
                Completion::Poll if now - began < SPIN => std::hint::spin_loop(),
                Completion::Poll => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// One lane's thread.
fn work(shared: &Shared) {
    /// Counted out whatever happens.
    struct Leaves<'s>(&'s Shared);
    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.lock().threads -= 1;
            self.0.changed.notify_all();
        }
    }
    let _leaves = Leaves(shared);
    strongroom_memory::lock_stack();
    let mut lane = None;
    while let Some((Job { plan, block, done }, is_lost)) = shared.next() {
        let result = if is_lost {
            shared.note_unused(block);
            Err(Failure::Lost)
        } else {
            let result = shared.run(&mut lane, &plan, block);
            shared.note(result.as_ref().err());
            result
        };
        if result.is_err() {
            // It may still be at work, and keeps what it works on.
            lane = None;
        }
        shared.lock().outstanding -= 1;
        done(result);
    }
}

impl Shared {
    /// A block whose launch does not take place.
    fn note_unused(&self, mut block: Block) {
        wipe(&mut block);
        self.lock().free.push(block);
    }
}
