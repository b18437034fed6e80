//! A single file that is shown in plain. They need `/dev/fuse`, and root or
//! `fusermount3`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::{assert_fails_with, assert_success, is_mounted, noise, program, soon};
use tempfile::TempDir;

mod support;

const CHUNK: u64 = 65_552;

/// An encrypted file, its key and a mount point, unmounted at the end.
struct Place(TempDir);

impl Place {
    fn new(plain: &[u8]) -> Place {
        let place = Place(TempDir::new().expect("a directory"));
        fs::create_dir(place.path("shown")).expect("a directory");
        fs::write(place.path("f.bin"), plain).expect("written");
        assert_success(&place.run(&["file", "keygen", "-o", "key"]));
        let key = fs::read_to_string(place.path("key")).expect("text");
        let public = key.lines().find_map(|line| line.strip_prefix("# public key: ")).expect("told");
        assert_success(&place.run(&["file", "encrypt", "-r", public, "f.bin"]));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        program().args(words).current_dir(self.0.path()).output().expect("the program runs")
    }

    fn mount(&self, file: &str) -> Output {
        self.run(&["file", "mount", "-i", "key", "--log", "log", file, "shown"])
    }

    fn umount(&self) {
        soon("it is unmounted", || self.run(&["umount", "shown"]).status.success());
        assert!(!is_mounted(&self.path("shown")));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if is_mounted(&self.path("shown")) {
            let _ = self.run(&["umount", "--abort", "shown"]);
        }
    }
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("within it");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

#[test]
fn a_file_is_read_at_any_place_and_cannot_be_written() {
    let plain = noise(700_001, 5);
    let place = Place::new(&plain);
    assert_success(&place.mount("f.bin.age"));
    let shown = place.path("shown/f.bin");
    assert_eq!(fs::read_dir(place.path("shown")).expect("listed").count(), 1);
    assert_eq!(fs::metadata(&shown).expect("there").len(), plain.len() as u64);
    let file = File::open(&shown).expect("opened");
    for (at, len) in [(650_000, 50_001), (65_535, 2), (0, 1), (131_071, 200_000), (700_000, 1)] {
        let mut read = vec![0; len];
        file.read_exact_at(&mut read, at as u64).expect("read");
        assert!(read == plain[at..at + len], "{at}");
    }
    assert_eq!(file.read_at(&mut [0; 4], 700_001).expect("the end"), 0);
    assert!(fs::read(&shown).expect("read") == plain);
    drop(file);
    assert!(File::options().write(true).open(&shown).is_err());
    assert!(File::create(place.path("shown/other")).is_err());
    assert!(fs::remove_file(&shown).is_err());
    assert_fails_with(&place.run(&["status", "shown"]), 2, "a single file is mounted here, and no vault");
    assert_fails_with(&place.run(&["sync", "shown"]), 2, "a single file is mounted here, and no vault");
    assert_fails_with(&place.mount("f.bin.age"), 5, "a single file is mounted here already");
    place.umount();
}

#[test]
fn a_damaged_chunk_is_an_error_and_the_others_are_read() {
    let plain = noise(400_000, 6);
    let place = Place::new(&plain);
    let sealed = place.path("f.bin.age");
    let header = fs::metadata(&sealed).expect("there").len() - 7 * 16 - plain.len() as u64;
    flip(&sealed, header + 2 * CHUNK + 100);
    assert_success(&place.mount("f.bin.age"));
    let file = File::open(place.path("shown/f.bin")).expect("opened");
    let error = file.read_exact_at(&mut [0; 10], 3 * 65_536 - 10).expect_err("damaged");
    assert_eq!(error.raw_os_error(), Some(5));
    let mut read = vec![0; 1000];
    file.read_exact_at(&mut read, 399_000).expect("sound");
    assert!(read == plain[399_000..]);
    drop(file);
    place.umount();
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("the payload is damaged (chunk 2"), "{log}");
}

