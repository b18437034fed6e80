//! The first step of a commit: seal every page that has changed, write the
//! images to where they may stand, and say what the record has to name.

use std::collections::BTreeSet;

use strongroom_engine::{AssociatedData, Batch, Operation, Segment};
use strongroom_format::vault::PageKind;
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader, SEALED_LEN};
use strongroom_format::vault::record::{BlockImage, PageImage};
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex, PAGE_LEN};

use super::Content;
use super::pending::Taken;
use super::state::{State, presence};
use crate::error::Result;
use crate::freshness::Version;
use crate::journal::Promise;
use crate::page::{Image, PageAddress};
use crate::reader_rules::ReaderRule;
use crate::rules::Rule;
use crate::sealer::Purpose;

/// Pages sealed in one batch.
const PAGES_PER_BATCH: usize = 256;

/// Batches that an engine is given at once: 4 MiB of memory.
const BATCHES_TOGETHER: usize = 4;

/// What a commit of one file has written, and what remains to be done.
#[derive(Debug, Default)]
pub(crate) struct Emission {
    /// Something was written home that must be durable before the record, or
    /// before the reply, as [`State::unsynced`] says.
    pub(crate) unsynced: Option<u64>,
    /// What the record names; `None` when the file is new and needs none.
    pub(crate) record: Option<Images>,
    /// Pages that are in flight.
    pub(crate) pages: Vec<PageAddress>,
    /// The header page's image, which stands for the file in a freshness file.
    pub(crate) version: Option<Version>,
    /// Failed barriers of the journal that the record's images were saved from.
    pub(crate) saved_from: u64,
    /// Plain length that is being committed.
    pub(crate) plain_len: u64,
    /// Node entries that are being committed.
    pub(super) presence: Vec<(u64, u128)>,
    /// A cut that becomes durable, and blocks to be punched then.
    pub(super) taken: Taken,
}

/// Images in the journal.
#[derive(Debug, Default)]
pub(crate) struct Images {
    pub(crate) pages: Vec<PageImage>,
    pub(crate) blocks: Vec<BlockImage>,
}

impl Content {
    /// Writes out what has changed. The record's images are complete when
    /// this returns; nothing is durable yet.
    ///
    /// The state stays locked while the engine seals: pages hold the tags of
    /// those below them, and all that the record names has to be the file at
    /// one moment. Who reads or writes meanwhile waits for a batch for each
    /// kind of page, at most four.
    pub(super) fn emit(&self, state: &mut State, promise: &mut Promise<'_>) -> Result<Emission> {
        self.emit_changed(state, promise).inspect_err(|_| state.has_failed = true)
    }

    fn emit_changed(&self, state: &mut State, promise: &mut Promise<'_>) -> Result<Emission> {
        let was_written = state.birth.is_written();
        let mut emission = Emission { plain_len: state.plain_len().0, ..Emission::default() };
        let mut images = Images::default();
        if state.is_dirty() {
            let before = self.file.attributes()?;
            self.extend_home(state)?;
            self.rescue_images(state)?;
            emission.saved_from = state.journaled.failures;
            emission.pages = dirty_pages(state);
            emission.pages.push(PageAddress::HEADER);
            let written = self.emit_all(state, &emission.pages, promise, &mut images).and_then(|()| {
                emission.pages.extend(state.name_ahead());
                self.reference_entries(state, &mut emission);
                // Pages follow data at their own time; the times are the user's.
                self.restore_times(state, &before)
            });
            if let Err(error) = written {
                // No record will name these images.
                state.retake(&emission.pages);
                return Err(error);
            }
            let newer = state.journaled.uncommitted();
            images.blocks =
                newer.map(|(block, place)| BlockImage { block: BlockIndex(block), place }).collect();
            emission.taken = state.pending.take();
            emission.record = was_written.then_some(images);
        }
        emission.version = state.version();
        emission.unsynced = state.unsynced.take();
        state.habit.fresh_bytes = 0;
        Ok(emission)
    }

