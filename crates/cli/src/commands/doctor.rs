//! `doctor`: what this machine and kernel offer, what to switch on, and how.
//! Nothing is changed. With a store, what that keeps ([`store`]).

mod idle_cpu;
pub(super) mod store;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use strongroom_engine::{Engine, Operation};
use strongroom_engine_cpu::{CpuEngine, aes_instructions};
use strongroom_format::vault::Suite;

use crate::args::DoctorArgs;
use crate::failure::{Exit, Result};
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::report::{self, Output};

/// Descriptors below which large trees are slow to walk.
const OPEN_FILES_WANTED: u64 = 65536;
/// Secret memory that a mount needs, in bytes.
const LOCKED_MEMORY_WANTED: u64 = 1 << 20;

/// How good an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Good,
    /// Works, and could be better.
    Advice,
    /// Something does not work without it.
    Missing,
}

#[derive(Debug, Serialize)]
struct Item {
    /// A stable name.
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do.
    hint: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct SuiteReport {
    pub(super) suite: &'static str,
    /// It has passed its known-answer test.
    pub(super) available: bool,
    pub(super) recommended: bool,
    bytes_per_second_expected: Option<u64>,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    kernel: String,
    machine: String,
    cpus: usize,
    cpu_features: Vec<&'static str>,
    engine: String,
    suites: Vec<SuiteReport>,
    items: Vec<Item>,
}

/// Tells what this machine offers, or a store keeps. The exit code is 6 when
/// something is missing without which nothing can be mounted, or live there.
///
/// # Errors
/// When the report cannot be written, or nothing can be tried in the store.
pub(crate) fn run(args: &DoctorArgs, output: Output) -> Result<Exit> {
    match (&args.store, &args.try_lock) {
        (_, Some(file)) => store::try_lock(file),
        (Some(store), None) => store::run(store, output),
        (None, None) => machine(output),
    }
}

fn machine(output: Output) -> Result<Exit> {
    let engine = CpuEngine::new();
    let system = rustix::system::uname();
    let document = Document {
        schema: "strongroom.doctor/1",
        version: env!("CARGO_PKG_VERSION"),
        kernel: system.release().to_string_lossy().into_owned(),
        machine: system.machine().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_features: cpu_features(),
        suites: suites(&engine),
        engine: engine.name().to_owned(),
        items: vec![
            fuse_device(),
            fusermount(),
            allow_other(),
            uring(),
            idle_cpu::idle_cpu(),
            open_files(),
            locked_memory(),
            confinement(),
            swap(),
            self_tests(&engine),
        ],
    };
    output.print_at_width(&document, text)?;
    let missing = document.items.iter().any(|item| item.verdict == Verdict::Missing);
    Ok(if missing { Exit::Unsupported } else { Exit::Done })
}

fn item(name: &'static str, verdict: Verdict, found: impl Into<String>, hint: Option<&'static str>) -> Item {
    Item { name, verdict, found: found.into(), hint: hint.filter(|_| verdict != Verdict::Good) }
}

fn fuse_device() -> Item {
    let path = "/dev/fuse";
    let hint = Some("Load the module with `modprobe fuse`; in a container, pass the device in.");
    match fs::metadata(path) {
        Err(_) => item("fuse-device", Verdict::Missing, format!("{path} is missing"), hint),
        Ok(_) => match fs::File::options().read(true).write(true).open(path) {
            Ok(_) => item("fuse-device", Verdict::Good, format!("{path} can be opened"), None),
            Err(error) => {
                let hint = fuse_hint(&error).or(hint);
                item("fuse-device", Verdict::Missing, format!("{path}: {error}"), hint)
            }
        },
    }
}

/// What to do where `/dev/fuse` is there and this user may not open it.
fn fuse_hint(error: &std::io::Error) -> Option<&'static str> {
    let is_refused = error.kind() == std::io::ErrorKind::PermissionDenied;
    is_refused.then_some("Users must be able to open /dev/fuse (mode 0666): chmod 0666 /dev/fuse, as root.")
}

