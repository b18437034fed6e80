//! Looking at a whole file, group by group: every page and every block.
//! Groups can be looked at by many threads at once.
//!
//! A group is looked at under the file's state, locked to read, as any read
//! is; of the state nothing is changed, and no page is kept.

use std::ops::Range;

use strongroom_engine::Buffer;
use strongroom_format::vault::PageKind;
use strongroom_format::vault::geometry::MAP_SLOTS;
use strongroom_format::vault::node::Node;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex};

use super::Content;
use super::state::{NodeSlot, Slot, Source, State};
use crate::error::{Damage, Error, Result};
use crate::page::{Image, PageAddress, malformed};

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
    losses: Vec<Loss>,
}

/// What was found in some groups of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Plain bytes that were opened; holes do not count.
    pub bytes: u64,
    /// What is lost, in the order of the file.
    pub losses: Vec<Loss>,
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

impl Content {
    /// Lists the groups that there are, as far as the map pages tell. Where
    /// one does not open, every group it might list is looked for.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn examination(&self) -> Result<Examination> {
        let mut state = self.write_state();
        let mut examination = Examination { groups: vec![GroupIndex(0)], losses: Vec::new() };
        for kind in [PageKind::Map, PageKind::MiddleMap, PageKind::RootMap] {
            self.list_below(&mut state, PageAddress { kind, number: 0 }, &mut examination)?;
        }
        Ok(examination)
    }

    /// Lists the groups that a map page tells of, if it is there.
    fn list_below(&self, state: &mut State, map: PageAddress, found: &mut Examination) -> Result<()> {
        match self.load_map(state, map) {
            Ok(()) => {}
            Err(Error::Damaged(damage)) => {
                let first = map.first_group();
                let range = self.range_of(state, first, behind(map));
                found.losses.push(Loss { damage, range: Some(range) });
                let end = self.geometry().block_size().blocks_in(state.plain_len()).div_ceil(GROUP_BLOCKS);
                found.groups.extend((first..end.min(behind(map))).map(GroupIndex));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let Some(slots) = state.maps.get(&map).map(|map| map.page.present().collect::<Vec<_>>()) else {
            return Ok(());
        };
        let numbers = slots.into_iter().map(|slot| map.number * MAP_SLOTS + slot as u64);
        match kind_below(map.kind) {
            PageKind::Node => found.groups.extend(numbers.map(GroupIndex)),
            kind => {
                for number in numbers {
                    self.list_below(state, PageAddress { kind, number }, found)?;
                }
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

    /// Opens every page and block of some groups, each group with the state
    /// locked: what its entries name must not be written over meanwhile, or a
    /// sound file would be called damaged. Each run of data goes to
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
        let node = match state.nodes.get(&group.0) {
            Some(node) => {
                let slot = &node.slot;
                let copy = Slot { image: slot.image, ..Slot::fresh(slot.page.clone(), true) };
                NodeSlot::new(copy, 0)
            }
            None if state.group_present(group) == Some(false) => return Ok(None),
            None => {
                let address = PageAddress::node(group);
                // Below a map that is lost, nothing vouches for a node: what it
                // gives is better than nothing, and the loss has been told of.
                let opened = match state.child(address) {
                    None => self.read_unvouched(state, address)?,
                    Some(_) => self.read_page(state, address)?,
                };
                let node = Node::decode(opened.header.kind, opened.sealed()).map_err(|_| malformed())?;
                let image = Image { sequence: node.sequence(), tag: opened.header.tag };
                NodeSlot::read(node, image)
            }
        };
        view.nodes.insert(group.0, node);
        view.journaled = state.journaled.of_group(group.0);
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
            // In steps: most files are far smaller than a batch.
            *scratch = self.block_buffer(len.next_power_of_two());
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

    /// Ends an examination: gives everything that is lost in the groups that
    /// have been looked at, in the order of the file.
    #[must_use]
    pub fn conclude(examination: Examination, examined: Examined) -> Vec<Loss> {
        let mut losses = examination.losses;
        losses.extend(examined.losses);
        losses.sort_by_key(|loss| loss.range.as_ref().map_or(0, |range| range.start));
        losses
    }
}

fn kind_below(map: PageKind) -> PageKind {
    match map {
        PageKind::RootMap => PageKind::MiddleMap,
        PageKind::MiddleMap => PageKind::Map,
        PageKind::Header | PageKind::Node | PageKind::Map => PageKind::Node,
    }
}

/// The first group that a map page does not tell of.
fn behind(map: PageAddress) -> u64 {
    match map.kind {
        PageKind::Header | PageKind::Node => map.number + 1,
        PageKind::Map => (map.number + 1) * MAP_SLOTS,
        PageKind::MiddleMap => (map.number + 1) * MAP_SLOTS * MAP_SLOTS,
        PageKind::RootMap => u64::MAX,
    }
}
