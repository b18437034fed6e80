//! The table of live contents: open, or with something that has yet to reach
//! its home.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::{Access, FileRef, InodeId, Node, NodeRef};
use strongroom_units::StoredLen;

use super::attributed::{Attribute, Attributed};
use super::openings::{Opening, Openings};
use super::specials::Specials;
use super::stale_homes::StaleHomes;
use super::{Content, Extent, Home, Opened, commit_all};
use crate::context::{Barriers, Context};
use crate::error::{Damage, Error, Result};
use crate::freshness::{Freshness, Version};
use crate::rules::Rule;

/// Live contents and what is pending among them; part of the context.
#[derive(Default)]
pub(crate) struct Table {
    live: Mutex<HashMap<InodeId, Arc<Content>>>,
    openings: Openings,
    /// How many contents have ceased to be live.
    retired: AtomicU64,
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
    /// Of files that are not live, the header page that they had when they were
    /// last: whoever has read them, the kernel's page cache for one, has it of
    /// that state, and of no other.
    seen: Mutex<HashMap<InodeId, Version>>,
    stale_homes: Mutex<StaleHomes>,
}

/// Files by the number of their last release: a barrier covers those releases
/// alone that came before it.
#[derive(Default)]
struct Unsynced {
    releases: u64,
    files: HashMap<InodeId, u64>,
    /// Of those that were never durable: [`super::state::State::in_place_since`].
    since: HashMap<InodeId, u64>,
}

impl Unsynced {
    fn insert(&mut self, inode: InodeId, since: Option<u64>) {
        self.releases += 1;
        self.files.insert(inode, self.releases);
        match since {
            Some(since) => self.since.insert(inode, since),
            None => self.since.remove(&inode),
        };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// The file may have something to commit from now on.
    pub(crate) fn note_pending(&self, inode: InodeId) {
        lock(&self.pending).insert(inode);
    }

    /// Of a released file that no barrier has covered: since when it was
    /// written in place, if it was never durable.
    pub(crate) fn unsynced_since(&self, inode: InodeId) -> Option<Option<u64>> {
        let unsynced = lock(&self.unsynced);
        unsynced.files.contains_key(&inode).then(|| unsynced.since.get(&inode).copied())
    }

    /// Files that may have something to commit, in locking order.
    pub(crate) fn pending(&self) -> Vec<Arc<Content>> {
        let pending: Vec<InodeId> = lock(&self.pending).iter().copied().collect();
        let live = lock(&self.live);
        let mut contents: Vec<_> = pending.iter().filter_map(|inode| live.get(inode).cloned()).collect();
        contents.sort_unstable_by_key(|content| content.order());
        contents
    }

    /// How many files may have something to commit, released ones included.
    pub(crate) fn pending_count(&self) -> usize {
        lock(&self.pending).len()
            + lock(&self.unsynced).files.len()
            + self.specials_count()
            + self.stale_homes_count()
    }

    /// Every live content, in locking order.
    pub(crate) fn live(&self) -> Vec<Arc<Content>> {
        let mut contents: Vec<_> = lock(&self.live).values().cloned().collect();
        contents.sort_unstable_by_key(|content| content.order());
        contents
    }

    /// Files whose attributes have changed.
    pub(crate) fn attributed(&self) -> MutexGuard<'_, Attributed> {
        lock(&self.attributed)
    }

