//! Why something with a disk failed.

use std::fmt;
use std::io;

use strongroom_format::FormatError;
use strongroom_keys::luks::MemoryRefused;
use strongroom_keys::random::EntropyError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something with a disk failed.
#[derive(Debug)]
pub enum Error {
    /// The image or device failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No LUKS header begins here.
    NotLuks,
    /// The header is not what the format allows, or names what this program
    /// does not support ([`FormatError::is_unsupported`]).
    Header(FormatError),
    /// No copy of a LUKS2 header has the right checksum.
    Checksum,
    /// No engine has this cipher with this key length.
    Cipher {
        /// Its name.
        name: String,
        /// Bits of its key.
        key_bits: u32,
    },
    /// The passphrase opens no slot, or not the one that was named.
    WrongPassphrase,
    /// The slot is not in use.
    NoSlot(u32),
    /// The slot holds no key of this disk's data.
    Unbound(u32),
    /// No slot may be tried: those that hold the key of the data are for being
    /// named, or there are none.
    NoUsableSlot,
    /// The data would lie on the header.
    Overlap {
        /// Where data begins.
        data: u64,
        /// Where the header ends.
        header_end: u64,
    },
    /// The slot is in use.
    SlotInUse(u32),
    /// There is no room for another slot.
    Full,
    /// It is the last slot.
    LastSlot,
    /// The machine has not the memory that a slot asks for.
    Memory(MemoryRefused),
    /// The kernel's random generator failed.
    Entropy,
    /// The engine could not do it.
    Engine(&'static str),
    /// The image is too small for what shall be in it.
    TooSmall {
        /// Bytes that there are.
        found: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// A request beyond the end, or not of whole sectors.
    Range,
    /// The device cannot be written to.
    ReadOnly,
    /// A flush failed before: what was written since the last good one may be
    /// lost.
    FlushFailed,
}

impl Error {
    /// For `map_err`: an I/O error with what was being done.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing, source }
    }

    /// The error number that an export answers.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Io { source, .. } => match source.raw_os_error() {
                Some(errno) => return errno,
                None => rustix::io::Errno::IO,
            },
            Error::Range => rustix::io::Errno::INVAL,
            Error::ReadOnly => rustix::io::Errno::ROFS,
            Error::Memory(_) => rustix::io::Errno::NOMEM,
            _ => rustix::io::Errno::IO,
        };
        errno.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, source } => {
                let text = source.to_string();
                write!(f, "{doing}: {}", text.split(" (os error").next().unwrap_or_default())
            }
            Error::NotLuks => f.write_str("there is no LUKS header"),
            Error::Header(error) if error.is_unsupported() => error.fmt(f),
            Error::Header(error) => write!(f, "the LUKS header is damaged: {error}"),
            Error::Checksum => f.write_str("the LUKS2 header is damaged: no copy has the right checksum"),
            Error::Cipher { name, key_bits } => {
                write!(f, "no engine here has the cipher {name} with a key of {key_bits} bits")
            }
            Error::WrongPassphrase => f.write_str("wrong passphrase or key file"),
            Error::NoSlot(slot) => write!(f, "key slot {slot} is not in use"),
            Error::Unbound(slot) => write!(f, "key slot {slot} is unbound: it holds no key of this disk"),
            Error::NoUsableSlot => f.write_str("no key slot may be tried without being named"),
            Error::Overlap { data, header_end } => write!(
                f,
                "this is a header without a disk: its data would begin at byte {data} and overwrite it, \
                 for it ends at {header_end}"
            ),
            Error::SlotInUse(slot) => write!(f, "key slot {slot} is in use"),
            Error::Full => f.write_str("there is no room for another key slot"),
            Error::LastSlot => f.write_str("it is the last key slot"),
            Error::Memory(refused) => refused.fmt(f),
            Error::Entropy => f.write_str("the kernel's random generator failed"),
            Error::Engine(what) => write!(f, "the engine failed: {what}"),
            Error::TooSmall { found, needed } => {
                write!(f, "it has {found} bytes, and at least {needed} are needed")
            }
            Error::Range => f.write_str("the request is not of whole sectors inside of the disk"),
            Error::ReadOnly => f.write_str("the disk is open for reading only"),
            Error::FlushFailed => {
                f.write_str("a flush failed before, so that nothing can be promised any more")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Error {
        Error::Header(error)
    }
}

impl From<EntropyError> for Error {
    fn from(_: EntropyError) -> Error {
        Error::Entropy
    }
}

impl From<MemoryRefused> for Error {
    fn from(refused: MemoryRefused) -> Error {
        Error::Memory(refused)
    }
}
