//! Real engines are measured, in every algorithm, and errors are told.

use std::sync::Arc;
use std::time::Duration;

use strongroom_bench::{Case, Effort, Load, MeasureError, measure, operations};
use strongroom_engine::{Algorithm, Engine, SectorCipher, SectorIv, SessionError};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Faults, Model, SimEngine};

const SHORT: Effort =
    Effort { sample: Duration::from_micros(200), samples: 3, limit: Duration::from_millis(20) };

fn case(algorithm: Algorithm, bytes: usize) -> Case {
    Case {
        algorithm,
        key_len: *algorithm.key_lens().last().expect("a length"),
        operation: operations(algorithm)[0],
        bytes,
        segment_bytes: 4096,
        sector_bytes: 4096,
        threads: 1,
        in_flight: 1,
    }
}

fn xts() -> Algorithm {
    Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64)
}

#[test]
fn every_algorithm_can_be_measured_in_both_directions() {
    let engine: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    let others = |algorithm: &Algorithm| match algorithm {
        Algorithm::Aead(_) => true,
        Algorithm::Sector(sector) => sector.iv == SectorIv::Plain64,
    };
    for algorithm in Algorithm::all().filter(others) {
        for operation in operations(algorithm) {
            for bytes in [512, 10_240] {
                let case = Case { operation, ..case(algorithm, bytes) };
                let figure = measure(&engine, case, SHORT).expect("the CPU has every algorithm");
                assert!(figure.bytes_per_second.median > 0.0 && figure.samples >= 1, "{algorithm}");
                assert!(figure.batch_ns.low <= figure.batch_ns.median);
            }
        }
    }
}

#[test]
fn threads_and_depth_are_kept() {
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    let figure = measure(&cpu, Case { threads: 3, ..case(xts(), 4096) }, SHORT).expect("sound");
    assert!(figure.bytes_per_second.median > 0.0);
    let device: Arc<dyn Engine> =
        Arc::new(SimEngine::new(Arc::clone(&cpu), Model::moderate(), Faults::default(), 1));
    // Deeper than its queue: it is busy, and that is no error.
    let deep = Case { in_flight: 100, ..case(xts(), 4096) };
    assert!(measure(&device, deep, SHORT).expect("sound").bytes_per_second.median > 0.0);
    // No machine is so slow that four units with several batches are slower
    // than one batch after the other, each of which takes 38 µs at least.
    let alone = measure(&device, case(xts(), 4096), SHORT).expect("sound");
    assert!(alone.batch_ns.median >= 38_000.0, "{alone:?}");
}

#[test]
fn a_busy_machine_is_measured_too() {
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    let load = Load::on(2);
    assert_eq!(load.threads(), 2);
    assert!(measure(&cpu, case(xts(), 4096), SHORT).expect("sound").bytes_per_second.median > 0.0);
}

#[test]
fn what_cannot_be_measured_is_told() {
    let algorithm: Algorithm = "aes-xts-plain64".parse().expect("known");
    let wrong = Case { key_len: 5, ..case(algorithm, 4096) };
    let engine: Arc<dyn Engine> = Arc::new(ReferenceEngine);
    assert_eq!(measure(&engine, wrong, SHORT).err(), Some(MeasureError::Session(SessionError::KeyLength)));
    let odd = case(algorithm, 1000);
    assert!(matches!(measure(&engine, odd, SHORT), Err(MeasureError::Engine(_))));
}
