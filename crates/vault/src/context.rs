//! What every part of a mounted vault needs: the store, the sealer, the
//! journal, and what waits for a commit or a barrier.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use strongroom_engine::{Buffer, SessionId};
use strongroom_format::vault::header::Header;
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_format::vault::{FileId, Geometry, Suite, WriteSession};
use strongroom_store::{InodeId, Store};

use crate::barriers::Barriers;
use crate::crashed::Crashed;
use crate::error::{Error, Result, errno};
use crate::fence::Fenced;
use crate::follow::Follower;
use crate::freshness::{Freshness, Version};
use crate::header_file::HeaderWitness;
use crate::journal::Journal;
use crate::journal::replay::Replayed;
use crate::losses::Untold;
use crate::page::{Image, PageReader};
use crate::rules::{Rule, Rules};
use crate::sealer::Sealer;
use crate::waiting::Waiting;

/// Files that may wait for a commit before one is begun early.
const PENDING_MAX: usize = 1000;

/// What a recovery has settled in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recovered {
    /// Replayed from the journal.
    Replayed,
    /// Never made durable: it is there no more, and what was stored of it, if
    /// anything, is kept in `.strongroom/aside/`.
    Removed,
    /// Cut to what was durable.
    Trimmed,
    /// Newer than what the journal says of it, and left as it is: the journal
    /// is an old one that somebody has put back.
    Newer,
}

/// Figures of a mounted vault, since the mount.
#[derive(Debug, Default)]
pub struct Counters {
    /// Errors of the store that no caller was there to be told of.
    pub background_errors: AtomicU64,
    /// Commits, of one file or several.
    pub commits: AtomicU64,
    /// Checkpoints.
    pub checkpoints: AtomicU64,
}

/// Shared by all parts of a mounted vault.
pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) geometry: Geometry,
    pub(crate) suite: Suite,
    /// Of new files.
    pub(crate) generation: u32,
    pub(crate) sealer: Sealer,
    pub(crate) journal: Option<Journal>,
    pub(crate) freshness: Option<Freshness>,
    pub(crate) fenced: Fenced,
    /// Is told of each header that is durable.
    pub(crate) witness: Option<HeaderWitness>,
    /// Of a vault that is opened to be read while somebody may write to it.
    pub(crate) follower: Option<Follower>,
    pub(crate) rules: Rules,
    pub(crate) writable: bool,
    /// A thread commits; otherwise whoever needs room does.
    pub(crate) background: bool,
    pub(crate) waiting: Waiting,
    pub(crate) untold: Untold,
    pub(crate) counters: Counters,
    pub(crate) wakeup: Wakeup,
    pub(crate) barriers: Barriers,
    pub(crate) crashed: Arc<Crashed>,
    /// What journals say of files, on a read-only mount.
    pub(crate) replayed: HashMap<FileId, Arc<Replayed>>,
    pub(crate) recovered: Mutex<BTreeMap<InodeId, Recovered>>,
    pub(crate) last_error: Mutex<Option<String>>,
}

/// How the committer is woken before its time.
#[derive(Default)]
pub(crate) struct Wakeup {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn wake(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until woken, or for `limit`; true when woken.
    pub(crate) fn wait(&self, limit: std::time::Duration) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut wanted, _) = self
            .changed
            .wait_timeout_while(wanted, limit, |wanted| !*wanted)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *wanted)
    }
}

