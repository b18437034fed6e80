//! One unit of the device: a thread that takes a batch, computes it, and
//! answers when the modelled time is over.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use strongroom_engine::{Batch, Completed, Outcome, Session, client};

use crate::faults::{Fate, corrupt, ruin};
use crate::masks;
use crate::prepared::Prepared;
use crate::{Completion, Job, Reply, Shared};

/// How long before its end a wait stops sleeping: less than the system's
/// timers are late by would make every answer late.
const TIMER_SLACK: Duration = Duration::from_micros(60);

/// Works until the device is closing and nothing is queued.
pub(crate) fn work(shared: &Shared) {
    // When the unit has done what it has had so far.
    let mut free = Instant::now();
    while let Some(job) = next(shared) {
        let service = shared.model.service(job.batch.bytes());
        free = free.max(job.arrived) + service;
        answer(shared, job, free);
        shared.lock().outstanding -= 1;
        // What the host delayed is not the device's work.
        free = free.max(Instant::now().checked_sub(service).unwrap_or(free));
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            return Some(job);
        }
        if state.closing {
            return None;
        }
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn answer(shared: &Shared, job: Job, due: Instant) {
    let Job { session, prepared, batch, reply, fate, .. } = job;
    let stall = match fate {
        Fate::Gone => return,
        Fate::Stalled => shared.faults.stall,
        _ => Duration::ZERO,
    };
    let mut completed = match fate {
        Fate::Lost(draw) => ruin(batch, draw),
        _ => match compute(shared, &prepared, &session, batch) {
            Some(completed) => completed,
            None => return,
        },
    };
    if let Fate::Wrong(draw) = fate {
        corrupt(&mut completed.batch, draw);
    }
    wait_until(due + stall);
    if let Completion::Interrupt(cost) = shared.model.completion {
        let end = Instant::now() + cost;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
    match reply {
        Reply::Batch(completer) => completer.complete(completed),
        // A lost batch drops the completer, which says so.
        Reply::Masks(completer) if completed.outcome == Outcome::Done => {
            completer.complete(masks::split(completed.batch));
        }
        Reply::Masks(_) => {}
    }
}

/// The prepared or the inner engine's answer; `None` when that refuses or loses
/// the batch, which then vanishes.
fn compute(shared: &Shared, prepared: &Prepared, session: &Session, batch: Batch) -> Option<Completed> {
    let mut batch = batch;
    if let Some(outcome) = prepared.answer(&mut batch) {
        return Some(Completed { batch, outcome });
    }
    client::execute(&*shared.inner, session, batch).ok()
}

fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if left > TIMER_SLACK {
        std::thread::sleep(left - TIMER_SLACK);
    }
    while Instant::now() < due {
        std::thread::yield_now();
    }
}
