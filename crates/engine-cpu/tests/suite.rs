//! The conformance suite itself: it must refuse engines that are wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use strongroom_engine::{
    Batch, Completed, Cross, Crossing, Engine, Layer, Operation, Outcome, Refusal, Refused, Session, Ticket,
    conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};

/// The CPU engine with one fault in what it answers.
struct Faulty {
    inner: CpuEngine,
    fault: fn(&mut Completed),
    /// Refusals come back with a byte changed.
    dirty_refusals: bool,
}

impl Layer for Faulty {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn label(&self) -> &str {
        "faulty"
    }

    fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        match self.inner.submit(session, batch) {
            Ok(ticket) => {
                let mut completed = ticket.wait().expect("an inline engine answers");
                (self.fault)(&mut completed);
                Ok(Ticket::ready(completed))
            }
            Err(mut refused) => {
                if self.dirty_refusals && matches!(refused.refusal, Refusal::Misuse(_)) {
                    refused.batch.buffer[0] ^= 1;
                }
                Err(refused)
            }
        }
    }

    fn pass_crossing(&self, _: &dyn Cross, _: &Session, _: Crossing<'_>) -> Result<(), Refusal> {
        Err(Refusal::Unsupported)
    }
}

fn passes(fault: fn(&mut Completed), dirty_refusals: bool) -> bool {
    let engine = Faulty { inner: CpuEngine::new(), fault, dirty_refusals };
    catch_unwind(AssertUnwindSafe(|| conformance::run(&engine, &ReferenceEngine))).is_ok()
}

#[test]
fn a_sound_engine_passes() {
    assert!(passes(|_| {}, false));
}

#[test]
fn a_wrong_byte_is_noticed() {
    let last_of_a_large_segment = |completed: &mut Completed| {
        let range = completed.batch.segments.first().map(|segment| segment.range()).unwrap_or_default();
        if range.len() == 65536 {
            completed.batch.buffer[range.end - 1] ^= 0x80;
        }
    };
    assert!(!passes(last_of_a_large_segment, false));
}

#[test]
fn a_wrong_tag_is_noticed() {
    let last_segment_of_many = |completed: &mut Completed| {
        if completed.batch.operation == Operation::Seal && completed.batch.segments.len() > 40 {
            completed.batch.segments[39].set_done(Some([0; 16]));
        }
    };
    assert!(!passes(last_segment_of_many, false));
}

#[test]
fn an_accepted_forgery_is_noticed() {
    let forgiving = |completed: &mut Completed| {
        completed.outcome = Outcome::Done;
        completed.batch.segments.iter_mut().for_each(|segment| segment.set_done(None));
    };
    assert!(!passes(forgiving, false));
}

#[test]
fn forged_bytes_left_in_place_are_noticed() {
    let leaking = |completed: &mut Completed| {
        if completed.outcome == Outcome::AuthenticationFailed && completed.batch.segments.len() == 3 {
            let range = completed.batch.segments[1].range();
            completed.batch.buffer[range.end - 1] = 1;
        }
    };
    assert!(!passes(leaking, false));
}

#[test]
fn a_write_between_segments_is_noticed() {
    let spilling = |completed: &mut Completed| {
        let end = completed.batch.segments.first().map_or(usize::MAX, |segment| segment.range().end);
        if let Some(byte) = completed.batch.buffer.get_mut(end) {
            *byte = 0;
        }
    };
    assert!(!passes(spilling, false));
}

#[test]
fn a_refusal_that_touches_data_is_noticed() {
    assert!(!passes(|_| {}, true));
}
