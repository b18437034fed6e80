//! The one way from consumers to an engine: submitting, asking a busy engine
//! again, waiting, and what is said of an engine that fails.
//!
//! A [`Client`] is an engine with a session. [`Client::execute`] is for one
//! batch; a [`Flight`] is for several that are under way together. An inline
//! engine costs no more than its `submit`: no clock, no allocation, no flush.
//!
//! What is decided here for all: how long a busy engine is left alone and when
//! that is an error, when an engine that does not answer is one
//! ([`limits`](crate::limits)), and that whoever waits has flushed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{ANSWER_STEP, ANSWER_STEPS, BUSY_ATTEMPTS, BUSY_MAX, BUSY_PAUSE_MAX, BUSY_PAUSE_MIN};
use crate::{
    Algorithm, Batch, Buffer, Completed, Crossing, Engine, Operation, Outcome, Refusal, Refused, Session,
    SessionError, Ticket, Vanished,
};

/// Why a batch was not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The engine stayed busy for [`BUSY_MAX`].
    Busy,
    /// It does not have the algorithm, operation, size or alignment.
    Unsupported,
    /// The consumer's bug.
    Misuse(&'static str),
    /// The device failed, and nothing took its place.
    DeviceLost,
    /// The engine gave up without handing the batch back.
    Vanished,
    /// It did not answer within [`ANSWER_STEPS`] times [`ANSWER_STEP`].
    Late,
}

impl Cause {
    /// In words, for a message that says that it is about the engine.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Cause::Busy => "it stays busy",
            Cause::Unsupported => "it does not support the operation",
            Cause::Misuse(what) => what,
            Cause::DeviceLost => "the device is lost",
            Cause::Vanished => "it lost a batch",
            Cause::Late => "it does not answer",
        }
    }
}

/// A batch that was not computed.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// The batch, where it came back: as it was when it was refused, and in any
    /// state when the device was lost.
    pub batch: Option<Box<Batch>>,
}

impl Failure {
    fn refused(refused: Refused) -> Failure {
        let cause = match refused.refusal {
            Refusal::Busy => Cause::Busy,
            Refusal::Unsupported => Cause::Unsupported,
            Refusal::Misuse(what) => Cause::Misuse(what),
        };
        Failure { cause, batch: Some(Box::new(refused.batch)) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the engine failed: {}", self.cause.what())
    }
}

impl std::error::Error for Failure {}

/// An engine with a session; cheap to clone.
#[derive(Clone)]
pub struct Client {
    engine: Arc<dyn Engine>,
    session: Session,
}

impl Client {
    /// A session of `engine` for `key`.
    ///
    /// # Errors
    /// As [`Engine::session`].
    pub fn open(engine: &Arc<dyn Engine>, algorithm: Algorithm, key: &[u8]) -> Result<Client, SessionError> {
        Ok(Client { session: engine.session(algorithm, key)?, engine: Arc::clone(engine) })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether batches of `operation` are complete when they are submitted, so
    /// that nobody ever waits for them.
    #[must_use]
    pub fn is_inline(&self, operation: Operation) -> bool {
        let capability = self.engine.capability(self.session.algorithm(), operation);
        capability.is_some_and(|capability| capability.inline)
    }

    /// `len` zero bytes for batches of this client: memory that suits the
    /// engine, which is kept and used again where that is possible.
    #[must_use]
    pub fn buffer(&self, len: usize) -> Buffer {
        self.engine.buffer(&self.session, len)
    }

    /// Computes one batch and waits for it. Forged segments are no failure:
    /// outcome and verdicts tell of them.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn execute(&self, batch: Batch) -> Result<Completed, Failure> {
        execute(&*self.engine, &self.session, batch)
    }

    /// No batches yet; more come with [`Flight::add`].
    #[must_use]
    pub fn flight(&self) -> Flight<'_> {
        Flight::new(&*self.engine)
    }

    /// Hands several batches over, and has the engine begin with all of them.
    ///
    /// # Errors
    /// The first [`Failure`]; those before it are abandoned.
    pub fn submit_many(&self, batches: impl IntoIterator<Item = Batch>) -> Result<Flight<'_>, Failure> {
        let mut flight = self.flight();
        for batch in batches {
            flight.add(&self.session, batch)?;
        }
        flight.flush();
        Ok(flight)
    }

    /// Decrypts whole sectors from one place to another, where the engine does
    /// that.
    ///
    /// # Errors
    /// Why not; nothing was written.
    pub fn cross(&self, crossing: Crossing<'_>) -> Result<(), Refusal> {
        self.engine.crossing().ok_or(Refusal::Unsupported)?.cross(&self.session, crossing)
    }
}

/// Computes one batch and waits for it, as [`Client::execute`] does.
///
/// # Errors
/// [`Failure`].
pub fn execute(engine: &dyn Engine, session: &Session, batch: Batch) -> Result<Completed, Failure> {
    let ticket = submit(engine, session, batch)?;
    if !ticket.is_inline() {
        engine.flush();
    }
    wait(ticket)
}

