//! Keeping what a crash takes away. A file that was never made durable is
//! removed when a crash has left it torn. Whether the crash, a faulty disk or
//! somebody else spoiled it cannot be told, so its stored file goes to
//! `.strongroom/aside/`.
//!
//! It is named there by the file id that its first sector gives, or `unknown`,
//! and by the stored inode.

use strongroom_engine::Buffer;
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_format::vault::special::{Head, head};
use strongroom_format::vault::{FileId, WriteSession};
use strongroom_store::{Access, File, Node, NodeRef, RenameMode};

use crate::context::Context;
use crate::error::Result;
use crate::header_file::{own_directory, private};
use crate::reading::read_at;

/// In the vault's own directory: what crashes have taken away.
const ASIDE: &[u8] = b"aside";

/// Bytes looked at at a time.
const STEP: usize = 1 << 20;

/// The session that sealed the header page whose beginning this is, as far as
/// its clear part tells. Nothing of it is authenticated.
pub(super) fn sealed_in(page: &[u8]) -> Option<WriteSession> {
    let nonce = clear(page)?.nonce;
    Some(WriteSession(*nonce.first_chunk().expect("a nonce begins with its session")))
}

/// The file id that the beginning of a stored file gives in clear.
fn file_id(first: &[u8]) -> Option<FileId> {
    let special = || Head::decode(first.first_chunk::<{ head::LEN }>()?).ok();
    clear(first).map(|header| header.file).or_else(|| Some(special()?.file))
}

fn clear(page: &[u8]) -> Option<PageHeader> {
    PageHeader::decode(page.first_chunk::<CLEAR_LEN>()?).ok()
}

/// Takes the entry `stored` of `parent`, which is `node`, out of the tree; what
/// holds more than zeros is kept.
///
/// # Errors
/// What the store reported; the entry is as it was then.
pub(crate) fn put(context: &Context, parent: &dyn Node, stored: &[u8], node: &NodeRef) -> Result<()> {
    let file = node.open(Access::Read)?;
    let mut first = [0; CLEAR_LEN];
    let read = read_at(&*file, &mut first, 0)?;
    if is_zero(&*file)? {
        return Ok(parent.remove(stored)?);
    }
    let id = file_id(&first[..read]).map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    let name = format!("{id}.{}", node.id().inode).into_bytes();
    let directory = directory(context)?;
    // A crash may have left both names of an earlier move: then to rename one
    // over the other does nothing.
    match directory.lookup(&name) {
        Ok(kept) if kept.id() == node.id() => Ok(parent.remove(stored)?),
        _ => Ok(parent.rename(stored, &*directory, &name, RenameMode::Replace)?),
    }
}

/// Whether a stored file holds nothing but zeros.
fn is_zero(file: &dyn File) -> Result<bool> {
    let len = file.len()?;
    let mut buffer = Buffer::new(STEP);
    let mut at = 0;
    while at < len {
        let read = read_at(file, &mut buffer, at)?;
        if read == 0 {
            break;
        }
        if buffer[..read].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

/// The directory of what is kept, made where it is missing.
pub(crate) fn directory(context: &Context) -> Result<NodeRef> {
    let private = private(&*context.store)?;
    match private.lookup(ASIDE) {
        Err(error) if error.is_not_found() => {
            let made = match private.make_directory(ASIDE, 0o700) {
                Err(error) if error.is_exists() => private.lookup(ASIDE)?,
                made => made?,
            };
            private.sync()?;
            Ok(made)
        }
        found => own_directory(found?, ASIDE),
    }
}
