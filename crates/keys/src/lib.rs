//! Secret memory, key derivation, key slots, the names of a vault, and the keys
//! of LUKS disks.
//!
//! The control plane of the cryptography: nothing here goes through an engine
//! or the scheduler, and nothing here does bulk work. All secrets live in
//! [`secret`] memory, and what computes with them by value does it on a stack
//! that is wiped. All unsafe code is in the private module `low`.
//!
//! A credential opens a slot of the vault header ([`slots`], [`mod@unlock`]) and
//! gives the root key; [`hierarchy`] derives the vault's keys from it, of which
//! [`names`], [`specials`] and [`record`] use theirs, and the vault hands the others to an
//! engine.

mod argon;
pub mod hierarchy;
pub mod kdf;
pub mod lock;
mod low;
pub mod luks;
pub mod machine;
pub mod names;
pub mod process;
pub mod random;
pub mod record;
pub mod recovery;
pub mod secret;
mod siv;
pub mod slots;
pub mod specials;
pub mod unlock;

pub use hierarchy::{DataKeys, RootKey, VaultKeys};
pub use kdf::fit_cost;
pub use lock::LockCipher;
pub use machine::machine_mark;
pub use names::{NameCipher, XattrCipher};
pub use process::{keep_descriptors, protect_process};
pub use record::RecordMac;
pub use recovery::RecoveryKey;
pub use secret::{Secret, SecretBytes};
pub use slots::{Credential, KeyFile, PasswordAndKeyFile};
pub use specials::SpecialCipher;
pub use unlock::{UnlockError, trial_work, unlock, unlock_copies};
