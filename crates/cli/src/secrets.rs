//! Where secrets come from: the terminal, a file, a descriptor, a command.
//!
//! They go straight into secret memory. None comes from the command line or
//! the environment, and none is ever printed, but a new recovery key, once.

pub(crate) mod terminal;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use strongroom_format::vault::slot::SlotKind;
use strongroom_keys::{Credential, KeyFile, PasswordAndKeyFile, RecoveryKey, SecretBytes};

use crate::args::values::RecoveryOut;
use crate::failure::{Exit, Failure, Result};

/// Most bytes of a password.
const PASSWORD_LEN_MAX: usize = 4096;
/// Most bytes of a key file.
const KEY_FILE_LEN_MAX: usize = 1 << 20;
/// Most bytes of a disk's key file, as cryptsetup has it.
const DISK_KEY_FILE_LEN_MAX: u64 = 8 << 20;
/// How often two passwords may differ before it is given up.
const ATTEMPTS: usize = 3;

const NO_TERMINAL: &str = "Use --password-file FILE, --password-fd N, --password-command COMMAND, --key-file FILE or \
                           --recovery-file FILE (with --new- before it for a new secret).";

/// Where a secret is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Asked for on the terminal.
    Prompt,
    /// The content of a file but for one newline at its end.
    PasswordFile(PathBuf),
    /// What comes from an open descriptor.
    PasswordFd(i32),
    /// What a shell command prints.
    PasswordCommand(String),
    /// A key file.
    KeyFile(PathBuf),
    /// A file with a printed recovery key; `-` is standard input.
    RecoveryFile(PathBuf),
    /// A password and a key file, which are both needed.
    Both {
        /// Where the password is to be had.
        password: Box<Source>,
        /// The key file.
        key_file: PathBuf,
    },
}

impl Source {
    /// A password and a key file, which are both needed.
    pub(crate) fn both(password: Source, key_file: PathBuf) -> Source {
        Source::Both { password: Box::new(password), key_file }
    }

    /// With another that is given besides: a password and a key file are both
    /// needed, of others the later one counts.
    pub(crate) fn and(self, other: Source) -> Source {
        match (self, other) {
            (Source::KeyFile(key_file), password) if password.is_given_password() => {
                Source::both(password, key_file)
            }
            (password, Source::KeyFile(key_file)) if password.is_given_password() => {
                Source::both(password, key_file)
            }
            (_, other) => other,
        }
    }

    fn is_given_password(&self) -> bool {
        matches!(self, Source::PasswordFile(_) | Source::PasswordFd(_) | Source::PasswordCommand(_))
    }

    /// The kind of slot that it opens.
    pub(crate) fn kind(&self) -> SlotKind {
        match self {
            Source::KeyFile(_) => SlotKind::KeyFile,
            Source::RecoveryFile(_) => SlotKind::Recovery,
            Source::Both { .. } => SlotKind::PasswordAndKeyFile,
            Source::Prompt | Source::PasswordFile(_) | Source::PasswordFd(_) | Source::PasswordCommand(_) => {
                SlotKind::Password
            }
        }
    }

    /// The key file, where one is needed.
    pub(crate) fn key_file_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Source::KeyFile(path) | Source::Both { key_file: path, .. } => Some(path),
            _ => None,
        }
    }

    /// Gets a secret that opens something now; `what` is asked for.
    ///
    /// # Errors
    /// What the system reports; an empty or impossible secret; no terminal.
    pub(crate) fn read(&self, what: &str) -> Result<Credential> {
        match self {
            Source::Prompt => prompt(&format!("{what}: ")).map(Credential::Password),
            Source::Both { password, key_file } => with_key_file(password.read(what)?, key_file),
            other => other.read_given(),
        }
    }

    /// Gets a secret that shall open something from now on; on the terminal it
    /// is asked for twice.
    ///
    /// # Errors
    /// As [`Source::read`], and passwords that differ.
    pub(crate) fn read_new(&self, what: &str) -> Result<Credential> {
        match self {
            Source::Prompt => prompt_twice(what).map(Credential::Password),
            Source::Both { password, key_file } => with_key_file(password.read_new(what)?, key_file),
            other => other.read_given(),
        }
    }

    /// Gets the passphrase of a disk: of a key file the bytes as they are.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub(crate) fn read_bytes(&self, what: &str, range: KeyFileRange) -> Result<SecretBytes> {
        match self {
            Source::KeyFile(path) => raw_key_file(path, range),
            Source::Prompt => prompt(&format!("{what}: ")),
            other => other.read_given().map(passphrase),
        }
    }

    /// As [`Source::read_bytes`]; on the terminal it is asked for twice.
    ///
    /// # Errors
    /// As [`Source::read_new`].
    pub(crate) fn read_new_bytes(&self, what: &str, range: KeyFileRange) -> Result<SecretBytes> {
        match self {
            Source::Prompt => prompt_twice(what),
            other => other.read_bytes(what, range),
        }
    }

    fn read_given(&self) -> Result<Credential> {
        match self {
            Source::Prompt | Source::Both { .. } => unreachable!("its callers have taken it out"),
            Source::PasswordFile(path) => password(&mut open(path)?, &path.display().to_string()),
            Source::PasswordFd(fd) => password(&mut open_descriptor(*fd)?, &format!("file descriptor {fd}")),
            Source::PasswordCommand(command) => password_of_command(command),
            Source::KeyFile(path) => key_file(path),
            Source::RecoveryFile(path) => recovery_key(path),
        }
    }
}

