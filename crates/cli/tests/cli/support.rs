//! A place to work in, the program, and a vault filled without a mount.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use strongroom_engine::Buffer;
use strongroom_engine_cpu::CpuEngine;
use strongroom_keys::{Credential, SecretBytes, unlock_copies};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::{Kind, Store, XattrMode};
use strongroom_vault::namespace::{Creation, Opening, Owner, ROOT};
use strongroom_vault::{Guards, OpenOptions, Trust, Trusted, Vault, read_header_copies};

use crate::schemas;

/// The cheapest cost that the program takes.
pub(crate) const CHEAP: [&str; 4] = ["--kdf-memory", "8MiB", "--kdf-time", "1"];

/// What a run gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The code, for assertions that show what was said.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Run {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Panics unless standard error says this.
    #[track_caller]
    pub(crate) fn error_text(&self, text: &str) {
        assert!(self.stderr.contains(text), "stderr: {}", self.stderr);
    }

    /// The document on standard output, valid under its schema.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        let document = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", self.stdout, self.stderr));
        schemas::validate(&document);
        document
    }

    /// The error on standard error, valid under its schema, with the run's
    /// code.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let error: Value = serde_json::from_str(&self.stderr)
            .unwrap_or_else(|error| panic!("{error}\nstderr: {}", self.stderr));
        schemas::validate(&error);
        assert_eq!(error["schema"], "strongroom.error/1");
        assert_eq!(error["code"], self.code);
        assert_eq!(self.stdout, "");
        error
    }
}

/// A directory that goes with the test.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        place.write("password", "correct horse\n");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The program, in this place, in a session without a terminal.
    pub(crate) fn command<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_strongroom")).args(words);
        command.current_dir(self.0.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        command.env("XDG_STATE_HOME", self.path(".state"));
        command
    }

    /// Runs the program.
    pub(crate) fn run<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Run {
        finish(self.command(words).output().expect("setsid"))
    }

    /// Runs the program with words as in a shell, without quoting.
    pub(crate) fn line(&self, line: &str) -> Run {
        self.run(line.split_whitespace())
    }

    /// Makes the vault `v`, which opens with the file `password`.
    pub(crate) fn vault(self) -> Place {
        let words = ["init", "v", "--password-file", "password", "--recovery-out", "none"];
        self.run(words.iter().chain(&CHEAP)).expect(0);
        self
    }

    /// Makes the vault `v` with this suite.
    pub(crate) fn vault_of(self, suite: &str) -> Place {
        let words = ["init", "v", "--suite", suite, "--password-file", "password", "--recovery-out", "none"];
        self.run(words.iter().chain(&CHEAP)).expect(0);
        self
    }

    /// The vault `v`, open for writing in this process.
    pub(crate) fn open(&self) -> Filling {
        self.open_as(true, None)
    }

    /// The same, with the freshness file `name` in `directory`, which exists.
    pub(crate) fn open_recorded(&self, directory: &str, name: &str) -> Filling {
        let place = LocalStore::open(self.path(directory), OpenMode::Writable).expect("a directory");
        let name = name.as_bytes().to_vec();
        self.open_as(true, Some(Trusted { directory: place.root(), name, trust: Trust::Record }))
    }

    fn open_as(&self, writable: bool, trusted: Option<Trusted>) -> Filling {
        let mode = if writable { OpenMode::Writable } else { OpenMode::ReadOnly };
        let store = Arc::new(LocalStore::open(self.path("v"), mode).expect("a store"));
        let copies = read_header_copies(&*store).expect("a vault");
        let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
        let password = Credential::Password(SecretBytes::take_string("correct horse".to_owned()));
        let (header, root) = unlock_copies(&copies, &password).expect("its password");
        let guards = Guards { trusted, ..Guards::default() };
        let options = OpenOptions { writable, guards, ..OpenOptions::new(1) };
        let store = store as Arc<dyn Store>;
        let vault = Vault::open(store, Arc::new(CpuEngine::new()), header, root, &options);
        Filling { vault: vault.expect("sound") }
    }

    /// The stored path of a plain one, in a sound vault.
    pub(crate) fn stored(&self, path: &str) -> PathBuf {
        let filling = self.open_as(false, None);
        let survey = filling.vault.namespace().survey();
        let mut folder = survey.top();
        let mut stored = self.path("v");
        for name in path.split('/') {
            let item = survey.find(&folder, name.as_bytes()).expect("it is there");
            stored.push(OsStr::from_bytes(&item.stored));
            if item.node.kind() == Kind::Directory {
                folder = survey.enter(&folder, &item).expect("a directory");
            }
        }
        stored
    }

    /// Everything below a directory, but `.strongroom/lock`.
    pub(crate) fn tree(&self, directory: &str) -> BTreeMap<String, Node> {
        let mut tree = BTreeMap::new();
        let top = self.path(directory);
        collect(&top, &top, &mut tree);
        tree.remove(".strongroom/lock");
        tree
    }

    /// Stored paths of files below `directory`, of at least `len` bytes.
    pub(crate) fn stored_files(&self, directory: &str, len: u64) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path(directory), &mut |path| {
            if path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() >= len) {
                found.push(path.to_owned());
            }
        });
        found.sort();
        found
    }
}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(Vec<u8>),
    Directory,
    Symlink(PathBuf),
    Other,
}

