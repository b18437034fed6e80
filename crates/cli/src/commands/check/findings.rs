//! What a check has found, and how it is told.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Namespace, Observer};
use strongroom_vault::{Damage, Error};

use crate::failure::Exit;
use crate::report::{bytes, damage_kind, shown};
use crate::unlock::HeaderCopy;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    /// Plain path from the top of the vault; of the directory where the entry
    /// itself has no name that can be read. Empty for the top.
    path: String,
    /// Where the damage begins in the plain file, in bytes, if that is known.
    offset: Option<u64>,
    /// How many bytes of the plain file are lost, if that is known.
    bytes: Option<u64>,
    /// A stable name for what it is.
    kind: &'static str,
    /// What it is.
    message: String,
    /// The stored path, where the plain one does not say it.
    stored: Option<String>,
}

impl Finding {
    /// An error that something at `path` gave.
    pub(super) fn new(path: &[u8], error: &Error) -> Finding {
        Finding {
            path: String::from_utf8_lossy(path).into_owned(),
            stored: None,
            kind: damage_kind(error),
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
    pub(super) fn name(path: &[u8], stored: &[u8], what: &'static str) -> Finding {
        let finding = Finding::new(path, &Error::Damaged(Damage::Name(what)));
        Finding { stored: Some(String::from_utf8_lossy(stored).into_owned()), ..finding }
    }

    /// A stored file that is there twice.
    pub(super) fn duplicate(path: &[u8], what: &str) -> Finding {
        let finding = Finding::new(path, &Error::Damaged(Damage::Home));
        let message = format!("another stored {what} has the same id: one of them is a copy");
        Finding { kind: "duplicate", message, ..finding }
    }

    /// Damage inside a file of `len` plain bytes.
    pub(super) fn content(
        path: &[u8],
        damage: &Damage,
        from: Option<u64>,
        size: BlockSize,
        len: u64,
    ) -> Finding {
        let finding = Finding::new(path, &Error::Damaged(damage.clone()));
        match damage {
            Damage::Blocks { blocks, offset, .. } => {
                let lost = blocks.saturating_mul(size.bytes()).min(len.saturating_sub(offset.0));
                Finding { offset: Some(offset.0), bytes: Some(lost), ..finding }
            }
            _ => Finding { offset: from, ..finding },
        }
    }

    /// A damaged copy of the header.
    pub(super) fn header(copy: &HeaderCopy) -> Finding {
        Finding {
            path: String::new(),
            stored: Some(format!(".strongroom/header.{}", copy.index)),
            kind: "header",
            message: copy.to_string(),
            offset: None,
            bytes: None,
        }
    }

    fn is_damage(&self) -> bool {
        !matches!(self.kind, "store" | "engine")
    }
}

/// Gathers findings from all threads, and what the namespace reports by the
/// way.
#[derive(Default)]
pub(super) struct Findings {
    found: Mutex<Vec<Finding>>,
    observed: Mutex<Vec<(u64, Error)>>,
}

impl Findings {
    /// Notes a finding.
    pub(super) fn add(&self, finding: Finding) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
    }

    /// Notes what the namespace has reported since the last call. To be called
    /// after each operation on a node that may report, before it is forgotten.
    pub(super) fn collect(&self, namespace: &Namespace) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        // What is missing is reported by the walk, which knows what it was.
        for (number, error) in observed.drain(..).filter(|(_, error)| !error.is_not_found()) {
            let path = namespace.path(number).unwrap_or_default();
            self.add(Finding::new(&path, &error));
        }
    }

    /// Everything found, in the order of paths, each once.
    pub(super) fn take(&self) -> Vec<Finding> {
        let mut found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        found.sort();
        found.dedup();
        found
    }
}

impl Observer for Findings {
    fn damaged(&self, number: u64, error: &Error) {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).push((number, error.clone()));
    }
}

/// Something stored that nothing needs any more, which harms nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Leftover {
    /// Stored path in the vault.
    pub(super) stored: String,
    /// What it is.
    pub(super) what: &'static str,
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
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) others: u64,
    /// Plain bytes that were opened; holes do not count.
    pub(super) bytes: u64,
    pub(super) damage: Vec<Finding>,
    pub(super) recovered: Vec<Recovery>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) header_copies: [HeaderCopy; 2],
}

impl Document {
    /// Damage counts more than what could not be read.
    pub(super) fn exit(&self) -> Exit {
        if self.damage.iter().any(Finding::is_damage) {
            Exit::Damage
        } else if self.damage.is_empty() {
            Exit::Done
        } else {
            Exit::Store
        }
    }
}

/// The report for people.
pub(super) fn text(document: &Document) -> String {
    let mut text = String::new();
    for finding in &document.damage {
        let path = if finding.path.is_empty() { "/".to_owned() } else { shown(finding.path.as_bytes()) };
        let _ = write!(text, "{path}: ");
        match (finding.offset, finding.bytes) {
            (Some(offset), Some(bytes)) => {
                let _ = write!(text, "bytes {offset} to {} are lost", offset + bytes.saturating_sub(1));
            }
            (Some(offset), None) => {
                let _ = write!(text, "{}, from byte {offset} on", finding.message);
            }
            _ => text.push_str(&finding.message),
        }
        if let Some(stored) = &finding.stored {
            let _ = write!(text, " (stored as {})", shown(stored.as_bytes()));
        }
        text.push('\n');
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
    match document.damage.len() {
        0 => text.push_str("No damage found.\n"),
        1 => text.push_str("1 damaged place found.\n"),
        count => {
            let _ = writeln!(text, "{count} damaged places found.");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_units::{BlockIndex, PlainOffset};

    #[test]
    fn the_bytes_of_the_last_block_end_with_the_file() {
        let damage = Damage::Blocks { first: BlockIndex(2), blocks: 2, offset: PlainOffset(8192) };
        let finding = Finding::content(b"a", &damage, None, BlockSize::MIN, 12300);
        assert_eq!((finding.offset, finding.bytes), (Some(8192), Some(4108)));
    }

    #[test]
    fn equal_findings_are_told_once_and_in_order() {
        let findings = Findings::default();
        let error = Error::Damaged(Damage::Home);
        for path in [&b"b"[..], b"a", b"b"] {
            findings.add(Finding::new(path, &error));
        }
        let paths: Vec<_> = findings.take().into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["a", "b"]);
    }
}
