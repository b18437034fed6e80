//! Engines that stand before another one and look at what passes.

use crate::{
    Algorithm, Batch, Buffer, Capability, Cross, Crossing, Engine, Operation, Refusal, Refused, Session,
    SessionError, Ticket,
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
}

impl<L: Layer> Cross for L {
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal> {
        let inner = self.inner().crossing().ok_or(Refusal::Unsupported)?;
        self.pass_crossing(inner, session, crossing)
    }
}