/// The part of a key file that is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyFileRange {
    /// Bytes that are skipped.
    pub(crate) offset: u64,
    /// Bytes that are taken; none for all that follow.
    pub(crate) len: Option<u64>,
}

/// The bytes of a password, which every source but key files gives.
fn passphrase(credential: Credential) -> SecretBytes {
    match credential {
        Credential::Password(password) => password,
        Credential::KeyFile(_) | Credential::Recovery(_) | Credential::PasswordAndKeyFile(_) => {
            unreachable!("disks have neither a vault's key files nor recovery keys")
        }
    }
}

/// A key file of a disk, or a part of it, as it is.
fn raw_key_file(path: &Path, range: KeyFileRange) -> Result<SecretBytes> {
    let mut file = open(path)?;
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let whole = file.metadata().map_err(failed)?;
    if range.offset > 0 {
        file.seek(SeekFrom::Start(range.offset)).map_err(failed)?;
    }
    // A device such as /dev/random has no end.
    let there = if whole.is_file() { whole.len().saturating_sub(range.offset) } else { u64::MAX };
    let wanted = range.len.unwrap_or(there).min(there);
    if wanted == 0 || range.len.is_some_and(|len| len > there) {
        return Err(Failure::usage("the key file is not so long").at(path));
    }
    if wanted > DISK_KEY_FILE_LEN_MAX {
        return Err(Failure::usage("a key file has at most 8 MiB")
            .at(path)
            .hint("Name a part: --keyfile-size."));
    }
    let mut secret = SecretBytes::zeroed(wanted as usize);
    file.read_exact(secret.expose_mut()).map_err(failed)?;
    Ok(secret)
}

fn open(path: &Path) -> Result<File> {
    crate::opening::to_read(path).map_err(|error| Failure::system(path, &error))
}

/// A descriptor of this process as one of our own, which shares its offset.
fn open_descriptor(fd: i32) -> Result<File> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, fd, PidfdGetfdFlags::empty()));
    match own {
        Ok(file) => Ok(File::from(file)),
        // Some containers forbid the call. Opened by its name, a pipe is the
        // same pipe, and a file is read from its beginning.
        Err(rustix::io::Errno::PERM | rustix::io::Errno::NOSYS) => {
            open(Path::new(&format!("/proc/self/fd/{fd}")))
        }
        Err(_) => Err(Failure::usage(format!("file descriptor {fd} is not open"))
            .hint("Open it in the shell, as in: strongroom … --password-fd 3 3<FILE")),
    }
}

/// Reads at most `limit` bytes into secret memory.
fn read_secret(source: &mut dyn Read, name: &str, limit: usize) -> Result<SecretBytes> {
    let mut secret = SecretBytes::zeroed(limit + 1);
    let mut len = 0;
    loop {
        match source.read(&mut secret.expose_mut()[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::system(Path::new(name), &error)),
        }
    }
    if len > limit {
        return Err(Failure::usage(format!("{name}: a secret has at most {limit} bytes")));
    }
    secret.truncate(len);
    Ok(secret)
}