impl Context {
    /// # Errors
    /// `EROFS` on a read-only mount; that another machine has the vault.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.fenced.check_known()?;
        if self.writable { Ok(()) } else { Err(Error::Refused(errno::EROFS)) }
    }

    /// For opening pages.
    pub(crate) fn pages(&self) -> PageReader<'_> {
        PageReader { sealer: &self.sealer, suite: self.suite, geometry: self.geometry }
    }

    /// A barrier of the whole store.
    ///
    /// # Errors
    /// What the store reports; nothing may be assumed durable then.
    pub(crate) fn sync_store(&self) -> Result<()> {
        let moment = self.freshness.as_ref().map(Freshness::now);
        let passed = || {
            self.store.sync_all()?;
            if let (Some(freshness), Some(moment)) = (&self.freshness, moment) {
                freshness.barrier_passed(moment);
            }
            Ok(())
        };
        self.barriers.make(passed, |error| self.note_losses(error))?;
        self.waiting.forget_moved(&self.barriers);
        Ok(())
    }

    /// A barrier of the store has failed: what has been released since the last one
    /// may be lost, and the store tells of it once.
    fn note_losses(&self, error: &Error) {
        for inode in self.waiting.note_lost_releases(error, &self.barriers) {
            self.untold.note(inode, error);
        }
        if let Some(freshness) = &self.freshness {
            freshness.barrier_failed();
        }
    }

    /// The vault header has been written, durably unless a test plants a fault.
    pub(crate) fn note_header(&self, header: &Header) {
        if let Some(freshness) = &self.freshness {
            freshness.note_header(header.sequence);
        }
        if let Some(witness) = &self.witness
            && self.rules.keeps(Rule::CopyBeforeOther)
        {
            witness(header);
        }
    }

    /// Compares a file's header page, as it was read, with the freshness file.
    ///
    /// # Errors
    /// Damage when the page is older.
    pub(crate) fn check_version(&self, file: FileId, header: &Image) -> Result<()> {
        let found = Version { sequence: header.sequence, tag: header.tag };
        self.freshness.as_ref().map_or(Ok(()), |freshness| freshness.check_version(file, found))
    }

    /// Gives promised slots back.
    pub(crate) fn release(&self, slots: u32) {
        if let Some(journal) = &self.journal {
            journal.release(slots);
        }
    }

    /// Begins a commit early when many files wait for one.
    pub(crate) fn wake_if_many(&self) {
        if self.waiting.count() >= PENDING_MAX {
            self.wakeup.wake();
        }
    }

    /// An error that no caller was there to be told of.
    pub(crate) fn note_error(&self, what: &str, error: &Error) {
        self.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{what}: {error}"));
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether any session is listed that did not end cleanly.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashed.any()
    }

    /// The session that the vault header lists, by which a later mount knows
    /// what a crash of this one explains. Nonces may be of a later one.
    pub(crate) fn listed_session(&self) -> WriteSession {
        let own = || WriteSession(self.sealer.nonces().session().0);
        self.journal.as_ref().map_or_else(own, Journal::session)
    }

    /// Whether `session` did not end cleanly and is not settled yet.
    pub(crate) fn is_crashed(&self, session: WriteSession) -> bool {
        self.has_crashed() && self.crashed.all().contains(&session)
    }

    /// Whether a page that was being written in place by `session`, or one
    /// that it renewed (section 3 of the format), may have been torn.
    pub(crate) fn may_have_torn(&self, session: WriteSession) -> bool {
        let kin = |id: &WriteSession| id.0[..SessionId::KIN_LEN] == session.0[..SessionId::KIN_LEN];
        let is_live = |id: WriteSession| self.follower.as_ref().is_some_and(|follower| follower.is_live(id));
        self.has_crashed() && self.crashed.all().into_iter().any(|id| kin(&id) && !is_live(id))
    }

    /// Everything is settled: from now on a crash explains nothing.
    pub(crate) fn all_settled(&self) {
        self.crashed.set(Vec::new());
    }

    /// Takes in what a writer has committed by now.
    ///
    /// # Errors
    /// As [`Follower::look`].
    pub(crate) fn look(&self) -> Result<()> {
        self.follower.as_ref().map_or(Ok(()), |follower| follower.look(self.pages()))
    }

    /// Whether somebody writes to the vault while it is read here.
    pub(crate) fn has_writer(&self) -> bool {
        self.follower.as_ref().is_some_and(Follower::has_writer)
    }

    /// Whether what is not whole of `session` may have been torn by a crash,
    /// and is not only being written now.
    pub(crate) fn may_be_torn(&self, session: WriteSession) -> bool {
        self.is_crashed(session) && !self.follower.as_ref().is_some_and(|follower| follower.is_live(session))
    }

    /// What a recovery would settle beside a writer is what that has not
    /// committed yet.
    pub(crate) fn note_recovered(&self, inode: InodeId, what: Recovered) {
        if self.has_writer() {
            return;
        }
        self.recovered.lock().unwrap_or_else(PoisonError::into_inner).insert(inode, what);
    }

    pub(crate) fn recovered(&self) -> BTreeMap<InodeId, Recovered> {
        self.recovered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a journal says of the file whose header page this is. Read-only
    /// mounts alone keep such images; a writable mount has brought them home.
    pub(crate) fn replayed(&self, page: &Buffer) -> Option<Arc<Replayed>> {
        let clear: &[u8; CLEAR_LEN] = page[..CLEAR_LEN].try_into().expect("a page has a clear part");
        let header = || PageHeader::decode(clear).ok();
        match &self.follower {
            Some(follower) => follower.replayed(header()?.file),
            None if self.replayed.is_empty() => None,
            None => self.replayed.get(&header()?.file).cloned(),
        }
    }
}
