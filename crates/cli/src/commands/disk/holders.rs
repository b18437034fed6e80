//! Who keeps a raw file open, for whoever wants to close the disk.
//!
//! All of it is read from `/proc` and `/sys`: a daemon never touches what it
//! serves. Processes of other users are told to root alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Most that are named.
const NAMED_MAX: usize = 8;

/// Loop devices and processes that have something below `directory` open, a
/// few words for each.
pub(super) fn holders(directory: &Path) -> Vec<String> {
    let mut found = loops(directory);
    found.extend(processes(directory));
    if found.len() > NAMED_MAX {
        let more = found.len() - NAMED_MAX;
        found.truncate(NAMED_MAX);
        found.push(format!("{more} more"));
    }
    found
}

fn loops(directory: &Path) -> Vec<String> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let lies_there = |name: &String| {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        backing.is_ok_and(|path| Path::new(path.trim_end_matches('\n')).starts_with(directory))
    };
    let names = devices.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(lies_there).map(|name| format!("/dev/{name}")).collect()
}

fn processes(directory: &Path) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |number: &u32| {
        let process = PathBuf::from(format!("/proc/{number}"));
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut links = open.chain([process.join("cwd"), process.join("root")]);
        links.any(|link| fs::read_link(link).is_ok_and(|path| path.starts_with(directory)))
    };
    let own = std::process::id();
    let told = |number: u32| {
        let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
        format!("process {number} ({})", name.trim())
    };
    numbers.filter(|number| *number != own).filter(has_it).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_a_file_open_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().canonicalize().expect("there");
        assert!(holders(&path).is_empty());
        let mut sleeping = std::process::Command::new("sleep");
        let mut child = sleeping.arg("60").current_dir(&path).spawn().expect("sleep");
        let found = holders(&path);
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(found, [format!("process {} (sleep)", child.id())]);
    }
}