#[test]
fn what_is_cut_or_armored_or_for_others_is_not_shown() {
    let place = Place::new(&noise(200_000, 7));
    let whole = fs::read(place.path("f.bin.age")).expect("read");
    for cut in [1, 17, 3392, 3400, 65_552] {
        fs::write(place.path("cut.age"), &whole[..whole.len() - cut]).expect("written");
        assert_fails_with(&place.mount("cut.age"), 4, "the payload was cut off");
    }
    let at_chunk = whole.len() - (200_000 - 3 * 65_536 + 16);
    fs::write(place.path("cut.age"), &whole[..at_chunk]).expect("written");
    assert_fails_with(&place.mount("cut.age"), 4, "the payload was cut off");
    assert_success(&place.run(&["file", "encrypt", "-a", "-i", "key", "-o", "armored.age", "f.bin"]));
    assert_fails_with(&place.mount("armored.age"), 2, "armored");
    assert_success(&place.run(&["file", "keygen", "-o", "other"]));
    assert_success(&place.run(&["file", "encrypt", "-i", "other", "-o", "theirs.age", "f.bin"]));
    assert_fails_with(&place.mount("theirs.age"), 3, "none of the identities");
    assert!(!is_mounted(&place.path("shown")));
}

#[test]
fn a_vault_and_a_file_are_not_mounted_over_each_other() {
    let place = Place::new(b"plain");
    let init = ["init", "v", "--password-file", "password", "--recovery-out", "none"];
    fs::write(place.path("password"), "correct horse\n").expect("written");
    assert_success(&place.run(&[&init[..], &["--kdf-memory", "8MiB", "--kdf-time", "1"]].concat()));
    let mount_vault = || place.run(&["mount", "v", "shown", "--password-file", "password", "--log", "log"]);
    assert_success(&place.mount("f.bin.age"));
    assert_fails_with(&mount_vault(), 5, "a single file is mounted here already");
    place.umount();
    assert_success(&mount_vault());
    assert_fails_with(&place.mount("f.bin.age"), 5, "a vault is mounted here already");
    place.umount();
}

#[test]
fn what_is_no_encrypted_file_is_not_shown() {
    let place = Place::new(b"plain");
    fs::create_dir(place.path("directory")).expect("made");
    assert_fails_with(&place.mount("directory"), 2, "it is a directory, and no encrypted file");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("made");
    assert_fails_with(&place.mount("pipe"), 2, "cannot be sought in");
    assert_fails_with(&place.mount("/dev/zero"), 2, "cannot be sought in");
    assert_fails_with(&place.mount("f.bin"), 4, "the header is damaged");
    assert_fails_with(&place.mount("missing"), 2, "No such file");
    // A directory that has something in it would be hidden.
    fs::write(place.path("shown/there"), b"x").expect("written");
    assert_fails_with(&place.mount("f.bin.age"), 2, "not empty");
    assert!(!is_mounted(&place.path("shown")));
}

impl Place {
    /// Mounts in the foreground, and waits until it is shown.
    fn serve(&self) -> std::process::Child {
        let mut command = program();
        command.args(["file", "mount", "-f", "-i", "key", "--log", "log", "f.bin.age", "shown"]);
        let child = command.current_dir(self.0.path()).spawn().expect("the program runs");
        soon("it is shown", || fs::metadata(self.path("shown/f.bin")).is_ok());
        child
    }
}

fn end(mut child: std::process::Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("ours");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_signal_unmounts() {
    let place = Place::new(b"short");
    let child = place.serve();
    assert_eq!(fs::read(place.path("shown/f.bin")).expect("read"), b"short");
    end(child);
    assert!(!is_mounted(&place.path("shown")));
}

#[test]
fn memory_is_bounded_whatever_the_size() {
    let peaks = [16 << 20, 256 << 20].map(|len| {
        let place = Place::new(&vec![7; len]);
        let child = place.serve();
        let mut shown = File::open(place.path("shown/f.bin")).expect("opened");
        let read = std::io::copy(&mut shown, &mut std::io::sink()).expect("read");
        assert_eq!(read, len as u64);
        drop(shown);
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        end(child);
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel's line");
        let kib = line.trim().strip_suffix(" kB").and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.expect("a number") << 10
    });
    assert!(peaks[1] < 64 << 20 && peaks[1] < peaks[0] + (6 << 20), "{peaks:?}");
}
