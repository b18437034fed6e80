//! Verifying a whole file: every page, every block, and the digest over the
//! pages, so that an old page put back with its blocks is found.

use strongroom_engine::Buffer;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex, PlainLen};

use super::commit::first_group_of_map;
use super::state::{Image, PageAddress, Source, State};
use super::{Content, NODES_IN_MEMORY};
use crate::error::{Damage, Error, Result};

/// Most bytes opened in one batch.
const BATCH: u64 = 1 << 20;

/// What verifying a file has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Plain bytes that were opened; holes do not count.
    pub bytes: u64,
    /// Everything that is wrong, in the order of the file.
    pub damage: Vec<Damage>,
    /// Where the first damage begins; `None` when there is none.
    pub good_len: Option<u64>,
}

impl Verification {
    fn note(&mut self, damage: Damage, offset: u64) {
        self.damage.push(damage);
        self.good_len.get_or_insert(offset);
    }
}

impl Content {
    /// Opens every page and block, and tells `progress` the bytes opened since
    /// its last call.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verification> {
        let mut found = Verification::default();
        let mut digest = [0; 16];
        let groups = self.list_groups(&mut digest, &mut found)?;
        for group in groups {
            let mut state = self.write_state();
            state.evict(NODES_IN_MEMORY);
            match self.load_group(&mut state, group) {
                Ok(()) => {}
                Err(Error::Damaged(damage)) => {
                    found.note(damage, self.group_start(group));
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.add_term(&state, PageAddress::node(group), &mut digest);
            self.verify_group(&state, group, &mut found, progress)?;
        }
        let state = self.read_state();
        if found.damage.is_empty() && digest != state.header.digest {
            found.note(Damage::Page("a page is older than its header"), 0);
        }
        Ok(found)
    }

    fn group_start(&self, group: GroupIndex) -> u64 {
        self.geometry().block_size().start_of(BlockIndex(group.0 * GROUP_BLOCKS)).0
    }

    /// The present groups, as far as the maps open; adds the maps' terms.
    fn list_groups(&self, digest: &mut [u8; 16], found: &mut Verification) -> Result<Vec<GroupIndex>> {
        let mut state = self.write_state();
        match self.present_groups(&mut state, GroupIndex(0)) {
            Ok(groups) => {
                let maps: Vec<u64> = state.maps.keys().copied().collect();
                for map in maps.into_iter().filter(|&map| state.map_present(map) == Some(true)) {
                    self.add_term(&state, PageAddress::map(map), digest);
                }
                if state.header.root_map {
                    self.add_term(&state, PageAddress::ROOT_MAP, digest);
                }
                Ok(groups)
            }
            Err(Error::Damaged(damage)) => {
                found.note(damage, self.group_start(GroupIndex(first_group_of_map(0))));
                let bits = state.header.groups;
                Ok((0..64).filter(|group| bits >> group & 1 == 1).map(GroupIndex).collect())
            }
            Err(error) => Err(error),
        }
    }

    fn add_term(&self, state: &State, address: PageAddress, digest: &mut [u8; 16]) {
        if address == PageAddress::HEADER {
            return;
        }
        if let Some(image) = state.image(address) {
            let term = self.context.page_term(self.id, address, &image);
            digest.iter_mut().zip(term).for_each(|(byte, term)| *byte ^= term);
        }
    }

    fn verify_group(
        &self,
        state: &State,
        group: GroupIndex,
        found: &mut Verification,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let blocks = size.blocks_in(state.plain_len());
        let first = group.0 * GROUP_BLOCKS;
        let last = (first + GROUP_BLOCKS).min(blocks);
        let step = (BATCH / size.bytes()).max(1);
        let mut start = first;
        while start < last {
            let end = (start + step).min(last);
            let live = (start..end).filter(|&block| state.source(BlockIndex(block)) != Source::Hole).count();
            if live > 0 {
                self.verify_blocks(state, BlockIndex(start), BlockIndex(end - 1), found)?;
                let bytes = live as u64 * size.bytes();
                found.bytes += bytes;
                progress(bytes);
            }
            start = end;
        }
        Ok(())
    }

    /// Opens a range in one batch; when that fails, block by block, to name
    /// every damaged one.
    fn verify_blocks(
        &self,
        state: &State,
        first: BlockIndex,
        last: BlockIndex,
        found: &mut Verification,
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let len = ((last.0 - first.0) * size.bytes()) as usize + size.block_len(last, state.plain_len());
        let mut buffer = Buffer::new(len);
        match self.open_blocks(state, first, last, &mut buffer) {
            Err(Error::Damaged(_)) if first != last => {
                for block in (first.0..=last.0).map(BlockIndex) {
                    self.verify_blocks(state, block, block, found)?;
                }
                Ok(())
            }
            Err(Error::Damaged(damage)) => {
                let offset = size.start_of(first).0;
                match (found.damage.last_mut(), damage) {
                    (Some(Damage::Blocks { first: before, blocks, .. }), Damage::Blocks { .. })
                        if before.0 + *blocks == first.0 =>
                    {
                        *blocks += 1;
                    }
                    (_, damage) => found.note(damage, offset),
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Forgets every entry and group behind `len` without reading pages, and
    /// takes the digest anew from those that remain.
    pub(super) fn forget_behind(&self, state: &mut State, len: PlainLen) -> Result<()> {
        state.watch = None;
        let kept = self.geometry().block_size().blocks_in(len);
        let groups = kept.div_ceil(GROUP_BLOCKS).max(1);
        state.nodes.retain(|&number, _| number < groups);
        state.header.groups &= if groups >= 64 { u64::MAX } else { (1 << groups) - 1 };
        if groups <= first_group_of_map(0) {
            state.root_map = None;
            state.maps.clear();
            state.header.root_map = false;
        } else {
            state.keep_groups_below(groups);
        }
        let mut digest = [0; 16];
        for group in self.present_groups(state, GroupIndex(0))? {
            self.load_group(state, group)?;
            self.add_term(state, PageAddress::node(group), &mut digest);
        }
        let maps: Vec<u64> = state.maps.keys().copied().collect();
        maps.into_iter().for_each(|map| self.add_term(state, PageAddress::map(map), &mut digest));
        self.add_term(state, PageAddress::ROOT_MAP, &mut digest);
        state.header.digest = digest;
        for (&number, node) in &mut state.nodes {
            for entry in 0..GROUP_BLOCKS {
                if number * GROUP_BLOCKS + entry >= kept && !node.slot.page.is_hole(entry as usize) {
                    node.slot.page.clear_entry(entry as usize);
                    node.slot.dirty = true;
                }
            }
        }
        Ok(())
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

    /// Clears the presence of groups from `groups` on in the maps in memory.
    fn keep_groups_below(&mut self, groups: u64) {
        for (&number, map) in &mut self.maps {
            let first = first_group_of_map(number);
            let behind: Vec<usize> = map.page.present().filter(|&bit| first + bit as u64 >= groups).collect();
            for bit in behind {
                map.page.set_present(bit, false);
                map.dirty = true;
            }
        }
    }
}
