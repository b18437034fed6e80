//! Engines that stand before another one and look at what passes.

use crate::{
    Algorithm, Batch, Buffer, Capability, Cross, Crossing, Engine, Masking, Operation, Refusal, Refused,
    Session, SessionError, Ticket,
};

/// An [`Engine`] over one other, whose sessions it uses as they are: to count,
/// to time, to err in a test. What carries data has no default, so that a layer
/// has to say what becomes of each way through it; everything else is the inner
/// engine's, also what the contract gains later.
///
/// An engine with sessions of its own, or over several, implements [`Engine`],
/// of which no method has a default either.
pub trait Layer: Send + Sync {
    /// What is behind it.
    fn inner(&self) -> &dyn Engine;

    /// Hands a batch on, as [`Engine::submit`].
    ///
    /// # Errors
    /// As [`Engine::submit`].
    fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>>;

    /// Hands a crossing on, as [`Cross::cross`]; asked only where `inner`
    /// [has it](Engine::crossing), which comes with it.
    ///
    /// # Errors
    /// As [`Cross::cross`].
    fn pass_crossing(
        &self,
        inner: &dyn Cross,
        session: &Session,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal>;

    /// The name, by default the inner engine's.
    fn label(&self) -> &str {
        self.inner().name()
    }
}

impl<L: Layer> Engine for L {
    fn name(&self) -> &str {
        self.label()
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        self.inner().capability(algorithm, operation)
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        self.inner().session(algorithm, key)
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        self.pass(session, batch)
    }

    fn flush(&self) {
        self.inner().flush();
    }

    fn buffer(&self, session: &Session, len: usize) -> Buffer {
        self.inner().buffer(session, len)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        self.inner().crossing().map(|_| self as &dyn Cross)
    }

    fn masking(&self) -> Option<&dyn Masking> {
        self.inner().masking()
    }
}

impl<L: Layer> Cross for L {
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal> {
        let inner = self.inner().crossing().ok_or(Refusal::Unsupported)?;
        self.pass_crossing(inner, session, crossing)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::{Aead, SectorNumbers, SharedBytes};

    /// Counts what comes to it.
    #[derive(Default)]
    struct Inner {
        flushes: AtomicU32,
        buffers: AtomicU32,
        crossings: AtomicU32,
    }

    impl Engine for Inner {
        fn name(&self) -> &str {
            "inner"
        }

        fn capability(&self, _: Algorithm, _: Operation) -> Option<Capability> {
            None
        }

        fn session(&self, algorithm: Algorithm, _: &[u8]) -> Result<Session, SessionError> {
            Ok(Session::new(algorithm, Arc::new(())))
        }

        fn submit(&self, _: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
            Err(Box::new(Refused { batch, refusal: Refusal::Unsupported }))
        }

        fn flush(&self) {
            self.flushes.fetch_add(1, Relaxed);
        }

        fn buffer(&self, _: &Session, len: usize) -> Buffer {
            self.buffers.fetch_add(1, Relaxed);
            Buffer::new(len)
        }

        fn crossing(&self) -> Option<&dyn Cross> {
            Some(self)
        }

        fn masking(&self) -> Option<&dyn Masking> {
            None
        }
    }

    impl Cross for Inner {
        fn cross(&self, _: &Session, _: Crossing<'_>) -> Result<(), Refusal> {
            self.crossings.fetch_add(1, Relaxed);
            Ok(())
        }
    }

    struct Outer {
        inner: Inner,
        passed: AtomicU32,
    }

    impl Layer for Outer {
        fn inner(&self) -> &dyn Engine {
            &self.inner
        }

        fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
            self.passed.fetch_add(1, Relaxed);
            self.inner.submit(session, batch)
        }

        fn pass_crossing(
            &self,
            inner: &dyn Cross,
            session: &Session,
            crossing: Crossing<'_>,
        ) -> Result<(), Refusal> {
            self.passed.fetch_add(1, Relaxed);
            inner.cross(session, crossing)
        }
    }

    #[test]
    fn every_method_comes_through_a_layer() {
        let outer = Outer { inner: Inner::default(), passed: AtomicU32::new(0) };
        let session = outer.session(Algorithm::Aead(Aead::XAes256Gcm), &[]).unwrap();
        assert_eq!((outer.name(), outer.buffer(&session, 5).len()), ("inner", 5));
        outer.flush();
        assert!(outer.submit(&session, Batch::new(Operation::Seal, Buffer::empty(), Vec::new())).is_err());
        let (numbers, from) = (SectorNumbers::from(0), SharedBytes::new(&[]));
        let crossing = Crossing { numbers, sector_len: 512, from, to: &mut [] };
        assert_eq!(outer.crossing().expect("the inner one has it").cross(&session, crossing), Ok(()));
        let inner = [&outer.inner.flushes, &outer.inner.buffers, &outer.inner.crossings];
        assert_eq!(inner.map(|count| count.load(Relaxed)), [1, 1, 1]);
        assert_eq!(outer.passed.load(Relaxed), 2);
    }
}
