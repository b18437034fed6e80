//! What a check has found, and how it is told.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use strongroom_vault::{Damage, Error};

use super::facts::Fact;
use super::repair::Repair;
use super::sample::Sampled;
use super::scrub::Scrubbed;
use crate::failure::Exit;
use crate::report::{bytes, damage_kind, shown};
use crate::unlock::HeaderCopy;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// Plain path from the top of the vault; of the directory where the entry
    /// itself has no name that can be read. Empty for the top.
    path: String,
    /// Where the damage begins in the plain file, in bytes, if that is known.
    offset: Option<u64>,
    /// How many bytes of the plain file are lost, if that is known.
    bytes: Option<u64>,
    /// A stable name for what it is.
    kind: Cow<'static, str>,
    /// What it is.
    message: String,
    /// The stored path, where the plain one does not say it.
    stored: Option<String>,
}

impl Finding {
    /// An error that something at `path` gave.
    pub(crate) fn new(path: &[u8], error: &Error) -> Finding {
        Finding {
            path: String::from_utf8_lossy(path).into_owned(),
            stored: None,
            kind: damage_kind(error).into(),
            message: match error {
                Error::Damaged(damage) => damage.to_string(),
                other => other.to_string(),
            },
            offset: None,
            bytes: None,
        }
    }

    /// Damage of the name or record of the stored entry `stored` in the
    /// directory `path`.
    pub(crate) fn name(path: &[u8], stored: &[u8], what: &'static str) -> Finding {
        let finding = Finding::new(path, &Error::Damaged(Damage::Name(what)));
        Finding { stored: Some(String::from_utf8_lossy(stored).into_owned()), ..finding }
    }

    /// A second version of the entry at `path`, which a synchronisation program
    /// has left beside it.
    pub(super) fn conflict(path: &[u8], stored: &[u8], shown: &[u8]) -> Finding {
        let finding = Finding::name(path, stored, "");
        let shown = String::from_utf8_lossy(shown);
        let message = format!("a synchronisation program has left a second version of it, `{shown}`");
        Finding { kind: "conflict".into(), message, ..finding }
    }

    /// A stored file or directory that is there twice.
    pub(super) fn duplicate(path: &[u8], what: &str, other: &[u8]) -> Finding {
        let finding = Finding::new(path, &Error::Damaged(Damage::Home));
        let other = String::from_utf8_lossy(other);
        let message = format!("{what} `{other}` has the same id: one of them is a copy");
        Finding { kind: "duplicate".into(), message, ..finding }
    }

    /// A journal whose records do not all open.
    pub(crate) fn journal(damage: &Damage) -> Finding {
        let finding = Finding::new(b"", &Error::Damaged(damage.clone()));
        Finding { message: format!("{damage}; what it and later ones said is lost"), ..finding }
    }

    /// Adds the stored path, where the plain one does not say which it is.
    pub(crate) fn stored(self, stored: Option<Vec<u8>>) -> Finding {
        let stored = stored.map(|stored| String::from_utf8_lossy(&stored).into_owned());
        Finding { stored: stored.or(self.stored), ..self }
    }

    /// Adds which bytes of the plain file are lost.
    pub(crate) fn range(self, range: Option<Range<u64>>) -> Finding {
        let (offset, bytes) = range.map(|range| (range.start, range.end - range.start)).unzip();
        Finding { offset, bytes, ..self }
    }

    /// A damaged copy of the header.
    pub(super) fn header(copy: &HeaderCopy) -> Finding {
        Finding {
            path: String::new(),
            stored: Some(format!(".strongroom/header.{}", copy.index)),
            kind: "header".into(),
            message: copy.to_string(),
            offset: None,
            bytes: None,
        }
    }

    /// Whether it is damage, and not something that could not be read: a right
    /// that is missing, a fault of the disk, too few descriptors.
    pub(crate) fn is_damage(&self) -> bool {
        !matches!(&*self.kind, "store" | "engine")
    }

    /// Whether a repair may do something about it: contents have no copy.
    pub(super) fn is_structural(&self) -> bool {
        !matches!(&*self.kind, "blocks" | "page" | "length" | "store" | "engine")
    }

    /// Whether it tells of a damaged journal.
    pub(super) fn is_lost_journal(&self) -> bool {
        self.kind == "journal"
    }

