//! Encrypted disks: LUKS1 and LUKS2 volumes in a file or on a device, and
//! their export.
//!
//! [`header`] reads, makes and changes headers with their key slots; a header
//! and a passphrase give a [`Volume`], which is a [`Device`] of plain sectors
//! over a [`Backing`] of encrypted ones. [`nbd`] serves any device to NBD
//! clients; the raw file through FUSE is the `fuse` crate's.
//!
//! Requests become engine batches of whole sectors. This crate names no
//! engine: it is handed one.
//!
//! Architecture invariant: data is not authenticated, which is LUKS. What a
//! device answers after a failed flush is an error for good, so that a flush
//! that is answered well means that everything before it is durable.
#![forbid(unsafe_code)]

pub mod backing;
mod bytes;
pub mod cipher;
mod claim;
pub mod device;
mod error;
pub mod header;
pub mod nbd;
mod sectors;
pub mod signature;
mod volume;

pub use backing::{Backing, FileBacking};
pub use bytes::Bytes;
pub use claim::HeaderLock;
pub use device::{Device, Extent, Piece, PlainDevice};
pub use error::{Error, Result};
pub use header::Header;
pub use volume::{Volume, VolumeOptions};
