//! Homes that directories had before they were renamed. Each is the name of an
//! empty file in the directory's record, and is removed once a barrier has
//! covered the rename: before, a crash may leave the directory there.
//!
//! Part of the table, since the committer's barriers cover them.

use strongroom_store::{InodeId, NodeRef};

use super::Contents;
use super::table::Table;
use crate::context::Context;

/// A home that a directory has left.
pub(crate) struct StaleHome {
    /// The directory.
    pub(crate) directory: InodeId,
    /// Its record.
    pub(crate) record: NodeRef,
    /// The name in it.
    pub(crate) name: Vec<u8>,
}

/// Homes that wait, each with how many barriers had begun.
#[derive(Default)]
pub(crate) struct StaleHomes(Vec<(u64, StaleHome)>);

impl Contents {
    /// A directory has been renamed.
    pub(crate) fn note_stale_home(&self, stale: StaleHome) {
        let begun = self.context.barriers.begun();
        self.context.table.stale_homes().0.push((begun, stale));
        self.context.wake_if_many();
    }

    /// A directory is going to stand under a home again that may be waiting to
    /// be removed.
    pub(crate) fn keep_home(&self, directory: InodeId, name: &[u8]) {
        let is_it = |stale: &StaleHome| stale.directory == directory && stale.name == name;
        self.context.table.stale_homes().0.retain(|(_, stale)| !is_it(stale));
    }
}

/// Removes the homes whose renames a barrier has covered. One that stays, for
/// an error or a crash, lets the directory stand under a name that it had.
pub(crate) fn remove_covered(context: &Context) {
    // Held for as long as it takes: a rename back waits, and makes it anew.
    let mut homes = context.table.stale_homes();
    homes.0.retain(|(begun, stale)| {
        let is_covered = context.barriers.covers(*begun);
        if is_covered {
            let _ = stale.record.remove(&stale.name);
        }
        !is_covered
    });
}

impl Table {
    /// Whether any home waits for a barrier.
    pub(crate) fn has_stale_homes(&self) -> bool {
        !self.stale_homes().0.is_empty()
    }

    pub(super) fn stale_homes_count(&self) -> usize {
        self.stale_homes().0.len()
    }
}
