//! Golden vaults: made once by the program of their time, and opened by every later one. What they hold stands beside
//! them, as the reader in Python found it, which knows the format's document and nothing of this program.

#[path = "golden/disks.rs"]
mod disks;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The vaults that are kept, by name.
const SOUND: [&str; 6] = [
    "xaes-256-gcm-4k",
    "xchacha20-poly1305-16k",
    "aegis-256x2-8k",
    "aegis-256x4-32k",
    "serpent-256-poly1305-4k",
    "cascade-4k",
];
/// One that was damaged before it was kept.
const DAMAGED: &str = "damaged";

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A vault that was unpacked, with its password.
struct Golden {
    directory: tempfile::TempDir,
    name: &'static str,
}

impl Golden {
    fn unpack(name: &'static str) -> Golden {
        let directory = tempfile::tempdir().expect("a directory");
        let archive = kept().join(format!("{name}.tar.xz"));
        let mut tar = Command::new("tar");
        tar.args(["--xattrs", "--xattrs-include=user.*", "-xJf"])
            .arg(archive)
            .arg("-C")
            .arg(directory.path());
        assert!(tar.status().expect("tar and xz").success(), "{name}");
        fs::write(directory.path().join("password"), "golden password\n").expect("written");
        Golden { directory, name }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_strongroom")).args(words);
        command.args(["--password-file", "password"]).current_dir(self.directory.path());
        command.env("XDG_STATE_HOME", self.at("state")).output().expect("setsid")
    }

    fn manifest(&self) -> Value {
        let text = fs::read(kept().join(format!("{}.json", self.name))).expect("a manifest");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// What `salvage` copies, told as the manifest tells of it.
    fn salvaged(&self, code: i32) -> Map<String, Value> {
        let output = self.run(&["salvage", "vault", "out"]);
        assert_eq!(output.status.code(), Some(code), "{}: {}", self.name, text(&output.stderr));
        let mut found = Map::new();
        walk(&self.at("out"), "", &mut found);
        found.remove("/salvage-report.json");
        found
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn walk(directory: &Path, plain: &str, found: &mut Map<String, Value>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let path = format!("{plain}/{}", entry.file_name().to_str().expect("text"));
        found.insert(path.clone(), told(&entry.path()));
        if entry.file_type().expect("a kind").is_dir() {
            walk(&entry.path(), &path, found);
        }
    }
}

fn told(path: &Path) -> Value {
    let metadata = path.symlink_metadata().expect("it is there");
    let kind = metadata.file_type();
    let mut told = match kind {
        _ if kind.is_dir() => json!({"kind": "directory"}),
        _ if kind.is_symlink() => {
            json!({"kind": "symlink", "target": path.read_link().expect("a target").to_str().expect("text")})
        }
        _ if kind.is_fifo() => json!({"kind": "fifo"}),
        _ if kind.is_socket() => json!({"kind": "socket"}),
        _ if kind.is_char_device() => json!({"kind": "character device", "device": metadata.rdev()}),
        _ if kind.is_block_device() => json!({"kind": "block device", "device": metadata.rdev()}),
        _ => json!({"kind": "file", "length": metadata.len()}),
    };
    told["attributes"] = attributes(path);
    told
}

fn attributes(path: &Path) -> Value {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names).expect("attributes");
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let values = names.map(|name| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::lgetxattr(path, name, &mut value).expect("a value");
        (text(name), hex(&value[..len]))
    });
    json!(values.collect::<BTreeMap<_, _>>())
}

/// Holds the content of a file against what the manifest says, and takes that out of it.
fn check_content(path: &Path, expected: &mut Value, block_size: u64) {
    let Some(fields) = expected.as_object_mut() else { return };
    let hash = |bytes: &[u8]| Value::from(hex(&Sha256::digest(bytes)));
    if let Some(whole) = fields.remove("sha256") {
        assert_eq!(hash(&fs::read(path).expect("read")), whole, "{}", path.display());
    }
    if let Some(Value::Object(blocks)) = fields.remove("data") {
        let file = fs::File::open(path).expect("opened");
        let len = file.metadata().expect("it is there").len();
        for (offset, expected) in blocks {
            let offset: u64 = offset.parse().expect("a number");
            let mut block = vec![0; block_size.min(len - offset) as usize];
            file.read_exact_at(&mut block, offset).expect("read");
            assert_eq!(hash(&block), expected, "{} at {offset}", path.display());
        }
    }
}

fn block_size(golden: &Golden) -> u64 {
    let info: Value = serde_json::from_slice(&golden.run(&["info", "vault", "--json"]).stdout).expect("JSON");
    info["block_size"].as_u64().expect("a number")
}

/// Devices, and attributes of symlinks, are root's to make.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn golden_vaults_hold_what_they_held() {
    for name in SOUND {
        let golden = Golden::unpack(name);
        let checked = golden.run(&["check", "vault"]);
        assert_eq!(
            checked.status.code(),
            Some(0),
            "{name}: {}{}",
            text(&checked.stdout),
            text(&checked.stderr)
        );
        if !is_root() {
            continue;
        }
        let found = golden.salvaged(0);
        let size = block_size(&golden);
        let Value::Object(mut expected) = golden.manifest()["entries"].clone() else { panic!("entries") };
        for (path, entry) in &mut expected {
            check_content(&golden.at("out").join(&path[1..]), entry, size);
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn of_a_damaged_one_everything_else_is_read() {
    let golden = Golden::unpack(DAMAGED);
    let checked = golden.run(&["check", "vault", "--json"]);
    assert_eq!(checked.status.code(), Some(4), "{}", text(&checked.stderr));
    let manifest = golden.manifest();
    let damaged = manifest["damaged"].as_object().expect("damage");
    assert!(!damaged.is_empty());
    if is_root() {
        let found = golden.salvaged(4);
        for path in manifest["entries"].as_object().expect("entries").keys() {
            assert!(found.contains_key(path), "{path}: what is sound is copied");
        }
    }
}

/// Where Debian's python3-cryptography and python3-argon2 are.
#[test]
fn a_reader_that_knows_the_document_alone_reads_them_too() {
    let python = || Command::new("/usr/bin/python3");
    let has = python().args(["-c", "import cryptography, argon2"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("not run: python3-cryptography and python3-argon2 are not installed");
        return;
    }
    for name in SOUND.into_iter().chain([DAMAGED]) {
        let golden = Golden::unpack(name);
        let output =
            python().arg(kept().join("reader.py")).arg(golden.at("vault")).arg("golden password").output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(read, golden.manifest(), "{name}");
    }
}
