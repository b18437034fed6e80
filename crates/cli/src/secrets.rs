//! Where secrets come from: the terminal, a file, a descriptor, a command.
//!
//! They go straight into secret memory. None comes from the command line or
//! the environment, and none is ever printed, but a new recovery key, once.

pub(crate) mod terminal;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use strongroom_format::vault::slot::SlotKind;
use strongroom_keys::slots::KeyFileEmpty;
use strongroom_keys::{Credential, KeyFile, PasswordAndKeyFile, RecoveryKey, SecretBytes};

use self::terminal::Silent;
use crate::args::values::RecoveryOut;
use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;
use crate::opening;

/// Most bytes of a password.
const PASSWORD_LEN_MAX: usize = 4096;
/// Most bytes of a key file.
const KEY_FILE_LEN_MAX: usize = 1 << 20;
/// Most bytes of a disk's key file, as cryptsetup has it.
const DISK_KEY_FILE_LEN_MAX: usize = 8 << 20;
/// First room for a secret, which most do not fill.
const ROOM: usize = 4096;
/// How often two passwords may differ before it is given up.
const ATTEMPTS: usize = 3;

const NO_TERMINAL: &str = "Use --password-file FILE, --password-fd N, --password-command COMMAND, --key-file FILE or \
                           --recovery-file FILE (with --new- before it for a new secret).";

/// Where a secret is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Asked for on the terminal.
    Prompt,
    /// The content of a file but for one newline at its end; of this and all
    /// other files, `-` is standard input.
    PasswordFile(PathBuf),
    /// What comes from an open descriptor.
    PasswordFd(i32),
    /// What a shell command prints.
    PasswordCommand(String),
    /// A key file.
    KeyFile(PathBuf),
    /// A file with a printed recovery key.
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

    /// Gets a secret that opens something now; `what` is asked for.
    ///
    /// # Errors
    /// What the system reports; an empty or impossible secret; no terminal.
    pub(crate) fn read(&self, what: &str) -> Result<Credential> {
        self.given(what)?.credential()
    }

    /// As [`Source::read`], to be handed on as it was given.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub(crate) fn given(&self, what: &str) -> Result<Given> {
        self.given_by(|| prompt(&format!("{what}: ")))
    }

    /// Gets a secret that shall open something from now on; on the terminal it
    /// is asked for twice.
    ///
    /// # Errors
    /// As [`Source::read`], and passwords that differ.
    pub(crate) fn read_new(&self, what: &str) -> Result<Credential> {
        self.given_by(|| prompt_twice(what))?.credential()
    }

    /// Gets the passphrase of a disk: of a key file the bytes as they are.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub(crate) fn read_bytes(&self, what: &str, range: KeyFileRange) -> Result<SecretBytes> {
        match self {
            Source::KeyFile(path) => raw_key_file(path, range),
            other => other.password(|| prompt(&format!("{what}: "))),
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

    fn given_by(&self, ask: impl FnOnce() -> Result<SecretBytes>) -> Result<Given> {
        match self {
            Source::KeyFile(path) => key_file(path).map(Given::KeyFile),
            Source::RecoveryFile(path) => recovery_key(path).map(Given::Recovery),
            Source::Both { password, key_file: path } => {
                let password = password.password(ask)?;
                Ok(Given::Both { password, key_file: key_file(path)? })
            }
            source => source.password(ask).map(Given::Password),
        }
    }

    /// A password, by `ask` where it is not said how to get it.
    fn password(&self, ask: impl FnOnce() -> Result<SecretBytes>) -> Result<SecretBytes> {
        match self {
            Source::Prompt => ask(),
            Source::PasswordFile(path) => password(&mut open(path)?, &name(path)),
            Source::PasswordFd(fd) => {
                let mut source = opening::descriptor_copy(*fd).map_err(|error| not_open(&error))?;
                password(&mut source, &format!("file descriptor {fd}"))
            }
            Source::PasswordCommand(command) => password_of_command(command),
            Source::KeyFile(_) | Source::RecoveryFile(_) | Source::Both { .. } => {
                unreachable!("its callers have taken it out")
            }
        }
    }
}

