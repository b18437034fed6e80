//! Engines for tests, by the names that `strongroom mount --engine` takes.
//!
//! They are there with the feature `named`, which the tests of the program turn on and a program that is
//! shipped does not have: nobody shall mount on a device that is made to lose his data.

use std::sync::Arc;

use strongroom_engine::Engine;

/// Makes an engine of the CPU.
pub type OfCpu<'a> = &'a dyn Fn() -> Arc<dyn Engine>;

/// Whether the engines of this name lose work again and again, and shall get more.
#[must_use]
pub fn loses_work(name: &str) -> bool {
    cfg!(feature = "named") && name == "unruly"
}

/// The engines of this name, those that are inline first, on the best code of
/// this CPU and on portable code. None for a name that there is not.
#[cfg(not(feature = "named"))]
#[must_use]
pub fn engines(_name: &str, _cpu: OfCpu<'_>, _portable: OfCpu<'_>) -> Option<Vec<Arc<dyn Engine>>> {
    None
}

/// The engines of this name, those that are inline first, on the best code of
/// this CPU and on portable code. None for a name that there is not.
#[cfg(feature = "named")]
#[must_use]
pub fn engines(name: &str, cpu: OfCpu<'_>, portable: OfCpu<'_>) -> Option<Vec<Arc<dyn Engine>>> {
    use std::time::Duration;

    use strongroom_engine::unruly::{Faults as Unruliness, UnrulyEngine};

    use crate::{Faults, Masker, Model, SimEngine};

    /// Of the misbehaviour.
    const SEED: u64 = 0x5eed;
    /// One with which the first of the wrong results, 1 in 10,000, is the 1795th.
    const SEED_RARELY_WRONG: u64 = 0x5f0c;

    let device =
        |model, faults, seed| -> Arc<dyn Engine> { Arc::new(SimEngine::new(cpu(), model, faults, seed)) };
    let moderate = |faults| device(Model::moderate(), faults, SEED);
    let none = Faults::default();
    let slow = Model {
        fixed: Duration::from_micros(400),
        bytes_per_second: 40_000_000,
        units: 2,
        ..Model::moderate()
    };
    Some(match name {
        // Busy, late, out of order, and it loses work.
        "unruly" => vec![Arc::new(UnrulyEngine::new(cpu(), SEED, Unruliness::lossy()))],
        // The CPU with a simulated device beside it, sound or with a fault.
        "sim" => vec![cpu(), moderate(none)],
        "sim-wrong" => vec![cpu(), moderate(Faults { wrong_ppm: 20_000, ..none })],
        "sim-rarely-wrong" => {
            let faults = Faults { wrong_ppm: 100, ..none };
            vec![cpu(), device(Model::moderate(), faults, SEED_RARELY_WRONG)]
        }
        "sim-stalls" => {
            let faults = Faults { stall_ppm: 50_000, stall: Duration::from_secs(5), ..none };
            vec![cpu(), moderate(faults)]
        }
        "sim-gone" => vec![cpu(), moderate(Faults { gone_after: Some(100), ..none })],
        // For `bench placement`: a CPU without instructions for the cipher
        // beside a device that is worth it for large batches, or never.
        "sim-moderate" => vec![portable(), moderate(none)],
        "sim-slow" => vec![portable(), device(slow, none, SEED)],
        // For `bench masks`: a unit for each CPU.
        "sim-masks" => {
            let units = std::thread::available_parallelism().map_or(1, usize::from);
            vec![cpu(), Arc::new(Masker::new(cpu(), units))]
        }
        _ => return None,
    })
}