    /// Seals `pages`, each kind before those that hold its tokens.
    fn emit_all(
        &self,
        state: &mut State,
        pages: &[PageAddress],
        promise: &mut Promise<'_>,
        images: &mut Images,
    ) -> Result<()> {
        let (_, others) = pages.split_last().expect("the header page comes last");
        for kind in others.chunk_by(|a, b| a.kind == b.kind) {
            for part in kind.chunks(PAGES_PER_BATCH * BATCHES_TOGETHER) {
                self.emit_pages(state, part, promise, images)?;
            }
        }
        self.emit_header(state, promise, images)
    }

    /// A new file gets its whole length at once, since no record will set it.
    fn extend_home(&self, state: &mut State) -> Result<()> {
        let len = state.geometry.stored_len(state.plain_len()).0;
        if !state.birth.is_written() && state.home_len != len {
            self.file.set_len(len)?;
            state.home_len = len;
        }
        Ok(())
    }

    /// Seals pages that do not hold each other's tokens, all together.
    fn emit_pages(
        &self,
        state: &mut State,
        pages: &[PageAddress],
        promise: &mut Promise<'_>,
        images: &mut Images,
    ) -> Result<()> {
        let parts: Vec<&[PageAddress]> = pages.chunks(PAGES_PER_BATCH).collect();
        let mut headers = Vec::with_capacity(parts.len());
        let mut batches = Vec::with_capacity(parts.len());
        for part in &parts {
            let (header, batch) =
                self.page_batch(part, |address, sealed| sealed.copy_from_slice(next_image(state, address)))?;
            headers.push(header);
            batches.push(batch);
        }
        let mut flight = self.context.sealer.submit_many(Purpose::Pages(self.generation()), batches)?;
        for (part, headers) in parts.into_iter().zip(headers) {
            let Batch { mut buffer, segments, .. } = flight.next().expect("one for each part")?.batch;
            for (index, (&address, header)) in part.iter().zip(headers).enumerate() {
                let tag = *segments[index].tag();
                let bytes = &mut buffer[index * PAGE_LEN..][..PAGE_LEN];
                bytes[..CLEAR_LEN].copy_from_slice(&PageHeader { tag, ..header }.encode());
                self.place_page(state, (address, tag), bytes, promise, images)?;
                self.note_image(state, address, tag);
            }
        }
        Ok(())
    }

    fn emit_header(&self, state: &mut State, promise: &mut Promise<'_>, images: &mut Images) -> Result<()> {
        let has_settled = state.moved.is_some_and(|began| self.context.barriers.covers(began));
        if has_settled && ReaderRule::HomeBefore.is_kept() {
            state.header.home_before = [0; 16];
            state.moved = None;
        }
        let mut header = state.header;
        header.settled = state.birth.is_durable();
        let slot = &mut state.nodes.get_mut(&0).expect("node 0 stays in memory").slot;
        slot.page.set_header(&header);
        let before = self.context.barriers.moment();
        self.emit_pages(state, &[PageAddress::HEADER], promise, images)?;
        state.birth.note_written(self.context.barriers.written(before));
        Ok(())
    }

    /// Pages to be sealed one behind the other, as `fill` says what each holds,
    /// and their clear parts but for the tags.
    pub(super) fn page_batch(
        &self,
        pages: &[PageAddress],
        mut fill: impl FnMut(PageAddress, &mut [u8]),
    ) -> Result<(Vec<PageHeader>, Batch)> {
        let context = &self.context;
        let mut buffer = context.sealer.buffer(Purpose::Pages(self.generation()), pages.len() * PAGE_LEN);
        let mut nonces = context.sealer.draw(pages.len() * SEALED_LEN)?;
        let mut headers = Vec::with_capacity(pages.len());
        let mut segments = Vec::with_capacity(pages.len());
        for (index, &address) in pages.iter().enumerate() {
            let at = index * PAGE_LEN + CLEAR_LEN;
            fill(address, &mut buffer[at..at + SEALED_LEN]);
            let nonce = nonces.draw();
            let header = PageHeader {
                kind: address.kind,
                suite: context.suite,
                block_size: context.geometry.block_size(),
                generation: self.generation(),
                file: self.id,
                nonce: nonce.bytes(),
                tag: [0; 16],
            };
            let bound = AssociatedData::new(&header.associated_data(address.number));
            segments.push(Segment::seal(at, SEALED_LEN, nonce, bound));
            headers.push(header);
        }
        Ok((headers, Batch::new(Operation::Seal, buffer, segments)))
    }

