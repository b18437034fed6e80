//! Keeping what settling would throw away. While a crashed session is listed,
//! a file that was never made durable is cut to what verifies, or to nothing.
//! Whether a crash, a faulty disk or somebody else spoiled it cannot be told,
//! so the stored file is copied to `.strongroom/aside/` first, durably.
//!
//! A copy is named by the file id that its first sector gives, or `unknown`,
//! and by the stored inode. Doing it twice replaces the first copy, so that a
//! crash between the copy and the cut does no harm.

use strongroom_engine::Buffer;
use strongroom_format::vault::WriteSession;
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_store::{NodeRef, RenameMode};
use strongroom_units::PAGE_LEN;

use super::Opened;
use crate::context::Context;
use crate::error::Result;
use crate::header_file::PRIVATE;
use crate::reading::read_at;

/// In the vault's own directory: copies of what settling has cut.
const ASIDE: &[u8] = b"aside";

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

/// The session that sealed the header page whose beginning this is, as far as
/// its clear part tells. Nothing of it is authenticated.
pub(super) fn sealed_in(page: &[u8]) -> Option<WriteSession> {
    let nonce = clear(page)?.nonce;
    Some(WriteSession(*nonce.first_chunk().expect("a nonce begins with its session")))
}

fn clear(page: &[u8]) -> Option<PageHeader> {
    PageHeader::decode(page.first_chunk::<CLEAR_LEN>()?).ok()
}

/// Copies a stored file aside, durably; false when it holds nothing but zeros.
///
/// # Errors
/// What the store reported, for lack of space too; the stored file is as it
/// was then.
pub(super) fn keep(context: &Context, opened: &Opened) -> Result<bool> {
    let len = opened.file.len()?;
    let mut buffer = Buffer::new(STEP);
    let read = read_at(&*opened.file, &mut buffer, 0)?;
    let id = clear(&buffer[..read]).map_or_else(|| "unknown".to_owned(), |header| header.file.to_string());
    let name = format!("{id}.{}", opened.node.id().inode).into_bytes();
    let directory = directory(context)?;
    let passing = [&name[..], b".new"].concat();
    match directory.remove(&passing) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let (_, copy) = directory.create(&passing, 0o600)?;
    let mut kept = false;
    let mut at = 0;
    while at < len {
        let read = read_at(&*opened.file, &mut buffer, at)?;
        if read == 0 {
            break;
        }
        for (index, page) in buffer[..read].chunks(PAGE_LEN).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                copy.write_at(page, at + (index * PAGE_LEN) as u64)?;
                kept = true;
            }
        }
        at += read as u64;
    }
    if !kept {
        directory.remove(&passing)?;
        return Ok(false);
    }
    copy.set_len(len)?;
    copy.sync_all()?;
    directory.rename(&passing, &*directory, &name, RenameMode::Replace)?;
    directory.sync()?;
    Ok(true)
}

/// The directory of what is kept, made where it is missing.
pub(crate) fn directory(context: &Context) -> Result<NodeRef> {
    let private = context.store.root().lookup(PRIVATE)?;
    match private.lookup(ASIDE) {
        Err(error) if error.is_not_found() => {
            let made = match private.make_directory(ASIDE, 0o700) {
                Err(error) if error.is_exists() => private.lookup(ASIDE)?,
                made => made?,
            };
            private.sync()?;
            Ok(made)
        }
        found => Ok(found?),
    }
}
