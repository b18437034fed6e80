//! A worker's part in who waits at `/dev/fuse`: it measures, holds what it
//! sees against the rules of [`look`](super::look), and takes or gives up the
//! lead of the [`Turn`]. It does no input or output on the device.

use super::alone::Neighbours;
use super::look::{LOOK, LOOK_INTERRUPTED, Pace};
use super::short::is_short;
use super::turn::{Stand, Turn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After so many calm requests in a row this worker tries to lead.
const CALM: u32 = 16;
/// After so many answers in a row that somebody else wants to compute, it
/// gives up the lead.
const CROWDED: u32 = 3;
/// A request that was slept for would have been found if it came within this.
const LOOK_AND_WAKE: Duration = Duration::from_micros(40);

/// What a look brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// A request of this many bytes.
    Found(usize),
    /// Nothing.
    InVain,
}

/// A worker that may lead.
#[derive(Debug)]
pub(super) struct Lead {
    turn: Arc<Turn>,
    stand: Stand,
    /// It may lead at all.
    may_lead: bool,
    pace: Pace,
    neighbours: Neighbours,
    /// Requests in a row, before leading, that would have been found.
    calm: u32,
    /// Answers in a row that somebody else wants to compute.
    crowded: u32,
    /// When the request at hand was received.
    received: Option<Instant>,
    /// When the one before was answered.
    replied: Instant,
}

impl Lead {
    pub(super) fn new(turn: Arc<Turn>) -> Lead {
        Lead {
            turn,
            stand: Stand::Beside,
            may_lead: true,
            pace: Pace::default(),
            neighbours: Neighbours::new(),
            calm: 0,
            crowded: 0,
            received: None,
            replied: Instant::now(),
        }
    }

    /// Of another worker of the same mount.
    pub(super) fn another(&self) -> Lead {
        Lead::new(Arc::clone(&self.turn))
    }

    /// Never leads from now on.
    pub(super) fn never(&mut self) {
        self.may_lead = false;
    }

    pub(super) fn turn(&self) -> &Arc<Turn> {
        &self.turn
    }

    /// The request at hand was answered, and the worker wants the next one.
    /// Waits until it may. True when it may look for it now.
    pub(super) fn next(&mut self) -> bool {
        self.replied = Instant::now();
        if let Some(received) = self.received.take() {
            self.turn.answered(self.stand, self.replied);
            self.pace.answered(self.replied.saturating_duration_since(received));
        }
        self.stand = self.turn.take(self.stand);
        self.stand != Stand::Beside
            && self.turn.is_alone()
            && self.crowded == 0
            && self.pace.is_short()
            && self.pace.can_afford(self.replied)
    }

    /// A look that began with [`next`](Lead::next) has ended.
    pub(super) fn looked(&mut self, looked: Looked) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.replied);
        if looked == Looked::InVain {
            self.pace.was_vain(took);
        }
        if took > LOOK_INTERRUPTED {
            // Somebody got this CPU meanwhile, who may want it still.
            self.pace.ask_again();
        }
    }

    /// A request was received; `slept` when it was slept for.
    pub(super) fn received(&mut self, message: &[u8], slept: bool) {
        let now = Instant::now();
        self.received = Some(now);
        let is_only = self.turn.received(self.stand);
        let is_short = is_short(message);
        match self.stand {
            Stand::Beside => self.consider(now, is_short && is_only && slept),
            Stand::Leader(_) => {
                self.pace.came(now.saturating_duration_since(self.replied), slept);
                if !is_short || self.pace.is_too_much() {
                    self.turn.open_up(now);
                }
            }
        }
    }

    /// The request at hand is about to be answered: whoever asked is asleep by
    /// now, and not yet woken.
    pub(super) fn replies(&mut self) {
        let Some(received) = self.received else { return };
        if self.stand != Stand::Beside && self.pace.is_time_to_ask(received) {
            if self.neighbours.leave_a_cpu() {
                self.crowded = 0;
            } else {
                // It may be a moment's work, of which there is always some.
                self.crowded += 1;
                if self.crowded >= CROWDED {
                    self.turn.open_up(received);
                }
            }
        }
    }

    /// Takes the lead when one worker would do and would have found this
    /// request and those before.
    fn consider(&mut self, now: Instant, would_do: bool) {
        let gap = self.turn.since_reply(now);
        self.calm = if self.may_lead && would_do && gap <= LOOK_AND_WAKE { self.calm + 1 } else { 0 };
        if self.calm < CALM {
            return;
        }
        self.calm = 0;
        let neighbours = &mut self.neighbours;
        if let Some(leader) = self.turn.close(now, || neighbours.leave_a_cpu()) {
            self.stand = leader;
            self.crowded = 0;
            self.pace.begin();
        }
    }
}