fn password(source: &mut dyn Read, name: &str) -> Result<Credential> {
    let mut password = read_secret(source, name, PASSWORD_LEN_MAX)?;
    if password.expose().last() == Some(&b'\n') {
        password.truncate(password.len() - 1);
    }
    if password.is_empty() {
        return Err(Failure::usage(format!("{name}: the password is empty")));
    }
    Ok(Credential::Password(password))
}

fn password_of_command(command: &str) -> Result<Credential> {
    let shell = Path::new("/bin/sh");
    let spawned = Command::new(shell).arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| Failure::system(shell, &error))?;
    let mut output = child.stdout.take().expect("standard output is piped");
    let password = password(&mut output, "the password command");
    drop(output);
    let status = child.wait().map_err(|error| Failure::system(shell, &error))?;
    if !status.success() {
        return Err(Failure::new(Exit::Other, format!("the password command failed ({status})"))
            .hint("Run it by itself to see why."));
    }
    password
}

fn key_file(path: &Path) -> Result<Credential> {
    read_key_file(path).map(Credential::KeyFile)
}

fn read_key_file(path: &Path) -> Result<KeyFile> {
    let content = read_secret(&mut open(path)?, &path.display().to_string(), KEY_FILE_LEN_MAX)?;
    KeyFile::from_content(content.expose()).map_err(|error| {
        Failure::usage(error.to_string()).at(path).hint("Make one with: head -c 32 /dev/urandom > FILE")
    })
}

/// A password together with a key file.
///
/// # Errors
/// What reading the key file reports.
///
/// # Panics
/// When the credential is no password.
pub(crate) fn with_key_file(password: Credential, key_file: &Path) -> Result<Credential> {
    let Credential::Password(password) = password else { panic!("a password's source gives a password") };
    let both = PasswordAndKeyFile::new(&password, &read_key_file(key_file)?);
    Ok(Credential::PasswordAndKeyFile(both))
}

fn recovery_key(path: &Path) -> Result<Credential> {
    let text = if path == Path::new("-") {
        read_secret(&mut terminal::Input::standard(), "standard input", PASSWORD_LEN_MAX)?
    } else {
        read_secret(&mut open(path)?, &path.display().to_string(), PASSWORD_LEN_MAX)?
    };
    match RecoveryKey::parse(text.expose()) {
        Ok(key) => Ok(Credential::Recovery(key)),
        Err(error) => Err(Failure::new(Exit::WrongSecret, error.to_string())
            .at(path)
            .hint("It is 14 groups of 4 letters and digits, without I, L, O and U.")),
    }
}

pub(crate) fn prompt(text: &str) -> Result<SecretBytes> {
    let secret = terminal::ask(text, PASSWORD_LEN_MAX).map_err(|error| match error.kind() {
        ErrorKind::NotConnected => {
            Failure::usage("no secret was given, and there is no terminal to ask for it").hint(NO_TERMINAL)
        }
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => Failure::new(Exit::Other, format!("the terminal: {error}")),
    })?;
    if secret.is_empty() { Err(Failure::usage("the password is empty")) } else { Ok(secret) }
}

fn prompt_twice(what: &str) -> Result<SecretBytes> {
    for _ in 0..ATTEMPTS {
        let first = prompt(&format!("{what}: "))?;
        let second = prompt(&format!("{what}, once more: "))?;
        if first.expose() == second.expose() {
            return Ok(first);
        }
        eprintln!("They differ. Try again.");
    }
    Err(Failure::usage("the passwords differ"))
}

