//! The table of live contents: open, or with something that has yet to reach
//! its home.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use strongroom_format::vault::FileId;
use strongroom_store::{Access, FileRef, InodeId, Node, NodeRef};
use strongroom_units::StoredLen;

use super::openings::{Opening, Openings};
use super::{Content, Home, Opened};
use crate::context::Context;
use crate::error::{Damage, Error, Result};
use crate::freshness::{Freshness, Version};
use crate::rules::Rule;
use crate::waiting::{Attribute, StaleHome};

/// Live contents.
#[derive(Default)]
pub(crate) struct Table {
    live: Mutex<HashMap<InodeId, Arc<Content>>>,
    openings: Openings,
    /// How many contents have ceased to be live.
    retired: AtomicU64,
    /// Of files that are not live, the header page that they had when they were
    /// last: whoever has read them, the kernel's page cache for one, has it of
    /// that state, and of no other.
    seen: Mutex<HashMap<InodeId, Version>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// The live contents of these files, in locking order.
    fn of(&self, inodes: &[InodeId]) -> Vec<Arc<Content>> {
        let live = lock(&self.live);
        let mut contents: Vec<_> = inodes.iter().filter_map(|inode| live.get(inode).cloned()).collect();
        contents.sort_unstable_by_key(|content| content.order());
        contents
    }