/// Batches under way together, of one engine and any of its sessions. They
/// come back in the order in which they were added ([`Iterator`]). Dropping it
/// abandons those that have not come back.
pub struct Flight<'e> {
    engine: &'e dyn Engine,
    /// The oldest, which have been waited for.
    back: VecDeque<Result<Completed, Failure>>,
    out: VecDeque<Ticket>,
    is_flushed: bool,
}

impl<'e> Flight<'e> {
    /// None yet.
    #[must_use]
    pub fn new(engine: &'e dyn Engine) -> Flight<'e> {
        Flight { engine, back: VecDeque::new(), out: VecDeque::new(), is_flushed: true }
    }

    /// How many were added and have not come back.
    #[must_use]
    pub fn len(&self) -> usize {
        self.back.len() + self.out.len()
    }

    /// True when all have come back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands a batch over; the engine may begin with it only when the flight
    /// is flushed or waited for. While it is busy, one of this flight is waited
    /// for, or it is left alone for a while.
    ///
    /// # Errors
    /// [`Failure`] of this batch.
    pub fn add(&mut self, session: &Session, batch: Batch) -> Result<(), Failure> {
        let mut answer = self.engine.submit(session, batch);
        while let Err(refused) = answer {
            answer = match refused.refusal == Refusal::Busy && self.makes_room() {
                true => self.engine.submit(session, refused.batch),
                false => Ok(again(self.engine, session, *refused)?),
            };
        }
        if let Ok(ticket) = answer {
            self.is_flushed &= ticket.is_inline();
            self.out.push_back(ticket);
        }
        Ok(())
    }

    /// Waits for the oldest one that is with the engine; false when none is.
    fn makes_room(&mut self) -> bool {
        self.flush();
        while let Some(oldest) = self.out.pop_front() {
            let was_out = !oldest.is_inline();
            self.back.push_back(wait(oldest));
            if was_out {
                return true;
            }
        }
        false
    }

    /// Has the engine begin with all that were added.
    pub fn flush(&mut self) {
        if !std::mem::replace(&mut self.is_flushed, true) {
            self.engine.flush();
        }
    }
}

impl Iterator for Flight<'_> {
    type Item = Result<Completed, Failure>;

    fn next(&mut self) -> Option<Result<Completed, Failure>> {
        self.flush();
        self.back.pop_front().or_else(|| self.out.pop_front().map(wait))
    }
}

impl Drop for Flight<'_> {
    /// What is abandoned is computed too, so that its buffer comes free.
    fn drop(&mut self) {
        self.flush();
    }
}

/// Hands a batch over, however often the engine is busy. It is not flushed.
fn submit(engine: &dyn Engine, session: &Session, batch: Batch) -> Result<Ticket, Failure> {
    engine.submit(session, batch).or_else(|refused| again(engine, session, *refused))
}

/// Asks again where an engine was busy.
#[cold]
fn again(engine: &dyn Engine, session: &Session, refused: Refused) -> Result<Ticket, Failure> {
    let mut refused = refused;
    let (mut attempts, mut pause, mut paused) = (0, BUSY_PAUSE_MIN, Duration::ZERO);
    // Whoever waits for room must not be what keeps the room taken.
    engine.flush();
    while refused.refusal == Refusal::Busy && paused < BUSY_MAX {
        if attempts < BUSY_ATTEMPTS {
            attempts += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(pause);
            paused += pause;
            pause = (pause * 2).min(BUSY_PAUSE_MAX);
        }
        match engine.submit(session, refused.batch) {
            Ok(ticket) => return Ok(ticket),
            Err(anew) => refused = *anew,
        }
    }
    Err(Failure::refused(refused))
}

/// Waits for a batch that was flushed.
fn wait(ticket: Ticket) -> Result<Completed, Failure> {
    if ticket.is_inline() {
        return conclude(ticket.wait());
    }
    let mut ticket = ticket;
    for _ in 0..ANSWER_STEPS {
        match ticket.wait_for(ANSWER_STEP) {
            Ok(answer) => return conclude(answer),
            Err(pending) => ticket = pending,
        }
    }
    Err(Failure { cause: Cause::Late, batch: None })
}

