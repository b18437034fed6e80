//! Five documents on accelerated storage encryption: their figures as data,
//! and the models that replay them.
//!
//! [`replay`] gives the tables of one document: each published figure, ours
//! beside it, and whether ours was fitted on that figure or predicts it.
//! Figures that the documents show as pictures have no numbers; they are named
//! in [`Replay::pictures`]. `docs/papers.md` is made from [`page::write`].
//!
//! Invariants: no I/O, no clock; the same call gives the same numbers.
#![forbid(unsafe_code)]

mod aca_sds;
mod cesa;
mod encfs;
mod geom;
mod interrupts;
pub mod page;
mod queueing;
mod table;

pub use table::{Cell, Claim, Errors, Origin, Replay, Table};

/// What a GPU takes that makes masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// From asking for a batch until the first of it is there.
    pub launch_ns: f64,
    /// After that.
    pub bytes_per_second: f64,
}

/// The card of paper-002, fitted on its tables: for hosts that have none.
#[must_use]
pub fn gpu() -> Gpu {
    encfs::gpu()
}

/// The documents, by the names that `strongroom simulate` takes.
pub const NAMES: [&str; 5] = ["paper-000", "paper-001", "paper-002", "paper-003", "paper-004"];

/// Replays one document; none for a name that is not among [`NAMES`].
#[must_use]
pub fn replay(name: &str) -> Option<Replay> {
    match name {
        "paper-000" => Some(aca_sds::replay()),
        "paper-001" => Some(interrupts::replay()),
        "paper-002" => Some(encfs::replay()),
        "paper-003" => Some(geom::replay()),
        "paper-004" => Some(cesa::replay()),
        _ => None,
    }
}

/// What a document is about, in a line; none for a name that is not among [`NAMES`].
#[must_use]
pub fn about(name: &str) -> Option<&'static str> {
    match name {
        "paper-000" => Some(aca_sds::TITLE),
        "paper-001" => Some(interrupts::TITLE),
        "paper-002" => Some(encfs::TITLE),
        "paper-003" => Some(geom::TITLE),
        "paper-004" => Some(cesa::TITLE),
        _ => None,
    }
}
