//! What is known in memory of one file: its pages, where the newest image of
//! each block stands, and what the next commit has to write.
//!
//! No I/O. The rules of section 7 of the format live here as three questions:
//! is a block's home *referenced*, is a page's, and where is a block read.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use strongroom_format::vault::geometry::Parent;
use strongroom_format::vault::map::{Child, Map, Token};
use strongroom_format::vault::node::{ENTRIES, Entry, HeaderFields, Node};
use strongroom_format::vault::{Geometry, PageKind};
use strongroom_units::{BlockIndex, GroupIndex, PlainLen};

use super::follow::Following;
use super::images;
use super::journaled::Journaled;
use super::pending::Pending;
use crate::barriers::{Barriers, Moment};
use crate::freshness::Version;
use crate::journal::Place;
use crate::life::{Birth, Naming};
use crate::losses::Losses;
use crate::page::{Image, PageAddress};

/// A page in memory.
#[derive(Debug)]
pub(crate) struct Slot<P> {
    /// What it says now.
    pub(crate) page: P,
    /// Its last image, written or on its way; `None` before the first.
    pub(crate) image: Option<Image>,
    /// It says something that its last image does not.
    pub(crate) dirty: bool,
    /// Its home may be pointed at by what survives a crash.
    pub(crate) referenced: bool,
    /// A commit is writing its image: it must stay in memory.
    pub(crate) in_flight: bool,
}

impl<P> Slot<P> {
    /// A page that has never been written; `referenced` when its place may
    /// still hold something that is.
    pub(crate) fn fresh(page: P, referenced: bool) -> Slot<P> {
        Slot { page, image: None, dirty: true, referenced, in_flight: false }
    }

    /// A page as read.
    pub(crate) fn read(page: P, image: Image) -> Slot<P> {
        Slot { page, image: Some(image), dirty: false, referenced: true, in_flight: false }
    }

    pub(crate) fn evictable(&self) -> bool {
        !self.dirty && !self.in_flight
    }
}

/// What is noted of a page, whatever its kind.
pub(crate) struct Mark<'a> {
    pub(crate) sequence: u64,
    pub(crate) image: &'a mut Option<Image>,
    pub(crate) dirty: &'a mut bool,
    pub(crate) referenced: &'a mut bool,
    pub(crate) in_flight: &'a mut bool,
}

impl<P> Slot<P> {
    fn mark(&mut self, sequence: u64) -> Mark<'_> {
        Mark {
            sequence,
            image: &mut self.image,
            dirty: &mut self.dirty,
            referenced: &mut self.referenced,
            in_flight: &mut self.in_flight,
        }
    }
}

/// A node page, with which of its blocks' homes are referenced.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    pub(crate) slot: Slot<Node>,
    /// Bit `i`: the home of block `i` of the group may be pointed at by what
    /// survives a crash.
    pub(crate) referenced: u128,
    /// Its last image stands in place, written with the group's blocks, and no
    /// commit has named it yet.
    pub(crate) is_ahead: bool,
    /// The page as the last commit left it, while it has changed since.
    before: Option<Box<Node>>,
    /// The page as the commit under way has it, where it has changed since.
    in_commit: Option<Box<Node>>,
}

impl NodeSlot {
    pub(crate) fn new(slot: Slot<Node>, referenced: u128) -> NodeSlot {
        NodeSlot { slot, referenced, is_ahead: false, before: None, in_commit: None }
    }

    /// Blocks are going to be entered; tells whether nothing had changed since the
    /// page was sealed.
    pub(super) fn begin_change(&mut self) -> bool {
        if std::mem::replace(&mut self.slot.dirty, true) {
            return false;
        }
        let page = || Some(Box::new(self.slot.page.clone()));
        if self.slot.in_flight {
            self.in_commit = page();
        }
        // A header page is in every commit, changed or not.
        if self.before.is_none() && self.slot.image.is_some() {
            self.before = page();
        }
        true
    }

    /// A commit of the page has succeeded.
    fn note_committed(&mut self) {
        self.before = self.in_commit.take();
    }

    /// Entries are taken away, and are not to come back.
    pub(super) fn forget_before(&mut self) {
        (self.before, self.in_commit) = (None, None);
    }

    fn evictable(&self) -> bool {
        self.slot.evictable() && !self.is_ahead
    }

    /// A node as read: everything it names is referenced.
    pub(crate) fn read(node: Node, image: Image) -> NodeSlot {
        let referenced = presence(&node);
        NodeSlot::new(Slot::read(node, image), referenced)
    }
}

