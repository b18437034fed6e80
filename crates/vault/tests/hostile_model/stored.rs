//! A stored tree in the attacker's hands: its entries, and copies of them from
//! one store into another. Nothing here knows what the bytes mean.

use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, FileRef, Kind, NodeRef, RenameMode, Store, XattrMode};

/// Bytes of a stored page.
pub(crate) const PAGE: u64 = 4096;

/// The vault's own directory.
pub(crate) const PRIVATE: &[u8] = b".strongroom";

/// A stored path: its components from the top.
pub(crate) type Path = Vec<Vec<u8>>;

/// An entry of a stored tree.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) path: Path,
    pub(crate) kind: Kind,
}

impl Stored {
    pub(crate) fn name(&self) -> &[u8] {
        self.path.last().expect("a path has a name")
    }

    pub(crate) fn parent(&self) -> &[Vec<u8>] {
        &self.path[..self.path.len() - 1]
    }

    /// Of the vault's own, as records and side files are.
    pub(crate) fn is_hidden(&self) -> bool {
        self.name().starts_with(b".")
    }
}

/// Every entry of a store, from the top down.
pub(crate) fn entries(store: &MemoryStore) -> Vec<Stored> {
    let mut found = Vec::new();
    below(&store.root(), &mut Vec::new(), &mut found);
    found
}

fn below(directory: &NodeRef, path: &mut Path, found: &mut Vec<Stored>) {
    for entry in directory.entries().expect("a directory of a store in memory") {
        let Ok(node) = directory.lookup(&entry.name) else { continue };
        path.push(entry.name);
        found.push(Stored { path: path.clone(), kind: node.kind() });
        if node.kind() == Kind::Directory {
            below(&node, path, found);
        }
        path.pop();
    }
}

/// What stands at a path.
pub(crate) fn at(store: &MemoryStore, path: &[Vec<u8>]) -> Option<NodeRef> {
    path.iter().try_fold(store.root(), |node, name| node.lookup(name).ok())
}

/// The id that a stored file or special record gives in clear.
pub(crate) fn id_of(node: &NodeRef) -> Option<[u8; 16]> {
    let mut clear = [0; 40];
    let read = node.open(Access::Read).ok()?.read_at(&mut clear, 0).ok()?;
    match &clear[..4] {
        b"SRpg" if read >= 32 => clear[16..32].try_into().ok(),
        b"SRsp" if read >= 40 => clear[24..40].try_into().ok(),
        _ => None,
    }
}

/// A regular file's content, for changing.
pub(crate) fn file_at(store: &MemoryStore, path: &[Vec<u8>]) -> Option<FileRef> {
    at(store, path).filter(|node| node.kind() == Kind::File)?.open(Access::ReadWrite).ok()
}

/// Removes an entry with all that is below it.
pub(crate) fn remove(directory: &NodeRef, name: &[u8]) {
    let Ok(node) = directory.lookup(name) else { return };
    if node.kind() == Kind::Directory {
        for entry in node.entries().unwrap_or_default() {
            remove(&node, &entry.name);
        }
        let _ = directory.remove_directory(name);
    } else {
        let _ = directory.remove(name);
    }
}

/// Copies an inode with all that is below it to a name where nothing stands
/// then.
pub(crate) fn copy(from: &NodeRef, to: &NodeRef, name: &[u8]) {
    remove(to, name);
    let Ok(attributes) = from.attributes() else { return };
    let made = match from.kind() {
        Kind::File => to.create(name, attributes.mode).map(|(node, file)| {
            if let Ok(source) = from.open(Access::Read) {
                copy_bytes(&source, &file, 0..u64::MAX, 0);
            }
            node
        }),
        Kind::Directory => to.make_directory(name, attributes.mode).inspect(|made| {
            for entry in from.entries().unwrap_or_default() {
                if let Ok(child) = from.lookup(&entry.name) {
                    copy(&child, made, &entry.name);
                }
            }
        }),
        Kind::Symlink => from.read_link().and_then(|target| to.make_symlink(name, &target)),
        kind => to.make_special(name, kind, attributes.mode, attributes.device),
    };
    if let Ok(made) = made {
        copy_attributes(from, &made);
    }
}

/// Gives an inode the extended attributes of another, and no others.
pub(crate) fn copy_attributes(from: &NodeRef, to: &NodeRef) {
    for name in to.xattr_names().unwrap_or_default() {
        let _ = to.remove_xattr(&name);
    }
    for name in from.xattr_names().unwrap_or_default() {
        if let Ok(value) = from.xattr(&name) {
            let _ = to.set_xattr(&name, &value, XattrMode::Any);
        }
    }
}

/// Makes a file hold exactly what another does.
pub(crate) fn replace(from: &FileRef, to: &FileRef) {
    let _ = to.set_len(0);
    copy_bytes(from, to, 0..u64::MAX, 0);
}

/// Copies a range of bytes, as far as there are any, to `offset`; holes stay
/// holes where nothing was.
pub(crate) fn copy_bytes(from: &FileRef, to: &FileRef, range: std::ops::Range<u64>, offset: u64) {
    let (Ok(source), Ok(len)) = (from.len(), to.len()) else { return };
    let end = range.end.min(source);
    let mut page = [0; PAGE as usize];
    let mut at = range.start;
    while at < end {
        let count = (end - at).min(PAGE) as usize;
        let target = offset + (at - range.start);
        if from.read_at(&mut page[..count], at) != Ok(count) {
            return;
        }
        if target < len || page[..count].iter().any(|&byte| byte != 0) {
            let _ = to.write_at(&page[..count], target);
        }
        at += count as u64;
    }
    let behind = offset + end.saturating_sub(range.start);
    if to.len().is_ok_and(|len| len < behind) {
        let _ = to.set_len(behind);
    }
}

/// Moves an entry, over another or in exchange with it.
pub(crate) fn rename(store: &MemoryStore, from: &[Vec<u8>], to: &[Vec<u8>], mode: RenameMode) {
    let (Some((name, parent)), Some((to_name, to_parent))) = (from.split_last(), to.split_last()) else {
        return;
    };
    if let (Some(parent), Some(to_parent)) = (at(store, parent), at(store, to_parent)) {
        let _ = parent.rename(name, &*to_parent, to_name, mode);
    }
}
