//! Who takes part: this program with its engines and kinds of recipients, and
//! what else is installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::engines::BenchFileArgs;
use crate::failure::{Exit, Failure, Result};

/// Files of a measurement in one directory.
pub(super) struct Room {
    directory: PathBuf,
    pub(super) is_disk: bool,
}

/// One program that does one thing.
pub(super) struct Contestant {
    pub(super) program: String,
    pub(super) engine: Option<String>,
    pub(super) recipient: Option<String>,
    pub(super) input: &'static str,
    pub(super) operation: &'static str,
    line: Vec<OsString>,
    directory: PathBuf,
    /// What it reads.
    pub(super) reads: PathBuf,
    /// What it makes, removed before.
    pub(super) results: Vec<PathBuf>,
}

impl Contestant {
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).current_dir(&self.directory).env("LC_ALL", "C");
        command
    }
}

const PASSPHRASE: &str = "correct horse battery staple\n";

impl Room {
    /// Puts keys there.
    pub(super) fn furnish(directory: &Path, is_disk: bool) -> Result<Room> {
        let room = Room { directory: directory.to_owned(), is_disk };
        let write = |name: &str, text: &str| {
            let path = room.at(name);
            std::fs::write(&path, text).map_err(|error| Failure::system(&path, &error))
        };
        for (name, post_quantum) in [("x25519", false), ("hybrid", true)] {
            let made = strongroom_file::identities::generate(post_quantum);
            let (secret, public) = made.map_err(|error| Failure::new(Exit::Other, error.to_string()))?;
            write(name, &format!("{}\n", strongroom_file::ExposeSecret::expose_secret(&secret)))?;
            write(&format!("{name}.pub"), &format!("{public}\n"))?;
        }
        write("passphrase", PASSPHRASE)?;
        Ok(room)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.at("plain")
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.at("tree")
    }

    /// A shell's line with words after it, in which `$0`, `$1` … are these. On
    /// a disk the result is synced, as this program syncs its own.
    fn shell(&self, line: &str, words: &[&str], result: &str) -> Vec<OsString> {
        let line = if self.is_disk { format!("{line} && sync {result}") } else { line.to_owned() };
        [&["sh", "-c", &line], words].concat().into_iter().map(OsString::from).collect()
    }

    fn contestant(
        &self,
        program: &str,
        input: &'static str,
        operation: &'static str,
        line: Vec<OsString>,
        [reads, result]: [&str; 2],
    ) -> Contestant {
        Contestant {
            program: program.to_owned(),
            engine: None,
            recipient: None,
            input,
            operation,
            line,
            directory: self.directory.clone(),
            reads: self.at(reads),
            results: vec![self.at(result)],
        }
    }
}

/// All of them, those that encrypt before those that decrypt the result.
pub(super) fn all(room: &Room, args: &BenchFileArgs) -> Result<Vec<Contestant>> {
    let mut all = Vec::new();
    if args.size > 0 {
        let copy = room.shell("cp plain copy", &[], "copy");
        all.push(room.contestant("cp", "file", "copy", copy, ["plain", "copy"]));
        // What it takes to write as much, whoever does it.
        let write = format!(
            "dd if=/dev/zero of=zeros bs=512K count={} iflag=count_bytes,fullblock status=none",
            args.size
        );
        let write = room.shell(&write, &[], "zeros");
        all.push(room.contestant("dd of zeros", "file", "copy", write, ["plain", "zeros"]));
        all.extend(ours(room, args)?);
        for name in ["age", "rage"].into_iter().filter(|name| is_installed(name)) {
            let program = named(name);
            let sealed = format!("sealed-{name}");
            let seal = room.shell("\"$0\" -R x25519.pub -o \"$1\" plain", &[name, &sealed], &sealed);
            let open = room.shell("\"$0\" -d -i x25519 -o back \"$1\"", &[name, &sealed], "back");
            all.push(room.contestant(&program, "file", "encrypt", seal, ["plain", &sealed]));
            all.push(room.contestant(&program, "file", "decrypt", open, [&sealed, "back"]));
        }
        if is_installed("openssl") {
            let of = "openssl enc -chacha20 -pbkdf2 -pass file:passphrase";
            let seal = room.shell(&format!("{of} -in plain -out sealed-openssl"), &[], "sealed-openssl");
            let open = room.shell(&format!("{of} -d -in sealed-openssl -out back"), &[], "back");
            let program = "openssl (no MAC)";
            all.push(room.contestant(program, "file", "encrypt", seal, ["plain", "sealed-openssl"]));
            all.push(room.contestant(program, "file", "decrypt", open, ["sealed-openssl", "back"]));
        }
        if is_installed("gpg") {
            let of = "mkdir -p -m 700 gpg && gpg --homedir gpg --batch --yes --quiet --pinentry-mode loopback \
                      --passphrase-file passphrase --compress-algo none --cipher-algo AES256";
            let seal = room.shell(&format!("{of} -o sealed-gpg -c plain"), &[], "sealed-gpg");
            let open = room.shell(&format!("{of} -o back -d sealed-gpg"), &[], "back");
            all.push(room.contestant("gpg", "file", "encrypt", seal, ["plain", "sealed-gpg"]));
            all.push(room.contestant("gpg", "file", "decrypt", open, ["sealed-gpg", "back"]));
        }
    }
    if args.files > 0 && !room.is_disk {
        all.extend(trees(room)?);
    }
    Ok(all)
}

