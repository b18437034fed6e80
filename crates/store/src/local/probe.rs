//! What a file system under a local store can do, found by trying.
//!
//! The trials leave nothing behind; they need a writable store. They are for
//! `init`, not for every mount.

use rustix::io::Errno;

use super::LocalStore;
use crate::{Result, Store, XattrMode};

/// A name that no vault uses, in the spelling that is created.
const TRIAL: &[u8] = b".strongroom-Trial-of-Case";
/// The same in another case.
const TRIAL_FOLDED: &[u8] = b".strongroom-tRIAL-OF-cASE";

/// What the file system under a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Names that differ in case alone mean the same entry.
    pub case_folding: bool,
    /// Extended attributes of the `user.` class can be kept.
    pub xattrs: bool,
    /// Files can be made without a name (`O_TMPFILE`) and named later.
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
        let unnamed = match self.root().create_unnamed(0o600) {
            Ok(_) => true,
            // File systems and kernels without it answer as if a directory
            // had been opened for writing.
            Err(failed) if unsupported(failed) || failed.errno() == Errno::ISDIR.raw_os_error() => false,
            Err(failed) => return Err(failed),
        };
        let (node, _) = self.root().create(TRIAL, 0o600)?;
        let set = node.set_xattr(b"user.strongroom.trial", b"1", XattrMode::Any);
        self.root().remove(TRIAL)?;
        let xattrs = match set {
            Ok(()) => true,
            Err(failed) if unsupported(failed) => false,
            Err(failed) => return Err(failed),
        };
        Ok(Abilities { case_folding, xattrs, unnamed })
    }
}
