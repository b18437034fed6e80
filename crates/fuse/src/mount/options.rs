//! How to mount.

use super::error::{MountError, MountErrorKind};
use std::path::Path;

/// Who does the mounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountMethod {
    /// The system call for root, if permitted; `fusermount3` otherwise.
    #[default]
    Automatic,
    /// The system call, which needs CAP_SYS_ADMIN.
    Direct,
    /// The set-user-id program `fusermount3`.
    Fusermount,
}

/// How to mount. Permissions are always checked by the kernel
/// (`default_permissions`), and the type is always `fuse.strongroom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// What the mount table shows as the source.
    pub source: String,
    /// Let other users in. For others than root, `/etc/fuse.conf` must have
    /// `user_allow_other`.
    pub allow_other: bool,
    /// No writing.
    pub read_only: bool,
    /// Honour set-user-id and set-group-id bits; root only.
    pub allow_suid: bool,
    /// Honour device nodes; root only.
    pub allow_devices: bool,
    /// No programs.
    pub no_exec: bool,
    /// Hide what the mount point holds instead of refusing.
    pub allow_nonempty: bool,
    /// Who does the mounting.
    pub method: MountMethod,
}

/// File system type without its prefix.
pub(super) const SUBTYPE: &str = "strongroom";

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            source: SUBTYPE.to_owned(),
            allow_other: false,
            read_only: false,
            allow_suid: false,
            allow_devices: false,
            no_exec: false,
            allow_nonempty: false,
            method: MountMethod::Automatic,
        }
    }
}

impl MountOptions {
    /// Refuses a source that the mount table could not show.
    pub(super) fn check(&self) -> Result<(), MountError> {
        if self.source.is_empty() || self.source.chars().any(|c| c.is_control()) {
            return Err(MountError::new(MountErrorKind::Source, Path::new(&self.source)));
        }
        Ok(())
    }
}
