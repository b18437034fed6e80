//! A worker at `/dev/fuse`, which polls for the next request while it leads.

use super::limits::{PERIOD, POLL_CREDIT_MAX, POLL_MAX, POLL_SHARE, QUEUED_MAX, REFUSALS, ROW};
use super::load::Running;
use super::short::is_short;
use super::turns::Turns;
use super::{Found, Pacer};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that may lead.
#[derive(Debug)]
pub(super) struct Leader {
    turns: Arc<Turns>,
    running: Running,
    credit: Credit,
    role: Role,
    doing: Doing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Waits with the others. Counts requests in a row that it would have found.
    Follower {
        row: u32,
    },
    Leader(Lead),
}

/// What a leader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lead {
    number: u64,
    /// Rises with each request that waited already.
    queued: u32,
    /// Answers in a row that somebody else wants the CPU.
    refusals: u32,
    /// When it was asked for that last.
    asked: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing since it began.
    Nothing,
    Polling(Instant),
    Sleeping,
    Answering(Instant),
}

impl Leader {
    pub(super) fn new(turns: Arc<Turns>) -> Leader {
        let credit = Credit { left: POLL_CREDIT_MAX, given: Instant::now() };
        let role = Role::Follower { row: 0 };
        Leader { turns, running: Running::new(), credit, role, doing: Doing::Nothing }
    }

    /// The lead, if it goes on.
    fn lead(&mut self) -> Option<&mut Lead> {
        match &mut self.role {
            Role::Leader(lead) if self.turns.is_led(lead.number) => Some(lead),
            _ => None,
        }
    }

    /// Takes the lead when one worker would do, and would have found this
    /// request and those before.
    fn consider(&mut self, now: Instant, row: u32, would_do: bool) {
        let is_soon = self.turns.since_reply(now) <= 2 * POLL_MAX;
        let row = if would_do && is_soon { row + 1 } else { 0 };
        self.role = Role::Follower { row };
        if row >= ROW {
            let number = self.turns.close(now, || self.running.leave_a_cpu());
            self.role = match number {
                Some(number) => Role::Leader(Lead { number, queued: 0, refusals: 0, asked: now }),
                None => Role::Follower { row: 0 },
            };
        }
    }
}

impl Pacer for Leader {
    fn wants(&mut self, now: Instant) -> Option<Instant> {
        if matches!(self.doing, Doing::Answering(_)) {
            self.turns.answered(now);
        }
        self.doing = Doing::Nothing;
        let Some(lead) = self.lead() else {
            if let Role::Leader(_) = self.role {
                self.role = Role::Follower { row: 0 };
            }
            self.turns.park();
            return None;
        };
        let is_crowded = lead.refusals > 0;
        self.turns.moves(now);
        let polls = !is_crowded && self.turns.is_alone() && self.credit.suffices(now);
        polls.then(|| {
            self.doing = Doing::Polling(now);
            now + POLL_MAX
        })
    }

    fn sleeps(&mut self, now: Instant) {
        if let Doing::Polling(since) = self.doing {
            self.credit.spend(now.saturating_duration_since(since));
        }
        self.doing = Doing::Sleeping;
        self.turns.sleeps();
    }

    /// What may take long opens the turn before it is answered, so that nobody
    /// waits for it.
    fn received(&mut self, now: Instant, message: &[u8], found: Found) {
        if self.doing == Doing::Sleeping {
            self.turns.woke();
        }
        self.doing = Doing::Answering(now);
        let is_short = is_short(message);
        if self.lead().is_some() {
            self.turns.moves(now);
        }
        let is_only = self.turns.received();
        if let Some(lead) = self.lead() {
            let fewer = lead.queued.saturating_sub(2);
            lead.queued = if found == Found::Waiting { lead.queued + 1 } else { fewer };
            if lead.queued >= QUEUED_MAX || !is_short {
                self.turns.give_up(now);
            }
        } else {
            let row = if let Role::Follower { row } = self.role { row } else { 0 };
            self.consider(now, row, is_short && is_only);
        }
    }

    /// Whoever asked is asleep by now, and not yet woken: the moment to ask who
    /// else wants to run.
    fn replies(&mut self) {
        let Doing::Answering(now) = self.doing else { return };
        let is_due = |lead: &mut Lead| now.saturating_duration_since(lead.asked) >= PERIOD;
        if !self.lead().is_some_and(is_due) {
            return;
        }
        let is_refused = !self.running.leave_a_cpu();
        let Some(lead) = self.lead() else { return };
        lead.asked = now;
        lead.refusals = if is_refused { lead.refusals + 1 } else { 0 };
        if lead.refusals >= REFUSALS {
            self.turns.give_up(now);
        }
    }
}

impl Drop for Leader {
    /// Whatever the worker ended by, nobody is to wait for it.
    fn drop(&mut self) {
        self.turns.end();
    }
}

/// Time that may be polled in vain.
#[derive(Clone, Copy, Debug)]
struct Credit {
    left: Duration,
    given: Instant,
}