/// Asks the terminal a question that is answered by yes or no.
///
/// # Errors
/// Usage when there is no terminal; `otherwise` says what to do then.
pub(crate) fn confirm(question: &str, otherwise: &'static str) -> Result<bool> {
    let failed = |_| Failure::usage("there is no terminal to ask on").hint(otherwise);
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(failed)?;
    write!(terminal, "{question} [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut answer = String::new();
    let mut lines = std::io::BufReader::new(terminal);
    std::io::BufRead::read_line(&mut lines, &mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whether [`confirm`] has somebody to ask.
pub(crate) fn has_terminal() -> bool {
    File::options().read(true).write(true).open("/dev/tty").is_ok()
}

fn exists(failure: Failure) -> Failure {
    failure.hint("Name a file that does not exist yet.")
}

fn show_on_terminal() -> Result<File> {
    File::options().write(true).open("/dev/tty").map_err(|_| {
        Failure::usage("there is no terminal to show the recovery key on")
            .hint("Say where it shall go with --recovery-out FILE, or make none with --recovery-out none.")
    })
}

/// Where a new recovery key goes.
pub(crate) enum RecoveryTarget {
    /// The terminal.
    Terminal(File),
    /// A file that was made for it.
    File {
        /// Its path.
        path: PathBuf,
        /// The file, open for writing.
        file: File,
    },
}

impl RecoveryTarget {
    /// Refuses what [`RecoveryTarget::open`] would refuse, before anything is
    /// asked for or made.
    ///
    /// # Errors
    /// As [`RecoveryTarget::open`].
    pub(crate) fn check(out: Option<&RecoveryOut>) -> Result<()> {
        match out {
            Some(RecoveryOut::None) => Ok(()),
            Some(RecoveryOut::File(path)) if path.symlink_metadata().is_ok() => {
                Err(exists(Failure::usage("the file for the recovery key exists already").at(path)))
            }
            Some(RecoveryOut::File(_)) => Ok(()),
            None | Some(RecoveryOut::Terminal) => show_on_terminal().map(drop),
        }
    }

    /// Opens the target; none when no key is wanted. The default is the
    /// terminal, and never a pipe or a log.
    ///
    /// # Errors
    /// When there is no terminal, or the file is there already.
    pub(crate) fn open(out: Option<&RecoveryOut>) -> Result<Option<RecoveryTarget>> {
        match out {
            Some(RecoveryOut::None) => Ok(None),
            Some(RecoveryOut::File(path)) => {
                let opened = File::options().write(true).create_new(true).mode(0o600).open(path);
                let file = opened.map_err(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => exists(Failure::system(path, &error)),
                    _ => Failure::system(path, &error),
                })?;
                Ok(Some(RecoveryTarget::File { path: path.clone(), file }))
            }
            None | Some(RecoveryOut::Terminal) => {
                show_on_terminal().map(|file| Some(RecoveryTarget::Terminal(file)))
            }
        }
    }

    /// Writes the key, durably.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn write(&mut self, key: &RecoveryKey) -> Result<()> {
        let text = key.to_text();
        match self {
            RecoveryTarget::Terminal(terminal) => {
                let before = b"\nThe recovery key, shown this once:\n\n    ";
                let after = b"\n\nIt opens the vault without the password. Print it, or write it down.\n\n";
                let parts: [&[u8]; 3] = [before, text.expose(), after];
                let written = parts.into_iter().try_for_each(|part| terminal.write_all(part));
                written.map_err(|error| Failure::system(Path::new("/dev/tty"), &error))
            }
            RecoveryTarget::File { path, file } => {
                let written = file.write_all(text.expose()).and_then(|()| file.write_all(b"\n"));
                let written = written.and_then(|()| file.sync_all());
                written.map_err(|error| Failure::system(path, &error))
            }
        }
    }

    /// The file, where it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            RecoveryTarget::Terminal(_) => None,
            RecoveryTarget::File { path, .. } => Some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(credential: Result<Credential>) -> std::result::Result<Vec<u8>, Exit> {
        match credential {
            Ok(Credential::Password(password)) => Ok(password.expose().to_vec()),
            Ok(_) => panic!("no password"),
            Err(failure) => Err(failure.exit()),
        }
    }

    #[test]
    fn one_newline_is_not_part_of_a_password() {
        for (text, expected) in [("a b\n", "a b"), ("a", "a"), ("a\n\n", "a\n"), (" a\r\n", " a\r")] {
            assert_eq!(bytes(password(&mut text.as_bytes(), "test")), Ok(expected.as_bytes().to_vec()));
        }
    }

    #[test]
    fn empty_and_endless_passwords_are_refused() {
        assert_eq!(bytes(password(&mut &b""[..], "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut &b"\n"[..], "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut std::io::repeat(b'x'), "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut std::io::repeat(b'x').take(4096), "test")), Ok(vec![b'x'; 4096]));
    }

    #[test]
    fn a_commands_output_is_the_password_if_it_succeeds() {
        assert_eq!(bytes(password_of_command("printf 'one two\\n'")), Ok(b"one two".to_vec()));
        assert_eq!(bytes(password_of_command("echo secret; exit 3")), Err(Exit::Other));
        assert_eq!(bytes(password_of_command("true")), Err(Exit::Usage));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_named() {
        assert_eq!(bytes(Source::PasswordFd(987).read("Password")), Err(Exit::Usage));
    }
}
