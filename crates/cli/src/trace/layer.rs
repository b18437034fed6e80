//! Before the scheduler: what engines take for the request that a thread serves.

use std::sync::Arc;

use strongroom_engine::{Batch, Cross, Crossing, Engine, Layer, Refusal, Refused, Segment, Session, Ticket};
use strongroom_trace::Recorder;

/// An engine that a recorder is told of.
pub(super) struct Watched {
    inner: Arc<dyn Engine>,
    recorder: Arc<Recorder>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Engine>, recorder: Arc<Recorder>) -> Watched {
        Watched { inner, recorder }
    }
}

impl Layer for Watched {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }

    fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        if !self.recorder.is_on() {
            return self.inner.submit(session, batch);
        }
        let bytes = batch.segments.iter().map(Segment::len).sum::<usize>() as u64;
        let began = self.recorder.started();
        let ticket = self.inner.submit(session, batch)?;
        self.recorder.computed(bytes, self.recorder.since(&began), ticket.is_inline());
        Ok(ticket)
    }

    fn pass_crossing(
        &self,
        inner: &dyn Cross,
        session: &Session,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        if !self.recorder.is_on() {
            return inner.cross(session, crossing);
        }
        let bytes = crossing.to.len();
        let began = self.recorder.started();
        inner.cross(session, crossing)?;
        self.recorder.computed(bytes as u64, self.recorder.since(&began), true);
        Ok(())
    }
}
