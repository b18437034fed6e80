//! Where the daemon's messages go.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::args::values::LogTarget;
use crate::failure::{Failure, Result};
use crate::report;

/// The system log's socket.
const SYSLOG: &str = "/dev/log";
/// A new file's mode: what is mounted where, and what fails there, is its
/// owner's alone.
const MODE: u32 = 0o600;
/// Facility `daemon` in a priority (RFC 3164, section 4.1.1).
const FACILITY: u8 = 3 << 3;

/// How much a message matters, by the system log's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something failed.
    Error = 3,
    /// Something is not as it should be.
    Warning = 4,
    /// Worth knowing.
    Notice = 5,
}

/// A log. Messages that cannot be written are lost.
#[derive(Debug)]
pub(crate) struct Log(Mutex<Target>);

#[derive(Debug)]
enum Target {
    Terminal,
    File(File),
    Syslog(Option<UnixDatagram>),
}

impl Log {
    /// Opens a log; standard error where `target` names none.
    ///
    /// # Errors
    /// When the file cannot be appended to.
    pub(crate) fn open(target: Option<&LogTarget>) -> Result<Log> {
        let target = match target {
            None => Target::Terminal,
            Some(LogTarget::Syslog) => Target::Syslog(syslog()),
            Some(LogTarget::File(path)) => Target::File(append(path)?),
        };
        Ok(Log(Mutex::new(target)))
    }

    /// As [`Log::open`], for messages that may have plain names: those go to a
    /// file alone, which is then its owner's.
    ///
    /// # Errors
    /// Usage where it is no file; as [`Log::open`].
    pub(crate) fn open_for(target: Option<&LogTarget>, names: bool) -> Result<Log> {
        let log = Log::open(target)?;
        match (&*log.0.lock().unwrap_or_else(PoisonError::into_inner), target) {
            _ if !names => {}
            (Target::File(file), Some(LogTarget::File(path))) => {
                let own = std::fs::Permissions::from_mode(MODE);
                file.set_permissions(own).map_err(|error| Failure::system(path, &error))?;
            }
            _ => {
                return Err(Failure::usage("plain names go to no log that others may read")
                    .hint("Give --log a file, or leave out --log-names."));
            }
        }
        Ok(log)
    }

    /// Writes one message.
    pub(crate) fn write(&self, severity: Severity, text: &str) {
        let pid = std::process::id();
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::Terminal => eprintln!("strongroom: {text}"),
            Target::File(file) => {
                let line = format!("{} strongroom[{pid}]: {text}\n", report::rfc3339(report::now()));
                let _ = file.write_all(line.as_bytes());
            }
            Target::Syslog(socket) => {
                let line = format!("<{}>strongroom[{pid}]: {text}", FACILITY | severity as u8);
                let sent = socket.as_ref().is_some_and(|socket| socket.send(line.as_bytes()).is_ok());
                if !sent {
                    // The logging program has been started anew, perhaps.
                    *socket = syslog();
                    if let Some(socket) = socket {
                        let _ = socket.send(line.as_bytes());
                    }
                }
            }
        }
    }
}

fn syslog() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(SYSLOG).ok()?;
    // A log that is stuck is not waited for.
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

fn append(path: &Path) -> Result<File> {
    crate::opening::to_append(path).map_err(|error| Failure::system(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_appended() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        for text in ["one", "two"] {
            Log::open(Some(&LogTarget::File(path.clone()))).expect("ours").write(Severity::Notice, text);
        }
        let lines = std::fs::read_to_string(&path).expect("written");
        let texts: Vec<_> = lines.lines().filter_map(|line| line.rsplit(": ").next()).collect();
        assert_eq!(texts, ["one", "two"]);
        let mode = || std::fs::metadata(&path).expect("written").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
        let target = LogTarget::File(path.clone());
        Log::open_for(Some(&target), false).expect("ours");
        assert_eq!(mode(), 0o644, "the user's choice");
        Log::open_for(Some(&target), true).expect("ours");
        assert_eq!(mode(), 0o600);
        for target in [None, Some(&LogTarget::Syslog)] {
            assert!(Log::open_for(target, true).is_err());
        }
    }
}
