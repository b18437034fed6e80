//! How many inodes are known, and who is told of it. What is done about them
//! stands in `forgetting`.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::thread::Thread;

/// Who is woken above which mark, and where the hand stands.
#[derive(Default)]
pub(super) struct Crowd {
    pub(super) watcher: OnceLock<(usize, Thread)>,
    pub(super) hand: AtomicU64,
}

impl Crowd {
    /// So many inodes are known now, one more than before.
    pub(super) fn grown_to(&self, known: usize) {
        if let Some((mark, thread)) = self.watcher.get()
            && known > *mark
        {
            thread.unpark();
        }
    }
}
