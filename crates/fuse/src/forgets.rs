//! Nodes that the kernel gives back and that wait to be forgotten.
//!
//! Beside rings one thread takes FORGETs from the device, as many at once as
//! are there. On CPUs that others want too it gets the share of one thread,
//! while four make and remove files: inodes and their descriptors would pile
//! up, some ten thousand in a minute. So what was taken lies where every
//! worker finds it, and beyond a mark each forgets a few with each request that
//! it answers. Whoever brings them faster than they go is slowed down by them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::request::Forgets;
use crate::filesystem::NodeId;

/// So many may wait for whoever took them.
const MARK: usize = 128;
/// Forgotten with each answer while there are more; a file that is made and
/// removed takes three requests and is one to be forgotten.
const SHARE: usize = 4;

/// Taken from the kernel, and not forgotten yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: Mutex<VecDeque<(NodeId, u64)>>,
    /// How many wait, for those who only ask.
    len: AtomicUsize,
}

impl Backlog {
    /// Forgets these and all that wait, as far as others have not.
    pub(crate) fn forget(&self, forgets: Forgets<'_>, forget: impl Fn(NodeId, u64)) {
        self.change(|waiting| waiting.extend(forgets));
        while self.forget_one(&forget) {}
    }

    /// Too many wait.
    pub(crate) fn is_long(&self) -> bool {
        self.len.load(Ordering::Relaxed) > MARK
    }

    /// Forgets some of those that wait.
    pub(crate) fn forget_some(&self, forget: impl Fn(NodeId, u64)) {
        for _ in 0..SHARE {
            self.forget_one(&forget);
        }
    }

    /// False when none waits.
    fn forget_one(&self, forget: &impl Fn(NodeId, u64)) -> bool {
        let next = self.change(VecDeque::pop_front);
        if let Some((node, lookups)) = next {
            forget(node, lookups);
        }
        next.is_some()
    }

    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<(NodeId, u64)>) -> T) -> T {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut waiting);
        self.len.store(waiting.len(), Ordering::Relaxed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Opcode;
    use crate::abi::request::{Operation, parse};
    use std::ops::Range;
    use std::sync::Barrier;

    /// As the kernel sends it.
    fn batch(nodes: Range<u64>) -> Vec<u8> {
        let mut arguments = (nodes.end - nodes.start).to_ne_bytes().to_vec();
        for node in nodes {
            arguments.extend([node, node + 1].map(u64::to_ne_bytes).as_flattened());
        }
        let mut message = (40 + arguments.len() as u32).to_ne_bytes().to_vec();
        message.extend_from_slice(&Opcode::BatchForget.raw().to_ne_bytes());
        message.resize(40, 0);
        message.extend(arguments);
        message
    }

    fn forget(backlog: &Backlog, nodes: Range<u64>, by: impl Fn(NodeId, u64)) {
        let message = batch(nodes);
        let Operation::BatchForget(forgets) = parse(&message).unwrap().operation else { panic!() };
        backlog.forget(forgets, by);
    }

    fn expected(nodes: Range<u64>) -> Vec<(u64, u64)> {
        nodes.map(|node| (node, node + 1)).collect()
    }

    #[test]
    fn whoever_took_them_forgets_all() {
        let backlog = Backlog::default();
        let forgotten = Mutex::new(Vec::new());
        forget(&backlog, 0..1000, |node, lookups| forgotten.lock().unwrap().push((node.0, lookups)));
        assert!(!backlog.is_long());
        assert_eq!(forgotten.into_inner().unwrap(), expected(0..1000));
    }

    #[test]
    fn others_do_a_part_while_he_is_held_up_and_each_is_forgotten_once() {
        let (backlog, held_up) = (Backlog::default(), Barrier::new(2));
        let forgotten = Mutex::new(Vec::new());
        let note = |node: NodeId, lookups: u64| {
            if node == NodeId(0) {
                held_up.wait();
                held_up.wait();
            }
            forgotten.lock().unwrap().push((node.0, lookups));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| forget(&backlog, 0..1000, note));
            held_up.wait();
            let mut answers = 0;
            while backlog.is_long() {
                backlog.forget_some(note);
                answers += 1;
            }
            assert_eq!(answers, (1000 - 1 - MARK).div_ceil(SHARE));
            held_up.wait();
        });
        let mut forgotten = forgotten.into_inner().unwrap();
        forgotten.sort_unstable();
        assert_eq!(forgotten, expected(0..1000));
    }
}