/// Bit `i` of a node: block `i` of the group is no hole.
pub(crate) fn presence(node: &Node) -> u128 {
    (0..ENTRIES).filter(|&index| !node.is_hole(index)).fold(0, |bits, index| bits | 1 << index)
}

/// The state of one file; guarded by the content's lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) geometry: Geometry,
    /// The header fields; written into node 0 when it is sealed.
    pub(crate) header: HeaderFields,
    pub(crate) nodes: HashMap<u64, NodeSlot>,
    pub(crate) maps: HashMap<PageAddress, Slot<Map>>,
    /// How far the file has come into being.
    pub(crate) birth: Birth,
    pub(crate) naming: Naming,
    /// Something has been written home since the file's last barrier: how many barriers
    /// of the store had ended before the first of that.
    pub(crate) unsynced: Option<u64>,
    pub(crate) losses: Losses,
    /// A change of the stored file has failed since its last barrier: what was
    /// written before may be lost, which a barrier has to say.
    pub(crate) has_failed: bool,
    /// Of a file that was never durable, and has something in the journal: a barrier
    /// has failed that should have covered its pages. They are written in place
    /// anew, the header page both there and to the journal.
    pub(crate) home_is_lost: bool,
    /// A commit has made it durable, with what barriers before had lost: a crash
    /// would take it away for that, until its header page says *settled*.
    pub(crate) is_unsettled: bool,
    /// Of a file that stands under its home and may still be found under the
    /// one before: how many barriers of the store had begun when it was moved.
    pub(crate) moved: Option<u64>,
    pub(crate) habit: Habit,
    /// The stored file's length as it is.
    pub(crate) home_len: u64,
    /// What stands in the journal.
    pub(crate) journaled: Journaled,
    /// What the next commit has to do.
    pub(crate) pending: Pending,
    /// Of a file that somebody may be writing to.
    pub(crate) following: Option<Following>,
    /// Changes of the data so far: each gives the file a new time.
    pub(crate) writes: u64,
    /// When a write that went to the journal alone last gave the stored file
    /// its time; `None` since the user has set another.
    pub(crate) touched: Option<Instant>,
}

/// How a file is written and synced.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// Bytes written home since the last `sync` call.
    pub(crate) fresh_bytes: u64,
    /// The file is synced often with little written in between: small fresh
    /// writes go into the journal, so that a sync costs one barrier.
    pub(crate) journal_small: bool,
}

/// Where a block's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Hole,
    Home,
    Journal(Place),
}

/// What is known of blocks that are asked for one after the other: what they
/// share with their group is looked up once for all of it.
pub(crate) struct Blocks<'s> {
    state: &'s State,
    group: Known<'s>,
}

struct Known<'s> {
    number: GroupIndex,
    node: Option<&'s Node>,
    images: Option<&'s images::Group>,
}

impl<'s> Blocks<'s> {
    /// Where `block` is read from.
    pub(crate) fn source(&mut self, block: BlockIndex) -> Source {
        let group = self.group(block);
        match (group.node, group.images) {
            (Some(node), images) if !node.is_hole(block.entry()) => {
                images.and_then(|images| images.get(block.entry())).map_or(Source::Home, Source::Journal)
            }
            _ => Source::Hole,
        }
    }

    /// The node of the group of `block`.
    pub(crate) fn node(&mut self, block: BlockIndex) -> Option<&'s Node> {
        self.group(block).node
    }

    fn group(&mut self, block: BlockIndex) -> &Known<'s> {
        if self.group.number != block.group() {
            self.group = self.state.known_of(block.group());
        }
        &self.group
    }
}

/// What is known of homes that are asked for one after the other: what they
/// share with their group is looked up once for all of it.
pub(crate) struct Homes<'s> {
    state: &'s State,
    cut: Option<u64>,
    number: GroupIndex,
    referenced: u128,
}

impl Homes<'_> {
    /// Rule 1 for blocks: the home of `block` must not be written before the
    /// block's new image is durable in the journal.
    pub(crate) fn is_referenced(&mut self, block: BlockIndex) -> bool {
        self.is_behind_cut(block) || self.is_named(block)
    }

    /// The home has had its space since it was first written, and no pending
    /// cut takes it away.
    pub(crate) fn has_space(&mut self, block: BlockIndex) -> bool {
        !self.is_behind_cut(block) && self.is_named(block)
    }

    fn is_behind_cut(&self, block: BlockIndex) -> bool {
        let size = self.state.geometry.block_size();
        self.cut.is_some_and(|cut| size.start_of(block).0 + size.bytes() > cut)
    }

    fn is_named(&mut self, block: BlockIndex) -> bool {
        if self.number != block.group() {
            (self.number, self.referenced) = (block.group(), self.state.referenced(block.group()));
        }
        self.referenced >> block.entry() & 1 == 1
    }
}

