//! What the next commit of a file has to do, the slots that the journal keeps
//! for it, and what a commit under way has taken.

use strongroom_units::BlockIndex;

use super::Promise;

/// Slots for a commit's header page and the beginning of its record.
const COMMIT_SLOTS: u32 = 3;

/// What is to be committed of one file.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Something is to be written.
    changed: bool,
    /// Slots that the journal keeps for that.
    slots: u32,
    next: Taken,
    /// A commit has taken what was pending, and has not ended.
    under_way: Option<UnderWay>,
    /// A cut that is durable, and that the stored file refused: what is
    /// committed behind it is newer than it.
    late_cut: Option<u64>,
}

/// What a commit takes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The lowest plain length since the last commit, when below the committed
    /// one: homes behind it are not written until it is durable.
    pub(crate) cut: Option<u64>,
    /// Blocks made holes since the last commit, to be punched after it.
    pub(crate) punched: Vec<(BlockIndex, u64)>,
}

/// A commit.
#[derive(Debug)]
struct UnderWay {
    /// The cut that it has taken: it counts as pending until the commit has
    /// ended, and is not to be taken for one that came since.
    cut: Option<u64>,
}

fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl Pending {
    /// Something is to be written by the next commit, if the file has a name.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// As [`Pending::note_change`], of a change that was promised slots: what it
    /// keeps of them is for the commit.
    pub(crate) fn note_promised(&mut self, promise: &mut Promise<'_>) {
        if !self.changed {
            self.changed = true;
            promise.keep(COMMIT_SLOTS);
        }
        self.slots += promise.hand_over();
    }

    /// A commit has failed: its slots are kept for the next.
    pub(crate) fn keep_slots(&mut self, promise: &mut Promise<'_>) {
        promise.keep(u32::MAX);
        self.slots += promise.hand_over();
    }

    /// The slots that were kept; the caller uses them or gives them back.
    pub(crate) fn take_slots(&mut self) -> u32 {
        std::mem::take(&mut self.slots)
    }

    /// The file has been cut to a plain length, and the stored file has not.
    pub(crate) fn note_cut(&mut self, len: u64) {
        self.next.cut = lower(self.next.cut, Some(len));
    }

    /// The cut that the next commit would take.
    pub(crate) fn next_cut(&self) -> Option<u64> {
        self.next.cut
    }

    /// Nothing was cut since [`Pending::next_cut`] was asked for.
    pub(crate) fn restore_cut(&mut self, before: Option<u64>) {
        self.next.cut = before;
    }

    /// The lowest length that the stored file may yet be cut to.
    pub(crate) fn lowest_cut(&self) -> Option<u64> {
        let under_way = self.under_way.as_ref().and_then(|commit| commit.cut);
        lower(lower(self.next.cut, under_way), self.late_cut)
    }

    /// Blocks have become holes.
    pub(crate) fn note_punched(&mut self, first: BlockIndex, count: u64) {
        self.next.punched.push((first, count));
    }

    /// Blocks are to be punched after the next commit.
    pub(crate) fn has_punched(&self) -> bool {
        !self.next.punched.is_empty()
    }

    /// Everything that has changed is in the pages that a commit has written.
    pub(crate) fn take(&mut self) -> Taken {
        self.changed = false;
        std::mem::take(&mut self.next)
    }

    /// A commit with what it has taken is under way.
    pub(crate) fn begin(&mut self, taken: &Taken) {
        self.under_way = Some(UnderWay { cut: taken.cut });
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The commit has ended; what it had taken is its caller's to see to.
    pub(crate) fn end(&mut self) {
        self.under_way = None;
    }

    /// The commit has failed: what it had taken is to be done by the next.
    pub(crate) fn put_back(&mut self, taken: &Taken) {
        self.next.cut = lower(self.next.cut, taken.cut);
        self.next.punched.extend(taken.punched.iter().copied());
    }

    /// A commit that had taken this cut is durable: the stored file is to
    /// follow.
    pub(crate) fn note_late_cut(&mut self, cut: Option<u64>) {
        self.late_cut = lower(self.late_cut, cut);
    }

    /// A durable cut that the stored file has not followed yet.
    pub(crate) fn late_cut(&self) -> Option<u64> {
        self.late_cut
    }

    /// It has.
    pub(crate) fn late_cut_followed(&mut self) {
        self.late_cut = None;
    }
}
