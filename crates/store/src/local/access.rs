//! Opening what its own mode keeps this process out of.
//!
//! Stored inodes carry the plain mode: a file of mode 0 cannot be opened by its
//! owner, be it to make a barrier on it. It is given the owner's rights for as
//! long as it takes to open it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use super::proc_link;

/// Opens what `inode` refers to, by `open`.
///
/// # Errors
/// What `open` gives; `EACCES` also where the inode is another's.
pub(super) fn open_own(
    inode: impl AsFd,
    open: impl Fn() -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<OwnedFd> {
    match open() {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let raw = rustix::fs::fstat(&inode)?.st_mode;
    let is_directory = FileType::from_raw_mode(raw) == FileType::Directory;
    let mode = Mode::from_raw_mode(raw & 0o7777);
    let wide = mode | if is_directory { Mode::RWXU } else { Mode::RUSR | Mode::WUSR };
    let link = proc_link(inode.as_fd());
    if wide == mode || rustix::fs::chmod(&link, wide).is_err() {
        return Err(Errno::ACCESS);
    }
    let opened = open();
    // Unless somebody has set another mode meanwhile.
    if Mode::from_raw_mode(rustix::fs::fstat(&inode)?.st_mode & 0o7777) == wide {
        rustix::fs::chmod(&link, mode)?;
    }
    opened
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::OFlags;
    use rustix::thread::CapabilitySet;

    use super::*;

    /// This thread may do no more than the owner of a file.
    fn become_ordinary() -> Option<()> {
        let mut sets = rustix::thread::capabilities(None).ok()?;
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        rustix::thread::set_capabilities(None, sets).ok()
    }

    #[test]
    fn what_its_mode_keeps_out_is_opened_and_has_the_mode_it_had() {
        become_ordinary().expect("less is always allowed");
        let directory = tempfile::tempdir().expect("a directory");
        let (file, below) = (directory.path().join("file"), directory.path().join("below"));
        std::fs::write(&file, b"a").expect("written");
        std::fs::create_dir(&below).expect("made");
        for (path, kind) in [(&file, OFlags::empty()), (&below, OFlags::DIRECTORY)] {
            for mode in [0, 0o200, 0o300, 0o055] {
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mine");
                let referred = rustix::fs::open(path, OFlags::PATH, Mode::empty()).expect("referred to");
                let link = proc_link(referred.as_fd());
                let open = || rustix::fs::open(&link, OFlags::RDONLY | kind, Mode::empty());
                assert_eq!(open().err(), Some(Errno::ACCESS), "{mode:o}");
                rustix::fs::fsync(open_own(&referred, open).expect("opened")).expect("durable");
                let found = std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
                assert_eq!(found, mode, "{}", path.display());
            }
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).expect("mine");
        }
    }

    #[test]
    fn what_cannot_be_opened_for_another_reason_keeps_its_mode() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Err(Errno::IO);
        let inode = rustix::fs::open(directory.path(), OFlags::PATH, Mode::empty()).expect("referred to");
        assert_eq!(open_own(inode, open).err(), Some(Errno::IO));
    }
}
