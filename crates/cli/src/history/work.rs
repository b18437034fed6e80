//! How long trying a secret may take before somebody is asked.
//!
//! The costs of key slots stand in a header that is not authentic before a
//! secret has opened it: whoever keeps the store could have every mount compute
//! for minutes. What an authentic header of the vault has cost on this machine
//! before needs no question.

use std::path::Path;
use std::time::Duration;

use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::SlotKind;
use strongroom_keys::kdf::time_of;
use strongroom_keys::trial_work;

use super::{History, UNASKED};
use crate::failure::{Exit, Failure, Result};
use crate::secrets::{confirm, has_terminal};

/// What nobody is asked about.
const FREE: Duration = Duration::from_secs(2);

/// What is spent where nobody can be asked: a slow machine may well need more
/// than [`FREE`] for the slot that a fast one has made.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Work that takes less than [`FREE`] on anything, so that nothing needs to be
/// measured: Argon2id's at 32 MiB per second.
const ALWAYS_FREE: u64 = 64 << 10;

/// The most that one secret can cost at this header.
pub(super) fn of(header: &Header) -> u64 {
    let headers = std::slice::from_ref(header);
    SlotKind::ALL.into_iter().map(|kind| trial_work(headers, kind)).max().unwrap_or(0)
}

impl History {
    /// Asks, when trying a secret of `kind` at these headers, of which nothing
    /// is authenticated yet, would take longer than it ever did at this vault.
    ///
    /// # Errors
    /// Usage when the answer is no, or nobody can be asked and it would take
    /// very long.
    pub(crate) fn admit_work(&self, path: &Path, headers: &[Header], kind: SlotKind) -> Result<()> {
        let work = trial_work(headers, kind);
        let known =
            headers.iter().filter_map(|header| self.known(header.vault)).map(|known| known.work).max();
        if work <= known.unwrap_or(0).max(ALWAYS_FREE) || self.is_unasked() {
            return Ok(());
        }
        let time = time_of(work).map_err(|refused| Failure::new(Exit::Unsupported, refused.to_string()))?;
        let limit = if has_terminal() { FREE } else { UNATTENDED };
        if time <= limit {
            return Ok(());
        }
        let said = format!(
            "its key slots ask for so much that trying a {kind} may take {:.0} seconds here",
            time.as_secs_f64().ceil()
        );
        if has_terminal() && confirm(&format!("{}: {said}. Go on?", path.display()), UNASKED)? {
            return Ok(());
        }
        Err(Failure::usage(said).at(path).hint(format!(
            "If the vault did not cost so much before, its header was changed: see `strongroom header restore --help`. \
             {UNASKED}"
        )))
    }
}
