//! `status`: what mounts have done since they were mounted, once, live, or
//! for Prometheus.

pub(crate) mod bottleneck;
mod prometheus;
mod watch;

use std::collections::HashSet;
use std::fmt::Write;

use serde::Serialize;

use crate::args::StatusArgs;
use crate::control::{Answer, Client, Request, mounts, unanswered};
use crate::daemon::status::{
    EngineStatus, MaskStatus, MountStatus, RecoveredStatus, StoreStatus, TimeStatus,
};
use crate::failure::{Exit, Result};
use crate::profile::DeviceBreakEven;
use crate::report::{Output, bytes, shown, shown_place};

/// `strongroom.status/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    mounts: Vec<MountStatus>,
    unanswered: Vec<String>,
}

/// What asking several mounts gave.
pub(crate) struct Asked {
    /// What those say that answered.
    pub(crate) mounts: Vec<MountStatus>,
    /// Where the others are mounted.
    pub(crate) unanswered: Vec<String>,
}

/// Runs `status`.
///
/// # Errors
/// Usage when nothing is mounted at the place asked for, or when its daemon
/// does not answer.
pub(crate) fn run(args: &StatusArgs, output: Output) -> Result<Exit> {
    if args.watch {
        watch::run(args.interval, || asked(args, output).map(|asked| asked.mounts))?;
        return Ok(Exit::Done);
    }
    let asked = asked(args, output)?;
    if args.prometheus {
        output.print(&(), |()| prometheus::text(&asked))?;
        return Ok(Exit::Done);
    }
    let Asked { mounts, unanswered } = asked;
    output.print(&Document { schema: "strongroom.status/1", mounts, unanswered }, text)?;
    Ok(Exit::Done)
}

/// The status of what was asked for. That a daemon does not answer is a figure too, for who collects figures.
fn asked(args: &StatusArgs, output: Output) -> Result<Asked> {
    let Some(directory) = &args.directory else { return own(output) };
    let mounted = mounts::at(directory)?;
    if args.prometheus {
        return Ok(ask_all(&[mounted], output));
    }
    Ok(Asked { mounts: vec![ask(&mounted)?], unanswered: Vec::new() })
}

/// The status of every mount that this user may ask; one that does not answer
/// is warned of. What is mounted at several places counts once, at the first.
pub(crate) fn own(output: Output) -> Result<Asked> {
    let uid = rustix::process::geteuid().as_raw();
    let mut known = HashSet::new();
    let is_first = |mounted: &mounts::Mounted| known.insert(mounted.device);
    let is_asked = |mounted: &mounts::Mounted| uid == 0 || mounted.owner == uid;
    let mounts: Vec<_> = mounts::vaults()?.into_iter().filter(is_asked).filter(is_first).collect();
    Ok(ask_all(&mounts, output))
}

fn ask_all(mounts: &[mounts::Mounted], output: Output) -> Asked {
    let mut asked = Asked { mounts: Vec::new(), unanswered: Vec::new() };
    for (mounted, answer) in mounts.iter().zip(side_by_side(mounts, ask)) {
        match answer {
            Ok(status) => asked.mounts.push(status),
            Err(failure) => {
                output.warn(failure.message());
                asked.unanswered.push(mounted.path.display().to_string());
            }
        }
    }
    asked
}

/// What `ask` gives for each, in their order. None waits for one that does not
/// answer.
fn side_by_side<T: Sync, A: Send>(of: &[T], ask: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let ask = &ask;
    std::thread::scope(|scope| {
        let threads: Vec<_> = of.iter().map(|one| scope.spawn(move || ask(one))).collect();
        threads.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect()
    })
}

fn ask(mounted: &mounts::Mounted) -> Result<MountStatus> {
    let mut client = Client::connect(mounted).ok_or_else(|| unanswered(mounted))?;
    match client.ask(Request::Status).map_err(|failure| failure.at(&mounted.path))? {
        Answer::Status(status) => Ok(*status),
        _ => Err(unanswered(mounted)),
    }
}

fn text(document: &Document) -> String {
    if document.mounts.is_empty() {
        let says = if document.unanswered.is_empty() { "No vault is mounted." } else { "No daemon answers." };
        return format!("{says}\n");
    }
    let mounts: Vec<String> = document.mounts.iter().map(mount_text).collect();
    mounts.join("\n")
}

