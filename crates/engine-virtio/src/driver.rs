//! The thread of a device: it sleeps on the interrupt or looks all the time, as
//! the controller says, takes answers and hands batches back, opens sessions,
//! and begins anew when the device fails.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strongroom_engine::completion::{Controller, Look, Plan};
use strongroom_engine::thread_cpu_ns;

use crate::control::Control;
use crate::lanes::Wanted;
use crate::shared::{Shared, lock};
use crate::spec::status;
use crate::{Error, sys};

/// How long it sleeps when the device has nothing: until then nobody sees that
/// what comes afterwards is late.
const IDLE: Duration = Duration::from_millis(250);

/// How long the thread wants a CPU at a time, in nanoseconds: the least that Linux
/// grants. It stands for an interrupt's handler, to which threads that compute give
/// way; what it does at a time is some microseconds for each answer.
const SLICE_NS: u64 = 100_000;

/// See the module.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    control: Control,
    interrupt: OwnedFd,
    controller: Controller,
    began: Instant,
    /// When the last interrupt was taken.
    taken: Instant,
    /// When it was last looked whether anything is late.
    checked: Instant,
    /// CPU time of this thread that batches were told to have cost.
    told_ns: u64,
}

/// What one turn has found.
struct Turn {
    completed: u32,
    in_flight: u32,
    wanted: Option<Wanted>,
    is_done: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, control: Control, interrupt: OwnedFd) -> Driver {
        let (rule, limits) = (shared.options.rule, shared.options.limits);
        let now = Instant::now();
        let controller = Controller::new(rule, limits);
        Driver { shared, control, interrupt, controller, began: now, taken: now, checked: now, told_ns: 0 }
    }

    /// Works until the engine is dropped, and what it had accepted is answered.
    pub(crate) fn run(mut self) {
        // Else the system adds 50 us to short sleeps.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        sys::ask_for_short_slices(SLICE_NS);
        while !self.shared.is_gone.load(Relaxed) {
            let went = self.turn().and_then(|turn| self.after(turn));
            match went {
                Ok(true) => {}
                // It forgets the keys.
                Ok(false) => return drop(self.shared.function.transport.reset()),
                Err(_) => self.lose(),
            }
        }
    }

    /// Takes answers, makes requests, hands batches back.
    fn turn(&mut self) -> Result<Turn, Error> {
        let shared = &self.shared;
        let is_closing = shared.is_closing.load(Acquire);
        let mut lanes = shared.lanes();
        let done = (|| {
            if shared.has_failed.swap(false, Relaxed) {
                return Err(Error::Device("a caller found it at fault"));
            }
            let (completed, bytes) = lanes.take()?;
            lanes.accept(shared.held());
            let wanted = lanes.fill(&shared.function.transport)?;
            if completed > 0 || lanes.in_flight() > 0 {
                let ns = |at: Instant| at.saturating_duration_since(self.began).as_nanos() as u64;
                self.controller.looked(&Look {
                    now_ns: ns(Instant::now()),
                    busy_since_ns: lanes.busy_since().map_or(0, ns),
                    completed,
                    bytes,
                    in_flight: lanes.in_flight(),
                });
            }
            Ok(Turn {
                completed,
                in_flight: lanes.in_flight(),
                wanted,
                is_done: is_closing && lanes.is_idle(),
            })
        })();
        let finished = lanes.finished();
        drop(lanes);
        if !finished.is_empty() {
            let used_ns = thread_cpu_ns();
            shared.cpu_ns.fetch_add(used_ns.saturating_sub(self.told_ns), Relaxed);
            self.told_ns = used_ns;
        }
        shared.hand_back(finished);
        done
    }

    /// Does what a turn has found to be done, and waits; false at the end.
    fn after(&mut self, turn: Turn) -> Result<bool, Error> {
        if let Some(wanted) = turn.wanted {
            self.open(&wanted)?;
            return Ok(true);
        }
        self.close()?;
        if turn.is_done {
            return Ok(false);
        }
        self.check()?;
        self.wait(turn.in_flight, turn.completed)?;
        Ok(true)
    }

    /// Looks for what is late, and now and then at a device that takes long.
    fn check(&mut self) -> Result<(), Error> {
        let limit = self.shared.options.late;
        if self.checked.elapsed() < limit / 8 {
            return Ok(());
        }
        self.checked = Instant::now();
        let lanes = self.shared.lanes();
        let (takes_long, is_late) = (lanes.is_late(limit / 8), lanes.is_late(limit));
        drop(lanes);
        if is_late {
            return Err(Error::Late);
        }
        // Of one that is gone or broken nothing more has to be waited for.
        if takes_long && self.shared.function.transport.status()? & status::NEEDS_RESET != 0 {
            return Err(Error::Device("it asks to be reset"));
        }
        Ok(())
    }

    fn open(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let Wanted { session, which, .. } = wanted;
        let (control, transport) = (&mut self.control, &self.shared.function.transport);
        let opened =
            session.with_key(which, |key| control.open(transport, session.wire, which.encrypts, key))?;
        let mut lanes = self.shared.lanes();
        match opened {
            Some(number) => session.opened(*which, lanes.epoch(), number),
            None => lanes.refused(wanted),
        }
        Ok(())
    }

    /// Closes what is not used any more.
    fn close(&mut self) -> Result<(), Error> {
        let closed = std::mem::take(&mut *lock(&self.shared.closed));
        if !closed.is_empty() {
            let epoch = self.shared.lanes().epoch();
            for session in closed.into_iter().filter(|session| session.epoch == epoch) {
                self.control.close(&self.shared.function.transport, session.service, session.number)?;
            }
        }
        Ok(())
    }

    /// Gives up what the device has, and begins anew with it, or without it.
    fn lose(&mut self) {
        let mut lanes = self.shared.lanes();
        lanes.lose();
        let finished = lanes.finished();
        drop(lanes);
        self.shared.hand_back(finished);
        let mut lanes = match self.shared.function.restart() {
            Ok(queues) => {
                self.control = queues.control;
                self.shared.counters.resets.fetch_add(1, Relaxed);
                let mut lanes = self.shared.lanes();
                lanes.restart(queues.data_at, queues.data);
                lanes
            }
            Err(_) => {
                // First, so that whoever comes later does not leave anything.
                self.shared.is_gone.store(true, Release);
                let mut lanes = self.shared.lanes();
                lanes.gone();
                lanes.accept(self.shared.held());
                lanes
            }
        };
        let finished = lanes.finished();
        drop(lanes);
        self.shared.hand_back(finished);
    }

    /// Waits for an interrupt or a caller, or not at all.
    fn wait(&mut self, in_flight: u32, completed: u32) -> Result<(), Error> {
        let plan = self.controller.plan();
        if in_flight == 0 {
            return self.sleep_for_interrupt(1, IDLE);
        }
        if plan.polls {
            self.shared.lanes().ask_nothing()?;
            if completed == 0 {
                std::thread::yield_now();
            }
            return Ok(());
        }
        self.keep_gap(&plan)?;
        let limit = Duration::from_nanos(plan.wait_ns).min(self.shared.options.late / 8);
        self.sleep_for_interrupt(plan.count, limit)
    }

    /// Sleeps without interrupts until the cap of their rate lets one come.
    fn keep_gap(&mut self, plan: &Plan) -> Result<(), Error> {
        let gap = Duration::from_nanos(plan.gap_ns);
        let left = gap.saturating_sub(self.taken.elapsed());
        if !left.is_zero() {
            self.shared.lanes().ask_nothing()?;
            std::thread::sleep(left);
            self.shared.counters.wakes.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn sleep_for_interrupt(&mut self, count: u32, limit: Duration) -> Result<(), Error> {
        if !self.shared.lanes().ask(count)? {
            let limit = Timespec::try_from(limit).expect("a short time");
            let events = [&self.interrupt, &self.shared.wake];
            let mut polled = events.map(|event| PollFd::new(event, PollFlags::IN));
            if poll(&mut polled, Some(&limit)).is_ok() {
                let signalled = polled.map(|polled| polled.revents().contains(PollFlags::IN));
                for (event, is_signalled) in events.into_iter().zip(signalled) {
                    if is_signalled {
                        let _ = rustix::io::read(event, &mut [0; 8]);
                    }
                }
                self.shared.counters.interrupts.fetch_add(signalled[0].into(), Relaxed);
            }
            self.shared.counters.wakes.fetch_add(1, Relaxed);
        }
        self.taken = Instant::now();
        Ok(())
    }
}

/// The driver's thread ends, however it ends: what is left is lost.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.is_gone.store(true, Release);
        let mut lanes = self.shared.lanes();
        lanes.gone();
        lanes.accept(self.shared.held());
        let finished = lanes.finished();
        drop(lanes);
        self.shared.hand_back(finished);
    }
}
