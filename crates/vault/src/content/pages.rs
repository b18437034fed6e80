//! Loading pages: from their committed image in the journal, or from home.

use strongroom_engine::Buffer;
use strongroom_format::vault::geometry::{HEADER_GROUPS, map_of};
use strongroom_format::vault::map::Map;
use strongroom_format::vault::node::Node;
use strongroom_format::vault::page::{self, PageHeader};
use strongroom_format::vault::{FileId, Geometry, Suite};
use strongroom_units::{GroupIndex, PAGE_LEN};

use super::Content;
use super::state::{Image, NodeSlot, PageAddress, Slot, State};
use crate::error::{Damage, Error, Result};
use crate::reading::read_at;
use crate::sealer::{Purpose, Sealer};

/// A page that opened: its clear part, and the sealed part in clear.
pub(crate) struct OpenedPage {
    pub(crate) header: PageHeader,
    /// The whole page; the sealed part, from [`page::CLEAR_LEN`] on, is open.
    pub(crate) buffer: Buffer,
}

impl OpenedPage {
    pub(crate) fn sealed(&self) -> &[u8; page::SEALED_LEN] {
        self.buffer[page::CLEAR_LEN..].try_into().expect("a page is a clear and a sealed part")
    }
}

/// What is needed to open a page of any file of a vault.
pub(crate) struct PageReader<'a> {
    pub(crate) sealer: &'a Sealer,
    pub(crate) suite: Suite,
    pub(crate) geometry: Geometry,
    pub(crate) generation: u32,
}

impl PageReader<'_> {
    /// Opens the page in `buffer` as `address`. The file must be `file`, when
    /// that is known already.
    ///
    /// # Errors
    /// [`Damage::Page`] when it does not open or belongs elsewhere.
    pub(crate) fn open(
        &self,
        mut buffer: Buffer,
        address: PageAddress,
        file: Option<FileId>,
    ) -> Result<OpenedPage> {
        let damaged = |what| Error::Damaged(Damage::Page(what));
        let clear = buffer[..page::CLEAR_LEN].try_into().expect("a page has a clear part");
        let header = PageHeader::decode(clear).map_err(|_| damaged("a page's clear part is not a page's"))?;
        if header.kind != address.kind || file.is_some_and(|file| file != header.file) {
            return Err(damaged("a page stands in another's place"));
        }
        if header.suite != self.suite
            || header.block_size != self.geometry.block_size()
            || header.generation != self.generation
        {
            return Err(damaged("a page was made for another vault"));
        }
        let associated = header.associated_data(address.number);
        let opened = self.sealer.open_one(
            Purpose::Pages,
            &mut buffer,
            page::CLEAR_LEN..PAGE_LEN,
            header.nonce,
            header.tag,
            &associated,
        )?;
        if opened { Ok(OpenedPage { header, buffer }) } else { Err(damaged("a page does not open")) }
    }
}

impl Content {
    /// Loads what is needed to know the entries of the groups `first..=last`.
    pub(super) fn load_groups(&self, state: &mut State, first: GroupIndex, last: GroupIndex) -> Result<()> {
        for group in (first.0..=last.0).map(GroupIndex) {
            self.load_group(state, group)?;
        }
        Ok(())
    }

    /// True when every group of the range is loaded or known to be absent.
    pub(super) fn groups_loaded(state: &State, first: GroupIndex, last: GroupIndex) -> bool {
        (first.0..=last.0).all(|group| {
            state.nodes.contains_key(&group) || state.group_present(GroupIndex(group)) == Some(false)
        })
    }

    /// Loads one group's node, and the maps on the way to it.
    pub(super) fn load_group(&self, state: &mut State, group: GroupIndex) -> Result<()> {
        if state.nodes.contains_key(&group.0) {
            return Ok(());
        }
        if group.0 >= HEADER_GROUPS {
            let (map, _) = map_of(group).expect("groups past the header's have a map");
            self.load_map(state, map)?;
        }
        if state.group_present(group) == Some(false) {
            return Ok(());
        }
        let opened = self.read_page(state, PageAddress::node(group))?;
        let node = Node::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
        let image = Image { sequence: node.sequence(), tag: opened.header.tag };
        self.note_loaded(state, PageAddress::node(group), &image);
        state.nodes.insert(group.0, NodeSlot::read(node, image));
        Ok(())
    }

    /// Loads a map page, if it is present, and the root map before it.
    pub(super) fn load_map(&self, state: &mut State, map: u64) -> Result<()> {
        self.load_root_map(state)?;
        if state.map_present(map) == Some(true) && !state.maps.contains_key(&map) {
            let slot = self.read_map(state, PageAddress::map(map))?;
            slot.image.iter().for_each(|image| self.note_loaded(state, PageAddress::map(map), image));
            state.maps.insert(map, slot);
        }
        Ok(())
    }

    /// Loads the root map, if it is present.
    pub(super) fn load_root_map(&self, state: &mut State) -> Result<()> {
        if state.header.root_map && state.root_map.is_none() {
            let slot = self.read_map(state, PageAddress::ROOT_MAP)?;
            slot.image.iter().for_each(|image| self.note_loaded(state, PageAddress::ROOT_MAP, image));
            state.root_map = Some(slot);
        }
        Ok(())
    }

    fn read_map(&self, state: &State, address: PageAddress) -> Result<Slot<Map>> {
        let opened = self.read_page(state, address)?;
        let map = Map::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
        let image = Image { sequence: map.sequence(), tag: opened.header.tag };
        Ok(Slot::read(map, image))
    }

    pub(super) fn read_page(&self, state: &State, address: PageAddress) -> Result<OpenedPage> {
        let mut buffer = Buffer::new(PAGE_LEN);
        let read = match state.committed_pages.get(&address) {
            Some(&place) => state.segments()?.read(place, &mut buffer)?,
            None => {
                let offset = state.geometry.page_offset(address.kind, address.number);
                read_at(&*self.file, &mut buffer, offset.0)?
            }
        };
        if read < PAGE_LEN {
            return Err(Error::Damaged(Damage::Page("a page is cut off")));
        }
        self.context.pages().open(buffer, address, Some(self.id))
    }
}

/// What opened is no page of this format: whoever sealed it had the key and a
/// fault, so it is damage like any other.
pub(crate) fn malformed() -> Error {
    Error::Damaged(Damage::Page("a page opens and is malformed"))
}

const _: () = assert!(page::CLEAR_LEN + page::SEALED_LEN == PAGE_LEN);