fn mount_text(status: &MountStatus) -> String {
    let mut text = format!("{}\n", shown(status.mount_point.as_bytes()));
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    let access = match (status.read_only, status.beside_writer) {
        (false, _) => "",
        (true, false) => ", read-only",
        (true, true) => ", read-only, beside a writer",
    };
    line("vault", format!("{}{access}", shown(status.vault.as_bytes())));
    line("sealed with", format!("{}, blocks of {}", status.suite, bytes(status.block_size_bytes)));
    line(
        "daemon",
        format!(
            "process {}, since {}, {} resident",
            status.pid,
            status.since,
            bytes(status.memory.resident_bytes)
        ),
    );
    let memory = &status.memory;
    line(
        "secrets",
        match (memory.secrets_locked, memory.stacks_locked) {
            (true, true) => "in locked memory",
            (true, false) => "in locked memory, but for stacks: raise the limit with `ulimit -l`",
            (false, _) => "NOT in locked memory: raise the limit with `ulimit -l`",
        }
        .to_owned(),
    );
    line("confined", status.confinement.to_string());
    let transport = &status.transport;
    line("transport", format!("{}, {} threads: {}", transport.name, transport.workers, transport.reason));
    if status.engines.len() > 2 {
        let scheduler = &status.scheduler;
        let known = match &scheduler.profile_measured {
            Some(measured) => format!("begun with what was measured {measured}"),
            None => "begun without a profile (`strongroom tune` makes one)".to_owned(),
        };
        line("placed by", format!("policy {}, objective {}, {known}", scheduler.policy, scheduler.objective));
        for even in &scheduler.break_even {
            line("break-even", break_even_text(even));
        }
    }
    for engine in status.engines.iter().filter(|engine| engine.operations > 0) {
        line("engine", engine_text(engine));
    }
    if let Some(masks) = &status.masks {
        line("masks", masks_text(masks));
    }
    line("read", bytes(status.read_bytes));
    if status.read_around_bytes > 0 {
        line("prefetched", format!("{} around what was read", bytes(status.read_around_bytes)));
    }
    line("written", bytes(status.written_bytes));
    let total: u64 = status.requests.iter().map(|request| request.count).sum();
    let refused: u64 = status.requests.iter().map(|request| request.errors).sum();
    if let Some(shares) = bottleneck::shares(&TimeStatus::default(), &status.time, 1.0, 1) {
        let percent = |share: f64| (share * 100.0).round();
        let (fuse, store, cryptography) =
            (percent(shares.fuse), percent(shares.store), percent(shares.cryptography));
        line(
            "time",
            format!("{fuse} % FUSE and the vault itself, {store} % the store, {cryptography} % cryptography"),
        );
    }
    if let Some(waits) = store_text(&status.store) {
        line("WAITING", waits);
    }
    if let Some(failures) = failures_text(&status.store) {
        line("FAILED", failures);
    }
    line("requests", format!("{total}, of which {refused} had an error as answer"));
    line("open", format!("{} files and directories", status.open));
    if status.settling {
        line("recovery", "files of a session that did not end cleanly are being checked".to_owned());
    }
    let recovered = &status.recovered;
    let RecoveredStatus { replayed, removed, trimmed, newer } = recovered;
    if replayed + removed + trimmed > 0 {
        line("recovered", format!("{replayed} from the journal, {removed} removed, {trimmed} trimmed"));
    }
    if *removed > 0 {
        line("set aside", "`strongroom check` lists what was stored of the removed files".to_owned());
    }
    if *newer > 0 {
        line(
            "rolled back",
            format!("{newer} files are newer than the journal: somebody put back an old one"),
        );
    }
    if status.errors.background > 0 {
        let last = status.errors.last.as_deref().unwrap_or("unknown");
        line("errors", format!("{} in the background, the last: {last}", status.errors.background));
    }
    for damaged in &status.errors.damaged {
        let path = damaged.path.as_deref().map(str::as_bytes);
        line("DAMAGED", format!("{}: {} ({} times)", shown_place(path), damaged.what, damaged.times));
    }
    text
}