    /// Special records that wait for a barrier.
    pub(super) fn specials(&self) -> MutexGuard<'_, Specials> {
        lock(&self.specials)
    }

    /// Homes that directories have left.
    pub(super) fn stale_homes(&self) -> MutexGuard<'_, StaleHomes> {
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
        lock(&self.unsynced).files.clone()
    }

    /// A barrier that began after `unsynced` was asked for has succeeded.
    pub(crate) fn synced(&self, covered: &HashMap<InodeId, u64>) {
        let mut unsynced = lock(&self.unsynced);
        let Unsynced { files, since, .. } = &mut *unsynced;
        files.retain(|inode, release| covered.get(inode) != Some(release));
        since.retain(|inode, _| files.contains_key(inode));
    }

    /// A barrier on the stored file itself has covered its releases: it is live,
    /// and none has come since. Or it is another file than the one that was
    /// released, and has its inode number.
    pub(super) fn synced_alone(&self, inode: InodeId) {
        let mut unsynced = lock(&self.unsynced);
        unsynced.files.remove(&inode);
        unsynced.since.remove(&inode);
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

    /// Drops what is neither open nor waiting to reach its home. The content
    /// may have been dropped before, and the file opened anew since: what is
    /// live then is another, and stays.
    pub(crate) fn retire(&self, content: &Arc<Content>) {
        let mut live = lock(&self.live);
        let is_live = live.get(&content.inode).is_some_and(|found| Arc::ptr_eq(found, content));
        if !is_live || content.handles() > 0 {
            return;
        }
        let mut state = content.write_state();
        if !state.unlinked && (state.is_dirty() || state.is_journaled()) {
            return;
        }
        if state.unsynced && !state.unlinked {
            let since = state.in_place_since.filter(|_| !state.settled);
            lock(&self.unsynced).insert(content.inode, since);
        }
        if let Some(since) = state.moved.filter(|since| !content.context.barriers.covers(*since)) {
            lock(&self.moved).insert(content.inode, since);
        }
        content.context.release(std::mem::take(&mut state.promised));
        match state.version().filter(|_| !state.unlinked) {
            Some(version) => lock(&self.seen).insert(content.inode, version),
            None => lock(&self.seen).remove(&content.inode),
        };
        lock(&self.pending).remove(&content.inode);
        self.retired.fetch_add(1, Ordering::AcqRel);
        self.openings.note_retired(content.inode);
        live.remove(&content.inode);
    }

    /// Nobody has anything of a stored file any more.
    pub(crate) fn forget(&self, inode: InodeId) {
        lock(&self.seen).remove(&inode);
    }

    /// Whether what was opened is what was last seen of the stored file. Nobody
    /// but this mount may write to it: another state was put there.
    fn check_seen(&self, content: &Content) -> Result<()> {
        let seen = lock(&self.seen).get(&content.inode).copied();
        match seen {
            Some(seen) if content.read_state().version() != Some(seen) => {
                Err(Error::Damaged(Damage::Page("a file is another state than this mount has last seen")))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, inode: InodeId) -> Option<Arc<Content>> {
        let live = lock(&self.live);
        let content = live.get(&inode)?;
        content.handles.fetch_add(1, Ordering::AcqRel);
        Some(Arc::clone(content))
    }

    /// What was live before stays with those who have it.
    fn replace(&self, content: Arc<Content>) -> Arc<Content> {
        content.handles.fetch_add(1, Ordering::AcqRel);
        lock(&self.live).insert(content.inode, Arc::clone(&content));
        content
    }

    /// Takes in what was read of a file; `None` when that is void.
    fn insert_opened(
        &self,
        content: Content,
        opening: &Opening<'_>,
        retirements: u64,
    ) -> Option<Arc<Content>> {
        let mut live = lock(&self.live);
        let content = match live.get(&content.inode) {
            Some(live) => Arc::clone(live),
            None if opening.retirements() != retirements => return None,
            None => Arc::clone(live.entry(content.inode).or_insert(Arc::new(content))),
        };
        content.handles.fetch_add(1, Ordering::AcqRel);
        Some(content)
    }

    fn insert(&self, content: Arc<Content>) -> Arc<Content> {
        let mut live = lock(&self.live);
        let content = Arc::clone(live.entry(content.inode).or_insert(content));
        content.handles.fetch_add(1, Ordering::AcqRel);
        content
    }
}

/// All files whose content is live: open, or changed and not yet home.
#[derive(Clone)]
pub struct Contents {
    pub(super) context: Arc<Context>,
}

impl Contents {
    pub(crate) fn new(context: Arc<Context>) -> Contents {
        Contents { context }
    }

    /// What is recorded outside of the vault, if anything is.
    pub(crate) fn freshness(&self) -> Option<&Freshness> {
        self.context.freshness.as_ref()
    }

    /// Takes on a stored file that has just been created, empty. It counts as
    /// opened once.
    ///
    /// # Errors
    /// When the kernel gives no random bytes for its id.
    pub fn adopt(&self, node: NodeRef, file: FileRef, home: Home) -> Result<Arc<Content>> {
        let mut id = [0; FileId::LEN];
        getrandom::fill(&mut id).map_err(|_| Error::Entropy)?;
        self.context.table.synced_alone(node.id());
        self.context.table.forget(node.id());
        let content = Content::newborn(&self.context, Opened { node, file }, FileId(id), home);
        content.note_created();
        Ok(self.context.table.insert(Arc::new(content)))
    }

    /// Opens a stored file: checks its header and length before any read. With
    /// `home`, also that the file belongs under the name it was found by.
    ///
    /// # Errors
    /// [`Error::Damaged`], or what the store reported.
    pub fn open(&self, node: &NodeRef, home: Option<Home>) -> Result<Arc<Content>> {
        if let Some(follower) = &self.context.follower {
            let opened = Opened { node: Arc::clone(node), file: node.open(Access::Read)? };
            let content = Content::open_following(&self.context, follower, &opened, home)?;
            return Ok(self.context.table.replace(Arc::new(content)));
        }
        let table = &self.context.table;
        let opening = table.openings.begin(node.id());
        let content = loop {
            let retirements = opening.retirements();
            if let Some(content) = table.find(node.id()) {
                break content;
            }
            let access = if self.context.writable { Access::ReadWrite } else { Access::Read };
            let opened = Opened { node: Arc::clone(node), file: node.open(access)? };
            let content = Content::open(&self.context, opened, home)?;
            if opening.retirements() == retirements {
                table.check_seen(&content)?;
            }
            if let Some(content) = table.insert_opened(content, &opening, retirements) {
                break content;
            }
        };
        content.check_live(home).inspect_err(|_| content.released())?;
        Ok(content)
    }

    /// Nobody has anything of a stored file any more, the kernel included.
    pub(crate) fn forget(&self, inode: InodeId) {
        self.context.table.forget(inode);
    }

    /// Whether others may write to the vault meanwhile.
    pub(crate) fn follows(&self) -> bool {
        self.context.follower.is_some()
    }

    /// Makes durable what is pending of a stored file, live or released; it
    /// is about to replace another (rule 6).
    ///
    /// # Errors
    /// What the store reports.
    pub fn make_durable(&self, node: &NodeRef) -> Result<()> {
        if !self.context.rules.keeps(Rule::SourceBeforeReplace) {
            return Ok(());
        }
        if let Some(content) = self.live(node.id()) {
            return content.sync_pending();
        }
        let table = &self.context.table;
        let release = lock(&table.unsynced).files.get(&node.id()).copied();
        if let Some(release) = release {
            node.open(Access::ReadWrite)?.sync_data()?;
            table.synced(&HashMap::from([(node.id(), release)]));
        }
        Ok(())
    }

    /// Attributes of a stored file change: the next sync of the file makes
    /// them durable too.
    pub(crate) fn note_attribute(&self, inode: InodeId, attribute: Attribute) {
        self.context.table.attributed().note(inode, attribute);
    }

    /// Whether an ordering rule is kept.
    #[must_use]
    pub fn keeps(&self, rule: Rule) -> bool {
        self.context.rules.keeps(rule)
    }

    /// The live content of an inode, if there is one.
    #[must_use]
    pub fn live(&self, inode: InodeId) -> Option<Arc<Content>> {
        lock(&self.context.table.live).get(&inode).cloned()
    }

    /// How many contents have ceased to be live so far. What has no live
    /// content now had none either since this was last the same.
    pub(crate) fn retired(&self) -> u64 {
        self.context.table.retired.load(Ordering::Acquire)
    }

    /// Takes an entry out of the tree that a crash has left unfinished.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn put_aside(&self, parent: &dyn Node, stored: &[u8], node: &NodeRef) -> Result<()> {
        super::aside::put(&self.context, parent, stored, node)
    }

    /// Makes durable every file and special record of a directory that never
    /// was.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn finish_files_of(&self, directory: DirectoryId) -> Result<()> {
        self.finish_specials_of(directory)?;
        let table = &self.context.table;
        if !table.unsynced().is_empty() {
            return crate::committer::commit_pending(&self.context);
        }
        let pending = table.pending();
        let new = |content: &&Arc<Content>| {
            let state = content.read_state();
            let is_in = state.header.directory == directory || state.header.linked;
            is_in && !state.settled && state.record.is_none() && !state.unlinked
        };
        let new: Vec<&Content> = pending.iter().filter(new).map(|content| &**content).collect();
        if new.is_empty() { Ok(()) } else { commit_all(&self.context, &new, Extent::File).map(drop) }
    }

    /// Whether a crash may explain a file that is not whole.
    pub(crate) fn is_recovering(&self) -> bool {
        self.context.has_crashed()
    }

    /// The plain length of a regular file that is not live, from its stored length.
    ///
    /// # Errors
    /// [`Damage::Length`] when no plain length is stored so.
    pub fn plain_len(&self, stored: u64) -> Result<u64> {
        if stored == 0 && self.context.has_crashed() {
            return Ok(0);
        }
        let plain = self.context.geometry.plain_len(StoredLen(stored));
        plain.map(|len| len.0).ok_or(Error::Damaged(Damage::Length { stored }))
    }
}

