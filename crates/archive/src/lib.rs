//! A directory as one stream, and back: tar, as GNU tar and PAX spell it.
//!
//! [`Packer`] is a reader that packs while it is read: threads of its own walk
//! ahead and read small files, in bounded memory; large ones are read when it
//! is their turn. [`unpack`] writes into a directory that is there, and never
//! outside of it.
//!
//! Kept: contents, names of any length, modes, owners and groups by number,
//! times of modification to the nanosecond, symlinks, hard links, FIFOs,
//! devices, extended attributes but those of the `system` namespace. Not kept:
//! sockets, holes (they become zeros), access control lists.
//!
//! What this crate does not do: encrypt, or choose where anything goes.
#![forbid(unsafe_code)]

mod error;
mod pack;
mod read;
mod unpack;

/// Names with values: records of a header, or extended attributes.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

pub use error::Error;
pub use pack::{Packed, Packer};
pub use unpack::{Unpacked, unpack};