    /// Home when nothing that survives a crash points there, else the journal.
    fn place_page(
        &self,
        state: &mut State,
        (address, tag): (PageAddress, [u8; 16]),
        bytes: &[u8],
        promise: &mut Promise<'_>,
        images: &mut Images,
    ) -> Result<()> {
        let is_header = address == PageAddress::HEADER;
        let referenced = page_referenced(state, address)
            && (is_header || !state.home_is_lost)
            && self.context.rules.keeps(Rule::JournalPages);
        let is_journaled = state.birth.is_written() && (referenced || has_images(state, address));
        if is_journaled {
            let place = promise.write_images(bytes, 1)?;
            images.pages.push(PageImage { kind: address.kind, number: address.number, place, tag });
        }
        if !is_journaled || (is_header && state.home_is_lost) {
            let offset = state.geometry.page_offset(address.kind, address.number).0;
            state.note_home_write(self.context.barriers.moment());
            self.file.write_at(bytes, offset)?;
            state.home_len = state.home_len.max(offset + PAGE_LEN as u64);
        }
        Ok(())
    }

    /// Makes the image just written the page's last one, in memory and for the
    /// page above.
    fn note_image(&self, state: &mut State, address: PageAddress, tag: [u8; 16]) {
        let mark = state.mark(address).expect("an emitted page is in memory");
        *mark.image = Some(Image { sequence: mark.sequence, tag });
        *mark.dirty = false;
        *mark.referenced = true;
        *mark.in_flight = true;
        state.set_sealed(address, &tag);
    }

    /// From here on, what the emitted pages name may survive a crash.
    fn reference_entries(&self, state: &mut State, emission: &mut Emission) {
        for address in &emission.pages {
            if matches!(address.kind, PageKind::Header | PageKind::Node) {
                let node = state.nodes.get_mut(&address.number).expect("an emitted node is in memory");
                let present = presence(&node.slot.page);
                node.referenced |= present;
                emission.presence.push((address.number, present));
            }
        }
    }
}

/// Advances a page's sequence number and gives its sealed part.
fn next_image(state: &mut State, address: PageAddress) -> &[u8; SEALED_LEN] {
    match address.kind {
        PageKind::Header | PageKind::Node => {
            let slot = &mut state.nodes.get_mut(&address.number).expect("a dirty node is in memory").slot;
            slot.page.set_sequence(slot.page.sequence() + 1);
            slot.page.encoded()
        }
        PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => {
            let slot = state.maps.get_mut(&address).expect("a dirty map is in memory");
            slot.page.set_sequence(slot.page.sequence() + 1);
            slot.page.encoded()
        }
    }
}

fn page_referenced(state: &State, address: PageAddress) -> bool {
    match address.kind {
        PageKind::Header | PageKind::Node => state.nodes[&address.number].slot.referenced,
        PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => state.maps[&address].referenced,
    }
}

/// Whether any block of a node's group stands in the journal: a record names
/// the page of every block that it names.
fn has_images(state: &State, address: PageAddress) -> bool {
    let first = address.number * GROUP_BLOCKS;
    matches!(address.kind, PageKind::Header | PageKind::Node)
        && state.journaled.newest.range(first..first + GROUP_BLOCKS).next().is_some()
}

/// Every page to be sealed but the header page, whose turn comes last: each
/// dirty one, and those above it, which hold its token. Kinds come in order.
fn dirty_pages(state: &State) -> Vec<PageAddress> {
    let nodes = state.nodes.iter().filter(|&(&number, node)| number != 0 && node.slot.dirty);
    let nodes = nodes.map(|(&number, _)| PageAddress::node(GroupIndex(number)));
    let maps = state.maps.iter().filter(|(_, map)| map.dirty).map(|(&address, _)| address);
    let mut pages: BTreeSet<PageAddress> = BTreeSet::new();
    for page in nodes.chain(maps) {
        let mut at = Some(page);
        while let Some(address) = at.filter(|address| pages.insert(*address)) {
            at = address.map_above();
        }
    }
    pages.into_iter().collect()
}
