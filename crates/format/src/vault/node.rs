//! The sealed part of a header or node page (section 4.1): the entries of a
//! group's blocks, the write sessions that sealed them, and, in page 0, the
//! header fields.
//!
//! A [`Node`] keeps the page's own bytes, so decoding checks and copies once,
//! encoding copies, and reading an entry touches 29 bytes. Invariants: an id
//! stands in the session table exactly while an entry names it, no id stands
//! there twice, and holes are zero.

use strongroom_units::{GROUP_BLOCKS, MAX_PLAIN_LEN, PlainLen};

use super::geometry::HEADER_SLOTS;
use super::map::{Child, Token};
use super::page::{PageKind, SEALED_LEN};
use super::{DirectoryId, NONCE_LEN, TAG_LEN, WriteSession};
use crate::error::{FormatError, within, zero};
use crate::layout::layout;

layout! {
    /// The sealed part of a header or node page.
    sealed: super::SEALED_LEN;
    SEQUENCE = 0, 8, "sequence number";
    SESSIONS = 8, 192, "write sessions";
    ENTRIES = 200, 3712, "entries";
    HEADER = 3912, 112, "header fields";
}

layout! {
    /// An entry.
    entry: 29;
    SUFFIX = 0, 12, "nonce suffix";
    TAG = 12, 16, "tag";
    SESSION = 28, 1, "write session";
}

layout! {
    /// The header fields of page 0.
    fields: super::sealed::HEADER.len;
    PLAIN_LEN = 0, 8, "plain length";
    FLAGS = 8, 4, "flags";
    MAPS = 12, 21, "tokens";
    ZERO_1 = 33, 19, "zero";
    HOME = 52, 16, "home";
    HOME_BEFORE = 68, 16, "home before the last rename";
    BIRTH = 84, 12, "birth";
    DIRECTORY = 96, 16, "directory";
}

/// Entries of a node page, one per block of its group.
pub const ENTRIES: usize = GROUP_BLOCKS as usize;
/// Write sessions that a page's table holds.
pub const SESSIONS: usize = 16;

const FLAG_LINKED: u32 = 1;
const FLAG_SETTLED: u32 = 2;

const _: () = assert!(sealed::ENTRIES.len == ENTRIES * entry::LEN);
const _: () = assert!(fields::MAPS.len == HEADER_SLOTS * Token::LEN);
const _: () = assert!(sealed::SESSIONS.len == SESSIONS * WriteSession::LEN);
const _: () = assert!(WriteSession::LEN + entry::SUFFIX.len == NONCE_LEN && entry::TAG.len == TAG_LEN);

/// How a block is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First 12 bytes of the nonce. Never zero.
    pub session: WriteSession,
    /// Last 12 bytes of the nonce.
    pub suffix: [u8; entry::SUFFIX.len],
    /// The tag.
    pub tag: [u8; TAG_LEN],
}

impl Entry {
    /// From a whole nonce.
    #[must_use]
    pub fn new(nonce: &[u8; NONCE_LEN], tag: [u8; TAG_LEN]) -> Entry {
        let (session, suffix) = nonce.split_at(WriteSession::LEN);
        Entry {
            session: WriteSession(session.try_into().expect("the first twelve bytes")),
            suffix: suffix.try_into().expect("the last twelve bytes"),
            tag,
        }
    }

    /// The whole nonce.
    #[must_use]
    pub fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce[..WriteSession::LEN].copy_from_slice(&self.session.0);
        nonce[WriteSession::LEN..].copy_from_slice(&self.suffix);
        nonce
    }
}

/// The table of write sessions is full: some session's blocks must be sealed
/// again first, best those of [`Node::sparsest_session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

impl core::fmt::Display for TableFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the page's table of write sessions is full")
    }
}

impl std::error::Error for TableFull {}

/// What page 0 says of the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields {
    /// The file's plain length, at most [`MAX_PLAIN_LEN`].
    pub plain_len: PlainLen,
    /// The file has had more than one name, so its home binds nothing.
    pub linked: bool,
    /// The file has been made durable whole.
    pub settled: bool,
    /// The pages that hang from this one: map 0, middle map 0, the root map.
    pub maps: [Child; HEADER_SLOTS],
    /// Binds the file to its directory and name; zero when it has none.
    pub home: [u8; 16],
    /// The home before the last rename.
    pub home_before: [u8; 16],
    /// The write session that created the file.
    pub birth: WriteSession,
    /// The directory of the home, so that a directory's lost record can be
    /// made anew; zero when the file has no home.
    pub directory: DirectoryId,
}

