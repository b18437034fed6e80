//! The vault format, version 4 (`docs/format/vault.md`).
//!
//! [`geometry`] says where things stand in a stored file; [`page`], [`node`],
//! [`map`] and [`block`] what they hold; [`special`] is what stands for symlinks
//! and device nodes; [`journal`], [`header`] and [`names`] are the rest of the
//! vault.

pub mod block;
pub mod extension;
pub mod geometry;
pub mod header;
pub mod ids;
pub mod journal;
pub mod map;
pub mod names;
pub mod node;
pub mod page;
pub mod record;
pub mod slot;
pub mod special;
pub mod suite;

pub use geometry::Geometry;
pub use ids::{DirectoryId, FileId, VaultId, WriteSession};
pub use page::PageKind;
pub use suite::Suite;

/// The version of the format that this program reads and writes.
pub const VERSION: u8 = 4;

/// Bytes of a nonce on the wire.
pub const NONCE_LEN: usize = 24;

/// Bytes of a tag, of every suite.
pub const TAG_LEN: usize = 16;
