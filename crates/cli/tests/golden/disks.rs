//! Golden disks: LUKS images that were made once, by cryptsetup, QEMU and this program, and that every later one has to
//! open. `make-disks.sh` says how; all of them hold the same plain bytes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{hex, kept, text};

#[derive(Deserialize)]
struct Manifest {
    /// Plain bytes that are known, from the beginning.
    length: usize,
    sha256: String,
    disks: Vec<Disk>,
}

#[derive(Deserialize)]
struct Disk {
    image: String,
    maker: String,
    version: u64,
    cipher: String,
    sector: u64,
    key_bits: u64,
    header: Option<String>,
}

/// The images, unpacked.
struct Disks {
    directory: tempfile::TempDir,
    manifest: Manifest,
}

impl Disks {
    fn unpack() -> Disks {
        let directory = tempfile::tempdir().expect("a directory");
        let mut tar = Command::new("tar");
        tar.arg("-xJf").arg(kept().join("disks.tar.xz")).arg("-C").arg(directory.path());
        assert!(tar.status().expect("tar and xz").success());
        fs::write(directory.path().join("password"), "golden password").expect("written");
        fs::write(directory.path().join("other"), "another secret").expect("written");
        fs::write(directory.path().join("of-nothing"), "of nothing").expect("written");
        let manifest = fs::read(kept().join("disks.json")).expect("a manifest");
        Disks { directory, manifest: serde_json::from_slice(&manifest).expect("JSON") }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
        command.args(words).current_dir(self.directory.path());
        command.env("XDG_STATE_HOME", self.directory.path().join("state")).output().expect("the program runs")
    }

    fn path(name: &str) -> String {
        format!("disks/{name}")
    }

    fn open(&self, disk: &Disk, password: &str) -> Output {
        let image = Self::path(&disk.image);
        let header = disk.header.as_deref().map(Self::path);
        let mut words = vec!["disk", "open", &image, "--nbd", "socket", "--password-file", password];
        words.extend(["--read-only", "--log", "log"]);
        if let Some(header) = &header {
            words.extend(["--header", header]);
        }
        self.run(&words)
    }

    /// The plain bytes of the beginning, through NBD.
    fn plain(&self, disk: &Disk, password: &str) -> Vec<u8> {
        let opened = self.open(disk, password);
        assert!(opened.status.success(), "{}: {}", disk.image, text(&opened.stderr));
        let bytes = read(&self.directory.path().join("socket"), self.manifest.length);
        self.close(disk);
        bytes
    }

    /// The client that has just ended may be connected for a moment.
    fn close(&self, disk: &Disk) {
        const IN_USE: i32 = 5;
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let closed = self.run(&["disk", "close", "socket"]);
            if closed.status.success() {
                return;
            }
            let waits = closed.status.code() == Some(IN_USE) && Instant::now() < until;
            assert!(waits, "{}: {}", disk.image, text(&closed.stderr));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn info(&self, disk: &Disk) -> serde_json::Value {
        let path = Self::path(disk.header.as_ref().unwrap_or(&disk.image));
        serde_json::from_slice(&self.run(&["disk", "info", "--json", &path]).stdout).expect("JSON")
    }

    fn named(&self, name: &str) -> &Disk {
        self.manifest.disks.iter().find(|disk| disk.image == name).expect("it is kept")
    }
}

/// Reads from an NBD server's beginning: the protocol's oldest way to begin, and one simple request.
fn read(socket: &Path, len: usize) -> Vec<u8> {
    const EXPORT_NAME: u32 = 1;
    let mut stream = UnixStream::connect(socket).expect("a server");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    // Fixed newstyle, no zeroes.
    let mut begin = 3u32.to_be_bytes().to_vec();
    begin.extend_from_slice(b"IHAVEOPT");
    begin.extend([EXPORT_NAME.to_be_bytes(), [0; 4]].concat());
    stream.write_all(&begin).expect("sent");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend_from_slice(&[0; 4 + 8 + 8]);
    request.extend_from_slice(&u32::try_from(len).expect("short").to_be_bytes());
    stream.write_all(&request).expect("sent");
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "no error");
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("data");
    bytes
}

/// A counter's decimal numbers, a line each.
fn numbers(len: usize) -> Vec<u8> {
    (1..).flat_map(|number: u64| format!("{number}\n").into_bytes()).take(len).collect()
}

#[test]
fn golden_disks_hold_what_they_held() {
    let disks = Disks::unpack();
    let expected = numbers(disks.manifest.length);
    assert_eq!(hex(&Sha256::digest(&expected)), disks.manifest.sha256);
    for disk in &disks.manifest.disks {
        assert!(disks.plain(disk, "password") == expected, "{} of {}", disk.image, disk.maker);
        let info = disks.info(disk);
        let told = |name: &str| info[name].clone();
        assert_eq!(told("luks_version"), disk.version, "{}", disk.image);
        assert_eq!(told("cipher"), disk.cipher, "{}", disk.image);
        assert_eq!(told("sector_size"), disk.sector, "{}", disk.image);
        assert_eq!(told("key_bits"), disk.key_bits, "{}", disk.image);
    }
}

#[test]
fn every_cipher_and_mode_is_kept() {
    let disks = Disks::unpack();
    for cipher in ["aes", "serpent", "twofish", "camellia"] {
        for mode in ["xts", "cbc"] {
            for iv in ["plain", "plain64", "essiv:sha256"] {
                let name = format!("{cipher}-{mode}-{iv}");
                assert!(disks.manifest.disks.iter().any(|disk| disk.cipher == name), "{name}");
            }
        }
    }
    for maker in ["cryptsetup", "qemu", "ours"] {
        assert!(disks.manifest.disks.iter().any(|disk| disk.maker == maker), "{maker}");
    }
    assert!(disks.manifest.disks.iter().any(|disk| disk.header.is_some()));
}

#[test]
fn tokens_and_slots_that_are_bound_to_nothing_are_seen_and_open_nothing() {
    let disks = Disks::unpack();
    let disk = disks.named("cryptsetup-luks2");
    let info = disks.info(disk);
    let slots = info["slots"].as_array().expect("slots");
    let bound: Vec<bool> = slots.iter().map(|slot| slot["bound"].as_bool().expect("told")).collect();
    assert_eq!(bound, [true, true, false]);
    assert_eq!(info["tokens"].as_array().expect("tokens").len(), 2);
    assert_eq!(disks.plain(disk, "other"), numbers(disks.manifest.length), "by the other slot");
    let refused = disks.open(disk, "of-nothing");
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
}

#[test]
fn of_a_damaged_header_the_other_copy_is_used() {
    let disks = Disks::unpack();
    for (name, damaged) in [("damaged-copy-1", 0), ("damaged-copy-2", 1)] {
        let copies = disks.info(disks.named(name))["header_copies"].clone();
        assert_ne!(copies[damaged], "current", "{name}");
        assert_eq!(copies[1 - damaged], "current", "{name}");
    }
}