fn fusermount() -> Item {
    let name = "fusermount";
    let is_root = rustix::process::geteuid().is_root();
    let hint = Some("Install fuse3 (apt-get install fuse3): ordinary users mount through fusermount3.");
    let Some(path) = program("fusermount3") else {
        let verdict = if is_root { Verdict::Advice } else { Verdict::Missing };
        return item(name, verdict, "fusermount3 is not in PATH", hint);
    };
    let set_uid = fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o4000 != 0);
    match set_uid {
        true => item(name, Verdict::Good, format!("{} is set-user-id", path.display()), None),
        false => {
            let verdict = if is_root { Verdict::Advice } else { Verdict::Missing };
            let found = format!("{} is not set-user-id: only root can mount", path.display());
            item(name, verdict, found, Some("Make it so: chmod u+s \"$(command -v fusermount3)\""))
        }
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

fn allow_other() -> Item {
    let text = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let on = text.lines().any(|line| line.trim() == "user_allow_other");
    match on {
        true => item("user-allow-other", Verdict::Good, "ordinary users may use --allow-other", None),
        false => item(
            "user-allow-other",
            Verdict::Advice,
            "only root may use --allow-other",
            Some("To let ordinary users too, put the line user_allow_other into /etc/fuse.conf."),
        ),
    }
}

fn uring() -> Item {
    let name = "fuse-over-io-uring";
    match fs::read_to_string("/sys/module/fuse/parameters/enable_uring") {
        Err(_) => item(name, Verdict::Advice, "this kernel has none (it came with 6.14)", None),
        Ok(text) if text.trim() == "Y" => item(name, Verdict::Good, "switched on", None),
        Ok(_) => item(
            name,
            Verdict::Advice,
            "switched off; mounts use /dev/fuse, where small requests wake another CPU",
            Some(
                "Root switches it on for all FUSE mounts: echo Y > /sys/module/fuse/parameters/enable_uring; for good \
                 with `options fuse enable_uring=1` in /etc/modprobe.d, or fuse.enable_uring=1 for a kernel that has \
                 FUSE built in.",
            ),
        ),
    }
}

fn open_files() -> Item {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let verdict = if limit >= OPEN_FILES_WANTED { Verdict::Good } else { Verdict::Advice };
    let hint = "Each file that the kernel remembers costs a descriptor: raise LimitNOFILE of the unit, or nofile \
                in /etc/security/limits.conf.";
    item("open-files", verdict, format!("at most {limit} (hard limit)"), Some(hint))
}

fn locked_memory() -> Item {
    let limit = getrlimit(Resource::Memlock).current;
    let verdict =
        if limit.is_none_or(|limit| limit >= LOCKED_MEMORY_WANTED) { Verdict::Good } else { Verdict::Advice };
    let found =
        limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {}", report::bytes(limit)));
    let hint = "Secrets are locked in memory so that they are not swapped: raise it with `ulimit -l`, or memlock in \
                /etc/security/limits.conf.";
    item("locked-memory", verdict, found, Some(hint))
}

/// Whether system calls can be filtered.
fn confinement() -> Item {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if !actions.split_whitespace().any(|action| action == "errno") {
        let hint = "Daemons are not confined: take a kernel with CONFIG_SECCOMP_FILTER.";
        return item("confinement", Verdict::Advice, "the kernel filters no system calls", Some(hint));
    }
    match rustix::process::geteuid().is_root() {
        true => item("confinement", Verdict::Good, "daemons are confined", None),
        false => item(
            "confinement",
            Verdict::Good,
            "daemons of disks without --raw are confined; others have to run fusermount3 with its privileges",
            None,
        ),
    }
}

fn swap() -> Item {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let areas = text.lines().skip(1).count();
    let plain =
        text.lines().skip(1).any(|line| !line.starts_with("/dev/dm-") && !line.starts_with("/dev/zram"));
    match (areas, plain) {
        (0, _) => item("swap", Verdict::Good, "none", None),
        (_, false) => item("swap", Verdict::Good, "on mapped devices or in memory alone", None),
        (_, true) => item(
            "swap",
            Verdict::Advice,
            "in use, perhaps in plain",
            Some("What programs read from a mount can be swapped: encrypt swap, or turn it off."),
        ),
    }
}

fn self_tests(engine: &CpuEngine) -> Item {
    match engine.refused().as_slice() {
        [] => item("self-tests", Verdict::Good, "every algorithm computes its published vectors", None),
        refused => item(
            "self-tests",
            Verdict::Missing,
            format!("wrong results of {refused:?}"),
            Some("This CPU, its microcode or this build is broken: do not encrypt anything here."),
        ),
    }
}

pub(super) fn suites(engine: &CpuEngine) -> Vec<SuiteReport> {
    let recommended = if aes_instructions() { Suite::Xaes256Gcm } else { Suite::XChaCha20Poly1305 };
    Suite::ALL
        .into_iter()
        .map(|suite| {
            let capability = engine.capability(strongroom_vault::algorithm(suite), Operation::Seal);
            SuiteReport {
                suite: suite.name(),
                available: capability.is_some(),
                recommended: suite == recommended,
                bytes_per_second_expected: capability.map(|capability| capability.bytes_per_second),
            }
        })
        .collect()
}

/// Features of this CPU that the engines can use.
pub(super) fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let all = [
        ("aes", std::arch::is_x86_feature_detected!("aes")),
        ("pclmulqdq", std::arch::is_x86_feature_detected!("pclmulqdq")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("vaes", std::arch::is_x86_feature_detected!("vaes")),
        ("vpclmulqdq", std::arch::is_x86_feature_detected!("vpclmulqdq")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(target_arch = "aarch64")]
    let all = [
        ("aes", std::arch::is_aarch64_feature_detected!("aes")),
        ("pmull", std::arch::is_aarch64_feature_detected!("pmull")),
        ("sve2", std::arch::is_aarch64_feature_detected!("sve2")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let all: [(&'static str, bool); 0] = [];
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

const ITEMS: [Column; 3] = [Column::left("", 6), Column::left("", 18), Column::left("", 0)];

fn text(document: &Document, display: Display) -> String {
    let Document { version, kernel, machine, cpus, engine, .. } = document;
    let mut text = format!("strongroom {version} on Linux {kernel}, {machine}, {cpus} CPUs\n");
    let features = document.cpu_features.join(" ");
    let _ = writeln!(
        text,
        "engine {engine}; CPU features: {}\n",
        if features.is_empty() { "none" } else { &features }
    );
    for suite in &document.suites {
        let state = match (suite.available, suite.recommended) {
            (true, true) => "works, recommended here",
            (true, false) => "works",
            (false, _) => "does not work here",
        };
        let _ = writeln!(text, "  {:<20} {state}", suite.suite);
    }
    text.push('\n');
    let told = document.items.iter();
    text.push_str(&verdicts(told.map(|item| (item.verdict, item.name, &*item.found, item.hint)), display));
    text
}

/// What was looked at, a row each, and what is to be done below it.
fn verdicts<'i>(
    items: impl Iterator<Item = (Verdict, &'i str, &'i str, Option<&'i str>)>,
    display: Display,
) -> String {
    let mark = |verdict| match verdict {
        Verdict::Good => "ok",
        Verdict::Advice => "note",
        Verdict::Missing => "MISSING",
    };
    let (rows, hints): (Vec<_>, Vec<_>) = items
        .map(|(verdict, name, found, hint)| {
            (vec![mark(verdict).to_owned(), name.to_owned(), found.to_owned()], hint)
        })
        .unzip();
    let form = Form { indent: 2, titles: 2, has_head: false, ..Form::new(&ITEMS) };
    let layout = form.layout(&rows, display);
    let mut text = String::new();
    for (row, hint) in rows.iter().zip(hints) {
        text.push_str(&layout.row(row));
        if let Some(hint) = hint {
            let _ = writeln!(text, "          {hint}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_suite_is_recommended_and_it_works() {
        let suites = suites(&CpuEngine::new());
        let recommended: Vec<_> = suites.iter().filter(|suite| suite.recommended).collect();
        assert_eq!(recommended.len(), 1);
        assert!(recommended[0].available);
        assert_eq!(suites.len(), Suite::ALL.len());
    }

    #[test]
    fn a_device_that_may_not_be_opened_needs_another_mode() {
        let hint = |errno| fuse_hint(&std::io::Error::from_raw_os_error(errno));
        assert!(hint(13).is_some_and(|hint| hint.contains("mode 0666")));
        assert_eq!(hint(6), None);
    }

    #[test]
    fn what_is_good_needs_no_hint() {
        assert!(item("x", Verdict::Good, "", Some("hint")).hint.is_none());
        assert!(item("x", Verdict::Advice, "", Some("hint")).hint.is_some());
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(program("no-such-program-here"), None);
    }
}
