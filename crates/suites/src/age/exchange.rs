//! Files that go both ways: each kind of key, armored and not, and lengths around a chunk's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::peers::{Kind, Peer};
use super::{LIMIT, Row};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::tally::Tally;

const PASSPHRASE: &str = "correct horse battery staple";
const LENS: [usize; 6] = [0, 1, 65_535, 65_536, 65_537, 1_000_003];
const LEN: usize = 200_001;

/// What a Python with pyrage does: encrypt or decrypt, a kind of key, its file, from, to.
const PYRAGE: &str = r#"
import sys, pyrage
do, kind, key, source, to, armored = sys.argv[1:]
data, text = open(source, "rb").read(), open(key, "rb").read()
if kind == "passphrase":
    work = pyrage.passphrase.encrypt if do == "encrypt" else pyrage.passphrase.decrypt
    out = work(data, text.decode().strip())
elif do == "encrypt":
    of = pyrage.ssh.Recipient if kind == "ssh" else pyrage.x25519.Recipient
    out = pyrage.encrypt(data, [of.from_str(text.decode().strip())], armored=armored == "yes")
else:
    if kind == "ssh":
        identity = pyrage.ssh.Identity.from_buffer(text)
    else:
        lines = [line for line in text.decode().splitlines() if line.startswith("AGE")]
        identity = pyrage.x25519.Identity.from_str(lines[0])
    out = pyrage.decrypt(data, [identity])
open(to, "wb").write(out)
"#;

/// A kind of key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    X25519,
    Hybrid,
    Ed25519,
    Rsa,
    Passphrase,
    Plugin,
}

impl Key {
    const ALL: [Key; 6] = [Key::X25519, Key::Hybrid, Key::Ed25519, Key::Rsa, Key::Passphrase, Key::Plugin];

    fn name(self) -> &'static str {
        match self {
            Key::X25519 => "x25519",
            Key::Hybrid => "mlkem768x25519 (-pq)",
            Key::Ed25519 => "ssh-ed25519",
            Key::Rsa => "ssh-rsa",
            Key::Passphrase => "scrypt",
            Key::Plugin => "plugin (batchpass)",
        }
    }

    /// The files of its secret and public halves.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Key::X25519 => ("x25519", "x25519.pub"),
            Key::Hybrid => ("hybrid", "hybrid.pub"),
            Key::Ed25519 => ("ed25519", "ed25519.pub"),
            Key::Rsa => ("rsa", "rsa.pub"),
            Key::Passphrase | Key::Plugin => ("passphrase", "passphrase"),
        }
    }
}

/// The program, and keys of all kinds in a directory.
pub(super) struct Keys {
    strongroom: PathBuf,
    directory: PathBuf,
}

