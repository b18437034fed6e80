//! The scheduler: an [`Engine`](strongroom_engine::Engine) over engines.
//!
//! Consumers submit to it as to any engine and never learn which one served
//! them. Each policy is one module under `policy`; there is one so far,
//! [`Fixed`], which always takes the same engine and has another to fall back
//! on. What the scheduler does not do: compute.
//!
//! Invariants: nothing that any engine could serve is refused or lost; work
//! that is redone has the same nonces, data and result as the first attempt;
//! a forged segment is an answer, never a reason to try elsewhere.
#![forbid(unsafe_code)]

mod policy;
mod statistics;

pub use policy::fixed::Fixed;
pub use statistics::{EngineStatistics, Statistics};
