//! What trying a password shall cost: as asked for, and measured where not.

use std::thread::available_parallelism;

use strongroom_format::vault::slot::{KdfCost, Label};
use strongroom_keys::Credential;
use strongroom_keys::fit_cost;
use strongroom_keys::kdf::{LANES_CEILING, MEMORY_CEILING, MEMORY_FLOOR, PASSES_FLOOR};
use strongroom_keys::slots::{SlotError, SlotOptions};

use crate::args::vault::CostArgs;
use crate::failure::{Failure, Result};
use crate::report;

/// What a slot for `credential` is made with.
///
/// # Errors
/// Usage when a cost is outside the format's bounds, or a label too long.
pub(super) fn slot_options(credential: &Credential, cost: &CostArgs, label: &str) -> Result<SlotOptions> {
    let label = Label::new(label).map_err(|error| Failure::usage(format!("--label: {error}")))?;
    let cost = if credential.is_guessable() { choose(cost)? } else { least() };
    Ok(SlotOptions { label, created: report::now(), cost })
}

/// Characters below which a password is remarked on: however dear each trial
/// is, all of them are soon tried.
const SHORT: usize = 8;

/// A remark on a password that is trivially short.
pub(super) fn short_password(credential: &Credential) -> Option<&'static str> {
    let Credential::Password(password) = credential else { return None };
    let characters = String::from_utf8_lossy(password.expose()).chars().count();
    (characters < SHORT).then_some(
        "the password is so short that trying all of its kind opens the vault: take eight characters at least, \
         better five random words",
    )
}

/// Plays no part in slots of uniform secrets, which must carry some value
/// until they are made.
fn least() -> KdfCost {
    KdfCost::new(KdfCost::MEMORY_MIN, 1, 1).expect("the least cost is within the bounds")
}

fn choose(args: &CostArgs) -> Result<KdfCost> {
    let memory_kib = args.kdf_memory.map(|bytes| u32::try_from(bytes / 1024).unwrap_or(u32::MAX));
    let lanes = available_parallelism().map_or(1, |n| n.get() as u32).min(LANES_CEILING);
    let (memory_kib, passes) = match (memory_kib, args.kdf_time) {
        (Some(memory_kib), Some(passes)) => (memory_kib, passes),
        (memory_kib, passes) => {
            let fitted = fit_cost(args.kdf_target).map_err(SlotError::Cost)?;
            complete(fitted, memory_kib, passes)
        }
    };
    KdfCost::new(memory_kib, passes, lanes)
        .map_err(|error| Failure::usage(format!("--kdf-memory and --kdf-time: {error}")))
}

/// The same work as `fitted`, with what was asked for kept as it is.
fn complete(fitted: KdfCost, memory_kib: Option<u32>, passes: Option<u32>) -> (u32, u32) {
    let work = u64::from(fitted.memory_kib()) * u64::from(fitted.passes());
    match (memory_kib, passes) {
        (Some(memory_kib), Some(passes)) => (memory_kib, passes),
        (None, None) => (fitted.memory_kib(), fitted.passes()),
        (Some(memory_kib), None) => {
            let memory = u64::from(memory_kib).max(1);
            let most = (KdfCost::WORK_MAX / memory).clamp(1, u64::from(KdfCost::PASSES_MAX));
            let passes = (work / memory).max(u64::from(PASSES_FLOOR)).min(most);
            (memory_kib, passes as u32)
        }
        (None, Some(passes)) => {
            let most = (KdfCost::WORK_MAX / u64::from(passes.max(1))).min(u64::from(MEMORY_CEILING));
            let memory = (work / u64::from(passes.max(1))).max(u64::from(MEMORY_FLOOR)).min(most);
            (memory as u32, passes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_short_password_is_remarked_on() {
        let password = |text: &str| {
            Credential::Password(strongroom_keys::SecretBytes::take(&mut text.as_bytes().to_vec()))
        };
        assert!(short_password(&password("pässwör")).is_some(), "seven characters in nine bytes");
        assert!(short_password(&password("password")).is_none());
        assert!(short_password(&password("")).is_some());
    }

    fn fitted() -> KdfCost {
        KdfCost::new(512 << 10, 4, 2).expect("in bounds")
    }

    #[test]
    fn half_a_cost_is_completed_to_the_same_work() {
        assert_eq!(complete(fitted(), None, None), (512 << 10, 4));
        assert_eq!(complete(fitted(), Some(256 << 10), None), (256 << 10, 8));
        assert_eq!(complete(fitted(), None, Some(8)), (256 << 10, 8));
        assert_eq!(complete(fitted(), Some(8 << 10), None), (8 << 10, 64), "within the format's bounds");
        assert_eq!(complete(fitted(), Some(4 << 20), None), (4 << 20, 3), "not below the floor");
        assert_eq!(complete(fitted(), None, Some(1)), (1 << 20, 1), "not above the ceiling");
    }

    #[test]
    fn costs_outside_the_formats_bounds_are_refused() {
        let cost = |memory, passes| CostArgs {
            kdf_memory: Some(memory),
            kdf_time: Some(passes),
            kdf_target: Duration::ZERO,
        };
        assert!(choose(&cost(8 << 20, 1)).is_ok());
        for (memory, passes) in
            [(8 << 20, 0), (1 << 20, 1), (5 << 30, 1), (u64::MAX, 1), (8 << 20, 65), (4 << 30, 5)]
        {
            assert_eq!(
                choose(&cost(memory, passes)).err().map(|f| f.exit().code()),
                Some(2),
                "{memory} {passes}"
            );
        }
    }
}
