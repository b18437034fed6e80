//! Who holds a vault, as the lock's file tells it, and whether that keeps
//! others out (section 9 of `docs/format/vault.md`).
//!
//! A record that cannot be read keeps nobody out: it was cut short by a crash,
//! or is none.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use strongroom_format::vault::VaultId;
use strongroom_keys::{LockCipher, RootKey};

use super::stored;
use crate::control::mounts;
use crate::report;

/// How long whoever wants a vault waits for a mount of it that is ending, and
/// how often it looks.
const PASSING: Duration = Duration::from_secs(10);
const PASSING_STEP: Duration = Duration::from_millis(50);

/// How long a process that ends may still be seen after its locks are gone.
const ENDING: Duration = Duration::from_secs(1);
const ENDING_STEP: Duration = Duration::from_millis(20);

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Name of its machine.
    pub(crate) host: String,
    /// Id of that machine, the same after each start; empty where it has none.
    #[serde(default)]
    pub(crate) machine: String,
    /// Id of that machine's start, which tells a process from a later one of
    /// the same number.
    pub(crate) boot_id: String,
    /// Its process.
    pub(crate) pid: u32,
    /// When that process started, in the kernel's ticks since the machine's
    /// start.
    #[serde(default)]
    pub(crate) started: u64,
    /// Tells this holder from all others.
    #[serde(default)]
    pub(crate) token: String,
    /// Where it has the vault mounted, if it has.
    pub(crate) mount_point: Option<PathBuf>,
    /// What it does: `mount`, `check`, `key change`…
    pub(crate) purpose: String,
    /// When it began, in RFC 3339.
    pub(crate) since: String,
    /// The lock's file in which the record was written.
    #[serde(default)]
    pub(crate) file: Option<FileMark>,
    /// What that says of the file in which it was found.
    #[serde(skip)]
    pub(crate) found: Found,
    /// The same for whoever has the vault's key, of one that this machine cannot read.
    #[serde(skip)]
    pub(super) for_owner: Option<String>,
}

/// A file of this start of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileMark {
    /// Device number of its file system.
    pub(crate) device: u64,
    /// Its inode.
    pub(crate) inode: u64,
}

/// Where a record was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the file that it names, or it names none.
    #[default]
    InPlace,
    /// In another file of the same file system: with the vault, it was copied.
    Copied,
    /// In a file of another file system: it was copied, or the same vault is
    /// seen by another way.
    OnAnotherStore,
}

impl FileMark {
    /// Of an open file.
    pub(crate) fn of(file: &std::fs::File) -> Option<FileMark> {
        let found = file.metadata().ok()?;
        Some(FileMark { device: found.dev(), inode: found.ino() })
    }
}

/// What is known of a holder whose record was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It ended, or its machine was started anew: the lock is free.
    Gone,
    /// Its process runs on this machine.
    Alive,
    /// It is on another machine, of which nothing can be known from here.
    Elsewhere,
    /// Its process runs on this machine, and has this vault or the one that
    /// this is a copy of.
    OfAnother,
}

impl Holder {
    /// This process.
    pub(crate) fn this_process(purpose: &str, mount_point: Option<&Path>) -> Holder {
        let pid = std::process::id();
        let mut token = [0; 16];
        // Only ever compared with itself: if it cannot be drawn, process and
        // start tell holders apart.
        let _ = getrandom::fill(&mut token);
        Holder {
            host: host_name(),
            machine: strongroom_keys::machine_mark().map(hex).unwrap_or_default(),
            boot_id: boot_id(),
            pid,
            started: started(pid).unwrap_or(0),
            token: hex(token),
            // JSON has no other paths than those of text.
            mount_point: mount_point.filter(|path| path.to_str().is_some()).map(Path::to_owned),
            purpose: purpose.to_owned(),
            since: report::rfc3339(report::now()),
            file: None,
            found: Found::InPlace,
            for_owner: None,
        }
    }

    /// The same, found in the file that `mark` names.
    pub(crate) fn found_in(self, mark: Option<FileMark>) -> Holder {
        let found = match (self.file, mark) {
            (Some(own), Some(mark)) if own == mark => Found::InPlace,
            (Some(own), Some(mark)) if own.device == mark.device => Found::Copied,
            (Some(_), Some(_)) => Found::OnAnotherStore,
            _ => Found::InPlace,
        };
        Holder { found, ..self }
    }

    /// Whether it is a mount of this machine that no mount table shows: it is
    /// being made, or ends, or something holds it that is not listed.
    pub(crate) fn is_passing(&self) -> bool {
        let Some(mount_point) = &self.mount_point else { return false };
        self.standing() == Standing::Alive && !mounts::shows(self.pid, mount_point)
    }

