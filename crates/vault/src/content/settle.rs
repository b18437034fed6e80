//! Opening a stored file, and finishing what a crash has left of it: section 7
//! of the format, rule by rule. A crash takes away what was never durable, and
//! changes nothing else: no file is bound to another name, cut to a part of
//! itself, or made of several states.

use crate::sync::atomic::AtomicUsize;
use crate::sync::{Mutex, RwLock};
use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::FileId;
use strongroom_format::vault::block::BlockContext;
use strongroom_format::vault::node::{HeaderFields, Node};
use strongroom_store::SetTime;
use strongroom_units::{BlockIndex, PAGE_LEN};

use super::aside;
use super::images::Images;
use super::journaled::{Committed, Journaled};
use super::state::{NodeSlot, Slot, State};
use super::{Content, Contents, Home, Opened, Promise};
use crate::context::{Context, Recovered};
use crate::error::{Damage, Error, Result};
use crate::journal::replay::Replayed;
use crate::life::Birth;
use crate::page::{Image, OpenedPage, PageAddress, malformed};
use crate::reader_rules::ReaderRule;
use crate::reading::read_at;

/// The header page's bytes look as a crash may leave those of a page that was
/// written for the first time: a sector of it was never written.
fn is_torn(page: &[u8]) -> bool {
    page.len() < PAGE_LEN || page.chunks(512).any(|sector| sector.iter().all(|&byte| byte == 0))
}

/// Nothing of the file was made durable before the crash.
const UNFINISHED: Error = Error::Damaged(Damage::Unfinished);

impl Content {
    /// A new, empty file.
    pub(super) fn newborn(contents: &Contents, opened: Opened, id: FileId, home: Home) -> Content {
        let context = &contents.context;
        let header = HeaderFields {
            home: home.mac,
            directory: home.directory,
            birth: context.listed_session(),
            ..HeaderFields::default()
        };
        let mut state = State::new(context.geometry, header);
        state.nodes.insert(0, NodeSlot::new(Slot::fresh(Node::new_header(&header), false), 0));
        Content::with_state(contents, opened, (id, context.generation), state)
    }

    pub(super) fn with_state(
        contents: &Contents,
        opened: Opened,
        (id, generation): (FileId, u32),
        mut state: State,
    ) -> Content {
        let context = &contents.context;
        state.journaled =
            Journaled::new(context.journal.as_ref().map(|journal| Arc::clone(journal.segments())));
        let geometry = context.geometry;
        Content {
            context: Arc::clone(context),
            table: Arc::clone(&contents.table),
            id,
            inode: opened.node.id(),
            node: context.follower.as_ref().map(|_| opened.node),
            file: opened.file,
            blocks: BlockContext::new(context.suite, geometry.block_size(), generation, id),
            path_hint: Mutex::new(Vec::new()),
            handles: AtomicUsize::new(0),
            lost_header: false,
            emptied: false,
            committing: Mutex::new(()),
            home_barrier: Mutex::new(()),
            state: RwLock::new(state),
            windows: Mutex::default(),
        }
    }

    /// A file that has just been created has its header page to be written.
    pub(super) fn note_created(&self) {
        self.write_state().pending.note_change();
        self.note_pending();
    }

    /// Opens a stored file.
    ///
    /// # Errors
    /// [`Damage::Unfinished`] when a crash explains that the file is not whole
    /// or not under its name: it was never durable, and is to be removed.
    pub(super) fn open(contents: &Contents, opened: Opened, home: Option<Home>) -> Result<Content> {
        let inode = opened.node.id();
        let outcome = Self::open_whole(contents, opened, home);
        if matches!(outcome, Err(UNFINISHED)) {
            contents.context.note_recovered(inode, Recovered::Removed);
        }
        outcome
    }