impl Credit {
    /// Whether there is enough for a poll.
    fn suffices(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.given);
        self.given = now;
        self.left = (self.left + since / POLL_SHARE).min(POLL_CREDIT_MAX);
        self.left >= POLL_MAX
    }

    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Opcode;
    use crate::pacing::fake::{Kernel, SOON};
    use crate::pacing::limits::BACKOFF_MIN;
    use crate::pacing::load::told::{Told, unknown};

    /// A worker with two CPUs, of which one thread wants one.
    fn worker(told: &Told) -> Leader {
        let mut worker = Leader::new(Arc::new(Turns::watched()));
        worker.running = told.running(1);
        worker
    }

    /// A leader of a program that asks soon, and the load.
    fn leader() -> (Leader, Kernel, Told) {
        let told = Told::new();
        let (mut leader, mut kernel) = (worker(&told), Kernel::new());
        // The first comes long after the reply before.
        for _ in 0..=ROW {
            assert_eq!(leader.lead(), None);
            assert_eq!(kernel.asks(&mut leader, Opcode::GetAttr, SOON), Found::Asleep);
        }
        assert!(leader.lead().is_some());
        (leader, kernel, told)
    }

    #[test]
    fn a_worker_leads_where_requests_come_soon_and_polls_then() {
        let (mut leader, mut kernel, _told) = leader();
        for _ in 0..1000 {
            assert_eq!(kernel.asks(&mut leader, Opcode::GetAttr, SOON), Found::Polled);
        }
    }

    #[test]
    fn nobody_leads_for_requests_that_come_late_take_long_or_are_of_many() {
        let told = Told::new();
        for (opcode, gap) in [(Opcode::GetAttr, 3 * POLL_MAX), (Opcode::Fsync, SOON)] {
            let (mut worker, mut kernel) = (worker(&told), Kernel::new());
            for _ in 0..100 {
                kernel.asks(&mut worker, opcode, gap);
            }
            assert_eq!(worker.lead(), None, "{opcode:?} {gap:?}");
        }
        let (mut worker, mut kernel) = (worker(&told), Kernel::new());
        worker.turns.received();
        for _ in 0..100 {
            kernel.asks(&mut worker, Opcode::GetAttr, SOON);
        }
        assert_eq!(worker.lead(), None, "another worker is busy");
    }

    #[test]
    fn nobody_leads_where_others_want_to_compute_or_nothing_is_known() {
        let told = Told::new();
        for running in [told.running(2), unknown().0] {
            let (mut worker, mut kernel) = (worker(&told), Kernel::new());
            worker.running = running;
            told.runs(2);
            for _ in 0..100 {
                kernel.asks(&mut worker, Opcode::GetAttr, SOON);
            }
            assert_eq!(worker.lead(), None);
        }
    }

    #[test]
    fn a_leader_gives_up_when_others_want_to_compute() {
        let (mut leader, mut kernel, told) = leader();
        kernel.passes(PERIOD);
        for count in [2, 2, 1, 2, 2] {
            told.runs(count);
            kernel.asks(&mut leader, Opcode::GetAttr, SOON);
            assert!(leader.lead().is_some(), "a moment's work");
            let polls = kernel.asks(&mut leader, Opcode::GetAttr, SOON) == Found::Polled;
            assert_eq!(polls, count == 1);
            kernel.passes(PERIOD);
        }
        kernel.asks(&mut leader, Opcode::GetAttr, SOON);
        assert_eq!(leader.lead(), None);
    }

    #[test]
    fn a_leader_gives_up_before_it_answers_what_may_take_long() {
        let (mut leader, mut kernel, _told) = leader();
        kernel.brings(&mut leader, Opcode::Fsync, SOON);
        assert_eq!(leader.lead(), None);
        leader.turns.park();
    }

    #[test]
    fn a_leader_gives_up_when_requests_queue() {
        let (mut leader, mut kernel, _told) = leader();
        for at in 0..10 * QUEUED_MAX {
            kernel.asks(&mut leader, Opcode::GetAttr, if at % 3 == 0 { SOON } else { Duration::ZERO });
        }
        assert!(leader.lead().is_some(), "a third did not wait");
        for _ in 0..QUEUED_MAX {
            assert!(leader.lead().is_some());
            assert_eq!(kernel.asks(&mut leader, Opcode::GetAttr, Duration::ZERO), Found::Waiting);
        }
        assert_eq!(leader.lead(), None);
        kernel.passes(BACKOFF_MIN);
        for _ in 0..2 * ROW {
            kernel.asks(&mut leader, Opcode::GetAttr, SOON);
        }
        assert!(leader.lead().is_some(), "after a while it leads again");
    }

    #[test]
    fn nobody_polls_while_another_sleeps_at_the_device() {
        let (mut leader, mut kernel, _told) = leader();
        leader.turns.sleeps();
        assert_eq!(kernel.asks(&mut leader, Opcode::GetAttr, SOON), Found::Asleep);
        leader.turns.woke();
        assert_eq!(kernel.asks(&mut leader, Opcode::GetAttr, SOON), Found::Polled);
    }

    #[test]
    fn polls_in_vain_have_a_small_part_of_all_time() {
        let (mut leader, mut kernel, _told) = leader();
        let began = kernel.now();
        let late = 2 * POLL_MAX;
        for _ in 0..100_000 {
            kernel.asks(&mut leader, Opcode::GetAttr, late);
        }
        let (all, vain) = (kernel.now() - began, kernel.vain());
        assert!(vain <= all / POLL_SHARE + POLL_CREDIT_MAX, "{vain:?} of {all:?}");
        assert!(vain >= all / POLL_SHARE / 2, "{vain:?} of {all:?}");
    }

    #[test]
    fn a_worker_that_ends_lets_the_others_in() {
        let (leader, ..) = leader();
        let turns = Arc::clone(&leader.turns);
        drop(leader);
        turns.park();
    }
}
