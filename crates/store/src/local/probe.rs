//! What a file system under a local store can do, found by trying.
//!
//! The trials leave nothing behind; they need a writable store. They are for
//! `init`, not for every mount; whether files without names can be had is
//! tried once by who asks for the first. What was made in a trial is closed and
//! found again before it is believed.

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
/// # Errors
/// What the store reports of the trial.
pub(super) fn unnamed_in(directory: &LocalNode) -> Result<bool> {
    let (node, file) = match directory.try_create_unnamed(0o600) {
        Ok(made) => made,
        // File systems and kernels without it answer as if a directory had
        // been opened for writing.
        Err(failed)
            if [Errno::OPNOTSUPP, Errno::ISDIR].iter().any(|e| e.raw_os_error() == failed.errno()) =>
        {
            return Ok(false);
        }
        Err(failed) => return Err(failed),
    };
    file.write_at(TEXT, 0)?;
    // Spelled as a vault spells what it does not list.
    let name = format!(".n~trial-{}", std::process::id()).into_bytes();
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
