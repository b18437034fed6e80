//! What keeps fills and changes of one file apart.
//!
//! A fill overwrites what the kernel caches, so it must not run where the
//! kernel may hold what a program wrote. So who comes during a fill withholds
//! the reply without which no program can write. A fill waits for workers, so
//! that none of them may be missing meanwhile: they leave the reply behind, or
//! are relieved.

use super::Relief;
use crate::filesystem::NodeId;
use crate::writers::Writers;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Workers that wait for one fill, of which each has another one started. More
/// of them, and nothing is filled any more: what is read so is opened by too
/// many for it to be worth their memory.
const WAITING_MAX: usize = 16;

/// A reply that is sent when a fill has ended.
#[derive(Debug)]
pub(super) struct Withheld {
    /// Where the request came from; the kernel takes its reply nowhere else.
    pub(super) file: Arc<OwnedFd>,
    pub(super) unique: u64,
    pub(super) body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    writers: Writers,
    filling: Option<NodeId>,
    /// Fills that have ended.
    fills: u64,
    withheld: Vec<Withheld>,
    /// Workers that wait for the fill.
    waiting: usize,
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
    pub(super) fn begin(&self, node: NodeId) -> bool {
        let mut state = self.lock();
        if state.is_shut || state.writers.has(node) {
            return false;
        }
        state.filling = Some(node);
        true
    }

    /// The fill has ended; the replies that were left for this moment.
    pub(super) fn end(&self) -> Vec<Withheld> {
        let mut state = self.lock();
        state.filling = None;
        state.fills += 1;
        state.waiting = 0;
        self.ended.notify_all();
        std::mem::take(&mut state.withheld)
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
    /// its end.
    pub(super) fn leaves(&self, node: NodeId, reply: impl FnOnce() -> Withheld) -> bool {
        let mut state = self.lock();
        let leaves = state.filling == Some(node);
        if leaves {
            state.withheld.push(reply());
        }
        leaves
    }

    /// Waits for the end of the fill of the file that is under way, if any. One
    /// that begins later reads what the request that is about to be answered
    /// has done.
    pub(super) fn waits(&self, node: NodeId, relief: &dyn Relief) {
        let Some(fill) = self.lock().joins(node) else { return };
        relief.waits();
        let is_filling = |state: &mut State| state.fills == fill;
        drop(self.ended.wait_while(self.lock(), is_filling).unwrap_or_else(PoisonError::into_inner));
        relief.returns();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts one more who waits for the fill of a file; its number.
    fn joins(&mut self, node: NodeId) -> Option<u64> {
        if self.filling != Some(node) {
            return None;
        }
        self.waiting += 1;
        self.is_shut |= self.waiting > WAITING_MAX;
        Some(self.fills)
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

    #[test]
    fn what_is_open_for_writing_is_not_filled() {
        let gate = Gate::default();
        gate.opened(FILE);
        assert!(!gate.leaves(FILE, reply(1)));
        assert!(!gate.begin(FILE));
        assert!(gate.begin(OTHER));
        assert!(gate.end().is_empty());
        gate.closed(FILE);
        assert!(gate.begin(FILE));
    }

    #[test]
    fn replies_that_come_during_a_fill_of_their_file_are_left_for_its_end() {
        let gate = Gate::default();
        assert!(gate.begin(FILE));
        assert!(gate.leaves(FILE, reply(1)) && gate.leaves(FILE, reply(2)));
        assert!(!gate.leaves(OTHER, reply(3)));
        let sent: Vec<u64> = gate.end().iter().map(|withheld| withheld.unique).collect();
        assert_eq!(sent, [1, 2]);
        assert!(gate.end().is_empty() && gate.begin(FILE));
    }

    #[test]
    fn workers_wait_for_the_fill_of_their_file_and_are_relieved() {
        let gate = Gate::default();
        let (sender, told) = channel();
        assert!(gate.begin(FILE));
        gate.waits(OTHER, &Told(sender.clone()));
        std::thread::scope(|scope| {
            let relief = Told(sender.clone());
            let worker = scope.spawn(|| gate.waits(FILE, &{ relief }));
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true));
            assert!(!worker.is_finished());
            gate.end();
            assert!(gate.begin(FILE));
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(false));
        });
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn too_many_who_wait_for_one_fill_shut_the_gate() {
        for (waiting, is_open) in [(WAITING_MAX, true), (WAITING_MAX + 1, false)] {
            let gate = Gate::default();
            assert!(gate.begin(FILE));
            (0..waiting).for_each(|_| assert!(gate.lock().joins(FILE).is_some()));
            gate.end();
            assert_eq!(gate.begin(FILE), is_open, "{waiting}");
        }
    }
}
