//! Where the daemon's messages go: what stands behind the macros of `tracing`.

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

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

/// The beginning of where this project's messages come from.
const OWN: &str = "strongroom";

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

    /// Has the messages of this process come here from now on. The first log
    /// counts: a process serves once.
    pub(crate) fn install(self) {
        let _ = tracing::subscriber::set_global_default(self);
    }

    fn write(&self, level: Level, text: &str) {
        let pid = std::process::id();
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::Terminal => eprintln!("strongroom: {text}"),
            Target::File(file) => {
                let line = format!("{} strongroom[{pid}]: {text}\n", report::rfc3339(report::now()));
                let _ = file.write_all(line.as_bytes());
            }
            Target::Syslog(socket) => {
                let line = format!("<{}>strongroom[{pid}]: {text}", FACILITY | severity(level));
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

/// By the system log's numbers: something failed, is not as it should be, or
/// is worth knowing.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        _ => 5,
    }
}

/// Messages alone: nothing here has spans.
impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with(OWN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Message(&mut text));
        self.write(*event.metadata().level(), &text);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of a message.
struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
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
            let log = Log::open(Some(&LogTarget::File(path.clone()))).expect("ours");
            tracing::subscriber::with_default(log, || {
                tracing::info!(target: "another", "of another library");
                tracing::debug!("of no use");
                tracing::info!("{text}");
            });
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