    /// Every live content, in locking order.
    fn all(&self) -> Vec<Arc<Content>> {
        let mut contents: Vec<_> = lock(&self.live).values().cloned().collect();
        contents.sort_unstable_by_key(|content| content.order());
        contents
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
        let waiting = &content.context.waiting;
        let is_named = state.naming.is_named();
        if is_named && (state.is_dirty() || state.is_journaled()) {
            return;
        }
        if state.unsynced.is_some() && is_named {
            let directory = (!state.header.linked).then_some(state.header.directory);
            waiting.note_released(content.inode, state.birth, directory);
        }
        // Behind that: a barrier that fails from now on finds it there. One that has failed since
        // it was written out makes the next commit ask for the file's own.
        if is_named && state.may_have_lost(&content.context.barriers) {
            state.has_failed = true;
            state.pending.note_change();
            waiting.note_pending(content.inode);
            return;
        }
        if let Some(error) = state.losses.untold().filter(|_| is_named) {
            waiting.note_lost(content.inode, error.clone());
        }
        if let Some(since) = state.moved.filter(|since| !content.context.barriers.covers(*since)) {
            waiting.note_moved(content.inode, since);
        }
        content.context.release(state.pending.take_slots());
        match state.version().filter(|_| is_named) {
            Some(version) => lock(&self.seen).insert(content.inode, version),
            None => lock(&self.seen).remove(&content.inode),
        };
        if !is_named {
            content.file.abandon();
        }
        waiting.note_clean(content.inode);
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
    fn check_seen(&self, content: &Content, doubted: bool) -> Result<()> {
        let seen = lock(&self.seen).get(&content.inode).copied();
        match seen {
            Some(seen) if content.read_state().version() != Some(seen) => Err(match doubted {
                // An older one may be all that is left of what nobody was promised.
                true => Error::Damaged(Damage::Unfinished),
                false => {
                    Error::Damaged(Damage::Page("a file is another state than this mount has last seen"))
                }
            }),
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
    pub(crate) context: Arc<Context>,
    pub(super) table: Arc<Table>,
}

impl Contents {
    pub(crate) fn new(context: Arc<Context>) -> Contents {
        Contents { context, table: Arc::default() }
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
        self.context.waiting.synced_alone(node.id());
        self.context.waiting.take_lost(node.id());
        self.table.forget(node.id());
        let content = Content::newborn(self, Opened { node, file, doubted: false }, FileId(id), home);
        content.note_created();
        Ok(self.table.insert(Arc::new(content)))
    }

    /// Opens a stored file: checks its header and length before any read. With
    /// `home`, also that the file belongs under the name it was found by.
    ///
    /// # Errors
    /// [`Error::Damaged`], or what the store reported.
    pub fn open(&self, node: &NodeRef, home: Option<Home>) -> Result<Arc<Content>> {
        if let Some(follower) = &self.context.follower {
            let file = node.open(Access::Read)?;
            let opened = Opened { node: Arc::clone(node), file, doubted: false };
            let content = Content::open_following(self, follower, &opened, home)?;
            return Ok(self.table.replace(Arc::new(content)));
        }
        let table = &self.table;
        let opening = table.openings.begin(node.id());
        let content = loop {
            let retirements = opening.retirements();
            if let Some(content) = table.find(node.id()) {
                break content;
            }
            let access = if self.context.writable { Access::ReadWrite } else { Access::Read };
            let doubted = self.context.waiting.is_doubted(node.id());
            let opened = Opened { node: Arc::clone(node), file: node.open(access)?, doubted };
            let content = Content::open(self, opened, home)?;
            if opening.retirements() == retirements {
                table.check_seen(&content, doubted)?;
                if doubted {
                    content.found_whole();
                }
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
        self.table.forget(inode);
    }

    /// The last name of a stored file has been removed: what is lost of it is no
    /// loss to be told of.
    pub(crate) fn removed(&self, inode: InodeId) {
        self.context.waiting.trust(inode);
        self.context.waiting.take_lost(inode);
        self.context.untold.told(inode);
    }

    /// No file will be opened any more: who still has one keeps it, and the
    /// context keeps none.
    pub(crate) fn end(&self) {
        let live = std::mem::take(&mut *lock(&self.table.live));
        drop(live);
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
        let waiting = &self.context.waiting;
        if let Some(lost) = waiting.take_lost(node.id()) {
            self.context.untold.told(node.id());
            return Err(lost.error);
        }
        if let Some(content) = self.live(node.id()) {
            return content.sync_pending();
        }
        if let Some(release) = waiting.release_of(node.id()) {
            node.open(Access::ReadWrite)?.sync_data()?;
            waiting.synced(&HashMap::from([(node.id(), release)]));
        }
        Ok(())
    }

    /// Attributes of a stored file change: the next sync of the file makes
    /// them durable too.
    pub(crate) fn note_attribute(&self, inode: InodeId, attribute: Attribute) {
        self.context.waiting.attributed().note(inode, attribute);
    }

    /// A directory has been renamed, and has left a home.
    pub(crate) fn note_stale_home(&self, stale: StaleHome) {
        let begun = self.context.barriers.begun();
        self.context.waiting.stale_homes().note(stale, begun);
        self.context.wake_if_many();
    }

    /// A directory is going to stand under a home again that may be waiting to
    /// be removed.
    pub(crate) fn keep_home(&self, directory: InodeId, name: &[u8]) {
        self.context.waiting.stale_homes().keep(directory, name);
    }

    /// Every live content, in locking order.
    pub(crate) fn all(&self) -> Vec<Arc<Content>> {
        self.table.all()
    }

    /// Files that may have something to commit, in locking order.
    pub(super) fn pending(&self) -> Vec<Arc<Content>> {
        self.table.of(&self.context.waiting.pending())
    }

    /// Whether an ordering rule is kept.
    #[must_use]
    pub fn keeps(&self, rule: Rule) -> bool {
        self.context.rules.keeps(rule)
    }

    /// The live content of an inode, if there is one.
    #[must_use]
    pub fn live(&self, inode: InodeId) -> Option<Arc<Content>> {
        lock(&self.table.live).get(&inode).cloned()
    }

    /// How many contents have ceased to be live so far. What has no live
    /// content now had none either since this was last the same.
    pub(crate) fn retired(&self) -> u64 {
        self.table.retired.load(Ordering::Acquire)
    }

    /// Takes an entry out of the tree that a crash has left unfinished.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn put_aside(&self, parent: &dyn Node, stored: &[u8], node: &NodeRef) -> Result<()> {
        super::aside::put(&self.context, parent, stored, node)
    }

    /// Whether a crash may explain a file that is not whole.
    pub(crate) fn is_recovering(&self) -> bool {
        self.context.has_crashed()
    }

    /// Whether a barrier that failed may explain that this file or special record is
    /// not whole.
    pub(crate) fn is_doubted(&self, inode: InodeId) -> bool {
        self.context.waiting.is_doubted(inode)
    }

    /// What a barrier that failed has taken is out of the tree. If whoever syncs everything
    /// was not told of that barrier, whoever ends the mount is.
    pub(crate) fn note_lost_file(&self, inode: InodeId) {
        if !self.context.untold.has(inode) {
            self.context.waiting.take_lost(inode);
        }
        let error = Error::Damaged(Damage::Unfinished);
        self.context.note_error("taken out of the tree", &error);
    }

    /// A special record has been found whole.
    pub(crate) fn trust(&self, inode: InodeId) {
        self.context.waiting.trust(inode);
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
    /// What was doubted is there as it was seen last.
    fn found_whole(&self) {
        self.context.waiting.trust(self.inode);
        if let (Some(freshness), Some(version)) = (&self.context.freshness, self.read_state().version()) {
            freshness.await_version(self.id, version);
        }
    }

    /// The last handle was closed: what is pending is written out, and the content
    /// is dropped when nothing more is pending.
    pub fn released(self: &Arc<Self>) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if let Err(error) = self.write_out() {
            self.context.note_error("write out", &error);
        }
        self.table.retire(self);
        self.context.wake_if_many();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use strongroom_format::vault::Suite;
    use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
    use strongroom_store::memory::MemoryStore;
    use strongroom_store::{RenameMode, Store};
    use strongroom_units::BlockSize;

    use super::*;
    use crate::namespace::{Opening, ROOT};
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
        newer.table.retire(&listed);
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
            content.table.retire(&content);
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

    /// The store tells of a loss once, and that was the background's barrier: whoever
    /// syncs everything is told, and whoever opens the file again and syncs it.
    #[test]
    fn what_a_barrier_of_the_store_loses_of_a_closed_file_is_told() {
        const EIO: i32 = 5;
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
        let is_told = |result: Result<()>| {
            assert!(matches!(result, Err(Error::Store(error)) if error.errno() == EIO));
        };
        let (entry, content) = support::create_file(vault.namespace(), "file");
        support::write(&content, 0, b"text").unwrap();
        let context = Arc::clone(&content.context);
        drop(content);
        vault.namespace().release(entry.number);

        store.fail(Plan::once(0, EIO).of(Call::SyncStore));
        is_told(context.sync_store());
        let released = context.waiting.unsynced();
        context.sync_store().unwrap();
        context.waiting.synced(&released);

        is_told(vault.sync());
        vault.sync().unwrap();
        let opening = Opening { write: true, ..Opening::default() };
        let content = vault.namespace().open(entry.number, opening).unwrap();
        is_told(content.sync());
        content.sync().unwrap();
        vault.namespace().release(entry.number);
        drop(content);

        // A file is not renamed over another before its own loss is told.
        let (entry, content) = support::create_file(vault.namespace(), "other");
        support::write(&content, 0, b"text").unwrap();
        drop(content);
        vault.namespace().release(entry.number);
        store.heal();
        store.fail(Plan::once(0, EIO).of(Call::SyncStore));
        is_told(context.sync_store());
        let rename = || vault.namespace().rename(ROOT, b"other", ROOT, b"file", RenameMode::Replace);
        is_told(rename());
        rename().unwrap();
    }

    /// A barrier of another kind may cover a released file without taking it from the list.
    #[test]
    fn what_a_barrier_has_covered_is_not_doubted_when_a_later_one_fails() {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
        let (entry, content) = support::create_file(vault.namespace(), "file");
        support::write(&content, 0, b"text").unwrap();
        let (context, inode) = (Arc::clone(&content.context), content.inode);
        drop(content);
        vault.namespace().release(entry.number);
        context.sync_store().unwrap();
        for _ in 0..2 {
            assert!(context.waiting.release_of(inode).is_some());
            store.heal();
            store.fail(Plan::once(0, 5).of(Call::SyncStore));
            context.sync_store().unwrap_err();
            assert!(!context.waiting.is_doubted(inode));
        }
        let (entry, content) = support::create_file(vault.namespace(), "other");
        let inode = content.inode;
        drop(content);
        vault.namespace().release(entry.number);
        store.heal();
        store.fail(Plan::once(0, 5).of(Call::SyncStore));
        context.sync_store().unwrap_err();
        assert!(context.waiting.is_doubted(inode));
    }
}