/// This program, by engine and recipient.
fn ours(room: &Room, args: &BenchFileArgs) -> Result<Vec<Contestant>> {
    let mut all = Vec::new();
    for engine in &args.engine {
        for recipient in &args.recipient {
            let sealed = format!("sealed-{engine}-{recipient}");
            let public = format!("{recipient}.pub");
            let (to, from) = match recipient.as_str() {
                "scrypt" => (["--password-file", "passphrase"], ["--password-file", "passphrase"]),
                _ => (["-R", public.as_str()], ["-i", recipient.as_str()]),
            };
            let seal = this(&[&["-e", "--engine", engine], &to[..], &["-o", &sealed, "plain"]].concat())?;
            let open = this(&[&["-d", "--engine", engine], &from[..], &["-o", "back", &sealed]].concat())?;
            for (operation, line, files) in
                [("encrypt", seal, ["plain", &sealed]), ("decrypt", open, [sealed.as_str(), "back"])]
            {
                let mut contestant = room.contestant("strongroom", "file", operation, line, files);
                contestant.engine = Some(engine.clone());
                contestant.recipient = Some(recipient.clone());
                all.push(contestant);
            }
        }
    }
    Ok(all)
}

/// A tree of small files, by this program and by GNU tar with age.
fn trees(room: &Room) -> Result<Vec<Contestant>> {
    let seal = this(&["-e", "-R", "x25519.pub", "-o", "tree-sealed", "tree"])?;
    let open = this(&["-d", "-i", "x25519", "--extract", "tree-back", "tree-sealed"])?;
    let mut all = vec![
        room.contestant("strongroom", "tree", "encrypt", seal, ["tree", "tree-sealed"]),
        room.contestant("strongroom", "tree", "decrypt", open, ["tree-sealed", "tree-back"]),
    ];
    if is_installed("age") && is_installed("tar") {
        let program = format!("tar | {}", named("age"));
        let seal = room.shell("tar -c tree | age -R x25519.pub -o tree-age", &[], "tree-age");
        let line = "mkdir tree-back-age && age -d -i x25519 tree-age | tar -x -C tree-back-age";
        let open = room.shell(line, &[], "-f tree-back-age");
        all.push(room.contestant(&program, "tree", "encrypt", seal, ["tree", "tree-age"]));
        all.push(room.contestant(&program, "tree", "decrypt", open, ["tree-age", "tree-back-age"]));
    }
    Ok(all)
}

/// This program's `file` command.
fn this(words: &[&str]) -> Result<Vec<OsString>> {
    let program =
        std::env::current_exe().map_err(|error| Failure::system(Path::new("/proc/self/exe"), &error))?;
    let words = std::iter::once("file").chain(words.iter().copied()).map(OsString::from);
    Ok(std::iter::once(program.into_os_string()).chain(words).collect())
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// The name with the version that the program tells.
fn named(name: &str) -> String {
    let told = Command::new(name).arg("--version").output();
    let text = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.split_whitespace().last().unwrap_or_default();
    format!("{name} {}", version.trim_start_matches('v')).trim().to_owned()
}