/// A secret as it was given: nothing is derived from it yet.
pub(crate) enum Given {
    /// A password.
    Password(SecretBytes),
    /// What is in a key file, which is not empty.
    KeyFile(SecretBytes),
    /// A recovery key.
    Recovery(RecoveryKey),
    /// A password and what is in a key file.
    Both {
        /// The password.
        password: SecretBytes,
        /// What is in the key file.
        key_file: SecretBytes,
    },
}

impl Given {
    /// What a key slot is opened with.
    ///
    /// # Errors
    /// For an empty key file.
    pub(crate) fn credential(self) -> Result<Credential> {
        let of = |content: &SecretBytes| {
            KeyFile::from_content(content.expose()).map_err(|error| Failure::usage(error.to_string()))
        };
        Ok(match self {
            Given::Password(password) => Credential::Password(password),
            Given::KeyFile(content) => Credential::KeyFile(of(&content)?),
            Given::Recovery(key) => Credential::Recovery(key),
            Given::Both { password, key_file } => {
                Credential::PasswordAndKeyFile(PasswordAndKeyFile::new(&password, &of(&key_file)?))
            }
        })
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

/// A key file of a disk, or a part of it, as it is.
fn raw_key_file(path: &Path, range: KeyFileRange) -> Result<SecretBytes> {
    let mut file = open(path)?;
    skip(&mut file, range.offset).map_err(|error| Failure::system(path, &error))?;
    let too_long =
        || Failure::usage("a key file has at most 8 MiB").at(path).hint("Name a part: --keyfile-size.");
    let limit = match range.len {
        // One more tells that there is more.
        None => DISK_KEY_FILE_LEN_MAX + 1,
        Some(len) => {
            usize::try_from(len).ok().filter(|len| *len <= DISK_KEY_FILE_LEN_MAX).ok_or_else(too_long)?
        }
    };
    let secret = read_at_most(&mut file, limit).map_err(|error| Failure::system(path, &error))?;
    match range.len {
        // What follows is not meant.
        Some(len) if secret.len() as u64 == len && len > 0 => Ok(secret),
        None if secret.len() == limit => Err(too_long()),
        None if !secret.is_empty() => Ok(secret),
        _ => Err(Failure::usage("the key file is not so long").at(path)),
    }
}

/// Leaves out so many bytes, or all where there are fewer.
fn skip(file: &mut File, count: u64) -> std::io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        let count = i64::try_from(count).map_err(|_| ErrorKind::InvalidInput)?;
        return file.seek(SeekFrom::Current(count)).map(drop);
    }
    let mut left = count;
    while left > 0 {
        match read_at_most(file, left.min(ROOM as u64) as usize)?.len() {
            0 => break,
            skipped => left -= skipped as u64,
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    opening::to_read(path).map_err(|error| match error.raw_os_error() {
        None if error.kind() == ErrorKind::NotFound => not_open(&error),
        _ => Failure::system(path, &error),
    })
}

fn not_open(error: &std::io::Error) -> Failure {
    Failure::usage(error.to_string()).hint("Open it in the shell, as in: strongroom … --password-fd 3 3<FILE")
}

/// How messages call a file.
fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Reads a secret of at most `limit` bytes.
fn read_secret(source: &mut (impl Read + AsFd), name: &str, limit: usize) -> Result<SecretBytes> {
    let secret = read_at_most(source, limit + 1).map_err(|error| Failure::system(Path::new(name), &error))?;
    match secret.len() > limit {
        true => Err(Failure::usage(format!("{name}: a secret has at most {limit} bytes"))),
        false => Ok(secret),
    }
}

/// Reads until the end, but not more than `limit` bytes, into secret memory.
fn read_at_most(source: &mut (impl Read + AsFd), limit: usize) -> std::io::Result<SecretBytes> {
    let mut secret = SecretBytes::zeroed(limit.min(ROOM));
    let mut len = 0;
    while len < limit {
        if len == secret.len() {
            let mut larger = SecretBytes::zeroed(limit.min(2 * len));
            larger.expose_mut()[..len].copy_from_slice(secret.expose());
            secret = larger;
        }
        match source.read(&mut secret.expose_mut()[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Whoever opened it wanted not to wait; a secret is waited for.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(source, PollFlags::IN)], None))?;
            }
            Err(error) => return Err(error),
        }
    }
    secret.truncate(len);
    Ok(secret)
}

