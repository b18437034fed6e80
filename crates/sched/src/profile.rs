//! What was measured of the engines before this scheduler was made, so that
//! its records begin with knowledge. It ages as any other: what a seed says is
//! corrected by the first answers.

use strongroom_engine::{Algorithm, Operation};

use crate::record::{Measurement, Record};

/// One size at which an engine was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedPoint {
    /// Bytes of the batch.
    pub bytes: u64,
    /// Time from submission to answer, alone on an idle machine.
    pub service_ns: f64,
    /// CPU time that it took.
    pub cpu_ns: f64,
}

/// What was measured of one engine, algorithm and operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    /// Name of the engine.
    pub engine: String,
    /// What it computed.
    pub algorithm: Algorithm,
    /// What was done.
    pub operation: Operation,
    /// Sizes, each at most once; of two in one size class the later counts.
    pub points: Vec<SeedPoint>,
}

/// Has the record of `engine` for `algorithm` begin with what `seeds` say.
pub(crate) fn apply(seeds: &[Seed], engine: &str, algorithm: Algorithm, record: &Record) {
    for seed in seeds.iter().filter(|seed| seed.engine == engine && seed.algorithm == algorithm) {
        for point in &seed.points {
            let measured = Measurement { service_ns: point.service_ns, cpu_ns: point.cpu_ns };
            record.believe(seed.operation, point.bytes, measured);
        }
    }
}

#[cfg(test)]
mod tests {
    use strongroom_engine::Aead;

    use super::*;
    use crate::policy::Request;
    use crate::record::Expectation;

    #[test]
    fn a_seed_is_believed_and_others_are_passed_over() {
        let expectation =
            Expectation { inline: true, fixed_ns: 1.0, per_byte_ns: 1.0, cpu_ns: 1.0, cpu_per_byte_ns: 0.0 };
        let algorithm = Algorithm::Aead(Aead::XAes256Gcm);
        let seed = |engine: &str, service_ns| Seed {
            engine: engine.to_owned(),
            algorithm,
            operation: Operation::Open,
            points: vec![
                SeedPoint { bytes: 4096, service_ns, cpu_ns: 300.0 },
                SeedPoint { bytes: 65536, service_ns: 2.0 * service_ns, cpu_ns: 900.0 },
            ],
        };
        let record = Record::new(expectation);
        apply(&[seed("other", 5.0), seed("this", 40_000.0)], "this", algorithm, &record);
        let view = |operation, bytes| record.view(&Request::whole(operation, bytes), true);
        let small = view(Operation::Open, 4096);
        assert!(small.known && (small.service_ns - 40_000.0).abs() < 1.0, "{small:?}");
        assert!((small.cpu_ns - 300.0).abs() < 1.0);
        assert!((view(Operation::Open, 65536).service_ns - 80_000.0).abs() < 1.0);
        assert!(!view(Operation::Seal, 4096).known);
    }
}
