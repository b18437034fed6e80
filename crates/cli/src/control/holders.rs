//! Who else has a mount: copies of it in other mount namespaces, and further
//! places in this one. Read from the mount tables of all processes, which
//! touches no mount.
//!
//! Source: `proc_pid_mountinfo(5)`, `mount_namespaces(7)`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::mounts::{self, DeviceNumber};
use crate::report::shown;

/// Places that are told by name; the others are counted.
const TOLD_MAX: usize = 5;

/// A place where a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// A process in whose mount namespace it is.
    pid: u32,
    /// What that process calls itself.
    command: String,
    /// How many processes share that namespace.
    processes: usize,
    /// Where it is mounted there.
    path: PathBuf,
    /// That namespace is not this process's.
    elsewhere: bool,
}

/// Where the file system `device` is mounted, as far as this user may look.
pub(crate) fn of(device: DeviceNumber) -> Vec<Holder> {
    let own = namespace("self");
    let mut found: BTreeMap<OsString, Vec<Holder>> = BTreeMap::new();
    for pid in processes() {
        let Some(space) = namespace(&pid.to_string()) else { continue };
        if let Some(known) = found.get_mut(&space) {
            known.iter_mut().for_each(|holder| holder.processes += 1);
            continue;
        }
        let table = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let elsewhere = own.as_ref() != Some(&space);
        let holders = mounts::places(&table, device).into_iter().map(|path| Holder {
            pid,
            command: command.trim_end().to_owned(),
            processes: 1,
            path,
            elsewhere,
        });
        let holders = holders.collect();
        found.insert(space, holders);
    }
    found.into_values().flatten().collect()
}

fn processes() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn namespace(pid: &str) -> Option<OsString> {
    let link = std::fs::read_link(Path::new("/proc").join(pid).join("ns/mnt")).ok()?;
    Some(OsString::from_vec(link.into_os_string().into_vec()))
}

/// What holds a mount that is not listed any more, and what to do about it.
/// `directory` is where it was.
pub(crate) fn told(holders: &[Holder], directory: &Path) -> String {
    let mut lines: Vec<String> = holders.iter().take(TOLD_MAX).map(Holder::line).collect();
    if holders.len() > TOLD_MAX {
        lines.push(format!("{} more places.", holders.len() - TOLD_MAX));
    }
    if lines.is_empty() {
        lines
            .push("No mount table shows it: files in it are open, or it belongs to another user.".to_owned());
    }
    let at = shown(directory.as_os_str().as_encoded_bytes());
    lines.push(format!(
        "It is closed when they are gone. To end it at once, which takes what was not synced: strongroom umount \
         --abort {at}"
    ));
    lines.join("\n")
}

impl Holder {
    fn line(&self) -> String {
        let (pid, command) = (self.pid, shown(self.command.as_bytes()));
        let path = shown(self.path.as_os_str().as_encoded_bytes());
        if !self.elsewhere {
            return format!("It is mounted at {path} too: umount {path}");
        }
        match self.processes {
            1 => format!("Process {pid} ({command}) has a copy of it at {path} in its own mount namespace."),
            more => format!(
                "Process {pid} ({command}) and {} others have a copy of it at {path} in their mount namespace.",
                more - 1
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_this_namespace_is_found_once() {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
        let proc = table.lines().find(|line| line.contains(" /proc ")).expect("it is mounted");
        let (major, minor) =
            proc.split(' ').nth(2).and_then(|number| number.split_once(':')).expect("a number");
        let device = DeviceNumber { major: major.parse().expect("one"), minor: minor.parse().expect("one") };
        let here: Vec<Holder> = of(device).into_iter().filter(|holder| !holder.elsewhere).collect();
        assert_eq!(here.iter().filter(|holder| holder.path == Path::new("/proc")).count(), 1, "{here:?}");
    }

    #[test]
    fn what_holds_a_mount_is_told_with_what_to_do() {
        let holder = |pid, elsewhere, processes| Holder {
            pid,
            command: "sle\u{1b}ep".into(),
            processes,
            path: "/m".into(),
            elsewhere,
        };
        let text = told(&[holder(7, true, 1), holder(8, true, 3), holder(9, false, 1)], Path::new("/m"));
        assert!(text.contains("Process 7 (sle\\u{1b}ep) has a copy of it at /m"), "{text}");
        assert!(text.contains("Process 8") && text.contains("and 2 others"), "{text}");
        assert!(text.contains("mounted at /m too"), "{text}");
        assert!(text.ends_with("strongroom umount --abort /m"), "{text}");
        let many: Vec<Holder> = (0..9).map(|pid| holder(pid, true, 1)).collect();
        assert!(told(&many, Path::new("/m")).contains("4 more places"));
        assert!(told(&[], Path::new("/m")).contains("open"));
    }
}
