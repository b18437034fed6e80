//! Lengths, reservations and holes.

use strongroom_engine::Buffer;
use strongroom_format::vault::PageKind;
use strongroom_format::vault::geometry::MAP_SLOTS;
use strongroom_format::vault::map::Child;
use strongroom_store::AllocateMode;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex, MAX_PLAIN_LEN, PlainLen, PlainOffset};

use super::state::{Source, State};
use super::{Allocate, Content, Promise};
use crate::error::{Error, Result, errno};
use crate::page::PageAddress;
use crate::rules::Rule;

impl Content {
    /// Cuts or extends to `len` bytes.
    ///
    /// # Errors
    /// `EFBIG`, `EROFS`, damage of the block that is cut through, or what the
    /// store reported.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.context.check_writable()?;
        if len > MAX_PLAIN_LEN {
            return Err(Error::Refused(errno::EFBIG));
        }
        let mut promise = self.promise_for(0, 1)?;
        let mut state = self.write_state();
        let old = state.plain_len();
        match len.cmp(&old.0) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.extend(&mut state, PlainLen(len), &mut promise),
            std::cmp::Ordering::Less => self.cut(&mut state, PlainLen(len), &mut promise),
        }
    }

    fn extend(&self, state: &mut State, len: PlainLen, promise: &mut Promise<'_>) -> Result<()> {
        let size = self.geometry().block_size();
        let old = state.plain_len();
        if !old.0.is_multiple_of(size.bytes()) {
            let last = size.block_of(PlainOffset(old.0 - 1));
            self.load_group(state, last.group())?;
            if state.source(last) != Source::Hole {
                return self.reseal(state, &[last], len, promise);
            }
        }
        state.header.plain_len = len;
        self.note_dirty(state, promise);
        Ok(())
    }

    fn cut(&self, state: &mut State, len: PlainLen, promise: &mut Promise<'_>) -> Result<()> {
        let kept = self.geometry().block_size().blocks_in(len);
        // What cannot be read is found while nothing has changed yet.
        self.load_dropped(state, BlockIndex(kept))?;
        let before = state.pending.next_cut();
        if let Err(error) = self.shorten_last_block(state, len, promise) {
            // Nothing has been cut, and no commit may cut the home.
            state.pending.restore_cut(before);
            return Err(error);
        }
        state.header.plain_len = len;
        state.journaled.newest.remove_all(kept..u64::MAX);
        self.note_dirty(state, promise);
        self.drop_blocks(state, BlockIndex(kept))?;
        if !state.birth.is_written() {
            let stored = self.geometry().stored_len(len).0.min(state.home_len);
            self.file.set_len(stored)?;
            state.home_len = stored;
        }
        Ok(())
    }

    /// The cut is pending from here on, and the block that it goes through
    /// has its new length: behind a pending cut, that goes into the journal.
    fn shorten_last_block(&self, state: &mut State, len: PlainLen, promise: &mut Promise<'_>) -> Result<()> {
        if state.birth.is_written() {
            state.pending.note_cut(len.0);
            if !self.context.rules.keeps(Rule::RecordBeforeCut) {
                let stored = self.geometry().stored_len(len).0.min(state.home_len);
                self.file.set_len(stored)?;
                state.home_len = stored;
            }
        }
        let size = self.geometry().block_size();
        if len.0.is_multiple_of(size.bytes()) {
            return Ok(());
        }
        let last = size.block_of(PlainOffset(len.0 - 1));
        self.load_group(state, last.group())?;
        if state.source(last) == Source::Hole { Ok(()) } else { self.reseal(state, &[last], len, promise) }
    }

    /// Reads every page that [`Content::drop_blocks`] will need.
    fn load_dropped(&self, state: &mut State, first: BlockIndex) -> Result<()> {
        let groups = first.0.div_ceil(GROUP_BLOCKS).max(1);
        if first.entry() != 0 || first.0 == 0 {
            self.load_group(state, first.group())?;
        }
        if groups == 1 {
            return Ok(());
        }
        for group in self.present_groups(state, GroupIndex(groups))? {
            self.load_group(state, group)?;
            state.evict(super::NODES_IN_MEMORY);
        }
        Ok(())
    }

    /// Removes the entries from `first` on, the groups that lie wholly behind
    /// it, and the maps of such groups alone.
    fn drop_blocks(&self, state: &mut State, first: BlockIndex) -> Result<()> {
        if first.entry() != 0 || first.0 == 0 {
            self.load_group(state, first.group())?;
            if let Some(node) = state.nodes.get_mut(&first.group().0) {
                (first.entry()..GROUP_BLOCKS as usize).for_each(|entry| node.slot.page.clear_entry(entry));
                node.slot.dirty = true;
                node.forget_before();
            }
        }
        let groups = first.0.div_ceil(GROUP_BLOCKS).max(1);
        if groups == 1 {
            return self.drop_all_but_the_first(state);
        }
        for group in self.present_groups(state, GroupIndex(groups))? {
            self.drop_group(state, group)?;
        }
        self.drop_maps(state, groups)
    }

    /// When only group 0 remains, no other page needs to be read.
    fn drop_all_but_the_first(&self, state: &mut State) -> Result<()> {
        state.nodes.retain(|&number, _| number == 0);
        state.maps.clear();
        state.header.maps = Default::default();
        Ok(())
    }

    fn drop_group(&self, state: &mut State, group: GroupIndex) -> Result<()> {
        self.load_way(state, PageAddress::node(group))?;
        state.nodes.remove(&group.0);
        state.set_child(PageAddress::node(group), Child::Absent);
        Ok(())
    }

    /// Drops the maps all of whose groups are dropped, the lowest first. All
    /// that are present and behind are loaded: their groups were listed.
    fn drop_maps(&self, state: &mut State, groups: u64) -> Result<()> {
        let mut behind: Vec<PageAddress> =
            state.maps.keys().copied().filter(|map| map.first_group() >= groups).collect();
        behind.sort_unstable();
        for map in behind {
            state.maps.remove(&map);
            match map.map_above().is_none_or(|above| state.maps.contains_key(&above)) {
                true => state.set_child(map, Child::Absent),
                false => debug_assert!(false, "the way to a map in memory is loaded"),
            }
        }
        Ok(())
    }

    /// Every present group from `first` on, in order.
    pub(super) fn present_groups(&self, state: &mut State, first: GroupIndex) -> Result<Vec<GroupIndex>> {
        let mut groups = Vec::new();
        if first.0 == 0 {
            groups.push(GroupIndex(0));
        }
        for map in self.present_maps(state, first)? {
            self.load_map(state, map)?;
            let start = map.number * MAP_SLOTS;
            let slots = state.maps.get(&map).expect("a present map is loaded").page.present();
            let all = slots.map(|slot| GroupIndex(start + slot as u64));
            groups.extend(all.filter(|&group| group >= first));
        }
        Ok(groups)
    }

    /// Every present map page that tells of a group from `first` on, in order.
    pub(super) fn present_maps(&self, state: &mut State, first: GroupIndex) -> Result<Vec<PageAddress>> {
        let map = |number| PageAddress { kind: PageKind::Map, number };
        let middle = |number| PageAddress { kind: PageKind::MiddleMap, number };
        let root = PageAddress { kind: PageKind::RootMap, number: 0 };
        let first_map = first.0 / MAP_SLOTS;
        let mut maps: Vec<PageAddress> = Vec::new();
        if first_map == 0 && state.is_present(map(0)) == Some(true) {
            maps.push(map(0));
        }
        let mut middles: Vec<u64> = vec![0];
        self.load_map(state, root)?;
        middles.extend(
            state.maps.get(&root).iter().flat_map(|root| root.page.present()).map(|slot| slot as u64),
        );
        for number in middles.into_iter().filter(|&number| (number + 1) * MAP_SLOTS > first_map) {
            self.load_map(state, middle(number))?;
            let Some(slots) = state.maps.get(&middle(number)) else { continue };
            let start = number * MAP_SLOTS;
            let all = slots.page.present().map(|slot| start + slot as u64);
            maps.extend(all.filter(|&number| number >= first_map).map(map));
        }
        Ok(maps)
    }

    /// Reserves, punches or zeroes a range.
    ///
    /// # Errors
    /// `EINVAL` for an empty range, `EFBIG`, or what the store reported.
    pub fn allocate(&self, how: Allocate, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Err(Error::Refused(errno::EINVAL));
        }
        self.check_range(offset, len)?;
        match how {
            Allocate::Reserve { keep_len } => self.reserve(offset, len, keep_len),
            Allocate::Punch => self.clear(offset, len),
            Allocate::Zero { keep_len } => {
                self.clear(offset, len)?;
                self.reserve(offset, len, keep_len)
            }
        }
    }

    /// Reserves the homes of a range, so that writing them cannot fail for space.
    fn reserve(&self, offset: u64, len: u64, keep_len: bool) -> Result<()> {
        let geometry = self.geometry();
        let size = geometry.block_size();
        let first = size.block_of(PlainOffset(offset));
        let last = size.block_of(PlainOffset(offset + len - 1));
        let start = geometry.block_offset(first).0;
        let end = geometry.block_offset(last).0 + size.bytes();
        self.reserve_page_before(first)?;
        self.file.allocate(AllocateMode::KeepLength, start, end - start)?;
        if !keep_len && self.plain_len() < offset + len {
            self.set_len(offset + len)?;
        }
        Ok(())
    }

    /// Makes a range read as zeros, and holes of the blocks that lie wholly in it.
    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.geometry().block_size();
        let mut promise = self.promise_for(0, 2 * size.bytes())?;
        let mut state = self.write_state();
        let end = (offset + len).min(state.plain_len().0);
        if offset >= end {
            return Ok(());
        }
        let first_whole = offset.div_ceil(size.bytes());
        let last_whole =
            if end == state.plain_len().0 { end.div_ceil(size.bytes()) } else { end / size.bytes() };
        if first_whole >= last_whole {
            // Inside one block, or across the border of two.
            return self.clear_parts(&mut state, offset, end, &mut promise);
        }
        let head = size.start_of(BlockIndex(first_whole)).0;
        let tail = size.start_of(BlockIndex(last_whole)).0.min(end);
        self.clear_parts(&mut state, offset, head, &mut promise)?;
        self.clear_parts(&mut state, tail, end, &mut promise)?;
        self.punch_blocks(&mut state, BlockIndex(first_whole), BlockIndex(last_whole))?;
        self.note_dirty(&mut state, &mut promise);
        Ok(())
    }

    /// Zeroes `from..to`, at most a part of each of two blocks.
    fn clear_parts(&self, state: &mut State, from: u64, to: u64, promise: &mut Promise<'_>) -> Result<()> {
        let size = self.geometry().block_size();
        for piece in super::range::pieces(size, PlainOffset(from), (to.saturating_sub(from)) as usize) {
            self.load_group(state, piece.block.group())?;
            if state.source(piece.block) != Source::Hole {
                self.zero_part(state, piece.block, piece.from, piece.to, promise)?;
            }
        }
        Ok(())
    }

    /// Makes holes of the blocks `first..end`.
    fn punch_blocks(&self, state: &mut State, first: BlockIndex, end: BlockIndex) -> Result<()> {
        for group in self.present_groups(state, first.group())? {
            let start = group.0 * GROUP_BLOCKS;
            if start >= end.0 {
                break;
            }
            self.load_group(state, group)?;
            let node = state.nodes.get_mut(&group.0).expect("a present group is loaded");
            let from = first.0.max(start) - start;
            let to = end.0.min(start + GROUP_BLOCKS) - start;
            for entry in from..to {
                if !node.slot.page.is_hole(entry as usize) {
                    node.slot.page.clear_entry(entry as usize);
                    node.slot.dirty = true;
                    node.forget_before();
                }
            }
            state.mark_way_dirty(group);
            state.pending.note_punched(BlockIndex(start + from), to - from);
        }
        state.journaled.newest.remove_all(first.0..end.0);
        Ok(())
    }

    /// The next byte of data at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` when there is none, or what loading pages reported.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.in_one_state(|| self.next_data(offset))
    }

    fn next_data(&self, offset: u64) -> Result<u64> {
        let size = self.geometry().block_size();
        let mut state = self.write_state();
        let len = state.plain_len().0;
        if offset >= len {
            return Err(Error::Refused(errno::ENXIO));
        }
        let first = size.block_of(PlainOffset(offset));
        for group in self.present_groups(&mut state, first.group())? {
            self.load_group(&mut state, group)?;
            let start = group.0 * GROUP_BLOCKS;
            let node = &state.nodes.get(&group.0).expect("a present group is loaded").slot.page;
            let from = first.0.max(start) - start;
            if let Some(entry) = (from..GROUP_BLOCKS).find(|&entry| !node.is_hole(entry as usize)) {
                return Ok(size.start_of(BlockIndex(start + entry)).0.max(offset));
            }
            state.evict(super::NODES_IN_MEMORY);
        }
        Err(Error::Refused(errno::ENXIO))
    }

    /// The next hole at or after `offset`; the end of the file counts as one.
    ///
    /// # Errors
    /// `ENXIO` past the end, or what loading pages reported.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.in_one_state(|| self.next_hole(offset))
    }

    fn next_hole(&self, offset: u64) -> Result<u64> {
        let size = self.geometry().block_size();
        let mut state = self.write_state();
        let len = state.plain_len().0;
        if offset >= len {
            return Err(Error::Refused(errno::ENXIO));
        }
        let blocks = size.blocks_in(PlainLen(len));
        for block in (size.block_of(PlainOffset(offset)).0..blocks).map(BlockIndex) {
            if block.entry() == 0 {
                state.evict(super::NODES_IN_MEMORY);
            }
            self.load_group(&mut state, block.group())?;
            if state.source(block) == Source::Hole {
                return Ok(size.start_of(block).0.max(offset));
            }
        }
        Ok(len)
    }

    /// Copies `len` bytes from `offset` to `to_offset` of `to`; gives fewer at
    /// the end of the file.
    ///
    /// # Errors
    /// As reading and writing.
    pub fn copy_to(&self, offset: u64, to: &Content, to_offset: u64, len: usize) -> Result<usize> {
        let mut buffer = Buffer::new(len.min(1 << 20));
        let mut done = 0;
        while done < len {
            let part = (len - done).min(buffer.len());
            let read = self.read_at(offset + done as u64, part, &mut buffer)?;
            if read == 0 {
                break;
            }
            to.write_at(to_offset + done as u64, read, &mut buffer)?;
            done += read;
        }
        Ok(done)
    }
}
