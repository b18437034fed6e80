//! From a secret to the key of its slot, and what that should cost here.
//!
//! Passwords go through Argon2id (RFC 9106), whose memory and time an attacker
//! pays for every guess. Secrets that are uniform already go through HKDF.

use std::fmt;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Params, Version};
use hkdf::Hkdf;
use sha2::Sha256;
use strongroom_format::vault::slot::{Kdf, KdfCost, SALT_LEN};
use strongroom_memory::in_wiped_stack;

use crate::argon;
use crate::secret::Secret;

/// Bytes that the KDF gives: 64 for AES-SIV, 32 for the commitment.
pub(crate) const DERIVED_LEN: usize = 96;

const HKDF_INFO: &[u8] = b"strongroom slot";

/// What a password should take to try on this machine.
pub const TARGET: Duration = Duration::from_secs(1);
/// Passes below which a new slot never goes: those of RFC 9106's second
/// recommendation.
pub const PASSES_FLOOR: u32 = 3;
/// Memory below which a new slot goes only where the machine has too little,
/// in KiB: that of RFC 9106's second recommendation.
pub const MEMORY_FLOOR: u32 = 64 << 10;
/// Memory below which a new slot never goes, in KiB: the least of OWASP's
/// password storage recommendations, which asks for two passes there.
pub const MEMORY_HARD_FLOOR: u32 = 19 << 10;
/// Memory above which a new slot never goes, in KiB, so that a smaller machine
/// can open the vault too.
pub const MEMORY_CEILING: u32 = 1 << 20;
/// Lanes above which a new slot never goes.
pub const LANES_CEILING: u32 = 4;

const _: () = assert!(KdfCost::MEMORY_MIN <= MEMORY_HARD_FLOOR && MEMORY_HARD_FLOOR <= MEMORY_FLOOR);
const _: () = assert!(MEMORY_FLOOR <= MEMORY_CEILING && MEMORY_CEILING <= KdfCost::MEMORY_MAX);

/// This machine has not the memory that a slot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostRefused {
    /// What it asks for.
    pub cost: KdfCost,
}

impl fmt::Display for CostRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not enough memory to try the secret ({})", self.cost)
    }
}

impl std::error::Error for CostRefused {}

/// The slot's key and commitment key.
pub(crate) fn derive(
    kdf: Kdf,
    secret: &[u8],
    salt: &[u8; SALT_LEN],
) -> Result<Secret<DERIVED_LEN>, CostRefused> {
    match kdf {
        Kdf::Argon2id(cost) => argon2id(cost, secret, salt),
        Kdf::Hkdf => in_wiped_stack(|| {
            Ok(Secret::build(|key| {
                let hkdf = Hkdf::<Sha256>::new(Some(salt), secret);
                hkdf.expand(HKDF_INFO, key).expect("96 bytes are less than 255 hashes");
            }))
        }),
    }
}

fn argon2id(cost: KdfCost, secret: &[u8], salt: &[u8; SALT_LEN]) -> Result<Secret<DERIVED_LEN>, CostRefused> {
    let refused = CostRefused { cost };
    check_memory(cost, memory::total_kib())?;
    let params = Params::new(cost.memory_kib(), cost.passes(), cost.lanes(), Some(DERIVED_LEN))
        .expect("the format's bounds are narrower than Argon2's");
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut done = false;
    let key = Secret::build(|key| done = argon::hash(&argon2, cost.lanes(), secret, salt, key));
    if done { Ok(key) } else { Err(refused) }
}

/// Refuses a cost beyond the machine's memory, rather than have the process
/// killed for it.
fn check_memory(cost: KdfCost, total_kib: Option<u64>) -> Result<(), CostRefused> {
    match total_kib {
        Some(total) if total < u64::from(cost.memory_kib()) => Err(CostRefused { cost }),
        _ => Ok(()),
    }
}

