//! What trying a passphrase should cost on this machine.

use std::time::{Duration, Instant};

use strongroom_format::luks::kdf::Argon2Kind;
use strongroom_format::luks::{Hash, Kdf, limits};

use super::{MemoryRefused, pbkdf2};
use crate::kdf::fit_cost;

/// Which KDF a new slot shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostTarget {
    /// PBKDF2 with this hash.
    Pbkdf2(Hash),
    /// Argon2.
    Argon2(Argon2Kind),
}

/// The cost that takes about `target` on this machine, which takes up to twice
/// as long to measure. Never below cryptsetup's own least.
///
/// # Errors
/// [`MemoryRefused`] when there is not even the least memory for Argon2.
pub fn fit(kdf: CostTarget, target: Duration) -> Result<Kdf, MemoryRefused> {
    match kdf {
        CostTarget::Pbkdf2(hash) => Ok(fit_pbkdf2(hash, target)),
        CostTarget::Argon2(kind) => {
            let cost = fit_cost(target)
                .map_err(|refused| MemoryRefused { memory_kib: refused.cost.memory_kib() })?;
            // Four passes are what cryptsetup gives a new slot at least.
            let passes = cost.passes().max(4);
            Ok(Kdf::Argon2 { kind, passes, memory_kib: cost.memory_kib(), lanes: cost.lanes() })
        }
    }
}

fn fit_pbkdf2(hash: Hash, target: Duration) -> Kdf {
    let mut sample = limits::PBKDF2_ITERATIONS_FLOOR;
    let mut out = [0; 20];
    loop {
        let begin = Instant::now();
        pbkdf2(hash, b"a passphrase", &[0; 32], sample, &mut out);
        let took = begin.elapsed();
        if took * 4 >= target.min(Duration::from_millis(400)) || sample >= 1 << 26 {
            let scale = target.as_secs_f64() / took.as_secs_f64().max(1e-9);
            let most = limits::PBKDF2_ITERATIONS_MAX as f64;
            let iterations = (f64::from(sample) * scale).clamp(limits::PBKDF2_ITERATIONS_FLOOR.into(), most);
            return Kdf::Pbkdf2 { hash, iterations: iterations as u32 };
        }
        sample *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_keep_to_the_floors() {
        let none = Duration::ZERO;
        let floor = limits::PBKDF2_ITERATIONS_FLOOR;
        let pbkdf2 = fit(CostTarget::Pbkdf2(Hash::Sha256), none);
        assert_eq!(pbkdf2, Ok(Kdf::Pbkdf2 { hash: Hash::Sha256, iterations: floor }));
        let Ok(Kdf::Argon2 { passes, .. }) =
            fit(CostTarget::Argon2(Argon2Kind::Id), Duration::from_millis(20))
        else {
            panic!("Argon2")
        };
        assert!(passes >= 4);
    }

    #[test]
    fn more_time_is_more_iterations() {
        let Ok(Kdf::Pbkdf2 { iterations, .. }) =
            fit(CostTarget::Pbkdf2(Hash::Sha1), Duration::from_millis(100))
        else {
            panic!("PBKDF2")
        };
        assert!(iterations > limits::PBKDF2_ITERATIONS_FLOOR);
    }
}
