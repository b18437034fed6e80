//! Commits: emit, barrier, record, barrier, and only then let go of what the
//! record no longer names. One file at a time, or many that share barriers.

use std::sync::PoisonError;

use strongroom_format::vault::PageKind;
use strongroom_format::vault::record::{Change, Commit, Timestamp};
use strongroom_store::{AllocateMode, Attributes, SetTime, has_no_name};
use strongroom_units::{BlockIndex, GROUP_BLOCKS, PlainLen};

use super::emit::Emission;
use super::pending::Taken;
use super::state::{Source, State};
use super::{Content, Promise};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::life::Birth;
use crate::page::PageAddress;
use crate::rules::Rule;
use crate::waiting::Attribute;

/// Above this many files with a barrier to come, one barrier for the whole
/// store costs less.
const BARRIERS_EACH: usize = 4;

/// How far a commit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// New files are written out whole, and nothing is waited for.
    Home,
    /// Everything written is durable.
    Data,
    /// Also the attributes of each stored file that needs a barrier.
    File,
}

impl Content {
    /// Makes everything written so far durable, with the file's mode, owner,
    /// times and extended attributes: `fsync(2)`, POSIX's synchronized I/O
    /// file integrity completion.
    ///
    /// # Errors
    /// What the store reported, of this barrier or of one before that nobody was
    /// told of. What was to be committed stays pending, and the next commit
    /// tries again.
    pub fn sync(&self) -> Result<()> {
        self.told_of_losses(|| self.sync_file())
    }

    /// Makes everything written so far durable, with its length:
    /// `fdatasync(2)`, POSIX's synchronized I/O data integrity completion.
    ///
    /// # Errors
    /// As [`Content::sync`].
    pub fn sync_data(&self) -> Result<()> {
        self.told_of_losses(|| self.sync_pending())
    }

    /// Syncs for somebody who asked, and tells what barriers have failed.
    fn told_of_losses(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.learn_habits();
        let outcome = sync();
        // A barrier of the store that failed meanwhile took it for released.
        if let Some(lost) = self.context.waiting.take_lost(self.inode) {
            self.write_state().losses.note(&lost.error);
        }
        if outcome.is_ok() && !self.read_state().losses.concern(before) {
            return Ok(());
        }
        self.context.untold.told(self.inode);
        self.write_state().losses.tell(before, outcome)
    }

    fn sync_file(&self) -> Result<()> {
        if !self.is_pending_or_committing() {
            return self.sync_attributes();
        }
        let keeps = self.context.rules.keeps(Rule::AttributesBeforeReply);
        // Noted before the commit, which may not cover later ones.
        let attributed = self.context.waiting.attributed().take(self.inode);
        match self.commit(if keeps { Extent::File } else { Extent::Data }) {
            // A record holds the times, and no barrier is needed for these.
            Ok(covered) if covered || attributed <= Some(Attribute::Times) || !keeps => Ok(()),
            Ok(_) => self.sync_attributes(),
            Err(error) => {
                if let Some(attribute) = attributed {
                    self.context.waiting.attributed().note(self.inode, attribute);
                }
                Err(error)
            }
        }
    }

    /// How many barriers have failed so far, besides.
    fn learn_habits(&self) -> u64 {
        let mut state = self.write_state();
        state.habit.journal_small = state.birth.is_written() && state.habit.fresh_bytes <= super::SMALL_SYNC;
        state.losses.count()
    }

    /// A barrier has failed that should have covered what was written to this
    /// file, in place or in the journal.
    pub(super) fn note_loss(&self, error: &Error) {
        self.write_state().losses.note(error);
        // Whoever is told of it between the two has it told once more.
        self.context.untold.note(self.inode, error);
    }

    /// A barrier on the stored file and all its attributes.
    fn sync_attributes(&self) -> Result<()> {
        let attributed = self.context.waiting.attributed().take(self.inode);
        if let Err(error) = self.sync_home(Extent::File) {
            let attribute = attributed.unwrap_or(Attribute::Other);
            self.context.waiting.attributed().note(self.inode, attribute);
            self.relearn_len(&mut self.write_state());
            return Err(error);
        }
        Ok(())
    }

