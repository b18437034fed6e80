//! Files whose mode, owner, times or extended attributes have changed since
//! these were last made durable: the barrier of a commit covers data alone,
//! and `fsync` promises the attributes too. Times are told from the others,
//! since a commit's record holds them. Bounded: above [`INODES_MAX`] files every
//! `fsync` counts as needing its own barrier, until the whole store is synced.

use std::collections::HashMap;
use std::mem::take;

use strongroom_store::InodeId;

/// Files that are told apart.
const INODES_MAX: usize = 1 << 16;

/// What of a file's attributes has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribute {
    /// Nothing but its times.
    Times,
    /// Mode, owner or extended attributes.
    Other,
}

/// Files with attributes that no barrier has covered.
#[derive(Debug, Default)]
pub(crate) struct Attributed {
    inodes: HashMap<InodeId, Attribute>,
    /// There are too many to tell apart.
    any: bool,
}

impl Attributed {
    /// Attributes of `inode` are about to change, or have changed.
    pub(crate) fn note(&mut self, inode: InodeId, attribute: Attribute) {
        if !self.any {
            let known = self.inodes.entry(inode).or_insert(attribute);
            *known = attribute.max(*known);
            if self.inodes.len() > INODES_MAX {
                *self = Attributed { inodes: HashMap::new(), any: true };
            }
        }
    }

    /// What of `inode` is to be made durable, to which the caller sees.
    pub(crate) fn take(&mut self, inode: InodeId) -> Option<Attribute> {
        let noted = self.inodes.remove(&inode);
        if self.any { Some(Attribute::Other) } else { noted }
    }

    /// Takes all; the caller syncs the whole store.
    pub(crate) fn take_all(&mut self) -> Attributed {
        take(self)
    }

    /// Puts back what [`Attributed::take_all`] gave: the barrier failed.
    pub(crate) fn put_back(&mut self, taken: Attributed) {
        self.any |= taken.any;
        taken.inodes.into_iter().for_each(|(inode, attribute)| self.note(inode, attribute));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_become_any() {
        let inode = |inode| InodeId { device: 1, inode };
        let mut attributed = Attributed::default();
        attributed.note(inode(1), Attribute::Other);
        attributed.note(inode(1), Attribute::Times);
        assert_eq!(attributed.take(inode(1)), Some(Attribute::Other), "the more stays noted");
        assert_eq!(attributed.take(inode(1)), None);
        (0..=INODES_MAX as u64).for_each(|number| attributed.note(inode(number), Attribute::Times));
        assert_eq!(attributed.take(inode(u64::MAX)), Some(Attribute::Other));
        assert_eq!(attributed.take(inode(u64::MAX)), Some(Attribute::Other));
        let taken = attributed.take_all();
        assert_eq!(attributed.take(inode(1)), None);
        attributed.put_back(taken);
        assert_eq!(attributed.take(inode(1)), Some(Attribute::Other));
    }
}