    fn open_whole(contents: &Contents, opened: Opened, home: Option<Home>) -> Result<Content> {
        let context = &contents.context;
        let doubted = opened.doubted;
        if doubted {
            opened.file.drop_cached();
        }
        let mut page = Buffer::new(PAGE_LEN);
        let read = read_at(&*opened.file, &mut page, 0)?;
        let stored = opened.file.len()?;
        // A header page is written in place by the session that creates its
        // file, or one that renewed that: what names another was not torn.
        let sealed_in = aside::sealed_in(&page[..read]);
        let torn = sealed_in.is_none_or(|session| context.may_have_torn(session));
        if doubted && is_torn(&page[..read]) {
            return Err(UNFINISHED);
        }
        if context.has_crashed() && torn && is_torn(&page[..read]) {
            return match context.has_writer() {
                true => Ok(Self::uncommitted(contents, opened, home)?),
                false => Err(UNFINISHED),
            };
        }
        if read < PAGE_LEN {
            return Err(Error::Damaged(Damage::Length { stored }));
        }
        let content = match context.replayed(&page) {
            Some(replayed) => Self::open_replayed(contents, opened, &replayed)?,
            None => {
                let page = match context.pages().open(page, PageAddress::HEADER, None) {
                    Err(Error::Damaged(_))
                        if doubted || (sealed_in.is_some() && torn && context.has_crashed()) =>
                    {
                        return Err(UNFINISHED);
                    }
                    page => page?,
                };
                let content = Self::from_header(contents, opened, &page, stored)?;
                content.settle(doubted)?;
                content
            }
        };
        content.check_home(home).map_err(|error| match error {
            Error::Damaged(Damage::Home) if doubted && !content.read_state().header.settled => UNFINISHED,
            error => error,
        })?;
        content.stands_since(home, context.waiting.moved_since(content.inode));
        Ok(content)
    }

    /// A file that a writer beside us has created and not committed yet.
    fn uncommitted(contents: &Contents, opened: Opened, home: Option<Home>) -> Result<Content> {
        let mut id = [0; FileId::LEN];
        getrandom::fill(&mut id).map_err(|_| Error::Entropy)?;
        let mut content = Self::newborn(contents, opened, FileId(id), home.unwrap_or(Home::UNBOUND));
        content.emptied = true;
        Ok(content)
    }

    pub(super) fn from_header(
        contents: &Contents,
        opened: Opened,
        page: &OpenedPage,
        home_len: u64,
    ) -> Result<Content> {
        let context = &contents.context;
        let node = Node::decode(page.header.kind, page.sealed()).map_err(|_| malformed())?;
        let header = node.header().ok_or_else(malformed)?;
        let image = Image { sequence: node.sequence(), tag: page.header.tag };
        context.check_version(page.header.file, &image)?;
        let mut state = State::new(context.geometry, header);
        state.nodes.insert(0, NodeSlot::read(node, image));
        // Whoever is told takes it; this content may be one of two, and go.
        let lost = context.waiting.lost(opened.node.id());
        let was_unsynced = lost.as_ref().is_some_and(|lost| lost.was_unsynced);
        let now = || context.barriers.written(context.barriers.moment());
        let unsynced = match context.waiting.unsynced_since(opened.node.id()) {
            Some(since) if !opened.doubted => Some(since),
            // As it is found it may be covered by the next.
            released => (released.is_some() || was_unsynced || opened.doubted).then(|| Some(now())),
        };
        if let Some(lost) = lost {
            state.losses.note(&lost.error);
        }
        // What barriers have lost before is told by what waits.
        state.unsynced = unsynced.map(|_| context.barriers.moment().ended);
        // What no barrier may have covered yet was released in this session.
        let is_durable =
            header.settled || (context.writable && unsynced.is_none() && !context.may_be_torn(header.birth));
        state.birth = match is_durable {
            true => Birth::Durable,
            false => Birth::Written { since: unsynced.flatten() },
        };
        state.home_len = home_len;
        Ok(Content::with_state(contents, opened, (page.header.file, page.header.generation), state))
    }

