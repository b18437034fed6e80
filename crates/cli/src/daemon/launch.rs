//! Starting the daemon: this program once more, with the same words, in a
//! process that has no threads and no secrets of the first one.
//!
//! What was typed or read goes to it through its standard input, and what
//! became of it comes back through its standard output. The first process
//! returns when the second is ready, and until then both end at Ctrl-C. Every
//! secret is read by the first, whose standard input and descriptors are those
//! that the user gave it; the second inherits none but its three.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_keys::{Credential, RecoveryKey, SecretBytes, keep_descriptors};

use super::log::Log;
use crate::again;
use crate::args::values::LogTarget;
use crate::control::Answer;
use crate::failure::{Exit, Failure, Result};
use crate::secrets::{Given, Source};

/// Says that this process is the daemon.
const MARK: &str = "STRONGROOM_DAEMON";

/// Longest secret that is handed on: a key file of a disk.
const SECRET_LEN_MAX: usize = 8 << 20;

const KIND_NONE: u8 = 0;
const KIND_PASSWORD: u8 = 1;
const KIND_RECOVERY: u8 = 2;
const KIND_KEY_FILE: u8 = 3;
/// A password, which the content of a key file follows.
const KIND_BOTH: u8 = 4;

/// Whether this process was started to be the daemon.
pub(crate) fn is_daemon() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Gets the secret, starts the daemon and waits until it is ready.
///
/// # Errors
/// What reading the source reports, or the daemon's failure.
pub(crate) fn start(source: &Source, what: &str) -> Result<()> {
    let given = source.given(what)?;
    begin(|input| send(input, &given))
}

/// Starts the daemon of a disk, or of a single file, and waits until it is
/// ready. Without a secret it needs none.
///
/// # Errors
/// The daemon's failure.
pub(crate) fn start_with(secret: Option<&SecretBytes>) -> Result<()> {
    begin(|input| match secret {
        Some(secret) => send_secret(input, KIND_PASSWORD, secret.expose()),
        None => send_secret(input, KIND_NONE, &[]),
    })
}

fn begin(send: impl FnOnce(std::process::ChildStdin) -> std::io::Result<()>) -> Result<()> {
    let mut child = spawn()?;
    let input = child.stdin.take().expect("standard input is piped");
    // A daemon that is gone has told why, or its exit status will.
    let _ = send(input);
    let mut line = String::new();
    let output = child.stdout.take().expect("standard output is piped");
    let read = BufReader::new(output).read_line(&mut line);
    match read.ok().and_then(|_| serde_json::from_str(&line).ok()) {
        Some(Answer::Failed(told)) => {
            // It has nothing left to do but to end.
            let _ = child.wait();
            Err(told.into())
        }
        Some(_) => Ok(()),
        None => {
            let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(Failure::new(Exit::Other, format!("the daemon ended before it was ready ({status})")))
        }
    }
}

fn spawn() -> Result<Child> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Older kernels leave it what the caller left open.
    let _ = keep_descriptors();
    let prepare = |command: &mut Command| {
        command.env(MARK, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    };
    again::spawn(&words, prepare).map_err(|error| Failure::system(&again::program(), &error))
}

fn send(mut input: impl Write, given: &Given) -> std::io::Result<()> {
    match given {
        Given::Password(password) => send_secret(input, KIND_PASSWORD, password.expose()),
        Given::KeyFile(content) => send_secret(input, KIND_KEY_FILE, content.expose()),
        Given::Recovery(key) => send_secret(input, KIND_RECOVERY, key.to_text().expose()),
        Given::Both { password, key_file } => {
            send_secret(&mut input, KIND_BOTH, password.expose())?;
            send_secret(&mut input, KIND_KEY_FILE, key_file.expose())
        }
    }
}

fn send_secret(mut input: impl Write, kind: u8, secret: &[u8]) -> std::io::Result<()> {
    input.write_all(&[kind])?;
    input.write_all(&(secret.len() as u32).to_le_bytes())?;
    input.write_all(secret)
}

/// The secret that the first process hands on.
///
/// # Errors
/// When the first process is gone.
pub(crate) fn receive(mut input: impl Read) -> Result<Credential> {
    let gone = || Failure::new(Exit::Other, "the process that started the daemon is gone");
    let given = match parse(&mut input).ok_or_else(gone)? {
        (KIND_PASSWORD, password) => Given::Password(password),
        (KIND_KEY_FILE, content) => Given::KeyFile(content),
        (KIND_RECOVERY, text) => Given::Recovery(RecoveryKey::parse(text.expose()).map_err(|_| gone())?),
        (KIND_BOTH, password) => match parse(&mut input) {
            Some((KIND_KEY_FILE, key_file)) => Given::Both { password, key_file },
            _ => return Err(gone()),
        },
        _ => return Err(gone()),
    };
    given.credential()
}

