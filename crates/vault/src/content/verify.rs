//! Verifying a whole file on one thread, and forgetting what lies behind a
//! cut. How a file is looked at stands in `examine`.

use strongroom_engine::Buffer;
use strongroom_units::{GROUP_BLOCKS, GroupIndex, PlainLen};

use super::Content;
use super::commit::first_group_of_map;
use super::examine::Loss;
use super::state::{PageAddress, State};
use crate::error::Result;

/// What verifying a file has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Plain bytes that were opened; holes do not count.
    pub bytes: u64,
    /// Everything that is lost, in the order of the file.
    pub damage: Vec<Loss>,
}

impl Verification {
    /// Where the first damage begins, or might; `None` when there is none.
    #[must_use]
    pub fn good_len(&self) -> Option<u64> {
        let first = self.damage.first()?;
        Some(first.range.as_ref().map_or(0, |range| range.start))
    }
}

impl Content {
    /// Opens every page and block, and tells `progress` the bytes opened since
    /// its last call.
    ///
    /// # Errors
    /// What the store reported; damage is no error here.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verification> {
        let examination = self.examination()?;
        let mut sink = |_: u64, bytes: &[u8]| {
            progress(bytes.len() as u64);
            true
        };
        let examined = self.examine(examination.groups(), &mut Buffer::empty(), &mut sink)?;
        let bytes = examined.bytes;
        Ok(Verification { bytes, damage: self.conclude(examination, examined) })
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
