//! The vault header as two stored files, and a third that takes their place in
//! turn, so that a header can be written on a full store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use strongroom_format::vault::header::{Header, LEN};
use strongroom_keys::RootKey;
use strongroom_store::{Access, FileRef, Kind, NodeRef, RenameMode, Store};

use crate::error::{Damage, Error, Result, errno};
use crate::reading::read_at;
use crate::rules::{Rule, Rules};

/// Is told of each vault header that this process has written durably.
pub type HeaderWitness = Arc<dyn Fn(&Header) + Send + Sync>;

/// The vault's own directory.
pub(crate) const PRIVATE: &[u8] = b".strongroom";

/// The copies of the vault header in it.
pub(crate) const COPIES: [&[u8]; 2] = [b"header.0", b"header.1"];

/// Where the next header is written before it becomes a copy.
const SPARE: &[u8] = b"header.spare";

/// What a directory is called that stood in the place of one of these.
const FOREIGN: &[u8] = b"header.foreign";

/// What stores say that have no exchange of names.
pub(crate) const CANNOT_EXCHANGE: [i32; 3] = [errno::EINVAL, errno::EOPNOTSUPP, errno::ENOSYS];

/// How often a copy is read again that was exchanged while it was read.
const READS_MAX: usize = 8;

/// The vault's own directory.
///
/// # Errors
/// Damage when something else stands in its place, or what the store reports.
pub(crate) fn private(store: &dyn Store) -> Result<NodeRef> {
    let node = store.root().lookup(PRIVATE)?;
    match node.kind() {
        Kind::Directory => Ok(node),
        _ => Err(Error::Damaged(Damage::Name("`.strongroom` is something else than a directory"))),
    }
}

/// A directory in it, of this name; where it is missing it is made when it is
/// needed.
///
/// # Errors
/// Damage when `node`, which was found there, is something else.
pub(crate) fn own_directory(node: NodeRef, name: &[u8]) -> Result<NodeRef> {
    if node.kind() == Kind::Directory {
        return Ok(node);
    }
    Err(Error::Damaged(Damage::Name(match name {
        b"temporary" => "`.strongroom/temporary` is something else than a directory: move it away",
        b"aside" => "`.strongroom/aside` is something else than a directory: move it away",
        // It holds something.
        _ => "`.strongroom/links` is something else than a directory: put it back from a backup",
    })))
}

/// The bytes of both copies, as far as they are there.
///
/// # Errors
/// Damage when something else stands in the place of `.strongroom`; what the
/// store reports. A missing copy is no error, a missing vault is.
pub fn read_header_copies(store: &dyn Store) -> Result<[Option<Vec<u8>>; 2]> {
    let private = private(store)?;
    Ok([read_copy(&private, COPIES[0])?, read_copy(&private, COPIES[1])?])
}

/// A copy that a writer exchanges meanwhile is written over once it is the
/// spare: what was read counts only if it is still the copy.
fn read_copy(private: &NodeRef, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    for _ in 0..READS_MAX {
        let node = match private.lookup(name) {
            Ok(node) => node,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if node.kind() != Kind::File {
            // Judged as a damaged copy, so that the other one is used.
            return Ok(Some(Vec::new()));
        }
        let file = node.open(Access::Read)?;
        bytes.resize(LEN + 1, 0);
        let read = read_at(&*file, &mut bytes, 0)?;
        bytes.truncate(read);
        if private.lookup(name).is_ok_and(|now| now.id() == node.id()) {
            break;
        }
    }
    Ok(Some(bytes))
}

/// Makes the copies durable as they are read now: what a writer that was
/// killed has just put in place may not be yet.
///
/// # Errors
/// What the store reports.
pub fn sync_header_copies(store: &dyn Store) -> Result<()> {
    let private = private(store)?;
    for name in COPIES {
        match private.lookup(name) {
            Ok(node) => node.open(Access::Read)?.sync_all()?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(private.sync()?)
}

/// Writes both copies, the first durably before the second, and the spare. The
/// header's date, sequence number and MAC are brought up to date.
///
/// Where there is a spare, and the store exchanges names, no space is needed.
///
/// # Errors
/// What the store reports. One whole copy is there at any time.
pub fn write_header(store: &dyn Store, header: &mut Header, root: &RootKey) -> Result<()> {
    write_header_under(Rules::STRICT, store, header, root)
}

/// The same under other rules than all.
pub(crate) fn write_header_under(
    rules: Rules,
    store: &dyn Store,
    header: &mut Header,
    root: &RootKey,
) -> Result<()> {
    let durable = rules.keeps(Rule::CopyBeforeOther);
    header.written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    strongroom_keys::slots::seal_header(header, root);
    let private = private(store)?;
    let bytes = header.encode();
    for name in COPIES {
        write_spare(&private, &bytes[..], durable)?;
        take_place(&private, name)?;
        if durable {
            private.sync()?;
        }
    }
    // The spare was a copy before, with key slots that may have been removed.
    if let Err(error) = write_spare(&private, &bytes[..], durable) {
        match private.remove(SPARE) {
            Err(gone) if !gone.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The spare holds `bytes`, durably unless a test plants that fault.
fn write_spare(private: &NodeRef, bytes: &[u8], durable: bool) -> Result<()> {
    let file = spare(private)?;
    file.write_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    if durable { Ok(file.sync_all()?) } else { Ok(()) }
}

fn spare(private: &NodeRef) -> Result<FileRef> {
    match private.lookup(SPARE) {
        Ok(node) if node.kind() == Kind::File => return Ok(node.open(Access::ReadWrite)?),
        Ok(node) => clear_spare(private, node.kind())?,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(private.create(SPARE, 0o600)?.1)
}

/// Takes away what is no file and stands where the spare, or a copy that
/// became it, should. A directory that holds something gets another name.
fn clear_spare(private: &NodeRef, kind: Kind) -> Result<()> {
    if kind != Kind::Directory {
        return Ok(private.remove(SPARE)?);
    }
    match private.remove_directory(SPARE) {
        Err(error) if error.errno() == errno::ENOTEMPTY => {
            Ok(private.rename(SPARE, &**private, FOREIGN, RenameMode::NoReplace)?)
        }
        other => Ok(other?),
    }
}

/// The spare becomes the copy `name`, and that the spare where it can.
fn take_place(private: &NodeRef, name: &[u8]) -> Result<()> {
    match private.rename(SPARE, &**private, name, RenameMode::Exchange) {
        // There is no such copy yet, or the store cannot exchange.
        Err(error) if error.is_not_found() || CANNOT_EXCHANGE.contains(&error.errno()) => {
            Ok(private.rename(SPARE, &**private, name, RenameMode::Replace)?)
        }
        other => Ok(other?),
    }
}
