//! Committing everything that is pending, and emptying the journal.

use crate::sync::atomic::Ordering;
use std::sync::Arc;

use strongroom_format::vault::DirectoryId;

use super::{Content, Contents, Extent, checkpoint_all, commit_all};
use crate::error::Result;
use crate::freshness::Freshness;
use crate::journal::{Journal, Promise};
use crate::rules::Rule;

/// Files whose commits share barriers, and whose commit locks are held at once.
const ROUND: usize = 256;

impl Contents {
    /// Commits what is pending, and empties a journal segment when it is time.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn round(&self) -> Result<()> {
        let context = &self.context;
        let outcome = match context.journal.as_ref().filter(|journal| journal.wants_rotation()) {
            Some(journal) => self.rotate(journal),
            None => self.commit_pending(),
        };
        // That the freshness file cannot be written to stops no commit: what it
        // says is older then.
        if let Some(Err(error)) = context.freshness.as_ref().map(Freshness::flush) {
            context.note_error("recording in the freshness file", &error);
        }
        outcome
    }

    /// Commits everything that is pending.
    ///
    /// # Errors
    /// What the store reported; what failed stays pending.
    pub(crate) fn commit_pending(&self) -> Result<()> {
        let (context, waiting) = (&self.context, &self.context.waiting);
        let unsynced = waiting.unsynced();
        let files = !unsynced.is_empty() && context.rules.keeps(Rule::NewFileBeforeReply);
        let specials = context.rules.keeps(Rule::SpecialBeforeReply)
            && waiting.specials().any_made(None, &context.barriers);
        if files || specials || waiting.stale_homes().count() > 0 {
            context.sync_store()?;
        }
        // Held for as long as it takes: a rename back waits, and makes it anew.
        waiting.stale_homes().remove_covered(&context.barriers);
        waiting.synced(&unsynced);
        let pending = self.pending();
        let outcome = self.commit(&pending);
        self.retire(&pending);
        outcome
    }

    /// Commits these files in rounds; a failure of one round does not keep the
    /// others from theirs.
    fn commit(&self, contents: &[Arc<Content>]) -> Result<()> {
        let mut outcome = Ok(());
        for round in contents.chunks(ROUND) {
            let round: Vec<&Content> = round.iter().map(|content| &**content).collect();
            if let Err(error) = commit_all(&self.context, &round, Extent::Data) {
                outcome = Err(error);
            }
            self.context.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn retire(&self, contents: &[Arc<Content>]) {
        for content in contents {
            self.table.retire(content);
        }
    }

    /// Lets the other journal segment take over and empties the full one. One does
    /// at a time: whoever came late would ready a segment that is in use again.
    fn rotate(&self, journal: &Journal) -> Result<()> {
        let _alone = journal.alone();
        match journal.rotate() {
            Some(full) => self.empty(journal, full),
            None => self.commit_pending(),
        }
    }

    /// Brings everything home that the segment's records or images may still be
    /// needed for, and readies it for its next use.
    fn empty(&self, journal: &Journal, segment: u8) -> Result<()> {
        let context = &self.context;
        // Until this succeeds the segment stays as it is, and the other fills up.
        loop {
            let pending = self.pending();
            let committed = self.commit(&pending);
            let through = journal.end();
            self.make_removals_durable()?;
            let live = self.all();
            checkpoint_all(context, &live, Rule::HomeBeforeReuse)?;
            if live.iter().any(|content| content.has_images_in(segment)) {
                committed?;
                continue;
            }
            // A file that cannot be committed, for lack of space say, and has
            // nothing in the segment is no reason to stop the others.
            if let Err(error) = committed {
                context.note_error("commit", &error);
            }
            context.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
            context.fenced.check()?;
            journal.reuse(segment, through, &context.sealer)?;
            self.retire(&live);
            return Ok(());
        }
    }

    /// The records of removed files may be forgotten only once the removals are
    /// durable: a crash might bring the files back.
    fn make_removals_durable(&self) -> Result<()> {
        let context = &self.context;
        let going: Vec<_> = self.all().into_iter().filter(|content| content.is_going()).collect();
        if context.waiting.take_removed()
            && context.rules.keeps(Rule::RemovalBeforeReuse)
            && let Err(error) = context.sync_store()
        {
            context.waiting.note_removed();
            return Err(error);
        }
        going.iter().for_each(|content| content.set_gone());
        Ok(())
    }

    /// Commits and brings home everything, for a clean end.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn settle_all(&self) -> Result<()> {
        self.commit_pending()?;
        let live = self.all();
        checkpoint_all(&self.context, &live, Rule::HomeBeforeDelisting)?;
        if self.context.rules.keeps(Rule::HomeBeforeDelisting) {
            self.context.sync_store()?;
        }
        self.retire(&live);
        Ok(())
    }

    /// Makes durable every file and special record of a directory that never
    /// was.
    ///
    /// # Errors
    /// What the store reported, or what it has reported to another of a file or special
    /// record that was never durable.
    pub(crate) fn finish_files_of(&self, directory: DirectoryId) -> Result<()> {
        let finished = self.finish_new_files_of(directory);
        let lost = self.context.waiting.take_lost_entries(directory);
        finished.and(lost.map_or(Ok(()), Err))
    }

    fn finish_new_files_of(&self, directory: DirectoryId) -> Result<()> {
        self.finish_specials_of(directory)?;
        if !self.context.waiting.unsynced().is_empty() {
            return self.commit_pending();
        }
        let pending = self.pending();
        let new = |content: &&Arc<Content>| {
            let state = content.read_state();
            let is_in = state.header.directory == directory || state.header.linked;
            let is_committed = state.birth.is_durable() || state.journaled.committed().is_some();
            is_in && !is_committed && state.naming.is_named()
        };
        let new: Vec<&Content> = pending.iter().filter(new).map(|content| &**content).collect();
        if new.is_empty() { Ok(()) } else { commit_all(&self.context, &new, Extent::File).map(drop) }
    }
}

impl Content {
    /// Waits until the journal can promise slots. The caller holds no lock
    /// that a commit needs.
    ///
    /// # Errors
    /// Why the journal cannot be emptied.
    pub(super) fn promise(&self, slots: u32) -> Result<Promise<'_>> {
        let context = &self.context;
        let Some(journal) = &context.journal else { return Ok(Promise::new(None, 0)) };
        let slots = slots.min(journal.promise_max());
        while !journal.try_promise(slots) {
            if context.background {
                context.wakeup.wake();
                journal.wait_for_room()?;
            } else {
                self.contents().round()?;
            }
        }
        if context.background && journal.wants_rotation() {
            context.wakeup.wake();
        }
        Ok(Promise::new(Some(journal), slots))
    }
}