impl Keys {
    /// Makes new ones.
    pub(super) fn make(strongroom: &Path, directory: &Path) -> Result<Keys> {
        let keys = Keys { strongroom: strongroom.to_owned(), directory: directory.to_owned() };
        for (name, options) in [("x25519", &[][..]), ("hybrid", &["--pq"])] {
            keys.ours(&[&["keygen", "-o", name], options].concat(), None)?;
            let told = keys.ours(&["keygen", "-y", name], None)?;
            fs::write(keys.at(&format!("{name}.pub")), told)?;
        }
        for (name, options) in [("ed25519", &["-t", "ed25519"][..]), ("rsa", &["-t", "rsa", "-b", "3072"])] {
            let mut command = Command::new("ssh-keygen");
            command.args(options).args(["-q", "-N", "", "-f", name]).current_dir(directory);
            command::output(&mut command, LIMIT)?;
        }
        fs::write(keys.at("passphrase"), format!("{PASSPHRASE}\n"))?;
        fs::write(keys.at("peer.py"), PYRAGE)?;
        Ok(keys)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn ours(&self, words: &[&str], plugins: Option<&Path>) -> Result<String> {
        let mut command = Command::new(&self.strongroom);
        command.arg("file").args(words).current_dir(&self.directory);
        with_plugins(&mut command, plugins);
        command::output(&mut command, LIMIT)
    }

    /// Strongroom encrypts or decrypts.
    fn we(&self, key: Key, encrypt: bool, armor: bool, from: &str, to: &str, peer: &Peer) -> Result {
        let (secret, public) = key.files();
        let mut words = vec![if encrypt { "-e" } else { "-d" }, "-o", to];
        words.extend_from_slice(match (key, encrypt) {
            (Key::Passphrase, _) => &["--password-file", "passphrase"],
            (Key::Plugin, _) => &["-j", "batchpass"],
            _ => &[],
        });
        if !matches!(key, Key::Passphrase | Key::Plugin) {
            words.extend_from_slice(if encrypt { &["-R"] } else { &["-i"] });
            words.push(if encrypt { public } else { secret });
        }
        if armor && encrypt {
            words.push("-a");
        }
        words.push(from);
        self.ours(&words, plugins_of(peer)).map(drop)
    }

    /// The peer does.
    fn they(&self, key: Key, encrypt: bool, armor: bool, from: &str, to: &str, peer: &Peer) -> Result {
        let (secret, public) = key.files();
        let program = match &peer.kind {
            Kind::Pyrage(python) => {
                let kind = match key {
                    Key::Ed25519 | Key::Rsa => "ssh",
                    Key::Passphrase => "passphrase",
                    _ => "x25519",
                };
                let mut command = Command::new(python);
                command.args(["peer.py", if encrypt { "encrypt" } else { "decrypt" }, kind]);
                command.arg(if encrypt { public } else { secret });
                command.args([from, to, if armor { "yes" } else { "no" }]).current_dir(&self.directory);
                return command::output(&mut command, LIMIT).map(drop);
            }
            Kind::Age { program, .. } => program,
        };
        let mut words = vec![if encrypt { "-e" } else { "-d" }];
        words.extend(match (key, encrypt) {
            (Key::Passphrase, true) => vec!["-p"],
            (Key::Passphrase, false) => vec![],
            (Key::Plugin, _) => vec!["-j", "batchpass"],
            (_, true) => vec!["-R", public],
            (_, false) => vec!["-i", secret],
        });
        words.extend_from_slice(if armor && encrypt { &["-a"] } else { &[] });
        words.extend_from_slice(&["-o", to, from]);
        if key == Key::Passphrase {
            return self.on_a_terminal(program, &words);
        }
        let mut command = Command::new(program);
        command.args(&words).current_dir(&self.directory);
        with_plugins(&mut command, plugins_of(peer));
        command::output(&mut command, LIMIT).map(drop)
    }

    /// age takes passphrases from a terminal alone.
    fn on_a_terminal(&self, program: &Path, words: &[&str]) -> Result {
        let line = format!("{} {}", program.display(), words.join(" "));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command::spawn(&mut command)?;
        let mut terminal = child.stdin.take().ok_or_else(|| Failure::new("no terminal"))?;
        // Asked for twice at most; what is typed ahead waits.
        std::io::Write::write_all(&mut terminal, format!("{PASSPHRASE}\n{PASSPHRASE}\n").as_bytes())?;
        let status = command::wait(&mut child, LIMIT)?;
        drop(terminal);
        ensure!(status.success(), "`{line}` failed: {status}");
        Ok(())
    }

    /// One file to the peer and one back.
    fn exchange(&self, key: Key, armor: bool, len: usize, peer: &Peer) -> Result {
        let plain: Vec<u8> = (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        fs::write(self.at("plain"), &plain)?;
        for (way, from_us) in [("ours to theirs", true), ("theirs to ours", false)] {
            for name in ["sealed", "back"] {
                let _ = fs::remove_file(self.at(name));
            }
            let done = match from_us {
                true => self
                    .we(key, true, armor, "plain", "sealed", peer)
                    .and_then(|()| self.they(key, false, armor, "sealed", "back", peer)),
                false => self
                    .they(key, true, armor, "plain", "sealed", peer)
                    .and_then(|()| self.we(key, false, armor, "sealed", "back", peer)),
            };
            done.context(format!("{way}, {len} bytes"))?;
            let is_armored = fs::read(self.at("sealed"))?.starts_with(b"-----BEGIN");
            ensure!(is_armored == armor, "{way}: the armor is not as asked for");
            // Old versions of age make no file for no bytes.
            let back =
                fs::read(self.at("back")).or_else(|error| plain.is_empty().then(Vec::new).ok_or(error))?;
            ensure!(back == plain, "{way}, {len} bytes: other bytes came back");
        }
        Ok(())
    }
}

fn plugins_of(peer: &Peer) -> Option<&Path> {
    match &peer.kind {
        Kind::Age { program, is_new: true } => program.parent(),
        _ => None,
    }
}

fn with_plugins(command: &mut Command, plugins: Option<&Path>) {
    let Some(plugins) = plugins else { return };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(plugins.to_owned()).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(all) {
        command.env("PATH", path);
    }
    command.env("AGE_PASSPHRASE", PASSPHRASE);
}

/// Why a peer has not got a kind of key.
fn lacks(peer: &Peer, key: Key) -> Option<&'static str> {
    match (&peer.kind, key) {
        (Kind::Age { is_new: false, .. }, Key::Hybrid) => Some("it has no post-quantum keys before 1.3"),
        (Kind::Age { is_new: false, .. }, Key::Plugin) => Some("no plugin comes with it"),
        (Kind::Pyrage(_), Key::Hybrid) => Some("it has no mlkem768x25519"),
        (Kind::Pyrage(_), Key::Plugin) => Some("no plugin comes with it"),
        _ => None,
    }
}

/// Whether a peer armors what it encrypts for a key.
fn armors(peer: &Peer, key: Key) -> bool {
    !(matches!(peer.kind, Kind::Pyrage(_)) && key == Key::Passphrase)
}

/// All kinds of keys with one peer, a line each.
pub(super) fn run(keys: &Keys, peer: &Peer, tally: &mut Tally) -> Vec<Row> {
    let mut rows = Vec::new();
    for key in Key::ALL {
        let what = format!("{}, {}", peer.name, key.name());
        if let Some(reason) = lacks(peer, key) {
            tally.skipped += 1;
            rows.push(Row { what, came_to: format!("not there: {reason}") });
            continue;
        }
        let lens: &[usize] = if key == Key::X25519 { &LENS } else { &[LEN] };
        let mut done = 0;
        let mut failed = None;
        for &len in lens {
            for armor in [false, true].into_iter().filter(|armor| !*armor || armors(peer, key)) {
                let outcome = keys.exchange(key, armor, len, peer);
                match &outcome {
                    Ok(()) => done += 2,
                    Err(failure) => failed = Some(failure.to_string()),
                }
                tally.count(&what, outcome);
            }
        }
        let came_to = match failed {
            None => format!("{done} files went both ways"),
            Some(failure) => format!("FAILED: {}", failure.lines().next().unwrap_or_default()),
        };
        rows.push(Row { what, came_to });
    }
    rows
}
