//! One thing of the tree as an entry of the archive: a header as GNU tar has
//! it, PAX records before it for what that cannot say, and the content.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::walk::Item;
use crate::Error;
use crate::Pairs;

/// Longest content that is read ahead.
const SMALL_MAX: u64 = 64 << 10;
const BLOCK: usize = 512;

/// What changes when a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    len: i64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp { len: stat.st_size, modified: (stat.st_mtime, stat.st_mtime_nsec as i64) }
    }

    /// Whether a file is as it was.
    pub(super) fn is_of(&self, file: &File) -> Result<bool, Errno> {
        fstat(file).map(|stat| Stamp::of(&stat) == *self)
    }
}

/// What is written of an entry.
pub(super) enum Piece {
    /// All of it.
    Whole(Vec<u8>),
    /// Header, and what follows it.
    Large { bytes: Vec<u8>, file: File, len: u64, stamp: Stamp },
    /// What follows a header.
    Content { file: File, len: u64, stamp: Stamp },
    /// It cannot be an entry.
    Skipped,
}

/// An entry.
pub(super) struct Encoded {
    pub(super) path: PathBuf,
    pub(super) name: Vec<u8>,
    /// Device and inode of a file with several names.
    pub(super) several: Option<(u64, u64)>,
    pub(super) header: Header,
    pub(super) piece: Piece,
}

impl Encoded {
    pub(super) fn content(path: PathBuf, file: File, len: u64, stamp: Stamp) -> Encoded {
        let piece = Piece::Content { file, len, stamp };
        Encoded { path, name: Vec::new(), several: None, header: Header::new_gnu(), piece }
    }
}

/// Makes entries.
pub(super) struct Encoder {
    builder: Builder<Vec<u8>>,
    /// A file's content, one byte more than it may have.
    content: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Encoder {
        Encoder { builder: Builder::new(Vec::new()), content: vec![0; SMALL_MAX as usize + 1] }
    }

    /// The entry of `item`, below the directory `top`.
    pub(super) fn encode(&mut self, top: impl AsFd, item: Item) -> Result<Encoded, Error> {
        match item.kind {
            FileType::RegularFile => self.file(top, item),
            FileType::Directory => self.directory(top, item),
            FileType::Symlink => self.symlink(top, item),
            FileType::Socket => Ok(Encoded {
                piece: Piece::Skipped,
                header: Header::new_gnu(),
                several: None,
                name: item.name,
                path: item.path,
            }),
            _ => self.special(top, item),
        }
    }

    /// A further name of a file that was packed as `first`.
    pub(super) fn link(&mut self, name: &[u8], first: &[u8], of: &Header) -> Vec<u8> {
        let mut header = of.clone();
        header.set_entry_type(EntryType::Link);
        header.set_size(0);
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
        let target = std::path::Path::new(std::ffi::OsStr::from_bytes(first));
        let appended = self.builder.append_link(&mut header, path, target);
        appended.expect("it is written to memory, and names of a tree have no NUL");
        std::mem::take(self.builder.get_mut())
    }

