//! Models of tickets, and of an engine that computes on threads of its own:
//! the real code, under a scheduler that chooses at each lock who goes on
//! (`cargo xtask model`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strongroom_model::{Schedules, draw, explore, thread};

use crate::unruly::{Faults, UnrulyEngine};
use crate::{
    Aead, Algorithm, Answer, Batch, Buffer, Capability, Completed, Engine, Operation, Outcome, Refusal,
    Refused, Session, SessionError, Ticket, Vanished,
};

const ALGORITHM: Algorithm = Algorithm::Aead(Aead::XChaCha20Poly1305);
const MINUTE: Duration = Duration::from_secs(60);
const LEN: usize = 16;

/// A batch that can be told from others.
fn batch(mark: u8) -> Batch {
    Batch::new(Operation::Seal, Buffer::copy_of(&[mark; LEN]), Vec::new())
}

fn done(batch: Batch) -> Completed {
    Completed { batch, outcome: Outcome::Done }
}

fn mark(completed: &Completed) -> u8 {
    assert!(completed.batch.buffer.iter().all(|&byte| byte == completed.batch.buffer[0]));
    completed.batch.buffer[0]
}

/// However a ticket is waited for: at once, or first for a while.
fn wait(ticket: Ticket) -> Result<Completed, Vanished> {
    match draw() % 2 {
        0 => ticket.wait(),
        _ => ticket.wait_for(MINUTE).unwrap_or_else(Ticket::wait),
    }
}

/// Whoever waits hears of the answer, and of an engine that gave up; and so does
/// whoever wants to know of it besides, once.
#[test]
fn a_ticket_hears_of_its_answer_and_of_its_end() {
    explore(Schedules::All, || {
        let answers = draw().is_multiple_of(2);
        let (ticket, completer) = Ticket::pending();
        let engine = thread::spawn(move || {
            if answers {
                completer.complete(done(batch(7)))
            }
        });
        let notices = Arc::new(AtomicUsize::new(0));
        let notice = Arc::clone(&notices);
        ticket.on_arrival(move || {
            notice.fetch_add(1, Relaxed);
        });
        match wait(ticket) {
            Ok(completed) => assert!(answers && mark(&completed) == 7),
            Err(Vanished) => assert!(!answers),
        }
        engine.join().expect("it ended");
        assert_eq!(notices.load(Relaxed), 1);
    });
}

/// A guard sees one answer, whatever comes first: the batch, the engine's end
/// or the deadline; and what it returns is what the waiter sees. Nobody waits
/// for a ticket that was dropped.
#[test]
fn a_guard_runs_once_whatever_comes_first() {
    explore(Schedules::All, || {
        let runs = Arc::new(AtomicUsize::new(0));
        let (ticket, completer) = Ticket::pending();
        let answers = draw().is_multiple_of(2);
        let engine = thread::spawn(move || {
            if answers {
                completer.complete(done(batch(1)))
            }
        });
        let deadline = Instant::now() + if draw().is_multiple_of(2) { MINUTE * 60 } else { MINUTE / 2 };
        let (inner, outer) = (Arc::clone(&runs), Arc::clone(&runs));
        let ticket = ticket
            .guarded(deadline, move |answer| {
                inner.fetch_add(1, Relaxed);
                Ok(match answer {
                    Answer::Completed(completed, _) => completed,
                    Answer::Vanished => {
                        assert!(!answers);
                        done(batch(2))
                    }
                    Answer::Late => done(batch(3)),
                })
            })
            // Another one over it, as a batch has that is split.
            .guarded(deadline + MINUTE * 60, move |answer| {
                outer.fetch_add(10, Relaxed);
                match answer {
                    Answer::Completed(completed, _) => Ok(completed),
                    Answer::Vanished | Answer::Late => Err(Vanished),
                }
            });
        if draw().is_multiple_of(8) {
            drop(ticket);
            assert_eq!(runs.load(Relaxed), 0, "who waits runs guards, and nobody did");
        } else {
            match wait(ticket) {
                Ok(completed) => {
                    assert_eq!(runs.load(Relaxed), 11);
                    let expected: &[u8] = if answers { &[1, 3] } else { &[2, 3] };
                    assert!(expected.contains(&mark(&completed)));
                }
                // The outer deadline came first: the inner guard is not asked any more.
                Err(Vanished) => assert_eq!(runs.load(Relaxed), 10),
            }
        }
        engine.join().expect("it ended");
    });
}

