//! What `check` and `salvage` share: work on files and on parts of files by
//! many threads, the vault opened for it, and a way to be interrupted.

mod interrupt;
mod pool;
mod vault;

pub(crate) use interrupt::Interrupt;
pub(crate) use pool::{Parts, Pool, default_threads, groups_of, parts_of};
pub(crate) use vault::{at_least_open_files, open_read_only, open_recorded, options, stored_bytes};