impl Content {
    /// The last handle was closed: what is pending is written out without a
    /// barrier, and the content is dropped when nothing more is pending.
    pub fn released(self: &Arc<Self>) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if let Err(error) = self.write_out() {
            self.context.note_error("write out", &error);
        }
        self.context.table.retire(self);
        self.context.wake_if_many();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use strongroom_format::vault::Suite;
    use strongroom_store::Store;
    use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
    use strongroom_store::memory::MemoryStore;
    use strongroom_units::BlockSize;

    use super::*;
    use crate::namespace::Opening;
    use crate::support;

    /// The background lists contents, and drops them some barriers later. Were
    /// it to drop another content of the same file then, the next to open the
    /// file would read what is at home, beside one that holds newer data.
    #[test]
    fn only_the_listed_content_is_retired() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(store);
        let (entry, listed) = support::create_file(vault.namespace(), "file");
        support::write(&listed, 0, b"old").unwrap();
        listed.sync().unwrap();
        vault.namespace().release(entry.number);

        let opening = Opening { write: true, ..Opening::default() };
        let newer = vault.namespace().open(entry.number, opening).unwrap();
        assert!(!Arc::ptr_eq(&listed, &newer), "the first was home when it was released");
        support::write(&newer, 0, b"new").unwrap();
        newer.context.table.retire(&listed);
        vault.namespace().release(entry.number);