    /// The plain path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What it is, and of what, for people.
    pub(crate) fn line(&self) -> String {
        let mut text = if self.path.is_empty() { "/".to_owned() } else { shown(self.path.as_bytes()) };
        text.push_str(": ");
        // It may name what the store has.
        let message = shown(self.message.as_bytes());
        match (self.offset, self.bytes) {
            (Some(offset), Some(bytes)) if bytes > 0 => {
                let _ = write!(text, "bytes {offset} to {} are lost", offset + bytes - 1);
                if self.kind != "blocks" {
                    let _ = write!(text, ": {message}");
                }
            }
            _ if !self.is_damage() => {
                let _ = write!(text, "could not be read: {message}");
            }
            _ => text.push_str(&message),
        }
        if let Some(stored) = &self.stored {
            let _ = write!(text, " (stored as {})", shown(stored.as_bytes()));
        }
        text
    }
}

/// Findings of each kind that are kept, and facts: a store can be given millions, and what
/// is found in it must not fill the memory.
const KEPT_MAX: usize = 100_000;

/// Gathers findings from all threads, and the facts behind them.
#[derive(Default)]
pub(super) struct Findings {
    damage: Mutex<Vec<Finding>>,
    unreadable: Mutex<Vec<Finding>>,
    /// Those that were not kept.
    beyond: AtomicU64,
    facts: Mutex<Option<Vec<Fact>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    /// Findings, with facts if a repair will ask for them.
    pub(super) fn new(with_facts: bool) -> Findings {
        Findings { facts: Mutex::new(with_facts.then(Vec::new)), ..Findings::default() }
    }

    /// Whether something could not be read.
    pub(super) fn has_unreadable(&self) -> bool {
        !lock(&self.unreadable).is_empty()
    }

    /// Notes a finding.
    pub(super) fn add(&self, finding: Finding) {
        let mut found = lock(if finding.is_damage() { &self.damage } else { &self.unreadable });
        if found.len() < KEPT_MAX {
            found.push(finding);
        } else {
            self.beyond.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many findings were not kept.
    pub(super) fn beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// Notes a fact. A repair goes on with those that are not kept when it is
    /// run again.
    pub(super) fn note(&self, fact: Fact) {
        if let Some(facts) = &mut *lock(&self.facts)
            && facts.len() < KEPT_MAX
        {
            facts.push(fact);
        }
    }

    /// The facts noted.
    pub(super) fn take_facts(&self) -> Vec<Fact> {
        lock(&self.facts).take().unwrap_or_default()
    }

    /// The damage that was found, and what could not be read, in the order of
    /// paths, each once.
    pub(super) fn take(&self) -> (Vec<Finding>, Vec<Finding>) {
        let taken = |found: &Mutex<Vec<Finding>>| {
            let mut found = std::mem::take(&mut *lock(found));
            found.sort();
            found.dedup();
            found
        };
        (taken(&self.damage), taken(&self.unreadable))
    }
}

/// Something stored that nothing needs any more, which harms nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Leftover {
    /// Stored path in the vault.
    pub(super) stored: String,
    /// What it is.
    pub(super) what: String,
}

/// What a crash left in a file, and what the next mount for writing will make
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Recovery {
    pub(super) path: String,
    pub(super) action: &'static str,
}

/// `strongroom.check/1`.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) schema: &'static str,
    pub(super) vault: String,
    pub(super) vault_id: String,
    pub(super) started: String,
    pub(super) duration_ns: u64,
    pub(super) threads: usize,
    /// The user ended it before everything was looked at.
    pub(super) interrupted: bool,
    /// What was looked at, where that is not the whole vault.
    pub(super) paths: Vec<String>,
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) others: u64,
    /// Plain bytes that were opened; holes do not count.
    pub(super) bytes: u64,
    /// What was drawn, where not everything was to be looked at.
    pub(super) sample: Option<Sampled>,
    /// How far it came, where a time was given.
    pub(super) scrub: Option<Scrubbed>,
    pub(super) damage: Vec<Finding>,
    /// What could not be read, of which nothing is known.
    pub(super) unreadable: Vec<Finding>,
    /// Findings beyond those that are listed.
    pub(super) not_listed: u64,
    pub(super) recovered: Vec<Recovery>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) header_copies: [HeaderCopy; 2],
    /// What was done about the damage, if that was asked for.
    pub(super) repair: Option<Repair>,
}

impl Document {
    /// Damage counts more than what could not be read, and that more than an
    /// interrupt.
    pub(super) fn exit(&self) -> Exit {
        match &self.repair {
            Some(repair) if repair.is_interrupted => Exit::RepairIncomplete,
            Some(repair) if repair.is_done => match repair.remaining.is_empty() && self.unreadable.is_empty()
            {
                true => Exit::Repaired,
                false => Exit::RepairIncomplete,
            },
            _ if !self.damage.is_empty() => Exit::Damage,
            _ if !self.unreadable.is_empty() => Exit::Store,
            _ if self.interrupted => Exit::Other,
            _ => Exit::Done,
        }
    }
}

