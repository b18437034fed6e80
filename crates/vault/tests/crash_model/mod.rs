//! The model behind the crash tests: what a user did, what was promised to be
//! durable, and which states of names and contents a power cut may leave.

mod bytes;
mod explain;
mod found;
mod history;
pub(crate) mod removals;
mod tree;

use std::collections::HashSet;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_vault::{OpenOptions, Rules, Vault};

use crate::support::{self, Rng, create_file, options, read, write};
use found::{Depth, Found};
use history::is_unruly;
pub(crate) use history::{Trial, masked};

/// Choices of what a cut keeps: enough to repeat each pattern with other
/// details.
const CHOICES: u64 = 1 << 12;

/// Images that are opened to read before anything else.
const READ_FIRST_ONE_IN: u64 = 8;

/// Images of a history on the unruly engine that are opened through it too.
const UNRULY_ONE_IN: u64 = 16;

/// A history with its cuts.
pub(crate) struct Campaign {
    trial: Trial,
    seed: u64,
    cuts: Vec<usize>,
    calm: Arc<dyn Engine>,
}

/// One image of a campaign: everything that is random about it comes from
/// the history's seed and its number.
struct Attempt {
    number: u64,
    cut: usize,
    choice: u64,
    rng: Rng,
}

impl Campaign {
    pub(crate) fn new(seed: u64, rules: Rules) -> Campaign {
        let mut trial = Trial::new(seed, rules);
        trial.play();
        trial.abandon();
        let end = trial.store.position();
        // Before and after every barrier, and as many at random moments.
        let barriers = trial.store.barriers();
        let mut cuts: Vec<usize> =
            barriers.into_iter().flat_map(|at| [at, at + 1]).filter(|&at| at <= end).collect();
        let mut rng = Rng(seed ^ 0xc07);
        cuts.extend((0..cuts.len()).map(|_| rng.below(end as u64 + 1) as usize));
        for at in (1..cuts.len()).rev() {
            cuts.swap(at, rng.below(at as u64 + 1) as usize);
        }
        Campaign { trial, seed, cuts, calm: support::engine() }
    }

    fn attempt(&self, number: u64) -> Attempt {
        let mut rng = Rng(self.seed.wrapping_mul(0x9e37_79b9) ^ number << 20);
        let cut = self.cuts[(number % self.cuts.len() as u64) as usize];
        Attempt { number, cut, choice: rng.below(CHOICES), rng }
    }

    /// Checks images until `limit` of them were new, or fewer than one in
    /// four still is; calls `checked` after each.
    ///
    /// # Errors
    /// What is wrong with an image, with its number and the history before.
    pub(crate) fn run(&self, limit: usize, mut checked: impl FnMut()) -> Result<usize, String> {
        let mut seen: HashSet<u128> = HashSet::new();
        for number in 0..4 * limit as u64 {
            if seen.len() >= limit {
                break;
            }
            let attempt = self.attempt(number);
            let image = self.trial.store.image(attempt.cut, attempt.choice);
            if seen.insert(image.fingerprint()) {
                self.check(image, attempt)?;
                checked();
            }
        }
        self.nonces()?;
        Ok(seen.len())
    }

    /// That no nonce was used twice, in the history, in its images and in what
    /// was done with them.
    fn nonces(&self) -> Result<(), String> {
        let masks = self.trial.masks.as_ref();
        let verdict = masks.map_or(Ok(()), |masks| masks.spent.verdict());
        verdict.map_err(|fault| format!("history {}, its images and what followed them: {fault}", self.seed))
    }

    /// Blocks that were sealed and opened with a mask.
    pub(crate) fn masked(&self) -> [usize; 2] {
        self.trial.masks.as_ref().map_or([0; 2], |masks| masks.spent.masked())
    }

    /// Checks the one image of this number.
    pub(crate) fn run_one(&self, number: u64) -> Result<(), String> {
        let attempt = self.attempt(number);
        let image = self.trial.store.image(attempt.cut, attempt.choice);
        self.check(image, attempt)?;
        self.nonces()
    }

