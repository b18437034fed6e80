//! Results as the user gets them: text for people, or one JSON document whose
//! schema stands in `docs/json`.
//!
//! Every document has `schema`; bytes and nanoseconds are integers, times are
//! RFC 3339 in UTC, and paths that are not UTF-8 are spelled with U+FFFD.

use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use strongroom_vault::Error as VaultError;

use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;

/// How results are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// In JSON.
    pub(crate) json: bool,
}

impl Output {
    /// Prints the document, or the text that `text` makes of it.
    ///
    /// # Errors
    /// When standard output cannot be written to.
    pub(crate) fn print<T: Serialize>(self, document: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        self.print_at_width(document, |document, _| text(document))
    }

    /// As [`Output::print`], of text that is made for where it is shown: it
    /// has a table.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub(crate) fn print_at_width<T: Serialize>(
        self,
        document: &T,
        text: impl FnOnce(&T, Display) -> String,
    ) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let shown = if self.json {
            let mut json = serde_json::to_string_pretty(document).expect("documents have text keys");
            json.push('\n');
            json
        } else {
            let display = Display::of(&out);
            display.fit(&text(document, display)).into_owned()
        };
        let written = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| Failure::new(Exit::Other, format!("standard output: {error}")))
    }

    /// Tells of something that does not stop the command. In JSON it belongs
    /// into the document.
    pub(crate) fn warn(self, text: &str) {
        if !self.json {
            tell(&format!("strongroom: warning: {text}"));
        }
    }
}

/// Shows a message on standard error.
pub(crate) fn tell(text: &str) {
    let error = std::io::stderr().lock();
    let text = Display::of(&error).fit(text).into_owned();
    // Where nobody can be told, nothing is lost by going on.
    let _ = writeln!({ error }, "{text}");
}

/// RFC 3339 of a time in seconds since 1970.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let timestamp = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    timestamp.unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Seconds since 1970, by the system's clock.
pub(crate) fn now() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0)
}

/// Bytes with a unit, for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| count >> (10 * (unit + 1)) == 0).unwrap_or(UNITS.len() - 1);
    let whole = 1u64 << (10 * unit);
    if count.is_multiple_of(whole) {
        format!("{} {}", count / whole, UNITS[unit])
    } else {
        // Shown with one decimal, far above the precision of the quotient.
        format!("{:.1} {}", count as f64 / whole as f64, UNITS[unit])
    }
}

/// A path or name from a vault, safe for a terminal: control characters are
/// escaped, since whoever made the name chose them.
pub(crate) fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for c in String::from_utf8_lossy(path).chars() {
        if c.is_control() {
            let _ = write!(text, "{}", c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// The plain path of something in a mount, as [`shown`], where it has a known
/// name; the top directory has an empty one.
pub(crate) fn shown_place(path: Option<&[u8]>) -> String {
    match path {
        None => "(no known name)".to_owned(),
        Some([]) => "the top directory".to_owned(),
        Some(path) => shown(path),
    }
}

/// A stable name for what kind of error something in a vault is.
pub(crate) fn damage_kind(error: &VaultError) -> &'static str {
    use strongroom_vault::{Damage, Staleness};
    match error {
        VaultError::Damaged(Damage::Length { .. }) => "length",
        VaultError::Damaged(Damage::Page(_)) => "page",
        VaultError::Damaged(Damage::Blocks { .. }) => "blocks",
        VaultError::Damaged(Damage::Home) => "home",
        VaultError::Damaged(Damage::Unfinished) => "unfinished",
        VaultError::Damaged(Damage::Name(_)) => "name",
        VaultError::Damaged(Damage::Journal(_) | Damage::Journaled) => "journal",
        VaultError::Damaged(Damage::Stale(Staleness::Vault)) => "vault",
        VaultError::Damaged(Damage::Stale(Staleness::RolledBack)) => "rolled-back",
        VaultError::Damaged(Damage::Stale(Staleness::Missing)) => "missing",
        VaultError::Damaged(Damage::Stale(Staleness::Unrecorded)) => "unrecorded",
        VaultError::Damaged(Damage::Stale(Staleness::Exchanged)) => "exchanged",
        VaultError::Damaged(Damage::Record(_) | Damage::RecordMissing) => "freshness",
        VaultError::Store(_) | VaultError::Freshness(_) | VaultError::Refused(_) => "store",
        VaultError::Entropy | VaultError::Engine(_) | VaultError::TakenOver => "engine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000), "2023-11-14T22:13:20Z");
        assert!(rfc3339(u64::MAX).starts_with("9999-"));
    }

    #[test]
    fn bytes_have_the_largest_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(shown("a\u{1b}[2Jä\n\u{9b}".as_bytes()), "a\\u{1b}[2Jä\\n\\u{9b}");
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
