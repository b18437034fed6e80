//! Reading a journal: which records are valid, and what they say of each file
//! in the end. That of a session that has ended is read once, that of one
//! which goes on further and further.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::block::BlockContext;
use strongroom_format::vault::geometry::Parent;
use strongroom_format::vault::journal::{
    CLEAR_LEN, RecordHeader, SEGMENTS, SLOT_LEN, SegmentHeader, record_slots,
};
use strongroom_format::vault::map::Map;
use strongroom_format::vault::node::{Entry, HeaderFields, Node};
use strongroom_format::vault::record::{Change, Commit, Place, Record};
use strongroom_format::vault::{FileId, PageKind, WriteSession};
use strongroom_store::{NodeRef, Timestamp};
use strongroom_units::{BlockIndex, PAGE_LEN, PlainLen, StoredLen};

use super::Segments;
use crate::error::{Damage, Error, Result};
use crate::page::{OpenedPage, PageAddress, PageReader};
use crate::reader_rules::ReaderRule;
use crate::sealer::Purpose;

/// Slots that are read at once, 128 KiB: from memory that takes about as long as
/// their clear parts one by one, from a store that is asked each time much less.
const SLOTS_TOGETHER: usize = 32;

/// What a journal says of one file.
#[derive(Clone)]
pub(crate) struct Replayed {
    pub(crate) segments: Arc<Segments>,
    pub(crate) pages: BTreeMap<PageAddress, Place>,
    /// Images of blocks, with the entry each was sealed under.
    pub(crate) blocks: BTreeMap<u64, (Place, Entry)>,
    pub(crate) stored_len: StoredLen,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) path_hint: Vec<u8>,
    pub(crate) sequence: u64,
    /// The last record's tag, which tells it from all others.
    pub(crate) tag: [u8; 16],
}

/// What is needed to read a journal.
pub(crate) struct Reader<'a> {
    pub(crate) pages: PageReader<'a>,
}

/// A journal, how far it has been read, and what it says up to there.
pub(crate) struct Tail {
    pub(crate) segments: Arc<Segments>,
    /// The segments' headers; `None` for one that does not open.
    headers: [Option<SegmentHeader>; SEGMENTS as usize],
    /// In each segment, the slot from which more may come.
    from: [u32; SEGMENTS as usize],
    /// The next record's sequence number, and the tag of the one before.
    sequence: u64,
    chain: [u8; 16],
    /// It has been read once.
    begun: bool,
    pub(crate) files: HashMap<FileId, Arc<Replayed>>,
}

impl Tail {
    /// The number of the next record.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence
    }
}

/// What another look at a journal has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// Whatever records there are.
    Read,
    /// A segment is used again, or a barrier has failed and what it voided was
    /// taken: the journal is to be read anew.
    Anew,
    /// A record that was durable does not open any more; what it and those
    /// behind it said is lost.
    Damaged(Damage),
}

/// A record that opened, and where.
struct Found {
    header: RecordHeader,
    record: Record,
    place: Place,
}

impl Found {
    /// The slot behind it.
    fn end(&self) -> u32 {
        self.place.slot + record_slots(self.header.sealed_len)
    }
}

/// What a valid commit's images were found to be.
struct CommitImages {
    entries: Vec<Entry>,
    header: HeaderFields,
    maps: Vec<(PageAddress, Map)>,
}