    fn check(&self, image: MemoryStore, mut attempt: Attempt) -> Result<(), String> {
        let unruly = is_unruly(self.seed) && attempt.number.is_multiple_of(UNRULY_ONE_IN);
        let engine = if unruly || self.trial.masks.is_some() { &self.trial.engine } else { &self.calm };
        let read_first = attempt.number.is_multiple_of(READ_FIRST_ONE_IN);
        let opened = Image { trial: &self.trial, engine, cut: attempt.cut, read_first };
        let outcome = match attempt.rng.below(4) {
            0 => opened
                .cut_recovery(image, &mut attempt.rng)
                .and_then(|image| opened.check(image))
                .map_err(|fault| format!("after a cut recovery: {fault}")),
            _ => opened.check(image),
        };
        outcome.map_err(|fault| {
            let history = self.trial.history_before(attempt.cut);
            let Attempt { number, cut, choice, .. } = attempt;
            format!(
                "image {number} of history {} (cut {cut}, choice {choice}): {fault}\n{history}",
                self.seed
            )
        })
    }
}

/// What is demanded of an image.
struct Image<'a> {
    trial: &'a Trial,
    engine: &'a Arc<dyn Engine>,
    cut: usize,
    read_first: bool,
}

impl Image<'_> {
    fn check(&self, image: MemoryStore) -> Result<(), String> {
        let store: Arc<dyn Store> = Arc::new(image);
        let before = self.read_only(&store)?;
        let vault = self.open(&store, true, Rules::STRICT)?;
        let found = Found::read(&vault, self.trial.size, Depth::Read)?;
        explain::explain(self.trial, &found, self.cut)?;
        if before.is_some_and(|before| before != found) {
            return Err("to read, the vault showed something else".into());
        }
        use_it(&vault, self.trial.masks.is_some())?;
        vault.settle().map_err(|error| format!("settling: {error}"))?;
        vault.close().map_err(|error| format!("closing: {error}"))?;
        let vault = self.open(&store, false, Rules::STRICT)?;
        if vault.is_settling() {
            return Err("a clean vault still lists a crash".into());
        }
        let again = Found::read(&vault, self.trial.size, Depth::Verify)
            .map_err(|fault| format!("once settled: {fault}"))?;
        if again.without(USED)? == found {
            Ok(())
        } else {
            Err("the second opening shows something else".into())
        }
    }

    /// What the vault shows when it is opened to read.
    fn read_only(&self, store: &Arc<dyn Store>) -> Result<Option<Found>, String> {
        if !self.read_first {
            return Ok(None);
        }
        let vault = self.open(store, false, Rules::STRICT)?;
        let found = Found::read(&vault, self.trial.size, Depth::Read);
        found.map(Some).map_err(|fault| format!("opened to read: {fault}"))
    }

    /// Cuts the recovery itself, at a random moment.
    fn cut_recovery(&self, image: MemoryStore, rng: &mut Rng) -> Result<MemoryStore, String> {
        let store = Arc::new(FaultyStore::new(image));
        let vault = self.open(&(Arc::clone(&store) as Arc<dyn Store>), true, self.trial.options.rules)?;
        if rng.below(2) == 0 {
            vault.settle().map_err(|error| format!("settling: {error}"))?;
        }
        vault.abandon();
        let cut = rng.below(store.position() as u64 + 1) as usize;
        Ok(store.image(cut, rng.below(CHOICES)))
    }

    fn open(&self, store: &Arc<dyn Store>, writable: bool, rules: Rules) -> Result<Vault, String> {
        let options = OpenOptions { journal_len: 1 << 20, writable, rules, ..options() };
        support::open_with(Arc::clone(store), Arc::clone(self.engine), &options)
            .map_err(|error| format!("opening the vault: {error}"))
    }
}

const USED: &str = "used";

/// The vault is writable at once, and with masks so much is written that it has
/// some.
fn use_it(vault: &Vault, with_masks: bool) -> Result<(), String> {
    let (entry, content) = create_file(vault.namespace(), USED);
    write(&content, 0, b"after the crash").map_err(|error| format!("writing: {error}"))?;
    if with_masks {
        for offset in (0..WITH_MASKS).step_by(PIECE) {
            let piece = [1 + (offset / PIECE) as u8; PIECE];
            write(&content, offset as u64, &piece).map_err(|error| format!("writing: {error}"))?;
            let found = read(&content, offset as u64, PIECE).map_err(|error| format!("reading: {error}"))?;
            if found != piece {
                return Err("what was written with masks reads as something else".into());
            }
            masked::make_time();
        }
    }
    content.sync().map_err(|error| format!("syncing: {error}"))?;
    drop(content);
    vault.namespace().release(entry.number);
    vault.namespace().forget(entry.number, 1);
    Ok(())
}

/// Bytes that are written after a crash, with masks.
const WITH_MASKS: usize = 8 * PIECE;
const PIECE: usize = 64 << 10;
