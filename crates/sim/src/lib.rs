//! The simulator: hosts with CPUs and devices, and loads on them, in virtual
//! time, under the scheduler's own policies.
//!
//! [`run`] takes a [`Host`], a [`Workload`] and [`Settings`], and places every
//! batch by [`strongroom_sched::placing`], the code that a mount runs, which
//! learns from the answers as there. [`replay`] does the same with a load that was
//! recorded. `docs/simulator.md` describes the model and what it leaves out.
//!
//! Invariants: no clock, no threads, no state outside of a run; the same
//! arguments give the same report.
#![forbid(unsafe_code)]

pub mod aca_sds;
mod client;
mod cpu;
mod device;
pub mod functions;
mod host;
mod hosts;
mod latency;
pub mod proof;
mod random;
mod replay;
mod report;
mod scope;
mod workload;
mod world;

pub use host::{Background, Cost, Device, Drift, Host, Inline};
pub use random::Random;
pub use replay::{Replayed, Turn, replay};
pub use report::{EngineReport, Interval, Report};
pub use strongroom_sched::Settings;
pub use workload::{Pace, Phase, Workload};
pub use world::{Options, run};
