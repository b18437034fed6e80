//! On-disk formats: bytes to plain structs and back.
//!
//! No I/O, no cryptography, no unsafe. Whatever is decoded here has either
//! been authenticated by the caller or is needed to authenticate it; both are
//! checked alike, and no input makes a decoder panic. The normative text is
//! `docs/format/vault.md`; `tests/document.rs` holds the offsets of this crate
//! against its tables.
#![forbid(unsafe_code)]

pub mod error;
pub mod layout;
pub mod vault;

pub use error::FormatError;