/// An inline engine that adds one to every byte.
struct AddOne;

impl Engine for AddOne {
    fn name(&self) -> &str {
        "add-one"
    }

    fn capability(&self, _: Algorithm, _: Operation) -> Option<Capability> {
        Some(Capability {
            inline: true,
            batch_bytes_max: 1 << 20,
            segments_max: 8,
            queue_max: usize::MAX,
            alignment: 1,
            latency_ns: 0,
            bytes_per_second: 1,
            takes_masks: false,
        })
    }

    fn session(&self, algorithm: Algorithm, _: &[u8]) -> Result<Session, SessionError> {
        Ok(Session::new(algorithm, Arc::new(())))
    }

    fn submit(&self, _: &Session, mut batch: Batch) -> Result<Ticket, Box<Refused>> {
        batch.buffer.iter_mut().for_each(|byte| *byte += 1);
        Ok(Ticket::ready(done(batch)))
    }

    fn flush(&self) {}

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    fn crossing(&self) -> Option<&dyn crate::Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn crate::Masking> {
        None
    }
}

/// Hands a batch over, however often the engine is busy, and has it begun with.
fn submit(engine: &dyn Engine, session: &Session, mut batch: Batch) -> Ticket {
    loop {
        match engine.submit(session, batch) {
            Ok(ticket) => {
                engine.flush();
                return ticket;
            }
            Err(refused) => {
                assert_eq!(refused.refusal, Refusal::Busy);
                batch = refused.batch;
            }
        }
        thread::yield_now();
    }
}

/// Every batch that was taken comes back to whoever handed it over, computed
/// once, out of order as they may be, and also when the engine is dropped
/// before anybody waits.
#[test]
fn batches_on_an_engines_threads_all_come_back() {
    let faults = Faults { busy: 200, lost: 0, vanished: 0, late: 100, late_by: Duration::from_millis(1) };
    explore(Schedules::All, move || {
        let engine: Arc<dyn Engine> = Arc::new(UnrulyEngine::new(Arc::new(AddOne), draw(), faults));
        let consumer = |first: u8| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let session = engine.session(ALGORITHM, &[]).expect("any key will do");
                let tickets = [first, first + 10].map(|mark| (mark, submit(&*engine, &session, batch(mark))));
                // The last one to leave ends the engine's threads: with work left, or none.
                let kept = draw().is_multiple_of(2).then(|| Arc::clone(&engine));
                drop(engine);
                for (given, ticket) in tickets {
                    let completed = wait(ticket).expect("nothing is lost");
                    assert_eq!(mark(&completed), given + 1);
                }
                drop(kept);
            })
        };
        let consumers = [consumer(1), consumer(2)];
        drop(engine);
        consumers.into_iter().for_each(|consumer| consumer.join().expect("it ended"));
    });
}

/// The same where batches vanish: whoever waits hears of it, and nobody waits
/// for ever.
#[test]
fn batches_that_vanish_on_an_engines_threads_are_told() {
    let faults = Faults { busy: 0, lost: 300, vanished: 300, late: 0, late_by: Duration::ZERO };
    explore(Schedules::All, move || {
        let engine = UnrulyEngine::new(Arc::new(AddOne), draw(), faults);
        let session = engine.session(ALGORITHM, &[]).expect("any key will do");
        let tickets = [1, 2, 3].map(|mark| (mark, submit(&engine, &session, batch(mark))));
        let ender = thread::spawn(move || drop(engine));
        for (given, ticket) in tickets {
            match wait(ticket) {
                Ok(completed) if completed.outcome == Outcome::Done => {
                    assert_eq!(mark(&completed), given + 1)
                }
                Ok(completed) => assert_eq!(completed.outcome, Outcome::DeviceLost),
                Err(Vanished) => {}
            }
        }
        ender.join().expect("it ended");
    });
}
