//! What a salvage could not read or write, and the log that a resumed one
//! reads: what was lost in files that it skips.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::commands::check::findings::Finding;
use crate::failure::{Exit, Failure, Result};

/// Something that the destination did not take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Unwritten {
    /// Plain path.
    pub(super) path: String,
    /// Why.
    pub(super) message: String,
}

/// Gathers them from all threads.
pub(super) struct Losses {
    path: PathBuf,
    log: Mutex<File>,
    findings: Mutex<Vec<Finding>>,
    /// Those of runs before, which hold for files that this one skips.
    before: Vec<Finding>,
    unwritten: Mutex<Vec<Unwritten>>,
    fatal: Mutex<Option<Failure>>,
}

/// Each in a line of the log.
fn lines_of(findings: &[Finding]) -> std::io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for finding in findings {
        serde_json::to_writer(&mut lines, finding)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// What a report says that a resumed run has to know.
#[derive(Deserialize)]
struct Reported {
    damage: Vec<Finding>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Losses {
    /// With those of runs before, when one is resumed: a run that was cut short
    /// has left the log, a run that ended its report at `resumed`. The log
    /// `name` stands in the destination until everything is copied, with a
    /// finding in each line.
    ///
    /// # Errors
    /// What the system reports.
    pub(super) fn open(destination: &Path, name: &str, resumed: Option<&Path>) -> Result<Losses> {
        let path = destination.join(name);
        let failed = |error: std::io::Error| Failure::system(&path, &error);
        let (mut before, mut lines) = (Vec::new(), Vec::new());
        if let Some(report) = resumed {
            if let Ok(text) = crate::opening::regular(&path).and_then(std::io::read_to_string) {
                // The last line may be cut off: its file was not completed.
                before.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
            }
            let report = std::fs::read(report).ok();
            let report = report.and_then(|json| serde_json::from_slice::<Reported>(&json).ok());
            let reported = report.into_iter().flat_map(|report| report.damage);
            let unlogged: Vec<Finding> = reported.filter(|finding| !before.contains(finding)).collect();
            // This run's report replaces that one, and may be cut short.
            lines = lines_of(&unlogged).map_err(failed)?;
            before.extend(unlogged);
        }
        let mut log = crate::opening::to_append(&path).map_err(failed)?;
        log.write_all(&lines).map_err(failed)?;
        Ok(Losses {
            path,
            log: Mutex::new(log),
            findings: Mutex::default(),
            before,
            unwritten: Mutex::default(),
            fatal: Mutex::default(),
        })
    }

    /// Something could not be read.
    pub(super) fn add(&self, finding: Finding) {
        lock(&self.findings).push(finding);
    }

    /// A file is skipped, which a run before has copied: what that lost of it
    /// is lost still.
    pub(super) fn skipped(&self, path: &[u8]) {
        let path = String::from_utf8_lossy(path);
        let of = self.before.iter().filter(|finding| finding.path() == path && finding.is_damage());
        lock(&self.findings).extend(of.cloned());
    }

    /// What of a file could not be read, kept for a run that skips the file.
    ///
    /// # Errors
    /// What the system reports.
    pub(super) fn add_for_good(&self, findings: Vec<Finding>) -> std::io::Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        let lines = lines_of(&findings)?;
        lock(&self.findings).extend(findings);
        lock(&self.log).write_all(&lines)
    }

    /// The destination did not take something.
    pub(super) fn refuse(&self, path: &[u8], message: impl ToString) {
        let path = String::from_utf8_lossy(path).into_owned();
        lock(&self.unwritten).push(Unwritten { path, message: message.to_string() });
    }

    /// The destination failed; gives whether everything has to end for it.
    pub(super) fn failed(&self, path: &[u8], errno: Errno) -> bool {
        let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
        let broken = matches!(errno, Errno::IO | Errno::ROFS | Errno::NODEV | Errno::NOTCONN | Errno::STALE);
        if !full && !broken {
            self.refuse(path, std::io::Error::from(errno));
            return false;
        }
        let text = std::io::Error::from(errno).to_string();
        let words = text.split(" (os error").next().unwrap_or_default().to_owned();
        let path = crate::report::shown(path);
        let failure = Failure::new(Exit::Store, format!("the destination failed at `{path}`: {words}"));
        let hint = if full {
            "Make room there, and go on with --resume."
        } else {
            "Go on with --resume when it works."
        };
        lock(&self.fatal).get_or_insert(failure.hint(hint));
        true
    }

    /// Why everything ended.
    pub(super) fn fatal(&self) -> Option<Failure> {
        lock(&self.fatal).clone()
    }

    /// What could not be read, in the order of paths, each once.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = lock(&self.findings).clone();
        findings.sort();
        findings.dedup();
        findings
    }

    /// What could not be written.
    pub(super) fn unwritten(&self) -> Vec<Unwritten> {
        let mut unwritten = lock(&self.unwritten).clone();
        unwritten.sort();
        unwritten.dedup();
        unwritten
    }

    /// Everything is copied: nobody will resume.
    pub(super) fn remove_log(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