impl Reader<'_> {
    /// The journal of a session by its open `segments`, not read yet.
    ///
    /// # Errors
    /// Damage when none of its headers opens, or what the store reported.
    pub(crate) fn begin(&self, segments: Arc<Segments>, session: WriteSession) -> Result<Tail> {
        let [first, second] = [0, 1].map(|index| segments.read_header(self.pages.sealer, index, session));
        let headers = [first?, second?];
        let begin = headers.iter().flatten().map(|(_, begin)| *begin).max_by_key(|begin| begin.next_sequence);
        let begin = begin.ok_or(Error::Damaged(Damage::Journal("no header of the journal opens")))?;
        Ok(Tail {
            segments,
            headers: headers.map(|header| header.map(|(header, _)| header)),
            from: [1; SEGMENTS as usize],
            sequence: begin.next_sequence,
            chain: begin.chain,
            begun: false,
            files: HashMap::new(),
        })
    }

    /// Adds to `files` what a journal that nobody writes to says of each.
    ///
    /// # Errors
    /// Damage, up to which the journal is read; what the store reported.
    pub(crate) fn read(
        &self,
        directory: &NodeRef,
        session: WriteSession,
        files: &mut HashMap<FileId, Arc<Replayed>>,
    ) -> Result<()> {
        let segments = Segments::open_listed(directory, session);
        let mut tail = match segments.and_then(|segments| self.begin(Arc::new(segments), session)) {
            Err(Error::Damaged(_)) if !ReaderRule::JournalPresent.is_kept() => return Ok(()),
            tail => tail?,
        };
        let advance = self.advance(&mut tail, [true; SEGMENTS as usize])?;
        files.extend(tail.files);
        match advance {
            Advance::Damaged(damage) => Err(Error::Damaged(damage)),
            Advance::Read | Advance::Anew => Ok(()),
        }
    }

    /// Reads on from where `tail` ends, in the segments that were `written` to.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn advance(&self, tail: &mut Tail, written: [bool; SEGMENTS as usize]) -> Result<Advance> {
        let mut found = BTreeMap::new();
        for (segment, header) in tail.headers.iter().enumerate().filter(|&(segment, _)| written[segment]) {
            if let Some(header) = header {
                let from = Place { segment: segment as u8, slot: tail.from[segment] };
                self.scan(&tail.segments, from, header, &mut found)?;
            }
        }
        let before: Vec<&Found> = found.range(..tail.sequence).flat_map(|(_, versions)| versions).collect();
        if tail.begun && !before.is_empty() {
            return Ok(Advance::Anew);
        }
        for known in before {
            let from = &mut tail.from[usize::from(known.place.segment)];
            *from = known.end().max(*from);
        }
        tail.begun = true;
        self.follow(tail, found)
    }

    /// Whether the segments' headers still are what they were when `tail` was
    /// begun. What a segment held under its header is then what was read.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn is_current(&self, tail: &Tail, session: WriteSession) -> Result<bool> {
        // A header that was kept since before would vouch for slots read since.
        tail.segments.refresh()?;
        for (segment, known) in tail.headers.iter().enumerate() {
            let now = tail.segments.read_header(self.pages.sealer, segment as u8, session)?;
            if now.map(|(header, _)| header.epoch) != known.as_ref().map(|header| header.epoch) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Collects every record of a segment's epoch that opens, from a slot on.
    fn scan(
        &self,
        segments: &Segments,
        from: Place,
        header: &SegmentHeader,
        found: &mut BTreeMap<u64, Vec<Found>>,
    ) -> Result<()> {
        let mut bytes = vec![0; SLOTS_TOGETHER * SLOT_LEN];
        for first in (from.slot..header.slots).step_by(SLOTS_TOGETHER) {
            let wanted = SLOTS_TOGETHER.min((header.slots - first) as usize) * SLOT_LEN;
            let read = segments.read(Place { slot: first, ..from }, &mut bytes[..wanted])?;
            for (slot, bytes) in (first..).zip(bytes[..read].chunks(SLOT_LEN)) {
                let Some(clear) = bytes.first_chunk::<CLEAR_LEN>() else { break };
                let Ok(record) = RecordHeader::decode(clear) else { continue };
                if record.epoch != header.epoch {
                    continue;
                }
                let place = Place { slot, ..from };
                if let Some(opened) = self.open_record(segments, place, header.session, &record)? {
                    let opened = Found { header: record, record: opened, place };
                    found.entry(opened.header.sequence).or_default().push(opened);
                }
            }
            if read < wanted {
                break;
            }
        }
        Ok(())
    }

    fn open_record(
        &self,
        segments: &Segments,
        place: Place,
        session: WriteSession,
        header: &RecordHeader,
    ) -> Result<Option<Record>> {
        let mut buffer = Buffer::new(CLEAR_LEN + header.sealed_len);
        if segments.read(place, &mut buffer)? < buffer.len() {
            return Ok(None);
        }
        let associated = header.associated_data(session, place.slot);
        let opened = self.pages.sealer.open_one(
            Purpose::Journal,
            &mut buffer,
            CLEAR_LEN..CLEAR_LEN + header.sealed_len,
            header.nonce,
            header.tag,
            &associated,
        )?;
        Ok(opened.then(|| Record::decode(&buffer[CLEAR_LEN..]).ok()).flatten())
    }

    /// Takes the records in order up to the first that is not valid.
    fn follow(&self, tail: &mut Tail, mut found: BTreeMap<u64, Vec<Found>>) -> Result<Advance> {
        // Where a barrier had failed, what it voided may be there beside what
        // was appended in its stead: the later one counts.
        for versions in found.values_mut() {
            versions.sort_unstable_by_key(|version| (version.header.epoch, version.place.slot));
        }
        let is_promised = |sequence: u64| {
            // Whoever wrote a later record knew what was durable by then.
            found.range(sequence..).flat_map(|(_, later)| later).any(|later| later.record.durable >= sequence)
        };
        while let Some(versions) = found.get(&tail.sequence) {
            let mut taken = None;
            let chain = tail.chain;
            let follows = |next: &&Found| next.record.chain == chain || !ReaderRule::RecordChain.is_kept();
            for next in versions.iter().rev().filter(follows) {
                if self.take(tail, next)? {
                    taken = Some(next);
                    break;
                }
                if is_promised(tail.sequence) {
                    break;
                }
            }
            let Some(next) = taken else { break };
            tail.chain = next.header.tag;
            tail.sequence += 1;
            tail.from[usize::from(next.place.segment)] = next.end();
        }
        Ok(match is_promised(tail.sequence) && ReaderRule::RecordDurable.is_kept() {
            true => Advance::Damaged(Damage::Journal(
                "a record of the journal that was durable does not open any more",
            )),
            false => Advance::Read,
        })
    }

    /// Notes what a record says; false when it is not valid.
    fn take(&self, tail: &mut Tail, found: &Found) -> Result<bool> {
        match &found.record.change {
            Change::Removal(file) => {
                tail.files.remove(file);
            }
            Change::Commit(commit) => {
                let Some(images) = self.open_images(&tail.segments, commit)? else { return Ok(false) };
                let segments = &tail.segments;
                let file = tail
                    .files
                    .entry(commit.file)
                    .or_insert_with(|| Arc::new(Replayed::empty(Arc::clone(segments))));
                Arc::make_mut(file).take(commit, images, &found.header);
            }
        }
        Ok(true)
    }

    /// Opens every image that a commit names; `None` when one does not open.
    fn open_images(&self, segments: &Segments, commit: &Commit) -> Result<Option<CommitImages>> {
        let mut nodes = HashMap::new();
        let mut maps = Vec::new();
        let mut generations = BTreeSet::new();
        for page in &commit.pages {
            let address = PageAddress { kind: page.kind, number: page.number };
            let mut buffer = Buffer::new(PAGE_LEN);
            segments.read(page.place, &mut buffer)?;
            let Some(opened) = self.open_page(buffer, address, commit.file)? else { return Ok(None) };
            if opened.header.tag != page.tag && ReaderRule::ImageTag.is_kept() {
                return Ok(None);
            }
            generations.insert(opened.header.generation);
            match page.kind {
                PageKind::Header | PageKind::Node => {
                    let Ok(node) = Node::decode(page.kind, opened.sealed()) else { return Ok(None) };
                    nodes.insert(page.number, node);
                }
                PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => {
                    let Ok(map) = Map::decode(page.kind, opened.sealed()) else { return Ok(None) };
                    maps.push((address, map));
                }
            }
        }
        // Every commit changes the header page.
        let Some(header) = nodes.get(&0).and_then(Node::header) else { return Ok(None) };
        let plain_len = header.plain_len;
        // A file is of one generation.
        let (Some(&generation), 1) = (generations.first(), generations.len()) else { return Ok(None) };
        let context =
            BlockContext::new(self.pages.suite, self.pages.geometry.block_size(), generation, commit.file);
        let mut entries = Vec::with_capacity(commit.blocks.len());
        for image in &commit.blocks {
            let node = nodes.get(&image.block.group().0);
            let Some(entry) = node.and_then(|node| node.entry(image.block.entry())) else {
                return Ok(None);
            };
            if !self.open_block(segments, &context, image.block, image.place, plain_len, &entry)? {
                return Ok(None);
            }
            entries.push(entry);
        }
        Ok(Some(CommitImages { entries, header, maps }))
    }

    fn open_page(&self, buffer: Buffer, address: PageAddress, file: FileId) -> Result<Option<OpenedPage>> {
        match self.pages.open(buffer, address, Some(file)) {
            Ok(page) => Ok(Some(page)),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_block(
        &self,
        segments: &Segments,
        context: &BlockContext,
        block: BlockIndex,
        place: Place,
        plain_len: PlainLen,
        entry: &Entry,
    ) -> Result<bool> {
        let len = self.pages.geometry.block_size().block_len(block, plain_len);
        let mut buffer = Buffer::new(len);
        if segments.read(place, &mut buffer)? < len {
            return Ok(false);
        }
        let associated = context.at(block);
        self.pages.sealer.open_one(
            Purpose::Blocks(context.generation()),
            &mut buffer,
            0..len,
            entry.nonce(),
            entry.tag,
            &associated,
        )
    }
}

impl Replayed {
    fn empty(segments: Arc<Segments>) -> Replayed {
        Replayed {
            segments,
            pages: BTreeMap::new(),
            blocks: BTreeMap::new(),
            stored_len: StoredLen(SLOT_LEN as u64),
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            path_hint: Vec::new(),
            sequence: 0,
            tag: [0; 16],
        }
    }

    /// A later commit's word counts.
    fn take(&mut self, commit: &Commit, images: CommitImages, record: &RecordHeader) {
        for page in &commit.pages {
            self.pages.insert(PageAddress { kind: page.kind, number: page.number }, page.place);
        }
        for (image, entry) in commit.blocks.iter().zip(images.entries) {
            self.blocks.insert(image.block.0, (image.place, entry));
        }
        self.void_absent(&images.header, &images.maps);
        self.stored_len = commit.stored_len;
        self.accessed = time(commit.accessed);
        self.modified = time(commit.modified);
        self.path_hint.clone_from(&commit.path_hint);
        self.sequence = record.sequence;
        self.tag = record.tag;
    }
}

impl Replayed {
    /// Images of pages that a commit no longer lists as present are void: a
    /// later commit may have put a page of that number home without one.
    fn void_absent(&mut self, header: &HeaderFields, maps: &[(PageAddress, Map)]) {
        self.pages.retain(|&address, _| !is_absent(address, header, maps));
    }
}

/// Whether a commit says that there is no such page. Of a map that it does not
/// write, it says nothing new.
fn is_absent(address: PageAddress, header: &HeaderFields, maps: &[(PageAddress, Map)]) -> bool {
    match address.parent() {
        None => false,
        Some(Parent::Header { slot }) => !header.maps[slot].is_present(),
        Some(Parent::Map { kind, number, slot }) => {
            let above = PageAddress { kind, number };
            match maps.iter().find(|(at, _)| *at == above) {
                Some((_, map)) => !map.child(slot).is_present(),
                None => is_absent(above, header, maps),
            }
        }
    }
}

fn time(time: strongroom_format::vault::record::Timestamp) -> Timestamp {
    Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}
