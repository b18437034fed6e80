//! The kinds of request.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A kind of request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Opcode {
            $($(#[$doc])* $name = $number,)*
        }

        impl Opcode {
            /// All of them, by rising number.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// From the number on the wire; `None` when it is unknown.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Option<Opcode> {
                match raw {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn raw(self) -> u32 {
                self as u32
            }

            /// The operation's usual name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => $text,)*
                }
            }
        }
    };
}

opcodes! {
    /// Find a name in a directory.
    Lookup = 1, "lookup";
    /// Give back lookups of a node; no reply.
    Forget = 2, "forget";
    /// Read attributes.
    GetAttr = 3, "getattr";
    /// Change attributes.
    SetAttr = 4, "setattr";
    /// Read a symbolic link.
    ReadLink = 5, "readlink";
    /// Make a symbolic link.
    SymLink = 6, "symlink";
    /// Make a node.
    MkNod = 8, "mknod";
    /// Make a directory.
    MkDir = 9, "mkdir";
    /// Remove a name.
    Unlink = 10, "unlink";
    /// Remove a directory.
    RmDir = 11, "rmdir";
    /// Rename without flags.
    Rename = 12, "rename";
    /// Make a further name.
    Link = 13, "link";
    /// Open a file.
    Open = 14, "open";
    /// Read a file.
    Read = 15, "read";
    /// Write a file.
    Write = 16, "write";
    /// Space and limits.
    StatFs = 17, "statfs";
    /// The last descriptor of an open file is gone.
    Release = 18, "release";
    /// Make a file durable.
    Fsync = 20, "fsync";
    /// Set an extended attribute.
    SetXattr = 21, "setxattr";
    /// Read an extended attribute.
    GetXattr = 22, "getxattr";
    /// List extended attributes.
    ListXattr = 23, "listxattr";
    /// Remove an extended attribute.
    RemoveXattr = 24, "removexattr";
    /// A descriptor was closed.
    Flush = 25, "flush";
    /// The first request: what both sides can do.
    Init = 26, "init";
    /// Open a directory.
    OpenDir = 27, "opendir";
    /// List a directory.
    ReadDir = 28, "readdir";
    /// The last descriptor of an open directory is gone.
    ReleaseDir = 29, "releasedir";
    /// Make a directory durable.
    FsyncDir = 30, "fsyncdir";
    /// Test a record lock.
    GetLk = 31, "getlk";
    /// Set a record lock.
    SetLk = 32, "setlk";
    /// Set a record lock, waiting for it.
    SetLkW = 33, "setlkw";
    /// Check permissions.
    Access = 34, "access";
    /// Make and open a file.
    Create = 35, "create";
    /// The caller of another request was hit by a signal.
    Interrupt = 36, "interrupt";
    /// Map a file's block to the device's.
    Bmap = 37, "bmap";
    /// The file system is unmounted.
    Destroy = 38, "destroy";
    /// A device control.
    Ioctl = 39, "ioctl";
    /// Wait for readiness.
    Poll = 40, "poll";
    /// Answer to a notification.
    NotifyReply = 41, "notify_reply";
    /// Give back lookups of many nodes; no reply.
    BatchForget = 42, "batch_forget";
    /// Allocate, zero or punch.
    Fallocate = 43, "fallocate";
    /// List a directory with attributes.
    ReadDirPlus = 44, "readdirplus";
    /// Rename with flags.
    Rename2 = 45, "rename2";
    /// Find data or a hole.
    Lseek = 46, "lseek";
    /// Copy inside the file system, lengths below 4 GiB.
    CopyFileRange = 47, "copy_file_range";
    /// Map for direct access.
    SetupMapping = 48, "setupmapping";
    /// Unmap.
    RemoveMapping = 49, "removemapping";
    /// Make everything durable.
    SyncFs = 50, "syncfs";
    /// Make a file without a name.
    TmpFile = 51, "tmpfile";
    /// Extended attributes of a node: birth time and more.
    Statx = 52, "statx";
    /// Copy inside the file system, any length.
    CopyFileRange64 = 53, "copy_file_range_64";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_opcodes_agree() {
        for &opcode in Opcode::ALL {
            assert_eq!(Opcode::from_raw(opcode.raw()), Some(opcode));
        }
        assert!(Opcode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        for unknown in [0, 7, 19, 54, 4096, u32::MAX] {
            assert_eq!(Opcode::from_raw(unknown), None);
        }
    }
}
