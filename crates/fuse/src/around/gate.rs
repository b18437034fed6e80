//! What keeps fills and changes of one file apart.
//!
//! A fill overwrites what the kernel caches, so it must not run where the
//! kernel may hold what a program wrote. Nor may anybody wait here: a fill
//! waits for workers. So whoever comes during a fill leaves the reply behind,
//! without which no program can write.

use crate::filesystem::NodeId;
use crate::writers::Writers;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    withheld: Vec<Withheld>,
}

/// Who writes, and what is being filled.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

impl Gate {
    /// Begins to fill a part of a file, unless it is open for writing.
    pub(super) fn begin(&self, node: NodeId) -> bool {
        let mut state = self.lock();
        if state.writers.has(node) {
            return false;
        }
        state.filling = Some(node);
        true
    }

    /// The fill has ended; the replies that waited for it.
    pub(super) fn end(&self) -> Vec<Withheld> {
        let mut state = self.lock();
        state.filling = None;
        std::mem::take(&mut state.withheld)
    }

    /// A reply is about to let a program write to a file.
    pub(super) fn opens(&self, node: NodeId, reply: impl FnOnce() -> Withheld) -> bool {
        let mut state = self.lock();
        state.writers.opened(node);
        state.withholds(node, reply)
    }

    /// A reply is about to let the kernel change a file's length.
    pub(super) fn resizes(&self, node: NodeId, reply: impl FnOnce() -> Withheld) -> bool {
        self.lock().withholds(node, reply)
    }

    /// A handle that was open for writing is gone, with all that the kernel
    /// had not written back.
    pub(super) fn closed(&self, node: NodeId) {
        self.lock().writers.closed(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// True when the reply was left here.
    fn withholds(&mut self, node: NodeId, reply: impl FnOnce() -> Withheld) -> bool {
        let withheld = self.filling == Some(node);
        if withheld {
            self.withheld.push(reply());
        }
        withheld
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: NodeId = NodeId(7);
    const OTHER: NodeId = NodeId(8);

    fn reply(unique: u64) -> impl FnOnce() -> Withheld {
        let file = Arc::new(tempfile::tempfile().unwrap().into());
        move || Withheld { file, unique, body: Vec::new() }
    }

    #[test]
    fn what_is_open_for_writing_is_not_filled() {
        let gate = Gate::default();
        assert!(!gate.opens(FILE, reply(1)));
        assert!(!gate.begin(FILE));
        assert!(gate.begin(OTHER));
        assert!(gate.end().is_empty());
        gate.closed(FILE);
        assert!(gate.begin(FILE));
    }

    #[test]
    fn replies_that_come_during_a_fill_of_their_file_wait_for_its_end() {
        let gate = Gate::default();
        assert!(gate.begin(FILE));
        assert!(gate.opens(FILE, reply(1)) && gate.resizes(FILE, reply(2)));
        assert!(!gate.opens(OTHER, reply(3)) && !gate.resizes(OTHER, reply(4)));
        let sent: Vec<u64> = gate.end().iter().map(|withheld| withheld.unique).collect();
        assert_eq!(sent, [1, 2]);
        assert!(gate.end().is_empty() && !gate.begin(FILE));
    }
}
