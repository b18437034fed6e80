//! What waits for a commit or a barrier, by stored inode: files with something
//! pending, released ones that are not known to be durable, renames, removals,
//! attributes, special records, and homes that directories have left. One
//! barrier of the store covers all of them.
//!
//! All locks here are leaves; of several, unsynced comes first.

mod attributed;
mod specials;
mod stale_homes;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use strongroom_format::vault::DirectoryId;
use strongroom_store::InodeId;

use crate::barriers::{Barriers, Written};
use crate::error::Error;
use crate::life::Birth;
pub(crate) use attributed::{Attribute, Attributed};
pub(crate) use specials::Specials;
pub(crate) use stale_homes::{StaleHome, StaleHomes};

/// Part of the context.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Live files that may have something to commit.
    pending: Mutex<HashSet<InodeId>>,
    /// Released files that no barrier has covered yet.
    unsynced: Mutex<Unsynced>,
    /// A file with records in the journal has been removed, and no barrier
    /// has covered the removal: a crash may bring it back.
    removed: AtomicBool,
    attributed: Mutex<Attributed>,
    specials: Mutex<Specials>,
    /// Of released files that were renamed, and are not known to be durable
    /// under their new names: how many barriers of the store had begun then.
    moved: Mutex<HashMap<InodeId, u64>>,
    stale_homes: Mutex<StaleHomes>,
    /// Released files of which something may be lost, and nobody who synced the
    /// file was told.
    lost: Mutex<HashMap<InodeId, Lost>>,
    /// Released files and special records that were never durable, and which a
    /// barrier should have covered that has failed.
    doubted: Mutex<HashSet<InodeId>>,
    /// Entries that may be lost, and nobody who synced their directory was told: that, or
    /// `None` for any.
    lost_entries: Mutex<HashMap<InodeId, (Option<DirectoryId>, Error)>>,
}

/// What a barrier has lost of a released file.
#[derive(Clone)]
pub(crate) struct Lost {
    pub(crate) error: Error,
    /// Of one that no barrier had covered: whoever opens it again makes it durable.
    pub(crate) was_unsynced: bool,
}

/// Files by the number of their last release: a barrier covers those releases
/// alone that came before it.
#[derive(Default)]
struct Unsynced {
    releases: u64,
    files: HashMap<InodeId, Released>,
}

/// How a file was released.
#[derive(Clone, Copy)]
struct Released {
    number: u64,
    birth: Birth,
    /// That it stands in; `None` for one with several names.
    directory: Option<DirectoryId>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// The file may have something to commit from now on.
    pub(crate) fn note_pending(&self, inode: InodeId) {
        lock(&self.pending).insert(inode);
    }

    /// The file has nothing to commit.
    pub(crate) fn note_clean(&self, inode: InodeId) {
        lock(&self.pending).remove(&inode);
    }

    /// Files that may have something to commit.
    pub(crate) fn pending(&self) -> Vec<InodeId> {
        lock(&self.pending).iter().copied().collect()
    }

    /// How much waits.
    pub(crate) fn count(&self) -> usize {
        lock(&self.pending).len()
            + lock(&self.unsynced).files.len()
            + self.specials().count()
            + self.stale_homes().count()
    }

    /// A file has been released that no barrier has covered.
    pub(crate) fn note_released(&self, inode: InodeId, birth: Birth, directory: Option<DirectoryId>) {
        let mut unsynced = lock(&self.unsynced);
        unsynced.releases += 1;
        let number = unsynced.releases;
        unsynced.files.insert(inode, Released { number, birth, directory });
    }

    /// Of a released file that no barrier has covered: since when it was
    /// written in place, if it was never durable.
    pub(crate) fn unsynced_since(&self, inode: InodeId) -> Option<Option<Written>> {
        lock(&self.unsynced).files.get(&inode).map(|released| released.birth.written_since())
    }

    /// The number of the last release of a file that no barrier has covered.
    pub(crate) fn release_of(&self, inode: InodeId) -> Option<u64> {
        lock(&self.unsynced).files.get(&inode).map(|released| released.number)
    }

    /// A file that is not live was renamed when so many barriers of the store
    /// had begun.
    pub(crate) fn note_moved(&self, inode: InodeId, barriers_begun: u64) {
        lock(&self.moved).insert(inode, barriers_begun);
    }

