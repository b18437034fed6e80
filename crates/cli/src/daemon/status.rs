//! What a mount has done since it was mounted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strongroom_fuse::adapter::StoreFailures;
use strongroom_sched::{EngineStatistics, Masks, Settings, Statistics};
use strongroom_store::local::StoreWaits;
use strongroom_vault::Recovered;

use super::Daemon;
use crate::confinement::{self, Confinement};
use crate::profile::DeviceBreakEven;
use crate::report;

/// One mount, as `strongroom.status/1` lists it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountStatus {
    /// The encrypted directory.
    pub(crate) vault: String,
    /// Where it is seen in plain.
    pub(crate) mount_point: String,
    /// Whether nothing can be changed.
    pub(crate) read_only: bool,
    /// Whether somebody else writes to the vault meanwhile, as far as was seen
    /// at the last request.
    pub(crate) beside_writer: bool,
    /// What seals it.
    pub(crate) suite: String,
    /// Block size of its files.
    pub(crate) block_size_bytes: u64,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// When it was mounted, in RFC 3339.
    pub(crate) since: String,
    /// How requests come from the kernel.
    pub(crate) transport: Transport,
    /// How batches are placed.
    pub(crate) scheduler: SchedulerStatus,
    /// What computes, in the order of the scheduler; at the end the one that
    /// is asked when no other can.
    pub(crate) engines: Vec<EngineStatus>,
    /// Keystream made ahead; none where no engine makes it and it was not asked
    /// for.
    #[serde(default)]
    pub(crate) masks: Option<MaskStatus>,
    /// Where the time of requests went.
    pub(crate) time: TimeStatus,
    /// What the store has not answered yet.
    #[serde(default)]
    pub(crate) store: StoreStatus,
    /// Bytes that programs and the page cache have read.
    pub(crate) read_bytes: u64,
    /// Bytes that the page cache was given unasked, around what was read.
    pub(crate) read_around_bytes: u64,
    /// Bytes that programs and the page cache have written.
    pub(crate) written_bytes: u64,
    /// Open files and directories.
    pub(crate) open: u64,
    /// Requests of the kernel by their kind, those that occurred.
    pub(crate) requests: Vec<RequestStatus>,
    /// What went wrong.
    pub(crate) errors: ErrorStatus,
    /// The journal; none of a read-only mount.
    pub(crate) journal: Option<JournalStatus>,
    /// Whether files of a session that did not end cleanly are still to be
    /// settled.
    pub(crate) settling: bool,
    /// Files that recovery has settled.
    pub(crate) recovered: RecoveredStatus,
    /// The daemon's memory.
    pub(crate) memory: MemoryStatus,
    /// What is forbidden to the daemon.
    pub(crate) confinement: Confinement,
}

/// How requests come from the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Transport {
    /// `dev-fuse` or `io-uring`.
    pub(crate) name: String,
    /// Why this one.
    pub(crate) reason: String,
    /// Threads that answer.
    pub(crate) workers: u64,
    /// Bytes of memory for requests and their answers, at most.
    pub(crate) memory_bytes: u64,
    /// Device number of the mount, as `major:minor`.
    pub(crate) device: String,
}

/// What one engine did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineStatus {
    /// Its name.
    pub(crate) name: String,
    /// Bytes it was given.
    pub(crate) bytes: u64,
    /// Batches it was given.
    pub(crate) operations: u64,
    /// Batches it was too busy for.
    pub(crate) busy: u64,
    /// Batches it could not do.
    pub(crate) unsupported: u64,
    /// Batches it accepted and lost.
    pub(crate) lost: u64,
    /// Batches it did that another had lost or got wrong.
    pub(crate) redone: u64,
    /// Batches it has not answered yet.
    pub(crate) in_flight: u64,
    /// Mean time from submission to answer, of the batches measured.
    pub(crate) latency_ns_mean: u64,
    /// The sum of these times.
    #[serde(default)]
    pub(crate) latency_ns_sum: u64,
    /// Batches measured.
    #[serde(default)]
    pub(crate) latencies: u64,
    /// Results that the CPU recomputed and compared.
    pub(crate) checked: u64,
    /// Bytes of these.
    pub(crate) checked_bytes: u64,
    /// Of these, how many were wrong.
    pub(crate) mismatches: u64,
    /// Whether it is given no work, since it failed.
    pub(crate) quarantined: bool,
    /// Why batches were placed on it, by reason.
    pub(crate) placements: BTreeMap<String, u64>,
}

