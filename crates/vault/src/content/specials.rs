//! What is noted of special records, and awaited before they change.

use strongroom_format::vault::{DirectoryId, WriteSession};
use strongroom_store::InodeId;

use super::Contents;
use crate::context::Recovered;
use crate::error::Result;
use crate::rules::Rule;

impl Contents {
    /// A special record has been made in a directory.
    pub(crate) fn note_special(&self, inode: InodeId, directory: DirectoryId) {
        self.context.waiting.trust(inode);
        let begun = self.context.barriers.begun();
        self.context.waiting.specials().note_made(inode, directory, begun);
        self.context.wake_if_many();
    }

    /// A special record has been made durable with its last change, or has no
    /// name any more.
    pub(crate) fn note_special_durable(&self, inode: InodeId) {
        self.context.waiting.specials().note_durable(inode);
        self.context.waiting.trust(inode);
    }

    /// A special record has been renamed.
    pub(crate) fn note_special_moved(&self, inode: InodeId) {
        let begun = self.context.barriers.begun();
        self.context.waiting.specials().note_moved(inode, begun);
    }

    /// Before a slot forgets the name that a special record had: its rename
    /// since is durable. One before this mount is covered by any barrier.
    ///
    /// # Errors
    /// What the store reports.
    pub(crate) fn await_special_move(&self, inode: InodeId) -> Result<()> {
        let moved = self.context.waiting.specials().moved(inode);
        if self.context.barriers.covers(moved.unwrap_or(0)) || !self.keeps(Rule::MoveBeforeSlot) {
            return Ok(());
        }
        self.context.sync_store()
    }

    /// Makes durable every special record of a directory that never was.
    ///
    /// # Errors
    /// What the store reports.
    pub(crate) fn finish_specials_of(&self, directory: DirectoryId) -> Result<()> {
        let waits = self.context.waiting.specials().any_made(Some(directory), &self.context.barriers);
        if waits && self.keeps(Rule::SpecialBeforeReply) {
            return self.context.sync_store();
        }
        Ok(())
    }

    /// A special record was never durable, and has been lost.
    pub(crate) fn note_unfinished(&self, inode: InodeId) {
        self.context.note_recovered(inode, Recovered::Removed);
    }

    /// The session that new special records are born in.
    pub(crate) fn birth(&self) -> WriteSession {
        self.context.listed_session()
    }

    /// Whether a special record that does not open is explained: by a crash of
    /// the session that made it, by a barrier that failed, or by a writer beside us that
    /// is making it.
    /// `birth` is what its head says, none where that was never written.
    pub(crate) fn may_be_unfinished(&self, inode: InodeId, birth: Option<WriteSession>) -> bool {
        let context = &self.context;
        context.has_writer()
            || context.waiting.is_doubted(inode)
            || (context.has_crashed() && birth.is_none_or(|session| context.may_be_torn(session)))
    }
}
