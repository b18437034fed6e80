//! The inodes of a store in memory, and the small changes ("deltas") that
//! every directory and metadata operation consists of. Trees share what they
//! have in common, so that a copy is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::body::FileBody;
use crate::{Kind, Timestamp};

/// The number of the top directory.
pub(crate) const ROOT: u64 = 1;

/// What an inode has beside its content.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: u64,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) xattrs: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// A file that was made without a name may be given one.
    pub(crate) linkable: bool,
}

/// The entries of a directory.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) parent: u64,
    pub(crate) entries: BTreeMap<Arc<[u8]>, u64>,
}

/// What an inode holds.
#[derive(Clone)]
pub(crate) enum Body {
    File(FileBody),
    Directory(Directory),
    Symlink(Arc<[u8]>),
    Special,
}

/// One inode.
#[derive(Clone)]
pub(crate) struct Inode {
    pub(crate) meta: Meta,
    pub(crate) body: Body,
}

/// One step of a directory or metadata operation.
#[derive(Clone)]
pub(crate) enum Delta {
    /// A new inode; a file's content is empty.
    Insert { inode: u64, content: Arc<Inode> },
    /// New metadata.
    SetMeta { inode: u64, meta: Box<Meta> },
    /// A name is added or now means another inode.
    PutEntry { directory: u64, name: Arc<[u8]>, inode: u64 },
    /// A name is gone.
    DropEntry { directory: u64, name: Arc<[u8]> },
    /// A directory moved.
    SetParent { directory: u64, parent: u64 },
}

impl Delta {
    /// The inodes whose own record on the disk this step changes.
    pub(crate) fn touches(&self) -> u64 {
        match self {
            Delta::Insert { inode, .. } | Delta::SetMeta { inode, .. } => *inode,
            Delta::PutEntry { directory, .. }
            | Delta::DropEntry { directory, .. }
            | Delta::SetParent { directory, .. } => *directory,
        }
    }
}

/// All inodes of a store.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    inodes: BTreeMap<u64, Arc<Inode>>,
}

impl Tree {
    pub(crate) fn inode(&self, number: u64) -> Option<&Arc<Inode>> {
        self.inodes.get(&number)
    }

    /// The inode for changing; what other trees share is copied first.
    pub(crate) fn inode_mut(&mut self, number: u64) -> Option<&mut Inode> {
        self.inodes.get_mut(&number).map(Arc::make_mut)
    }

    /// The content of the regular file `number`.
    pub(crate) fn file(&self, number: u64) -> Option<&FileBody> {
        match &self.inodes.get(&number)?.body {
            Body::File(body) => Some(body),
            _ => None,
        }
    }

    /// The content of the regular file `number`, for changing.
    pub(crate) fn file_mut(&mut self, number: u64) -> Option<&mut FileBody> {
        match &mut self.inode_mut(number)?.body {
            Body::File(body) => Some(body),
            _ => None,
        }
    }

    fn directory_mut(&mut self, number: u64) -> Option<&mut Directory> {
        match &mut self.inode_mut(number)?.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// All inode numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.inodes.keys().copied()
    }

    /// Does one step. Steps on inodes that are gone have no effect.
    pub(crate) fn apply(&mut self, delta: &Delta) {
        match delta {
            Delta::Insert { inode, content } => {
                self.inodes.insert(*inode, Arc::clone(content));
            }
            Delta::SetMeta { inode, meta } => {
                if let Some(found) = self.inode_mut(*inode) {
                    found.meta = Meta::clone(meta);
                }
            }
            Delta::PutEntry { directory, name, inode } => {
                if let Some(found) = self.directory_mut(*directory) {
                    found.entries.insert(Arc::clone(name), *inode);
                }
            }
            Delta::DropEntry { directory, name } => {
                if let Some(found) = self.directory_mut(*directory) {
                    found.entries.remove(name);
                }
            }
            Delta::SetParent { directory, parent } => {
                if let Some(found) = self.directory_mut(*directory) {
                    found.parent = *parent;
                }
            }
        }
    }

    /// Forgets inodes that have no name left, except where `keep` says so.
    pub(crate) fn prune(&mut self, keep: impl Fn(u64) -> bool) {
        self.inodes.retain(|&number, inode| inode.meta.links > 0 || keep(number));
    }

    /// Forgets one inode.
    pub(crate) fn forget(&mut self, number: u64) {
        self.inodes.remove(&number);
    }

    /// A hash over all that can be read by name: kinds, modes, owners, device
    /// numbers, extended attributes, link structure, targets, lengths and
    /// contents. Times, inode numbers and the allocation are left out.
    pub(crate) fn fingerprint(&self) -> u128 {
        let mut hash = Sha256::new();
        let mut seen = BTreeMap::from([(ROOT, 0)]);
        let mut expanded = BTreeSet::new();
        let mut waiting = vec![ROOT];
        while let Some(number) = waiting.pop() {
            let Some(inode) = self.inode(number) else { continue };
            if expanded.insert(number) {
                hash_inode(&mut hash, inode);
                if let Body::Directory(directory) = &inode.body {
                    for (name, &child) in &directory.entries {
                        let next = seen.len() as u64;
                        let ordinal = *seen.entry(child).or_insert(next);
                        hash_bytes(&mut hash, name);
                        hash.update(ordinal.to_le_bytes());
                        waiting.push(child);
                    }
                }
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        u128::from_le_bytes(digest[..16].try_into().expect("a digest has 32 bytes"))
    }
}

fn hash_bytes(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn hash_inode(hash: &mut Sha256, inode: &Inode) {
    let meta = &inode.meta;
    hash.update([meta.kind as u8]);
    for number in [meta.mode, meta.uid, meta.gid] {
        hash.update(number.to_le_bytes());
    }
    hash.update(meta.device.to_le_bytes());
    hash.update((meta.xattrs.len() as u64).to_le_bytes());
    for (name, value) in meta.xattrs.iter() {
        hash_bytes(hash, name);
        hash_bytes(hash, value);
    }
    match &inode.body {
        Body::File(body) => {
            hash.update(body.len().to_le_bytes());
            let mut content = Sha256::new();
            body.pages().digest_into(&mut content);
            hash.update(content.finalize());
        }
        Body::Directory(directory) => hash.update((directory.entries.len() as u64).to_le_bytes()),
        Body::Symlink(target) => hash_bytes(hash, target),
        Body::Special => (),
    }
}