/// Keystream made ahead of its data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MaskStatus {
    /// `auto`, `on` or `off`.
    pub(crate) setting: String,
    /// Whether it is made now.
    pub(crate) active: bool,
    /// Why, or why not.
    pub(crate) reason: String,
    /// Bytes held now, made or ordered.
    pub(crate) held_bytes: u64,
    /// For writes.
    pub(crate) writes: MaskCounts,
    /// For reads.
    pub(crate) reads: MaskCounts,
}

/// What was made ahead and what became of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MaskCounts {
    /// Bytes ordered of a device.
    pub(crate) ordered_bytes: u64,
    /// Bytes of blocks for which a mask was there.
    pub(crate) hit_bytes: u64,
    /// Bytes of blocks for which none was.
    pub(crate) miss_bytes: u64,
}

impl From<strongroom_vault::MaskCounts> for MaskCounts {
    fn from(counts: strongroom_vault::MaskCounts) -> MaskCounts {
        MaskCounts { ordered_bytes: counts.ordered, hit_bytes: counts.hits, miss_bytes: counts.misses }
    }
}

/// Of a mount whose engines make no masks, where they were asked for: why there
/// are none.
fn none_made<'a>(setting: Masks, engines: impl Iterator<Item = &'a str>) -> Option<MaskStatus> {
    let none = MaskCounts { ordered_bytes: 0, hit_bytes: 0, miss_bytes: 0 };
    (setting == Masks::On).then(|| {
        let engines = engines.collect::<Vec<_>>().join(", ");
        MaskStatus {
            setting: setting.name().to_owned(),
            active: false,
            reason: format!(
                "masks=on, but no engine of this mount makes any ({engines}); a GPU does (--engine gpu)"
            ),
            held_bytes: 0,
            writes: none,
            reads: none,
        }
    })
}

/// How the scheduler places batches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SchedulerStatus {
    /// `fixed`, `size`, `aca` or `adaptive`.
    pub(crate) policy: String,
    /// `throughput`, `latency` or `cpu`.
    pub(crate) objective: String,
    /// Of `aca`: batches in flight above which a device is used.
    pub(crate) alpha: u64,
    /// Of `aca` and `size`: bytes.
    pub(crate) beta_bytes: u64,
    /// Of `aca`: idle share above which the CPU is used.
    pub(crate) idle_cpu_percent: f64,
    /// One result of a device in so many is checked.
    pub(crate) check_interval: u64,
    /// When the profile was measured with which the records began.
    pub(crate) profile_measured: Option<String>,
    /// By that profile, for the mount's algorithm: where devices and the CPU
    /// break even.
    pub(crate) break_even: Vec<DeviceBreakEven>,
}

impl From<Settings> for SchedulerStatus {
    fn from(settings: Settings) -> SchedulerStatus {
        SchedulerStatus {
            policy: settings.policy.name().to_owned(),
            objective: settings.objective.name().to_owned(),
            alpha: settings.alpha.into(),
            beta_bytes: settings.beta_bytes.into(),
            idle_cpu_percent: f64::from(settings.idle_cpu_permille) / 10.0,
            check_interval: 1 << settings.check_exponent,
            profile_measured: None,
            break_even: Vec::new(),
        }
    }
}

