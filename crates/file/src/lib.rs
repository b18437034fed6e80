//! Single files in the age format, version 1.
//!
//! [`recipients`] wraps a file key for those who may read, [`identities`]
//! unwraps it, [`encrypt`] and [`decrypt`] take a whole input to an output, and
//! [`Ranges`] reads parts of a file that can be sought in. The payload is
//! sealed and opened in batches by as many threads as there are CPUs, each of
//! which reads its input and writes its output itself ([`payload`]).
//!
//! What this crate does not do: name files, ask for secrets, choose engines.
//! It is handed an `Arc<dyn Engine>`.
//!
//! Memory: one batch of [`BATCH_CHUNKS`] chunks, sealed, for each thread; and
//! the header, at most [`strongroom_format::age::HEADER_LEN_MAX`].
#![forbid(unsafe_code)]

pub mod armor;
mod brood;
mod error;
mod header;
mod hybrid;
pub mod identities;
mod keys;
mod passphrase;
pub mod payload;
pub mod plugin;
mod range;
pub mod recipients;
mod sealed;
mod ssh_rsa;
mod ssh_tag;

pub use age::secrecy::{ExposeSecret, SecretString};
pub use age::{Callbacks, NoCallbacks};
pub use age_core::format::FileKey;
pub use brood::end_plugins;
pub use error::Error;
pub use header::{read_header, unlock, unwrap, wrap};
pub use hybrid::{HybridIdentity, HybridRecipient};
pub use payload::{BATCH_CHUNKS, Input, Job, Output, decrypt, encrypt, memory_max};
pub use range::Ranges;
pub use sealed::{is_encrypted, open_with_passphrase};