/// That the store holds the mount up by not answering, in words.
fn store_text(store: &StoreStatus) -> Option<String> {
    let StoreStatus { waiting, longest_ns, what, .. } = store;
    let what = what.as_deref()?;
    let calls = if *waiting == 1 { "1 call".to_owned() } else { format!("{waiting} calls") };
    Some(format!("the store does not answer: {calls}, {what} for {} s", longest_ns / 1_000_000_000))
}

/// That the store has failed requests, in words.
fn failures_text(store: &StoreStatus) -> Option<String> {
    let StoreStatus { failed_requests, last_failure: Some(last), last_failure_ns: Some(ago), .. } = store
    else {
        return None;
    };
    let requests =
        if *failed_requests == 1 { "1 request".to_owned() } else { format!("{failed_requests} requests") };
    Some(format!("the store failed: {requests}, the last {} s ago: {last}", ago / 1_000_000_000))
}

/// What was recomputed of an engine's results, in words.
fn checked(engine: &EngineStatus) -> String {
    format!("{} mismatches in {} checked", engine.mismatches, bytes(engine.checked_bytes))
}

fn break_even_text(even: &DeviceBreakEven) -> String {
    let DeviceBreakEven { engine, operation, idle_cpu_percent, .. } = even;
    match (even.alpha, even.beta_bytes) {
        (Some(alpha), Some(beta)) => format!(
            "{operation} on {engine} from {} on (beta) with more than {alpha} in flight (alpha), unless more than \
             {idle_cpu_percent:.0} % of the CPUs are idle (M)",
            bytes(beta)
        ),
        _ => format!("{operation}: {engine} is not faster than the CPUs with large batches"),
    }
}

pub(crate) fn masks_text(masks: &MaskStatus) -> String {
    let mut text = format!("{}: {}", if masks.active { "made ahead" } else { "off" }, masks.reason);
    for (name, counts) in [("writes", &masks.writes), ("reads", &masks.reads)] {
        let asked = counts.hit_bytes + counts.miss_bytes;
        if let Some(share) = (100 * counts.hit_bytes).checked_div(asked) {
            let ordered = bytes(counts.ordered_bytes);
            let _ = write!(text, "; there for {share} % of {} of {name}, {ordered} made", bytes(asked));
        }
    }
    if masks.held_bytes > 0 {
        let _ = write!(text, "; {} held", bytes(masks.held_bytes));
    }
    text
}

