//! What `check` and `salvage` share: the vault opened to be looked at as a
//! whole, and a way to be interrupted.

mod interrupt;
mod vault;

pub(crate) use interrupt::Interrupt;
pub(crate) use strongroom_vault::pool::{Parts, Pool, default_threads, groups_of, parts_of};
pub(crate) use vault::{at_least_open_files, open_read_only, open_recorded, options, stored_bytes};
