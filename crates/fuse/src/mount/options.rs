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
/// (`default_permissions`).
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
    /// What kind of mount the mount table shows.
    pub subtype: Subtype,
    /// Longest read request in bytes, whole pages. What is read ahead comes in
    /// several of these, so that several workers answer while the program
    /// already copies, and each stays in a CPU's own cache from the store to
    /// the kernel.
    pub read_max: u32,
}

/// What a mount shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subtype {
    /// A vault: `fuse.strongroom`.
    #[default]
    Vault,
    /// An open disk: `fuse.strongroom-disk`.
    Disk,
    /// A single file: `fuse.strongroom-file`.
    File,
}

impl Subtype {
    /// File system type without its prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Subtype::Vault => "strongroom",
            Subtype::Disk => "strongroom-disk",
            Subtype::File => "strongroom-file",
        }
    }
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            source: Subtype::Vault.name().to_owned(),
            allow_other: false,
            read_only: false,
            allow_suid: false,
            allow_devices: false,
            no_exec: false,
            allow_nonempty: false,
            method: MountMethod::Automatic,
            subtype: Subtype::Vault,
            read_max: 256 << 10,
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
