//! What is asked of a host: how many requests at once, of what kinds and
//! sizes, and how that changes.

/// When a client asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as it is answered.
    Steady,
    /// So many nanoseconds after it was answered.
    Pauses(u64),
    /// All clients ask at once, and again so many nanoseconds after the last
    /// of them was answered.
    Bursts(u64),
}

/// One part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// When it begins, in per mille of the run.
    pub from_permille: u32,
    /// Clients, each with one request at a time.
    pub clients: u32,
    /// Share of reads.
    pub read_permille: u32,
    /// Bytes of a request, with weights.
    pub sizes: Vec<(u64, u32)>,
    /// When clients ask again.
    pub pace: Pace,
}

/// Phases one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What it is asked for by.
    pub name: String,
    /// At least one, ascending, the first from 0 on.
    pub phases: Vec<Phase>,
}

const KIB: u64 = 1024;

impl Phase {
    fn new(clients: u32, read_permille: u32, sizes: &[(u64, u32)]) -> Phase {
        Phase { from_permille: 0, clients, read_permille, sizes: sizes.to_vec(), pace: Pace::Steady }
    }

    fn write(kib: u64, clients: u32) -> Phase {
        Phase::new(clients, 0, &[(kib * KIB, 1)])
    }

    fn read(kib: u64, clients: u32) -> Phase {
        Phase::new(clients, 1000, &[(kib * KIB, 1)])
    }

    fn at(self, from_permille: u32) -> Phase {
        Phase { from_permille, ..self }
    }

    fn pace(self, pace: Pace) -> Phase {
        Phase { pace, ..self }
    }
}

impl Workload {
    /// One phase, named by what it is.
    #[must_use]
    pub fn of(name: &str, phase: Phase) -> Workload {
        Workload { name: name.to_owned(), phases: vec![phase] }
    }

    /// Writes of one size by so many clients: `write-KIBk-CLIENTS`.
    #[must_use]
    pub fn writes(kib: u64, clients: u32) -> Workload {
        Workload::of(&format!("write-{kib}k-{clients}"), Phase::write(kib, clients))
    }

    /// Reads likewise.
    #[must_use]
    pub fn reads(kib: u64, clients: u32) -> Workload {
        Workload::of(&format!("read-{kib}k-{clients}"), Phase::read(kib, clients))
    }

    /// Whether everything it asks for is a write of at least so many bytes by
    /// so many clients.
    #[must_use]
    pub fn is_writes_of(&self, bytes: u64, clients: u32) -> bool {
        let phase = |phase: &Phase| {
            phase.read_permille == 0
                && phase.clients == clients
                && phase.pace == Pace::Steady
                && phase.sizes.iter().all(|(size, _)| *size >= bytes)
        };
        self.phases.iter().all(phase)
    }

    /// All that are simulated by name.
    #[must_use]
    pub fn catalogue() -> Vec<Workload> {
        let sizes = [(512, 2), (4 * KIB, 6), (16 * KIB, 2), (128 * KIB, 1), (1024 * KIB, 1)];
        let small = [(512, 1), (1024, 1), (2 * KIB, 1), (4 * KIB, 3)];
        let named = |name: &str, phases: Vec<Phase>| Workload { name: name.to_owned(), phases };
        vec![
            Workload::of("write-512-1", Phase::new(1, 0, &[(512, 1)])),
            Workload::of("write-512-64", Phase::new(64, 0, &[(512, 1)])),
            Workload::writes(4, 1),
            Workload::writes(4, 12),
            Workload::writes(4, 32),
            Workload::writes(16, 4),
            Workload::writes(16, 32),
            Workload::writes(32, 32),
            Workload::writes(64, 1),
            Workload::writes(64, 12),
            Workload::writes(64, 32),
            Workload::writes(256, 8),
            Workload::writes(1024, 2),
            Workload::writes(1024, 64),
            Workload::reads(4, 1),
            Workload::reads(4, 32),
            Workload::reads(64, 12),
            Workload::reads(1024, 4),
            Workload::of("mixed-4k-16", Phase::new(16, 500, &[(4 * KIB, 1)])),
            Workload::of("mixed-sizes-8", Phase::new(8, 300, &sizes)),
            Workload::of("mixed-sizes-48", Phase::new(48, 700, &sizes)),
            Workload::of("mixed-small-24", Phase::new(24, 500, &small)),
            Workload::of("bursts-64k-16", Phase::write(64, 16).pace(Pace::Bursts(2_000_000))),
            Workload::of("bursts-4k-64", Phase::write(4, 64).pace(Pace::Bursts(500_000))),
            Workload::of("pauses-16k-8", Phase::write(16, 8).pace(Pace::Pauses(100_000))),
            named("few-then-many", vec![Phase::write(16, 1), Phase::write(16, 48).at(400)]),
            named("small-then-large", vec![Phase::write(4, 16), Phase::write(512, 16).at(500)]),
            named("writes-then-reads", vec![Phase::write(64, 24), Phase::read(64, 24).at(500)]),
            named(
                "back-and-forth",
                vec![
                    Phase::write(64, 32),
                    Phase::read(4, 2).at(250),
                    Phase::write(64, 32).at(400),
                    Phase::write(4, 4).at(600),
                ],
            ),
        ]
    }

    /// The one of that name in the catalogue, or `write-KIBk-CLIENTS` or
    /// `read-KIBk-CLIENTS` with other numbers: 1 to 16384 KiB, 1 to 256
    /// clients.
    #[must_use]
    pub fn named(name: &str) -> Option<Workload> {
        let known = Workload::catalogue().into_iter().find(|workload| workload.name == name);
        known.or_else(|| {
            let (kind, rest) = name.split_once('-')?;
            let (kib, clients) = rest.split_once("k-")?;
            let (kib, clients) = (kib.parse().ok()?, clients.parse().ok()?);
            if !(1..=16384).contains(&kib) || !(1..=256).contains(&clients) {
                return None;
            }
            match kind {
                "write" => Some(Workload::writes(kib, clients)),
                "read" => Some(Workload::reads(kib, clients)),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_catalogue_covers_what_it_has_to() {
        let all = Workload::catalogue();
        let names: BTreeSet<_> = all.iter().map(|workload| &workload.name).collect();
        assert!(names.len() == all.len() && all.len() >= 20);
        let phases = || all.iter().flat_map(|workload| &workload.phases);
        let sizes = || phases().flat_map(|phase| &phase.sizes).map(|(bytes, _)| *bytes);
        assert_eq!((sizes().min(), sizes().max()), (Some(512), Some(1 << 20)));
        let clients = || phases().map(|phase| phase.clients);
        assert_eq!((clients().min(), clients().max()), (Some(1), Some(64)));
        for workload in &all {
            assert_eq!(workload.phases[0].from_permille, 0);
            assert!(workload.phases.is_sorted_by_key(|phase| phase.from_permille));
            assert_eq!(Workload::named(&workload.name).as_ref(), Some(workload));
        }
    }

    #[test]
    fn sizes_and_clients_can_be_asked_for() {
        assert_eq!(Workload::named("write-8k-12"), Some(Workload::writes(8, 12)));
        for name in ["write-0k-1", "erase-4k-1", "write-4k", "write-4k-0", "write-4k-257", ""] {
            assert_eq!(Workload::named(name), None, "{name}");
        }
    }
}
