//! Renames that leave a whiteout, a character device of number 0, under the
//! old name: what overlayfs asks of its upper directory.
//!
//! The vault moves one entry at a time, and the kernel has both directories
//! locked for as long as a rename takes. So the whiteout is made first, under
//! a name of its own; the entry is moved; and the whiteout takes its place. A
//! power cut in between leaves the old name free, and a whiteout more in the
//! directory, which overlayfs does not show.

use rustix::rand::{GetRandomFlags, getrandom};
use strongroom_store::{Kind, RenameMode};
use strongroom_vault::namespace::{Creation, Namespace, Owner};
use strongroom_vault::{Error, Result};

use crate::filesystem::{Context, Rename};

/// How a whiteout is called until the name is free that it is for.
const PREFIX: &str = ".whiteout-";

/// Moves an entry, and leaves a whiteout. The names of both directories are
/// not changed by anybody else meanwhile.
///
/// # Errors
/// As [`Namespace::rename`] and [`Namespace::make_special`]. Nothing was moved
/// but where the last step failed, which needs no space.
pub(super) fn rename(
    namespace: &Namespace,
    context: &Context,
    rename: &Rename<'_>,
    mode: RenameMode,
) -> Result<()> {
    let (from, to) = (rename.parent.0, rename.new_parent.0);
    let aside = name()?;
    let creation = Creation { mode: 0, umask: 0, owner: Owner { uid: context.uid, gid: context.gid } };
    let made = namespace.make_special(from, &aside, Kind::CharacterDevice, 0, &creation)?;
    // The kernel has not heard of it.
    namespace.forget(made.number, 1);
    if let Err(error) = namespace.rename(from, rename.name, to, rename.new_name, mode) {
        // A whiteout that stays hides nothing.
        let _ = namespace.remove(from, &aside);
        return Err(error);
    }
    namespace.rename(from, &aside, from, rename.name, RenameMode::NoReplace)
}

fn name() -> Result<Vec<u8>> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|_| Error::Entropy)?;
    Ok(format!("{PREFIX}{:016x}", u64::from_ne_bytes(bytes)).into_bytes())
}
