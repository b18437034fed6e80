//! Encrypted folders without FUSE: names, directories and file contents of a
//! vault on any store, sealed by whatever engine it is handed.
//!
//! [`Vault`] opens and closes; [`namespace`] is everything with a name,
//! [`content`] what files hold. The journal, the committer and recovery carry
//! out section 7 of `docs/format/vault.md`, and `freshness` what
//! `docs/format/freshness.md` says.
//!
//! What this crate does not do: speak to the kernel, choose an engine, or ask
//! for secrets.
#![forbid(unsafe_code)]

mod barriers;
mod committer;
pub mod content;
mod context;
mod crashed;
pub mod error;
mod fence;
mod follow;
mod freshness;
mod header_file;
mod journal;
mod life;
mod losses;
mod masks;
#[cfg(all(test, strongroom_model))]
mod model;
pub mod namespace;
mod page;
pub mod pool;
mod reader_rules;
mod reading;
mod recovery;
mod rules;
mod sealer;
mod sync;
mod vault;
mod waiting;
mod walk;

pub use context::{Counters, Recovered};
pub use error::{Damage, Error, Result, Staleness};
pub use fence::{FENCE_INTERVAL, Fence};
pub use freshness::{Trust, Trusted};
pub use header_file::{HeaderWitness, read_header_copies, sync_header_copies, write_header};
#[cfg(feature = "planted-faults")]
pub use masks::rules::{MaskRule, leave_out_of_masks};
pub use masks::{MaskCounts, MaskReport};
#[cfg(feature = "planted-faults")]
pub use reader_rules::{ReaderRule, leave_out};
pub use rules::{Rule, Rules};
pub use sealer::algorithm;
pub use vault::{Guards, OpenOptions, Recording, Vault, Writers, create};

/// What the tests outside share serves those inside, too.
#[cfg(test)]
extern crate self as strongroom_vault;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
