//! Measures engines: how fast they are, how much CPU time they take, and from
//! where on one is better than another.
//!
//! [`measure`] times one [`Case`] on one engine; [`Load`] keeps the CPUs busy
//! meanwhile; [`Costs::fit`] makes a fixed cost and a cost per byte of what was
//! found; [`break_even`] compares a device with the CPU. What this crate does
//! not do: choose engines, print, or keep anything.
//!
//! Invariants: keys are made for one measurement and nothing that was computed
//! leaves it; only the time from submission to completion is counted, not that
//! of making batches.
#![forbid(unsafe_code)]

mod break_even;
mod case;
mod costs;
mod load;
mod measure;
mod summary;
mod work;

pub use break_even::{BreakEven, Rate, break_even};
pub use case::{Case, operations};
pub use costs::Costs;
pub use load::Load;
pub use measure::{Effort, Figure, MeasureError, measure};
pub use summary::Summary;
