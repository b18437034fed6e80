//! Opening a stored file, and settling what a crash has left of it: section 7
//! of the format, rule by rule. Outside of crashed sessions everything that is
//! not whole is an error.

use crate::sync::atomic::AtomicUsize;
use crate::sync::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use strongroom_engine::Buffer;
use strongroom_format::vault::FileId;
use strongroom_format::vault::block::BlockContext;
use strongroom_format::vault::names::parse_xattr_name;
use strongroom_format::vault::node::{Entry, HeaderFields, Node};
use strongroom_store::{NodeRef, SetTime, Timestamp};
use strongroom_units::{BlockIndex, PAGE_LEN, PlainLen, StoredLen};

use super::aside;
use super::freshness::Watch;
use super::images::Images;
use super::pages::{OpenedPage, malformed};
use super::state::{Image, NodeSlot, PageAddress, Slot, State};
use super::{Content, Home, Opened, Promise};
use crate::context::{Context, Recovered};
use crate::error::{Damage, Error, Result};
use crate::journal::{Place, Segments};
use crate::reading::read_at;

/// What a journal says of one file.
#[derive(Clone)]
pub(crate) struct Replayed {
    pub(crate) segments: Arc<Segments>,
    pub(crate) pages: BTreeMap<PageAddress, Place>,
    /// Images of blocks, with the entry each was sealed under.
    pub(crate) blocks: BTreeMap<u64, (Place, Entry)>,
    pub(crate) stored_len: StoredLen,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) path_hint: Vec<u8>,
    pub(crate) sequence: u64,
    /// The last record's tag, which tells it from all others.
    pub(crate) tag: [u8; 16],
}

/// The header page's bytes look as a crash may leave those of a page that was
/// written for the first time: a sector of it was never written.
fn is_torn(page: &[u8]) -> bool {
    page.len() < PAGE_LEN || page.chunks(512).any(|sector| sector.iter().all(|&byte| byte == 0))
}

/// A header page is written in place once, in the session that creates its
/// file, or one that renewed that: what names another was not torn by a crash.
fn may_be_new(context: &Context, page: &[u8]) -> bool {
    aside::sealed_in(page).is_none_or(|session| context.is_kin_of_crashed(session))
}

/// Removes the extended attributes of a file whose id is lost: their values
/// are bound to it, and no longer open.
fn drop_attributes(context: &Context, opened: &Opened) -> Result<()> {
    let drop_all = || -> std::result::Result<bool, strongroom_store::Error> {
        let names = opened.node.xattr_names()?;
        let mut dropped = false;
        for name in names.iter().filter(|name| !matches!(parse_xattr_name(name), Ok(None))) {
            opened.node.remove_xattr(name)?;
            dropped = true;
        }
        Ok(dropped)
    };
    match drop_all() {
        Ok(false) => {}
        // Durable before a header page with the new id can be.
        Ok(true) => opened.file.sync_all()?,
        // The file is whole without; reading such an attribute says so too.
        Err(error) => context.note_error("removing the attributes of a lost file", &error.into()),
    }
    Ok(())
}

impl Content {
    /// A new, empty file.
    pub(super) fn newborn(context: &Arc<Context>, opened: Opened, id: FileId, home: Home) -> Content {
        let header = HeaderFields {
            groups: 1,
            home: home.mac,
            directory: home.directory,
            birth: context.listed_session(),
            ..HeaderFields::default()
        };
        let mut state = State::new(context.geometry, header);
        state.nodes.insert(0, NodeSlot::new(Slot::fresh(Node::new_header(&header), false), 0));
        Content::with_state(context, opened, id, state)
    }

    pub(super) fn with_state(
        context: &Arc<Context>,
        opened: Opened,
        id: FileId,
        mut state: State,
    ) -> Content {
        state.segments = context.journal.as_ref().map(|journal| Arc::clone(journal.segments()));
        let geometry = context.geometry;
        Content {
            context: Arc::clone(context),
            id,
            inode: opened.node.id(),
            node: context.follower.as_ref().map(|_| opened.node),
            file: opened.file,
            blocks: BlockContext::new(context.suite, geometry.block_size(), context.generation, id),
            path_hint: Mutex::new(Vec::new()),
            handles: AtomicUsize::new(0),
            lost_header: false,
            emptied: false,
            committing: Mutex::new(()),
            state: RwLock::new(state),
        }
    }

    /// A file that has just been created has its header page to be written.
    pub(super) fn note_created(&self) {
        let mut state = self.write_state();
        state.dirty_since = Some(Instant::now());
        drop(state);
        self.context.note_pending(self);
    }

