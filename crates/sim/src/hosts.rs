//! Hosts by name, and hosts from a seed.

use crate::aca_sds;
use crate::host::{Background, Cost, Device, Drift, Host, Inline};
use crate::random::Random;

const MICROSECOND: f64 = 1e3;

fn device(name: &str, units: u32, queue_max: u32, service: Cost) -> Device {
    Device {
        name: name.to_owned(),
        units,
        queue_max,
        read: service.clone(),
        write: service,
        submit: Cost::Linear { fixed_ns: 1.5 * MICROSECOND, per_byte_ns: 0.05 },
        complete: Cost::fixed(MICROSECOND),
        interrupt: Cost::fixed(MICROSECOND),
        drift: Drift::None,
    }
}

fn host(name: &str, about: &str, cpus: u32, software: Cost, devices: Vec<Device>) -> Host {
    Host {
        name: name.to_owned(),
        about: about.to_owned(),
        cpus,
        request_cpu_ns: 4.0 * MICROSECOND,
        batch_bytes: None,
        inline: vec![Inline { name: "cpu".to_owned(), read: software.clone(), write: software }],
        devices,
        background: Background::default(),
        jitter: 0.1,
    }
}

impl Host {
    /// All hosts with a name. The first is the one of the ACA-SDS paper.
    #[must_use]
    pub fn catalogue() -> Vec<Host> {
        // A cipher without instructions: about 200 MB/s on a core.
        let slow_cipher = || Cost::at_rate(MICROSECOND, 200.0);
        // AES with instructions.
        let fast_cipher = || Cost::at_rate(0.5 * MICROSECOND, 5000.0);
        let moderate = || device("device", 4, 64, Cost::at_rate(30.0 * MICROSECOND, 500.0));
        vec![
            aca_sds::host(),
            host(
                "fast-device",
                "A device faster than the CPU, whose cipher has no instructions",
                4,
                slow_cipher(),
                vec![device("device", 8, 128, Cost::at_rate(8.0 * MICROSECOND, 2000.0))],
            ),
            host(
                "slow-device",
                "A device slower than the CPU, which has instructions for the cipher",
                4,
                fast_cipher(),
                vec![device("device", 2, 32, Cost::at_rate(40.0 * MICROSECOND, 300.0))],
            ),
            host(
                "high-fixed-cost",
                "A device that takes 400 microseconds for anything and is fast with large batches",
                4,
                Cost::at_rate(MICROSECOND, 600.0),
                vec![device("device", 4, 256, Cost::at_rate(400.0 * MICROSECOND, 4000.0))],
            ),
            Host {
                background: Background { threads: 6, period_ns: 0, on_ns: 0 },
                ..host(
                    "busy-cpu",
                    "Six threads of other work on four CPUs, beside a moderate device",
                    4,
                    Cost::at_rate(MICROSECOND, 800.0),
                    vec![moderate()],
                )
            },
            host(
                "slowing-device",
                "A device that takes six times as long after a second and a half",
                4,
                slow_cipher(),
                vec![Device {
                    drift: Drift::Slows { factor: 6.0, until_ns: 1_500_000_000 },
                    ..device("device", 4, 64, Cost::at_rate(20.0 * MICROSECOND, 800.0))
                }],
            ),
            host(
                "two-devices",
                "One device with short answers, another that is fast with large batches",
                4,
                slow_cipher(),
                vec![
                    device("near", 2, 32, Cost::at_rate(6.0 * MICROSECOND, 400.0)),
                    device("far", 16, 256, Cost::at_rate(150.0 * MICROSECOND, 1500.0)),
                ],
            ),
            Host {
                background: Background { threads: 8, period_ns: 60_000_000, on_ns: 25_000_000 },
                ..host(
                    "bursty-load",
                    "Other work that takes the four CPUs for 25 of every 60 milliseconds",
                    4,
                    Cost::at_rate(MICROSECOND, 600.0),
                    vec![moderate()],
                )
            },
        ]
    }

    /// The host of that name in the catalogue, or `random-SEED`.
    #[must_use]
    pub fn named(name: &str) -> Option<Host> {
        if let Some(seed) = name.strip_prefix("random-") {
            return seed.parse().ok().map(Host::random);
        }
        Host::catalogue().into_iter().find(|host| host.name == name)
    }

    /// A host drawn from a seed: CPUs, a cipher, one or two devices, and in
    /// some of them other work or a device that slows down.
    #[must_use]
    pub fn random(seed: u64) -> Host {
        let mut random = Random::new(seed);
        let cpus = 1 << random.below(5);
        let software =
            Cost::at_rate(random.logarithmic(0.3, 3.0) * MICROSECOND, random.logarithmic(80.0, 8000.0));
        let devices = 1 + u64::from(random.below(4) == 0);
        let devices = (0..devices).map(|at| random_device(at, &mut random)).collect();
        let drawn = host(&format!("random-{seed}"), "Drawn from a seed", cpus, software, devices);
        let background = match random.below(4) {
            0 => {
                Background { threads: 1 + random.below(u64::from(cpus) * 2) as u32, ..Background::default() }
            }
            1 => {
                let period = random.logarithmic(10e6, 400e6);
                Background {
                    threads: 1 + random.below(u64::from(cpus) * 2) as u32,
                    period_ns: period as u64,
                    on_ns: (period * (0.1 + 0.8 * random.unit())) as u64,
                }
            }
            _ => Background::default(),
        };
        let request_cpu_ns = random.logarithmic(1.0, 12.0) * MICROSECOND;
        Host { background, request_cpu_ns, jitter: 0.3 * random.unit(), ..drawn }
    }
}

fn random_device(at: u64, random: &mut Random) -> Device {
    let units = 1 << random.below(6);
    let rate = random.logarithmic(50.0, 5000.0);
    let service = Cost::at_rate(random.logarithmic(2.0, 500.0) * MICROSECOND, rate);
    let mut drawn = device(&format!("device-{at}"), units, units * (2 << random.below(4)), service);
    drawn.submit = Cost::Linear {
        fixed_ns: random.logarithmic(0.5, 6.0) * MICROSECOND,
        per_byte_ns: 0.1 * random.unit(),
    };
    drawn.complete = Cost::fixed(random.logarithmic(0.5, 3.0) * MICROSECOND);
    drawn.interrupt = Cost::fixed(random.logarithmic(0.3, 3.0) * MICROSECOND);
    if random.below(6) == 0 {
        drawn.drift = Drift::Slows {
            factor: random.logarithmic(0.3, 8.0),
            until_ns: random.logarithmic(2e8, 2e9) as u64,
        };
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_by_name() {
        for host in Host::catalogue() {
            assert_eq!(Host::named(&host.name), Some(host));
        }
        assert_eq!(Host::named("random-7"), Some(Host::random(7)));
        assert!(Host::random(7) != Host::random(8));
        assert_eq!(Host::named("random-x"), None);
        assert!(Host::catalogue().len() >= 7);
    }
}