fn password(source: &mut (impl Read + AsFd), name: &str) -> Result<SecretBytes> {
    let mut password = read_secret(source, name, PASSWORD_LEN_MAX)?;
    if password.expose().last() == Some(&b'\n') {
        password.truncate(password.len() - 1);
    }
    if password.is_empty() {
        return Err(Failure::usage(format!("{name}: the password is empty")));
    }
    Ok(password)
}

fn password_of_command(command: &str) -> Result<SecretBytes> {
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

/// What is in a key file of a vault.
fn key_file(path: &Path) -> Result<SecretBytes> {
    let content = read_secret(&mut open(path)?, &name(path), KEY_FILE_LEN_MAX)?;
    match content.is_empty() {
        true => Err(Failure::usage(KeyFileEmpty.to_string())
            .at(path)
            .hint("Make one with: head -c 32 /dev/urandom > FILE")),
        false => Ok(content),
    }
}

fn recovery_key(path: &Path) -> Result<RecoveryKey> {
    let text = read_secret(&mut open(path)?, &name(path), PASSWORD_LEN_MAX)?;
    RecoveryKey::parse(text.expose()).map_err(|error| {
        Failure::new(Exit::WrongSecret, error.to_string())
            .at(path)
            .hint("It is 14 groups of 4 letters and digits, without I, L, O and U.")
    })
}

pub(crate) fn prompt(text: &str) -> Result<SecretBytes> {
    asked(&silent()?, text)
}

/// The terminal, to ask for a secret on it.
fn silent() -> Result<Silent> {
    Silent::open().map_err(|error| match error.kind() {
        ErrorKind::NotConnected => {
            Failure::usage("no secret was given, and there is no terminal to ask for it").hint(NO_TERMINAL)
        }
        _ => of_terminal(&error),
    })
}

fn of_terminal(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Other, format!("the terminal: {error}"))
}

fn asked(terminal: &Silent, text: &str) -> Result<SecretBytes> {
    let secret = terminal.ask(text, PASSWORD_LEN_MAX).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => of_terminal(&error),
    })?;
    if secret.is_empty() { Err(Failure::usage("the password is empty")) } else { Ok(secret) }
}

