//! What can go wrong with a file.

use std::fmt;
use std::io;

use strongroom_format::FormatError;

/// Why a file was not encrypted or decrypted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No identity and no passphrase opens the file.
    WrongKey,
    /// It was made with a passphrase, and there are keys alone.
    NoPassphrase,
    /// It was made for keys, and there is a passphrase alone.
    NoKey,
    /// The header is not what the format allows.
    Header(FormatError),
    /// The armor is not what the format allows.
    Armor(FormatError),
    /// The header was changed: its MAC is not that of the file key.
    HeaderForged,
    /// The payload was damaged, cut or changed in this chunk, counted from 0.
    /// Those before it were whole.
    Payload {
        /// The chunk.
        chunk: u64,
        /// In words.
        what: &'static str,
    },
    /// A file that is newer than this program, or too costly for it.
    Unsupported(String),
    /// What was asked for cannot be.
    Usage(String),
    /// A plugin failed.
    Plugin(String),
    /// A passphrase that is needed was asked for and not given.
    Unanswered(String),
    /// The input is another than it was when its encryption began.
    Changed,
    /// The input could not be read.
    Input(io::Error),
    /// The output could not be written.
    Output(io::Error),
    /// The engine failed, or has not got the algorithm.
    Engine(&'static str),
    /// The kernel gives no random bytes.
    Entropy,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::WrongKey => f.write_str("none of the identities opens it"),
            Error::NoPassphrase => {
                f.write_str("it was encrypted with a passphrase, and keys alone were given")
            }
            Error::NoKey => f.write_str("it was encrypted for the owners of keys, and no key was given"),
            Error::Header(error) => write!(f, "the header is damaged: {error}"),
            Error::Armor(error) => write!(f, "the armor is damaged: {error}"),
            Error::HeaderForged => f.write_str("the header was changed: its MAC is wrong"),
            Error::Payload { chunk, what } => write!(f, "{what} (chunk {chunk}, counted from 0)"),
            Error::Unsupported(what) | Error::Usage(what) | Error::Plugin(what) => f.write_str(what),
            Error::Unanswered(question) => write!(f, "{question}"),
            Error::Changed => f.write_str("it changed while it was read"),
            Error::Input(error) => write!(f, "reading failed: {error}"),
            Error::Output(error) => write!(f, "writing failed: {error}"),
            Error::Engine(what) => write!(f, "the engine failed: {what}"),
            Error::Entropy => f.write_str("the kernel's random generator failed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Header(error) | Error::Armor(error) => Some(error),
            Error::Input(error) | Error::Output(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Error {
        Error::Header(error)
    }
}

/// There is no such plugin.
pub(crate) fn missing(name: &str) -> Error {
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    Error::Plugin(match !name.is_empty() && name.bytes().all(is_one) {
        true => format!("there is no `age-plugin-{name}` on the PATH"),
        false => format!("`{}` is no plugin's name", name.escape_debug()),
    })
}
