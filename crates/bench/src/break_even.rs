//! From where on a device is better than the CPU: the thresholds alpha, beta
//! and M of the ACA-SDS paper, and how many CPUs it takes to feed the device,
//! found by measuring and not set by hand.

/// A rate that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes of a batch.
    pub bytes: u64,
    /// Batches that were in flight at once: for the CPU, threads.
    pub concurrency: u32,
    /// Of all together.
    pub bytes_per_second: f64,
    /// CPU time of a batch in nanoseconds.
    pub cpu_ns: f64,
}

/// Where a device and the CPU break even for one algorithm and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakEven {
    /// The device is faster with more than so many batches in flight, at some
    /// size; `None` when it never was.
    pub alpha: Option<u32>,
    /// And from this size on, with as many in flight as were measured.
    pub beta_bytes: Option<u64>,
    /// M: with more than this share of all CPUs idle they are faster than the
    /// device at its best, from 0 to 1; 1 when they never are.
    pub idle_cpu: f64,
    /// CPUs that are busy with feeding the device at its highest rate.
    pub feeding_cpus: f64,
}

/// Compares a device with the CPU. The CPU's rates are its best engine's, with
/// 1 to all CPUs; with more in flight than that it gets no faster. `None` when
/// one of them was not measured.
#[must_use]
pub fn break_even(cpu: &[Rate], device: &[Rate]) -> Option<BreakEven> {
    let wins: Vec<(u32, u64)> = device
        .iter()
        .filter(|rate| best(cpu, rate.bytes, rate.concurrency).is_some_and(|cpu| rate.bytes_per_second > cpu))
        .map(|rate| (rate.concurrency, rate.bytes))
        .collect();
    let deepest = device.iter().map(|rate| rate.concurrency).max()?;
    let mut beta_bytes = None;
    let mut sizes: Vec<u64> =
        device.iter().filter(|rate| rate.concurrency == deepest).map(|rate| rate.bytes).collect();
    sizes.sort_unstable();
    for bytes in sizes.into_iter().rev().take_while(|bytes| wins.contains(&(deepest, *bytes))) {
        beta_bytes = Some(bytes);
    }
    let alpha = wins.iter().map(|(concurrency, _)| concurrency - 1).min();
    let fastest =
        device.iter().max_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second))?;
    let cpu_then = best(cpu, fastest.bytes, u32::MAX)?;
    Some(BreakEven {
        alpha,
        beta_bytes,
        idle_cpu: (fastest.bytes_per_second / cpu_then).min(1.0),
        feeding_cpus: fastest.cpu_ns * fastest.bytes_per_second / fastest.bytes.max(1) as f64 / 1e9,
    })
}

/// The CPU's best rate at a size with at most so many threads.
fn best(cpu: &[Rate], bytes: u64, concurrency: u32) -> Option<f64> {
    cpu.iter()
        .filter(|rate| rate.bytes == bytes && rate.concurrency <= concurrency)
        .map(|rate| rate.bytes_per_second)
        .max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bytes: u64, concurrency: u32, bytes_per_second: f64) -> Rate {
        Rate { bytes, concurrency, bytes_per_second, cpu_ns: 5000.0 }
    }

    /// A CPU with 1 GB/s on each of two CPUs; a device with 100 µs for each
    /// batch, 16 at once, and 4 GB/s at most.
    fn host() -> (Vec<Rate>, Vec<Rate>) {
        let sizes = [4096u64, 16384, 65536];
        let cpu = sizes.into_iter().flat_map(|bytes| [rate(bytes, 1, 1e9), rate(bytes, 2, 2e9)]).collect();
        let device = sizes
            .into_iter()
            .flat_map(|bytes| {
                [1, 4, 16].map(|deep| rate(bytes, deep, (bytes as f64 * f64::from(deep) / 100e-6).min(4e9)))
            })
            .collect();
        (cpu, device)
    }

    #[test]
    fn thresholds_are_those_of_the_host() {
        let (cpu, device) = host();
        let found = break_even(&cpu, &device).expect("measured");
        // 4 × 64 KiB / 100 µs is 2.6 GB/s; 16 × 16 KiB is 2.6, 16 × 4 KiB 0.66.
        assert_eq!((found.alpha, found.beta_bytes), (Some(3), Some(16384)));
        assert_eq!(found.idle_cpu, 1.0);
        assert!((found.feeding_cpus - 4e9 / 65536.0 * 5e-6).abs() < 1e-6);
    }

    #[test]
    fn a_device_that_never_wins_has_no_threshold() {
        let (cpu, device) = host();
        let slow: Vec<_> = device
            .iter()
            .map(|rate| Rate { bytes_per_second: rate.bytes_per_second / 10.0, ..*rate })
            .collect();
        let found = break_even(&cpu, &slow).expect("measured");
        assert_eq!((found.alpha, found.beta_bytes), (None, None));
        assert!((found.idle_cpu - 0.2).abs() < 1e-9);
        assert_eq!(break_even(&cpu, &[]), None);
        assert_eq!(break_even(&[], &device), None);
    }
}