/// The secret that the first process hands on to the daemon of a disk or a
/// single file, if it has one.
///
/// # Errors
/// When the first process is gone.
pub(crate) fn receive_bytes(input: impl Read) -> Result<Option<SecretBytes>> {
    match parse(input) {
        Some((KIND_PASSWORD, secret)) => Ok(Some(secret)),
        Some((KIND_NONE, _)) => Ok(None),
        _ => Err(Failure::new(Exit::Other, "the process that started the daemon is gone")),
    }
}

/// What a daemon calls when it is ready.
pub(crate) type Ready = Arc<dyn Fn() + Send + Sync>;

/// Serves as the process that was launched: `serve` is handed what it has to
/// call when it is ready. The log is told of its failure, and the first process
/// until then. Messages may have plain names, or may not.
pub(crate) fn served(log: Option<&LogTarget>, names: bool, serve: impl FnOnce(Ready) -> Result<()>) -> Exit {
    let is_ready = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_ready);
    let become_ready = move || {
        told.store(true, Ordering::SeqCst);
        ready();
    };
    let target = log.cloned().unwrap_or(LogTarget::Syslog);
    let served = Log::open_for(Some(&target), names).and_then(|log| {
        log.install();
        serve(Arc::new(become_ready)).inspect_err(|failure| tracing::error!("{}", failure.message()))
    });
    match served {
        Ok(()) => Exit::Done,
        Err(failure) => {
            if !is_ready.load(Ordering::SeqCst) {
                failed(&failure);
            }
            failure.exit()
        }
    }
}

/// Serves in this process, and nobody waits for it to be ready.
///
/// # Errors
/// What `serve` reports, or that there is no such log.
pub(crate) fn in_foreground(
    log: Option<&LogTarget>,
    names: bool,
    serve: impl FnOnce(Ready) -> Result<()>,
) -> Result<()> {
    Log::open_for(log, names)?.install();
    serve(Arc::new(|| ()))
}

fn parse(mut input: impl Read) -> Option<(u8, SecretBytes)> {
    let mut head = [0; 5];
    input.read_exact(&mut head).ok()?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > SECRET_LEN_MAX {
        return None;
    }
    let mut secret = SecretBytes::zeroed(len);
    input.read_exact(secret.expose_mut()).ok()?;
    Some((head[0], secret))
}

/// Tells the first process that the daemon is ready, and lets go of it: of
/// its terminal, directory and descriptors.
fn ready() {
    tell(&Answer::Done);
    // Each may fail without harm: the daemon then keeps a directory busy or
    // hears of the terminal's end, which it ignores.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Tells the first process that there will be no mount.
fn failed(failure: &Failure) {
    tell(&Answer::Failed(failure.into()));
}

fn tell(answer: &Answer) {
    let mut line = serde_json::to_vec(answer).expect("an answer has text keys");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // The first process may have been killed; the mount is none the worse.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Makes a path independent of the working directory.
///
/// # Errors
/// For an empty path.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::system(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(given: &Given) -> Result<Credential> {
        let mut pipe = Vec::new();
        send(&mut pipe, given).expect("memory");
        receive(&pipe[..])
    }

    fn secret(bytes: &[u8]) -> SecretBytes {
        SecretBytes::take(&mut bytes.to_vec())
    }

    #[test]
    fn secrets_are_handed_on() {
        let Ok(Credential::Password(received)) = passed_on(&Given::Password(secret(b"p\0w\n"))) else {
            panic!("a password")
        };
        assert_eq!(received.expose(), b"p\0w\n");
        let key = RecoveryKey::random().expect("entropy");
        let text = key.to_text();
        let Ok(Credential::Recovery(received)) = passed_on(&Given::Recovery(key)) else {
            panic!("a recovery key")
        };
        assert_eq!(received.to_text().expose(), text.expose());
        let long = vec![7; 1 << 20];
        let Ok(Credential::KeyFile(file)) = passed_on(&Given::KeyFile(secret(&long))) else {
            panic!("a key file")
        };
        assert!(!file.is_uniform());
        let both = Given::Both { password: secret(b"p"), key_file: secret(&long) };
        assert!(matches!(passed_on(&both), Ok(Credential::PasswordAndKeyFile(_))));
    }

    #[test]
    fn what_is_cut_off_is_no_secret() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Given::Both { password: secret(b"pw"), key_file: secret(b"key") }).expect("memory");
        for len in 0..pipe.len() {
            assert!(receive(&pipe[..len]).is_err(), "{len}");
        }
        assert!(receive(&b"\x01\xff\xff\xff\xff"[..]).is_err());
        assert!(receive(&b"\x00\0\0\0\0"[..]).is_err());
    }
}
