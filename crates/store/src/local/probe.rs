//! What a file system under a local store can do, found by trying.
//!
//! The trials leave nothing behind; they need a writable store. They are for
//! `init`, not for every mount; whether files without names or with several can
//! be had is tried once by who asks for the first. What was made in a trial is
//! closed and found again before it is believed. [`crate::trials`] tries more,
//! for people.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::LocalStore;
use super::node::LocalNode;
use crate::{Access, Node, Result, Store, XattrMode};

/// A name that no vault uses, in the spelling that is created.
const TRIAL: &[u8] = b".strongroom-Trial-of-Case";
/// The same in another case.
const TRIAL_FOLDED: &[u8] = b".strongroom-tRIAL-OF-cASE";

/// An attribute that no vault uses.
const XATTR: &[u8] = b"user.strongroom.trial";
/// What a trial writes, and has to find again.
const TEXT: &[u8] = b"trial";

/// Whether files without a name can be made in `directory`, named there, and
/// found again with what was written, once nobody has them open. A file system
/// that only plays them (by a file that it deletes when it is closed) loses
/// what was named.
///
/// A program that serves one is not even asked: it hears of the closing some
/// time later, so that a trial finds what is lost a moment afterwards, and
/// JuiceFS leaves a name behind that leads nowhere and keeps its directory from
/// being removed.
///
/// # Errors
/// What the store reports of the trial.
pub(super) fn unnamed_in(directory: &LocalNode) -> Result<bool> {
    if directory.is_of_fuse() {
        return Ok(false);
    }
    let (node, file) = match directory.try_create_unnamed(0o600) {
        Ok(made) => made,
        // File systems and kernels without it answer as if a directory had
        // been opened for writing.
        Err(failed) if is_one_of(&failed, &[Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOSYS, Errno::INVAL]) => {
            return Ok(false);
        }
        Err(failed) => return Err(failed),
    };
    file.write_at(TEXT, 0)?;
    let name = trial_name();
    let linked = directory.link(&*node, &name);
    drop((node, file));
    if linked.is_err() {
        return Ok(false);
    }
    let read = || {
        let mut text = [0; TEXT.len() + 1];
        let len = directory.lookup(&name)?.open(Access::Read)?.read_at(&mut text, 0)?;
        Ok::<_, crate::Error>(text[..len] == *TEXT)
    };
    let found = read().unwrap_or(false);
    // Nothing is there to be removed where it was lost.
    let _ = directory.remove(&name);
    Ok(found)
}

/// Whether a file in `directory` can have two names that lead to one inode. Some
/// file systems have no further names, and not all say so in the same words;
/// on others each name looks like a file of its own, and a vault would have two
/// states of one file.
///
/// # Errors
/// What the store reports of the trial.
pub(super) fn links_in(directory: &LocalNode) -> Result<bool> {
    let (name, further) = (trial_name(), trial_name());
    let (node, file) = directory.create(&name, 0o600)?;
    let linked = directory.link_raw(&*node, &further);
    let found = directory.lookup_with_attributes(&further);
    drop(file);
    // A store that fails altogether fails here too, and has told nothing.
    directory.remove(&name)?;
    // It was found by the name that is gone; there are stores that do not know it by the other.
    let is_known = node.attributes().is_ok_and(|seen| seen.links > 0);
    if linked.is_ok() {
        // It has served, however it ends.
        let _ = directory.remove(&further);
    }
    match linked {
        Ok(()) => Ok(is_known && found.is_ok_and(|(same, seen)| same.id() == node.id() && seen.links == 2)),
        Err(failed) if is_one_of(&failed, &NO_LINKS) => Ok(false),
        Err(failed) => Err(failed),
    }
}

/// What file systems without further names say. `EIO` comes from programs that
/// serve one and have no other word.
const NO_LINKS: [Errno; 7] =
    [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::IO, Errno::MLINK, Errno::XDEV];

/// Whether extended attributes cannot be had in `directory`, although files can
/// be made there.
pub(super) fn lacks_xattrs(directory: &LocalNode) -> bool {
    let name = trial_name();
    let Ok((node, file)) = directory.create(&name, 0o600) else { return false };
    // As the system has it, not as this store makes of it.
    let local = node.as_any().downcast_ref::<LocalNode>();
    let set = local.map(|node| node.set_xattr_raw(XATTR, TEXT, XattrMode::Any));
    drop(file);
    let removed = directory.remove(&name);
    let is_lacking = |failed| is_one_of(failed, &[Errno::OPNOTSUPP, Errno::NOSYS, Errno::IO]);
    removed.is_ok() && matches!(set, Some(Err(failed)) if is_lacking(&failed))
}

fn is_one_of(failed: &crate::Error, errnos: &[Errno]) -> bool {
    errnos.iter().any(|errno| errno.raw_os_error() == failed.errno())
}

/// A name that nobody else has: spelled as a vault spells what it does not list.
fn trial_name() -> Vec<u8> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // A process that was killed in a trial may have had the same number.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".n~trial-{}-{since:x}-{next}", std::process::id()).into_bytes()
}

/// What the file system under a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Names that differ in case alone mean the same entry.
    pub case_folding: bool,
    /// Extended attributes of the `user.` class can be kept.
    pub xattrs: bool,
    /// Files can be made without a name (`O_TMPFILE`) and named later, and are
    /// there then.
    pub unnamed: bool,
}

impl LocalStore {
    /// True where names that differ in case alone mean the same entry.
    ///
    /// # Errors
    /// What the store reports; `EEXIST` when an earlier trial was killed and
    /// left its file.
    pub fn probe_case_folding(&self) -> Result<bool> {
        let root = self.root();
        root.create(TRIAL, 0o600)?;
        let found = root.lookup(TRIAL_FOLDED);
        root.remove(TRIAL)?;
        match found {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tries everything that [`Abilities`] lists.
    ///
    /// # Errors
    /// As [`LocalStore::probe_case_folding`].
    pub fn probe(&self) -> Result<Abilities> {
        let case_folding = self.probe_case_folding()?;
        let unsupported = |failed: crate::Error| failed.errno() == Errno::OPNOTSUPP.raw_os_error();
        let unnamed = unnamed_in(&self.root)?;
        let (node, file) = self.root().create(TRIAL, 0o600)?;
        let set = node.set_xattr(XATTR, TEXT, XattrMode::Any);
        drop((node, file));
        // Whoever only keeps it while the file is open has lost it by now.
        let kept = self.root().lookup(TRIAL).and_then(|node| node.xattr(XATTR));
        self.root().remove(TRIAL)?;
        let xattrs = match set {
            Ok(()) => kept.is_ok_and(|kept| kept == TEXT),
            Err(failed) if unsupported(failed) => false,
            Err(failed) => return Err(failed),
        };
        Ok(Abilities { case_folding, xattrs, unnamed })
    }
}