    /// Opens a stored file.
    pub(super) fn open(context: &Arc<Context>, opened: Opened, home: Option<Home>) -> Result<Content> {
        let mut page = Buffer::new(PAGE_LEN);
        let read = read_at(&*opened.file, &mut page, 0)?;
        let stored = opened.file.len()?;
        if context.has_crashed()
            && (read == 0 || is_torn(&page[..read]))
            && may_be_new(context, &page[..read])
        {
            return Self::open_lost(context, opened, home);
        }
        if read < PAGE_LEN {
            return Err(Error::Damaged(Damage::Length { stored }));
        }
        let replayed = context.replayed(&page);
        let content = match replayed {
            Some(replayed) => Self::open_replayed(context, opened, &replayed)?,
            None => {
                let page = context.pages().open(page, PageAddress::HEADER, None)?;
                let node = Arc::clone(&opened.node);
                let content = Self::from_header(context, opened, &page, stored)?;
                content.settle(&node)?;
                content
            }
        };
        content.check_home(home)?;
        Ok(content)
    }

    /// The file was created in a session that crashed, and no part of it was
    /// made durable: it is empty. What is stored of it is kept aside.
    fn open_lost(context: &Arc<Context>, opened: Opened, home: Option<Home>) -> Result<Content> {
        let mut id = [0; FileId::LEN];
        getrandom::fill(&mut id).map_err(|_| Error::Entropy)?;
        let inode = opened.node.id();
        let mut recovered = Recovered::Emptied;
        if context.writable {
            if aside::keep(context, &opened)? {
                recovered = Recovered::SetAside;
            }
            opened.file.set_len(0)?;
            drop_attributes(context, &opened)?;
        }
        let mut content = Self::newborn(context, opened, FileId(id), home.unwrap_or(Home::UNBOUND));
        content.emptied = !context.writable;
        if context.writable {
            content.note_created();
        }
        context.note_recovered(inode, recovered);
        Ok(content)
    }

    pub(super) fn from_header(
        context: &Arc<Context>,
        opened: Opened,
        page: &OpenedPage,
        home_len: u64,
    ) -> Result<Content> {
        let node = Node::decode(page.header.kind, page.sealed()).map_err(|_| malformed())?;
        let header = node.header().ok_or_else(malformed)?;
        let image = Image { sequence: node.sequence(), tag: page.header.tag };
        context.check_version(page.header.file, &image)?;
        let mut state = State::new(context.geometry, header);
        state.nodes.insert(0, NodeSlot::read(node, image));
        state.born = true;
        state.settled = header.settled;
        state.home_len = home_len;
        state.watch = Watch::begin(&state);
        state.committed_len = header.plain_len.0;
        state.unsynced = context.table.is_unsynced(opened.node.id());
        Ok(Content::with_state(context, opened, page.header.file, state))
    }

    /// Opens a file of which a crashed session's journal holds the newest
    /// images: they are read from there until a checkpoint brings them home.
    pub(crate) fn open_replayed(
        context: &Arc<Context>,
        opened: Opened,
        replayed: &Replayed,
    ) -> Result<Content> {
        let mut page = Buffer::new(PAGE_LEN);
        match replayed.pages.get(&PageAddress::HEADER) {
            Some(&place) => replayed.segments.read(place, &mut page)?,
            None => read_at(&*opened.file, &mut page, 0)?,
        };
        let page = context.pages().open(page, PageAddress::HEADER, None)?;
        let stored = opened.file.len()?;
        let content = Self::from_header(context, opened, &page, stored)?;
        {
            let mut state = content.write_state();
            state.segments = Some(Arc::clone(&replayed.segments));
            state.committed_pages = replayed.pages.clone();
            state.record = Some(replayed.sequence);
            for (&block, (place, entry)) in &replayed.blocks {
                let block = BlockIndex(block);
                content.load_group(&mut state, block.group())?;
                let node = state.nodes.get(&block.group().0);
                // An image is good only while the newest page still names it.
                if node.and_then(|node| node.slot.page.entry(block.entry())) == Some(*entry) {
                    state.images.insert(block.0, *place);
                    state.committed_images.insert(block.0, *place);
                }
            }
            let len = replayed.stored_len.0;
            if context.writable && state.home_len > len {
                content.file.set_len(len)?;
                state.home_len = len;
            }
        }
        if context.writable {
            let (accessed, modified) = (SetTime::To(replayed.accessed), SetTime::To(replayed.modified));
            content.file.set_times(accessed, modified)?;
        }
        Ok(content)
    }