    /// A barrier on the stored file. One after the other, and a failure is noted
    /// before the next begins: the system tells of it once, and whoever hears that
    /// the next has succeeded has to see that it covers less.
    fn sync_home(&self, extent: Extent) -> Result<()> {
        let _alone = self.home_barrier.lock().unwrap_or_else(PoisonError::into_inner);
        let synced = match extent {
            Extent::Home => Ok(()),
            Extent::Data => self.file.sync_data(),
            Extent::File => self.file.sync_all(),
        };
        synced.map_err(Error::from).inspect_err(|error| self.note_loss(error))
    }

    /// As [`Content::sync`], when anything is pending.
    pub(super) fn sync_pending(&self) -> Result<()> {
        if self.is_pending_or_committing() { self.commit(Extent::Data).map(drop) } else { Ok(()) }
    }

    /// Whether anything is pending that was not durable when this was called.
    /// What a commit under way has taken is not pending any more, and not
    /// durable yet: this waits for its end. Had it failed, it would be
    /// pending again.
    fn is_pending_or_committing(&self) -> bool {
        let is_pending = || {
            let state = self.read_state();
            state.is_dirty() || state.unsynced.is_some()
        };
        if is_pending() {
            return true;
        }
        drop(self.lock_commit());
        is_pending()
    }

    /// Commits this file; true when a barrier on its stored file was part of
    /// that.
    pub(super) fn commit(&self, extent: Extent) -> Result<bool> {
        Ok(commit_all(&self.context, &[self], extent)? > 0)
    }

    /// Writes what has changed of a file that was never durable in place again,
    /// without a barrier; false where that may not be. Of a file that is not
    /// written yet there is nothing to be done.
    pub(super) fn rewrite_in_place(&self) -> Result<bool> {
        self.context.fenced.check()?;
        let _commit = self.lock_commit();
        // Meanwhile no barrier begins, which would promise what is there.
        let standing = self.context.barriers.stand();
        {
            let mut state = self.write_state();
            if !state.birth.is_written() {
                return Ok(true);
            }
            if !state.was_never_durable(standing.begun) {
                return Ok(false);
            }
            state.birth = Birth::Unwritten;
        }
        if let Some(written) = begin(&self.context, self, false)? {
            let mut state = self.write_state();
            state.pending.end();
            self.written_out(&mut state, &written.emission);
        }
        Ok(true)
    }

    /// Writes out a new file, without a barrier. What is pending of another
    /// waits for its commit. With a barrier where a change has failed, or a barrier of
    /// the store: if this one fails too, more may be lost than is pending.
    pub(super) fn write_out(&self) -> Result<()> {
        let (has_failed, is_written) = {
            let state = self.read_state();
            let has_failed = state.has_failed || state.may_have_lost(&self.context.barriers);
            (has_failed, state.birth.is_written())
        };
        if has_failed {
            return self.commit(Extent::Data).map(drop);
        }
        if is_written {
            return Ok(());
        }
        commit_all(&self.context, &[self], Extent::Home).map(drop)
    }
}

/// A file in the middle of its commit.
struct Committing<'a> {
    content: &'a Content,
    emission: Emission,
    /// Slots for the record. What writes that come meanwhile are promised is
    /// theirs, and stands in the file's state.
    promise: Promise<'a>,
    sequence: Option<u64>,
    /// How many barriers of the file had failed when it was sealed.
    losses: u64,
}

/// Commits several files, ordered by [`Content::order`]; tells how many of the
/// stored files a barrier has covered.
pub(crate) fn commit_all(context: &Context, contents: &[&Content], extent: Extent) -> Result<usize> {
    let covered = commit_once(context, contents, extent)?;
    let is_unsettled = |content: &&Content| std::mem::take(&mut content.write_state().is_unsettled);
    let unsettled: Vec<&Content> = contents.iter().copied().filter(is_unsettled).collect();
    if !unsettled.is_empty() {
        commit_once(context, &unsettled, Extent::Data)?;
    }
    Ok(covered)
}

