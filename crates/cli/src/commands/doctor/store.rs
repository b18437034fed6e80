//! `doctor STORE`: what a directory's file system keeps, and what a vault on it
//! can and cannot do. Everything is tried in a directory of its own in there,
//! which is removed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, FlockOperation, StatxFlags, flock};
use rustix::io::Errno;
use serde::Serialize;
use strongroom_store::trials::{Ability, Finding, Stopped, Trials};
use strongroom_vault::OpenOptions;

use super::{Verdict, verdicts};
use crate::again;
use crate::failure::{Exit, Failure, Result, hint_of};
use crate::fit::Display;
use crate::proc;
use crate::report::{Output, bytes, shown};
use crate::tree::Interrupt;

/// What a vault makes of an ability.
enum Need {
    /// It cannot do without, and why.
    Must(&'static str),
    /// It does without, and what then is missing.
    Without(&'static str),
    /// It makes no difference, and why.
    Indifferent(&'static str),
}

#[derive(Serialize)]
struct Item {
    /// A stable name.
    name: &'static str,
    verdict: Verdict,
    kept: bool,
    /// What was found.
    found: String,
    /// What a vault makes of it, where it is not kept.
    consequence: Option<&'static str>,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    store: String,
    /// As the system's table of mounts calls it.
    file_system: Option<String>,
    /// Whether a vault can live there.
    suitable: bool,
    items: Vec<Item>,
    /// What could not be removed afterwards.
    left: Option<String>,
}

/// Tells what a vault in `store` can do. The exit code is 6 when none can live
/// there.
///
/// # Errors
/// Unsupported without `/proc`; the store's where it is full; other when it was
/// interrupted; or what the system reports where nothing can be tried, or of the
/// output.
pub(crate) fn run(store: &Path, output: Output) -> Result<Exit> {
    proc::need()?;
    let interrupt = Interrupt::listen();
    let trials = begin(store)?;
    let findings = trials.run(&|_| true, &other_process, &|| !interrupt.is_asked());
    let left = trials.end().err().map(|error| error.to_string());
    let findings = findings.map_err(|stopped| {
        if let Some(left) = &left {
            output.warn(left);
        }
        self::stopped(stopped).at(store)
    })?;
    let items: Vec<Item> = findings.into_iter().map(judged).chain(room(store)).collect();
    let document = Document {
        schema: "strongroom.doctor-store/1",
        version: env!("CARGO_PKG_VERSION"),
        store: store.display().to_string(),
        file_system: file_system(store),
        suitable: items.iter().all(|item| item.verdict != Verdict::Missing),
        items,
        left,
    };
    output.print_at_width(&document, text)?;
    if let Some(left) = &document.left {
        output.warn(left);
    }
    Ok(if document.suitable { Exit::Done } else { Exit::Unsupported })
}

/// Tries what no vault can do without, in a store that a program or another machine serves, where a vault is to be
/// made. The file systems of this machine keep all of it.
///
/// # Errors
/// Unsupported, with what it does not keep; or as [`run`].
pub(crate) fn check(store: &Path, interrupt: &Interrupt) -> Result<()> {
    let trials = begin(store)?;
    let is_needed = |ability| matches!(meaning(ability).1, Need::Must(_));
    let findings = trials.run(&is_needed, &other_process, &|| !interrupt.is_asked());
    let ended = trials.end();
    let missing: Vec<&str> = findings
        .map_err(|stopped| self::stopped(stopped).at(store))?
        .into_iter()
        .filter(|finding| !finding.kept)
        .map(|finding| meaning(finding.ability).0)
        .collect();
    ended.map_err(|error| Failure::system(store, &error))?;
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("no vault can live on this file system, which does not keep: {}", missing.join(", "));
    Err(Failure::new(Exit::Unsupported, message)
        .at(store)
        .hint("`strongroom doctor STORE` says what that means. A vault that was made elsewhere can be copied there. \
               Where the store uploads late, what was tried may show up once more: remove `.n~doctor-…`."))
}

fn begin(store: &Path) -> Result<Trials> {
    Trials::begin(store).map_err(|error| {
        let failure = Failure::system(store, &error);
        let hint = match failure.exit() {
            _ if error.raw_os_error() == Some(Errno::ROFS.raw_os_error()) => {
                "A store is tried by making files in it, and its file system is read-only: remount it for writing."
            }
            Exit::Store => hint_of(error.raw_os_error().unwrap_or_default()).unwrap_or(TRIED),
            _ => TRIED,
        };
        failure.hint(hint)
    })
}

/// How a store is tried.
const TRIED: &str = "A store is tried by making files in it: name a directory that you may write.";

fn stopped(stopped: Stopped) -> Failure {
    match stopped {
        Stopped::Full(step) => Failure::new(Exit::Store, format!("the store is full: {step}"))
            .hint("What it keeps was not found out. Free some space there, a few megabytes, and try again."),
        Stopped::Asked => Failure::new(Exit::Other, "interrupted: not everything was tried"),
    }
}

/// Tries to lock `file` as [`other_process`] has asked this process to.
///
/// # Errors
/// What the system reports.
pub(crate) fn try_lock(file: &Path) -> Result<Exit> {
    let opened = File::options().read(true).write(true).open(file);
    let opened = opened.map_err(|error| Failure::system(file, &error))?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Exit::Done),
        Err(Errno::AGAIN) => Ok(Exit::InUse),
        Err(errno) => Err(Failure::system(file, &errno.into())),
    }
}

/// Whether another process gets the lock of a file.
fn other_process(file: &Path) -> io::Result<bool> {
    let words = ["doctor".into(), "--try-lock".into(), file.as_os_str().to_owned()];
    let silent = |other: &mut Command| {
        other.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    };
    match again::spawn(&words, silent)?.wait()?.code() {
        Some(code) if code == i32::from(Exit::Done.code()) => Ok(true),
        Some(code) if code == i32::from(Exit::InUse.code()) => Ok(false),
        _ => Err(io::Error::other("it could not lock")),
    }
}

fn judged(finding: Finding) -> Item {
    let Finding { ability, kept, found } = finding;
    let (name, need) = meaning(ability);
    let (verdict, consequence) = match (kept, need) {
        (true, _) => (Verdict::Good, None),
        (false, Need::Must(why)) => (Verdict::Missing, Some(why)),
        (false, Need::Without(what)) => (Verdict::Advice, Some(what)),
        (false, Need::Indifferent(why)) => (Verdict::Good, Some(why)),
    };
    Item { name, verdict, kept, found, consequence }
}

/// Whether a mount has room for its journal; none where the store cannot say how much is free.
fn room(store: &Path) -> Option<Item> {
    let found = rustix::fs::statvfs(store).ok().filter(|found| found.f_blocks > 0)?;
    Some(judged_room(found.f_bavail.saturating_mul(found.f_frsize)))
}

fn judged_room(available: u64) -> Item {
    let kept = available >= OpenOptions::JOURNAL_LEN_MIN;
    Item {
        name: "room",
        verdict: if kept { Verdict::Good } else { Verdict::Advice },
        kept,
        found: format!("{} can be taken", bytes(available)),
        consequence: (!kept).then_some(
            "Writing to a vault takes 16 MiB for the journal, 64 MiB unless --journal-size says less.",
        ),
    }
}

/// The stable name of an ability, and what a vault makes of it.
fn meaning(ability: Ability) -> (&'static str, Need) {
    use Need::{Indifferent, Must, Without};
    match ability {
        Ability::Contents => ("contents", Must("What is written would be lost.")),
        Ability::Lengths => ("lengths", Must("Files could not be written as they are stored.")),
        Ability::LongNames => ("long-names", Must("Encrypted names have up to 255 bytes.")),
        Ability::ExclusiveCreation => {
            ("exclusive-creation", Must("A new file could take the place of another."))
        }
        Ability::Listing => ("listing", Must("Files would be missing, or come back.")),
        Ability::Replacing => {
            ("replacing", Must("Files that are replaced while they are open would be mixed up."))
        }
        Ability::Identity => ("identity", Must("Files that are renamed while they are open would be lost.")),
        Ability::MovingDirectories => {
            ("moving-directories", Must("What was written before a directory is renamed would be lost."))
        }
        Ability::Locks => ("locks", Must("Two daemons could write to a vault at a time.")),
        Ability::Barriers => ("barriers", Must("Nothing could be promised to outlast a crash.")),
        Ability::RemovedFiles => {
            ("removed-files", Without("A file that is removed while it is open is lost to who has it open."))
        }
        Ability::EmptyAfterRemoval => {
            ("empty-after-removal", Indifferent("A mount passes over `.fuse_hidden…` and `.nfs…`."))
        }
        Ability::HardLinks => ("hard-links", Without("A file has one name: link(2) is EOPNOTSUPP.")),
        Ability::Exchange => {
            ("exchange", Without("RENAME_EXCHANGE is EINVAL; an empty directory is replaced in two steps."))
        }
        Ability::NoReplace => ("no-replace", Indifferent("A vault sees to RENAME_NOREPLACE itself.")),
        Ability::UnnamedFiles => ("unnamed-files", Without("O_TMPFILE is EOPNOTSUPP.")),
        Ability::Xattrs => {
            ("xattrs", Without("There are no extended attributes and no access control lists: EOPNOTSUPP."))
        }
        Ability::Modes => ("modes", Without("Permissions are those that the store gives to all.")),
        Ability::Owners => ("owners", Without("Files belong to whom the store says.")),
        Ability::Times => ("times", Without("Times are no finer: what compares them sees changes as one.")),
        Ability::OldTimes => ("old-times", Without("Times before 1970 become others.")),
        Ability::RangeLocks => {
            ("range-locks", Without("An encrypted disk in there is not kept from being opened twice."))
        }
        Ability::Holes => ("holes", Without("Files with holes take the room of their whole length.")),
        Ability::Punching => ("punching", Without("What is cut out of a file's middle keeps its room.")),
        Ability::Reserving => (
            "reserving",
            Without("fallocate(2) is EOPNOTSUPP, and a full store shows when it is written to."),
        ),
        Ability::SharedMappings => {
            ("shared-mappings", Indifferent("A vault reads and writes by system calls."))
        }
        Ability::Space => ("space", Without("Programs cannot ask how much is free.")),
        Ability::Case => ("case", Without("`init` notices, and takes names that differ in more than case.")),
        Ability::UnicodeForms => ("unicode-forms", Indifferent("Encrypted names are ASCII.")),
        Ability::AnyBytes => ("any-bytes", Indifferent("Encrypted names are ASCII.")),
    }
}

/// The type of the file system that a directory lies on.
fn file_system(store: &Path) -> Option<String> {
    let found = rustix::fs::statx(CWD, store, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let mount = found.stx_mnt_id.to_string();
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let type_of = |line: &str| {
        let (of_mount, of_file_system) = line.split_once(" - ")?;
        (of_mount.split(' ').next()? == mount).then(|| of_file_system.split(' ').next().map(str::to_owned))?
    };
    table.lines().find_map(type_of)
}

fn text(document: &Document, display: Display) -> String {
    let file_system = document.file_system.as_deref().unwrap_or("a file system of unknown kind");
    let mut text = format!("{} on {file_system}\n\n", shown(document.store.as_bytes()));
    let told = document.items.iter();
    text.push_str(&verdicts(
        told.map(|item| (item.verdict, item.name, &*item.found, item.consequence)),
        display,
    ));
    let names = |verdict| {
        let items = document.items.iter().filter(move |item| item.verdict == verdict);
        items.map(|item| item.name).collect::<Vec<_>>().join(", ")
    };
    let (missing, without) = (names(Verdict::Missing), names(Verdict::Advice));
    let _ = match (missing.is_empty(), without.is_empty()) {
        (true, true) => writeln!(text, "\nA vault can live here, and lacks nothing."),
        (true, false) => writeln!(text, "\nA vault can live here, without: {without}."),
        (false, _) => writeln!(text, "\nNo vault can live here: {missing}."),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(ability: Ability, kept: bool) -> Finding {
        Finding { ability, kept, found: "found".into() }
    }

    #[test]
    fn what_is_kept_is_good_and_what_is_not_is_judged_by_the_need() {
        let verdict = |ability, kept| judged(finding(ability, kept)).verdict;
        assert_eq!(verdict(Ability::Locks, true), Verdict::Good);
        assert_eq!(verdict(Ability::Locks, false), Verdict::Missing);
        assert_eq!(verdict(Ability::HardLinks, false), Verdict::Advice);
        assert_eq!(verdict(Ability::AnyBytes, false), Verdict::Good);
        assert!(judged(finding(Ability::HardLinks, true)).consequence.is_none());
        assert!(judged(finding(Ability::AnyBytes, false)).consequence.is_some());
    }

    #[test]
    fn a_store_without_room_for_a_journal_is_told_of() {
        assert_eq!(judged_room(16 << 20).verdict, Verdict::Good);
        let small = judged_room((16 << 20) - 1);
        assert!(small.verdict == Verdict::Advice && !small.kept);
        assert!(small.consequence.is_some_and(|said| said.contains("16 MiB")));
        assert!(room(Path::new("/")).is_some());
        assert!(room(Path::new("/proc")).is_none(), "it has no blocks");
    }

    #[test]
    fn the_last_line_says_whether_a_vault_can_live_there() {
        let said = |lost: &[Ability]| {
            let items = lost.iter().map(|ability| judged(finding(*ability, false))).collect();
            let document = Document {
                schema: "",
                version: "",
                store: "store".into(),
                file_system: None,
                suitable: true,
                items,
                left: None,
            };
            text(&document, Display::of(File::open("/dev/null").expect("it is there")))
                .lines()
                .last()
                .map(str::to_owned)
        };
        assert_eq!(said(&[]).as_deref(), Some("A vault can live here, and lacks nothing."));
        assert_eq!(said(&[Ability::Xattrs]).as_deref(), Some("A vault can live here, without: xattrs."));
        let both = said(&[Ability::Xattrs, Ability::Locks]);
        assert_eq!(both.as_deref(), Some("No vault can live here: locks."));
    }

    #[test]
    fn the_file_system_of_a_directory_is_found() {
        assert_eq!(file_system(Path::new("/proc")).as_deref(), Some("proc"));
    }
}