    /// Files whose attributes have changed.
    pub(crate) fn attributed(&self) -> MutexGuard<'_, Attributed> {
        lock(&self.attributed)
    }

    /// Special records that wait for a barrier.
    pub(crate) fn specials(&self) -> MutexGuard<'_, Specials> {
        lock(&self.specials)
    }

    /// Homes that directories have left.
    pub(crate) fn stale_homes(&self) -> MutexGuard<'_, StaleHomes> {
        lock(&self.stale_homes)
    }

    /// A file whose records are still needed has been removed.
    pub(crate) fn note_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Whether a barrier on the store has to come before records are
    /// forgotten; the caller sees to it.
    pub(crate) fn take_removed(&self) -> bool {
        self.removed.swap(false, Ordering::AcqRel)
    }

    /// The released files that wait for a barrier, which go on waiting until
    /// it has succeeded: meanwhile a rename has to wait for its own.
    pub(crate) fn unsynced(&self) -> HashMap<InodeId, u64> {
        lock(&self.unsynced).files.iter().map(|(&inode, released)| (inode, released.number)).collect()
    }

    /// A barrier that began after `unsynced` was asked for has succeeded.
    pub(crate) fn synced(&self, covered: &HashMap<InodeId, u64>) {
        let mut unsynced = lock(&self.unsynced);
        for (inode, _) in
            unsynced.files.extract_if(|inode, released| covered.get(inode) == Some(&released.number))
        {
            if let Some(lost) = lock(&self.lost).get_mut(&inode) {
                lost.was_unsynced = false;
            }
        }
    }

    /// A barrier of the store has failed. Gives the files of which something may be
    /// lost: the released ones, and special records just made.
    pub(crate) fn note_lost_releases(&self, error: &Error, barriers: &Barriers) -> Vec<InodeId> {
        let made = self.specials().made(barriers);
        let specials = || made.iter().map(|(inode, _)| *inode);
        // Held all the while: who makes one of them durable meanwhile comes before or after.
        let unsynced = lock(&self.unsynced);
        let newborn = unsynced.files.iter().filter(|(_, released)| !released.birth.was_covered(barriers));
        let newborn: Vec<_> = newborn.collect();
        lock(&self.doubted).extend(newborn.iter().map(|(inode, _)| **inode).chain(specials()));
        let entries = newborn.iter().map(|(inode, released)| (**inode, released.directory));
        let entries = entries.chain(made.iter().map(|(inode, directory)| (*inode, Some(*directory))));
        lock(&self.lost_entries).extend(entries.map(|(inode, of)| (inode, (of, error.clone()))));
        let may_be_lost = |birth: Birth| birth.is_durable() || !birth.was_covered(barriers);
        let released = unsynced.files.iter().filter(|(_, released)| may_be_lost(released.birth));
        let released: Vec<InodeId> = released.map(|(&inode, _)| inode).collect();
        let lost = released.iter().map(|&inode| (inode, Lost { error: error.clone(), was_unsynced: true }));
        lock(&self.lost).extend(lost);
        released.into_iter().chain(specials()).collect()
    }

    /// Why entries of a directory may be lost, for whoever syncs it.
    pub(crate) fn take_lost_entries(&self, directory: DirectoryId) -> Option<Error> {
        let is_of = |of: Option<DirectoryId>| of.is_none_or(|of| of == directory);
        let mut all = lock(&self.lost_entries);
        let found = all.extract_if(|_, (of, _)| is_of(*of)).map(|(_, (_, error))| error);
        found.last()
    }

    /// Whether something that nobody has open was never durable, and may be lost
    /// to a barrier that failed: whoever opens it treats it as after a crash.
    pub(crate) fn is_doubted(&self, inode: InodeId) -> bool {
        lock(&self.doubted).contains(&inode)
    }

    /// It is durable, or was found whole, or has no name any more.
    pub(crate) fn trust(&self, inode: InodeId) {
        lock(&self.doubted).remove(&inode);
        lock(&self.lost_entries).remove(&inode);
    }

    /// A file is released of which something is lost that nobody was told.
    pub(crate) fn note_lost(&self, inode: InodeId, error: Error) {
        lock(&self.lost).entry(inode).or_insert(Lost { error, was_unsynced: false });
    }

    /// What is lost of a file, and was not told.
    pub(crate) fn lost(&self, inode: InodeId) -> Option<Lost> {
        lock(&self.lost).get(&inode).cloned()
    }

    /// Why something is lost of files of which nobody was told, for whoever tells of
    /// it: of all at once.
    pub(crate) fn take_all_lost(&self) -> Option<Error> {
        std::mem::take(&mut *lock(&self.lost)).into_values().next().map(|lost| lost.error)
    }

    /// What is lost of a file, for whoever tells of it.
    pub(crate) fn take_lost(&self, inode: InodeId) -> Option<Lost> {
        lock(&self.lost).remove(&inode)
    }

    /// A barrier on the stored file itself has covered its releases: it is live,
    /// and none has come since. Or it is another file than the one that was
    /// released, and has its inode number.
    pub(crate) fn synced_alone(&self, inode: InodeId) {
        let mut unsynced = lock(&self.unsynced);
        unsynced.files.remove(&inode);
        self.trust(inode);
        if let Some(lost) = lock(&self.lost).get_mut(&inode) {
            lost.was_unsynced = false;
        }
    }

    /// How many barriers had begun when a file that is not live was renamed
    /// last; none where that was before the mount, or a barrier has covered it.
    pub(crate) fn moved_since(&self, inode: InodeId) -> u64 {
        lock(&self.moved).get(&inode).copied().unwrap_or(0)
    }

    /// A barrier of the store has succeeded.
    pub(crate) fn forget_moved(&self, barriers: &Barriers) {
        lock(&self.moved).retain(|_, since| !barriers.covers(*since));
    }
}