/// The report for people.
pub(super) fn text(document: &Document) -> String {
    let mut text = String::new();
    for finding in document.damage.iter().chain(&document.unreadable) {
        let _ = writeln!(text, "{}", finding.line());
    }
    for recovery in &document.recovered {
        let _ = writeln!(text, "{}: after a crash, {}", shown(recovery.path.as_bytes()), recovery.action);
    }
    for leftover in &document.leftovers {
        let _ = writeln!(text, "{}: left over, {}", shown(leftover.stored.as_bytes()), leftover.what);
    }
    let Document { files, directories, symlinks, others, .. } = document;
    let _ = writeln!(
        text,
        "Verified {files} files, {directories} directories, {symlinks} symlinks, {others} others; {} in {:.1} s",
        bytes(document.bytes),
        document.duration_ns as f64 / 1e9
    );
    if let Some(sample) = &document.sample {
        let _ = writeln!(
            text,
            "A sample: all names and directories, and {} of {} groups of blocks, drawn at random. What else is \
             damaged, or was rolled back inside of a file, shows in a whole check alone.",
            sample.examined, sample.groups
        );
    }
    if let Some(scrub) = &document.scrub {
        text.push_str(&scrub.text(document.interrupted));
    }
    match document.damage.len() {
        0 if document.scrub.as_ref().is_some_and(|scrub| scrub.next.is_some() || scrub.resumed) => {
            text.push_str("No damage found in what was looked at.\n");
        }
        0 if document.sample.is_some() => text.push_str("No damage found in the sample.\n"),
        0 if !document.unreadable.is_empty() => text.push_str("No damage found in what could be read.\n"),
        0 => text.push_str("No damage found.\n"),
        1 => text.push_str("1 damaged place found.\n"),
        count => {
            let _ = writeln!(text, "{count} damaged places found.");
        }
    }
    match document.unreadable.len() {
        0 => {}
        1 => text.push_str("1 place could not be read, of which nothing is known. That is no damage.\n"),
        count => {
            let _ = writeln!(
                text,
                "{count} places could not be read, of which nothing is known. That is no damage."
            );
        }
    }
    if document.not_listed > 0 {
        let _ = writeln!(text, "{} more findings are not listed.", document.not_listed);
    }
    // Of a repair it says so itself.
    if document.interrupted && document.repair.is_none() {
        text.push_str("Interrupted: not everything was looked at.\n");
    }
    if let Some(repair) = &document.repair {
        text.push_str(&repair.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_full_of_damage_does_not_fill_the_memory() {
        let findings = Findings::new(true);
        for number in 0..KEPT_MAX + 7 {
            findings.add(Finding::name(b"", number.to_string().as_bytes(), "forged"));
            findings.note(Fact::DuplicateFile(strongroom_format::vault::FileId([0; 16])));
        }
        findings.add(Finding::new(b"f", &Error::Engine("lost")));
        assert_eq!((findings.beyond(), findings.has_unreadable()), (7, true));
        let (damage, unreadable) = findings.take();
        assert_eq!((damage.len(), unreadable.len()), (KEPT_MAX, 1));
        assert_eq!(findings.take_facts().len(), KEPT_MAX);
    }

    #[test]
    fn the_bytes_that_are_lost_are_told() {
        let error = Error::Damaged(Damage::Page("a page does not open"));
        let finding = Finding::new(b"a", &error);
        assert_eq!(finding.clone().range(None).line(), "a: a page does not open");
        let ranged = finding.range(Some(8192..12300));
        assert_eq!((ranged.offset, ranged.bytes), (Some(8192), Some(4108)));
        assert_eq!(ranged.line(), "a: bytes 8192 to 12299 are lost: a page does not open");
    }

    #[test]
    fn what_cannot_be_read_is_no_damage() {
        // EMFILE, ENFILE, ENOMEM, EINTR, EACCES, EIO.
        for errno in [24, 23, 12, 4, 13, 5] {
            let finding = Finding::new(b"a", &Error::Store(strongroom_store::Error::new(errno, "openat")));
            assert!(!finding.is_damage() && !finding.is_structural());
            assert!(
                finding.line().starts_with("a: could not be read: the store failed"),
                "{}",
                finding.line()
            );
        }
        assert!(Finding::new(b"a", &Error::Damaged(Damage::Home)).is_damage());
    }

    #[test]
    fn equal_findings_are_told_once_and_in_order() {
        let findings = Findings::default();
        let error = Error::Damaged(Damage::Home);
        for path in [&b"b"[..], b"a", b"b"] {
            findings.add(Finding::new(path, &error));
        }
        let paths: Vec<_> = findings.take().0.into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["a", "b"]);
    }
}
