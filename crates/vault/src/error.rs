//! What can go wrong in a vault, and which error number a caller sees.

use strongroom_engine::client::Failure;
use strongroom_store as store;
use strongroom_units::{BlockIndex, PlainOffset};

/// A result of the vault.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed a check of authenticity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The stored length is no image of a plain length, or not the header's.
    Length {
        /// Stored bytes found.
        stored: u64,
    },
    /// A page does not open, or does not belong where it stands.
    Page(&'static str),
    /// Blocks that do not open: `blocks` of them from `first` on.
    Blocks {
        /// The first of them.
        first: BlockIndex,
        /// How many.
        blocks: u64,
        /// Where the first begins in the plain file.
        offset: PlainOffset,
    },
    /// The file stands under a name that is not its home.
    Home,
    /// The file was never durable, and a crash or a barrier that failed has left it as
    /// it is: whoever has opened the vault for writing removes it.
    Unfinished,
    /// The stored file is newer than the journal that speaks of it.
    Journaled,
    /// A stored name, record, symlink target or attribute that does not open.
    Name(&'static str),
    /// The journal has been changed behind a durable record.
    Journal(&'static str),
    /// Authentic, and not what the freshness file records.
    Stale(Staleness),
    /// The freshness file itself is of another vault, or damaged.
    Record(&'static str),
    /// There is no freshness file, and none is to be begun.
    RecordMissing,
}

/// How something authentic differs from what the freshness file records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Staleness {
    /// The vault as a whole is older.
    Vault,
    /// A file is older.
    RolledBack,
    /// An entry is recorded and not there.
    Missing,
    /// An entry is there and not recorded.
    Unrecorded,
    /// Another file, directory or symlink stands in an entry's place.
    Exchanged,
}

impl std::fmt::Display for Staleness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Staleness::Vault => "the vault as a whole is older than its freshness file records",
            Staleness::RolledBack => "it is older than the freshness file records",
            Staleness::Missing => "it was deleted from the store: the freshness file records it",
            Staleness::Unrecorded => {
                "the freshness file does not record it: it was put back, or made without that file"
            }
            Staleness::Exchanged => {
                "the freshness file records another in its place: it was exchanged, or made without that file"
            }
        })
    }
}

/// An error of the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The store failed.
    Store(store::Error),
    /// Stored bytes are damaged or forged.
    Damaged(Damage),
    /// The kernel's generator failed: nothing may be sealed.
    Entropy,
    /// The engine failed and nothing could take its place.
    Engine(&'static str),
    /// Another machine has taken the vault over: nothing more is written.
    TakenOver,
    /// The store of the freshness file failed.
    Freshness(store::Error),
    /// The request itself is refused with this error number (`EEXIST`…).
    Refused(i32),
}

impl Error {
    /// The number that a caller of the mount sees: damage is `EIO`. `ESTALE` makes the
    /// kernel look a file up once more, which then is not there.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Error::Store(error) | Error::Freshness(error) => error.errno(),
            Error::Refused(errno) => *errno,
            Error::Damaged(Damage::Unfinished) => errno::ESTALE,
            Error::Damaged(_) | Error::Entropy | Error::Engine(_) | Error::TakenOver => errno::EIO,
        }
    }

    /// True of a file that was never durable, and that a crash or a barrier that failed
    /// has left as it is.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Error::Damaged(Damage::Unfinished))
    }

    /// True for what says nothing of the thing that was asked for: descriptors
    /// or memory are short at the moment, or a signal came.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self.errno(), errno::EINTR | errno::ENOMEM | errno::ENFILE | errno::EMFILE)
    }

    /// True for "no such entry".
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.errno() == errno::ENOENT
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Store(error) => write!(f, "the store failed: {error}"),
            Error::TakenOver => {
                f.write_str("another machine has taken the vault over: nothing more is written")
            }
            Error::Freshness(error) => write!(f, "the freshness file: {error}"),
            Error::Damaged(damage @ (Damage::Stale(_) | Damage::Record(_) | Damage::RecordMissing)) => {
                write!(f, "{damage}")
            }
            Error::Damaged(damage) => write!(f, "damaged or forged: {damage}"),
            Error::Entropy => f.write_str("the kernel's random generator failed"),
            Error::Engine(what) => write!(f, "the engine failed: {what}"),
            Error::Refused(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::Length { stored } => write!(f, "the stored length of {stored} bytes is not its header's"),
            Damage::Page(what) | Damage::Name(what) | Damage::Journal(what) | Damage::Record(what) => {
                f.write_str(what)
            }
            Damage::Stale(what) => write!(f, "{what}"),
            Damage::RecordMissing => f.write_str("there is no freshness file of this name"),
            Damage::Blocks { blocks, offset, .. } => {
                write!(f, "{blocks} block(s) from byte {offset} on do not open")
            }
            Damage::Home => f.write_str("the file does not belong under this name"),
            Damage::Unfinished => f.write_str("the file was never made durable, and was lost"),
            Damage::Journaled => f.write_str(
                "the file is newer than the journal: the journal or the vault header is an old one",
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Engine(failure.cause.what())
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        Error::Store(error)
    }
}

/// Error numbers of Linux that the vault itself answers with.
pub mod errno {
    #![allow(missing_docs)]
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EINTR: i32 = 4;
    pub const EIO: i32 = 5;
    pub const EBADF: i32 = 9;
    pub const EAGAIN: i32 = 11;
    pub const ENOMEM: i32 = 12;
    pub const EACCES: i32 = 13;
    pub const EEXIST: i32 = 17;
    pub const EXDEV: i32 = 18;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const EMLINK: i32 = 31;
    pub const ERANGE: i32 = 34;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
    pub const EOPNOTSUPP: i32 = 95;
    pub const ENOSYS: i32 = 38;
    pub const ESTALE: i32 = 116;
    pub const ENXIO: i32 = 6;
}