impl State {
    /// The state of a file of which only the header fields are known.
    pub(super) fn new(geometry: Geometry, header: HeaderFields) -> State {
        State {
            geometry,
            header,
            nodes: HashMap::new(),
            maps: HashMap::new(),
            birth: Birth::Unwritten,
            naming: Naming::Named,
            unsynced: None,
            losses: Losses::default(),
            has_failed: false,
            home_is_lost: false,
            is_unsettled: false,
            moved: None,
            habit: Habit::default(),
            home_len: 0,
            journaled: Journaled::default(),
            pending: Pending::default(),
            following: None,
            writes: 0,
            touched: None,
        }
    }

    pub(crate) fn plain_len(&self) -> PlainLen {
        self.header.plain_len
    }

    /// No barrier of the store has even begun since the file was written in
    /// place, and nothing of it is in the journal: a crash takes it away,
    /// whatever is written in place.
    pub(crate) fn was_never_durable(&self, barriers_begun: u64) -> bool {
        self.birth.written_since().is_some_and(|written| written.is_after(barriers_begun))
            && self.stands_in_place()
    }

    /// Something is written home, or was since `before`.
    pub(crate) fn note_home_write(&mut self, before: Moment) {
        self.unsynced.get_or_insert(before.ended);
    }

    /// What was written home may be lost to a barrier of the store that failed, and
    /// nobody has asked for the file's own since.
    pub(crate) fn may_have_lost(&self, barriers: &Barriers) -> bool {
        self.unsynced.is_some_and(|since| barriers.failed_since(since))
    }

    /// Something is to be written by the next commit.
    pub(crate) fn is_dirty(&self) -> bool {
        self.naming.is_named() && self.pending.is_changed()
    }

    /// The last image of the header page, written or on its way.
    pub(crate) fn version(&self) -> Option<Version> {
        let image = self.nodes.get(&0)?.slot.image?;
        Some(Version { sequence: image.sequence, tag: image.tag })
    }

    /// Something durable stands in the journal alone, or a commit under way
    /// is about to make it so.
    pub(crate) fn is_journaled(&self) -> bool {
        self.pending.is_under_way() || !self.journaled.is_empty()
    }

    /// Whether a group's node exists, as far as the pages in memory tell;
    /// `None` when the map that knows is not loaded.
    pub(crate) fn group_present(&self, group: GroupIndex) -> Option<bool> {
        self.is_present(PageAddress::node(group))
    }

    /// The same of any page.
    pub(crate) fn is_present(&self, address: PageAddress) -> Option<bool> {
        self.child(address).map(Child::is_present)
    }

    /// What the page above one knows of it; `None` when that is not loaded.
    pub(crate) fn child(&self, address: PageAddress) -> Option<Child> {
        match address.parent() {
            None => Some(Child::Unsealed),
            Some(Parent::Header { slot }) => Some(self.header.maps[slot]),
            Some(Parent::Map { kind, number, slot }) => {
                let above = PageAddress { kind, number };
                match self.maps.get(&above) {
                    Some(map) => Some(map.page.child(slot)),
                    None if self.is_present(above)? => None,
                    None => Some(Child::Absent),
                }
            }
        }
    }

    /// Sets what the page above one knows of it. That is in memory.
    pub(crate) fn set_child(&mut self, address: PageAddress, child: Child) {
        match address.parent() {
            None => {}
            Some(Parent::Header { slot }) => self.header.maps[slot] = child,
            Some(Parent::Map { kind, number, slot }) => {
                let above = PageAddress { kind, number };
                let map = self.maps.get_mut(&above).expect("the map above is loaded");
                map.page.set_child(slot, child);
                map.dirty = true;
            }
        }
    }

    /// A page's image has been sealed: the page above is told.
    pub(crate) fn set_sealed(&mut self, address: PageAddress, tag: &[u8; 16]) {
        self.set_child(address, Child::Sealed(Token::of(tag)));
    }