impl HeaderFields {
    fn decode(bytes: &[u8]) -> Result<HeaderFields, FormatError> {
        zero("header fields", fields::ZERO_1.of(bytes), fields::ZERO_1.offset)?;
        let flags = fields::FLAGS.u32(bytes);
        within("file flags", u64::from(flags), 0, u64::from(FLAG_LINKED | FLAG_SETTLED))?;
        let mut maps = [Child::Absent; HEADER_SLOTS];
        for (child, token) in maps.iter_mut().zip(fields::MAPS.of(bytes).chunks_exact(Token::LEN)) {
            *child = Child::decode(token)?;
        }
        Ok(HeaderFields {
            plain_len: PlainLen(within("plain length", fields::PLAIN_LEN.u64(bytes), 0, MAX_PLAIN_LEN)?),
            linked: flags & FLAG_LINKED != 0,
            settled: flags & FLAG_SETTLED != 0,
            maps,
            home: fields::HOME.array(bytes),
            home_before: fields::HOME_BEFORE.array(bytes),
            birth: WriteSession(fields::BIRTH.array(bytes)),
            directory: DirectoryId(fields::DIRECTORY.array(bytes)),
        })
    }

    fn encode(&self, bytes: &mut [u8]) {
        let linked = if self.linked { FLAG_LINKED } else { 0 };
        let settled = if self.settled { FLAG_SETTLED } else { 0 };
        bytes.fill(0);
        fields::PLAIN_LEN.set(bytes, &self.plain_len.0.to_le_bytes());
        fields::FLAGS.set(bytes, &(linked | settled).to_le_bytes());
        let tokens = &mut bytes[fields::MAPS.range()];
        for (token, child) in tokens.chunks_exact_mut(Token::LEN).zip(self.maps) {
            token.copy_from_slice(&child.encode());
        }
        fields::HOME.set(bytes, &self.home);
        fields::HOME_BEFORE.set(bytes, &self.home_before);
        fields::BIRTH.set(bytes, &self.birth.0);
        fields::DIRECTORY.set(bytes, &self.directory.0);
    }
}

/// A header or node page in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    raw: Box<[u8; SEALED_LEN]>,
    /// Entries that name each session.
    uses: [u8; SESSIONS],
    is_header: bool,
}

impl Node {
    /// A node page of holes, with sequence number 0.
    #[must_use]
    pub fn new() -> Node {
        Node { raw: Box::new([0; SEALED_LEN]), uses: [0; SESSIONS], is_header: false }
    }

    /// A header page of holes, with sequence number 0.
    #[must_use]
    pub fn new_header(header: &HeaderFields) -> Node {
        let mut node = Node { is_header: true, ..Node::new() };
        node.set_header(header);
        node
    }

    /// Reads the opened sealed part of a page of `kind`, which is `Header` or
    /// `Node`.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it.
    pub fn decode(kind: PageKind, bytes: &[u8; SEALED_LEN]) -> Result<Node, FormatError> {
        let header = sealed::HEADER.of(bytes);
        match kind {
            PageKind::Header => drop(HeaderFields::decode(header)?),
            PageKind::Node => zero("header fields of a node page", header, sealed::HEADER.offset)?,
            PageKind::Map | PageKind::MiddleMap | PageKind::RootMap => {
                return Err(FormatError::Inconsistent { what: "a map page was read as a node page" });
            }
        }
        let uses = count_uses(sealed::ENTRIES.of(bytes))?;
        check_sessions(sealed::SESSIONS.of(bytes), &uses)?;
        Ok(Node { raw: Box::new(*bytes), uses, is_header: kind == PageKind::Header })
    }

    /// The sealed part, to be copied and sealed.
    #[must_use]
    pub fn encoded(&self) -> &[u8; SEALED_LEN] {
        &self.raw
    }

    /// `Header` or `Node`.
    #[must_use]
    pub fn kind(&self) -> PageKind {
        if self.is_header { PageKind::Header } else { PageKind::Node }
    }

