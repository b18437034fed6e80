//! Error numbers as the kernel wants them in a reply.

use rustix::io::Errno as System;
use std::fmt;
use std::io;

/// A Linux error number that a reply may carry: 1 to 511. The kernel refuses
/// a reply with any other, so none can be made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $system:ident;)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno(System::$system.raw_os_error());)*
        }
    };
}

numbers! {
    /// Permission denied.
    ACCESS = ACCESS;
    /// Try again.
    AGAIN = AGAIN;
    /// Bad file handle.
    BADF = BADF;
    /// Data that fails its authentication, or a structure that is damaged.
    BADMSG = BADMSG;
    /// In use.
    BUSY = BUSY;
    /// The name exists.
    EXIST = EXIST;
    /// The file would be too large.
    FBIG = FBIG;
    /// Interrupted.
    INTR = INTR;
    /// Invalid argument.
    INVAL = INVAL;
    /// Input or output error.
    IO = IO;
    /// It is a directory.
    ISDIR = ISDIR;
    /// Too many symbolic links.
    LOOP = LOOP;
    /// Too many open files in this process.
    MFILE = MFILE;
    /// Too many hard links.
    MLINK = MLINK;
    /// The name is too long.
    NAMETOOLONG = NAMETOOLONG;
    /// The extended attribute does not exist.
    NODATA = NODATA;
    /// No such file or directory.
    NOENT = NOENT;
    /// Out of memory.
    NOMEM = NOMEM;
    /// No space left.
    NOSPC = NOSPC;
    /// Not implemented; for most operations the kernel never asks again.
    NOSYS = NOSYS;
    /// It is not a directory.
    NOTDIR = NOTDIR;
    /// The directory is not empty.
    NOTEMPTY = NOTEMPTY;
    /// No such control on this file.
    NOTTY = NOTTY;
    /// Not supported here.
    OPNOTSUPP = OPNOTSUPP;
    /// There is no connection.
    NOTCONN = NOTCONN;
    /// Beyond the end of what there is.
    NXIO = NXIO;
    /// A number does not fit.
    OVERFLOW = OVERFLOW;
    /// Not permitted.
    PERM = PERM;
    /// The peer speaks another protocol.
    PROTO = PROTO;
    /// A result does not fit into the room given.
    RANGE = RANGE;
    /// The file system is read-only.
    ROFS = ROFS;
    /// The file is gone behind its handle.
    STALE = STALE;
    /// The structure needs a repair.
    UCLEAN = UCLEAN;
    /// The two names lie in different file systems.
    XDEV = XDEV;
}

impl Errno {
    /// From a raw number; `IO` when it is not one a reply may carry.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Errno {
        if raw >= 1 && raw <= 511 { Errno(raw) } else { Errno::IO }
    }

    /// The positive number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl From<System> for Errno {
    fn from(error: System) -> Errno {
        Errno::from_raw(error.raw_os_error())
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno::from(&error)
    }
}

impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Errno {
        if let Some(raw) = error.raw_os_error() {
            return Errno::from_raw(raw);
        }
        match error.kind() {
            io::ErrorKind::NotFound => Errno::NOENT,
            io::ErrorKind::PermissionDenied => Errno::ACCESS,
            io::ErrorKind::AlreadyExists => Errno::EXIST,
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::OutOfMemory => Errno::NOMEM,
            io::ErrorKind::Unsupported => Errno::OPNOTSUPP,
            io::ErrorKind::StorageFull => Errno::NOSPC,
            _ => Errno::IO,
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({self})")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&io::Error::from_raw_os_error(self.0), f)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_a_reply_may_carry_are_kept() {
        for raw in [0, -5, 512, i32::MIN, i32::MAX] {
            assert_eq!(Errno::from_raw(raw), Errno::IO);
        }
        for raw in [1, 38, 511] {
            assert_eq!(Errno::from_raw(raw).raw(), raw);
        }
    }

    #[test]
    fn errors_of_the_standard_library_keep_their_number() {
        assert_eq!(Errno::from(io::Error::from_raw_os_error(28)), Errno::NOSPC);
        assert_eq!(Errno::from(io::Error::from(io::ErrorKind::NotFound)), Errno::NOENT);
        assert_eq!(Errno::from(io::Error::other("odd")), Errno::IO);
        assert_eq!(Errno::from(System::NOTEMPTY), Errno::NOTEMPTY);
    }
}
