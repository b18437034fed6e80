//! Copies one entry after the other and keeps everything that a tree has: contents with their holes,
//! modes, owners, times, hard and symbolic links, special files and extended attributes.
//!
//! It never runs in parallel: what it measures is one program using the mount.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use strongroom_harness::failure::{Context, Result};
use strongroom_harness::packages;

const PIECE: usize = 1 << 20;
/// Room for the names and for one value; the kernel's limit for both is 64 KiB.
const XATTR_MAX: usize = 64 << 10;

/// How much to gather at most; with a quota, what cannot be copied is passed over.
#[derive(Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Larger files are left out.
    pub(crate) file_bytes_max: u64,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    /// Entries that are not directories.
    pub(crate) files: u64,
    /// Content that was really there, holes not counted.
    pub(crate) bytes: u64,
}

/// Copies trees; one value remembers hard links across calls.
pub(crate) struct Copier {
    links: HashMap<(u64, u64), PathBuf>,
    piece: Vec<u8>,
    quota: Option<Quota>,
    pub(crate) copied: Copied,
    /// Entries that a copier with a quota could not copy.
    pub(crate) passed_over: u64,
}

impl Copier {
    pub(crate) fn new(quota: Option<Quota>) -> Self {
        Self {
            links: HashMap::new(),
            piece: vec![0; PIECE],
            quota,
            copied: Copied::default(),
            passed_over: 0,
        }
    }

    /// Copies what is below `from` to below `to`, which exists, and gives `to` the metadata of `from`.
    pub(crate) fn tree(&mut self, from: &Path, to: &Path) -> Result {
        let mut names: Vec<_> = fs::read_dir(from)
            .context(from.display())?
            .map(|entry| entry.map(|e| e.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort();
        for name in names {
            if self.is_full() {
                break;
            }
            let (source, target) = (from.join(&name), to.join(&name));
            match self.entry(&source, &target) {
                // Gathering takes what it can read.
                Err(_) if self.quota.is_some() => self.passed_over += 1,
                outcome => outcome.context(format_args!("copying {}", source.display()))?,
            }
        }
        keep_metadata(from, to, &fs::symlink_metadata(from)?)
    }

    fn is_full(&self) -> bool {
        self.quota.is_some_and(|quota| self.copied.files >= quota.files && self.copied.bytes >= quota.bytes)
    }

    fn entry(&mut self, from: &Path, to: &Path) -> Result {
        let metadata = fs::symlink_metadata(from)?;
        if metadata.is_dir() {
            fs::create_dir(to)?;
            return self.tree(from, to);
        }
        if self.quota.is_some_and(|quota| metadata.len() > quota.file_bytes_max) {
            return Ok(());
        }
        self.copied.files += 1;
        if metadata.nlink() > 1 {
            let key = (metadata.dev(), metadata.ino());
            if let Some(first) = self.links.get(&key) {
                return Ok(fs::hard_link(first, to)?);
            }
            self.links.insert(key, to.to_path_buf());
        }
        if metadata.is_file() {
            self.copied.bytes += self.contents(from, to, metadata.len())?;
        } else if metadata.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
        } else {
            make_special(to, &metadata)?;
        }
        keep_metadata(from, to, &metadata)
    }

    fn contents(&mut self, from: &Path, to: &Path, length: u64) -> Result<u64> {
        let mut source = File::open(from)?;
        let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
        let mut copied = 0;
        let mut at = 0;
        while let Some((start, end)) = data_range(&source, at, length)? {
            source.seek(SeekFrom::Start(start))?;
            target.seek(SeekFrom::Start(start))?;
            copied += self.range(&mut source, &mut target, end - start)?;
            at = end;
        }
        if at < length || length == 0 {
            target.set_len(length)?;
        }
        Ok(copied)
    }

    fn range(&mut self, source: &mut File, target: &mut File, mut left: u64) -> Result<u64> {
        let mut copied = 0;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let got = source.read(&mut self.piece[..want])?;
            if got == 0 {
                break;
            }
            target.write_all(&self.piece[..got])?;
            copied += got as u64;
            left -= got as u64;
        }
        Ok(copied)
    }
}

/// The next range with data at or after `at`, if there is one before `length`.
pub(crate) fn data_range(file: &File, at: u64, length: u64) -> Result<Option<(u64, u64)>> {
    if at >= length {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?;
    Ok(Some((start, end.min(length))))
}

fn make_special(path: &Path, metadata: &Metadata) -> Result {
    let kind = metadata.file_type();
    let kind = if kind.is_fifo() {
        FileType::Fifo
    } else if kind.is_socket() {
        FileType::Socket
    } else if kind.is_char_device() {
        FileType::CharacterDevice
    } else {
        FileType::BlockDevice
    };
    Ok(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), metadata.rdev())?)
}

/// Owner first, because a change of owner clears the set-user-id bit; times last.
///
/// An ordinary user owns the copies himself and cannot set what only root may.
fn keep_metadata(from: &Path, to: &Path, metadata: &Metadata) -> Result {
    let new = fs::symlink_metadata(to)?;
    let is_root = packages::is_root();
    if is_root && (new.uid(), new.gid()) != (metadata.uid(), metadata.gid()) {
        std::os::unix::fs::lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    for (name, value) in xattrs(from)? {
        if !is_root && (name.starts_with(b"security.") || name.starts_with(b"trusted.")) {
            continue;
        }
        rustix::fs::lsetxattr(to, name.as_slice(), &value, XattrFlags::empty())
            .context(format_args!("setting {}", String::from_utf8_lossy(&name)))?;
    }
    if !metadata.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: metadata.atime(), tv_nsec: metadata.atime_nsec() },
        last_modification: Timespec { tv_sec: metadata.mtime(), tv_nsec: metadata.mtime_nsec() },
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Names and values, in the order of their names; ACLs are among them.
pub(crate) fn xattrs(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; XATTR_MAX];
    let length = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; XATTR_MAX];
        let length = rustix::fs::lgetxattr(path, std::ffi::OsStr::from_bytes(name), value.as_mut_slice())?;
        value.truncate(length);
        found.push((name.to_vec(), value));
    }
    found.sort();
    Ok(found)
}
