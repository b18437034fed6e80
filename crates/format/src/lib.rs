//! On-disk formats: bytes to plain structs and back.
//!
//! No I/O, no cryptography, no unsafe. Whatever is decoded here has either
//! been authenticated by the caller or is needed to authenticate it; both are
//! checked alike, and no input makes a decoder panic. The normative texts are
//! `docs/format/vault.md` for vaults, `docs/format/freshness.md` for their
//! freshness files, and the LUKS specifications, of which
//! `docs/format/luks.md` says what is supported, for disks; tests hold the
//! offsets of this crate against the tables of all three.
#![forbid(unsafe_code)]

pub mod age;
pub mod error;
pub mod freshness;
pub mod layout;
pub mod luks;
pub mod vault;

pub use error::FormatError;
