//! Special records that a crash may still lose or find under another name:
//! which were made, and which were renamed, since the last barrier that covers
//! that.

use std::collections::HashMap;

use strongroom_format::vault::DirectoryId;
use strongroom_store::InodeId;

use crate::barriers::Barriers;

/// What no barrier has covered. Each entry says how many barriers had begun.
#[derive(Default)]
pub(crate) struct Specials {
    made: HashMap<InodeId, (u64, DirectoryId)>,
    moved: HashMap<InodeId, u64>,
}

impl Specials {
    /// One has been made in a directory.
    pub(crate) fn note_made(&mut self, inode: InodeId, directory: DirectoryId, barriers_begun: u64) {
        self.made.insert(inode, (barriers_begun, directory));
    }

    /// One has been made durable with its last change, or has no name any more.
    pub(crate) fn note_durable(&mut self, inode: InodeId) {
        self.made.remove(&inode);
    }

    /// One has been renamed.
    pub(crate) fn note_moved(&mut self, inode: InodeId, barriers_begun: u64) {
        self.moved.insert(inode, barriers_begun);
    }

    /// How many barriers had begun when it was renamed, unless one is known to
    /// have covered that.
    pub(crate) fn moved(&self, inode: InodeId) -> Option<u64> {
        self.moved.get(&inode).copied()
    }

    /// Whether any of a directory waits, or of all of them.
    pub(crate) fn any_made(&mut self, directory: Option<DirectoryId>, barriers: &Barriers) -> bool {
        self.forget_covered(barriers);
        self.made.values().any(|(_, of)| directory.is_none_or(|directory| *of == directory))
    }

    fn forget_covered(&mut self, barriers: &Barriers) {
        self.made.retain(|_, (begun, _)| !barriers.covers(*begun));
        self.moved.retain(|_, begun| !barriers.covers(*begun));
    }

    /// Those that were made, and in which directories.
    pub(super) fn made(&mut self, barriers: &Barriers) -> Vec<(InodeId, DirectoryId)> {
        self.forget_covered(barriers);
        self.made.iter().map(|(&inode, &(_, directory))| (inode, directory)).collect()
    }

    /// How many were made.
    pub(super) fn count(&self) -> usize {
        self.made.len()
    }
}