/// Where the time of all threads went since the mount, as far as samples tell.
/// Background work of the vault counts for cryptography and store too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimeStatus {
    /// From receiving requests to handing over their answers, summed up.
    pub(crate) requests_ns: u64,
    /// In submissions to engines, and what devices took.
    pub(crate) cryptography_ns: u64,
    /// In calls of the system for reading the store.
    pub(crate) store_read_ns: u64,
    /// For writing to it.
    pub(crate) store_write_ns: u64,
    /// For barriers.
    pub(crate) store_barrier_ns: u64,
    /// For names and attributes in it.
    pub(crate) store_names_ns: u64,
}

impl TimeStatus {
    /// All of the store's.
    pub(crate) fn store_ns(&self) -> u64 {
        self.store_read_ns + self.store_write_ns + self.store_barrier_ns + self.store_names_ns
    }
}

/// How the store holds the mount up: calls that it has not answered for a second, and those in which it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreStatus {
    /// How many.
    pub(crate) waiting: u64,
    /// How long the first of them has been waiting.
    pub(crate) longest_ns: u64,
    /// What that does: `reading`, `writing`, `a barrier` or `names`.
    pub(crate) what: Option<String>,
    /// Requests that failed because the store did.
    pub(crate) failed_requests: u64,
    /// The call that failed last, with its error.
    pub(crate) last_failure: Option<String>,
    /// How long ago that was.
    pub(crate) last_failure_ns: Option<u64>,
}

impl StoreStatus {
    fn new(waits: StoreWaits, failures: StoreFailures) -> StoreStatus {
        let (last_failure, ago) = failures.last.unzip();
        StoreStatus {
            waiting: waits.calls,
            longest_ns: waits.longest.as_nanos() as u64,
            what: waits.what.map(str::to_owned),
            failed_requests: failures.requests,
            last_failure,
            last_failure_ns: ago.map(|ago| ago.as_nanos() as u64),
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RequestStatus {
    /// The kernel's name for it.
    pub(crate) name: String,
    /// How many.
    pub(crate) count: u64,
    /// How many had an error as answer, `ENOENT` and the like among them.
    pub(crate) errors: u64,
    /// Time they took, summed up.
    pub(crate) latency_ns: u64,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ErrorStatus {
    /// Errors that no caller was there to be told of.
    pub(crate) background: u64,
    /// The last of them.
    pub(crate) last: Option<String>,
    /// How often requests met damage, listings that left something out for it included.
    pub(crate) damaged_requests: u64,
    /// What was found damaged.
    pub(crate) damaged: Vec<DamagedStatus>,
    /// Requests whose handling panicked: a bug of this program.
    pub(crate) panics: u64,
}

/// Something damaged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DamagedStatus {
    /// Plain path in the mount; none when it had no known name.
    pub(crate) path: Option<String>,
    /// What is wrong.
    pub(crate) what: String,
    /// How often it was met.
    pub(crate) times: u64,
}

/// The journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalStatus {
    /// Its size.
    pub(crate) size_bytes: u64,
    /// Commits, of one file or several.
    pub(crate) commits: u64,
    /// Checkpoints.
    pub(crate) checkpoints: u64,
    /// `full` or `relaxed`.
    pub(crate) durability: String,
}

/// Files that recovery has settled, by what became of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecoveredStatus {
    /// Replayed from the journal.
    pub(crate) replayed: u64,
    /// Never made durable, and removed.
    pub(crate) removed: u64,
    /// Cut to what was durable.
    pub(crate) trimmed: u64,
    /// Newer than the journal, which somebody has put back.
    pub(crate) newer: u64,
}

/// The daemon's memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemoryStatus {
    /// Resident now.
    pub(crate) resident_bytes: u64,
    /// Most that was resident.
    pub(crate) resident_max_bytes: u64,
    /// For secrets and what is expanded from them, stacks not counted.
    pub(crate) secret_bytes: u64,
    /// Whether all of that is locked, so that it does not reach swap.
    pub(crate) secrets_locked: bool,
    /// Whether the stacks are locked that keys are used on.
    pub(crate) stacks_locked: bool,
}

