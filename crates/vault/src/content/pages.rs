//! Loading pages: from their committed image in the journal, or from home.

use strongroom_engine::Buffer;
use strongroom_format::vault::map::{Child, Map};
use strongroom_format::vault::node::Node;
use strongroom_format::vault::page::{self, PageHeader};
use strongroom_format::vault::{FileId, Geometry, Suite};
use strongroom_units::{GroupIndex, PAGE_LEN};

use super::Content;
use super::follow::Following;
use super::state::{Image, NodeSlot, PageAddress, Slot, State};
use crate::error::{Damage, Error, Result};
use crate::reader_rules::ReaderRule;
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
        if header.suite != self.suite || header.block_size != self.geometry.block_size() {
            return Err(damaged("a page was made for another vault"));
        }
        let associated = header.associated_data(address.number);
        let opened = self.sealer.open_one(
            Purpose::Pages(header.generation),
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
        let address = PageAddress::node(group);
        self.load_way(state, address)?;
        if state.is_present(address) == Some(false) {
            return Ok(());
        }
        let opened = match self.read_page(state, address) {
            Err(Error::Damaged(_)) if !ReaderRule::PresentPage.is_kept() => {
                let image = Image { sequence: 0, tag: [0; 16] };
                state.nodes.insert(group.0, NodeSlot::read(Node::new(), image));
                return Ok(());
            }
            opened => opened?,
        };
        let node = Node::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
        let image = Image { sequence: node.sequence(), tag: opened.header.tag };
        self.note_loaded(state);
        state.nodes.insert(group.0, NodeSlot::read(node, image));
        Ok(())
    }

    /// Loads the maps above a page, as far as there are any.
    pub(super) fn load_way(&self, state: &mut State, address: PageAddress) -> Result<()> {
        match address.map_above() {
            Some(above) => self.load_map(state, above),
            None => Ok(()),
        }
    }

    /// Loads a map page, if it is present, and those above it.
    pub(super) fn load_map(&self, state: &mut State, address: PageAddress) -> Result<()> {
        if state.maps.contains_key(&address) {
            return Ok(());
        }
        self.load_way(state, address)?;
        if state.is_present(address) == Some(true) {
            let opened = self.read_page(state, address)?;
            let map = Map::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
            let image = Image { sequence: map.sequence(), tag: opened.header.tag };
            self.note_loaded(state);
            state.maps.insert(address, Slot::read(map, image));
        }
        Ok(())
    }

    /// Takes note of a page that has just been loaded.
    fn note_loaded(&self, state: &mut State) {
        state.following.iter_mut().for_each(Following::note_loaded);
    }

    /// Reads a page that is not in memory; of it, the image that the page
    /// above vouches for, and no other.
    pub(super) fn read_page(&self, state: &State, address: PageAddress) -> Result<OpenedPage> {
        let opened = self.read_unvouched(state, address)?;
        match state.child(address) {
            Some(Child::Sealed(token))
                if token.is_of(&opened.header.tag) || !ReaderRule::PageToken.is_kept() =>
            {
                Ok(opened)
            }
            Some(Child::Sealed(_)) => {
                Err(Error::Damaged(Damage::Page("a page is of another time than its header")))
            }
            // Nothing vouches for what hangs from a header page that is lost.
            Some(Child::Unsealed) if self.lost_header => Ok(opened),
            Some(Child::Unsealed | Child::Absent) | None => Err(malformed()),
        }
    }

    /// The same of a page for which the page above cannot be asked.
    pub(super) fn read_unvouched(&self, state: &State, address: PageAddress) -> Result<OpenedPage> {
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
        let opened = self.context.pages().open(buffer, address, Some(self.id))?;
        match opened.header.generation == self.generation() {
            true => Ok(opened),
            false => Err(Error::Damaged(Damage::Page("a page is of another key generation than its file"))),
        }
    }
}

/// What opened is no page of this format: whoever sealed it had the key and a
/// fault, so it is damage like any other.
pub(crate) fn malformed() -> Error {
    Error::Damaged(Damage::Page("a page opens and is malformed"))
}

const _: () = assert!(page::CLEAR_LEN + page::SEALED_LEN == PAGE_LEN);
