//! Every engine of this crate passes the conformance suite, directly and
//! behind an engine that is late, busy and loses work.

use std::sync::Arc;

use strongroom_engine::conformance;
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};

#[test]
fn cpu() {
    conformance::run(&CpuEngine::new(), &ReferenceEngine);
}

#[test]
fn reference() {
    conformance::run(&ReferenceEngine, &CpuEngine::new());
}

#[test]
fn unruly_over_cpu() {
    let engine = UnrulyEngine::new(Arc::new(CpuEngine::new()), 1, Faults::harmless());
    conformance::run(&engine, &ReferenceEngine);
}

#[test]
fn lossy_over_cpu() {
    let engine = UnrulyEngine::new(Arc::new(CpuEngine::new()), 2, Faults::lossy());
    conformance::run_tolerating_loss(&engine, &ReferenceEngine);
}