    /// How often the page has been sealed.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        sealed::SEQUENCE.u64(&self.raw[..])
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u64) {
        sealed::SEQUENCE.set(&mut self.raw[..], &sequence.to_le_bytes());
    }

    /// The header fields; `None` in a node page.
    #[must_use]
    pub fn header(&self) -> Option<HeaderFields> {
        self.is_header
            .then(|| HeaderFields::decode(sealed::HEADER.of(&self.raw[..])).expect("checked when it came in"))
    }

    /// Sets the header fields.
    ///
    /// # Panics
    /// In a node page, or for a plain length above [`MAX_PLAIN_LEN`].
    pub fn set_header(&mut self, header: &HeaderFields) {
        assert!(self.is_header, "header fields stand in the header page alone");
        assert!(header.plain_len.0 <= MAX_PLAIN_LEN, "a file is at most 2^46 bytes long");
        header.encode(&mut self.raw[sealed::HEADER.range()]);
    }

    /// How block `index` of the group is sealed; `None` for a hole.
    ///
    /// # Panics
    /// When `index` is not below [`ENTRIES`], as in all functions that take one.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<Entry> {
        let session = self.session(self.session_of(index)?)?;
        let bytes = &self.raw[entry_range(index)];
        Some(Entry { session, suffix: entry::SUFFIX.array(bytes), tag: entry::TAG.array(bytes) })
    }

    /// True when block `index` of the group is a hole.
    #[must_use]
    pub fn is_hole(&self, index: usize) -> bool {
        self.session_of(index).is_none()
    }

    /// Notes that block `index` is sealed so. A session that no entry names
    /// any more leaves the table.
    ///
    /// # Errors
    /// [`TableFull`] when the session is new and there is no room; nothing has
    /// changed then.
    ///
    /// # Panics
    /// When the entry's session is zero.
    pub fn set_entry(&mut self, index: usize, entry: &Entry) -> Result<(), TableFull> {
        assert!(!entry.session.is_zero(), "a write session has an id");
        let place = match self.session_index(entry.session) {
            Some(place) => place,
            None => self.place_for_new_session(index).ok_or(TableFull)?,
        };
        self.clear_entry(index);
        self.raw[session_range(place)].copy_from_slice(&entry.session.0);
        self.uses[place] += 1;
        let bytes = &mut self.raw[entry_range(index)];
        entry::SUFFIX.set(bytes, &entry.suffix);
        entry::TAG.set(bytes, &entry.tag);
        entry::SESSION.set(bytes, &[place as u8 + 1]);
        Ok(())
    }

    /// Makes block `index` a hole.
    pub fn clear_entry(&mut self, index: usize) {
        let Some(place) = self.session_of(index) else { return };
        self.raw[entry_range(index)].fill(0);
        self.uses[place] -= 1;
        if self.uses[place] == 0 {
            self.raw[session_range(place)].fill(0);
        }
    }

    /// The session at `place` of the table; `None` when it is free.
    #[must_use]
    pub fn session(&self, place: usize) -> Option<WriteSession> {
        let bytes = self.raw[session_range(place)].try_into().expect("a session has twelve bytes");
        (self.uses[place] > 0).then_some(WriteSession(bytes))
    }

    /// Where `session` stands in the table; `None` when no entry names it.
    #[must_use]
    pub fn session_index(&self, session: WriteSession) -> Option<usize> {
        (0..SESSIONS).find(|&place| self.session(place) == Some(session))
    }

    /// True when any entry may be set to one of `session` without [`TableFull`].
    #[must_use]
    pub fn has_room_for(&self, session: WriteSession) -> bool {
        self.uses.contains(&0) || self.session_index(session).is_some()
    }

    /// The session that the fewest blocks name; `None` when all are holes.
    #[must_use]
    pub fn sparsest_session(&self) -> Option<WriteSession> {
        let used = (0..SESSIONS).filter(|&place| self.uses[place] > 0);
        used.min_by_key(|&place| self.uses[place]).and_then(|place| self.session(place))
    }

    /// The blocks of the group that `session` sealed.
    pub fn entries_of(&self, session: WriteSession) -> impl Iterator<Item = usize> + '_ {
        let place = self.session_index(session);
        (0..ENTRIES).filter(move |&index| place.is_some() && self.session_of(index) == place)
    }

    /// Blocks of the group that are no holes.
    #[must_use]
    pub fn live_entries(&self) -> usize {
        self.uses.iter().map(|&n| usize::from(n)).sum()
    }

    fn session_of(&self, index: usize) -> Option<usize> {
        let session = entry::SESSION.byte(&self.raw[entry_range(index)]);
        session.checked_sub(1).map(usize::from)
    }

    /// A place that is free, or will be once the entry at `index` is gone.
    fn place_for_new_session(&self, index: usize) -> Option<usize> {
        let free = self.uses.iter().position(|&n| n == 0);
        free.or_else(|| self.session_of(index).filter(|&place| self.uses[place] == 1))
    }
}

