//! Opening a stored file that [`Content::open`] refuses, to get out what can
//! still be read: one whose length is not its header's, or whose header page
//! is gone. For read-only vaults alone, and beside the table of live contents.

use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::geometry::{HEADER_SLOTS, first_group_of};
use strongroom_format::vault::map::Child;
use strongroom_format::vault::node::{HeaderFields, Node};
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_format::vault::{FileId, PageKind};
use strongroom_store::{Access, NodeRef};
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex, PAGE_LEN, PlainLen, StoredLen};

use super::state::{NodeSlot, Slot, State};
use super::{Content, Contents, Opened};
use crate::context::Context;
use crate::error::{Damage, Error, Result, errno};
use crate::page::PageAddress;
use crate::reading::read_at;

/// Node pages that are looked at for the file's id when the header page does
/// not tell it.
const NODES_ASKED: u64 = 64;

impl Contents {
    /// Opens a damaged stored file as far as it goes. It stays out of the
    /// table of live contents: it is dropped and not released.
    ///
    /// # Errors
    /// Damage when nothing can be read of it, `EINVAL` on a
    /// vault that is open for writing, or what the store reports.
    pub(crate) fn open_damaged(&self, node: &NodeRef) -> Result<Arc<Content>> {
        if self.context.writable {
            return Err(Error::Refused(errno::EINVAL));
        }
        let file = node.open(Access::Read)?;
        let opened = Opened { node: Arc::clone(node), file, doubted: false };
        Content::open_damaged(self, opened).map(Arc::new)
    }
}

impl Content {
    fn open_damaged(contents: &Contents, opened: Opened) -> Result<Content> {
        let context = &contents.context;
        let mut page = Buffer::new(PAGE_LEN);
        let read = read_at(&*opened.file, &mut page, 0)?;
        let stored = opened.file.len()?;
        if let Some(replayed) = context.replayed(&page) {
            return Self::open_replayed(contents, opened, &replayed);
        }
        if read == PAGE_LEN {
            let mut copy = Buffer::new(PAGE_LEN);
            copy.copy_from_slice(&page);
            if let Ok(page) = context.pages().open(copy, PageAddress::HEADER, None) {
                return Self::from_header(contents, opened, &page, stored);
            }
        }
        Self::without_header(contents, opened, &page[..read], stored)
    }

    /// The header page is gone: the stored length tells the plain one, or
    /// bounds it, and the nodes authenticate themselves.
    fn without_header(contents: &Contents, opened: Opened, page: &[u8], stored: u64) -> Result<Content> {
        let context = &contents.context;
        let plain_len = longest_plain_len(context, stored);
        let blocks = context.geometry.block_size().blocks_in(plain_len);
        let groups = blocks.div_ceil(GROUP_BLOCKS).max(1);
        let owner = match owner_of(page) {
            Some(owner) => owner,
            None => Self::owner_from_nodes(context, &opened, groups.min(NODES_ASKED))?,
        };
        let header = HeaderFields { plain_len, maps: Self::maps_of(groups), ..HeaderFields::default() };
        let mut state = State::new(context.geometry, header);
        let lost = Node::new_header(&HeaderFields { plain_len, ..HeaderFields::default() });
        state.nodes.insert(0, NodeSlot::new(Slot::fresh(lost, true), 0));
        state.home_len = stored;
        let mut content = Content::with_state(contents, opened, owner, state);
        content.lost_header = true;
        Ok(content)
    }

    /// What may hang from the header page of a file of so many groups. Nothing
    /// tells which images.
    fn maps_of(groups: u64) -> [Child; HEADER_SLOTS] {
        let first = [PageKind::Map, PageKind::MiddleMap, PageKind::RootMap];
        first.map(|kind| match first_group_of(kind, 0).0 < groups {
            true => Child::Unsealed,
            false => Child::Absent,
        })
    }

    fn owner_from_nodes(context: &Context, opened: &Opened, groups: u64) -> Result<(FileId, u32)> {
        let mut clear = [0; CLEAR_LEN];
        for group in (1..groups).map(GroupIndex) {
            let offset = context.geometry.node_offset(group).0;
            if read_at(&*opened.file, &mut clear, offset)? == CLEAR_LEN
                && let Some(owner) = owner_of(&clear)
            {
                return Ok(owner);
            }
        }
        Err(Error::Damaged(Damage::Page("no page of the file can be read")))
    }
}

/// The file to which a page belongs, as it says itself, and its generation.
fn owner_of(page: &[u8]) -> Option<(FileId, u32)> {
    PageHeader::decode(page.first_chunk::<CLEAR_LEN>()?).ok().map(|header| (header.file, header.generation))
}

/// The plain length that is stored so, or else that of the whole blocks.
fn longest_plain_len(context: &Context, stored: u64) -> PlainLen {
    let geometry = context.geometry;
    if let Some(len) = geometry.plain_len(StoredLen(stored)) {
        return len;
    }
    let (mut whole, mut beyond) = (0, strongroom_units::MAX_PLAIN_LEN >> geometry.block_size().shift());
    while whole + 1 < beyond {
        let middle = whole.midpoint(beyond);
        let ends = geometry.block_offset(BlockIndex(middle - 1)).0 + geometry.block_size().bytes();
        if ends <= stored { whole = middle } else { beyond = middle }
    }
    PlainLen(whole << geometry.block_size().shift())
}
