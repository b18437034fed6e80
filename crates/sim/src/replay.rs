//! A load that was recorded, on a host: chains of requests, of which each begins
//! some time after the one before it was answered.

use crate::host::Host;
use crate::report::EngineReport;
use crate::world::{Options, run_script};

/// One request of a chain, and what comes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// From the answer before, without CPU time.
    pub think_wait_ns: u64,
    /// After that, CPU time of whoever asks.
    pub think_cpu_ns: u64,
    /// CPU time of the request besides engines.
    pub cpu_ns: u64,
    /// What it waits for besides engines.
    pub wait_ns: u64,
    /// Batches, one after the other.
    pub batches: u32,
    /// Bytes of each.
    pub batch_bytes: u64,
    /// Data is sealed or encrypted.
    pub is_write: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Until the last answer.
    pub duration_ns: u64,
    /// CPU time of whoever asks and is asked, without other work.
    pub cpu_ns: u64,
    /// Requests answered.
    pub requests: u64,
    /// Mean time from a request, its think time's CPU time included, to its
    /// answer.
    pub latency_ns_mean: u64,
    /// In the host's order.
    pub engines: Vec<EngineReport>,
}

/// Replays chains until each has ended. Of the options the length of the run is
/// not looked at; of the host neither its request's CPU time nor its bytes of a
/// batch.
///
/// # Panics
/// As [`run`](crate::run).
#[must_use]
pub fn replay(host: &Host, chains: &[Vec<Turn>], options: &Options) -> Replayed {
    run_script(host, chains, options)
}

#[cfg(test)]
mod tests {
    use strongroom_sched::Settings;
    use strongroom_sched::settings::Policy;

    use super::*;
    use crate::host::{Background, Cost, Device, Drift, Inline};

    fn host(cpus: u32, ns: f64) -> Host {
        Host {
            name: "h".to_owned(),
            about: String::new(),
            cpus,
            request_cpu_ns: 0.0,
            batch_bytes: None,
            inline: vec![Inline { name: "cpu".to_owned(), write: Cost::fixed(ns), read: Cost::fixed(ns) }],
            devices: Vec::new(),
            background: Background::default(),
            jitter: 0.0,
        }
    }

    fn options(policy: Policy, engine: u8) -> Options {
        let settings = Settings { policy, engine, check_exponent: 10, ..Settings::default() };
        Options { settings, duration_ns: 0, seed: 1 }
    }

    const TURN: Turn = Turn {
        think_wait_ns: 10_000,
        think_cpu_ns: 2_000,
        cpu_ns: 3_000,
        wait_ns: 4_000,
        batches: 2,
        batch_bytes: 4096,
        is_write: true,
    };

    #[test]
    fn a_chain_alone_takes_what_its_parts_take() {
        let found = replay(&host(1, 500.0), &[vec![TURN; 100]], &options(Policy::Fixed, 0));
        assert_eq!(found.duration_ns, 100 * (10_000 + 2_000 + 3_000 + 4_000 + 2 * 500));
        assert_eq!((found.cpu_ns, found.requests), (100 * 6_000, 100));
        assert_eq!((found.engines[0].operations, found.engines[0].bytes), (200, 200 * 4096));
    }

    #[test]
    fn chains_share_cpus_and_wait_beside_each_other() {
        let chains = vec![vec![TURN; 100]; 4];
        let (one, four) = (host(1, 500.0), host(4, 500.0));
        let alone = replay(&four, &chains[..1], &options(Policy::Fixed, 0)).duration_ns;
        assert_eq!(replay(&four, &chains, &options(Policy::Fixed, 0)).duration_ns, alone);
        // Four times 6 us of CPU time in 20 us: the CPU is what there is too little of.
        let crowded = replay(&one, &chains, &options(Policy::Fixed, 0)).duration_ns;
        assert!((4 * 600_000..4 * 600_000 + 100_000).contains(&crowded), "{crowded}");
    }

    #[test]
    fn other_work_makes_it_take_longer_and_is_not_its_cpu_time() {
        let host =
            Host { background: Background { threads: 3, ..Background::default() }, ..host(1, 90_000.0) };
        let turn = Turn { batches: 1, batch_bytes: 4096, ..Turn::default() };
        let found = replay(&host, &[vec![turn; 200]], &options(Policy::Fixed, 0));
        // Four want the CPU.
        assert!((60_000_000..80_000_000).contains(&found.duration_ns), "{found:?}");
        assert!((18_000_000..18_100_000).contains(&found.cpu_ns), "{found:?}");
    }

    #[test]
    fn requests_without_cryptography_or_anything_end_too() {
        let nothing = Turn::default();
        let wait = Turn { wait_ns: 7, ..nothing };
        let found =
            replay(&host(1, 500.0), &[vec![nothing, wait, nothing], vec![]], &options(Policy::Adaptive, 0));
        assert_eq!((found.requests, found.engines[0].operations), (3, 0));
        assert_eq!(replay(&host(1, 1.0), &[], &options(Policy::Adaptive, 0)).requests, 0);
    }

    #[test]
    fn the_policies_of_production_place_its_batches() {
        let service = Cost::fixed(5_000.0);
        let device = Device {
            name: "device".to_owned(),
            units: 8,
            queue_max: 64,
            read: service.clone(),
            write: service,
            submit: Cost::fixed(300.0),
            complete: Cost::fixed(300.0),
            interrupt: Cost::fixed(300.0),
            drift: Drift::None,
        };
        let slow = Host { devices: vec![device], ..host(1, 100_000.0) };
        let chains = vec![vec![TURN; 200]; 8];
        let forced = replay(&slow, &chains, &options(Policy::Fixed, 1));
        assert_eq!(forced.engines[0].operations, 0);
        let adaptive = replay(&slow, &chains, &options(Policy::Adaptive, 0));
        assert!(adaptive.engines[1].operations > 3_000, "{adaptive:?}");
        let alone = replay(&slow, &chains, &options(Policy::Fixed, 0));
        assert!(adaptive.duration_ns * 5 < alone.duration_ns, "{adaptive:?} {alone:?}");
    }
}
