//! What of a file stands in the journal: the newest images of blocks, and those
//! images of blocks and pages that durable records name and that have not been
//! copied in place yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_units::GROUP_BLOCKS;

use super::images::Images;
use crate::error::{Error, Result, errno};
use crate::journal::{Place, Segments};
use crate::page::PageAddress;

static NO_IMAGES: Images = Images::new();

/// Where a file's images are.
#[derive(Debug, Default)]
pub(crate) struct Journaled {
    /// In which journal they stand; `None` where there is none.
    segments: Option<Arc<Segments>>,
    /// Where the newest image of a block stands, when not in place.
    pub(crate) newest: Images,
    committed: Option<Committed>,
    /// Failed barriers of the journal that the images here have been saved
    /// from.
    pub(crate) failures: u64,
}

/// What a file's durable records say of it.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    /// Sequence number of the last one.
    pub(crate) record: u64,
    /// Plain length according to it.
    pub(crate) len: u64,
    pub(crate) blocks: Images,
    pub(crate) pages: BTreeMap<PageAddress, Place>,
}

impl Journaled {
    pub(crate) fn new(segments: Option<Arc<Segments>>) -> Journaled {
        Journaled { segments, ..Journaled::default() }
    }

    /// What a journal of another session holds.
    pub(crate) fn replayed(segments: Arc<Segments>, committed: Committed) -> Journaled {
        Journaled { committed: Some(committed), ..Journaled::new(Some(segments)) }
    }

    /// One of its images of blocks, which is the newest.
    pub(crate) fn add_replayed(&mut self, block: u64, place: Place) {
        self.newest.insert(block, place);
        let committed = self.committed.as_mut().expect("a record names the image");
        committed.blocks.insert(block, place);
    }

    /// Of the same journal, images of one group alone.
    pub(crate) fn of_group(&self, number: u64) -> Journaled {
        let first = number * GROUP_BLOCKS;
        let newest = self.newest.range(first..first + GROUP_BLOCKS).collect();
        Journaled { newest, ..Journaled::new(self.segments.clone()) }
    }

    pub(crate) fn segments(&self) -> Result<&Arc<Segments>> {
        self.segments.as_ref().ok_or(Error::Refused(errno::EIO))
    }

    /// Nothing of the file stands in the journal.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.committed.is_none()
    }

    /// What is durable in the journal alone, if anything is.
    pub(crate) fn committed(&self) -> Option<&Committed> {
        self.committed.as_ref()
    }

    /// The newest images that no durable record names.
    pub(crate) fn uncommitted(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.newest.not_in(self.committed.as_ref().map_or(&NO_IMAGES, |committed| &committed.blocks))
    }

    /// Where the committed image of a block stands, when not in place.
    pub(crate) fn committed_block(&self, block: u64) -> Option<Place> {
        let group = self.committed.as_ref()?.blocks.group(block / GROUP_BLOCKS)?;
        group.get((block % GROUP_BLOCKS) as usize)
    }

    /// Where the committed image of a page stands, when not in place.
    pub(crate) fn page(&self, address: PageAddress) -> Option<Place> {
        self.committed.as_ref()?.pages.get(&address).copied()
    }

    /// The pages of which a committed image stands in the journal.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageAddress> + '_ {
        self.committed.iter().flat_map(|committed| committed.pages.keys().copied())
    }

    /// A record is durable that names these images.
    pub(crate) fn commit(
        &mut self,
        (record, len): (u64, u64),
        blocks: impl Iterator<Item = (u64, Place)>,
        pages: impl Iterator<Item = (PageAddress, Place)>,
    ) {
        let committed = self.committed.get_or_insert_with(|| Committed {
            record,
            len,
            blocks: Images::default(),
            pages: BTreeMap::new(),
        });
        (committed.record, committed.len) = (record, len);
        committed.blocks.extend(blocks);
        committed.pages.extend(pages);
    }

    /// Forgets committed images that are not to be copied in place.
    pub(crate) fn void(
        &mut self,
        is_void_block: impl Fn(u64) -> bool,
        is_void_page: impl Fn(&PageAddress) -> bool,
    ) {
        if let Some(committed) = &mut self.committed {
            committed.blocks.retain(|block| !is_void_block(block));
            committed.pages.retain(|address, _| !is_void_page(address));
        }
    }

    /// What was `copied` is durable in place: it is read there from now on,
    /// unless something newer stands in the journal.
    pub(crate) fn land(&mut self, copied: &Committed) {
        self.newest.remove_same(&copied.blocks);
        let Some(committed) = &mut self.committed else { return };
        if committed.record == copied.record {
            self.committed = None;
            return;
        }
        committed.blocks.remove_same(&copied.blocks);
        committed.pages.retain(|page, place| copied.pages.get(page) != Some(place));
    }

    /// Everything has been copied in place.
    pub(crate) fn clear(&mut self) {
        self.newest.clear();
        self.committed = None;
    }

    /// Whether an image stands in a segment of the journal.
    pub(crate) fn is_in(&self, segment: u8) -> bool {
        let committed = self.committed.iter();
        let blocks =
            committed.clone().flat_map(|committed| committed.blocks.iter()).chain(self.newest.iter());
        let pages = committed.flat_map(|committed| committed.pages.values().copied());
        blocks.map(|(_, place)| place).chain(pages).any(|place| place.segment == segment)
    }
}