    /// Opens a file of which a crashed session's journal holds the newest
    /// images: they are read from there until a checkpoint brings them home.
    pub(crate) fn open_replayed(contents: &Contents, opened: Opened, replayed: &Replayed) -> Result<Content> {
        let context = &contents.context;
        let mut page = Buffer::new(PAGE_LEN);
        match replayed.pages.get(&PageAddress::HEADER) {
            Some(&place) => replayed.segments.read(place, &mut page)?,
            None => read_at(&*opened.file, &mut page, 0)?,
        };
        let page = context.pages().open(page, PageAddress::HEADER, None)?;
        Self::check_not_newer(context, &opened, &page)?;
        let stored = opened.file.len()?;
        let content = Self::from_header(contents, opened, &page, stored)?;
        {
            let mut state = content.write_state();
            let committed = Committed {
                record: replayed.sequence,
                len: state.plain_len().0,
                blocks: Images::default(),
                pages: replayed.pages.clone(),
            };
            state.journaled = Journaled::replayed(Arc::clone(&replayed.segments), committed);
            for (&block, (place, entry)) in &replayed.blocks {
                let block = BlockIndex(block);
                content.load_group(&mut state, block.group())?;
                let node = state.nodes.get(&block.group().0);
                // An image is good only while the newest page still names it.
                if node.and_then(|node| node.slot.page.entry(block.entry())) == Some(*entry) {
                    state.journaled.add_replayed(block.0, *place);
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

    /// What is home was in the journal before: the header page there is never
    /// newer than the journal's, nor another of the same number.
    fn check_not_newer(context: &Context, opened: &Opened, journaled: &OpenedPage) -> Result<()> {
        let mut page = Buffer::new(PAGE_LEN);
        if read_at(&*opened.file, &mut page, 0)? < PAGE_LEN {
            return Ok(());
        }
        let file = Some(journaled.header.file);
        let sequence = |page: &OpenedPage| {
            Node::decode(page.header.kind, page.sealed()).map(|node| node.sequence()).map_err(|_| malformed())
        };
        // What does not open is being written, and will be again.
        let Ok(home) = context.pages().open(page, PageAddress::HEADER, file) else { return Ok(()) };
        let (home_sequence, sequence) = (sequence(&home)?, sequence(journaled)?);
        let is_same = home.header.tag == journaled.header.tag;
        let is_newer = home_sequence > sequence || (home_sequence == sequence && !is_same);
        if is_newer && ReaderRule::NewerFile.is_kept() {
            return Err(Error::Damaged(Damage::Journaled));
        }
        Ok(())
    }

    /// Holds the stored length against the header. What a crash may have torn
    /// is whole, or was never durable.
    fn settle(&self, doubted: bool) -> Result<()> {
        let (expected, stored, unsettled) = {
            let state = self.read_state();
            let expected = self.geometry().stored_len(state.plain_len()).0;
            let torn = doubted || self.context.may_be_torn(state.header.birth);
            (expected, state.home_len, torn && !state.header.settled)
        };
        if stored > expected && (doubted || self.context.has_crashed()) {
            // It was extended, and the commit that says so never came.
            if self.context.writable {
                self.file.set_len(expected)?;
                self.write_state().home_len = expected;
            }
            self.context.note_recovered(self.inode, Recovered::Trimmed);
        } else if stored != expected && !unsettled && ReaderRule::StoredLength.is_kept() {
            return Err(Error::Damaged(Damage::Length { stored }));
        }
        if !unsettled {
            return Ok(());
        }
        if self.verify(&mut |_| {})?.damage.is_empty() { self.complete() } else { Err(UNFINISHED) }
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
            state.note_home_write(self.context.barriers.moment());
            self.note_pending();
        }
        Ok(())
    }

    /// As [`Content::check_home`], of a file that is open already: under
    /// another name, to which somebody may have linked it. Beside a writer no
    /// file is bound to its name.
    pub(crate) fn check_live(&self, home: Option<Home>) -> Result<()> {
        match home {
            Some(home)
                if self.context.follower.is_none()
                    && !self.belongs(home)
                    && ReaderRule::LiveHome.is_kept() =>
            {
                Err(Error::Damaged(Damage::Home))
            }
            _ => Ok(()),
        }
    }

    /// The file stands under its home, or the one before: a rename makes its
    /// new home durable first, so that a crash leaves it under one of the two.
    pub(super) fn check_home(&self, home: Option<Home>) -> Result<()> {
        let Some(home) = home else { return Ok(()) };
        let header = self.read_state().header;
        if header.linked || header.home == home.mac || !ReaderRule::Home.is_kept() {
            return Ok(());
        }
        if header.home_before == home.mac && home != Home::UNBOUND {
            if self.context.journal.is_some() {
                let mut state = self.write_state();
                state.header.home_before = header.home;
                state.header.home = home.mac;
                state.header.directory = home.directory;
                self.note_dirty(&mut state, &mut Promise::new(None, 0));
            }
            return Ok(());
        }
        if self.context.may_be_torn(header.birth) && !header.settled {
            return Err(UNFINISHED);
        }
        Err(Error::Damaged(Damage::Home))
    }
}

impl Content {
    /// The file was found under `home`, its home, after `begun` barriers of
    /// the store had begun: one that begins later covers that it stands there,
    /// and not under the home before any more.
    fn stands_since(&self, home: Option<Home>, begun: u64) {
        let Some(home) = home.filter(|_| self.context.writable) else { return };
        let mut state = self.write_state();
        let header = &state.header;
        if header.home == home.mac && header.home_before != [0; 16] && state.moved.is_none() {
            state.moved = Some(begun);
        }
    }

    /// The file is about to be renamed from where it stands. Nobody else
    /// renames it.
    ///
    /// # Errors
    /// [`Damage::Home`] when it does not belong there: to another name it is
    /// not bound then.
    pub(crate) fn check_source(&self, home: Home) -> Result<()> {
        if !ReaderRule::HomeOfSource.is_kept() {
            return Ok(());
        }
        self.check_home(Some(home))?;
        self.stands_since(Some(home), self.context.barriers.begun());
        Ok(())
    }
}