    fn file(&mut self, top: impl AsFd, item: Item) -> Result<Encoded, Error> {
        let failed = |errno| Error::at(item.path.clone())(errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = openat(&top, &item.path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&opened).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::Changed(item.path));
        }
        let (mut len, mut file) = (stat.st_size.cast_unsigned(), File::from(opened));
        let mut header = header_of(&stat, EntryType::Regular);
        let small = len <= SMALL_MAX;
        if small {
            len = self.fill(&mut file, &stat, &item.path)? as u64;
        }
        header.set_size(len);
        self.records(&stat, &xattrs(&file).map_err(failed)?);
        let content = if small { &self.content[..len as usize] } else { &[] };
        append(&mut self.builder, &mut header, &item.name, content)
            .map_err(|e| Error::System(item.path.clone(), e))?;
        let bytes = std::mem::take(self.builder.get_mut());
        let piece = match small {
            true => Piece::Whole(bytes),
            false => Piece::Large { bytes, file, len, stamp: Stamp::of(&stat) },
        };
        let several = (stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino));
        Ok(Encoded { path: item.path, name: item.name, several, header, piece })
    }

    /// Reads a small file, and gives how long it is. One that the kernel makes
    /// up while it is read has another length than it is said to have.
    fn fill(&mut self, file: &mut File, stat: &Stat, path: &std::path::Path) -> Result<usize, Error> {
        let len = stat.st_size as usize;
        // One byte more tells that it is longer. Of some files without a length
        // one call gives all that there is.
        let end = if len == 0 { self.content.len() } else { len + 1 };
        let mut done = 0;
        while done < end {
            match file.read(&mut self.content[done..end]) {
                Ok(0) => break,
                // A whole read that is short is the end: one call for most files.
                Ok(read) if done == 0 && read == len => return Ok(len),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::System(path.to_owned(), error)),
            }
        }
        let is_whole = done < self.content.len() && (len == 0 || done <= len);
        let unchanged = Stamp::of(stat).is_of(file).map_err(|errno| Error::at(path)(errno))?;
        if is_whole && unchanged { Ok(done) } else { Err(Error::Changed(path.to_owned())) }
    }

    fn directory(&mut self, top: impl AsFd, mut item: Item) -> Result<Encoded, Error> {
        let failed = |errno| Error::at(item.path.clone())(errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&top, &item.path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&opened).map_err(failed)?;
        self.records(&stat, &xattrs(&opened).map_err(failed)?);
        let header = header_of(&stat, EntryType::Directory);
        item.name.push(b'/');
        self.whole(item, header)
    }

    fn symlink(&mut self, top: impl AsFd, item: Item) -> Result<Encoded, Error> {
        let failed = |errno| Error::at(item.path.clone())(errno);
        let stat = statat(&top, &item.path, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let target = readlinkat(&top, &item.path, Vec::new()).map_err(failed)?;
        self.records(&stat, &[]);
        let mut header = header_of(&stat, EntryType::Symlink);
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&item.name));
        let target = std::path::Path::new(std::ffi::OsStr::from_bytes(target.to_bytes()));
        let appended = self.builder.append_link(&mut header, path, target);
        appended.map_err(|error| Error::System(item.path.clone(), error))?;
        let piece = Piece::Whole(std::mem::take(self.builder.get_mut()));
        Ok(Encoded { path: item.path, name: item.name, several: None, header, piece })
    }

    fn special(&mut self, top: impl AsFd, item: Item) -> Result<Encoded, Error> {
        let failed = |errno| Error::at(item.path.clone())(errno);
        let stat = statat(&top, &item.path, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => EntryType::Fifo,
            FileType::CharacterDevice => EntryType::Char,
            FileType::BlockDevice => EntryType::Block,
            _ => return Err(Error::Changed(item.path)),
        };
        self.records(&stat, &[]);
        let mut header = header_of(&stat, kind);
        let numbers = [rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)];
        header
            .set_device_major(numbers[0])
            .and_then(|()| header.set_device_minor(numbers[1]))
            .map_err(|error| Error::System(item.path.clone(), error))?;
        self.whole(item, header)
    }

    fn whole(&mut self, item: Item, mut header: Header) -> Result<Encoded, Error> {
        header.set_size(0);
        append(&mut self.builder, &mut header, &item.name, &[])
            .map_err(|e| Error::System(item.path.clone(), e))?;
        let piece = Piece::Whole(std::mem::take(self.builder.get_mut()));
        Ok(Encoded { path: item.path, name: item.name, several: None, header, piece })
    }

    /// PAX records for what the header cannot say.
    fn records(&mut self, stat: &Stat, xattrs: &[(Vec<u8>, Vec<u8>)]) {
        let time = format!("{}.{:09}", stat.st_mtime, stat.st_mtime_nsec);
        let mut records = Vec::new();
        if stat.st_mtime_nsec != 0 || stat.st_mtime < 0 {
            records.push(("mtime".to_owned(), time.into_bytes()));
        }
        for (name, value) in xattrs {
            if let Ok(name) = std::str::from_utf8(name) {
                records.push((format!("{XATTR}{name}"), value.clone()));
            }
        }
        if !records.is_empty() {
            let records = records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
            self.builder.append_pax_extensions(records).expect("it is written to memory");
        }
    }
}

/// How GNU tar and star name attributes in PAX records.
pub(crate) const XATTR: &str = "SCHILY.xattr.";

fn append(
    builder: &mut Builder<Vec<u8>>,
    header: &mut Header,
    name: &[u8],
    content: &[u8],
) -> io::Result<()> {
    builder.append_data(header, std::path::Path::new(std::ffi::OsStr::from_bytes(name)), content)
}

fn header_of(stat: &Stat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(stat.st_mtime.max(0).cast_unsigned());
    header.set_size(0);
    header
}

/// Attributes of an open file, but those of the `system` namespace.
fn xattrs(file: impl AsFd) -> Result<Pairs, Errno> {
    // Most files have none.
    let mut names = vec![0; 256];
    let len = match rustix::fs::flistxattr(&file, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            names.resize(BLOCK * 128, 0);
            rustix::fs::flistxattr(&file, &mut names[..])?
        }
        Err(errno) => return Err(errno),
    };
    let mut found = Vec::new();
    for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if name.starts_with(b"system.") {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        match rustix::fs::fgetxattr(&file, name, &mut value[..]) {
            Ok(len) => value.truncate(len),
            // Gone meanwhile, or not for us to read.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => continue,
            Err(errno) => return Err(errno),
        }
        found.push((name.to_vec(), value));
    }
    Ok(found)
}
