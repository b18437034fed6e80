//! What a session that did not end cleanly has left: its journal is replayed
//! at mount, and its files are settled, each at its opening and all of them by
//! a sweep.

use std::collections::HashMap;
use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::FileId;
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_store::{Access, FileRef, Kind, NodeRef, Store};

use crate::content::{Content, Contents, Opened, checkpoint_all};
use crate::context::{Context, Recovered};
use crate::error::{Damage, Error, Result};
use crate::header_file::PRIVATE;
use crate::journal::replay::Replayed;
use crate::namespace::RECORD;
use crate::namespace::survey::{DEPTH_MAX, TOO_DEEP};
use crate::rules::Rule;

/// Stored files by id.
type Files = HashMap<FileId, (NodeRef, FileRef)>;

/// Brings home what the journals say, file by file, and makes it durable.
///
/// # Errors
/// What the store reported. Nothing is lost by trying again.
pub(crate) fn replay(context: &Arc<Context>, replayed: HashMap<FileId, Arc<Replayed>>) -> Result<()> {
    if replayed.is_empty() {
        return Ok(());
    }
    let files = find(&*context.store, &replayed)?;
    let all = Contents::new(Arc::clone(context));
    let mut contents = Vec::with_capacity(files.len());
    for (id, (node, file)) in files {
        let inode = node.id();
        let opened = Opened { node, file, doubted: false };
        match Content::open_replayed(&all, opened, &replayed[&id]) {
            Ok(content) => {
                context.note_recovered(inode, Recovered::Replayed);
                contents.push(Arc::new(content));
            }
            // It is newer than the journal, which is an old one put back, and
            // stays as it is.
            Err(Error::Damaged(Damage::Journaled)) => context.note_recovered(inode, Recovered::Newer),
            Err(error) => return Err(error),
        }
    }
    checkpoint_all(context, &contents, Rule::ReplayBeforeDelisting)?;
    if context.rules.keeps(Rule::ReplayBeforeDelisting) {
        context.store.sync_all()?;
    }
    Ok(())
}

/// Finds the stored files with these ids: first where they were last seen,
/// then by a walk over the tree. What is not found has been removed.
fn find(store: &dyn Store, wanted: &HashMap<FileId, Arc<Replayed>>) -> Result<Files> {
    let mut files = HashMap::new();
    for (&id, replayed) in wanted {
        if let Some(found) = at_hint(store, &replayed.path_hint, id) {
            files.insert(id, found);
        }
    }
    if files.len() < wanted.len() {
        walk(&store.root(), true, &mut |node| {
            if let Some((id, file)) = identify(node)
                && wanted.contains_key(&id)
            {
                files.entry(id).or_insert((Arc::clone(node), file));
            }
            files.len() < wanted.len()
        })?;
    }
    Ok(files)
}

fn at_hint(store: &dyn Store, path: &[u8], id: FileId) -> Option<(NodeRef, FileRef)> {
    let mut node = store.root();
    if path.is_empty() {
        return None;
    }
    for name in path.split(|&byte| byte == b'/') {
        node = node.lookup(name).ok()?;
    }
    let (found, file) = identify(&node)?;
    (found == id).then_some((node, file))
}

/// The id that a stored file's header page gives in clear, authenticated when
/// the file is opened.
fn identify(node: &NodeRef) -> Option<(FileId, FileRef)> {
    if node.kind() != Kind::File {
        return None;
    }
    let file = node.open(Access::ReadWrite).ok()?;
    let mut clear = Buffer::new(CLEAR_LEN);
    if file.read_at(&mut clear, 0).ok()? < CLEAR_LEN {
        return None;
    }
    let header = PageHeader::decode(clear[..].try_into().expect("the clear part's length")).ok()?;
    Some((header.file, file))
}

/// Visits every stored inode below `directory` that is no directory, until
/// `visit` says no. Holds one inode for each directory on the way down.
///
/// # Errors
/// What the store reported; damage for a tree that is deeper than any walk
/// follows.
pub(crate) fn walk(
    directory: &NodeRef,
    is_root: bool,
    visit: &mut dyn FnMut(&NodeRef) -> bool,
) -> Result<bool> {
    let names = |directory: &NodeRef| -> Result<_> {
        let names: Vec<_> = directory.entries()?.into_iter().map(|entry| entry.name).collect();
        Ok(names.into_iter())
    };
    let mut levels = vec![(Arc::clone(directory), names(directory)?)];
    while let Some((directory, rest)) = levels.last_mut() {
        let Some(name) = rest.next() else {
            levels.pop();
            continue;
        };
        if name == RECORD {
            continue;
        }
        let node = match directory.lookup(&name) {
            Ok(node) => node,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        if is_root && levels.len() == 1 && name == PRIVATE {
            continue;
        }
        if node.kind() == Kind::Directory {
            if levels.len() == DEPTH_MAX {
                return Err(Error::Damaged(Damage::Name(TOO_DEEP)));
            }
            let below = names(&node)?;
            levels.push((node, below));
        } else if !visit(&node) {
            return Ok(false);
        }
    }
    Ok(true)
}
