//! What keeps fills and changes of one file apart.
//!
//! A fill overwrites what the kernel caches, so it must not run where the
//! kernel may hold what a program wrote. So who comes during a fill withholds
//! the reply without which no program can write. A fill waits for workers, so
//! that none of them may be missing meanwhile: they leave the reply behind, or
//! are relieved.

use super::Relief;
use crate::filesystem::NodeId;
use crate::pacing::limits::WAITING_MAX;
use crate::writers::Writers;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A reply that is sent when the fills of its file have ended.
#[derive(Debug)]
pub(super) struct Withheld {
    /// Where the request came from; the kernel takes its reply nowhere else.
    pub(super) file: Arc<OwnedFd>,
    pub(super) unique: u64,
    pub(super) body: Vec<u8>,
}

/// A fill that is under way; later ones have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    node: NodeId,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    writers: Writers,
    fills: Vec<Fill>,
    /// Fills that have begun.
    begun: u64,
    /// Replies, each with the last fill that was under way when it came.
    withheld: Vec<(Fill, Withheld)>,
    /// The same of workers that wait.
    waiting: Vec<Fill>,
    is_shut: bool,
}

/// Who writes, and what is being filled.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    ended: Condvar,
}

impl Gate {
    /// Begins to fill a part of a file, unless it is open for writing.
    pub(super) fn begin(&self, node: NodeId) -> Option<Fill> {
        let mut state = self.lock();
        if state.is_shut || state.writers.has(node) {
            return None;
        }
        state.begun += 1;
        let fill = Fill { node, number: state.begun };
        state.fills.push(fill);
        Some(fill)
    }

    /// The fill has ended; the replies that were left for this moment.
    pub(super) fn end(&self, fill: Fill) -> Vec<Withheld> {
        let mut state = self.lock();
        let State { fills, withheld, waiting, .. } = &mut *state;
        fills.retain(|other| *other != fill);
        waiting.retain(|last| holds_up(fills, *last));
        self.ended.notify_all();
        withheld.extract_if(.., |(last, _)| !holds_up(fills, *last)).map(|(_, reply)| reply).collect()
    }

    /// A reply is about to let a program write to a file: no fill of it begins
    /// from now on.
    pub(super) fn opened(&self, node: NodeId) {
        self.lock().writers.opened(node);
    }

    /// A handle that was open for writing is gone, with all that the kernel
    /// had not written back.
    pub(super) fn closed(&self, node: NodeId) {
        self.lock().writers.closed(node);
    }

    /// True when a fill of the file is under way and the reply was left for
    /// the end of it.
    pub(super) fn leaves(&self, node: NodeId, reply: impl FnOnce() -> Withheld) -> bool {
        let mut state = self.lock();
        let last = state.last(node);
        if let Some(last) = last {
            state.withheld.push((last, reply()));
        }
        last.is_some()
    }

    /// Waits for the end of the fills of the file that are under way, if any.
    /// One that begins later reads what the request that is about to be
    /// answered has done.
    pub(super) fn waits(&self, node: NodeId, relief: &dyn Relief) {
        let Some(last) = self.lock().joins(node) else { return };
        relief.waits();
        let is_held_up = |state: &mut State| holds_up(&state.fills, last);
        drop(self.ended.wait_while(self.lock(), is_held_up).unwrap_or_else(PoisonError::into_inner));
        relief.returns();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a fill of the file is under way that is not later than the last
/// that somebody waits for.
fn holds_up(fills: &[Fill], last: Fill) -> bool {
    fills.iter().any(|fill| fill.node == last.node && fill.number <= last.number)
}

impl State {
    /// The last fill of a file that is under way.
    fn last(&self, node: NodeId) -> Option<Fill> {
        self.fills.iter().filter(|fill| fill.node == node).max_by_key(|fill| fill.number).copied()
    }

    /// Counts one more who waits for the fills of a file.
    fn joins(&mut self, node: NodeId) -> Option<Fill> {
        let last = self.last(node)?;
        self.waiting.push(last);
        self.is_shut |= self.waiting.len() > WAITING_MAX;
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    const FILE: NodeId = NodeId(7);
    const OTHER: NodeId = NodeId(8);

    fn reply(unique: u64) -> impl FnOnce() -> Withheld {
        let file = Arc::new(tempfile::tempfile().unwrap().into());
        move || Withheld { file, unique, body: Vec::new() }
    }

    /// Says who waits, and who has stopped to.
    struct Told(Sender<bool>);

    impl Relief for Told {
        fn waits(&self) {
            self.0.send(true).unwrap();
        }

        fn returns(&self) {
            self.0.send(false).unwrap();
        }
    }

    fn uniques(withheld: Vec<Withheld>) -> Vec<u64> {
        withheld.iter().map(|withheld| withheld.unique).collect()
    }

    #[test]
    fn what_is_open_for_writing_is_not_filled() {
        let gate = Gate::default();
        gate.opened(FILE);
        assert!(!gate.leaves(FILE, reply(1)));
        assert!(gate.begin(FILE).is_none());
        let other = gate.begin(OTHER).unwrap();
        assert!(gate.end(other).is_empty());
        gate.closed(FILE);
        assert!(gate.begin(FILE).is_some());
    }

    #[test]
    fn replies_that_come_during_a_fill_of_their_file_are_left_for_its_end() {
        let gate = Gate::default();
        let fill = gate.begin(FILE).unwrap();
        assert!(gate.leaves(FILE, reply(1)) && gate.leaves(FILE, reply(2)));
        assert!(!gate.leaves(OTHER, reply(3)));
        assert_eq!(uniques(gate.end(fill)), [1, 2]);
        let fill = gate.begin(FILE).unwrap();
        assert!(gate.end(fill).is_empty());
    }

    #[test]
    fn of_several_fills_those_hold_up_a_reply_that_it_found() {
        let gate = Gate::default();
        let first = gate.begin(FILE).unwrap();
        let second = gate.begin(FILE).unwrap();
        let other = gate.begin(OTHER).unwrap();
        assert!(gate.leaves(FILE, reply(1)));
        let third = gate.begin(FILE).unwrap();
        assert!(gate.leaves(FILE, reply(2)));
        assert!(gate.end(second).is_empty() && gate.end(other).is_empty());
        assert_eq!(uniques(gate.end(first)), [1]);
        assert_eq!(uniques(gate.end(third)), [2]);
    }

    #[test]
    fn workers_wait_for_the_fills_of_their_file_and_are_relieved() {
        let gate = Gate::default();
        let (sender, told) = channel();
        let fills = [FILE, FILE].map(|file| gate.begin(file).unwrap());
        gate.waits(OTHER, &Told(sender.clone()));
        std::thread::scope(|scope| {
            let relief = Told(sender.clone());
            let worker = scope.spawn(|| gate.waits(FILE, &{ relief }));
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true));
            gate.end(fills[1]);
            assert!(told.recv_timeout(Duration::from_millis(50)).is_err() && !worker.is_finished());
            assert!(gate.begin(FILE).is_some());
            gate.end(fills[0]);
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(false));
        });
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn too_many_who_wait_at_once_shut_the_gate() {
        for (waiting, is_open) in [(WAITING_MAX, true), (WAITING_MAX + 1, false)] {
            let gate = Gate::default();
            for _ in 0..2 {
                // Those who waited for an earlier one do not count.
                let Some(fill) = gate.begin(FILE) else { break };
                (0..waiting).for_each(|_| assert!(gate.lock().joins(FILE).is_some()));
                gate.end(fill);
            }
            assert_eq!(gate.begin(FILE).is_some(), is_open, "{waiting}");
        }
    }
}
