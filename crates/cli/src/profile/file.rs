//! Where profiles lie, how they are read and written, and for which machine
//! one holds.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Found, Hardware, Profile, SCHEMA};
use crate::failure::{Failure, Result};

/// Longest file that is read.
const LEN_MAX: u64 = 4 << 20;

/// Where root's profiles lie.
const SYSTEM: &str = "/var/lib/strongroom";

/// What the kernel says of a CPU that tells it from others, as x86-64 and
/// AArch64 name it (proc_cpuinfo(5)).
const CPU_FIELDS: [&str; 11] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "microcode",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "CPU revision",
];

/// This machine with these engines.
pub(crate) fn hardware(engines: &[String]) -> Hardware {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Hardware {
        cpu: cpu(&text),
        cpus: std::thread::available_parallelism().map_or(1, usize::from) as u64,
        engines: engines.to_vec(),
    }
}

/// The fields of the first CPU.
fn cpu(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        CPU_FIELDS.contains(&name.trim()).then(|| value.trim().to_owned())
    };
    first.lines().filter_map(value).collect::<Vec<_>>().join(" ")
}

/// The name of the file for a machine: FNV-1a (Fowler, Noll and Vo) of what it
/// is, since a name of a CPU may hold anything.
fn file_name(hardware: &Hardware) -> String {
    let cpus = hardware.cpus.to_string();
    let engines = hardware.engines.iter().map(String::as_str);
    let texts = [hardware.cpu.as_str(), &cpus].into_iter().chain(engines).chain([env!("CARGO_PKG_VERSION")]);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in texts.flat_map(|text| text.bytes().chain(*b"\n")) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("profile-{hash:016x}.json")
}

/// The directories in which a profile may lie, the user's own first.
fn directories() -> Vec<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let system = PathBuf::from(SYSTEM);
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let at_home = || variable("HOME").filter(|_| !is_root).map(|home| home.join(".local/state"));
    let state = variable("XDG_STATE_HOME").or_else(at_home);
    state.map(|state| state.join("strongroom")).into_iter().chain([system]).collect()
}

/// The profile for these engines on this machine, if there is one.
pub(crate) fn find(engines: &[String]) -> Found {
    find_in(&directories(), &hardware(engines))
}

fn find_in(directories: &[PathBuf], hardware: &Hardware) -> Found {
    let mut remark = None;
    for directory in directories {
        let path = directory.join(file_name(hardware));
        match read(&path, hardware) {
            Ok(Some(profile)) => return Found { profile: Some(profile), remark },
            Ok(None) => {}
            Err(why) => {
                let text = format!("{}: {why}; it is ignored: run `strongroom tune` again", path.display());
                remark = remark.or(Some(text));
            }
        }
    }
    Found { profile: None, remark }
}

/// Reads a profile; `None` when there is none.
fn read(path: &Path, hardware: &Hardware) -> std::result::Result<Option<Profile>, String> {
    let mut text = Vec::new();
    let file = match crate::opening::regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    file.take(LEN_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LEN_MAX {
        return Err("it is too long for a profile".to_owned());
    }
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|_| "it is not a profile".to_owned())?;
    match value["schema"].as_str() {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("this version does not know `{other}`")),
        None => return Err("it is not a profile".to_owned()),
    }
    let profile: Profile =
        serde_json::from_value(value).map_err(|error| format!("it is not a whole profile: {error}"))?;
    if profile.hardware != *hardware || profile.version != env!("CARGO_PKG_VERSION") {
        return Err("it was made for another machine or version".to_owned());
    }
    if !profile.is_sound() {
        return Err("it has figures that cannot be".to_owned());
    }
    Ok(Some(profile))
}

/// Keeps a profile in place of the one that was there, and says where.
///
/// # Errors
/// What the system reports.
pub(crate) fn save(profile: &Profile) -> Result<PathBuf> {
    let directory = directories().into_iter().next().expect("there is always one");
    save_in(&directory, profile)
}

fn save_in(directory: &Path, profile: &Profile) -> Result<PathBuf> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| {
            Failure::system(&path, &error)
                .hint("With --dry-run nothing is saved; XDG_STATE_HOME says where else.")
        }
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(directory).map_err(failed(directory))?;
    let path = directory.join(file_name(&profile.hardware));
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let mut text = serde_json::to_vec_pretty(profile).expect("a profile has text keys");
    text.push(b'\n');
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&fresh);
        failed(&path)(error)
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{measurement, profile};
    use super::*;

    fn sample() -> Profile {
        profile(&["cpu-a", "cpu-b"], vec![measurement("cpu-a", "aes-256-gcm", "seal", 4096, 300.0)])
    }

    #[test]
    fn what_was_saved_is_found_again() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("a/b");
        let saved = sample();
        let found = find_in(std::slice::from_ref(&directory), &saved.hardware);
        assert!(found.profile.is_none() && found.remark.is_none());
        let path = save_in(&directory, &saved).expect("saved");
        let changed = Profile { measured: "2026-01-02T00:00:00Z".to_owned(), ..saved.clone() };
        assert_eq!(save_in(&directory, &changed).expect("saved again"), path);
        assert_eq!(
            find_in(&[place.path().to_owned(), directory.clone()], &saved.hardware).profile,
            Some(changed)
        );
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 1);
        let other = Hardware { cpus: saved.hardware.cpus + 1, ..saved.hardware };
        assert!(find_in(&[directory], &other).profile.is_none());
    }

    #[test]
    fn what_is_no_profile_of_this_machine_is_ignored_with_a_word() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().to_owned();
        let saved = sample();
        let path = save_in(&directory, &saved).expect("saved");
        let text = fs::read_to_string(&path).expect("text");
        let cases = [
            (text.replace("profile/1", "profile/2"), "does not know"),
            (text.replace("\"cpu-b\"", "\"cpu-c\""), "another machine"),
            (text.replace("300.0", "-300.0"), "cannot be"),
            (text.replace("\"worthwhile\"", "\"worth\""), "not a whole profile"),
            (text[..text.len() / 2].to_owned(), "not a profile"),
            ("x".repeat(LEN_MAX as usize + 1), "too long"),
        ];
        for (changed, word) in cases {
            fs::write(&path, changed).expect("written");
            let found = find_in(std::slice::from_ref(&directory), &saved.hardware);
            assert!(found.profile.is_none());
            assert!(found.remark.as_ref().is_some_and(|remark| remark.contains(word)), "{word}: {found:?}");
        }
    }

    #[test]
    fn a_cpu_is_told_from_others() {
        let intel = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\nflags\t: fpu\n\nprocessor\t: 1\nmodel\t: 7\n";
        assert_eq!(cpu(intel), "GenuineIntel 143");
        assert_eq!(cpu("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "0x41 0xd0c");
        // The vectors of FNV-1a: of "a" it is af63dc4c8601ec8c; ours ends each text with a newline.
        assert_eq!(file_name(&sample().hardware).len(), "profile-0123456789abcdef.json".len());
    }
}