        let again = vault.namespace().open(entry.number, opening).unwrap();
        assert_eq!(support::read_all(&again).unwrap(), b"new");
    }

    /// A rename commits the file that it moves without a handle of it. What
    /// its commit has taken is neither pending nor in a record yet, and lost
    /// from sight if whoever closes the file meanwhile drops the content.
    #[test]
    fn what_is_being_committed_is_not_retired() {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
        let (entry, content) = support::create_file(vault.namespace(), "file");
        let block = BlockSize::MIN.bytes();
        support::write(&content, 0, &vec![7; 2 * block as usize]).unwrap();
        content.sync().unwrap();
        content.set_len(block).unwrap();
        vault.namespace().release(entry.number);

        let late = Effect::Late(200);
        store.fail(Plan { call: Some(Call::SyncData), after: 0, times: 1, effect: late });
        let before = store.fired();
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| content.sync_pending());
            while store.fired() == before {
                assert!(!commit.is_finished(), "the commit has a barrier to wait for");
                std::thread::sleep(Duration::from_millis(1));
            }
            content.context.table.retire(&content);
            commit.join().expect("it commits").unwrap();
        });

        let again = vault.namespace().open(entry.number, Opening::default()).unwrap();
        assert_eq!(again.plain_len(), block);
    }

    /// A file that was released without a barrier is remembered as such. Were
    /// it still after a sync of the file, the next rename would write its
    /// header page again in place, and a power cut could take what the sync had
    /// promised.
    #[test]
    fn what_was_synced_waits_for_no_barrier() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(store);
        let (entry, content) = support::create_file(vault.namespace(), "file");
        support::write(&content, 0, b"text").unwrap();
        vault.namespace().release(entry.number);
        let opening = Opening { write: true, ..Opening::default() };
        let open = || vault.namespace().open(entry.number, opening).unwrap();
        let is_never_durable = |content: &Content| {
            let begun = content.context.barriers.begun();
            content.read_state().was_never_durable(begun)
        };

        let content = open();
        assert!(is_never_durable(&content), "no barrier has come");
        content.sync().unwrap();
        vault.namespace().release(entry.number);
        assert!(!is_never_durable(&open()));
    }
}