fn commit_once<'a>(context: &'a Context, contents: &[&'a Content], extent: Extent) -> Result<usize> {
    let durable = extent != Extent::Home;
    if !contents.is_empty() {
        context.fenced.check()?;
    }
    let _locks: Vec<_> = contents.iter().map(|content| content.lock_commit()).collect();
    if durable {
        await_moves(context, contents)?;
    }
    let mut under_way = Vec::with_capacity(contents.len());
    let mut failed = Ok(());
    for content in contents {
        match begin(context, content, durable) {
            Ok(Some(committing)) => under_way.push(committing),
            Ok(None) => {}
            Err(error) => failed = Err(error),
        }
    }
    let outcome = if durable { finish(context, &mut under_way, extent) } else { Ok(0) };
    for mut committing in under_way {
        let content = committing.content;
        let mut state = content.write_state();
        state.pending.end();
        match &outcome {
            Ok(_) if durable => {
                if let Err(error) = content.committed(&mut state, &committing) {
                    failed = Err(error);
                }
            }
            Ok(_) => content.written_out(&mut state, &committing.emission),
            Err(_) => {
                content.abandon(&mut state, &committing.emission);
                content.keep_for_next(&mut state, &mut committing.promise);
            }
        }
    }
    failed.and(outcome)
}

/// A commit forgets the name that a file had before it was renamed, and that
/// has to be durable then.
fn await_moves(context: &Context, contents: &[&Content]) -> Result<()> {
    let waits = |content: &&Content| {
        let state = content.read_state();
        state.is_dirty() && state.moved.is_some_and(|began| !context.barriers.covers(began))
    };
    // Without barriers the name before stays until one comes for another reason.
    if context.rules.keeps(Rule::DataBeforeRecord) && contents.iter().any(waits) {
        context.sync_store()?;
    }
    Ok(())
}

fn begin<'a>(context: &'a Context, content: &'a Content, durable: bool) -> Result<Option<Committing<'a>>> {
    let mut state = content.write_state();
    let pending = state.is_dirty() || state.unsynced.is_some();
    if !pending || !state.naming.is_named() || (!durable && state.birth.is_written()) {
        return Ok(None);
    }
    let mut promise = Promise::new(context.journal.as_ref(), state.pending.take_slots());
    match content.emit(&mut state, &mut promise) {
        Ok(emission) => {
            let losses = state.losses.count();
            state.pending.begin(&emission.taken);
            Ok(Some(Committing { content, emission, promise, sequence: None, losses }))
        }
        Err(error) => {
            content.keep_for_next(&mut state, &mut promise);
            Err(error)
        }
    }
}