impl Default for Node {
    fn default() -> Node {
        Node::new()
    }
}

fn entry_range(index: usize) -> core::ops::Range<usize> {
    assert!(index < ENTRIES, "a group has 128 blocks");
    let start = sealed::ENTRIES.offset + index * entry::LEN;
    start..start + entry::LEN
}

fn session_range(place: usize) -> core::ops::Range<usize> {
    let start = sealed::SESSIONS.offset + place * WriteSession::LEN;
    start..start + WriteSession::LEN
}

/// Counts the entries of each session and refuses malformed ones.
fn count_uses(entries: &[u8]) -> Result<[u8; SESSIONS], FormatError> {
    let mut uses = [0; SESSIONS];
    for (index, bytes) in entries.chunks_exact(entry::LEN).enumerate() {
        match entry::SESSION.byte(bytes) {
            0 => zero("entry of a hole", bytes, sealed::ENTRIES.offset + index * entry::LEN)?,
            session => {
                within("write session of an entry", u64::from(session), 1, SESSIONS as u64)?;
                uses[usize::from(session) - 1] += 1;
            }
        }
    }
    Ok(uses)
}

/// Refuses ids that no entry names, entries that name no id, and ids that
/// stand twice.
fn check_sessions(table: &[u8], uses: &[u8; SESSIONS]) -> Result<(), FormatError> {
    let ids: Vec<&[u8]> = table.chunks_exact(WriteSession::LEN).collect();
    for (place, id) in ids.iter().enumerate() {
        let is_free = id.iter().all(|&b| b == 0);
        if is_free && uses[place] > 0 {
            return Err(FormatError::Inconsistent {
                what: "an entry names a write session that is not listed",
            });
        }
        if !is_free && uses[place] == 0 {
            return Err(FormatError::Inconsistent { what: "a write session is listed that no entry names" });
        }
        if !is_free && ids[..place].contains(id) {
            return Err(FormatError::Inconsistent { what: "a write session is listed twice" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry_of(session: u8, n: u8) -> Entry {
        Entry { session: WriteSession([session; 12]), suffix: [n; 12], tag: [!n; 16] }
    }

    fn header() -> HeaderFields {
        HeaderFields {
            plain_len: PlainLen(12345),
            linked: true,
            settled: false,
            maps: [Child::Sealed(Token::of(&[1; 16])), Child::Absent, Child::Sealed(Token::of(&[9; 16]))],
            home: [2; 16],
            home_before: [3; 16],
            birth: WriteSession([4; 12]),
            directory: DirectoryId([5; 16]),
        }
    }

    #[test]
    fn header_fields_come_back() {
        let node = Node::new_header(&header());
        let again = Node::decode(PageKind::Header, node.encoded()).expect("well-formed");
        assert_eq!(again.header(), Some(header()));
        assert_eq!(again, node);
        assert!(Node::decode(PageKind::Node, node.encoded()).is_err(), "a node page has no header fields");
        assert!(Node::decode(PageKind::Map, node.encoded()).is_err());
    }

    #[test]
    fn malformed_header_fields_are_refused() {
        let good = *Node::new_header(&header()).encoded();
        for (at, bad) in [(7, 1), (8, 4), (9, 1), (12, 2), (19, 2), (33, 1), (51, 1)] {
            let mut bytes = good;
            bytes[sealed::HEADER.offset + at] = bad;
            assert!(Node::decode(PageKind::Header, &bytes).is_err(), "byte {at} = {bad}");
        }
    }

    #[test]
    fn malformed_entries_and_sessions_are_refused() {
        let mut node = Node::new();
        node.set_entry(0, &entry_of(1, 1)).expect("room");
        node.set_entry(1, &entry_of(2, 2)).expect("room");
        let good = *node.encoded();
        assert_eq!(Node::decode(PageKind::Node, &good), Ok(node));
        let spoil = |change: &dyn Fn(&mut [u8; SEALED_LEN])| {
            let mut bytes = good;
            change(&mut bytes);
            Node::decode(PageKind::Node, &bytes)
        };
        let first = sealed::ENTRIES.offset;
        let hole = first + 2 * entry::LEN;
        assert!(spoil(&|b| b[first + 28] = 17).is_err(), "no such session");
        assert!(spoil(&|b| b[first + 28] = 3).is_err(), "a free session");
        assert!(spoil(&|b| b[first + 28] = 0).is_err(), "a hole that is not zero");
        assert!(spoil(&|b| b[hole] = 1).is_err(), "a hole that is not zero");
        assert!(spoil(&|b| b[sealed::SESSIONS.offset + 24] = 1).is_err(), "a session without entries");
        assert!(spoil(&|b| b[8..20].fill(0)).is_err(), "an entry of no session");
        assert!(spoil(&|b| b[8..20].fill(2)).is_err(), "a session listed twice");
    }

    #[test]
    fn a_full_table_takes_no_new_session_until_one_has_no_entries() {
        let mut node = Node::new();
        for session in 0..16 {
            node.set_entry(usize::from(session), &entry_of(session + 1, 0)).expect("room");
            node.set_entry(64 + usize::from(session), &entry_of(session + 1, 1)).expect("room");
        }
        let before = node.clone();
        let new = entry_of(99, 9);
        assert_eq!(node.set_entry(0, &new), Err(TableFull));
        assert_eq!(node, before);
        assert!(!node.has_room_for(new.session) && node.has_room_for(WriteSession([5; 12])));
        node.clear_entry(64);
        assert_eq!(node.sparsest_session(), Some(WriteSession([1; 12])));
        assert_eq!(node.entries_of(WriteSession([1; 12])).collect::<Vec<_>>(), [0]);
        // The last entry of a session makes room for its own successor.
        assert_eq!(node.set_entry(1, &new), Err(TableFull));
        assert_eq!(node.set_entry(0, &new), Ok(()));
        assert_eq!(node.entry(0), Some(new));
        assert_eq!(node.session_index(WriteSession([1; 12])), None);
        assert_eq!(node.live_entries(), 31);
    }

    #[test]
    fn a_nonce_is_its_session_and_its_suffix() {
        let nonce: [u8; 24] = core::array::from_fn(|i| i as u8);
        let entry = Entry::new(&nonce, [0; 16]);
        assert_eq!(entry.session.0, nonce[..12]);
        assert_eq!(entry.nonce(), nonce);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, u8, u8),
        Clear(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..ENTRIES, 1u8..30, any::<u8>()).prop_map(|(i, s, n)| Step::Set(i, s, n)),
            1 => (0..ENTRIES).prop_map(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn a_node_is_a_table_of_entries_and_stays_well_formed(steps in proptest::collection::vec(step(), 0..300)) {
            let mut node = Node::new();
            let mut model = [None; ENTRIES];
            for step in steps {
                match step {
                    Step::Set(i, s, n) => {
                        let others = (0..ENTRIES).filter(|&j| j != i).filter_map(|j| model[j]);
                        let mut sessions: Vec<_> = others.map(|e: Entry| e.session).collect();
                        sessions.sort_unstable();
                        sessions.dedup();
                        let fits = sessions.len() < SESSIONS || sessions.contains(&entry_of(s, n).session);
                        prop_assert_eq!(node.set_entry(i, &entry_of(s, n)).is_ok(), fits);
                        if fits {
                            model[i] = Some(entry_of(s, n));
                        }
                    }
                    Step::Clear(i) => {
                        node.clear_entry(i);
                        model[i] = None;
                    }
                }
            }
            prop_assert_eq!(node.live_entries(), model.iter().flatten().count());
            let again = Node::decode(PageKind::Node, node.encoded()).expect("well-formed");
            for (i, entry) in model.iter().enumerate() {
                prop_assert_eq!(&again.entry(i), entry);
            }
        }

        #[test]
        fn changed_bytes_decode_to_themselves_or_not_at_all(
            changes in proptest::collection::vec((0..SEALED_LEN, 0u8..20), 1..8),
        ) {
            let mut node = Node::new_header(&header());
            for i in 0..100 {
                node.set_entry(i, &entry_of(1 + i as u8 % 16, i as u8)).expect("room");
            }
            let mut bytes = *node.encoded();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            for kind in PageKind::ALL {
                if let Ok(node) = Node::decode(kind, &bytes) {
                    prop_assert_eq!(node.encoded(), &bytes);
                    let mut rebuilt = node.clone();
                    rebuilt.set_header(&node.header().expect("a header page"));
                    prop_assert_eq!(rebuilt.encoded(), &bytes);
                }
            }
        }
    }
}
