//! Homes that directories had before they were renamed. Each is the name of an
//! empty file in the directory's record, and is removed once a barrier has
//! covered the rename: before, a crash may leave the directory there.

use strongroom_store::{InodeId, NodeRef};

use crate::barriers::Barriers;

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

impl StaleHomes {
    /// A directory has been renamed.
    pub(crate) fn note(&mut self, stale: StaleHome, barriers_begun: u64) {
        self.0.push((barriers_begun, stale));
    }

    /// A directory is going to stand under a home again that may be waiting to
    /// be removed.
    pub(crate) fn keep(&mut self, directory: InodeId, name: &[u8]) {
        self.0.retain(|(_, stale)| stale.directory != directory || stale.name != name);
    }

    /// Removes the homes whose renames a barrier has covered. One that stays,
    /// for an error or a crash, lets the directory stand under a name that it
    /// had.
    pub(crate) fn remove_covered(&mut self, barriers: &Barriers) {
        self.0.retain(|(begun, stale)| {
            let is_covered = barriers.covers(*begun);
            if is_covered {
                let _ = stale.record.remove(&stale.name);
            }
            !is_covered
        });
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