/// Barriers and records; tells how many stored files a barrier has covered.
fn finish(context: &Context, under_way: &mut [Committing<'_>], extent: Extent) -> Result<usize> {
    let homes: Vec<&Content> =
        under_way.iter().filter(|one| needs_barrier(context, one)).map(|one| one.content).collect();
    sync_homes(context, &homes, extent)
        .inspect_err(|error| homes.iter().for_each(|content| content.note_loss(error)))?;
    let covered = homes.len();
    for one in under_way.iter().filter(|one| needs_barrier(context, one)) {
        one.content.read_state().losses.since(one.losses)?;
    }
    let mut last = None;
    for one in under_way.iter_mut() {
        if let Some(record) = one.content.record(&one.emission)? {
            let appended = one.promise.append(&context.sealer, record, one.emission.saved_from)?;
            one.sequence = Some(appended.number);
            last = Some(appended.since(last));
        }
    }
    if let (Some(sequence), Some(journal)) = (last, &context.journal) {
        journal
            .sync_to(sequence)
            .inspect_err(|error| under_way.iter().for_each(|one| one.content.note_loss(error)))?;
    }
    Ok(covered)
}

fn needs_barrier(context: &Context, one: &Committing<'_>) -> bool {
    let rule = match one.emission.record {
        Some(_) => Rule::DataBeforeRecord,
        None => Rule::NewFileBeforeReply,
    };
    one.emission.unsynced.is_some() && context.rules.keeps(rule)
}

/// Makes the homes of these files durable, with as few barriers as possible. Once
/// a barrier of the store has failed each file is asked, which tells of its own, and
/// all of them: what is told is over.
pub(crate) fn sync_homes(context: &Context, homes: &[&Content], extent: Extent) -> Result<()> {
    if homes.len() > BARRIERS_EACH && !context.barriers.has_failed() {
        context.sync_store()?;
        if !context.barriers.has_failed() {
            return Ok(());
        }
    }
    homes.iter().map(|content| content.sync_home(extent)).fold(Ok(()), Result::and)
}

impl Content {
    /// A commit has failed: its slots are kept for the next.
    fn keep_for_next(&self, state: &mut State, promise: &mut Promise<'_>) {
        if state.naming.is_named() {
            state.pending.keep_slots(promise);
        }
    }

    fn record(&self, emission: &Emission) -> Result<Option<Change>> {
        let Some(images) = &emission.record else { return Ok(None) };
        let attributes = self.file.attributes()?;
        let stored_len = self.context.geometry.stored_len(PlainLen(emission.plain_len));
        Ok(Some(Change::Commit(Commit {
            file: self.id,
            path_hint: self.path_hint(),
            pages: images.pages.clone(),
            blocks: images.blocks.clone(),
            punched: Vec::new(),
            set_len: true,
            stored_len,
            accessed: timestamp(attributes.accessed),
            modified: timestamp(attributes.modified),
        })))
    }

    /// The commit is durable: what it no longer names is free, cuts and
    /// punches reach home, and its images are the committed ones.
    fn committed(&self, state: &mut State, committing: &Committing<'_>) -> Result<()> {
        let emission = &committing.emission;
        self.land(state, emission);
        if let (Some(freshness), Some(version)) = (&self.context.freshness, emission.version) {
            freshness.note_version(self.id, version);
        }
        if self.context.rules.keeps(Rule::DataBeforeRecord) {
            if !state.birth.is_durable() && state.losses.count() > 0 {
                state.is_unsettled = true;
                state.retake(&[PageAddress::HEADER]);
            }
            state.birth = Birth::Durable;
            state.home_is_lost = false;
        }
        state.has_failed &= emission.unsynced.is_none();
        if state.birth.is_durable() && emission.unsynced.is_some() {
            self.context.waiting.synced_alone(self.inode);
        }
        self.void_images(state, &emission.taken);
        if let (Some(images), Some(sequence)) = (&emission.record, committing.sequence) {
            let blocks = images.blocks.iter().map(|image| (image.block.0, image.place));
            let pages = images.pages.iter().map(|page| {
                let address = PageAddress { kind: page.kind, number: page.number };
                (address, page.place)
            });
            state.journaled.commit((sequence, emission.plain_len), blocks, pages);
        }
        state.pending.note_late_cut(emission.taken.cut);
        if state.pending.late_cut().is_some() || !emission.taken.punched.is_empty() {
            // Refused, it is tried again by the next commit or checkpoint.
            self.cut_and_punch(state, &emission.taken).inspect_err(|_| state.pending.note_change())?;
        }
        Ok(())
    }

    fn cut_and_punch(&self, state: &mut State, taken: &Taken) -> Result<()> {
        let before = self.file.attributes()?;
        self.follow_cut(state)?;
        self.punch_home(state, &taken.punched);
        self.restore_times(state, &before)
    }

    /// Puts back the times that the stored file had before something of its
    /// own was written to it late.
    pub(super) fn restore_times(&self, state: &State, before: &Attributes) -> Result<()> {
        self.set_stored_times(state, SetTime::To(before.accessed), SetTime::To(before.modified))
    }

    /// Sets the times of the stored file. Of one without a name they are nobody's
    /// to see for long, and there are stores that refuse to set them.
    pub(super) fn set_stored_times(&self, state: &State, accessed: SetTime, modified: SetTime) -> Result<()> {
        // The namespace may not have told yet of a removal that is under way.
        match self.file.set_times(accessed, modified) {
            Err(_) if !state.naming.is_named() || has_no_name(&self.file.attributes()) => Ok(()),
            set => Ok(set?),
        }
    }

    /// The new file has been written out, and no barrier was waited for.
    fn written_out(&self, state: &mut State, emission: &Emission) {
        self.land(state, emission);
        if let (Some(freshness), Some(version)) = (&self.context.freshness, emission.version) {
            freshness.await_version(self.id, version);
        }
        state.unsynced = emission.unsynced.or(state.unsynced);
    }

    fn abandon(&self, state: &mut State, emission: &Emission) {
        state.unsynced = emission.unsynced.or(state.unsynced);
        state.has_failed &= emission.unsynced.is_none();
        state.pending.put_back(&emission.taken);
        if !emission.pages.is_empty() {
            state.retake(&emission.pages);
        }
        if emission.unsynced.is_some() && state.birth.is_written() {
            // What the barrier should have covered may be lost, the header
            // page and the length with it.
            state.begin_anew(&self.context.barriers);
            self.relearn_len(state);
        }
    }

    fn land(&self, state: &mut State, emission: &Emission) {
        for &(number, present) in &emission.presence {
            if let Some(node) = state.nodes.get_mut(&number) {
                node.referenced = present;
            }
        }
        state.note_committed(&emission.pages);
    }

    /// Committed images of what this commit has cut or punched are not to be
    /// copied home, unless this very commit has written them again.
    fn void_images(&self, state: &mut State, taken: &Taken) {
        let Taken { cut, punched } = taken;
        if cut.is_none() && punched.is_empty() {
            return;
        }
        let size = self.geometry().block_size();
        let behind = |offset: u64| cut.is_some_and(|cut| offset >= cut);
        let is_void = |block: u64| {
            behind(size.start_of(BlockIndex(block)).0 + size.bytes() - 1)
                || punched.iter().any(|&(first, count)| block >= first.0 && block < first.0 + count)
        };
        let group_len = size.bytes() * GROUP_BLOCKS;
        let is_void_page = |address: &PageAddress| {
            address.kind != PageKind::Header && behind(address.first_group() * group_len)
        };
        state.journaled.void(is_void, is_void_page);
    }

    /// Cuts the stored file to a durable cut that it has not followed yet.
    /// Nothing may be copied home behind that before.
    pub(super) fn follow_cut(&self, state: &mut State) -> Result<()> {
        let Some(cut) = state.pending.late_cut() else { return Ok(()) };
        let len = self.geometry().stored_len(PlainLen(cut)).0;
        if state.home_len > len {
            self.file.set_len(len)?;
            state.home_len = len;
            self.reserve_behind(state, len);
        }
        state.pending.late_cut_followed();
        Ok(())
    }

    /// Gives back the space of blocks that are still holes. A store that
    /// cannot punch keeps it.
    fn punch_home(&self, state: &State, punched: &[(BlockIndex, u64)]) {
        for &(first, count) in punched {
            let mut dead: Option<(u64, u64)> = None;
            for block in (first.0..first.0 + count).map(BlockIndex) {
                let offset = self.geometry().block_offset(block).0;
                let absent = state.group_present(block.group()) == Some(false);
                let known = absent || state.nodes.contains_key(&block.group().0);
                if !known || state.source(block) != Source::Hole || offset >= state.home_len {
                    continue;
                }
                let end = offset + self.geometry().block_size().bytes();
                dead = match dead {
                    Some((start, until)) if until == offset => Some((start, end)),
                    Some((start, until)) => {
                        self.punch(start, until);
                        Some((offset, end))
                    }
                    None => Some((offset, end)),
                };
            }
            if let Some((start, until)) = dead {
                self.punch(start, until);
            }
        }
    }

    fn punch(&self, start: u64, end: u64) {
        let _ = self.file.allocate(AllocateMode::Punch, start, end - start);
    }
}

fn timestamp(time: strongroom_store::Timestamp) -> Timestamp {
    Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}