/// Whether a look that began then may go on.
pub(super) fn goes_on(began: Instant) -> bool {
    began.elapsed() < LOOK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Opcode, REQUEST_HEADER_LEN};

    /// More CPUs than a system has running threads.
    const MANY: usize = 1 << 20;
    /// A request that is soon answered, and one that is not.
    const SHORT: Opcode = Opcode::GetAttr;
    const LONG: Opcode = Opcode::Fsync;

    fn message(opcode: Opcode) -> Vec<u8> {
        let mut bytes = 56u32.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.raw().to_ne_bytes());
        bytes.resize(REQUEST_HEADER_LEN + 16, 0);
        bytes
    }

    /// A worker for which so many CPUs are there.
    fn worker(cpus: usize) -> Lead {
        Lead { neighbours: Neighbours::with(cpus), ..Lead::new(Arc::default()) }
    }

    /// Serves one request, for which it waits some microseconds, and says
    /// whether it was looked for.
    fn serve(lead: &mut Lead, opcode: Opcode) -> bool {
        let looks = lead.next();
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_micros(4) {
            std::hint::spin_loop();
        }
        if looks {
            lead.looked(Looked::Found(56));
        }
        lead.received(&message(opcode), !looks);
        lead.replies();
        looks
    }

    /// Serves until the worker leads, or does not. However busy the machine
    /// is, there are moments when it is not interrupted.
    fn serve_until(lead: &mut Lead, leads: bool) {
        let became = (0..1_000_000).any(|_| {
            serve(lead, SHORT);
            (lead.stand != Stand::Beside) == leads
        });
        assert!(became, "{leads}");
    }

    #[test]
    fn a_worker_leads_where_requests_come_soon_and_looks_then() {
        let mut lead = worker(MANY);
        assert!(!serve(&mut lead, SHORT));
        serve_until(&mut lead, true);
        assert!((0..1000).any(|_| serve(&mut lead, SHORT)));
    }

    #[test]
    fn nobody_leads_where_others_want_to_compute() {
        let mut lead = worker(1);
        for _ in 0..10_000 {
            assert!(!serve(&mut lead, SHORT));
            assert_eq!(lead.stand, Stand::Beside);
        }
        let mut lead = worker(MANY);
        lead.never();
        assert!((0..10_000).all(|_| !serve(&mut lead, SHORT)));
    }

    #[test]
    fn a_leader_gives_up_when_others_come() {
        // On a busy machine it may give up before, since answers take long.
        let gave_up = (0..20).any(|_| {
            let mut lead = worker(MANY);
            serve_until(&mut lead, true);
            lead.neighbours = Neighbours::with(1);
            serve_until(&mut lead, false);
            lead.crowded == CROWDED
        });
        assert!(gave_up);
    }

    #[test]
    fn what_may_take_long_opens_the_turn_before_it_is_answered() {
        let mut lead = worker(MANY);
        serve_until(&mut lead, true);
        let mut other = lead.another();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                other.next();
                other.stand
            });
            serve(&mut lead, LONG);
            assert_eq!(other.join().unwrap(), Stand::Beside);
        });
    }

    #[test]
    fn nobody_looks_while_another_waits_at_the_device() {
        let mut lead = worker(MANY);
        serve_until(&mut lead, true);
        let turn = Arc::clone(&lead.turn);
        turn.waiting(|| assert!(!serve(&mut lead, SHORT)));
    }
}
