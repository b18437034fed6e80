//! Loading pages: from their committed image in the journal, or from home.

use strongroom_engine::Buffer;
use strongroom_format::vault::PageKind;
use strongroom_format::vault::map::{Child, Map};
use strongroom_format::vault::node::Node;
use strongroom_units::{GroupIndex, PAGE_LEN};

use super::follow::Following;
use super::state::{NodeSlot, Slot, State};
use super::{Content, NODES_IN_MEMORY};
use crate::error::{Damage, Error, Result};
use crate::page::{Image, OpenedPage, PageAddress, malformed, opened, to_open};
use crate::reader_rules::ReaderRule;
use crate::reading::read_at;
use crate::sealer::Purpose;

/// Pages that an engine is given at once, before the state of their file is
/// locked for what they say.
const PAGES_AHEAD: usize = 64;

impl Content {
    /// Loads what is needed to know the entries of the groups `first..=last`. The
    /// state stays locked while the engine opens pages: this is for who changes
    /// the file, and for what [`Content::load_ahead`] could not load.
    pub(super) fn load_groups(&self, state: &mut State, first: GroupIndex, last: GroupIndex) -> Result<()> {
        for group in (first.0..=last.0).map(GroupIndex) {
            self.load_group(state, group)?;
        }
        Ok(())
    }

    /// Loads what it can of the same, all pages of a level together, while the
    /// state is free: nobody else waits for the engine then. What does not open,
    /// or has changed meanwhile, is left to [`Content::load_groups`], which says
    /// what is wrong. So is everything where the engine is inline.
    pub(super) fn load_ahead(&self, first: GroupIndex, last: GroupIndex) {
        if self.context.sealer.is_inline() {
            return;
        }
        if Self::groups_loaded(&self.read_state(), first, last) {
            return;
        }
        self.write_state().evict(NODES_IN_MEMORY);
        // Maps of three levels, and nodes.
        for _level in 0..4 {
            let wanted = self.fetch_missing(first, last);
            if wanted.is_empty() || !self.open_missing(wanted).is_ok_and(|loaded| loaded) {
                return;
            }
        }
    }

    /// Of each group that is not loaded, the highest page that is not.
    fn fetch_missing(&self, first: GroupIndex, last: GroupIndex) -> Vec<(PageAddress, Buffer)> {
        let state = self.read_state();
        let mut wanted: Vec<PageAddress> =
            (first.0..=last.0).filter_map(|group| missing(&state, GroupIndex(group))).collect();
        wanted.dedup();
        wanted.truncate(PAGES_AHEAD);
        let fetch = |address| Some((address, self.fetch_page(&state, address).ok()?));
        wanted.into_iter().filter_map(fetch).collect()
    }

    /// Opens pages and takes them in; true when all could be.
    fn open_missing(&self, wanted: Vec<(PageAddress, Buffer)>) -> Result<bool> {
        let pages = self.context.pages();
        let mut headers = Vec::with_capacity(wanted.len());
        let mut batches = Vec::with_capacity(wanted.len());
        for (address, buffer) in wanted {
            let header = pages.header(&buffer, address, Some(self.id))?;
            batches.push(to_open(buffer, &header, address));
            headers.push((address, header));
        }
        let flight = self.context.sealer.submit_many(Purpose::Pages(self.generation()), batches)?;
        let completed = flight.collect::<std::result::Result<Vec<_>, _>>()?;
        let mut state = self.write_state();
        let mut all = true;
        for ((address, header), completed) in headers.into_iter().zip(completed) {
            let opened = opened(header, completed.batch).filter(|page| self.vouches(&state, address, page));
            all &= match opened {
                Some(opened) => self.take_in(&mut state, address, &opened).is_ok(),
                None => false,
            };
        }
        Ok(all)
    }

    /// Whether the page above vouches for this image, and it is not in memory.
    fn vouches(&self, state: &State, address: PageAddress, page: &OpenedPage) -> bool {
        let is_loaded = match address.kind {
            PageKind::Header | PageKind::Node => state.nodes.contains_key(&address.number),
            PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => state.maps.contains_key(&address),
        };
        let tag = &page.header.tag;
        let is_of_now = matches!(state.child(address), Some(Child::Sealed(token)) if token.is_of(tag));
        !is_loaded && is_of_now && page.header.generation == self.generation()
    }

    /// Makes an opened page one that is in memory.
    fn take_in(&self, state: &mut State, address: PageAddress, opened: &OpenedPage) -> Result<()> {
        let (kind, tag) = (opened.header.kind, opened.header.tag);
        match kind {
            PageKind::Header | PageKind::Node => {
                let node = Node::decode(kind, opened.sealed()).map_err(|_| malformed())?;
                let image = Image { sequence: node.sequence(), tag };
                state.nodes.insert(address.number, NodeSlot::read(node, image));
            }
            PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => {
                let map = Map::decode(kind, opened.sealed()).map_err(|_| malformed())?;
                let image = Image { sequence: map.sequence(), tag };
                state.maps.insert(address, Slot::read(map, image));
            }
        }
        self.note_loaded(state);
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
        self.take_in(state, address, &opened)
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
            self.take_in(state, address, &opened)?;
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
        let buffer = self.fetch_page(state, address)?;
        let opened = self.context.pages().open(buffer, address, Some(self.id))?;
        match opened.header.generation == self.generation() {
            true => Ok(opened),
            false => Err(Error::Damaged(Damage::Page("a page is of another key generation than its file"))),
        }
    }

    /// The newest image of a page, as it is stored.
    fn fetch_page(&self, state: &State, address: PageAddress) -> Result<Buffer> {
        let mut buffer = self.context.sealer.buffer(Purpose::Pages(self.generation()), PAGE_LEN);
        let read = match state.journaled.page(address) {
            Some(place) => state.journaled.segments()?.read(place, &mut buffer)?,
            None => {
                let offset = state.geometry.page_offset(address.kind, address.number);
                read_at(&*self.file, &mut buffer, offset.0)?
            }
        };
        if read < PAGE_LEN {
            return Err(Error::Damaged(Damage::Page("a page is cut off")));
        }
        Ok(buffer)
    }
}

/// The highest page on the way to a group's node that is not in memory.
fn missing(state: &State, group: GroupIndex) -> Option<PageAddress> {
    if state.nodes.contains_key(&group.0) {
        return None;
    }
    let mut address = PageAddress::node(group);
    loop {
        match state.is_present(address) {
            Some(true) => return Some(address),
            Some(false) => return None,
            None => address = address.map_above()?,
        }
    }
}
