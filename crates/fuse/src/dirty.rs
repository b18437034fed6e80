//! How much of what programs write to a mount may wait in the page cache.

use crate::mount::{DirtyShare, MountPoint};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// A limit that can be lowered for a while.
pub(crate) trait Limit: Debug {
    /// Lowers it; false when it is as low already, or cannot be set.
    fn lower(&self) -> bool;

    /// Sets it to what it was before.
    fn restore(&self);
}

/// The limit of one mount, lowered to
/// [`SessionOptions::dirty_alone`](crate::SessionOptions::dirty_alone).
#[derive(Clone, Debug)]
pub(crate) struct DirtyLimit {
    point: Arc<MountPoint>,
    lowered: u64,
    before: Arc<Mutex<Option<DirtyShare>>>,
}

impl DirtyLimit {
    /// Lowers it to so many bytes when asked to.
    pub(crate) fn new(point: Arc<MountPoint>, lowered: u64) -> DirtyLimit {
        DirtyLimit { point, lowered, before: Arc::default() }
    }
}

impl Limit for DirtyLimit {
    fn lower(&self) -> bool {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        // What it was before is kept, whoever asks twice.
        if before.is_none() {
            *before = self.point.lower_dirty(self.lowered);
        }
        before.is_some()
    }

    fn restore(&self) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            self.point.restore_dirty(before);
        }
    }
}