fn prompt_twice(what: &str) -> Result<SecretBytes> {
    // Silent from the first to the last: nothing is shown or lost of what is
    // typed in between.
    let terminal = silent()?;
    for _ in 0..ATTEMPTS {
        let first = asked(&terminal, &format!("{what}: "))?;
        let second = asked(&terminal, &format!("{what}, once more: "))?;
        if first.expose() == second.expose() {
            return Ok(first);
        }
        crate::report::tell("They differ. Try again.");
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
    let question = format!("{question} [y/N] ");
    let question = Display::of(&terminal).fit(&question).into_owned();
    write!(terminal, "{question}").and_then(|()| terminal.flush()).map_err(failed)?;
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

/// Blanks before a printed key.
const KEY_INDENT: usize = 4;
/// A group of a printed key with the dash behind it.
const KEY_GROUP: usize = 5;
/// Groups in a line where not all fit: half of them.
const KEY_GROUPS: usize = 7;

/// A printed key in lines of whole groups, where the terminal has no room for
/// all of it. Line ends play no part when it is read.
fn key_lines(key: &[u8], width: Option<usize>) -> impl Iterator<Item = &[u8]> {
    let len = match width {
        Some(width) if width < KEY_INDENT + key.len() => {
            KEY_GROUP * (width.saturating_sub(KEY_INDENT) / KEY_GROUP).clamp(1, KEY_GROUPS)
        }
        _ => key.len(),
    };
    key.chunks(len)
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
                let display = Display::of(&*terminal);
                let before = display.fit("\nThe recovery key, shown this once:\n").into_owned();
                let after = "\nIt opens the vault without the password. Print it, or write it down.\n\n";
                let after = display.fit(after).into_owned();
                let written = terminal.write_all(before.as_bytes()).and_then(|()| {
                    for line in key_lines(text.expose(), display.width) {
                        [b"\n    ", line].into_iter().try_for_each(|part| terminal.write_all(part))?;
                    }
                    terminal.write_all(b"\n")?;
                    terminal.write_all(after.as_bytes())
                });
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

    fn bytes(password: Result<SecretBytes>) -> std::result::Result<Vec<u8>, Exit> {
        password.map(|password| password.expose().to_vec()).map_err(|failure| failure.exit())
    }

    /// A pipe with this in it, and its other end closed.
    fn pipe(content: &[u8]) -> std::io::PipeReader {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(content).expect("less than a pipe holds");
        reader
    }

    #[test]
    fn one_newline_is_not_part_of_a_password() {
        for (text, expected) in [("a b\n", "a b"), ("a", "a"), ("a\n\n", "a\n"), (" a\r\n", " a\r")] {
            let found = bytes(password(&mut pipe(text.as_bytes()), "test"));
            assert_eq!(found, Ok(expected.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_printed_key_is_broken_between_groups() {
        let key = RecoveryKey::random().expect("random bytes").to_text();
        for width in [None, Some(80), Some(73), Some(72), Some(40), Some(38), Some(20), Some(10)] {
            let lines: Vec<&[u8]> = key_lines(key.expose(), width).collect();
            assert!(lines.iter().all(|line| KEY_INDENT + line.len() <= width.unwrap_or(80)), "{width:?}");
            let groups = lines.iter().flat_map(|line| line.split(|&byte| byte == b'-'));
            assert!(groups.filter(|group| !group.is_empty()).all(|group| group.len() == 4), "{width:?}");
            assert!(RecoveryKey::parse(&lines.join(&b"\n    "[..])).is_ok(), "{width:?}");
        }
        assert_eq!(key_lines(key.expose(), Some(40)).count(), 2);
    }

    #[test]
    fn empty_and_endless_passwords_are_refused() {
        let endless = || File::open("/dev/zero").expect("a device");
        assert_eq!(bytes(password(&mut pipe(b""), "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut pipe(b"\n"), "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut endless(), "test")), Err(Exit::Usage));
        assert_eq!(bytes(password(&mut pipe(&[b'x'; 4096]), "test")), Ok(vec![b'x'; 4096]));
        assert_eq!(bytes(password(&mut pipe(&[b'x'; 4097]), "test")), Err(Exit::Usage));
    }

    #[test]
    fn a_part_of_a_pipe_is_taken_as_of_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let content: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        let file = directory.path().join("key");
        std::fs::write(&file, &content).expect("written");
        for (offset, len) in [
            (0, None),
            (7, None),
            (9000, Some(8000)),
            (19_999, Some(1)),
            (20_000, None),
            (0, Some(20_001)),
            (0, Some(0)),
        ] {
            let range = KeyFileRange { offset, len };
            let reader = pipe(&content);
            let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
            let of_pipe = bytes(raw_key_file(Path::new(&path), range));
            assert_eq!(of_pipe, bytes(raw_key_file(&file, range)), "{range:?}");
            let end = len.map_or(content.len(), |len| (offset + len) as usize);
            match content.get(offset as usize..end).filter(|part| !part.is_empty()) {
                Some(part) => assert_eq!(of_pipe, Ok(part.to_vec())),
                None => assert_eq!(of_pipe, Err(Exit::Usage)),
            }
        }
        let random = Path::new("/dev/urandom");
        assert_eq!(bytes(raw_key_file(random, KeyFileRange::default())), Err(Exit::Usage), "it has no end");
        let part = KeyFileRange { offset: 3, len: Some(64) };
        assert_eq!(bytes(raw_key_file(random, part)).map(|bytes| bytes.len()), Ok(64));
    }

    #[test]
    fn who_wanted_not_to_wait_is_waited_for_all_the_same() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe can");
        let writes = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            writer.write_all(b"secret\n").expect("written");
        });
        assert_eq!(bytes(password(&mut { reader }, "test")), Ok(b"secret".to_vec()));
        writes.join().expect("ends");
    }

    #[test]
    fn a_commands_output_is_the_password_if_it_succeeds() {
        assert_eq!(bytes(password_of_command("printf 'one two\\n'")), Ok(b"one two".to_vec()));
        assert_eq!(bytes(password_of_command("echo secret; exit 3")), Err(Exit::Other));
        assert_eq!(bytes(password_of_command("true")), Err(Exit::Usage));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_named() {
        assert_eq!(
            bytes(Source::PasswordFd(987).read_bytes("Password", KeyFileRange::default())),
            Err(Exit::Usage)
        );
    }
}