/// The cost that takes about `target` on this machine: as much memory as fits
/// in it with [`PASSES_FLOOR`] passes, at most a quarter of what is available,
/// then as many passes as the time allows. Takes up to twice `target` to
/// measure.
///
/// The floors hold however slow the machine is, or busy while measuring.
///
/// # Errors
/// [`CostRefused`] when not even the least memory is there.
pub fn fit_cost(target: Duration) -> Result<KdfCost, CostRefused> {
    let lanes = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).min(LANES_CEILING);
    let memory_max =
        memory::available_kib().map_or(MEMORY_FLOOR, |kib| (kib / 4).min(u64::from(u32::MAX)) as u32);
    let sample = cost(MEMORY_FLOOR.min(memory_max).max(MEMORY_HARD_FLOOR), 1, lanes);
    let first = plan(speed(sample)?, target, memory_max, lanes);
    // Large memory is slower by the KiB; measure one pass of what was planned.
    let again = cost(first.memory_kib(), 1, lanes);
    Ok(plan(speed(again)?, target, memory_max, lanes))
}

/// Measurements of which the shortest counts: whatever else the machine does
/// makes one longer, and none shorter. A cost that was measured beside much
/// work would be too low for as long as the slot lasts.
const MEASUREMENTS: usize = 3;

/// Work is memory in KiB times passes; this is work per second.
fn speed(cost: KdfCost) -> Result<f64, CostRefused> {
    let mut least = f64::INFINITY;
    for _ in 0..MEASUREMENTS {
        let start = Instant::now();
        argon2id(cost, b"a password", &[0; SALT_LEN])?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(f64::from(cost.memory_kib()) * f64::from(cost.passes()) / least.max(1e-6))
}

/// About how long `work` (memory in KiB times passes) takes on this machine.
/// Takes some milliseconds to measure.
///
/// # Errors
/// [`CostRefused`] when not even the least memory is there.
pub fn time_of(work: u64) -> Result<Duration, CostRefused> {
    let lanes = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).min(LANES_CEILING);
    let sample = speed(cost(KdfCost::MEMORY_MIN, 1, lanes))?;
    Ok(Duration::from_secs_f64(work as f64 / sample))
}

/// The cost for a machine that does `speed` work per second.
fn plan(speed: f64, target: Duration, memory_max: u32, lanes: u32) -> KdfCost {
    let work = speed * target.as_secs_f64();
    let memory = (work / f64::from(PASSES_FLOOR)) as u32;
    let memory = memory.clamp(MEMORY_FLOOR, MEMORY_CEILING).min(memory_max).max(MEMORY_HARD_FLOOR);
    let most = (KdfCost::WORK_MAX / u64::from(memory)).min(u64::from(KdfCost::PASSES_MAX)) as u32;
    let passes = ((work / f64::from(memory)) as u32).clamp(PASSES_FLOOR, most);
    cost(memory, passes, lanes)
}

fn cost(memory_kib: u32, passes: u32, lanes: u32) -> KdfCost {
    KdfCost::new(memory_kib, passes, lanes).expect("this module's bounds lie within the format's")
}

/// How much memory there is.
pub(crate) mod memory {
    use std::fs;

    /// Memory of the machine or the control group, in KiB.
    pub(crate) fn total_kib() -> Option<u64> {
        smaller(meminfo("MemTotal:"), group_limit_kib())
    }

    /// Memory that can be had without swapping, in KiB.
    pub(super) fn available_kib() -> Option<u64> {
        smaller(meminfo("MemAvailable:"), group_limit_kib())
    }

    fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
        a.into_iter().chain(b).min()
    }

    fn meminfo(field: &str) -> Option<u64> {
        parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, field)
    }

    pub(super) fn parse_meminfo(text: &str, field: &str) -> Option<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(field))?;
        value.trim().strip_suffix("kB")?.trim().parse().ok()
    }

    /// The limit of a version 2 control group that is this process's root, as
    /// in a container.
    fn group_limit_kib() -> Option<u64> {
        let text = fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
        text.trim().parse::<u64>().ok().map(|bytes| bytes / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argon2::{AssociatedData, ParamsBuilder};
    use data_encoding::HEXLOWER;

    /// RFC 9106, 5.3.
    #[test]
    fn argon2id_of_the_rfc() {
        let data = AssociatedData::new(&[4; 12]).expect("short");
        let mut params = ParamsBuilder::new();
        params.m_cost(32).t_cost(3).p_cost(4).data(data).output_len(32);
        let params = params.build().expect("in bounds");
        let argon2 = Argon2::new_with_secret(&[3; 8], Algorithm::Argon2id, Version::V0x13, params);
        let mut tag = [0; 32];
        argon2.expect("short").hash_password_into(&[1; 32], &[2; 16], &mut tag).expect("in bounds");
        let expected = "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659";
        assert_eq!(HEXLOWER.encode(&tag), expected);
    }

    #[test]
    fn a_slots_cost_reaches_argon2() {
        let derived = derive(Kdf::Argon2id(cost(8 << 10, 2, 3)), b"secret", &[5; 32]).expect("8 MiB");
        let params = Params::new(8192, 2, 3, Some(96)).expect("in bounds");
        let mut expected = [0; 96];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(b"secret", &[5; 32], &mut expected).expect("in bounds");
        assert!(derived.equals(&expected));
    }

    #[test]
    fn every_input_of_a_kdf_counts() {
        let argon2 = |m, t, p| Kdf::Argon2id(cost(m, t, p));
        let kdfs =
            [argon2(8192, 1, 1), argon2(8193, 1, 1), argon2(8192, 2, 1), argon2(8192, 1, 2), Kdf::Hkdf];
        let mut all = Vec::new();
        for kdf in kdfs {
            for (secret, salt) in [(b"a", 0), (b"b", 0), (b"a", 1)] {
                all.push(derive(kdf, secret, &[salt; 32]).expect("8 MiB").expose().to_vec());
            }
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn more_memory_than_the_machine_has_is_refused() {
        let cost = cost(1 << 20, 1, 1);
        assert_eq!(check_memory(cost, Some((1 << 20) - 1)), Err(CostRefused { cost }));
        assert_eq!(check_memory(cost, Some(1 << 20)), Ok(()));
        assert!(memory::total_kib() >= memory::available_kib() && memory::available_kib() > Some(0));
        assert_eq!(memory::parse_meminfo("MemTotal:  12 kB\nMemFree: 3 kB\n", "MemFree:"), Some(3));
        assert_eq!(memory::parse_meminfo("MemTotal:  12 kB\n", "MemFree:"), None);
    }

    #[test]
    fn plans_keep_to_the_floors_and_ceilings() {
        let mib = 1024.0;
        let second = Duration::from_secs(1);
        let plan_of = |speed, memory_max| {
            let cost = plan(speed, second, memory_max, 4);
            (cost.memory_kib() / 1024, cost.passes(), cost.lanes())
        };
        assert_eq!(plan_of(1536.0 * mib, 8 << 20), (512, 3, 4), "memory first");
        assert_eq!(plan_of(6144.0 * mib, 8 << 20), (1024, 6, 4), "then passes");
        assert_eq!(plan_of(1536.0 * mib, 256 << 10), (256, 6, 4), "a small machine makes up in passes");
        assert_eq!(plan_of(1.0, 8 << 20), (64, 3, 4), "the floors hold on a slow machine");
        assert_eq!(plan_of(1.0, 1 << 10), (19, 3, 4), "and on a tiny one");
        assert_eq!(plan_of(1e18, 8 << 20), (1024, 16, 4), "the format's bound on work holds");
    }

    #[test]
    fn the_time_of_work_grows_with_it() {
        let [none, some, more] = [0, 1 << 20, 64 << 20].map(|work| time_of(work).expect("8 MiB"));
        assert_eq!(none, Duration::ZERO);
        assert!(Duration::ZERO < some && some < more, "{some:?} {more:?}");
    }

    #[test]
    fn a_fitted_cost_takes_about_the_time() {
        let fitted = fit_cost(Duration::from_millis(50)).expect("19 MiB");
        assert!(fitted.memory_kib() >= MEMORY_HARD_FLOOR && fitted.passes() >= PASSES_FLOOR);
        assert!(derive(Kdf::Argon2id(fitted), b"", &[0; 32]).is_ok());
    }
}
