//! Commands that need no mount, one module each.

pub(crate) mod bench;
pub(crate) mod check;
mod cost;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod engines;
pub(crate) mod file;
pub(crate) mod freshness;
pub(crate) mod generate;
pub(crate) mod header;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod report;
pub(crate) mod salvage;
pub(crate) mod simulate;
mod slots;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod whatif;
