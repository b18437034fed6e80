//! What serves requests: as many at once as there are units.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use strongroom_engine_virtio::spec::{REQUEST_LEN, Request, answer};

use crate::faults::Fate;
use crate::function::{Function, Work};

/// Serves until the driver has left.
pub(crate) fn work(function: &Arc<Function>) {
    // Else the system adds 50 us to each sleep.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    // A unit that slept too long is busy less long with what has waited meanwhile.
    let mut free_at = Instant::now();
    while let Some(work) = next(function) {
        let fate = function.model.faults.fate(work.number);
        let (mut output, status) = compute(function, &work);
        let service = function.model.service(work.chain.readable.len());
        free_at = free_at.max(work.arrived) + service;
        std::thread::sleep(free_at.saturating_duration_since(Instant::now()));
        match fate {
            Fate::Right => {}
            Fate::Late => std::thread::sleep(function.model.faults.late),
            Fate::Lost => continue,
            Fate::Wrong => {
                if let Some(byte) = output.get_mut(work.number as usize % 16) {
                    *byte ^= 1 << (work.number % 8);
                }
            }
            Fate::Unplugged => std::process::exit(0),
        }
        if function.state().answer(&work, &output, status).is_err() {
            eprintln!("a driver's request has no room for its answer");
        }
    }
}

fn next(function: &Function) -> Option<Work> {
    let mut state = function.state();
    loop {
        if state.is_over {
            return None;
        }
        if let Some(work) = state.work.pop_front() {
            return Some(work);
        }
        state = function.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn compute(function: &Function, work: &Work) -> (Vec<u8>, u8) {
    let Some((request, rest)) = work.chain.readable.split_first_chunk::<REQUEST_LEN>() else {
        return (Vec::new(), answer::ERROR);
    };
    let request = Request::decode(request);
    let session = function.state().sessions.get(&request.session).cloned();
    let Some(session) = session else { return (Vec::new(), answer::INVALID_SESSION) };
    let [iv_len, source_len, ad_len] =
        [request.iv_len, request.source_len, request.ad_len].map(|len| len as usize);
    // IV, data, associated data, one behind the other.
    let parts = rest.split_at_checked(iv_len).and_then(|(iv, rest)| {
        let (source, rest) = rest.split_at_checked(source_len)?;
        Some((iv, source, rest.get(..ad_len)?))
    });
    let Some((iv, source, ad)) = parts else { return (Vec::new(), answer::ERROR) };
    let (output, status) = session.compute(&request, iv, source, ad);
    match output.len() <= request.target_len as usize {
        true => (output, status),
        false => (Vec::new(), answer::ERROR),
    }
}