fn engine_text(engine: &EngineStatus) -> String {
    let mut text = format!("{}: {} in {} batches", engine.name, bytes(engine.bytes), engine.operations);
    if engine.placements.len() > 1 {
        let reasons: Vec<String> =
            engine.placements.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let _ = write!(text, " ({})", reasons.join(", "));
    }
    if engine.in_flight > 0 {
        let _ = write!(text, ", {} in its queue", engine.in_flight);
    }
    if engine.checked > 0 {
        let _ = write!(text, ", {}", checked(engine));
    }
    if engine.lost > 0 {
        let _ = write!(text, ", {} lost and redone", engine.lost);
    }
    if engine.quarantined {
        text.push_str(", in QUARANTINE");
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn none_waits_for_another() {
        let here = std::sync::atomic::AtomicUsize::new(0);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let meet = |of: &usize| {
            here.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            while here.load(std::sync::atomic::Ordering::Relaxed) < 3 && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            (*of, std::time::Instant::now() < until)
        };
        assert_eq!(side_by_side(&[1, 2, 3], meet), [(1, true), (2, true), (3, true)]);
    }

    /// A mount that has done a little.
    pub(crate) fn sample() -> MountStatus {
        let value = json!({
            "vault": "/v", "mount_point": "/m", "read_only": false, "beside_writer": false, "suite": "xaes-256-gcm",
            "block_size_bytes": 4096, "pid": 7, "since": "2026-01-01T00:00:00Z",
            "transport": {"name": "dev-fuse", "reason": "", "workers": 1, "memory_bytes": 0, "device": "0:1"},
            "scheduler": {
                "policy": "adaptive", "objective": "throughput", "alpha": 12, "beta_bytes": 4096,
                "idle_cpu_percent": 10.0, "check_interval": 1, "profile_measured": null, "break_even": [],
            },
            "engines": [{
                "name": "cpu", "bytes": 3000, "operations": 7, "busy": 0, "unsupported": 0, "lost": 0, "redone": 0,
                "in_flight": 0, "latency_ns_mean": 1500, "latency_ns_sum": 10500, "latencies": 7, "checked": 1, "checked_bytes": 4096, "mismatches": 0,
                "quarantined": false, "placements": {"only": 7},
            }],
            "time": {
                "requests_ns": 100, "cryptography_ns": 10, "store_read_ns": 5, "store_write_ns": 5,
                "store_barrier_ns": 0, "store_names_ns": 0,
            },
            "read_bytes": 1000, "read_around_bytes": 0, "written_bytes": 2000, "open": 1,
            "requests": [{"name": "write", "count": 3, "errors": 0, "latency_ns": 100}],
            "errors": {"background": 0, "last": null, "damaged_requests": 0, "damaged": [], "panics": 0},
            "journal": null, "settling": false,
            "recovered": {"replayed": 0, "removed": 0, "trimmed": 0, "newer": 0},
            "memory": {
                "resident_bytes": 1, "resident_max_bytes": 2, "secret_bytes": 3, "secrets_locked": true,
                "stacks_locked": false,
            },
            "confinement": {"system_calls": true, "capabilities": false, "files": false, "reason": "a reason"},
        });
        serde_json::from_value(value).expect("a status")
    }

    #[test]
    fn words_tell_where_time_went_and_what_was_checked() {
        let text = mount_text(&sample());
        assert!(text.contains("80 % FUSE and the vault itself, 10 % the store, 10 % cryptography"), "{text}");
        assert!(text.contains("in locked memory, but for stacks"), "{text}");
        assert!(text.contains("system calls (a reason)"), "{text}");
        assert!(text.contains("0 mismatches in 4 KiB checked"), "{text}");
    }

    #[test]
    fn a_store_that_does_not_answer_is_named() {
        let mut status = sample();
        assert!(!mount_text(&status).contains("WAITING"));
        status.store = StoreStatus {
            waiting: 2,
            longest_ns: 42_500_000_000,
            what: Some("a barrier".into()),
            ..StoreStatus::default()
        };
        let text = mount_text(&status);
        assert!(
            text.contains("WAITING      the store does not answer: 2 calls, a barrier for 42 s"),
            "{text}"
        );
    }

    #[test]
    fn a_store_that_failed_is_named() {
        let mut status = sample();
        assert!(!mount_text(&status).contains("FAILED"));
        status.store = StoreStatus {
            failed_requests: 3,
            last_failure: Some("openat: Transport endpoint is not connected".into()),
            last_failure_ns: Some(2_500_000_000),
            ..StoreStatus::default()
        };
        let text = mount_text(&status);
        let line = "FAILED       the store failed: 3 requests, the last 2 s ago: openat: Transport";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn what_is_damaged_is_named() {
        let mut status = sample();
        let damaged = json!([
            {"path": "", "what": "w0", "times": 1},
            {"path": "d/f\u{1b}", "what": "w1", "times": 2},
            {"path": null, "what": "w2", "times": 3},
        ]);
        status.errors.damaged = serde_json::from_value(damaged).expect("what is damaged");
        let text = mount_text(&status);
        for line in ["the top directory: w0 (1 times)", "d/f\\u{1b}: w1 (2 times)", "(no known name): w2"] {
            assert!(text.contains(&format!(" {line}")), "{line}: {text}");
        }
    }

    #[test]
    fn masks_are_told_with_their_reason() {
        let counts = |hit_bytes, miss_bytes| {
            serde_json::from_value(json!({
                "ordered_bytes": hit_bytes + 1_u64, "hit_bytes": hit_bytes, "miss_bytes": miss_bytes,
            }))
            .expect("counts")
        };
        let mut masks = MaskStatus {
            setting: "auto".into(),
            active: true,
            reason: "gpu-0: it pays".into(),
            held_bytes: 1 << 20,
            writes: counts(3 << 20, 1 << 20),
            reads: counts(0, 0),
        };
        let text = masks_text(&masks);
        assert!(text.starts_with("made ahead: gpu-0: it pays; there for 75 % of 4 MiB of writes"), "{text}");
        assert!(text.ends_with("; 1 MiB held") && !text.contains("of reads"), "{text}");
        (masks.active, masks.held_bytes, masks.writes) = (false, 0, counts(0, 0));
        assert_eq!(masks_text(&masks), "off: gpu-0: it pays");
    }
}
