//! The scheduler: an [`Engine`](strongroom_engine::Engine) over engines.
//!
//! Consumers submit to it as to any engine and never learn which one served
//! them. `policy` decides where a batch goes, by pure functions; `record`
//! learns what engines cost; `scheduler` carries decisions out. What the
//! scheduler does not do: compute. `docs/scheduler.md` has the reasons.
//!
//! Invariants: nothing that any engine could serve is refused or lost; work
//! that is redone has the same nonces, data and result as the first attempt;
//! a device's word that a segment is forged is not believed; a device whose
//! result was wrong gets no more work.
#![forbid(unsafe_code)]

mod callers;
pub mod cpu_load;
pub mod placing;
pub mod policy;
mod profile;
mod quarantine;
pub mod record;
mod scheduler;
pub mod settings;
pub mod standing;
mod statistics;

pub use profile::{Seed, SeedPoint};
pub use scheduler::{Options, Scheduler};
pub use settings::{Masks, Objective, Policy, Settings, UnknownSetting};
pub use statistics::{EngineStatistics, PlacementCount, Statistics};
