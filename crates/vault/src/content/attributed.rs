//! Files whose mode, owner, times or extended attributes have changed since
//! these were last made durable: the barrier of a commit covers data alone,
//! and `fsync` promises the attributes too.
//!
//! Not known here: what was changed. Bounded: above [`INODES_MAX`] files every
//! `fsync` counts as needing its own barrier, until the whole store is synced.

use std::collections::HashSet;
use std::mem::take;

use strongroom_store::InodeId;

/// Files that are told apart.
const INODES_MAX: usize = 1 << 16;

/// Files with attributes that no barrier has covered.
#[derive(Debug, Default)]
pub(crate) struct Attributed {
    inodes: HashSet<InodeId>,
    /// There are too many to tell apart.
    any: bool,
}

impl Attributed {
    /// Attributes of `inode` are about to change, or have changed.
    pub(crate) fn note(&mut self, inode: InodeId) {
        if !self.any {
            self.inodes.insert(inode);
            if self.inodes.len() > INODES_MAX {
                *self = Attributed { inodes: HashSet::new(), any: true };
            }
        }
    }

    /// Whether `inode` needs a barrier, to which the caller sees.
    pub(crate) fn take(&mut self, inode: InodeId) -> bool {
        self.inodes.remove(&inode) || self.any
    }

    /// Takes all; the caller syncs the whole store.
    pub(crate) fn take_all(&mut self) -> Attributed {
        take(self)
    }

    /// Puts back what [`Attributed::take_all`] gave: the barrier failed.
    pub(crate) fn put_back(&mut self, taken: Attributed) {
        self.any |= taken.any;
        taken.inodes.into_iter().for_each(|inode| self.note(inode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_become_any() {
        let inode = |inode| InodeId { device: 1, inode };
        let mut attributed = Attributed::default();
        attributed.note(inode(1));
        assert!(attributed.take(inode(1)) && !attributed.take(inode(1)));
        (0..=INODES_MAX as u64).for_each(|number| attributed.note(inode(number)));
        assert!(attributed.take(inode(u64::MAX)) && attributed.take(inode(u64::MAX)));
        let taken = attributed.take_all();
        assert!(!attributed.take(inode(1)));
        attributed.put_back(taken);
        assert!(attributed.take(inode(1)));
    }
}