impl From<EngineStatistics> for EngineStatus {
    fn from(statistics: EngineStatistics) -> EngineStatus {
        EngineStatus {
            name: statistics.engine,
            bytes: statistics.bytes,
            operations: statistics.operations,
            busy: statistics.busy,
            unsupported: statistics.unsupported,
            lost: statistics.lost,
            redone: statistics.redone,
            in_flight: statistics.in_flight,
            latency_ns_mean: statistics.latency_ns_mean,
            latency_ns_sum: statistics.latency_ns_sum,
            latencies: statistics.latencies,
            checked: statistics.checked,
            checked_bytes: statistics.checked_bytes,
            mismatches: statistics.mismatches,
            quarantined: statistics.quarantined,
            placements: statistics
                .placements
                .iter()
                .map(|placement| (placement.reason.name().to_owned(), placement.count))
                .collect(),
        }
    }
}

impl Daemon {
    /// The figures of this moment; those of requests under way may be off by
    /// these.
    pub(super) fn status(&self) -> MountStatus {
        let (vault, served) = (&self.vault, self.session.statistics());
        let header = vault.header();
        let engines = self.engines.statistics();
        MountStatus {
            vault: self.plan.vault.to_string_lossy().into_owned(),
            mount_point: self.plan.directory.to_string_lossy().into_owned(),
            read_only: self.plan.is_read_only(),
            beside_writer: vault.has_writer(),
            suite: header.suite.name().to_owned(),
            block_size_bytes: header.block_size.bytes(),
            pid: std::process::id(),
            since: report::rfc3339(self.since),
            transport: self.transport(),
            scheduler: self.scheduler(),
            masks: self.masks(),
            time: self.time(&served, &engines),
            store: StoreStatus::new(self.local.waits(), self.adapter.store_failures()),
            engines: engines.engines.into_iter().chain([engines.fallback]).map(EngineStatus::from).collect(),
            read_bytes: served.bytes_read,
            read_around_bytes: served.bytes_prefetched,
            written_bytes: served.bytes_written,
            open: self.adapter.open_count() as u64,
            requests: requests(&served),
            errors: self.errors(&served),
            journal: self.journal(),
            settling: vault.is_settling(),
            recovered: self.recovered(),
            memory: memory(),
            confinement: confinement::standing(),
        }
    }

    fn masks(&self) -> Option<MaskStatus> {
        let setting = self.engines.settings().masks;
        let Some(report) = self.vault.masks() else {
            let engines = self.engines.statistics().engines;
            return none_made(setting, engines.iter().map(|engine| engine.engine.as_str()));
        };
        Some(MaskStatus {
            setting: setting.name().to_owned(),
            active: report.decision.is_on,
            reason: report.decision.reason,
            held_bytes: report.held,
            writes: report.writes.into(),
            reads: report.reads.into(),
        })
    }

    fn scheduler(&self) -> SchedulerStatus {
        let algorithm = strongroom_vault::algorithm(self.vault.header().suite);
        let profile = self.profile.as_ref();
        SchedulerStatus {
            profile_measured: profile.map(|profile| profile.measured.clone()),
            break_even: profile
                .map_or_else(Vec::new, |profile| profile.break_even(algorithm).cloned().collect()),
            ..self.engines.settings().into()
        }
    }

    fn time(&self, served: &strongroom_fuse::Statistics, engines: &Statistics) -> TimeStatus {
        let nanos = |time: std::time::Duration| time.as_nanos() as u64;
        // What an inline engine takes is in its submissions.
        let algorithm = strongroom_vault::algorithm(self.vault.header().suite);
        let devices =
            engines.engines.iter().filter(|engine| !self.engines.is_inline(&engine.engine, algorithm));
        let on_devices: u64 =
            devices.map(|device| device.latency_ns_mean.saturating_mul(device.operations)).sum();
        let store = self.local.times();
        TimeStatus {
            requests_ns: requests(served).iter().map(|request| request.latency_ns).sum(),
            cryptography_ns: nanos(self.metered.total()).saturating_add(on_devices),
            store_read_ns: nanos(store.reads),
            store_write_ns: nanos(store.writes),
            store_barrier_ns: nanos(store.barriers),
            store_names_ns: nanos(store.names),
        }
    }