    /// Holds the stored length against the header, and settles what a crash
    /// explains.
    fn settle(&self, node: &NodeRef) -> Result<()> {
        let (expected, stored, unsettled) = {
            let state = self.read_state();
            let expected = self.geometry().stored_len(state.plain_len()).0;
            let torn = self.context.may_be_torn(state.header.birth);
            (expected, state.home_len, torn && !state.settled)
        };
        if stored > expected && self.context.has_crashed() {
            if self.context.writable {
                self.file.set_len(expected)?;
                self.write_state().home_len = expected;
            }
            self.context.note_recovered(self.inode, Recovered::Trimmed);
        } else if stored != expected && !unsettled {
            return Err(Error::Damaged(Damage::Length { stored }));
        }
        if unsettled { self.trim_to_what_verifies(node) } else { Ok(()) }
    }

    /// A file that was never made durable ends before the first of its blocks
    /// that does not open. The whole of it is kept aside.
    fn trim_to_what_verifies(&self, node: &NodeRef) -> Result<()> {
        let verification = self.verify(&mut |_| {})?;
        let Some(good) = verification.good_len() else {
            return self.complete();
        };
        let mut recovered = Recovered::Trimmed;
        if self.context.writable {
            let opened = Opened { node: Arc::clone(node), file: Arc::clone(&self.file) };
            if aside::keep(&self.context, &opened)? {
                recovered = Recovered::SetAside;
            }
        }
        self.context.note_recovered(self.inode, recovered);
        let mut state = self.write_state();
        self.trim(&mut state, PlainLen(good))
    }

    /// All its blocks open; the hole at its end may be missing from the store.
    fn complete(&self) -> Result<()> {
        if self.context.writable {
            let mut state = self.write_state();
            let len = self.geometry().stored_len(state.plain_len()).0;
            if state.home_len < len {
                self.file.set_len(len)?;
                state.home_len = len;
            }
            state.unsynced = true;
            self.context.note_pending(self);
        }
        Ok(())
    }

    /// Cuts the file in memory, without reading what lies behind, and has the
    /// rest written by the next commit.
    fn trim(&self, state: &mut State, len: PlainLen) -> Result<()> {
        state.header.plain_len = len;
        self.forget_behind(state, len)?;
        if self.context.writable {
            let stored = self.geometry().stored_len(len).0;
            self.file.set_len(stored)?;
            state.home_len = stored;
            state.committed_len = len.0;
            state.mark_dirty();
            self.context.note_pending(self);
        }
        Ok(())
    }

    pub(super) fn check_home(&self, home: Option<Home>) -> Result<()> {
        if self.context.has_crashed() {
            self.settle_links()?;
        }
        let Some(home) = home else { return Ok(()) };
        let bound = {
            let state = self.read_state();
            state.header.linked || state.header.home == home.mac
        };
        if bound {
            return Ok(());
        }
        if !self.context.has_crashed() {
            return Err(Error::Damaged(Damage::Home));
        }
        self.context.note_recovered(self.inode, Recovered::Moved);
        if self.context.writable {
            let mut state = self.write_state();
            state.header.home_before = state.header.home;
            state.header.home = home.mac;
            state.header.directory = home.directory;
            self.note_dirty(&mut state, &mut Promise::new(None, 0));
        }
        Ok(())
    }
}

impl Content {
    /// A further name may have reached the store, and the header that says so
    /// not: the file is then bound to no name, or the crash would be taken
    /// for damage under one of them later.
    fn settle_links(&self) -> Result<()> {
        if self.read_state().header.linked || self.file.attributes()?.links < 2 {
            return Ok(());
        }
        let mut state = self.write_state();
        state.header.linked = true;
        if self.context.writable {
            self.note_dirty(&mut state, &mut Promise::new(None, 0));
        }
        Ok(())
    }
}

impl State {
    /// The state of a file of which only the header fields are known.
    pub(super) fn new(geometry: strongroom_format::vault::Geometry, header: HeaderFields) -> State {
        State {
            geometry,
            header,
            nodes: HashMap::new(),
            root_map: None,
            maps: HashMap::new(),
            born: false,
            settled: false,
            unsynced: false,
            fresh_bytes: 0,
            journal_small: false,
            home_len: 0,
            segments: None,
            images: Images::default(),
            committed_images: Images::default(),
            committed_pages: BTreeMap::new(),
            committed_len: 0,
            record: None,
            cut: None,
            cut_taken: None,
            cut_late: None,
            punched: Vec::new(),
            failures: 0,
            following: None,
            watch: None,
            writes: 0,
            touched: None,
            promised: 0,
            dirty_since: None,
            committing: false,
            unlinked: false,
            gone: false,
        }
    }
}