    /// A page of the way to a node that has changed is sealed by the next
    /// commit with it; gives how many are so newly. All of them are loaded.
    pub(crate) fn mark_way_dirty(&mut self, group: GroupIndex) -> u32 {
        let mut newly = 0;
        let mut at = PageAddress::node(group).map_above();
        while let Some(address) = at {
            let map = self.maps.get_mut(&address).expect("the way to a node in memory is loaded");
            newly += u32::from(!std::mem::replace(&mut map.dirty, true));
            at = address.map_above();
        }
        newly
    }

    /// The homes of the blocks of a range, from `first` on. All their nodes
    /// are loaded or absent.
    pub(crate) fn homes_from(&self, first: BlockIndex) -> Homes<'_> {
        let number = first.group();
        Homes { state: self, cut: self.pending.lowest_cut(), number, referenced: self.referenced(number) }
    }

    /// Bit `i`: the home of block `i` of the group is referenced by its node.
    fn referenced(&self, group: GroupIndex) -> u128 {
        self.nodes.get(&group.0).map_or(0, |node| node.referenced)
    }

    /// True for blocks whose home a pending cut will remove.
    pub(super) fn behind_cut(&self, block: BlockIndex) -> bool {
        self.homes_from(block).is_behind_cut(block)
    }

    /// Where `block` is read from. Its node is loaded or absent.
    pub(crate) fn source(&self, block: BlockIndex) -> Source {
        self.blocks_from(block).source(block)
    }

    /// How a block is sealed; `None` for a hole, and where its node is neither
    /// loaded nor absent.
    pub(crate) fn entry(&self, block: BlockIndex) -> Option<Entry> {
        self.nodes.get(&block.group().0)?.slot.page.entry(block.entry())
    }

    /// The blocks of a range, from `first` on. All their nodes are loaded or
    /// absent.
    pub(crate) fn blocks_from(&self, first: BlockIndex) -> Blocks<'_> {
        Blocks { state: self, group: self.known_of(first.group()) }
    }

    fn known_of(&self, number: GroupIndex) -> Known<'_> {
        let node = self.nodes.get(&number.0).map(|node| &node.slot.page);
        Known { number, node, images: self.journaled.newest.group(number.0) }
    }

    /// The node of a group, which is made if it does not exist. All maps on
    /// the way are loaded or absent.
    pub(crate) fn node_for_writing(&mut self, group: GroupIndex) -> &mut NodeSlot {
        if !self.nodes.contains_key(&group.0) {
            self.add_group(group);
        }
        self.nodes.get_mut(&group.0).expect("just made")
    }

    /// The pages on the way to a group that is not present, its own included, as
    /// far as they are not either, the highest first.
    pub(super) fn absent_way(&self, group: GroupIndex) -> Vec<PageAddress> {
        let up = std::iter::successors(Some(PageAddress::node(group)), |page| page.map_above());
        let mut way: Vec<PageAddress> = up.take_while(|page| self.is_present(*page) == Some(false)).collect();
        way.reverse();
        way
    }

    /// Adds a group that is not present, and the maps on the way to it.
    fn add_group(&mut self, group: GroupIndex) {
        let first = BlockIndex(group.0 * strongroom_units::GROUP_BLOCKS);
        let behind_cut = self.behind_cut(first);
        let node = NodeSlot::new(Slot::fresh(Node::new(), behind_cut), 0);
        self.nodes.insert(group.0, node);
        let mut address = PageAddress::node(group);
        while let Some(above) = address.map_above() {
            let is_new = self.is_present(above) == Some(false);
            if is_new {
                self.maps.insert(above, Slot::fresh(Map::new(), behind_cut));
            }
            self.set_child(address, Child::Unsealed);
            if !is_new {
                return;
            }
            address = above;
        }
        self.set_child(address, Child::Unsealed);
    }

    /// What is noted of a page in memory.
    pub(crate) fn mark(&mut self, address: PageAddress) -> Option<Mark<'_>> {
        match address.kind {
            PageKind::Header | PageKind::Node => self.nodes.get_mut(&address.number).map(|node| {
                let sequence = node.slot.page.sequence();
                node.slot.mark(sequence)
            }),
            PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => {
                self.maps.get_mut(&address).map(|slot| {
                    let sequence = slot.page.sequence();
                    slot.mark(sequence)
                })
            }
        }
    }

    /// Pages that were written ahead are named by the commit that has written
    /// what holds their tokens; gives those.
    pub(super) fn name_ahead(&mut self) -> Vec<PageAddress> {
        let mut named = Vec::new();
        for (&number, node) in self.nodes.iter_mut().filter(|(_, node)| node.is_ahead) {
            node.is_ahead = false;
            // One that has changed meanwhile was among those sealed now.
            if !node.slot.in_flight {
                (node.slot.referenced, node.slot.in_flight) = (true, true);
                named.push(PageAddress::node(GroupIndex(number)));
            }
        }
        named
    }

    /// What was written in place since the last barrier may be lost: pages that
    /// were written ahead are written again by the next commit.
    pub(super) fn doubt_ahead(&mut self) {
        for node in self.nodes.values_mut().filter(|node| node.is_ahead) {
            (node.is_ahead, node.slot.dirty) = (false, true);
        }
    }

    /// Nothing of the file is in the journal, or to be cut.
    fn stands_in_place(&self) -> bool {
        !self.is_journaled() && self.pending.lowest_cut().is_none() && !self.pending.has_punched()
    }

    /// A barrier that should have covered the file has failed. One that was never
    /// durable is written in place anew, header page and all: by what stands there
    /// a replay knows the file that a record is of. One that another barrier has
    /// covered is durable, and its header page is to say so.
    pub(crate) fn begin_anew(&mut self, barriers: &Barriers) {
        if !self.birth.is_durable() && self.birth.was_covered(barriers) {
            (self.birth, self.is_unsettled) = (Birth::Durable, true);
        }
        if self.birth.is_durable() {
            return self.retake(&[PageAddress::HEADER]);
        }
        match self.stands_in_place() {
            true => self.birth = Birth::Unwritten,
            false => self.home_is_lost = true,
        }
        let nodes = self.nodes.keys().map(|&number| PageAddress::node(GroupIndex(number)));
        let pages: Vec<PageAddress> = nodes.chain(self.maps.keys().copied()).collect();
        self.retake(&pages);
    }

    /// A commit of these pages has failed: they are to be written again.
    pub(crate) fn retake(&mut self, pages: &[PageAddress]) {
        for &address in pages {
            if let Some(mark) = self.mark(address) {
                *mark.dirty = true;
                *mark.in_flight = false;
            }
            if let Some(node) = self.node_at(address) {
                node.in_commit = None;
            }
        }
        self.pending.note_change();
    }

    /// A commit of these pages has succeeded.
    pub(super) fn note_committed(&mut self, pages: &[PageAddress]) {
        for &address in pages {
            if let Some(mark) = self.mark(address) {
                *mark.in_flight = false;
            }
            if let Some(node) = self.node_at(address) {
                node.note_committed();
            }
        }
    }

    fn node_at(&mut self, address: PageAddress) -> Option<&mut NodeSlot> {
        let is_node = matches!(address.kind, PageKind::Header | PageKind::Node);
        is_node.then(|| self.nodes.get_mut(&address.number))?
    }

    /// The newest image of a block is lost: the block is again what the last
    /// commit left, as far as that is known, and else reads as damaged.
    pub(super) fn revert(&mut self, block: BlockIndex) {
        self.journaled.newest.remove(block.0);
        let Some(node) = self.nodes.get_mut(&block.group().0) else { return };
        let before = node.before.as_ref().and_then(|before| before.entry(block.entry()));
        let (Some(before), Some(lost)) = (before, node.slot.page.entry(block.entry())) else { return };
        let page = &mut node.slot.page;
        page.clear_entry(block.entry());
        if page.set_entry(block.entry(), &before).is_err() {
            // Damaged, and not a hole.
            page.set_entry(block.entry(), &lost).expect("its session had a place");
        } else if let Some(place) = self.journaled.committed_block(block.0) {
            self.journaled.newest.insert(block.0, place);
        }
    }

    /// Drops clean pages when there are more than `limit` nodes in memory. The
    /// way to a node that stays, stays.
    pub(crate) fn evict(&mut self, limit: usize) {
        if self.nodes.len() <= limit {
            return;
        }
        self.nodes.retain(|&number, node| number == 0 || !node.evictable());
        let mut kept = HashSet::new();
        for number in self.nodes.keys() {
            let mut at = PageAddress::node(GroupIndex(*number)).map_above();
            while let Some(address) = at.filter(|address| kept.insert(*address)) {
                at = address.map_above();
            }
        }
        for (address, _) in self.maps.iter().filter(|(_, map)| !map.evictable()) {
            let mut at = Some(*address);
            while let Some(address) = at.filter(|address| kept.insert(*address)) {
                at = address.map_above();
            }
        }
        self.maps.retain(|address, _| kept.contains(address));
    }
}
