//! The model-based adversary: what somebody who holds the store, and every
//! state that it ever was in, may achieve without a key. The definition stands
//! in docs/threat-model.md; [`facts`] demands it.

mod acts;
#[path = "../crash_model/bytes.rs"]
#[allow(dead_code, reason = "the crash tests use the rest")]
mod bytes;
mod compose;
mod facts;
mod history;
mod look;
mod stored;
mod watchdog;

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_keys::unlock_copies;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_vault::{Error, OpenOptions, Rules, Vault, read_header_copies};

pub(crate) use compose::Attack;
use compose::Composition;
pub(crate) use facts::Weakness;
use history::History;
use look::Seen;
pub(crate) use watchdog::Watchdog;

use crate::support::{Rng, credential};

/// What the compositions came to.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) compositions: u64,
    /// Vaults that did not open at all.
    pub(crate) closed: u64,
    /// Entries that were read, and that were an error.
    pub(crate) read: u64,
    pub(crate) refused: u64,
    pub(crate) attacks: BTreeMap<Attack, u64>,
    pub(crate) weak: BTreeMap<Weakness, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.compositions += other.compositions;
        self.closed += other.closed;
        self.read += other.read;
        self.refused += other.refused;
        for (&attack, count) in &other.attacks {
            *self.attacks.entry(attack).or_default() += count;
        }
        for (&weakness, count) in &other.weak {
            *self.weak.entry(weakness).or_default() += count;
        }
    }
}

/// A history with the attacks that are made of it.
pub(crate) struct Campaign {
    seed: u64,
    history: History,
}

impl Campaign {
    /// Plays the history of a seed.
    ///
    /// # Errors
    /// When a state that nobody touched does not read as what was written.
    pub(crate) fn new(seed: u64, rules: Rules) -> Result<Campaign, String> {
        let history = History::play(seed, rules).map_err(|fault| format!("history {seed}: {fault}"))?;
        Ok(Campaign { seed, history })
    }

    /// Makes and judges the composition of a number.
    ///
    /// # Errors
    /// What the attacked vault shows that never was.
    pub(crate) fn run(&self, number: u64, counts: &mut Counts) -> Result<(), String> {
        let mut rng = Rng(self.seed.wrapping_mul(0x9e37_79b9) ^ number << 24);
        let made = compose::compose(&self.history, &mut rng);
        counts.compositions += 1;
        for &attack in &made.attacks {
            *counts.attacks.entry(attack).or_default() += 1;
        }
        self.judge(&made, &mut rng, counts).map_err(|fault| {
            format!("composition {number} of history {}: {fault}\n  {}", self.seed, made.told.join("\n  "))
        })
    }

    fn judge(&self, made: &Composition, rng: &mut Rng, counts: &mut Counts) -> Result<(), String> {
        let to_read = self.options(false);
        let Some(vault) = self.open(&made.store.snapshot(), &to_read)? else {
            counts.closed += 1;
            return Ok(());
        };
        let hold = rng.below(2) == 0;
        let named = look::by_names(&vault, self.history.size, hold)?;
        self.hold_against("read", &named, made, counts)?;
        drop(vault);
        let vault = self.open(&made.store.snapshot(), &to_read)?.ok_or("it opens once only")?;
        let checked = look::by_check(&vault, self.history.size)?;
        self.hold_against("checked", &checked, made, counts)?;
        agree(&named, &checked)?;
        drop(vault);
        self.recover(made, counts)
    }

    /// Lets the vault recover by writing, settle and end, and looks again.
    fn recover(&self, made: &Composition, counts: &mut Counts) -> Result<(), String> {
        let store = &made.store;
        let Some(vault) = self.open(store, &self.options(true))? else { return Ok(()) };
        let written = look::by_names(&vault, self.history.size, false)?;
        self.hold_against("recovered", &written, made, counts)?;
        acts::on_errors(&vault)?;
        let ended = vault.settle().and_then(|()| vault.close());
        vault.abandon();
        drop(vault);
        if let Err(error) = ended
            && !matches!(error, Error::Damaged(_) | Error::Refused(_) | Error::Store(_))
        {
            return Err(format!("settling: {error}"));
        }
        let Some(vault) = self.open(store, &self.options(false))? else {
            return Err("it does not open after a recovery".into());
        };
        let after = look::by_names(&vault, self.history.size, false)?;
        self.hold_against("read after a recovery", &after, made, counts)
    }

    fn hold_against(
        &self,
        when: &str,
        seen: &Seen,
        made: &Composition,
        counts: &mut Counts,
    ) -> Result<(), String> {
        counts.read += seen.sightings.len() as u64;
        counts.refused += seen.refused;
        self.unchanged(seen, made).map_err(|fault| format!("{when}: {fault}"))?;
        self.history.facts.judge(seen, &mut counts.weak).map_err(|fault| format!("{when}: {fault}"))
    }

    /// A header or journal of the past, put back into a vault that had ended
    /// cleanly, takes away at most: what is newer than the journal stays.
    fn unchanged(&self, seen: &Seen, made: &Composition) -> Result<(), String> {
        let base = &self.history.states[made.base];
        let Some(shows) = base.shows.as_ref().filter(|_| made.is_past_journal) else { return Ok(()) };
        let is_known =
            |sighting: &&look::Sighting| shows.contains(&(sighting.place.clone(), sighting.what.clone()));
        match seen.sightings.iter().find(|sighting| !is_known(sighting)) {
            Some(sighting) => Err(format!("a journal that was put back has changed {sighting:x?}")),
            None => Ok(()),
        }
    }

    fn options(&self, writable: bool) -> OpenOptions {
        OpenOptions { writable, ..self.history.options.clone() }
    }

    /// Opens an attacked store; `None` when it is refused.
    fn open(&self, store: &MemoryStore, options: &OpenOptions) -> Result<Option<Vault>, String> {
        let Ok(copies) = read_header_copies(store) else { return Ok(None) };
        let copies: Vec<&[u8]> = copies.iter().flatten().map(Vec::as_slice).collect();
        let Ok((header, root)) = unlock_copies(&copies, &credential()) else { return Ok(None) };
        let store: Arc<dyn Store> = Arc::new(store.clone());
        let engine = Arc::clone(&self.history.engine);
        match Vault::open(store, engine, header, root, options) {
            Ok(vault) => Ok(Some(vault)),
            Err(Error::Damaged(_) | Error::Store(_) | Error::Refused(_)) => Ok(None),
            Err(error) => Err(format!("opening: {error}")),
        }
    }
}

/// What reads is what `check` calls sound, and no more.
fn agree(named: &Seen, checked: &Seen) -> Result<(), String> {
    let errors = &named.errors;
    let (named, checked) = (named.files(), checked.files());
    if let Some(file) = named.iter().find(|file| !checked.contains(file)) {
        return Err(format!("it reads whole, and `check` does not say so: {file:?}"));
    }
    match checked.iter().find(|file| !named.contains(file)) {
        Some(file) => Err(format!("`check` finds nothing, and it does not read: {file:?}, {errors:?}")),
        None => Ok(()),
    }
}