fn collect(top: &Path, directory: &Path, tree: &mut BTreeMap<String, Node>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        let node = if kind.is_dir() {
            collect(top, &path, tree);
            Node::Directory
        } else if kind.is_symlink() {
            Node::Symlink(std::fs::read_link(&path).expect("a symlink"))
        } else if kind.is_file() {
            Node::File(std::fs::read(&path).expect("a file"))
        } else {
            Node::Other
        };
        let name = path.strip_prefix(top).expect("below it").to_string_lossy().into_owned();
        tree.insert(name, node);
    }
}

/// The content that [`Filling::file`] gives a file of this length.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 + 1).collect()
}

/// Flips a bit of a stored file.
pub(crate) fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("within it");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

fn walk(directory: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        if entry.file_name() == ".strongroom" {
            continue;
        }
        let path = entry.path();
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            walk(&path, visit);
        } else {
            visit(&path);
        }
    }
}

pub(crate) fn finish(output: std::process::Output) -> Run {
    Run {
        code: output.status.code().expect("not killed"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

const CREATION: Creation = Creation { mode: 0o700, umask: 0, owner: Owner { uid: 0, gid: 0 } };

/// A vault that is being filled.
pub(crate) struct Filling {
    vault: Vault,
}

impl Filling {
    fn parent<'a>(&self, path: &'a str) -> (u64, &'a [u8]) {
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut number = ROOT;
        for name in directories.split('/').filter(|name| !name.is_empty()) {
            number = self.vault.namespace().lookup(number, name.as_bytes()).expect("it is there").number;
        }
        (number, name.as_bytes())
    }

    pub(crate) fn directory(&self, path: &str) -> &Filling {
        let (parent, name) = self.parent(path);
        self.vault.namespace().make_directory(parent, name, &CREATION).expect("a directory");
        self
    }

    pub(crate) fn symlink(&self, path: &str, target: &[u8]) -> &Filling {
        let (parent, name) = self.parent(path);
        self.vault.namespace().make_symlink(parent, name, target, &CREATION).expect("a symlink");
        self
    }

    pub(crate) fn fifo(&self, path: &str) -> &Filling {
        let (parent, name) = self.parent(path);
        let made = self.vault.namespace().make_special(parent, name, Kind::Fifo, 0, &CREATION);
        made.expect("a FIFO");
        self
    }

    pub(crate) fn link(&self, path: &str, further: &str) -> &Filling {
        let (parent, name) = self.parent(path);
        let number = self.vault.namespace().lookup(parent, name).expect("it is there").number;
        let (parent, name) = self.parent(further);
        self.vault.namespace().link(number, parent, name).expect("a link");
        self
    }

    /// A file of `len` bytes, none of them zero.
    pub(crate) fn file(&self, path: &str, len: usize) -> &Filling {
        let (parent, name) = self.parent(path);
        let namespace = self.vault.namespace();
        let opening = Opening { write: true, ..Opening::default() };
        let (entry, content) = namespace.create(parent, name, &CREATION, opening).expect("a file");
        let mut buffer = Buffer::new(len);
        buffer.copy_from_slice(&super::support::content(len));
        content.write_at(0, len, &mut buffer).expect("written");
        namespace.release(entry.number);
        self
    }

    /// A file of `hole` bytes of hole and then `len` bytes.
    pub(crate) fn sparse(&self, path: &str, hole: u64, len: usize) -> &Filling {
        let (parent, name) = self.parent(path);
        let namespace = self.vault.namespace();
        let opening = Opening { write: true, ..Opening::default() };
        let (entry, stored) = namespace.create(parent, name, &CREATION, opening).expect("a file");
        let mut buffer = Buffer::new(len);
        buffer.copy_from_slice(&content(len));
        stored.write_at(hole, len, &mut buffer).expect("written");
        namespace.release(entry.number);
        self
    }

    /// Gives a file or directory an extended attribute, or an access control
    /// list by its name.
    pub(crate) fn attribute(&self, path: &str, name: &str, value: &[u8]) -> &Filling {
        let (parent, last) = self.parent(path);
        let namespace = self.vault.namespace();
        let number = namespace.lookup(parent, last).expect("it is there").number;
        namespace.set_xattr(number, name.as_bytes(), value, XattrMode::Any, false).expect("an attribute");
        self
    }

    pub(crate) fn sync(&self) -> &Filling {
        self.vault.sync().expect("synced");
        self
    }

    /// Overwrites the beginning of a file, and makes that durable.
    pub(crate) fn overwrite(&self, path: &str, len: usize) -> &Filling {
        let (parent, name) = self.parent(path);
        let namespace = self.vault.namespace();
        let number = namespace.lookup(parent, name).expect("it is there").number;
        let opening = Opening { write: true, ..Opening::default() };
        let stored = namespace.open(number, opening).expect("a file");
        let mut buffer = Buffer::new(len);
        buffer.copy_from_slice(&content(len));
        stored.write_at(0, len, &mut buffer).expect("written");
        stored.sync().expect("synced");
        namespace.release(number);
        self
    }

    pub(crate) fn close(&self) {
        self.vault.close().expect("closed");
    }

    /// Ends as a crash would.
    pub(crate) fn crash(&self) {
        self.vault.sync().expect("synced");
        self.vault.abandon();
    }

    /// The same, before anything was made durable that was not asked for.
    pub(crate) fn crash_unsynced(&self) {
        self.vault.abandon();
    }
}
