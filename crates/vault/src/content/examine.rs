//! Looking at a whole file, group by group: every page, every block, and the
//! digest over the pages, so that an old page put back with its blocks is
//! found. Groups can be looked at by many threads at once.
//!
//! A group is looked at under the file's state, locked to read, as any read
//! is; of the state nothing is changed, and no page is kept.

use std::ops::Range;

use strongroom_engine::Buffer;
use strongroom_format::vault::geometry::{HEADER_GROUPS, MAP_BITS};
use strongroom_format::vault::node::Node;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex};

use super::Content;
use super::commit::first_group_of_map;
use super::pages::malformed;
use super::state::{Image, NodeSlot, PageAddress, Slot, Source, State};
use crate::error::{Damage, Error, Result};

/// Most bytes opened in one batch.
pub const BATCH: usize = 1 << 20;

/// Something of a file that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is wrong.
    pub damage: Damage,
    /// Which bytes of the plain file cannot be read for it; `None` when that
    /// is not known.
    pub range: Option<Range<u64>>,
}

/// A file that is being looked at.
pub struct Examination {
    groups: Vec<GroupIndex>,
    /// Of the map pages.
    digest: [u8; 16],
    losses: Vec<Loss>,
}

/// What was found in some groups of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Plain bytes that were opened; holes do not count.
    pub bytes: u64,
    /// What is lost, in the order of the file.
    pub losses: Vec<Loss>,
    digest: [u8; 16],
}

impl Examination {
    /// The groups that are to be looked at, in the order of the file.
    #[must_use]
    pub fn groups(&self) -> &[GroupIndex] {
        &self.groups
    }
}

impl Examined {
    /// Adds what was found in other groups of the file.
    pub fn add(&mut self, other: Examined) {
        self.bytes += other.bytes;
        self.losses.extend(other.losses);
        xor(&mut self.digest, other.digest);
    }

    /// Notes a loss; one that continues the one before is joined to it.
    fn note(&mut self, loss: Loss) {
        if let (Some(Loss { damage: before, range: Some(range) }), Some(next)) =
            (self.losses.last_mut(), &loss.range)
            && range.end == next.start
        {
            match (before, &loss.damage) {
                (Damage::Blocks { blocks, .. }, Damage::Blocks { blocks: more, .. }) => *blocks += more,
                (Damage::Page(before), Damage::Page(what)) if before == what => {}
                _ => return self.losses.push(loss),
            }
            range.end = next.end;
            return;
        }
        self.losses.push(loss);
    }
}

fn xor(digest: &mut [u8; 16], term: [u8; 16]) {
    digest.iter_mut().zip(term).for_each(|(byte, term)| *byte ^= term);
}

