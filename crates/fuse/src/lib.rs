//! A FUSE server: the kernel's wire format ([`abi`]), how requests arrive and
//! replies leave ([`transport`]), what a file system has to answer
//! ([`Filesystem`]), mounting ([`Mount`]) and the threads between ([`Session`]).
//!
//! A request is received into a page-aligned [`Buffer`](strongroom_engine::Buffer)
//! that the worker owns and lends to the file system, which may encrypt it in
//! place or move it through an engine; a read is answered out of the same
//! buffer. Nothing is copied but by the kernel, and nothing is allocated per
//! request.
//!
//! Architecture invariant: no thread of this crate opens, stats or otherwise
//! touches a path inside a mount it serves; that would wait on itself.
//!
//! Three file systems are served: a vault ([`adapter`]), an open disk as one
//! file ([`raw`]), and one file that can only be read ([`single`]).
//!
//! What this crate does not do: encrypt, store, or keep caches. Linux only.
#![deny(unsafe_code)]

pub mod abi;
pub mod adapter;
mod arguments;
mod devfuse;
mod dispatch;
mod errno;
mod filesystem;
mod forgets;
pub mod mount;
mod negotiation;
mod node;
mod notify;
mod pacing;
mod pool;
pub mod raw;
mod session;
pub mod single;
mod statistics;
mod sys;
mod tap;
pub mod transport;
mod worker;
mod writers;

pub use abi::directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry};
pub use abi::statx::Statx;
pub use errno::Errno;
pub use filesystem::{
    Allocate, Context, CopyRange, CreateMode, Filesystem, Handle, Ioctl, Negotiated, NodeId, OpenFlags, Read,
    Release, Rename, Seek, SetAttributes, SetTime, SetXattr, Write,
};
pub use mount::{Mount, MountError, MountErrorKind, MountOptions, UnmountMode};
pub use negotiation::SessionOptions;
pub use node::{Attributes, Entry, Opened, Space, TimedAttributes, Timestamp};
pub use notify::Notifier;
pub use session::{Ended, Session, SessionError, SessionHandle};
pub use statistics::{OperationStatistics, Statistics};
pub use tap::{Tap, Tapped};
pub use transport::{TransportChoice, TransportReport};
