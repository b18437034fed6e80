//! Groups that a write fills: their node pages are sealed and written with the
//! blocks, since neither a commit nor a later write of a file that grows has
//! anything to add to them.
//!
//! Such a page stands where nothing refers to it, as the blocks do, and is no
//! more than they are until a commit writes the map page that holds its token.
//! What changes in the group before makes it a page like any other: the commit
//! seals it again, under another nonce.

use strongroom_engine::Buffer;
use strongroom_format::vault::node::{ENTRIES, Entry, Node};
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_units::{BlockIndex, GroupIndex, PAGE_LEN, PlainLen};

use super::Content;
use super::load::{Load, Run, first_of, groups_of};
use super::state::State;
use crate::error::Result;
use crate::page::{Image, PageAddress};
use crate::sealer::Purpose;

/// The pages of the groups that a write fills.
pub(super) struct Filled {
    pages: Vec<FilledPage>,
    /// Their images, one behind the other.
    images: Buffer,
}

struct FilledPage {
    group: GroupIndex,
    node: Node,
    tag: [u8; 16],
}

impl Filled {
    /// The image of a group's page, if the write fills the group.
    pub(super) fn page(&self, group: GroupIndex) -> Option<&[u8]> {
        let index = self.pages.iter().position(|page| page.group == group)?;
        Some(&self.images[index * PAGE_LEN..][..PAGE_LEN])
    }
}

impl Content {
    /// Seals the pages of the groups that these runs fill.
    pub(super) fn seal_filled(
        &self,
        state: &State,
        loads: &[Load<'_>],
        runs: &[Run<'_>],
        new_len: PlainLen,
    ) -> Result<Filled> {
        let mut pages: Vec<FilledPage> = groups_of(loads)
            .into_iter()
            .filter(|group| is_filled(state, *group, runs, new_len))
            .map(|group| FilledPage { group, node: next_node(state, group, loads), tag: [0; 16] })
            .collect();
        if pages.is_empty() {
            return Ok(Filled { pages, images: Buffer::empty() });
        }
        let addresses: Vec<PageAddress> = pages.iter().map(|page| PageAddress::node(page.group)).collect();
        let mut nodes = pages.iter().map(|page| page.node.encoded());
        let (headers, batch) = self.page_batch(&addresses, |_, sealed| {
            sealed.copy_from_slice(nodes.next().expect("one for each address"));
        })?;
        let batch = self.context.sealer.execute(Purpose::Pages(self.generation()), batch)?;
        let mut images = batch.buffer;
        for (index, (page, header)) in pages.iter_mut().zip(headers).enumerate() {
            page.tag = *batch.segments[index].tag();
            let clear = PageHeader { tag: page.tag, ..header }.encode();
            images[index * PAGE_LEN..][..CLEAR_LEN].copy_from_slice(&clear);
        }
        Ok(Filled { pages, images })
    }
}

impl State {
    /// Filled pages have been stored, and their blocks are the file's.
    pub(super) fn note_filled(&mut self, filled: Filled) {
        for FilledPage { group, node, tag } in filled.pages {
            let slot = self.nodes.get_mut(&group.0).expect("the group of what was written is in memory");
            slot.slot.image = Some(Image { sequence: node.sequence(), tag });
            slot.slot.page = node;
            slot.slot.dirty = false;
            slot.is_ahead = true;
            self.set_sealed(PageAddress::node(group), &tag);
        }
    }
}

/// Whether these runs fill a group: it has blocks alone and its last one is
/// whole, as it was not before, nothing refers to its page, and nothing of it
/// stands in the journal.
fn is_filled(state: &State, group: GroupIndex, runs: &[Run<'_>], new_len: PlainLen) -> bool {
    let end = state.geometry.block_size().start_of(first_of(GroupIndex(group.0 + 1))).0;
    let node = state.nodes.get(&group.0);
    let may_write = match node {
        Some(node) => !node.slot.referenced,
        None => !state.behind_cut(first_of(group)),
    };
    let node = node.map(|node| &node.slot.page);
    let blocks = node.map_or(0, Node::live_entries);
    let was_full = blocks == ENTRIES && state.plain_len().0 >= end;
    let is_header = group.0 == 0;
    if is_header || !may_write || was_full || new_len.0 < end || !state.naming.is_named() {
        return false;
    }
    let of_group = runs.iter().filter(|run| run.groups().any(|one| one == group));
    if state.journaled.newest.group(group.0).is_some() || of_group.clone().any(|run| run.is_journaled) {
        return false;
    }
    let is_new = |block: &u64| node.is_none_or(|node| node.is_hole(BlockIndex(*block).entry()));
    let new: usize = of_group.map(|run| run.blocks.clone().filter(is_new).count()).sum();
    blocks + new == ENTRIES
}

/// The node of a group with the blocks that are being stored, as it is sealed
/// next.
fn next_node(state: &State, group: GroupIndex, loads: &[Load<'_>]) -> Node {
    let mut node = state.nodes.get(&group.0).map_or_else(Node::new, |node| node.slot.page.clone());
    enter(&mut node, group, loads);
    node.set_sequence(node.sequence() + 1);
    node
}

/// Enters the sealed blocks of a group in its node, which has room for their
/// session.
pub(super) fn enter(node: &mut Node, group: GroupIndex, loads: &[Load<'_>]) {
    // All old entries first: a page names few sessions at once.
    for (job, _) in loads.iter().flat_map(|load| load.of_group(group)) {
        node.clear_entry(job.block.entry());
    }
    for (job, segment) in loads.iter().flat_map(|load| load.of_group(group)) {
        let entry = Entry::new(segment.nonce(), *segment.tag());
        node.set_entry(job.block.entry(), &entry).expect("room was made before sealing");
    }
}