fn conclude(answer: Result<Completed, Vanished>) -> Result<Completed, Failure> {
    match answer {
        Ok(completed) if completed.outcome != Outcome::DeviceLost => Ok(completed),
        Ok(completed) => Err(Failure { cause: Cause::DeviceLost, batch: Some(Box::new(completed.batch)) }),
        Err(Vanished) => Err(Failure { cause: Cause::Vanished, batch: None }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::{Aead, Capability, Completer, Cross, Masking};

    const ALGORITHM: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);

    /// An engine that says what it was told to say, and else is inline, or has
    /// room for so many batches.
    #[derive(Default)]
    struct Told {
        refusals: Mutex<VecDeque<Refusal>>,
        outcome: Option<Outcome>,
        room: usize,
        queue: Mutex<Vec<(Batch, Completer)>>,
        flushes: AtomicUsize,
    }

    impl Engine for Told {
        fn name(&self) -> &str {
            "told"
        }

        fn capability(&self, _: Algorithm, _: Operation) -> Option<Capability> {
            None
        }

        fn session(&self, algorithm: Algorithm, _: &[u8]) -> Result<Session, SessionError> {
            Ok(Session::new(algorithm, Arc::new(())))
        }

        fn submit(&self, _: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
            if let Some(refusal) = self.refusals.lock().unwrap().pop_front() {
                return Err(Box::new(Refused { batch, refusal }));
            }
            if self.room == 0 {
                return Ok(Ticket::ready(Completed {
                    batch,
                    outcome: self.outcome.unwrap_or(Outcome::Done),
                }));
            }
            let mut queue = self.queue.lock().unwrap();
            if queue.len() == self.room {
                return Err(Box::new(Refused { batch, refusal: Refusal::Busy }));
            }
            let (ticket, completer) = Ticket::pending();
            queue.push((batch, completer));
            Ok(ticket)
        }

        /// Answers all, the last one first.
        fn flush(&self) {
            self.flushes.fetch_add(1, Relaxed);
            let queue = std::mem::take(&mut *self.queue.lock().unwrap());
            for (batch, completer) in queue.into_iter().rev() {
                match self.outcome {
                    Some(outcome) => completer.complete(Completed { batch, outcome }),
                    None => drop(completer),
                }
            }
        }

        fn buffer(&self, _: &Session, len: usize) -> Buffer {
            Buffer::new(len)
        }

        fn crossing(&self) -> Option<&dyn Cross> {
            None
        }

        fn masking(&self) -> Option<&dyn Masking> {
            None
        }
    }

    fn batch(len: usize) -> Batch {
        Batch::new(Operation::Seal, Buffer::new(len), Vec::new())
    }

    fn client(told: Told) -> (Arc<Told>, Client) {
        let told = Arc::new(told);
        let engine: Arc<dyn Engine> = Arc::clone(&told) as _;
        (told, Client::open(&engine, ALGORITHM, &[0; 32]).unwrap())
    }

    #[test]
    fn an_inline_engine_is_not_flushed() {
        let (told, client) = client(Told::default());
        assert_eq!(client.execute(batch(3)).unwrap().batch.buffer.len(), 3);
        let lens =
            client.submit_many([batch(1), batch(2)]).unwrap().map(|one| one.unwrap().batch.buffer.len());
        assert_eq!(lens.collect::<Vec<_>>(), [1, 2]);
        assert_eq!(told.flushes.load(Relaxed), 0);
    }

    #[test]
    fn a_busy_engine_is_flushed_and_asked_again() {
        let refusals = Mutex::new(vec![Refusal::Busy; 10].into());
        let (told, client) = client(Told { refusals, ..Told::default() });
        assert!(client.execute(batch(1)).is_ok());
        assert_eq!(told.flushes.load(Relaxed), 1);
    }

    #[test]
    fn a_refusal_comes_with_the_batch_and_its_reason() {
        let misuse = Refusal::Misuse("an example");
        let (_, client) = client(Told {
            refusals: Mutex::new([Refusal::Busy, Refusal::Unsupported, misuse].into()),
            ..Told::default()
        });
        for cause in [Cause::Unsupported, Cause::Misuse("an example")] {
            let failure = client.execute(batch(5)).unwrap_err();
            assert_eq!((failure.cause, failure.batch.unwrap().buffer.len()), (cause, 5));
        }
        assert!(client.execute(batch(5)).is_ok());
    }

    #[test]
    fn what_was_lost_says_so() {
        let (_, lost) = client(Told { outcome: Some(Outcome::DeviceLost), room: 1, ..Told::default() });
        let failure = lost.execute(batch(5)).unwrap_err();
        assert!(failure.cause == Cause::DeviceLost && failure.batch.is_some());
        let (_, gone) = client(Told { room: 1, ..Told::default() });
        let failure = gone.execute(batch(5)).unwrap_err();
        assert!(failure.cause == Cause::Vanished && failure.batch.is_none());
        // One that is forged is no failure of the engine.
        let (_, forged) = client(Told { outcome: Some(Outcome::AuthenticationFailed), ..Told::default() });
        assert_eq!(forged.execute(batch(5)).unwrap().outcome, Outcome::AuthenticationFailed);
    }

    #[test]
    fn a_flight_longer_than_the_queue_comes_back_in_order() {
        let (told, client) = client(Told { outcome: Some(Outcome::Done), room: 3, ..Told::default() });
        let flight = client.submit_many((1..=8).map(batch)).unwrap();
        assert_eq!(flight.len(), 8);
        let lens: Vec<usize> = flight.map(|one| one.unwrap().batch.buffer.len()).collect();
        assert_eq!(lens, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(told.flushes.load(Relaxed), 3, "one doorbell for each queue");
    }

    #[test]
    fn an_abandoned_flight_is_begun_with_all_the_same() {
        let (told, client) = client(Told { outcome: Some(Outcome::Done), room: 3, ..Told::default() });
        let mut flight = client.flight();
        flight.add(client.session(), batch(1)).unwrap();
        drop(flight);
        assert!(told.queue.lock().unwrap().is_empty());
    }
}