impl Content {
    /// Lists the groups that there are, as far as the map pages tell. Where
    /// one does not open, every group it might list is looked for.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn examination(&self) -> Result<Examination> {
        let mut state = self.write_state();
        let bits = state.header.groups;
        let mut groups: Vec<u64> = (0..HEADER_GROUPS).filter(|group| bits >> group & 1 == 1).collect();
        let mut examination = Examination { groups: Vec::new(), digest: [0; 16], losses: Vec::new() };
        if state.header.root_map {
            self.examine_maps(&mut state, &mut groups, &mut examination)?;
        }
        examination.groups = groups.into_iter().map(GroupIndex).collect();
        Ok(examination)
    }

    fn examine_maps(&self, state: &mut State, groups: &mut Vec<u64>, found: &mut Examination) -> Result<()> {
        let end = self.geometry().block_size().blocks_in(state.plain_len()).div_ceil(GROUP_BLOCKS);
        match self.load_root_map(state) {
            Ok(()) => {}
            Err(Error::Damaged(damage)) => {
                let range = Some(self.range_of(state, first_group_of_map(0), u64::MAX));
                found.losses.push(Loss { damage, range });
                groups.extend(first_group_of_map(0)..end);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.add_term(state, PageAddress::ROOT_MAP, &mut found.digest);
        let root = state.root_map.as_ref().expect("the root map is loaded");
        let maps: Vec<u64> = root.page.present().map(|number| number as u64).collect();
        for map in maps {
            let first = first_group_of_map(map);
            match self.load_map(state, map) {
                Ok(()) => {
                    self.add_term(state, PageAddress::map(map), &mut found.digest);
                    let bits = &state.maps.get(&map).expect("a present map is loaded").page;
                    groups.extend(bits.present().map(|bit| first + bit as u64));
                }
                Err(Error::Damaged(damage)) => {
                    let range = Some(self.range_of(state, first, first + MAP_BITS));
                    found.losses.push(Loss { damage, range });
                    groups.extend(first..end.min(first + MAP_BITS));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The bytes of the plain file in the groups `first..end`.
    fn range_of(&self, state: &State, first: u64, end: u64) -> Range<u64> {
        let group = GROUP_BLOCKS * self.geometry().block_size().bytes();
        let len = state.plain_len().0;
        len.min(first.saturating_mul(group))..len.min(end.saturating_mul(group))
    }

    pub(super) fn add_term(&self, state: &State, address: PageAddress, digest: &mut [u8; 16]) {
        if address == PageAddress::HEADER {
            return;
        }
        if let Some(image) = state.image(address) {
            xor(digest, self.context.page_term(self.id, address, &image));
        }
    }

    /// Opens every page and block of some groups. Each run of data goes to
    /// `sink` with its offset; when that gives false, the rest is left. The
    /// scratch buffer is grown to what is needed.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn examine(
        &self,
        groups: &[GroupIndex],
        scratch: &mut Buffer,
        sink: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<Examined> {
        let mut found = Examined::default();
        for &group in groups {
            let state = self.read_state();
            match self.view(&state, group) {
                Ok(None) => {}
                Ok(Some(view)) => {
                    self.add_term(&view, PageAddress::node(group), &mut found.digest);
                    if !self.examine_group(&view, group, &mut found, scratch, sink)? {
                        break;
                    }
                }
                // A map page that does not open has been told of.
                Err(Error::Damaged(_)) if state.group_present(group).is_none() => {}
                Err(Error::Damaged(damage)) => {
                    let range = Some(self.range_of(&state, group.0, group.0 + 1));
                    found.note(Loss { damage, range });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// A state of its own with one group in it; `None` for an absent one.
    fn view(&self, state: &State, group: GroupIndex) -> Result<Option<State>> {
        if group.0 == 0 && self.lost_header {
            return Err(Error::Damaged(Damage::Page("the header page does not open")));
        }
        let mut view = State::new(state.geometry, state.header);
        view.segments.clone_from(&state.segments);
        let node = match state.nodes.get(&group.0) {
            Some(node) => {
                let slot = &node.slot;
                let copy = Slot { image: slot.image, ..Slot::fresh(slot.page.clone(), true) };
                NodeSlot::new(copy, 0)
            }
            None if state.group_present(group) == Some(false) => return Ok(None),
            None => {
                let opened = self.read_page(state, PageAddress::node(group))?;
                let node = Node::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
                let image = Image { sequence: node.sequence(), tag: opened.header.tag };
                NodeSlot::read(node, image)
            }
        };
        view.nodes.insert(group.0, node);
        let first = group.0 * GROUP_BLOCKS;
        view.images = state.images.range(first..first + GROUP_BLOCKS).collect();
        Ok(Some(view))
    }

    fn examine_group(
        &self,
        view: &State,
        group: GroupIndex,
        found: &mut Examined,
        scratch: &mut Buffer,
        sink: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<bool> {
        let size = self.geometry().block_size();
        let first = group.0 * GROUP_BLOCKS;
        let last = (first + GROUP_BLOCKS).min(size.blocks_in(view.plain_len()));
        let step = (BATCH as u64 / size.bytes()).max(1);
        let mut start = first;
        while start < last {
            let is_hole = |block: u64| view.source(BlockIndex(block)) == Source::Hole;
            if is_hole(start) {
                start += 1;
                continue;
            }
            let end = (start..last.min(start + step)).find(|&block| is_hole(block));
            let end = end.unwrap_or(last.min(start + step));
            if !self.examine_run(view, start..end, found, scratch, sink)? {
                return Ok(false);
            }
            start = end;
        }
        Ok(true)
    }

    /// Opens a run of blocks in one batch; when that fails, block by block, to
    /// name every damaged one.
    fn examine_run(
        &self,
        view: &State,
        blocks: Range<u64>,
        found: &mut Examined,
        scratch: &mut Buffer,
        sink: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<bool> {
        let size = self.geometry().block_size();
        let (first, last) = (BlockIndex(blocks.start), BlockIndex(blocks.end - 1));
        let offset = size.start_of(first).0;
        let len = (size.start_of(last).0 - offset) as usize + size.block_len(last, view.plain_len());
        if scratch.len() < len {
            *scratch = Buffer::new(len.max(BATCH));
        }
        match self.open_blocks(view, first, last, scratch) {
            Ok(()) => {
                found.bytes += len as u64;
                Ok(sink(offset, &scratch[..len]))
            }
            Err(Error::Damaged(_)) if first != last => {
                for block in blocks {
                    if !self.examine_run(view, block..block + 1, found, scratch, sink)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Err(Error::Damaged(damage)) => {
                found.note(Loss { damage, range: Some(offset..offset + len as u64) });
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends an examination whose groups have all been looked at: holds the
    /// pages against the digest in the header page, and gives everything that
    /// is lost, in the order of the file.
    #[must_use]
    pub fn conclude(&self, examination: Examination, examined: Examined) -> Vec<Loss> {
        let mut digest = examination.digest;
        xor(&mut digest, examined.digest);
        let mut losses = Self::conclude_part(examination, examined);
        if losses.is_empty() && digest != self.read_state().header.digest {
            losses.push(Loss { damage: Damage::Page("a page is older than its header"), range: None });
        }
        losses
    }

    /// Ends an examination of which some groups have not been looked at: gives
    /// what is lost in the others. The digest says nothing then.
    #[must_use]
    pub fn conclude_part(examination: Examination, examined: Examined) -> Vec<Loss> {
        let mut losses = examination.losses;
        losses.extend(examined.losses);
        losses.sort_by_key(|loss| loss.range.as_ref().map_or(0, |range| range.start));
        losses
    }
}

impl State {
    /// The last image of a page in memory.
    fn image(&self, address: PageAddress) -> Option<Image> {
        use strongroom_format::vault::PageKind;
        match address.kind {
            PageKind::Header | PageKind::Node => self.nodes.get(&address.number)?.slot.image,
            PageKind::Map => self.maps.get(&address.number)?.image,
            PageKind::RootMap => self.root_map.as_ref()?.image,
        }
    }
}
