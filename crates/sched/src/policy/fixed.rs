//! [`Fixed`]: one engine for everything, and one for what it cannot serve.
//!
//! A batch for an inline primary is handed on by a plain call: no copy, no
//! allocation. For a primary that answers later a copy of the batch is kept,
//! and the ticket carries a step that redoes lost work on the fallback, on
//! the thread that waits. So a consumer sees [`Outcome::DeviceLost`] only if
//! both engines fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, Answer, Batch, Capability, Completed, Engine, Operation, Outcome, Refusal, Refused, Session,
    SessionError, Ticket, Vanished,
};

use crate::statistics::{Counters, Statistics};

/// How long an engine may take before its work is redone elsewhere, unless
/// [`Fixed::with_deadline`] says otherwise.
const DEADLINE: Duration = Duration::from_secs(2);

/// How often lost work is tried again before the loss is reported.
const REDO_ATTEMPTS_MAX: u32 = 16;

/// How long a busy fallback is left alone before it is asked again.
const BUSY_PAUSE: Duration = Duration::from_micros(100);

/// See the module.
pub struct Fixed {
    name: String,
    id: u64,
    deadline: Duration,
    pair: Arc<Pair>,
}

/// The engines, shared with the tickets that may have to redo work.
struct Pair {
    primary: Served,
    fallback: Served,
}

struct Served {
    engine: Arc<dyn Engine>,
    counters: Counters,
}

/// A session on each engine that has the algorithm; one of them does.
struct FixedSession {
    owner: u64,
    primary: Option<Session>,
    fallback: Option<Session>,
}

impl Fixed {
    /// A scheduler that always asks `primary`, and `fallback` for what the
    /// primary does not support, is too busy for, or loses.
    #[must_use]
    pub fn new(primary: Arc<dyn Engine>, fallback: Arc<dyn Engine>) -> Fixed {
        Fixed::with_deadline(primary, fallback, DEADLINE)
    }

    /// As [`Fixed::new`], with the time that the primary has for a batch.
    #[must_use]
    pub fn with_deadline(primary: Arc<dyn Engine>, fallback: Arc<dyn Engine>, deadline: Duration) -> Fixed {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let serve = |engine| Served { engine, counters: Counters::default() };
        Fixed {
            name: format!("fixed({})", primary.name()),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            deadline,
            pair: Arc::new(Pair { primary: serve(primary), fallback: serve(fallback) }),
        }
    }

    /// What each engine served so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics { primary: self.pair.primary.snapshot(), fallback: self.pair.fallback.snapshot() }
    }

    /// Hands the batch to the fallback, for good.
    fn fall_back(&self, session: &FixedSession, batch: Batch) -> Result<Ticket, Box<Refused>> {
        match &session.fallback {
            Some(session) => self.pair.fallback.submit(session, batch),
            None => Err(Box::new(Refused { batch, refusal: Refusal::Unsupported })),
        }
    }

    /// Hands the batch to the primary, and what is lost there to the fallback.
    fn submit_guarded(
        &self,
        primary: &Session,
        fallback: Option<&Session>,
        batch: Batch,
    ) -> Result<Ticket, Box<Refused>> {
        let source = batch.duplicate();
        let ticket = self.pair.primary.submit(primary, batch)?;
        if ticket.is_inline() {
            return Ok(ticket);
        }
        let pair = Arc::clone(&self.pair);
        let fallback = fallback.cloned();
        Ok(ticket.guarded(Instant::now() + self.deadline, move |answer| match answer {
            Answer::Completed(completed) if completed.outcome != Outcome::DeviceLost => Ok(completed),
            _ => {
                pair.primary.counters.lost();
                Ok(pair.redo(fallback.as_ref(), source))
            }
        }))
    }
}

impl Served {
    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let bytes = batch.bytes();
        let answer = self.engine.submit(session, batch);
        match &answer {
            Ok(_) => self.counters.accepted(bytes),
            Err(refused) => match refused.refusal {
                Refusal::Busy => self.counters.busy(),
                Refusal::Unsupported => self.counters.unsupported(),
                Refusal::Misuse(_) => {}
            },
        }
        answer
    }

    fn snapshot(&self) -> crate::EngineStatistics {
        self.counters.snapshot(self.engine.name())
    }
}

impl Pair {
    /// Completes `source` on the fallback. If that fails too, the batch comes
    /// back as it was submitted, as [`Outcome::DeviceLost`].
    fn redo(&self, fallback: Option<&Session>, source: Batch) -> Completed {
        let attempts = if fallback.is_some() { REDO_ATTEMPTS_MAX } else { 0 };
        for (attempt, session) in (0..attempts).zip(std::iter::repeat(fallback).flatten()) {
            match self.fallback.submit(session, source.duplicate()).map(Ticket::wait) {
                Ok(Ok(completed)) if completed.outcome != Outcome::DeviceLost => {
                    self.fallback.counters.redone();
                    return completed;
                }
                Ok(Ok(_) | Err(Vanished)) => self.fallback.counters.lost(),
                Err(refused) if refused.refusal == Refusal::Busy => {
                    std::thread::sleep(BUSY_PAUSE * (attempt + 1))
                }
                Err(_) => break,
            }
        }
        Completed { batch: source, outcome: Outcome::DeviceLost }
    }
}

impl Engine for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    /// What either engine has; of what both have, the wider bounds, since the
    /// fallback takes what the primary does not support.
    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let primary = self.pair.primary.engine.capability(algorithm, operation);
        let fallback = self.pair.fallback.engine.capability(algorithm, operation);
        let (Some(primary), Some(fallback)) = (primary, fallback) else {
            return primary.or(fallback);
        };
        Some(Capability {
            inline: primary.inline && fallback.inline,
            batch_bytes_max: primary.batch_bytes_max.max(fallback.batch_bytes_max),
            segments_max: primary.segments_max.max(fallback.segments_max),
            alignment: primary.alignment.min(fallback.alignment),
            ..primary
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let primary = self.pair.primary.engine.session(algorithm, key);
        let fallback = self.pair.fallback.engine.session(algorithm, key);
        let (primary, fallback) = match (primary, fallback) {
            (Err(error), Err(SessionError::Unsupported)) => return Err(error),
            (Err(_), Err(error)) => return Err(error),
            (primary, fallback) => (primary.ok(), fallback.ok()),
        };
        Ok(Session::new(algorithm, Arc::new(FixedSession { owner: self.id, primary, fallback })))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let sessions = match session.state::<FixedSession>() {
            Some(sessions) if sessions.owner == self.id => sessions,
            _ => {
                let refusal = Refusal::Misuse("the session belongs to another engine");
                return Err(Box::new(Refused { batch, refusal }));
            }
        };
        let Some(primary) = &sessions.primary else {
            return self.fall_back(sessions, batch);
        };
        let capability = self.pair.primary.engine.capability(session.algorithm(), batch.operation);
        let answer = if capability.is_some_and(|capability| capability.inline) {
            self.pair.primary.submit(primary, batch)
        } else {
            self.submit_guarded(primary, sessions.fallback.as_ref(), batch)
        };
        match answer {
            Err(refused) if !matches!(refused.refusal, Refusal::Misuse(_)) => {
                let Refused { batch, refusal } = *refused;
                match self.fall_back(sessions, batch) {
                    // Busy is worth another try, where the fallback cannot help at all.
                    Err(both) if both.refusal == Refusal::Unsupported => {
                        Err(Box::new(Refused { batch: both.batch, refusal }))
                    }
                    answer => answer,
                }
            }
            answer => answer,
        }
    }
}
