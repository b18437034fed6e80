//! One batch on two engines at once: the device gets a copy of the last
//! segments, the CPU computes the others in place meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::{Batch, Completed, Outcome, Refused, Segment, Ticket};

use super::session::SchedulerSession;
use super::{Core, device};
use crate::policy::Reason;

/// Beyond the device's own deadline, after which its part is redone: this one
/// never passes.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// Submits both parts. A device that refuses leaves the batch as it was.
pub(super) fn submit(
    core: &Arc<Core>,
    session: &SchedulerSession,
    batch: Batch,
    inline: usize,
    at: usize,
    device_segments: usize,
) -> Result<Ticket, Box<Refused>> {
    // Neither part shows whether segments of both overlap.
    if let Err(refusal) = batch.validate(session.algorithm) {
        return Err(Box::new(Refused { batch, refusal }));
    }
    let first = batch.segments.len() - device_segments;
    let began = Instant::now();
    let alignment = session.alignment(at, batch.operation);
    let part = batch.part(first..batch.segments.len(), alignment);
    let source = part.duplicate();
    let ticket = match device::guarded(core, at, session, part, Reason::Split, began, move || source) {
        Ok(ticket) => ticket,
        Err(refused) => return Err(Box::new(Refused { batch, refusal: refused.refusal })),
    };
    // It works while the CPU does.
    core.flush();
    let mut batch = batch;
    let tail = batch.segments.split_off(first);
    let head = match core.submit_to(inline, session, batch, Reason::Split) {
        Ok(head) => head,
        Err(mut refused) => {
            // The device's part is abandoned: it worked on a copy.
            refused.batch.segments.extend(tail);
            return Err(refused);
        }
    };
    Ok(ticket.guarded(Instant::now() + FAR, move |answer| {
        let part = match answer {
            strongroom_engine::Answer::Completed(completed, _) => Some(completed),
            _ => None,
        };
        head.wait().map(|head| join(head, tail, first, part))
    }))
}

/// Both parts as one batch.
fn join(head: Completed, tail: Vec<Segment>, first: usize, part: Option<Completed>) -> Completed {
    let Completed { mut batch, outcome } = head;
    batch.segments.extend(tail);
    let Some(part) = part.filter(|part| part.outcome != Outcome::DeviceLost) else {
        return Completed { batch, outcome: Outcome::DeviceLost };
    };
    batch.absorb(first, &part.batch);
    let is_forged = [outcome, part.outcome].contains(&Outcome::AuthenticationFailed);
    let outcome = match outcome {
        Outcome::Done if is_forged => Outcome::AuthenticationFailed,
        outcome => outcome,
    };
    Completed { batch, outcome }
}
