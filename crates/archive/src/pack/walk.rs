//! The walk: names of a tree in their order, directories before what is in
//! them. Nothing is looked at but the listings of directories.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};

use crate::Error;

/// Something in the tree.
pub(super) struct Item {
    /// Its path from the directory on, which is `.` itself.
    pub(super) path: PathBuf,
    /// Its name in the archive.
    pub(super) name: Vec<u8>,
    /// As the listing says.
    pub(super) kind: FileType,
}

/// A walk under way.
pub(super) struct Walk {
    /// What is to come, the next one last.
    pending: Vec<Item>,
}

/// Opens a directory.
pub(super) fn open(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(Error::at(path))
}

impl Walk {
    /// Of a directory that is named `top` in the archive.
    pub(super) fn new(top: &[u8]) -> Walk {
        let item = Item { path: PathBuf::from("."), name: top.to_vec(), kind: FileType::Directory };
        Walk { pending: vec![item] }
    }

    /// The next items, `most` at most; none at the end.
    pub(super) fn next(&mut self, top: impl AsFd, most: usize) -> Result<Vec<Item>, Error> {
        let mut items = Vec::with_capacity(most);
        while items.len() < most
            && let Some(item) = self.pending.pop()
        {
            if item.kind == FileType::Directory {
                self.list(&top, &item)?;
            }
            items.push(item);
        }
        Ok(items)
    }

    fn list(&mut self, top: impl AsFd, directory: &Item) -> Result<(), Error> {
        let failed = || Error::at(directory.path.clone());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&top, &directory.path, flags, Mode::empty()).map_err(|e| failed()(e))?;
        let before = self.pending.len();
        for entry in Dir::new(opened).map_err(|errno| failed()(errno))? {
            let entry = entry.map_err(|errno| failed()(errno))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = match directory.path == Path::new(".") {
                true => PathBuf::from(OsStr::from_bytes(name)),
                false => directory.path.join(OsStr::from_bytes(name)),
            };
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(&top, &path)?,
                kind => kind,
            };
            let name = [&directory.name, &b"/"[..], name].concat();
            self.pending.push(Item { path, name, kind });
        }
        self.pending[before..].sort_unstable_by(|a, b| b.name.cmp(&a.name));
        Ok(())
    }
}

/// For stores whose listings do not say.
fn kind_of(top: impl AsFd, path: &Path) -> Result<FileType, Error> {
    let name =
        CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::at(path)(rustix::io::Errno::INVAL))?;
    let stat =
        rustix::fs::statat(top, &*name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).map_err(Error::at(path))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}