    /// Empty until the kernel has agreed, which is before anything is served.
    fn transport(&self) -> Transport {
        let taken = self.session.transport();
        Transport {
            name: taken.as_ref().map_or("dev-fuse", |taken| taken.name).to_owned(),
            reason: taken.as_ref().map_or("not yet agreed", |taken| &taken.reason).to_owned(),
            workers: taken.as_ref().map_or(1, |taken| taken.workers as u64),
            memory_bytes: taken.as_ref().map_or(0, |taken| taken.memory_bytes as u64),
            device: format!("{}:{}", self.device.major, self.device.minor),
        }
    }

    fn errors(&self, served: &strongroom_fuse::Statistics) -> ErrorStatus {
        let counters = self.vault.counters();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let damaged = self.damage.found().into_iter();
        ErrorStatus {
            background: load(&counters.background_errors),
            last: self.vault.last_error(),
            damaged_requests: self.damage.total(),
            damaged: damaged
                .map(|found| DamagedStatus {
                    path: found.path.map(text),
                    what: found.what,
                    times: found.times,
                })
                .collect(),
            panics: served.panics,
        }
    }

    fn journal(&self) -> Option<JournalStatus> {
        let counters = self.vault.counters();
        let status = || JournalStatus {
            size_bytes: self.plan.journal_len,
            commits: load(&counters.commits),
            checkpoints: load(&counters.checkpoints),
            durability: self.plan.durability_name().to_owned(),
        };
        (!self.plan.is_read_only()).then(status)
    }

    fn recovered(&self) -> RecoveredStatus {
        let mut status = RecoveredStatus::default();
        for what in self.vault.recovered().into_values() {
            let count = match what {
                Recovered::Replayed => &mut status.replayed,
                Recovered::Removed => &mut status.removed,
                Recovered::Trimmed => &mut status.trimmed,
                Recovered::Newer => &mut status.newer,
            };
            *count += 1;
        }
        status
    }
}

fn load(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

fn requests(served: &strongroom_fuse::Statistics) -> Vec<RequestStatus> {
    let told = |operation: &strongroom_fuse::OperationStatistics| RequestStatus {
        name: operation.name.to_owned(),
        count: operation.count,
        errors: operation.errors,
        // 2^64 ns are five centuries.
        latency_ns: operation.latency_sum.as_nanos() as u64,
    };
    served.operations.iter().map(told).collect()
}

/// This process's memory, as the kernel tells it; zeros where it does not.
fn memory() -> MemoryStatus {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let bytes = |name| field(name).unwrap_or(0) * 1024;
    let secrets = strongroom_memory::standing();
    MemoryStatus {
        resident_bytes: bytes("VmRSS"),
        resident_max_bytes: bytes("VmHWM"),
        secret_bytes: secrets.bytes as u64,
        secrets_locked: secrets.secrets_locked,
        stacks_locked: secrets.stacks_locked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_more_than_nothing() {
        let memory = memory();
        assert!(memory.resident_bytes > 0 && memory.resident_bytes <= memory.resident_max_bytes);
    }

    #[test]
    fn masks_that_were_asked_for_and_are_not_made_have_a_reason() {
        let engines = ["cpu(vaes)", "cpu(portable)"];
        for setting in [Masks::Auto, Masks::Off] {
            assert!(none_made(setting, engines.into_iter()).is_none());
        }
        let status = none_made(Masks::On, engines.into_iter()).expect("a reason");
        assert!(!status.active && status.setting == "on");
        assert!(engines.iter().all(|engine| status.reason.contains(engine)), "{}", status.reason);
    }
}