    /// Waits for a mount that is passing, as long as that may take; true when
    /// it is not any more.
    pub(crate) fn wait_while_passing(&self) -> bool {
        let until = Instant::now() + PASSING;
        while self.is_passing() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(PASSING_STEP);
        }
        true
    }

    /// One that left no word.
    pub(crate) fn unknown() -> Holder {
        Holder {
            host: String::new(),
            machine: String::new(),
            boot_id: String::new(),
            pid: 0,
            started: 0,
            token: String::new(),
            mount_point: None,
            purpose: String::new(),
            since: String::new(),
            file: None,
            found: Found::InPlace,
            for_owner: None,
        }
    }

    /// One whose word this machine cannot read: it is another's.
    pub(super) fn elsewhere() -> Holder {
        Holder::unknown()
    }

    /// Whether the vault's key tells more of it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.for_owner.is_some()
    }

    /// The same, as the vault's key tells it.
    pub(crate) fn revealed(self, root: &RootKey, vault: VaultId) -> Holder {
        let sealed = self.for_owner.as_deref();
        let told = sealed.and_then(|sealed| stored::opened(&LockCipher::of_vault(root, vault), sealed));
        // A machine that could not read the record is not the one that it names.
        told.unwrap_or(self)
    }

    /// What becomes of a record by `self`, whose lock was found free. A
    /// process that is just ending, whose locks go first, is waited for.
    pub(crate) fn standing_unlocked(&self) -> Standing {
        for _ in 0..ENDING.as_millis() / ENDING_STEP.as_millis() {
            if self.standing() != Standing::Alive {
                break;
            }
            std::thread::sleep(ENDING_STEP);
        }
        self.standing()
    }

    /// What is known of the holder now.
    pub(crate) fn standing(&self) -> Standing {
        let here = Holder::this_process("", None);
        if self.boot_id == here.boot_id {
            let runs = self.started != 0 && started(self.pid) == Some(self.started);
            return match self.found {
                Found::InPlace if runs => Standing::Alive,
                Found::OnAnotherStore if runs => Standing::OfAnother,
                // A copy of what somebody uses is nobody's.
                Found::InPlace | Found::OnAnotherStore | Found::Copied => Standing::Gone,
            };
        }
        // A machine without an id is known by its name alone, which others may
        // have too.
        match !self.machine.is_empty() && self.machine == here.machine {
            true => Standing::Gone,
            false => Standing::Elsewhere,
        }
    }

    /// Whether it is of this start of this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.boot_id == boot_id()
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.purpose.is_empty() {
            return f.write_str("by another machine; the vault's secret tells which, see `strongroom info`");
        }
        write!(f, "{} by process {}", self.purpose, self.pid)?;
        if !self.is_here() {
            write!(f, " of {}", report::shown(self.host.as_bytes()))?;
        }
        if let Some(mount_point) = &self.mount_point {
            write!(f, " at {}", report::shown(mount_point.as_os_str().as_encoded_bytes()))?;
        }
        write!(f, ", since {}", self.since)
    }
}

/// When a process of this machine started, if there runs one of that number
/// (proc_pid_stat(5), field 22).
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field may hold anything, parentheses included.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One that nobody has waited for yet is a process no more.
    let runs = !matches!(fields.next()?, "Z" | "X");
    fields.nth(22 - 4)?.parse().ok().filter(|_| runs)
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_start() {
        let here = Holder::this_process("mount", None);
        assert_eq!(here.standing(), Standing::Alive);
        let reused = Holder { started: here.started + 1, ..here.clone() };
        assert_eq!(reused.standing(), Standing::Gone);
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let began = Holder { pid: child.id(), started: started(child.id()).unwrap_or(1), ..here.clone() };
        // Not waited for, it is still listed.
        assert_eq!(began.standing_unlocked(), Standing::Gone);
        child.wait().expect("it ends");
        let ended = Holder { pid: child.id(), ..here };
        assert_eq!(ended.standing(), Standing::Gone);
    }

    #[test]
    fn any_mount_point_can_be_left() {
        use std::os::unix::ffi::OsStrExt as _;
        for path in [&b"/mnt/\xff"[..], &[b'\t'; 4095]] {
            let holder = Holder::this_process("mount", Some(Path::new(std::ffi::OsStr::from_bytes(path))));
            let text = stored::Stored::of(&holder, None).expect("entropy").text();
            assert_eq!(stored::Stored::parse(&text).map(stored::Stored::holder), Some(holder));
            assert!((text.len() as u64) < super::super::LEN_MAX);
        }
    }

    #[test]
    fn a_record_in_another_file_was_copied() {
        let mark = |device, inode| Some(FileMark { device, inode });
        let here = Holder { file: mark(1, 7), ..Holder::this_process("mount", None) };
        let found = |mark| here.clone().found_in(mark).standing();
        assert_eq!(found(mark(1, 7)), Standing::Alive);
        assert_eq!(found(None), Standing::Alive);
        assert_eq!(found(mark(1, 8)), Standing::Gone, "a copy beside it");
        assert_eq!(found(mark(2, 7)), Standing::OfAnother, "a copy, or the same by another way");
        let ended = Holder { started: here.started + 1, ..here.clone() };
        assert_eq!(ended.found_in(mark(2, 7)).standing(), Standing::Gone);
        let unmarked = Holder { file: None, ..here };
        assert_eq!(unmarked.found_in(mark(1, 8)).standing(), Standing::Alive, "of a program that wrote none");
    }

    #[test]
    fn a_mount_that_no_table_shows_is_passing() {
        let here = Holder::this_process("mount", Some(Path::new("/not/mounted")));
        assert!(here.is_passing());
        assert!(!Holder { mount_point: None, ..here.clone() }.is_passing(), "no mount");
        let ended = Holder { started: here.started + 1, ..here };
        assert!(!ended.is_passing() && ended.wait_while_passing());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_of_another_machine() {
        assert_eq!(Holder::elsewhere().standing(), Standing::Elsewhere);
        assert!(
            !Holder::elsewhere().is_here() && Holder::elsewhere().to_string().contains("another machine")
        );
    }

    #[test]
    fn another_start_of_this_machine_is_over_and_another_machine_is_not() {
        let here = Holder { machine: "aa".repeat(16), ..Holder::this_process("mount", None) };
        let elsewhere = Holder { boot_id: "another".into(), ..here.clone() };
        assert_eq!(elsewhere.standing(), Standing::Elsewhere);
        let nameless = Holder { machine: String::new(), ..elsewhere.clone() };
        assert_eq!(nameless.standing(), Standing::Elsewhere);
        if let Some(machine) = strongroom_keys::machine_mark() {
            let rebooted = Holder { machine: hex(machine), ..elsewhere };
            assert_eq!(rebooted.standing(), Standing::Gone);
        }
    }
}
