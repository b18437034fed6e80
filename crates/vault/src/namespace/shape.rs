//! What a stored inode is to the user: a directory, a file, or one of those for
//! which a special record stands. A stored symlink, FIFO, socket or device node
//! is nobody's: it is never followed nor opened.

use strongroom_store::Kind;

use super::special::Record;
use crate::error::Damage;

/// What is said of stored inodes of other kinds than files and directories.
pub const FOREIGN_KIND: &str = "a stored entry is neither a regular file nor a directory";

/// What a stored inode is to the user.
pub(super) enum Shape {
    /// A file with contents.
    File,
    /// A directory.
    Directory,
    /// A symlink, FIFO, socket or device node.
    Special(Record),
    /// A stored file that is as long as a special record and none that opens
    /// here: seen as a file that cannot be opened, so that it can be removed.
    Broken(Damage),
}

impl Shape {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Shape::File | Shape::Broken(_) => Kind::File,
            Shape::Directory => Kind::Directory,
            Shape::Special(record) => record.kind(),
        }
    }

    /// Whether an inode that was found to be this is now found to be `now`. The
    /// same special record takes over what its slots say by now.
    pub(super) fn is_as(&self, now: &Shape) -> bool {
        match (self, now) {
            (Shape::File, Shape::File) | (Shape::Directory, Shape::Directory) => true,
            (Shape::Broken(one), Shape::Broken(other)) => one == other,
            (Shape::Special(one), Shape::Special(other)) => one.renew(other),
            _ => false,
        }
    }
}
