//! The thread that has the kernel forget inodes before descriptors run out.

use std::sync::Arc;
use std::time::Duration;

use strongroom_fuse::adapter::inode_mark;

use super::{Daemon, unmounting};
use crate::failure::Result;

/// Starts it, for a process that may have `file_limit` files open. It ends
/// with the mount.
///
/// # Errors
/// When no thread can be had.
pub(super) fn start(daemon: &Arc<Daemon>, file_limit: u64) -> Result<()> {
    let daemon = Arc::clone(daemon);
    let prune = move || {
        let ended = || daemon.ending.wait_within(Duration::ZERO);
        daemon.adapter.prune(&daemon.session.notifier(), inode_mark(file_limit), ended);
    };
    unmounting::spawn("pruner", prune)
}
