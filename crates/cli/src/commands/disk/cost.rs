//! What trying a passphrase shall cost, as asked for or measured.

use strongroom_disk::header::Version;
use strongroom_format::luks::kdf::Argon2Kind;
use strongroom_format::luks::{Hash, Kdf};
use strongroom_keys::luks::{CostTarget, fit};

use crate::args::disk::{DiskCostArgs, KdfName};
use crate::failure::{Exit, Failure, Result};

/// Lanes of Argon2 at most, as cryptsetup has it.
const LANES_MAX: u64 = 4;

/// The KDF of a new slot.
///
/// # Errors
/// Usage for what does not fit together or is out of bounds.
pub(super) fn kdf(args: &DiskCostArgs, version: Version, hash: Hash) -> Result<Kdf> {
    let name = match (args.kdf, version) {
        (Some(name @ (KdfName::Argon2id | KdfName::Argon2i)), Version::Luks1) => {
            let name = if name == KdfName::Argon2i { "argon2i" } else { "argon2id" };
            return Err(Failure::usage(format!("LUKS1 has no {name}")).hint("Use --type luks2."));
        }
        (Some(name), _) => name,
        (None, Version::Luks1) => KdfName::Pbkdf2,
        (None, Version::Luks2) => KdfName::Argon2id,
    };
    let target = match name {
        KdfName::Pbkdf2 => CostTarget::Pbkdf2(hash),
        KdfName::Argon2i => CostTarget::Argon2(Argon2Kind::I),
        KdfName::Argon2id => CostTarget::Argon2(Argon2Kind::Id),
    };
    let asked = match (target, args.kdf_time, args.kdf_memory) {
        (CostTarget::Pbkdf2(_), _, Some(_)) => {
            return Err(Failure::usage("PBKDF2 takes no memory").hint("Leave --kdf-memory out."));
        }
        (CostTarget::Pbkdf2(hash), Some(iterations), None) => {
            if iterations < u64::from(strongroom_format::luks::limits::PBKDF2_ITERATIONS_FLOOR) {
                return Err(Failure::usage("PBKDF2 takes at least 1000 iterations"));
            }
            Kdf::pbkdf2(hash, iterations)
        }
        (CostTarget::Argon2(kind), time, Some(memory)) => {
            let lanes = args.kdf_lanes.unwrap_or_else(lanes);
            Kdf::argon2(kind, time.unwrap_or(4), memory / 1024, lanes)
        }
        (CostTarget::Argon2(_), Some(_), None) => {
            return Err(Failure::usage("--kdf-time of Argon2 goes with --kdf-memory"));
        }
        (target, None, None) => {
            return fit(target, args.kdf_target)
                .map_err(|refused| Failure::new(Exit::Unsupported, refused.to_string()));
        }
    };
    asked.map_err(|error| Failure::usage(error.to_string()))
}

fn lanes() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64).min(LANES_MAX)
}
